//! A simulated API server whose pod proxy answers for the agents, some of which fail.

#![allow(clippy::print_stdout)] // a measurement

use std::{
    convert::Infallible,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use http_body_util::Full;
use hyper::{
    Response,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use crate::test_access::access;

/// What an agent takes to answer through the proxy.
const DELAY: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Cluster {
    nodes: usize,
    /// Agents asked at the same time, now and at most.
    asked: AtomicUsize,
    most_asked: AtomicUsize,
    throttled: Mutex<std::collections::BTreeSet<usize>>,
}

fn page(nodes: usize, query: &str, items: impl Fn(usize) -> Vec<Value>) -> Value {
    let from: usize = query
        .split('&')
        .find_map(|part| part.strip_prefix("continue="))
        .map_or(0, |token| token.parse().unwrap());
    let until = (from + 100).min(nodes);
    let next = if until < nodes {
        until.to_string()
    } else {
        String::new()
    };
    json!({"metadata": {"continue": next}, "items": (from..until).flat_map(items).collect::<Vec<_>>()})
}

fn node(n: usize) -> Value {
    // As large as that of a real node.
    let images: Vec<_> = (0..50)
        .map(|i| json!({"names": [format!("registry.example/{i}@sha256:{:064}", i)], "sizeBytes": i}))
        .collect();
    json!({
        "metadata": {"name": format!("gpu-{n:05}"), "labels": {"karpenter.sh/nodepool": format!("pool-{}", n % 4)}},
        "status": {"nodeInfo": {"kernelVersion": "6.1.0-37-amd64"}, "images": images},
    })
}

fn pod(n: usize) -> Value {
    json!({
        "metadata": {"name": format!("rdma-health-{n}"), "namespace": "rdma-health"},
        "spec": {
            "nodeName": format!("gpu-{n:05}"),
            "containers": [{"name": "agent", "ports": [{"name": if n % 1000 == 7 { "http" } else { "metrics" }, "containerPort": 14791}]}],
        },
        "status": {"phase": if n % 1000 == 6 { "Pending" } else { "Running" }},
    })
}

/// The pods of a node: of two, one is being deleted, and does not answer.
fn pods(n: usize) -> Vec<Value> {
    let mut leaving = pod(n);
    leaving["metadata"]["name"] = "rdma-health-leaving".into();
    leaving["metadata"]["deletionTimestamp"] = "2026-11-28T20:00:00Z".into();
    match n % 1000 {
        8 => vec![leaving, pod(n)],
        9 => vec![pod(n), leaving],
        _ => vec![pod(n)],
    }
}

/// One node in a thousand fails in each of these ways.
async fn agent(cluster: &Cluster, n: usize) -> (u16, String) {
    let now = cluster.asked.fetch_add(1, Ordering::SeqCst) + 1;
    cluster.most_asked.fetch_max(now, Ordering::SeqCst);
    tokio::time::sleep(DELAY).await;
    if n % 1000 == 1 {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    cluster.asked.fetch_sub(1, Ordering::SeqCst);
    match n % 1000 {
        2 => (401, "password required".into()),
        3 => (200, "x".repeat(1 << 20)),
        4 => (
            503,
            json!({"kind": "Status", "message": "error trying to reach service"}).to_string(),
        ),
        5 if cluster
            .throttled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(n) =>
        {
            (429, String::new())
        }
        _ => (200, json!({"status": "ok", "problems": []}).to_string()),
    }
}

async fn serve(listener: TcpListener, cluster: Arc<Cluster>) {
    while let Ok((stream, _)) = listener.accept().await {
        let cluster = Arc::clone(&cluster);
        let service = service_fn(move |request: Request<Incoming>| {
            let cluster = Arc::clone(&cluster);
            async move {
                let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
                let (code, body) = match path {
                    "/api/v1/nodes" => (200, page(cluster.nodes, query, |n| vec![node(n)]).to_string()),
                    "/api/v1/pods" => (200, page(cluster.nodes - 1, query, pods).to_string()),
                    _ => {
                        let name = path.strip_prefix("/api/v1/namespaces/rdma-health/pods/rdma-health-");
                        let name = name.and_then(|rest| rest.strip_suffix(":14791/proxy/api/v1/verdict"));
                        match name.and_then(|n| n.parse().ok()) {
                            Some(n) => agent(&cluster, n).await,
                            None => (404, String::new()),
                        }
                    }
                };
                let mut response = Response::new(Full::new(Bytes::from(body)));
                *response.status_mut() = hyper::StatusCode::from_u16(code).unwrap();
                Ok::<_, Infallible>(response)
            }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

/// Asks every agent of a cluster of this size. Returns the answers in order of nodes, and the most asked at once.
async fn asked(nodes: usize, timeout: Duration) -> (Vec<Result<Vec<u8>, String>>, usize) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let access = access(directory.path(), address);
    let cluster = Arc::new(Cluster {
        nodes,
        ..Cluster::default()
    });
    // In a separate thread, because the server of a cluster has its own processors.
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let served = Arc::clone(&cluster);
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            tokio::select! {
                () = serve(listener, served) => {}
                _ = ended => {}
            }
        });
    });
    let options = FleetOptions {
        access,
        namespace: None,
        pods: "app.kubernetes.io/name=rdma-health".into(),
        tls: false,
        concurrency: 64,
        timeout,
    };
    let begun = Instant::now();
    let fleet = Fleet::find(&options, "", None).await.unwrap();
    let listed = begun.elapsed();
    assert_eq!(fleet.nodes.len(), nodes);
    let mut answers = vec![Err(String::new()); nodes];
    fleet
        .ask("/api/v1/verdict", 64 << 10, |(n, answer)| answers[n] = answer)
        .await;
    let answered = answers.iter().filter(|answer| answer.is_ok()).count();
    println!(
        "{answered} of {nodes} nodes answered; lists {listed:?}, all {:?}",
        begun.elapsed()
    );
    drop(end);
    thread.join().unwrap();
    (answers, cluster.most_asked.load(Ordering::SeqCst))
}

#[tokio::test]
async fn each_missing_answer_has_its_reason_and_the_others_arrive() {
    let nodes = 300;
    let (answers, most) = asked(nodes, Duration::from_secs(3)).await;
    let why = |n: usize| answers[n].clone().unwrap_err();
    assert!(why(1).contains("no answer within 3 s"), "{}", why(1));
    assert!(why(2).contains("requires a password"), "{}", why(2));
    assert!(why(3).contains("more than 65536 bytes"), "{}", why(3));
    assert!(
        why(4).contains("cannot reach the agent (503): error trying to reach service"),
        "{}",
        why(4)
    );
    assert!(
        answers[5].is_ok(),
        "a throttled request is repeated: {:?}",
        answers[5]
    );
    assert!(
        answers[8].is_ok() && answers[9].is_ok(),
        "of two pods, the one that stays"
    );
    assert!(why(6).contains("the agent's pod is Pending"), "{}", why(6));
    assert!(why(7).contains("no port named metrics"), "{}", why(7));
    assert!(why(nodes - 1).contains("no agent runs"), "{}", why(nodes - 1));
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 7);
    assert!(most <= 64, "{most}");
}

#[tokio::test]
#[ignore = "a measurement: cargo test --release -p rdma-health-kubernetes --lib fleet -- --ignored --nocapture"]
async fn five_thousand_nodes() {
    let (answers, _) = asked(5000, Duration::from_secs(3)).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 31);
}

