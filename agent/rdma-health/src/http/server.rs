//! Accepts connections and keeps them within bounds.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::{Future, pending},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
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

use super::{Handler, route, web_config::Web};

/// Connections open at a time.
const MAX_CONNECTIONS: usize = 64;
/// Connections of one address open at a time, so that one client that stalls leaves room for the others.
const MAX_PER_ADDRESS: usize = 32;
/// How long the head of a connection's first request may take to arrive, and a TLS handshake.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);
/// How long a connection stays open for the next request: longer than scrapes are apart, as a rule.
const IDLE_DEADLINE: Duration = Duration::from_secs(120);
/// With this many connections open each is closed after its request, so that idle ones leave room.
const CROWDED: usize = MAX_CONNECTIONS / 2;
/// The longest head, in bytes; also the buffer that a connection may fill.
const MAX_HEAD: usize = 16 << 10;
/// How long a client may read nothing of its answer: one that stalls must not hold a place for ever.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);
/// How long requests under way may take to end at shutdown.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(5);
/// What a client that is turned away reads.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: 21\r\n\
    connection: close\r\n\r\ntoo many connections\n";

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    web: watch::Receiver<Arc<Web>>,
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {}", reason(.source))]
pub(crate) struct BindError {
    address: SocketAddr,
    source: io::Error,
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is already in use; stop the other program or choose another port \
            with --listen or `listen` in the configuration"
                .into()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied; ports below 1024 need CAP_NET_BIND_SERVICE, choose a higher one".into()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".into(),
        _ => error.to_string(),
    }
}

impl Server {
    /// Listens on `address`. `[::]` takes IPv4 too; where the kernel has no IPv6 it becomes `0.0.0.0`.
    ///
    /// # Errors
    /// Where the address is taken, not this machine's, or not permitted.
    pub(crate) async fn bind(address: SocketAddr) -> Result<Self, BindError> {
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
        })
    }

    /// Who may connect, and how: the last one sent holds for connections and requests from then on.
    pub(crate) fn secured(mut self, web: watch::Receiver<Arc<Web>>) -> Self {
        self.web = web;
        self
    }

    /// The address it listens on, with the port that the system chose where 0 was asked for.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `shutdown` ends; requests under way are answered then.
    pub(crate) async fn run(self, handler: impl Handler, shutdown: impl Future<Output = ()>) {
        let handler = Arc::new(handler);
        let clients = Clients::default();
        let (stop, stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                // Connections that ended leave the set.
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, from)) => {
                    let Some(place) = clients.admit(from.ip()) else {
                        debug!(%from, "too many connections");
                        handler.refused();
                        // What does not fit into the socket's empty buffer at once is not waited for.
                        let _ = stream.try_write(REFUSAL);
                        continue;
                    };
                    let (handler, stopping) = (Arc::clone(&handler), stopping.clone());
                    let web = self.web.clone();
                    connections.spawn(async move {
                        serve(stream, &*handler, web, stopping, place).await;
                    });
                }
                // The client went away, or the system has no descriptor left: wait rather than spin.
                Err(error) => {
                    warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(self.listener);
        stop.send_replace(true);
        let ended = async { while connections.join_next().await.is_some() {} };
        // What is left then is dropped with the set.
        let _ = timeout(SHUTDOWN_DEADLINE, ended).await;
    }
}

/// Serves a connection until it ends or one of its deadlines has passed, over TLS where that is asked for.
async fn serve(
    stream: TcpStream,
    handler: &impl Handler,
    web: watch::Receiver<Arc<Web>>,
    stopping: watch::Receiver<bool>,
    place: Place,
) {
    // The answer is written at once; waiting for more would only delay its end.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_DEADLINE));
    let stream = Box::pin(stream);
    let admitted = Arc::clone(&web.borrow());
    let terms = Terms { admitted, web };
    let Some(tls) = terms.admitted.tls() else {
        return converse(stream, handler, &terms, stopping, &place).await;
    };
    match timeout(HEAD_DEADLINE, tls.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, handler, &terms, stopping, &place).await,
        Ok(Err(error)) => debug!(%error, "TLS handshake"),
        Err(_) => debug!("a TLS handshake took too long"),
    }
}

/// What a connection was let in by. Whether it speaks TLS, and whether the client has the right certificate, was decided
/// then, so nothing is answered over it once something else holds.
struct Terms {
    admitted: Arc<Web>,
    web: watch::Receiver<Arc<Web>>,
}

impl Terms {
    /// What holds, where it is still what the connection was let in by.
    fn hold(&self) -> Option<Arc<Web>> {
        Some(Arc::clone(&self.web.borrow())).filter(|now| Arc::ptr_eq(now, &self.admitted))
    }

    /// Ends when something else holds.
    async fn changed(&self) {
        let changed = |now: &Arc<Web>| !Arc::ptr_eq(now, &self.admitted);
        if self.web.clone().wait_for(changed).await.is_err() {
            // Nobody is left who could change it.
            pending::<()>().await;
        }
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: &impl Handler,
    terms: &Terms,
    mut stopping: watch::Receiver<bool>,
    place: &Place,
) {
    let asked = Notify::new();
    let service = service_fn(|request| {
        asked.notify_one();
        async move {
            let (mut response, last) = match terms.hold() {
                Some(web) => (web.answer(handler, &request).await, place.is_crowded()),
                None => (route::outdated(handler, &request), true),
            };
            if last {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // It counts from the answer before, or else from the beginning.
        .header_read_timeout(IDLE_DEADLINE)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = async {
        tokio::select! {
            ended = connection.as_mut() => return ended,
            // The sender lives as long as we do.
            _ = stopping.wait_for(|stop| *stop) => {}
            // One that waits for its next request ends at once.
            () = terms.changed() => {}
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
        () = too_late => debug!("a request took too long to arrive"),
    }
}

/// How many connections each address has open.
#[derive(Debug, Clone, Default)]
struct Clients(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The place of one connection; given back when dropped.
#[derive(Debug)]
struct Place {
    clients: Clients,
    address: IpAddr,
}

impl Clients {
    /// A place for one more connection, where there is one.
    fn admit(&self, address: IpAddr) -> Option<Place> {
        let mut open = self.lock();
        let total: usize = open.values().sum();
        let own = open.get(&address).copied().unwrap_or(0);
        if total >= MAX_CONNECTIONS || own >= MAX_PER_ADDRESS {
            return None;
        }
        open.insert(address, own + 1);
        Some(Place {
            clients: self.clone(),
            address,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, usize>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Whether so many connections are open that idle ones should go.
    fn is_crowded(&self) -> bool {
        self.clients.lock().values().sum::<usize>() >= CROWDED
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.clients.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests;
