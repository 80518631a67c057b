//! One unary gRPC call over a Unix socket
//! (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).

use std::{io, path::Path, time::Duration};

use bytes::{Bytes, BytesMut};
use h2::{RecvStream, client};
use http::{HeaderMap, Method, Request, StatusCode, Version, header};
use rdma_health_protocol::{KubeletMethod, KubeletTrouble, text::excerpt};
use tokio::net::UnixStream;

/// Maximum length of an answer in bytes, the default of gRPC. A node with 500 pods needs about 500 KiB.
pub(crate) const MAX_ANSWER: u32 = 4 << 20;
/// Maximum length of all headers of a response in bytes.
const MAX_HEADERS: u32 = 16 << 10;
/// What stands before a message: a byte that says whether it is compressed, and its length in four.
const PREFIX: usize = 5;

/// Why a call brought no message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot connect to the kubelet: {0}")]
    Connect(io::Error),
    #[error("the kubelet did not answer within {0:?}")]
    Hung(Duration),
    #[error("what listens on the socket does not speak gRPC: {0}")]
    Protocol(String),
    #[error("the kubelet's answer has more than {MAX_ANSWER} bytes")]
    TooLong,
    #[error("the kubelet rejected the request: {message} (gRPC status {status})")]
    Status { status: u32, message: String },
}

impl Failure {
    /// `UNIMPLEMENTED`.
    const UNIMPLEMENTED: u32 = 12;

    /// Whether the node has no kubelet, or its kubelet does not serve the method.
    pub(crate) fn is_absence(&self) -> bool {
        match self {
            Self::Connect(error) => {
                matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                )
            }
            // Before Kubernetes 1.28, GetAllocatableResources could be disabled by a feature gate.
            Self::Status { status, message } => {
                *status == Self::UNIMPLEMENTED || message.ends_with("GetAllocatableResources disabled")
            }
            Self::Hung(_) | Self::Protocol(_) | Self::TooLong => false,
        }
    }

    pub(crate) fn kind(&self) -> KubeletTrouble {
        match self {
            // Its queue of connections is full, because it accepts none.
            Self::Connect(error) if error.kind() == io::ErrorKind::WouldBlock => KubeletTrouble::Hung,
            Self::Connect(error) => KubeletTrouble::Errno(error.raw_os_error().unwrap_or_default()),
            Self::Hung(_) => KubeletTrouble::Hung,
            Self::Protocol(_) => KubeletTrouble::Malformed,
            Self::TooLong => KubeletTrouble::TooLong,
            Self::Status { .. } => KubeletTrouble::Refused,
        }
    }
}

/// Nothing but an HTTP/2 connection that ended early or is none.
impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Self {
        Self::Protocol(error.to_string())
    }
}

fn protocol(what: impl Into<String>) -> Failure {
    Failure::Protocol(what.into())
}

/// Calls `method`, which takes an empty message, and returns the message of the answer. The caller bounds the time; `deadline` is
/// for the kubelet, which gives up then, too.
pub(crate) async fn unary(
    socket: &Path,
    method: KubeletMethod,
    deadline: Duration,
) -> Result<Bytes, Failure> {
    let stream = UnixStream::connect(socket).await.map_err(Failure::Connect)?;
    let (client, connection) = client::Builder::new()
        // All of the answer may be on its way at once, and one byte more than is read.
        .initial_window_size(MAX_ANSWER + 64)
        .initial_connection_window_size(MAX_ANSWER + 64)
        .max_header_list_size(MAX_HEADERS)
        .enable_push(false)
        .handshake(stream)
        .await?;
    // Ends with the runtime.
    tokio::spawn(async move {
        // The stream reports the same error.
        let _ = connection.await;
    });
    let mut client = client.ready().await?;
    let (response, mut body) = client.send_request(request(method, deadline)?, false)?;
    // Not compressed, no bytes.
    body.send_data(Bytes::from_static(&[0; PREFIX]), true)?;
    let (head, mut body) = response.await?.into_parts();
    if head.status != StatusCode::OK {
        return Err(protocol(format!("HTTP status {}", head.status.as_u16())));
    }
    let content_type = head
        .headers
        .get(header::CONTENT_TYPE)
        .map(header::HeaderValue::as_bytes);
    if !content_type.is_some_and(|content_type| content_type.starts_with(b"application/grpc")) {
        return Err(protocol("its response is not application/grpc"));
    }
    let framed = read(&mut body).await?;
    let trailers = body.trailers().await?;
    // A response without a message may have its status in the headers.
    check(trailers.as_ref().unwrap_or(&head.headers))?;
    message(framed)
}

fn request(method: KubeletMethod, deadline: Duration) -> Result<Request<()>, Failure> {
    Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!(
            "http://localhost/v1.PodResourcesLister/{}",
            method.name()
        ))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header("grpc-timeout", format!("{}m", deadline.as_millis()))
        .body(())
        .map_err(|error| protocol(error.to_string()))
}

/// The body of a response, which is a message after its prefix.
async fn read(body: &mut RecvStream) -> Result<BytesMut, Failure> {
    let most = PREFIX + MAX_ANSWER as usize;
    let mut framed = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part?;
        if framed.len() + part.len() > most {
            return Err(Failure::TooLong);
        }
        framed.extend_from_slice(&part);
        // It need not send what is announced as too long.
        if let Some([compressed, length @ ..]) = framed.first_chunk::<PREFIX>() {
            if *compressed != 0 {
                return Err(protocol("a compressed message, which was not asked for"));
            }
            if u32::from_be_bytes(*length) > MAX_ANSWER {
                return Err(Failure::TooLong);
            }
        }
        body.flow_control().release_capacity(part.len())?;
    }
    Ok(framed)
}

/// The status of a call.
fn check(trailers: &HeaderMap) -> Result<(), Failure> {
    let field = |name| trailers.get(name).map(header::HeaderValue::as_bytes);
    let status = field("grpc-status").and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
    match status {
        Some(0) => Ok(()),
        Some(status) => Err(Failure::Status {
            status,
            message: excerpt(
                &String::from_utf8_lossy(field("grpc-message").unwrap_or_default()),
                150,
            ),
        }),
        None => Err(protocol("a response without a gRPC status")),
    }
}

/// The one message of a body.
fn message(mut framed: BytesMut) -> Result<Bytes, Failure> {
    let Some([_, length @ ..]) = framed.first_chunk::<PREFIX>() else {
        return Err(protocol("a response without a message"));
    };
    let announced = u32::from_be_bytes(*length) as usize;
    let found = framed.len() - PREFIX;
    if found != announced {
        return Err(protocol(format!(
            "a message of {found} bytes, announced {announced}"
        )));
    }
    Ok(framed.split_off(PREFIX).freeze())
}
