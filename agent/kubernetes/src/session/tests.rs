//! A session with a server that returns one Node and records the patches.

use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response,
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

async fn serve(listener: TcpListener, node: Value, patches: Patches) {
    while let Ok((stream, _)) = listener.accept().await {
        let (node, patches) = (node.clone(), Arc::clone(&patches));
        let service = service_fn(move |request: Request<Incoming>| {
            let (node, patches) = (node.clone(), Arc::clone(&patches));
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
                let answer = Full::new(Bytes::from(node.to_string()));
                Ok::<_, hyper::Error>(Response::new(answer))
            }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
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
    let access = access(directory.path(), listener.local_addr().unwrap());
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
    let server = tokio::spawn(serve(listener, node, Arc::clone(&patches)));

    let config = SessionConfig {
        node: "n".into(),
        events: false,
        force: false,
        types: ConditionType::all([]),
    };
    let api = Api::new(access, Arc::new(Metrics::new(&Registry::new())));
    let mut session = Session::new(api, config, Instant::now());
    let condition = Condition {
        kind: ConditionKind::Link.into(),
        status: Status::False,
        reason: "NoLinkProblem".into(),
        message: String::new(),
    };
    let labels = labels.iter().map(|(key, value)| (*key, value.map(str::to_owned)));
    let labels_and_taint = LabelsAndTaint {
        labels: labels.collect(),
        taint: Some(taint),
    };
    session.observe(vec![condition], labels_and_taint, Instant::now());
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
