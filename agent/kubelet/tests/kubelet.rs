//! The client against gRPC's own server, and against what else may listen on the socket.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    thread,
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use rdma_health_kubelet::ask;
use rdma_health_protocol::{KubeletAnswer, KubeletMethod, KubeletTrouble};
use rdma_health_tests::fake_kubelet::FakeKubelet;
use serde_json::{Value, json};

/// Long enough for a busy machine; a test that expects an answer ends with it.
const PATIENCE: Duration = Duration::from_secs(60);
/// For tests that expect no answer.
const SHORT: Duration = Duration::from_millis(300);

fn list(socket: &Path, deadline: Duration) -> KubeletAnswer {
    ask(socket, KubeletMethod::List, deadline)
}

fn trouble(answer: KubeletAnswer) -> (KubeletTrouble, String) {
    match answer {
        KubeletAnswer::Failed(failure) => (failure.kind, failure.detail),
        other => panic!("{other:?}"),
    }
}

/// What a client gets from a server that handles one connection like this.
fn answered(deadline: Duration, serve: impl FnOnce(UnixStream) + Send + 'static) -> KubeletAnswer {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = thread::spawn(move || serve(listener.accept().unwrap().0));
    let answer = list(&socket, deadline);
    server.join().unwrap();
    answer
}

/// What a client gets from an HTTP/2 server that responds like this.
fn responded<F>(
    respond: impl FnOnce(h2::server::SendResponse<Bytes>) -> F + Send + 'static,
) -> (KubeletTrouble, String)
where
    F: Future<Output = ()> + Send + 'static,
{
    let answer = answered(PATIENCE, move |stream| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let (_request, response) = connection.accept().await.unwrap().unwrap();
            tokio::spawn(respond(response));
            // Until the client closes the connection.
            while let Some(Ok(_)) = connection.accept().await {}
        });
    });
    trouble(answer)
}

fn grpc() -> Response<()> {
    Response::builder()
        .header("content-type", "application/grpc")
        .body(())
        .unwrap()
}

fn pods() -> Value {
    json!({"podResources": [
        {"name": "web", "namespace": "shop", "containers": [{"name": "nginx", "cpuIds": ["2", "3"]}]},
        {"name": "train-0", "namespace": "ml", "containers": [
            {"name": "main",
             "devices": [{"resourceName": "openshift.io/eno5np0rdma", "deviceIds": ["0000:41:00.2"],
                          "topology": {"nodes": [{"ID": "1"}]}}],
             "memory": [{"memoryType": "memory", "size": "1024"}],
             "dynamicResources": [{"claimName": "rail", "claimNamespace": "ml", "claimResources": [
                 {"cdiDevices": [{"name": "vendor/class=x"}], "driverName": "dra.net", "poolName": "node-1",
                  "deviceName": "eth1"}]}]},
            {"name": "sidecar"}]}]})
}

#[test]
fn what_grpcs_own_server_sends_is_understood() {
    let directory = tempfile::tempdir().unwrap();
    let allocatable = json!({"devices": [
        {"resourceName": "openshift.io/eno5np0rdma", "deviceIds": ["0000:41:00.2"]},
        {"resourceName": "openshift.io/eno5np0rdma", "deviceIds": ["0000:41:00.3"]}],
        "cpuIds": ["0", "1"]});
    let kubelet = FakeKubelet::start(
        directory.path(),
        &json!({"List": pods(), "GetAllocatableResources": allocatable}),
    )
    .unwrap();
    let KubeletAnswer::List(found) = list(kubelet.socket(), PATIENCE) else {
        panic!("no list")
    };
    let expected = json!({"podResources": [{"name": "train-0", "namespace": "ml", "containers": [
        {"name": "main",
         "devices": [{"resourceName": "openshift.io/eno5np0rdma", "deviceIds": ["0000:41:00.2"]}],
         "dynamicResources": [{"claimName": "rail", "claimNamespace": "ml", "claimResources": [
             {"driverName": "dra.net", "poolName": "node-1", "deviceName": "eth1"}]}]}]}]});
    assert_eq!(serde_json::to_value(&found).unwrap(), expected);
    let KubeletAnswer::Allocatable(found) =
        ask(kubelet.socket(), KubeletMethod::GetAllocatableResources, PATIENCE)
    else {
        panic!("no devices")
    };
    assert_eq!(found.devices.len(), 1);
    assert_eq!(found.devices[0].device_ids, ["0000:41:00.2", "0000:41:00.3"]);
}

#[test]
fn an_answer_of_many_frames_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let ids: Vec<_> = (0..10_000)
        .map(|id| format!("a-rather-long-id-of-a-device-{id}"))
        .collect();
    let devices = json!({"devices": [{"resourceName": "rdma/hca", "deviceIds": ids}]});
    let kubelet = FakeKubelet::start(directory.path(), &json!({"GetAllocatableResources": devices})).unwrap();
    let answer = ask(kubelet.socket(), KubeletMethod::GetAllocatableResources, PATIENCE);
    let KubeletAnswer::Allocatable(found) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(found.devices[0].device_ids, ids);
}

