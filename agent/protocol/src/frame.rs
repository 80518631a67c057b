//! Framing: a 4-byte little-endian length, then that many bytes of JSON.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

/// The longest body either side accepts, in bytes. A host with 64 ports of 512 GIDs stays well below.
pub const MAX_BODY: usize = 8 << 20;

/// Bytes of the length that stands before each body.
pub const HEADER: usize = 4;

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The connection ended between two frames.
    #[error("the connection was closed")]
    Closed,
    /// The connection ended inside a frame, or failed.
    #[error("the connection broke off: {0}")]
    Io(#[from] io::Error),
    /// The other side announced more than [`MAX_BODY`].
    #[error("a frame of {0} bytes is longer than {MAX_BODY}")]
    TooLong(usize),
    /// The body is not the JSON that belongs here.
    #[error("a frame that does not parse: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// The length that a header announces.
///
/// # Errors
/// [`FrameError::TooLong`] where it exceeds [`MAX_BODY`].
pub fn body_length(header: [u8; HEADER]) -> Result<usize, FrameError> {
    // A u32 always fits a usize on the 64-bit machines this runs on; where it did not, it would be too long.
    let length = usize::try_from(u32::from_le_bytes(header)).unwrap_or(usize::MAX);
    if length > MAX_BODY {
        Err(FrameError::TooLong(length))
    } else {
        Ok(length)
    }
}

/// Header and body of one message.
///
/// # Errors
/// [`FrameError::TooLong`] where the body would exceed [`MAX_BODY`]: it is not sent then.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; HEADER];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - HEADER;
    match u32::try_from(length) {
        Ok(announced) if length <= MAX_BODY => frame[..HEADER].copy_from_slice(&announced.to_le_bytes()),
        _ => return Err(FrameError::TooLong(length)),
    }
    Ok(frame)
}

/// The message in a body.
///
/// # Errors
/// [`FrameError::Malformed`].
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    Ok(serde_json::from_slice(body)?)
}

/// Reads one message.
///
/// # Errors
/// Any [`FrameError`]; the stream is of no further use then.
pub fn read<T: DeserializeOwned>(stream: &mut impl Read) -> Result<T, FrameError> {
    let mut header = [0; HEADER];
    match stream.read(&mut header)? {
        0 => return Err(FrameError::Closed),
        n => stream.read_exact(&mut header[n..])?,
    }
    let length = body_length(header)?;
    let mut body = Vec::new();
    // Grows with what arrives, so that a length alone costs no memory.
    let got = stream.take(length as u64).read_to_end(&mut body)?;
    if got < length {
        return Err(FrameError::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    decode(&body)
}

/// Writes one message and flushes.
///
/// # Errors
/// [`FrameError::TooLong`] or [`FrameError::Io`].
pub fn write(stream: &mut impl Write, message: &impl Serialize) -> Result<(), FrameError> {
    stream.write_all(&encode(message)?)?;
    stream.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Ask, Message, ProbeRequest, Request};

    fn request() -> Request {
        Request {
            id: 7,
            ask: Ask::Probe(ProbeRequest {
                device: "mlx5_0".into(),
                port: 1,
                message_size: 65536,
                depth: 64,
                byte_budget: 1 << 20,
                time_budget_ms: 1000,
                latency_samples: 100,
                latency_size: 8,
                gid_index: None,
                even_if_busy: false,
                busy_bytes_per_second: 1 << 20,
            }),
        }
    }

    #[test]
    fn a_request_survives_the_wire() {
        let frame = encode(&request()).unwrap();
        assert_eq!(read::<Request>(&mut frame.as_slice()).unwrap(), request());
    }

    #[test]
    fn a_stream_that_ends_is_closed_between_frames_and_broken_within() {
        let frame = encode(&request()).unwrap();
        assert!(matches!(
            read::<Request>(&mut [].as_slice()),
            Err(FrameError::Closed)
        ));
        for cut in 1..frame.len() {
            assert!(
                matches!(read::<Request>(&mut &frame[..cut]), Err(FrameError::Io(_))),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn an_announced_length_beyond_the_limit_is_refused_before_it_is_read() {
        let header = u32::try_from(MAX_BODY + 1).unwrap().to_le_bytes();
        assert!(matches!(
            read::<Request>(&mut header.as_slice()),
            Err(FrameError::TooLong(_))
        ));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = read::<Message>(&mut bytes.as_slice());
            let _ = decode::<Request>(&bytes);
        }
    }
}
