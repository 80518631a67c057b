//! One connection between two nodes: the handshake, and frames of JSON within bounds.
//!
//! A frame is a 4-byte little-endian length, that many bytes of JSON, and a tag (see `seal`).

use std::{io, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    seal::{self, HELLO, Keys, PEER_VERSION, Seal, Side, TAG},
    token::Token,
};

/// The longest body of a frame in bytes.
const MAX_BODY: usize = 1 << 20;
/// How long the other node may take for each step of the handshake, and for taking a frame.
pub(crate) const PROMPT: Duration = Duration::from_secs(5);

/// What the listening node answers to a proof.
const ADMITTED: u8 = 0;
const WRONG_TOKEN: u8 = 1;
const BUSY: u8 = 2;

/// Why a connection to another node failed.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// It ended between two frames.
    #[error("it closed the connection")]
    Closed,
    /// It ended inside a frame, or failed.
    #[error("the connection broke off: {0}")]
    Io(io::Error),
    /// The other node sent nothing in time.
    #[error("it sent nothing for {0:?}")]
    Late(Duration),
    /// What it sent first is not from this program.
    #[error("it is not rdma-health probe (another program uses this port)")]
    NotAPeer,
    /// It has another version.
    #[error(
        "it speaks version {0} of the probe protocol, but this program speaks {PEER_VERSION}; install the same release on both nodes"
    )]
    WrongVersion(u32),
    /// The listening node refused the proof.
    #[error("it refused the token: the token files of the two nodes differ")]
    TokenRefused,
    /// The other node could not prove that it knows the token.
    #[error("it does not know the token: the token files of the two nodes differ")]
    TokenUnknown,
    /// The listening node measures with another node.
    #[error("it measures with another node now; try again later")]
    Busy,
    /// A frame that the other node did not send, or sent in another order.
    #[error("a frame was changed on its way")]
    WrongTag,
    /// A frame that is longer than allowed.
    #[error("it sent a frame of {0} bytes, at most {MAX_BODY} are allowed")]
    TooLong(usize),
    /// A frame that is not the JSON that belongs here.
    #[error("it sent a frame that does not parse: {0}")]
    Malformed(serde_json::Error),
    /// A message that does not belong here.
    #[error("it sent {0} out of turn")]
    Unexpected(&'static str),
    /// The kernel gave no random numbers.
    #[error("the kernel gave no random numbers for a nonce")]
    NoRandomness,
}

// Not as their source, which would be printed a second time.
impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<serde_json::Error> for ChannelError {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error)
    }
}

/// What carries a connection: TCP, or memory in tests.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// A connection whose ends have proved that they know the token.
pub struct Channel<S = TcpStream> {
    stream: S,
    sent: Seal,
    received: Seal,
}

impl<S: std::fmt::Debug> std::fmt::Debug for Channel<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

impl<S: Stream> Channel<S> {
    /// The handshake of the node that connects.
    pub(crate) async fn connect(mut stream: S, token: &Token) -> Result<Self, ChannelError> {
        let own = seal::hello()?;
        send(&mut stream, &own).await?;
        let theirs = receive_hello(&mut stream).await?;
        let keys = Keys::derive(token, &own, &theirs);
        send(&mut stream, &keys.proof(Side::Connects)).await?;
        let [answer] = receive(&mut stream, PROMPT).await?;
        match answer {
            ADMITTED => {}
            WRONG_TOKEN => return Err(ChannelError::TokenRefused),
            BUSY => return Err(ChannelError::Busy),
            _ => return Err(ChannelError::NotAPeer),
        }
        let proof: [u8; TAG] = receive(&mut stream, PROMPT).await?;
        if !keys.is_proof(Side::Listens, &proof) {
            return Err(ChannelError::TokenUnknown);
        }
        Ok(Self {
            stream,
            sent: keys.frames(Side::Connects),
            received: keys.frames(Side::Listens),
        })
    }