#[test]
fn what_is_not_served_is_absent_and_a_refusal_has_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let kubelet = FakeKubelet::start(directory.path(), &json!({})).unwrap();
    let allocatable = || ask(kubelet.socket(), KubeletMethod::GetAllocatableResources, PATIENCE);
    assert_eq!(
        list(kubelet.socket(), PATIENCE),
        KubeletAnswer::Absent,
        "unimplemented"
    );
    let error = |code: &str, error: &str| json!({"GetAllocatableResources": {"code": code, "error": error}});
    kubelet
        .answer(&error(
            "UNKNOWN",
            "Pod Resources API GetAllocatableResources disabled",
        ))
        .unwrap();
    assert_eq!(allocatable(), KubeletAnswer::Absent);
    kubelet
        .answer(&error("RESOURCE_EXHAUSTED", "rejected by rate limit"))
        .unwrap();
    let refused = "the kubelet rejected the request: rejected by rate limit (gRPC status 8)";
    assert_eq!(trouble(allocatable()), (KubeletTrouble::Refused, refused.into()));
}

#[test]
fn no_socket_is_absence_and_a_dead_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubelet.sock");
    assert_eq!(list(&path, PATIENCE), KubeletAnswer::Absent);
    assert_eq!(list(&path.join("below"), PATIENCE), KubeletAnswer::Absent);
    drop(UnixListener::bind(&path).unwrap());
    let (kind, detail) = trouble(list(&path, PATIENCE));
    assert_eq!(kind, KubeletTrouble::Errno(111));
    assert!(
        detail.starts_with("cannot connect to the kubelet: Connection refused"),
        "{detail}"
    );
    fs::remove_file(&path).unwrap();
    fs::write(&path, "not a socket").unwrap();
    assert_eq!(trouble(list(&path, PATIENCE)).0, KubeletTrouble::Errno(111));
}

#[test]
fn a_kubelet_that_hangs_is_given_up() {
    // It accepts, and says nothing.
    let (kind, detail) = trouble(answered(SHORT, |mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    }));
    assert_eq!(
        (kind, detail.as_str()),
        (KubeletTrouble::Hung, "the kubelet did not answer within 300ms")
    );
    // It sends valid frames without an end.
    let (kind, _) = trouble(answered(SHORT, |mut stream| {
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let mut frames = settings.to_vec();
        frames.extend(ping);
        // Fails when the client has gone.
        while stream.write_all(&frames).is_ok() {
            frames = ping.to_vec();
        }
    }));
    assert_eq!(kind, KubeletTrouble::Hung);
}

#[test]
fn another_protocol_is_named() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
        b"\x00\x01\x02",
        b"",
        // A frame that announces 16 MiB.
        b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
        // Data on a stream that was not opened.
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x07x",
        // Headers without an end.
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x01\x00\x00\x00\x00\x01\xff",
    ] {
        let (kind, detail) = trouble(answered(PATIENCE, |mut stream| {
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }));
        assert_eq!(kind, KubeletTrouble::Malformed, "{detail}");
        assert!(
            detail.starts_with("what listens on the socket does not speak gRPC"),
            "{detail}"
        );
    }
}

#[test]
fn responses_that_are_not_of_grpc_are_malformed() {
    let (kind, detail) = responded(async |mut response| {
        let not_found = Response::builder().status(404).body(()).unwrap();
        response.send_response(not_found, true).unwrap();
    });
    assert_eq!(kind, KubeletTrouble::Malformed);
    assert!(detail.ends_with("HTTP status 404"), "{detail}");
    let (kind, detail) = responded(async |mut response| {
        response.send_response(Response::new(()), true).unwrap();
    });
    assert_eq!(kind, KubeletTrouble::Malformed);
    assert!(detail.ends_with("not application/grpc"), "{detail}");
    let (kind, detail) = responded(async |mut response| {
        let mut body = response.send_response(grpc(), false).unwrap();
        body.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
    });
    assert_eq!(kind, KubeletTrouble::Malformed);
    assert!(detail.ends_with("without a gRPC status"), "{detail}");
    for (body, reason) in [
        (&[1, 0, 0, 0, 1, 9][..], "compressed"),
        (&[0, 0, 0], "without a message"),
        (&[0, 0, 0, 0, 9, 1], "a message of 1 bytes, announced 9"),
        (
            &[0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1],
            "a message of 7 bytes, announced 1",
        ),
    ] {
        let (kind, detail) = responded(async move |mut response| {
            let mut stream = response.send_response(grpc(), false).unwrap();
            stream.send_data(Bytes::from_static(body), false).unwrap();
            let mut trailers = http::HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            let _ = stream.send_trailers(trailers);
        });
        assert_eq!(kind, KubeletTrouble::Malformed);
        assert!(detail.contains(reason), "{detail}");
    }
}

#[test]
fn an_answer_that_is_too_long_is_not_read() {
    let (kind, _) = responded(async |mut response| {
        let mut body = response.send_response(grpc(), false).unwrap();
        // 4 GiB are announced.
        body.send_data(Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff]), false)
            .unwrap();
        std::future::pending::<()>().await;
    });
    assert_eq!(kind, KubeletTrouble::TooLong);
    // As much as was announced, and then more.
    let (kind, _) = responded(async |mut response| {
        let mut body = response.send_response(grpc(), false).unwrap();
        let _ = body.send_data(Bytes::from_static(&[0, 0, 0x40, 0, 0]), false);
        body.reserve_capacity(5 << 20);
        while body.send_data(Bytes::from(vec![0; 16 << 10]), false).is_ok() {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(kind, KubeletTrouble::TooLong);
}
