//! Accepts connections and enforces their limits.

mod slots;

use std::{
    convert::Infallible,
    future::{Future, pending},
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::{
    header::{self, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tracing::{debug, warn};

use super::{Handler, Metrics, route, web_config::Web};
use slots::{Admission, Slot, Slots};

/// Timeout of the head of a connection's first request, and of a TLS handshake.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);
/// How long an idle connection stays open: usually longer than the scrape interval.
const IDLE_DEADLINE: Duration = Duration::from_secs(120);
/// Maximum size of a head in bytes, and of a connection's buffer.
const MAX_HEAD: usize = 8 << 10;
/// How long a client may not read from its response, so that a stalled client does not keep a slot for ever.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);
/// How long pending requests may take at shutdown.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(5);
/// Minimum time between two log lines about connections that cannot be accepted.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);
/// The response to a client that is refused.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: 21\r\n\
    connection: close\r\n\r\ntoo many connections\n";

/// A server that listens but does not respond yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    web: watch::Receiver<Arc<Web>>,
    metrics: Arc<Metrics>,
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {}", reason(.source))]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

impl BindError {
    /// Whether the address is taken by another program.
    pub fn is_in_use(&self) -> bool {
        self.source.kind() == io::ErrorKind::AddrInUse
    }
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is already in use; stop the other program or choose another port".into()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied; a port below 1024 needs CAP_NET_BIND_SERVICE, choose a higher port".into()
        }
        io::ErrorKind::AddrNotAvailable => "this host does not have this address".into(),
        _ => error.to_string(),
    }
}

impl Server {
    /// Listens on `address`. `[::]` also accepts IPv4; if the kernel has no IPv6, it becomes `0.0.0.0`.
    ///
    /// # Errors
    /// If the address is in use, does not belong to this host, or is not permitted.
    pub async fn bind(address: SocketAddr, metrics: Arc<Metrics>) -> Result<Self, BindError> {
        let mut bound = TcpListener::bind(address).await;
        if address.is_ipv6()
            && address.ip().is_unspecified()
            && bound.as_ref().is_err_and(|error| {
                error.kind() == io::ErrorKind::AddrNotAvailable
                    || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
            })
        {
            bound = TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await;
        }
        let failed = |source| BindError { address, source };
        let listener = bound.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (_, open) = watch::channel(Arc::default());
        Ok(Self {
            listener,
            address,
            web: open,
            metrics,
        })
    }

    /// Sets who may connect, and how. The last value sent applies to all later connections and requests.
    #[must_use]
    pub fn secured(mut self, web: watch::Receiver<Arc<Web>>) -> Self {
        self.web = web;
        self
    }

    /// The address it listens on. For port 0 it has the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until `shutdown` ends, and then finishes pending requests.
    pub async fn run(self, handler: impl Handler, shutdown: impl Future<Output = ()>) {
        let site = Arc::new(Site {
            handler,
            metrics: self.metrics,
        });
        let slots = Slots::default();
        let (stop, stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut complained: Option<Instant> = None;
        tokio::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                // Closed connections leave the set.
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, from)) => {
                    let Some(slot) = admit(&slots, &stream, from, &site.metrics) else {
                        continue;
                    };
                    let (site, stopping) = (Arc::clone(&site), stopping.clone());
                    let web = self.web.clone();
                    connections.spawn(async move {
                        tokio::select! {
                            () = serve(stream, &*site, web, stopping, &slot) => {}
                            () = slot.evicted() => debug!(%from, "connection closed to make room"),
                        }
                    });
                    // A request that has arrived is read before further connections can evict this one.
                    tokio::task::yield_now().await;
                }
                // The client has disconnected, or no file descriptor is left: pause instead of retrying at once.
                Err(error) => {
                    if complained.is_none_or(|last| last.elapsed() >= COMPLAINT_INTERVAL) {
                        warn!(%error, "cannot accept a connection");
                        complained = Some(Instant::now());
                    }
                    if is_out_of_descriptors(&error) && slots.make_room() {
                        site.metrics.evicted();
                    }
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(self.listener);
        // They have nothing to wait for.
        slots.close_silent();
        stop.send_replace(true);
        let ended = async { while connections.join_next().await.is_some() {} };
        // The remaining connections are dropped with the set.
        let _ = timeout(SHUTDOWN_DEADLINE, ended).await;
    }
}

/// A slot for a new connection; a client without one gets a response that says why.
fn admit(slots: &Slots, stream: &TcpStream, from: SocketAddr, metrics: &Metrics) -> Option<Slot> {
    // Without an own address, the client has disconnected.
    let own = stream.local_addr().ok()?;
    match slots.admit(from.ip(), own.ip()) {
        Admission::Free(slot) => Some(slot),
        Admission::Evicted(slot) => {
            metrics.evicted();
            Some(slot)
        }
        Admission::Refused => {
            debug!(%from, "too many connections");
            metrics.refused();
            // Do not wait: the response fits into the empty buffer of the socket.
            let _ = stream.try_write(REFUSAL);
            None
        }
    }
}

/// Whether the process or the system has no file descriptor left.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE]
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.raw_os_error())
}

