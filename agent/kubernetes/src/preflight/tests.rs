//! A preflight of servers that do not end.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rdma_health_preflight::preflight;
use tokio::net::TcpListener;

use super::*;
use crate::test_access::access;

/// What a server answers to a path; `None` if it never answers.
type Answers = fn(&str) -> Option<Value>;

/// Serves for ever, and remembers the paths.
async fn serve(listener: TcpListener, answers: Answers, asked: Arc<Mutex<Vec<String>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let asked = Arc::clone(&asked);
        let service = service_fn(move |request: Request<Incoming>| {
            let path = request.uri().path().to_owned();
            asked
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(path.clone());
            async move {
                match answers(&path) {
                    Some(answer) => {
                        Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(answer.to_string()))))
                    }
                    None => std::future::pending().await,
                }
            }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

/// What was read from such a server, and what it was asked.
async fn read_from(answers: Answers, limit: Duration) -> (Cluster, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let access = access(directory.path(), listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let api = Api::new(access, Arc::new(Metrics::new(&Registry::new())));
    let found = tokio::select! {
        () = serve(listener, answers, Arc::clone(&asked)) => unreachable!("it has no end"),
        found = read_within(api, "team-a", None, limit) => found.unwrap(),
    };
    let asked = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (found.0, asked)
}

fn is_not_read(cluster: &Cluster, words: &str) {
    let report = preflight(cluster, None);
    assert_eq!(report.exit_status(), 3, "{report:#?}");
    let about = |one: &rdma_health_preflight::NotChecked| one.why.contains(words);
    assert!(report.not_checked.iter().any(about), "{words}: {report:#?}");
}

#[tokio::test]
async fn a_list_that_repeats_a_page_ends_and_is_reported() {
    let answers: Answers = |path| {
        let list = path.ends_with('s') && !path.ends_with("/team-a");
        Some(json!({"metadata": if list { json!({"continue": "abc"}) } else { json!({}) }, "items": []}))
    };
    let (cluster, asked) = read_from(answers, Duration::from_secs(60)).await;
    is_not_read(&cluster, "the list of pods repeats a page");
    let of_nodes = asked.iter().filter(|path| *path == "/api/v1/nodes").count();
    assert_eq!(of_nodes, 2, "{asked:?}");
}

#[tokio::test]
async fn pages_without_end_are_bounded_by_one_deadline_for_everything() {
    static PAGES: AtomicUsize = AtomicUsize::new(0);
    // Each page has another token, and is empty.
    let answers: Answers = |path| {
        let token = PAGES.fetch_add(1, Ordering::Relaxed).to_string();
        let list = !path.ends_with("/team-a");
        Some(json!({"metadata": if list { json!({"continue": token}) } else { json!({}) }, "items": []}))
    };
    let (cluster, asked) = read_from(answers, Duration::from_millis(300)).await;
    is_not_read(&cluster, "did not answer everything within 300ms");
    assert!(!asked.iter().any(|path| path == "/api/v1/nodes"), "{asked:?}");
}

#[tokio::test]
async fn a_server_that_stops_answering_leaves_the_rest_unchecked() {
    let answers: Answers = |path| {
        path.ends_with("/team-a")
            .then(|| json!({"metadata": {"name": "team-a"}}))
    };
    let (cluster, _) = read_from(answers, Duration::from_millis(300)).await;
    is_not_read(&cluster, "did not answer everything within 300ms");
}

#[tokio::test]
async fn only_the_kinds_that_a_cluster_has_are_listed() {
    let answers: Answers = |path| {
        Some(match path {
            "/apis" => json!({"groups": [
                {"name": "kubeflow.org", "versions": [{"version": "v1"}, {"version": "v2beta1"}], "preferredVersion": {"version": "v1"}},
                {"name": "leaderworkerset.x-k8s.io", "versions": [{"version": "v2"}], "preferredVersion": {"version": "v2"}},
            ]}),
            _ => json!({"metadata": {}, "items": []}),
        })
    };
    let (_, asked) = read_from(answers, Duration::from_secs(60)).await;
    let is_asked = |path: &str| asked.iter().any(|one| one == path);
    for path in [
        "/apis/apps/v1/namespaces/team-a/statefulsets",
        "/apis/kubeflow.org/v2beta1/namespaces/team-a/mpijobs",
        "/apis/leaderworkerset.x-k8s.io/v2/namespaces/team-a/leaderworkersets",
    ] {
        assert!(is_asked(path), "{path}: {asked:?}");
    }
    assert!(!asked.iter().any(|path| path.contains("ray.io")), "{asked:?}");
}
