//! A session with a server that returns one Node and records the patches.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rdma_health_instrument::Registry;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::kind::ConditionKind;
use crate::{Metrics, condition::Status, test_access::access};

/// Paths without their query, and bodies.
type Patches = Arc<Mutex<Vec<(String, Value)>>>;

/// Answers the first request with this status and all others with the Node.
async fn serve(listener: TcpListener, node: Value, patches: Patches, first: StatusCode) {
    let first = Arc::new(Mutex::new(Some(first)));
    while let Ok((stream, _)) = listener.accept().await {
        let (node, patches, first) = (node.clone(), Arc::clone(&patches), Arc::clone(&first));
        let service = service_fn(move |request: Request<Incoming>| {
            let (node, patches, first) = (node.clone(), Arc::clone(&patches), Arc::clone(&first));
            async move {
                let path = request.uri().path().to_owned();
                let changes = request.method() == Method::PATCH;
                let body = request.into_body().collect().await?.to_bytes();
                if changes {
                    let body = serde_json::from_slice(&body).unwrap_or_default();
                    patches
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((path, body));
                }
                let mut answer = Response::new(Full::new(Bytes::from(node.to_string())));
                let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
                *answer.status_mut() = first.unwrap_or_default();
                Ok::<_, hyper::Error>(answer)
            }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

fn session(directory: &Path, server: SocketAddr) -> Session {
    let config = SessionConfig {
        node: "n".into(),
        events: false,
        force: false,
        types: ConditionType::all([]),
    };
    let api = Api::new(
        access(directory, server),
        Arc::new(Metrics::new(&Registry::new())),
    );
    Session::new(api, config, Instant::now())
}

fn no_problem() -> Condition {
    Condition {
        kind: ConditionKind::Link.into(),
        status: Status::False,
        reason: "NoLinkProblem".into(),
        message: String::new(),
    }
}

/// The patches to a Node with labels, which may be `tainted`; the status comes first.
async fn patched(
    tainted: bool,
    labels: &[(&'static str, Option<&str>)],
    taint: TaintChange,
) -> Vec<(String, Value)> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let address = listener.local_addr().unwrap();
    let taints = if tainted {
        json!([{"key": TAINT, "value": "probe-failed", "effect": "NoExecute"}])
    } else {
        json!([])
    };
    let node = json!({
        "metadata": {"name": "n", "uid": "u", "labels": {"verdict": "critical", "other": "theirs"}},
        "spec": {"taints": taints},
    });
    let patches = Patches::default();
    let server = tokio::spawn(serve(listener, node, Arc::clone(&patches), StatusCode::OK));

    let mut session = session(directory.path(), address);
    let labels = labels.iter().map(|(key, value)| (*key, value.map(str::to_owned)));
    let labels_and_taint = LabelsAndTaint {
        labels: labels.collect(),
        taint: Some(taint),
    };
    session.observe(vec![no_problem()], labels_and_taint, Instant::now());
    // The Node is read, its conditions are written, and then its taint is updated.
    let written = async {
        loop {
            let next = session.drive().await;
            if next > Instant::now() && session.reported_problem().is_some() {
                return;
            }
            tokio::time::sleep_until(next.into()).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), written)
        .await
        .unwrap();
    server.abort();
    let mut patches = std::mem::take(&mut *patches.lock().unwrap_or_else(PoisonError::into_inner));
    patches.sort_by(|one, other| other.0.cmp(&one.0));
    patches
}

#[tokio::test]
async fn a_value_that_is_not_known_yet_stays_as_the_node_has_it() {
    for tainted in [false, true] {
        let labels = [("verdict", None), ("iommu", Some("none")), ("absent", None)];
        let patches = patched(tainted, &labels, TaintChange::Keep).await;
        let (path, body) = &patches[0];
        assert_eq!(path, "/api/v1/nodes/n/status");
        // Server-side apply removes what the patch leaves out.
        assert_eq!(
            body["metadata"]["labels"],
            json!({"verdict": "critical", "iommu": "none"})
        );
        assert_eq!(patches.len(), 1, "{patches:?}");
    }
}

#[tokio::test]
async fn known_values_are_written() {
    let labels = [("verdict", Some("ok"))];
    let patches = patched(true, &labels, TaintChange::Remove).await;
    assert_eq!(patches[0].1["metadata"]["labels"], json!({"verdict": "ok"}));
    assert_eq!(patches.len(), 2, "{patches:?}");
    let (path, body) = &patches[1];
    assert_eq!(path, "/api/v1/nodes/n");
    assert_eq!(body["spec"]["taints"], json!([]));
}

#[tokio::test]
async fn trouble_is_over_once_the_node_is_written_and_not_when_it_is_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut session = session(directory.path(), listener.local_addr().unwrap());
    let node = json!({"metadata": {"name": "n", "uid": "u"}});
    let patches = Patches::default();
    let server = tokio::spawn(serve(listener, node, Arc::clone(&patches), StatusCode::NOT_FOUND));
    session.observe(vec![no_problem()], LabelsAndTaint::default(), Instant::now());
    let found = async {
        while session.known.is_none() {
            let next = session.drive().await;
            tokio::time::sleep_until(next.into()).await;
        }
        assert!(!session.is_well(), "the Node is there without the condition");
        while !session.is_well() {
            let next = session.drive().await;
            tokio::time::sleep_until(next.into()).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found)
        .await
        .unwrap();
    server.abort();
    let patches = patches.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(patches.len(), 1, "{patches:?}");
}

/// Answers every patch that has `what` with a conflict about `field`, and everything else with the Node.
async fn contest(listener: TcpListener, patches: Patches, what: &'static str, field: &'static str) {
    let refusal = json!({"kind": "Status", "code": 409, "reason": "Conflict", "message": "conflict with \"other\"", "details": {"causes": [
        {"reason": "FieldManagerConflict", "field": field}
    ]}});
    while let Ok((stream, _)) = listener.accept().await {
        let (refusal, patches) = (refusal.clone(), Arc::clone(&patches));
        let service = service_fn(move |request: Request<Incoming>| {
            let (refusal, patches) = (refusal.clone(), Arc::clone(&patches));
            async move {
                let (path, changes) = (request.uri().path().to_owned(), request.method() == Method::PATCH);
                let bytes = request.into_body().collect().await?.to_bytes();
                let written: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                let conflicts = changes && written.to_string().contains(what);
                let node = json!({"metadata": {"name": "n", "uid": "u"}});
                let body = if conflicts { refusal } else { node };
                let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
                if changes {
                    let mut patches = patches.lock().unwrap_or_else(PoisonError::into_inner);
                    patches.push((path, written));
                }
                if conflicts {
                    *answer.status_mut() = StatusCode::CONFLICT;
                }
                Ok::<_, hyper::Error>(answer)
            }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

#[tokio::test]
async fn a_label_of_another_controller_does_not_keep_the_conditions_from_being_written() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut session = session(directory.path(), listener.local_addr().unwrap());
    let patches = Patches::default();
    let field = ".metadata.labels.state.rdma-health.io/verdict";
    let server = tokio::spawn(contest(
        listener,
        Arc::clone(&patches),
        "state.rdma-health.io/verdict",
        field,
    ));
    let labels = ["state.rdma-health.io/verdict", "state.rdma-health.io/iommu"];
    let labels_and_taint = LabelsAndTaint {
        labels: labels.map(|key| (key, Some("ok".to_owned()))).into(),
        taint: None,
    };
    session.observe(vec![no_problem()], labels_and_taint, Instant::now());
    let written = async {
        while session.reported_problem().is_none() {
            let next = session.drive().await;
            tokio::time::sleep_until(next.into()).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), written)
        .await
        .unwrap();
    server.abort();
    let patches = patches.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(patches.len(), 2, "{patches:?}");
    assert_eq!(
        patches[1].1["metadata"]["labels"],
        json!({"state.rdma-health.io/iommu": "ok"})
    );
}

#[tokio::test]
async fn a_conflict_about_a_condition_that_is_not_written_any_more_is_retried_seldom() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut session = session(directory.path(), listener.local_addr().unwrap());
    let patches = Patches::default();
    let server = tokio::spawn(contest(
        listener,
        Arc::clone(&patches),
        "conditions",
        ".status.conditions[type=\"RDMALinkProblem\"].status",
    ));
    let other = Condition {
        kind: ConditionKind::Iommu.into(),
        ..no_problem()
    };
    session.observe(
        vec![no_problem(), other],
        LabelsAndTaint::default(),
        Instant::now(),
    );
    let _ = tokio::time::timeout(Duration::from_secs(3), async {
        loop {
            let next = session.drive().await;
            tokio::time::sleep_until(next.into()).await;
        }
    })
    .await;
    server.abort();
    let number = patches.lock().unwrap_or_else(PoisonError::into_inner).len();
    assert!((2..=6).contains(&number), "{number} writes in three seconds");
}
