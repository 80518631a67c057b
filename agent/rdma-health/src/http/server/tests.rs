//! Tests with real connections.

use std::{
    io::Read,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Instant,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::oneshot,
};

use super::*;
use crate::view::View;

/// Answers with a long text, once it may.
#[derive(Default)]
struct Agent {
    ready: AtomicBool,
    slow: AtomicBool,
    answered: Mutex<Vec<(&'static str, u16)>>,
    refused: AtomicUsize,
}

/// The server takes a handler of its own; the test keeps a share.
struct Shared(Arc<Agent>);

impl Handler for Shared {
    async fn metrics(&self) -> Vec<u8> {
        if self.0.slow.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(500)).await;
        }
        "rdma_x 1\n".repeat(1000).into_bytes()
    }

    fn view(&self) -> Option<Arc<View>> {
        self.0
            .ready
            .load(Ordering::SeqCst)
            .then(|| Arc::new(crate::metrics::fixture::rich(2)))
    }

    fn answered(&self, path: &'static str, code: u16) {
        self.0.answered.lock().unwrap().push((path, code));
    }

    fn refused(&self) {
        self.0.refused.fetch_add(1, Ordering::SeqCst);
    }
}

struct Running {
    address: SocketAddr,
    agent: Arc<Agent>,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

async fn start() -> Running {
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = server.address();
    let agent = Arc::new(Agent::default());
    let (stop, stopped) = oneshot::channel();
    let handler = Shared(Arc::clone(&agent));
    let task = tokio::spawn(server.run(handler, async move {
        let _ = stopped.await;
    }));
    Running {
        address,
        agent,
        stop,
        task,
    }
}

impl Running {
    /// Sends bytes and reads until the server closes: head and body.
    async fn exchange(&self, request: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        timeout(Duration::from_secs(20), stream.read_to_end(&mut answer))
            .await
            .unwrap()
            .unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let body = answer.split_off(end + 4);
        (String::from_utf8(answer).unwrap().to_lowercase(), body)
    }