/// The site that connections share.
#[derive(Debug)]
struct Site<H> {
    handler: H,
    metrics: Arc<Metrics>,
}

/// Serves a connection until it ends or a deadline passes, over TLS if configured.
async fn serve(
    stream: TcpStream,
    site: &Site<impl Handler>,
    web: watch::Receiver<Arc<Web>>,
    stopping: watch::Receiver<bool>,
    slot: &Slot,
) {
    // Send the response at once; waiting for more data would only delay its end.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_DEADLINE));
    let stream = Box::pin(stream);
    let admitted = Arc::clone(&web.borrow());
    let admitted_by = AdmittedBy { admitted, web };
    let Some(tls) = admitted_by.admitted.tls() else {
        return converse(stream, site, &admitted_by, stopping, slot).await;
    };
    match timeout(HEAD_DEADLINE, tls.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, site, &admitted_by, stopping, slot).await,
        Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
        Err(_) => debug!("TLS handshake timed out"),
    }
}

/// The web configuration under which a connection was admitted. It decided about TLS and the client's certificate, so the
/// connection gets no more responses after the web configuration changes.
struct AdmittedBy {
    admitted: Arc<Web>,
    web: watch::Receiver<Arc<Web>>,
}

impl AdmittedBy {
    /// The web configuration, if it is still the one under which the connection was admitted.
    fn hold(&self) -> Option<Arc<Web>> {
        Some(Arc::clone(&self.web.borrow())).filter(|now| Arc::ptr_eq(now, &self.admitted))
    }

    /// Ends when the web configuration changes.
    async fn changed(&self) {
        let changed = |now: &Arc<Web>| !Arc::ptr_eq(now, &self.admitted);
        if self.web.clone().wait_for(changed).await.is_err() {
            // The sender is dropped, so it can no longer change.
            pending::<()>().await;
        }
    }
}

async fn converse<H: Handler>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    site: &Site<H>,
    admitted_by: &AdmittedBy,
    mut stopping: watch::Receiver<bool>,
    slot: &Slot,
) {
    let asked = Notify::new();
    let service = service_fn(|request| {
        asked.notify_one();
        slot.answering();
        async move {
            let (mut response, last) = match admitted_by.hold() {
                Some(web) => (web.answer(&site.handler, &request).await, slot.is_crowded()),
                None => (route::outdated(), true),
            };
            route::count::<H, _>(&site.metrics, &request, response.status());
            if last {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            slot.answered();
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The deadline counts from the previous response, or from the start of the connection.
        .header_read_timeout(IDLE_DEADLINE)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = async {
        tokio::select! {
            ended = connection.as_mut() => return ended,
            // The sender lives as long as this function.
            _ = stopping.wait_for(|stop| *stop) => {}
            // An idle connection ends at once.
            () = admitted_by.changed() => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    };
    let too_late = async {
        if timeout(HEAD_DEADLINE, asked.notified()).await.is_ok() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        ended = ended => if let Err(error) = ended {
            debug!(%error, "connection");
        },
        () = too_late => debug!("a request did not arrive in time"),
    }
}

#[cfg(test)]
mod tests;
