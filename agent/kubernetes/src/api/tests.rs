use super::*;
use crate::kind::ConditionType;

/// The failure of a request to this address.
async fn failure_of_request(address: std::net::SocketAddr) -> Failure {
    let directory = tempfile::tempdir().unwrap();
    let access = crate::test_access::access(directory.path(), address);
    let mut api = Api::new(
        access,
        Arc::new(Metrics::new(&rdma_health_instrument::Registry::new())),
    );
    api.node("node-1").await.unwrap_err()
}

#[tokio::test]
async fn a_refused_connection_differs_from_a_broken_one() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hang_up = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Closing a socket with unread data resets the connection.
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await;
        }
    };
    let failure = tokio::select! {
        () = hang_up => unreachable!("it has no end"),
        failure = failure_of_request(address) => failure,
    };
    assert!(matches!(failure, Failure::Broken(_)), "{failure}");
    drop(listener);
    let failure = failure_of_request(address).await;
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure}");
    assert_eq!(
        failure.to_string(),
        format!("cannot reach the API server: http://{address}: Connection refused (os error 111)")
    );
}

#[test]
fn a_node_without_conditions_labels_or_times_is_read() {
    for text in [
        r#"{"metadata":{"name":"n"}}"#,
        r#"{"metadata":{"labels":null},"status":{"conditions":null}}"#,
        r#"{"status":{"conditions":[{"type":"RDMALinkProblem","status":"True"}]}}"#,
    ] {
        let node: Node = parse(text.as_bytes()).unwrap();
        assert_eq!(
            node.conditions(&ConditionType::all([])),
            (Vec::new(), None),
            "{text}"
        );
    }
}