#[test]
fn what_a_user_types_cannot_leave_its_place_in_a_query() {
    assert_eq!(escaped("a=b,c&limit=1 ä"), "a%3Db%2Cc%26limit%3D1%20%C3%A4");
    assert!(is_name("rdma-health-x7k2p") && !is_name("../secrets") && !is_name("a/b"));
}

#[test]
fn a_refusal_of_the_api_server_differs_from_one_of_the_agent() {
    let server = json!({"kind": "Status", "message": "pods is forbidden"}).to_string();
    assert!(refusal(403, server.as_bytes()).contains("pods/proxy"));
    assert!(refusal(401, b"no").contains("requires a password"));
    assert!(refusal(403, b"no certificate").contains("status 403: no certificate"));
    assert_eq!(refusal(502, b""), "the API server cannot reach the agent (502)");
    let proxy = "Error trying to reach service: 'dial tcp 10.0.0.1:14791: connect: connection refused'";
    assert_eq!(
        refusal(503, proxy.as_bytes()),
        format!("the API server cannot reach the agent (503): {proxy}")
    );
    let server = json!({"kind": "Status", "message": "error dialing backend"}).to_string();
    assert_eq!(
        refusal(502, server.as_bytes()),
        "the API server cannot reach the agent (502): error dialing backend"
    );
    assert_eq!(
        refusal(503, b"no snapshot: too slow\n"),
        "the agent answered with status 503: no snapshot: too slow"
    );
}

#[test]
fn the_port_is_that_of_the_agents_container() {
    let of = |pod: Value| serde_json::from_value::<PodObject>(pod).unwrap().port();
    let pod = json!({"spec": {"containers": [
        {"name": "other", "ports": [{"name": "metrics", "containerPort": 1}]},
        {"name": "agent", "ports": [{"name": "metrics", "containerPort": 14791}]},
    ]}});
    assert_eq!(of(pod), Some(14791));
    assert_eq!(of(json!({})), None);
}
