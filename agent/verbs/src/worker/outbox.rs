//! Frames on their way to the peer.

use std::{
    collections::VecDeque,
    io::Write,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use rdma_health_protocol::{
    HelperError, Message, Reply, Response,
    frame::{self, FrameError},
};
use rustix::io::Errno;

/// Bytes that may wait. A peer that lets more pile up does not read.
const MAX_BYTES: usize = 2 * frame::MAX_BODY;

/// Frames that may wait.
const MAX_FRAMES: usize = 1024;

/// A bounded queue of frames and the thread that writes them, so that no other thread waits for the peer. Clones share
/// it.
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    /// What to do when nothing more can reach the peer.
    lost: Box<dyn Fn(Lost) + Send + Sync>,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// Why nothing more can reach the peer.
#[derive(Debug)]
pub enum Lost {
    /// It does not read.
    Full,
    /// The stream failed; `EPIPE` where the peer is gone.
    Failed(std::io::Error),
}

impl Outbox {
    /// Starts the thread that writes to `output`. `lost` is called when nothing more can reach the peer; it is meant
    /// to end the process.
    ///
    /// # Errors
    /// Where the thread cannot be started.
    pub fn start(
        output: impl Write + Send + 'static,
        lost: impl Fn(Lost) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            filled: Condvar::new(),
            lost: Box::new(lost),
        });
        let writer = Arc::clone(&shared);
        thread::Builder::new()
            .name("outbox".into())
            .spawn(move || writer.drain(output))?;
        Ok(Self(shared))
    }

    /// Puts a message in the queue; never waits. A response that is too long for a frame is told as `EMSGSIZE`.
    pub fn send(&self, message: &Message) {
        match frame::encode(message) {
            Ok(frame) => self.put(frame),
            Err(error) => {
                eprintln!("rdma-health-verbs: a message was not sent: {error}");
                if let (FrameError::TooLong(_), Message::Response(response)) = (error, message) {
                    let failed = Reply::Failed(HelperError {
                        device: None,
                        call: "write".into(),
                        errno: Errno::MSGSIZE.raw_os_error(),
                    });
                    self.send(&Message::Response(Response {
                        id: response.id,
                        reply: failed,
                    }));
                }
            }
        }
    }

    fn put(&self, frame: Vec<u8>) {
        let mut queue = self.0.lock();
        if queue.bytes + frame.len() > MAX_BYTES || queue.frames.len() >= MAX_FRAMES {
            drop(queue);
            return (self.0.lost)(Lost::Full);
        }
        queue.bytes += frame.len();
        queue.frames.push_back(frame);
        self.0.filled.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing that holds the lock leaves the queue half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drain(&self, mut output: impl Write) {
        loop {
            let mut queue = self.lock();
            let frame = loop {
                if let Some(frame) = queue.frames.pop_front() {
                    break frame;
                }
                queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            drop(queue);
            if let Err(error) = output.write_all(&frame).and_then(|()| output.flush()) {
                return (self.lost)(Lost::Failed(error));
            }
            // Counted until written, so that the frame at hand is part of the bound.
            self.lock().bytes -= frame.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Read as _},
        os::unix::net::UnixStream,
        sync::mpsc::channel,
        time::Duration,
    };

    use rdma_health_protocol::{AsyncEvent, AsyncEventKind};

    use super::*;

    fn event() -> Message {
        Message::Event(AsyncEvent {
            device: "x".repeat(1000),
            port: None,
            kind: AsyncEventKind::Other,
        })
    }

    #[test]
    fn frames_arrive_in_order() {
        let (output, mut input) = UnixStream::pair().unwrap();
        let outbox = Outbox::start(output, |lost| panic!("{lost:?}")).unwrap();
        for id in 0..100 {
            outbox.send(&Message::Response(Response {
                id,
                reply: Reply::Devices(Vec::new()),
            }));
        }
        for id in 0..100 {
            let message = frame::read::<Message>(&mut input).unwrap();
            assert!(matches!(message, Message::Response(response) if response.id == id));
        }
    }

    #[test]
    fn a_peer_that_does_not_read_is_lost_and_nobody_waits_for_it() {
        let (output, _input) = UnixStream::pair().unwrap();
        let (tell, told) = channel();
        let outbox = Outbox::start(output, move |lost| {
            let _ = tell.send(matches!(lost, Lost::Full));
        })
        .unwrap();
        for _ in 0..2 * MAX_FRAMES {
            outbox.send(&event());
        }
        assert!(told.recv_timeout(Duration::from_secs(10)).unwrap());
        assert!(outbox.0.lock().bytes <= MAX_BYTES);
    }

    #[test]
    fn a_peer_that_is_gone_is_lost() {
        let (output, input) = UnixStream::pair().unwrap();
        drop(input);
        let (tell, told) = channel();
        let outbox = Outbox::start(output, move |lost| {
            let _ =
                tell.send(matches!(lost, Lost::Failed(error) if error.kind() == io::ErrorKind::BrokenPipe));
        })
        .unwrap();
        outbox.send(&event());
        assert!(told.recv_timeout(Duration::from_secs(10)).unwrap());
    }

    #[test]
    fn a_response_too_long_for_a_frame_is_told_as_such() {
        let (output, mut input) = UnixStream::pair().unwrap();
        let outbox = Outbox::start(output, |lost| panic!("{lost:?}")).unwrap();
        let long = HelperError {
            device: None,
            call: "x".repeat(frame::MAX_BODY),
            errno: 1,
        };
        outbox.send(&Message::Response(Response {
            id: 3,
            reply: Reply::Devices(vec![Err(long)]),
        }));
        let message = frame::read::<Message>(&mut input).unwrap();
        let Message::Response(Response {
            id: 3,
            reply: Reply::Failed(error),
        }) = message
        else {
            panic!("{message:?}")
        };
        assert_eq!(error.errno, 90);
        input.set_nonblocking(true).unwrap();
        assert_eq!(
            input.read(&mut [0]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }
}
