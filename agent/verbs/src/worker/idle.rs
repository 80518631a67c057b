//! Ends a connection whose peer asks nothing, or never finishes a request, so that it holds no worker.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    time::{Duration, Instant},
};

use rdma_health_protocol::{
    Request,
    frame::{self, FrameError},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

/// A peer connects in order to ask something.
const FIRST: Duration = Duration::from_secs(10);
/// Longer than the longest interval between two readings of an agent (one hour).
const NEXT: Duration = Duration::from_secs(2 * 3600);
/// A peer writes a whole request at once.
const WHOLE: Duration = Duration::from_secs(5);

/// Requests from a stream that fails if none comes for too long, or if one is not complete soon after its first byte.
#[derive(Debug)]
pub struct Requests {
    stream: File,
    patience: Duration,
    next: Duration,
    whole: Duration,
}

impl Requests {
    /// Reads requests from `stream`.
    pub fn new(stream: File) -> Self {
        Self::within(stream, FIRST, NEXT, WHOLE)
    }

    fn within(stream: File, first: Duration, next: Duration, whole: Duration) -> Self {
        Self {
            stream,
            patience: first,
            next,
            whole,
        }
    }

    /// Waits for the next request.
    ///
    /// # Errors
    /// As [`frame::read`], and if the time is over; the stream is of no further use then.
    pub fn receive(&mut self) -> Result<Request, FrameError> {
        let patience = std::mem::replace(&mut self.patience, self.next);
        frame::read(&mut OneRequest {
            stream: &mut self.stream,
            limit: patience,
            from: Instant::now(),
            whole: self.whole,
            begun: false,
        })
    }
}

/// The bytes of one request.
struct OneRequest<'a> {
    stream: &'a mut File,
    /// How long it waits for the next byte, counted `from` here: first for the request, then for all of it.
    limit: Duration,
    from: Instant,
    whole: Duration,
    begun: bool,
}

impl Read for OneRequest<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.limit.saturating_sub(self.from.elapsed());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&*self.stream, PollFlags::IN)], Some(&left)) {
                Err(Errno::INTR) => {}
                Ok(0) => {
                    let what = if self.begun {
                        "no complete request"
                    } else {
                        "no request"
                    };
                    let why = format!("{what} within {:?}", self.limit);
                    return Err(io::Error::new(ErrorKind::TimedOut, why));
                }
                Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if !self.begun {
            (self.begun, self.limit, self.from) = (true, self.whole, Instant::now());
        }
        self.stream.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        os::{fd::OwnedFd, unix::net::UnixStream},
        thread,
    };

    use rdma_health_protocol::Ask;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    fn connected(first: Duration, next: Duration, whole: Duration) -> (UnixStream, Requests) {
        let (peer, stream) = UnixStream::pair().unwrap();
        let stream = File::from(OwnedFd::from(stream));
        (peer, Requests::within(stream, first, next, whole))
    }

    fn request() -> Vec<u8> {
        let request = Request {
            id: 1,
            ask: Ask::Devices,
        };
        frame::encode(&request).unwrap()
    }

    #[test]
    fn a_peer_that_asks_nothing_is_let_go() {
        let (mut peer, mut requests) = connected(LONG, SHORT, LONG);
        peer.write_all(&request()).unwrap();
        requests.receive().unwrap();
        let error = requests.receive().unwrap_err().to_string();
        assert!(error.ends_with("no request within 20ms"), "{error}");
        drop(peer);
        let end = requests.receive();
        assert!(matches!(end, Err(FrameError::Closed)), "the end is not silence");
    }

    #[test]
    fn a_peer_that_sends_a_byte_now_and_then_is_let_go() {
        let (mut peer, mut requests) = connected(LONG, LONG, 10 * SHORT);
        peer.write_all(&60_000_u32.to_le_bytes()).unwrap();
        let drip = thread::spawn(move || {
            // Fails when the stream is closed.
            while peer.write_all(b" ").is_ok() {
                thread::sleep(SHORT);
            }
        });
        let error = requests.receive().unwrap_err().to_string();
        assert!(error.ends_with("no complete request within 200ms"), "{error}");
        drop(requests);
        drip.join().unwrap();
    }
}
