//! Tests with real connections.

use std::{
    io::Read,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use prometheus::proto::LabelPair;
use rdma_health_instrument::Registry;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::oneshot,
};

use super::*;
use crate::{Answer, Asked, Page, StatusCode};

/// Responds with a long text, once it is released.
#[derive(Default)]
struct Agent {
    slow: AtomicBool,
}

/// The server owns its handler; the test keeps a reference.
struct Shared(Arc<Agent>);

impl Handler for Shared {
    const REALM: &'static str = "test";
    const PAGES: &'static [Page] = &[
        Page::closed("/metrics"),
        Page::open("/healthz"),
        Page::closed("/"),
    ];

    async fn answer(&self, path: &'static str, _: &Asked<'_>) -> Answer {
        match path {
            "/metrics" => {
                if self.0.slow.load(Ordering::SeqCst) {
                    sleep(Duration::from_millis(500)).await;
                }
                Answer {
                    code: StatusCode::OK,
                    content_type: "text/plain; version=0.0.4; charset=utf-8",
                    body: "rdma_x 1\n".repeat(1000).into_bytes(),
                }
            }
            "/" => Answer::html("<p>page".into()),
            _ => Answer::text(StatusCode::OK, "ok"),
        }
    }
}

struct Running {
    address: SocketAddr,
    agent: Arc<Agent>,
    registry: Registry,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

async fn start() -> Running {
    let registry = Registry::new();
    let metrics = Arc::new(Metrics::new(&registry));
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), metrics)
        .await
        .unwrap();
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
        registry,
        stop,
        task,
    }
}

impl Running {
    /// The counts of a family by label values.
    fn counted(&self, family: &str) -> Vec<(String, u64)> {
        let families = self.registry.gather();
        let family = families.iter().find(|one| one.name() == family).unwrap();
        let each = family.get_metric().iter().map(|metric| {
            let labels: Vec<_> = metric.get_label().iter().map(LabelPair::value).collect();
            // Counts are far below 2^53.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let count = metric.get_counter().get_value() as u64;
            (labels.join(" "), count)
        });
        each.collect()
    }

    fn answered(&self) -> Vec<(String, u64)> {
        self.counted("rdma_health_http_requests_total")
    }

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
async fn metrics_are_compressed_only_on_request() {
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
        head.contains("content-encoding: gzip") && head.contains("vary: accept, accept-encoding"),
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
    assert_eq!(server.answered(), [("200 /metrics".into(), 3)]);
}

#[tokio::test]
async fn a_page_for_a_browser_cannot_run_scripts_or_load_resources() {
    let server = start().await;
    let (head, page) = server.get("/").await;
    assert!(
        head.contains("content-type: text/html") && head.contains("default-src 'none'"),
        "{head}"
    );
    assert_eq!(page, "<p>page");
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
        server.answered(),
        [("404 other".into(), 2), ("405 /metrics".into(), 1)]
    );
}

#[tokio::test]
async fn a_head_that_is_too_long_or_malformed_is_refused() {
    let server = start().await;
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // The server may close before the client has written everything.
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
async fn a_stalled_client_is_dropped_in_time() {
    let server = start().await;
    let began = Instant::now();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /metrics HT").await.unwrap();
    let mut rest = Vec::new();
    let ended = timeout(HEAD_DEADLINE * 3, stream.read_to_end(&mut rest)).await;
    ended.expect("still open").unwrap();
    assert!(began.elapsed() >= HEAD_DEADLINE);
}

/// Opens a connection from an address of 127.0.0.0/8.
async fn connect_from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, last), 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

#[tokio::test]
async fn slow_heads_from_many_addresses_keep_no_scraper_out() {
    let server = start().await;
    let mut stalled = Vec::new();
    for last in [2, 3, 4] {
        for _ in 0..40 {
            let mut stream = connect_from(last, server.address).await;
            // The server may have closed it for another one already.
            let _ = stream.write_all(b"GET /metrics HT").await;
            stalled.push(stream);
        }
    }
    for _ in 0..15 {
        assert!(server.get("/metrics").await.0.starts_with("http/1.1 200"));
    }
    let evicted = server.counted("rdma_health_http_connections_evicted_total");
    assert!(
        evicted[0].1 >= 3 * 40 - u64::try_from(slots::MAX_CONNECTIONS).unwrap(),
        "{evicted:?}"
    );
    assert_eq!(
        server.counted("rdma_health_http_connections_refused_total"),
        [(String::new(), 0)]
    );
    // Nor do they delay the shutdown.
    server.stop.send(()).unwrap();
    timeout(SHUTDOWN_DEADLINE / 2, server.task)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn clients_that_connect_again_at_once_keep_no_scraper_out() {
    let server = start().await;
    let mut clients = tokio::task::JoinSet::new();
    for last in 2..=121 {
        for _ in 0..2 {
            let to = server.address;
            clients.spawn(async move {
                loop {
                    let mut stream = connect_from(last, to).await;
                    let _ = stream.write_all(b"GET /metrics HT").await;
                    // Until the server closes it.
                    let _ = stream.read(&mut [0; 64]).await;
                }
            });
        }
    }
    for scrape in 0..50 {
        let answer = server.get("/metrics").await.0;
        assert!(answer.starts_with("http/1.1 200"), "scrape {scrape}: {answer:?}");
        tokio::task::yield_now().await;
    }
    clients.shutdown().await;
}

const ASK: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";

/// Reads one short response.
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
    assert_eq!(server.answered(), [("200 /healthz".into(), 3)]);
    // An idle connection does not delay the shutdown.
    server.stop.send(()).unwrap();
    timeout(SHUTDOWN_DEADLINE / 2, server.task)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn connections_close_after_their_request_if_many_are_open() {
    let server = start().await;
    let mut streams = Vec::new();
    for _ in 0..slots::CROWDED {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(ASK).await.unwrap();
        let answer = answer(&mut stream).await;
        let last = streams.len() + 1 == slots::CROWDED;
        assert_eq!(answer.contains("connection: close"), last, "{answer}");
        streams.push(stream);
    }
    let mut last = streams.pop().unwrap();
    assert_eq!(last.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn shutdown_finishes_pending_requests_and_accepts_no_new_ones() {
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
async fn the_error_names_an_address_that_is_in_use() {
    let bind = |address| Server::bind(address, Arc::new(Metrics::new(&Registry::new())));
    let first = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let error = bind(first.address()).await.unwrap_err();
    assert!(error.is_in_use());
    let error = error.to_string();
    assert!(
        error.starts_with(&format!(
            "cannot listen on {}: the address is already in use;",
            first.address()
        )),
        "{error}"
    );
    let error = bind("192.0.2.1:0".parse().unwrap())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("this host does not have this address"), "{error}");
}