    /// The handshake of the node that listens. It proves nothing before the other node has.
    pub(crate) async fn accept(mut stream: S, token: &Token) -> Result<Accepted<S>, ChannelError> {
        let own = seal::hello()?;
        let theirs: [u8; HELLO] = receive(&mut stream, PROMPT).await?;
        let checked = seal::check(&theirs);
        if !matches!(checked, Err(ChannelError::NotAPeer)) {
            // A node with another version learns ours.
            send(&mut stream, &own).await?;
        }
        checked?;
        let keys = Keys::derive(token, &theirs, &own);
        let proof: [u8; TAG] = receive(&mut stream, PROMPT).await?;
        if !keys.is_proof(Side::Connects, &proof) {
            send(&mut stream, &[WRONG_TOKEN]).await?;
            return Err(ChannelError::TokenUnknown);
        }
        Ok(Accepted { stream, keys })
    }

    /// Sends one message.
    pub(crate) async fn send(&mut self, message: &impl Serialize) -> Result<(), ChannelError> {
        let frame = frame(&serde_json::to_vec(message)?, &mut self.sent)?;
        send(&mut self.stream, &frame).await
    }

    /// Receives one message.
    pub(crate) async fn receive<T: DeserializeOwned>(&mut self, within: Duration) -> Result<T, ChannelError> {
        let all = async {
            let header: [u8; 4] = take(&mut self.stream).await?;
            let length = usize::try_from(u32::from_le_bytes(header)).unwrap_or(usize::MAX);
            if length > MAX_BODY {
                return Err(ChannelError::TooLong(length));
            }
            let mut body = Vec::new();
            // Grows with what arrives, so that a length alone costs no memory.
            let got = (&mut self.stream)
                .take(length as u64)
                .read_to_end(&mut body)
                .await?;
            if got < length {
                return Err(ChannelError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
            let tag: [u8; TAG] = take(&mut self.stream).await?;
            Ok((body, tag))
        };
        let (body, tag) = timeout(within, all)
            .await
            .map_err(|_| ChannelError::Late(within))??;
        if !self.received.accept(&body, &tag) {
            return Err(ChannelError::WrongTag);
        }
        Ok(serde_json::from_slice(&body)?)
    }
}

/// A connection after the handshake, for tests that have no other node.
pub(crate) fn after_handshake<S: Stream>(stream: S, keys: &Keys) -> Channel<S> {
    Channel {
        stream,
        sent: keys.frames(Side::Listens),
        received: keys.frames(Side::Connects),
    }
}

/// A connection whose other end has proved that it knows the token.
pub(crate) struct Accepted<S> {
    stream: S,
    keys: Keys,
}

impl<S: Stream> Accepted<S> {
    /// Admits the other node.
    pub(crate) async fn admit(self) -> Result<Channel<S>, ChannelError> {
        let Self { mut stream, keys } = self;
        send(&mut stream, &[ADMITTED]).await?;
        send(&mut stream, &keys.proof(Side::Listens)).await?;
        Ok(Channel {
            stream,
            sent: keys.frames(Side::Listens),
            received: keys.frames(Side::Connects),
        })
    }

    /// Sends it away, because another node is being measured.
    pub(crate) async fn refuse(mut self) -> Result<(), ChannelError> {
        send(&mut self.stream, &[BUSY]).await
    }
}

/// A frame with this body.
pub(crate) fn frame(body: &[u8], seal: &mut Seal) -> Result<Vec<u8>, ChannelError> {
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MAX_BODY);
    let length = length.ok_or(ChannelError::TooLong(body.len()))?;
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend_from_slice(body);
    frame.extend_from_slice(&seal.next(body));
    Ok(frame)
}

async fn receive_hello(stream: &mut impl Stream) -> Result<[u8; HELLO], ChannelError> {
    let hello = receive(stream, PROMPT).await?;
    seal::check(&hello)?;
    Ok(hello)
}

async fn receive<const LENGTH: usize>(
    stream: &mut impl Stream,
    within: Duration,
) -> Result<[u8; LENGTH], ChannelError> {
    let received = timeout(within, take(stream)).await;
    received.map_err(|_| ChannelError::Late(within))?
}

async fn take<const LENGTH: usize>(stream: &mut impl Stream) -> Result<[u8; LENGTH], ChannelError> {
    let mut bytes = [0; LENGTH];
    let first = stream.read(&mut bytes).await?;
    if first == 0 {
        return Err(ChannelError::Closed);
    }
    stream.read_exact(&mut bytes[first..]).await?;
    Ok(bytes)
}

async fn send(stream: &mut impl Stream, bytes: &[u8]) -> Result<(), ChannelError> {
    let sent = timeout(PROMPT, stream.write_all(bytes)).await;
    Ok(sent.map_err(|_| ChannelError::Late(PROMPT))??)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (here, there) = tokio::join!(TcpStream::connect(address), listener.accept());
        (here.unwrap(), there.unwrap().0)
    }

