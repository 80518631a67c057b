//! Ends a connection whose peer asks nothing, so that it holds no worker.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

/// A peer connects in order to ask something.
const FIRST: Duration = Duration::from_secs(10);
/// Longer than the longest interval between two readings of an agent (one hour).
const NEXT: Duration = Duration::from_secs(2 * 3600);

/// Requests from a stream that fails if none comes for too long.
#[derive(Debug)]
pub struct Requests {
    stream: File,
    patience: Duration,
    next: Duration,
}

impl Requests {
    /// Reads requests from `stream`.
    pub fn new(stream: File) -> Self {
        Self::within(stream, FIRST, NEXT)
    }

    fn within(stream: File, first: Duration, next: Duration) -> Self {
        Self {
            stream,
            patience: first,
            next,
        }
    }
}

impl Read for Requests {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = Timespec::try_from(self.patience).map_err(io::Error::other)?;
        let ready = loop {
            match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&limit)) {
                Err(Errno::INTR) => {}
                other => break other?,
            }
        };
        if ready == 0 {
            let why = format!("no request for {:?}", self.patience);
            return Err(io::Error::new(ErrorKind::TimedOut, why));
        }
        self.patience = self.next;
        self.stream.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_peer_that_asks_nothing_is_let_go() {
        let (mut peer, stream) = UnixStream::pair().unwrap();
        let short = Duration::from_millis(20);
        let stream = File::from(std::os::fd::OwnedFd::from(stream));
        let mut requests = Requests::within(stream, Duration::from_secs(60), short);
        peer.write_all(b"ab").unwrap();
        let mut byte = [0];
        for expected in *b"ab" {
            requests.read_exact(&mut byte).unwrap();
            assert_eq!(byte[0], expected);
        }
        let error = requests.read(&mut byte).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(peer);
        assert_eq!(requests.read(&mut byte).unwrap(), 0, "the end is not silence");
    }
}