    async fn get(&self, path: &str) -> (String, String) {
        let (head, body) = self
            .exchange(&format!(
                "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
            ))
            .await;
        (head, String::from_utf8(body).unwrap())
    }
}

#[tokio::test]
async fn metrics_come_plain_or_compressed_as_asked() {
    let server = start().await;
    let (head, body) = server.get("/metrics").await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(
        head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
        "{head}"
    );
    assert!(!head.contains("content-encoding"), "{head}");
    assert_eq!(body, "rdma_x 1\n".repeat(1000));

    let request =
        "GET /metrics?x=1 HTTP/1.1\r\nhost: x\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n";
    let (head, packed) = server.exchange(request).await;
    assert!(
        head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"),
        "{head}"
    );
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(packed.as_slice())
        .read_to_string(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, body);

    let (head, none) = server
        .exchange("HEAD /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await;
    assert!(
        head.starts_with("http/1.1 200") && head.contains("content-length: 9000"),
        "{head}"
    );
    assert!(none.is_empty());
    assert_eq!(*server.agent.answered.lock().unwrap(), [("/metrics", 200); 3]);
}

#[tokio::test]
async fn readiness_waits_for_a_node_and_liveness_does_not() {
    let server = start().await;
    assert!(server.get("/healthz").await.0.starts_with("http/1.1 200"));
    let (head, body) = server.get("/readyz").await;
    assert!(head.starts_with("http/1.1 503"), "{head}");
    assert_eq!(body, "the node has not been read yet\n");
    server.agent.ready.store(true, Ordering::SeqCst);
    assert!(server.get("/readyz").await.0.starts_with("http/1.1 200"));
}

#[tokio::test]
async fn the_page_shows_findings_and_escapes_what_it_shows() {
    let server = start().await;
    assert!(server.get("/").await.1.contains("has not been read yet"));
    server.agent.ready.store(true, Ordering::SeqCst);
    let (head, page) = server.get("/").await;
    assert!(
        head.contains("content-type: text/html") && head.contains("default-src 'none'"),
        "{head}"
    );
    for part in [
        "node-1",
        "critical",
        "probe-failed",
        "IBV_WC_LOC_PROT_ERR",
        "mlx5_0:1",
        "400.0 Gb/s",
        "href=/metrics",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let server = start().await;
    assert!(server.get("/metrics/").await.0.starts_with("http/1.1 404"));
    assert!(server.get("/../etc/passwd").await.0.starts_with("http/1.1 404"));
    let (head, _) = server
        .exchange("POST /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc")
        .await;
    assert!(
        head.starts_with("http/1.1 405") && head.contains("allow: get, head"),
        "{head}"
    );
    assert_eq!(
        *server.agent.answered.lock().unwrap(),
        [("other", 404), ("other", 404), ("/metrics", 405)]
    );
}

#[tokio::test]
async fn a_head_that_is_too_long_or_nonsense_is_refused() {
    let server = start().await;
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // The server may close before all of it is written.
    let _ = stream.write_all(long.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer))
        .await
        .unwrap();
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert!(
        server
            .exchange("\u{1}\u{2}\r\n\r\n")
            .await
            .0
            .starts_with("http/1.1 400")
    );
    assert!(server.get("/healthz").await.0.starts_with("http/1.1 200"));
}

#[tokio::test]
async fn clients_that_stall_are_dropped_and_leave_room_for_others() {
    let server = start().await;
    let began = Instant::now();
    let mut stalled = Vec::new();
    for _ in 0..MAX_PER_ADDRESS {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /metrics HT").await.unwrap();
        stalled.push(stream);
    }
    // From this address no more fit, and the client is told so.
    let (head, _) = server.exchange("").await;
    assert!(head.starts_with("http/1.1 503"), "{head}");
    assert_eq!(server.agent.refused.load(Ordering::SeqCst), 1);
    for mut stream in stalled {
        let mut rest = Vec::new();
        timeout(HEAD_DEADLINE * 3, stream.read_to_end(&mut rest))
            .await
            .expect("still open")
            .unwrap();
    }
    assert!(began.elapsed() >= HEAD_DEADLINE);
    assert!(server.get("/healthz").await.0.starts_with("http/1.1 200"));
}

const ASK: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";

/// Reads one short answer.
async fn answer(stream: &mut TcpStream) -> String {
    let mut answer = vec![0; 4096];
    let n = timeout(Duration::from_secs(20), stream.read(&mut answer))
        .await
        .unwrap()
        .unwrap();
    String::from_utf8_lossy(&answer[..n]).to_lowercase()
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let server = start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..3 {
        stream.write_all(ASK).await.unwrap();
        let answer = answer(&mut stream).await;
        assert!(answer.starts_with("http/1.1 200"), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
    assert_eq!(server.agent.answered.lock().unwrap().len(), 3);
    // An idle connection does not hold up the end.
    server.stop.send(()).unwrap();
    timeout(SHUTDOWN_DEADLINE / 2, server.task)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn connections_close_after_their_request_where_many_are_open() {
    let server = start().await;
    let mut streams = Vec::new();
    for _ in 0..CROWDED {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(ASK).await.unwrap();
        let answer = answer(&mut stream).await;
        let last = streams.len() + 1 == CROWDED;
        assert_eq!(answer.contains("connection: close"), last, "{answer}");
        streams.push(stream);
    }
    let mut last = streams.pop().unwrap();
    assert_eq!(last.read(&mut [0]).await.unwrap(), 0);
}

#[test]
fn one_address_cannot_take_every_place() {
    let clients = Clients::default();
    let [one, other, third] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
    let held: Vec<_> = (0..MAX_CONNECTIONS).map_while(|_| clients.admit(one)).collect();
    assert_eq!(held.len(), MAX_PER_ADDRESS);
    let more: Vec<_> = (0..MAX_CONNECTIONS).map_while(|_| clients.admit(other)).collect();
    assert_eq!(held.len() + more.len(), MAX_CONNECTIONS);
    assert!(clients.admit(third).is_none());
    drop(held);
    assert!(clients.admit(third).is_some());
    drop(more);
    assert!(clients.lock().is_empty());
}

#[tokio::test]
async fn shutdown_answers_what_is_under_way_and_takes_nothing_new() {
    let server = start().await;
    server.agent.slow.store(true, Ordering::SeqCst);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    sleep(Duration::from_millis(100)).await;
    server.stop.send(()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    timeout(SHUTDOWN_DEADLINE, server.task).await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let first = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let error = Server::bind(first.address()).await.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!(
            "cannot listen on {}: the address is already in use;",
            first.address()
        )),
        "{error}"
    );
    let error = Server::bind("192.0.2.1:0".parse().unwrap())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("this machine has no such address"), "{error}");
}