    fn token(text: &str) -> Token {
        Token::of(text.as_bytes()).unwrap()
    }

    async fn channels() -> (Channel, Channel) {
        let (here, there) = pair().await;
        let token = token("0123456789abcdef");
        let (here, there) = tokio::join!(Channel::connect(here, &token), async {
            Channel::accept(there, &token).await.unwrap().admit().await
        });
        (here.unwrap(), there.unwrap())
    }

    #[tokio::test]
    async fn messages_go_both_ways() {
        let (mut here, mut there) = channels().await;
        for text in ["one", "two"] {
            here.send(&text).await.unwrap();
            assert_eq!(there.receive::<String>(PROMPT).await.unwrap(), text);
            there.send(&(text, 3)).await.unwrap();
            assert_eq!(
                here.receive::<(String, u8)>(PROMPT).await.unwrap(),
                (text.into(), 3)
            );
        }
        drop(here);
        assert!(matches!(
            there.receive::<String>(PROMPT).await,
            Err(ChannelError::Closed)
        ));
    }

    #[tokio::test]
    async fn with_different_tokens_both_nodes_say_so() {
        let (here, there) = pair().await;
        let (own, other) = (token("0123456789abcdef"), token("0123456789abcdeF"));
        let (here, there) = tokio::join!(Channel::connect(here, &own), Channel::accept(there, &other));
        assert!(matches!(here, Err(ChannelError::TokenRefused)), "{here:?}");
        assert!(matches!(there.map(|_| ()), Err(ChannelError::TokenUnknown)));
    }

    #[tokio::test]
    async fn an_impostor_that_admits_everyone_is_not_believed() {
        let (here, mut there) = pair().await;
        let impostor = async {
            let _: [u8; HELLO] = take(&mut there).await.unwrap();
            send(&mut there, &seal::hello().unwrap()).await.unwrap();
            let proof: [u8; TAG] = take(&mut there).await.unwrap();
            send(&mut there, &[ADMITTED]).await.unwrap();
            // All that it has: what the other end sent.
            send(&mut there, &proof).await.unwrap();
        };
        let own = token("0123456789abcdef");
        let (here, ()) = tokio::join!(Channel::connect(here, &own), impostor);
        assert!(matches!(here, Err(ChannelError::TokenUnknown)), "{here:?}");
    }

    #[tokio::test]
    async fn a_frame_that_was_changed_or_is_too_long_ends_the_connection() {
        let (mut here, mut there) = channels().await;
        let mut frame = 2_u32.to_le_bytes().to_vec();
        frame.extend_from_slice(b"{}");
        frame.extend_from_slice(&[0; TAG]);
        send(&mut here.stream, &frame).await.unwrap();
        let changed = there.receive::<serde_json::Value>(PROMPT).await;
        assert!(matches!(changed, Err(ChannelError::WrongTag)), "{changed:?}");
        let (mut here, mut there) = channels().await;
        send(&mut here.stream, &u32::MAX.to_le_bytes()).await.unwrap();
        let long = there.receive::<serde_json::Value>(PROMPT).await;
        assert!(
            matches!(long, Err(ChannelError::TooLong(4_294_967_295))),
            "{long:?}"
        );
    }

    #[tokio::test]
    async fn another_program_and_another_version_are_named() {
        let (here, mut there) = pair().await;
        send(&mut there, &[b'S'; HELLO]).await.unwrap();
        let refused = Channel::connect(here, &token("0123456789abcdef"))
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("not rdma-health"), "{refused}");
        let (mut here, there) = pair().await;
        let mut newer = seal::hello().unwrap();
        newer[16] = 9;
        send(&mut here, &newer).await.unwrap();
        let refused = Channel::accept(there, &token("0123456789abcdef"))
            .await
            .err()
            .unwrap();
        assert!(refused.to_string().contains("speaks version 9"), "{refused}");
        let answer: [u8; HELLO] = take(&mut here).await.unwrap();
        assert!(seal::check(&answer).is_ok(), "the other node learns our version");
    }
}
