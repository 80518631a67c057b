//! The queue of frames to the peer.

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

/// Maximum number of queued bytes; beyond it, the peer does not read.
const MAX_BYTES: usize = 2 * frame::MAX_BODY;

/// Maximum number of queued frames.
const MAX_FRAMES: usize = 1024;

/// A bounded queue of frames with a thread that writes them, so that other threads do not wait for the peer. Clones share
/// it.
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    /// Called when the peer is lost.
    lost: Box<dyn Fn(Lost) + Send + Sync>,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// Why the peer is lost.
#[derive(Debug)]
pub enum Lost {
    /// It does not read.
    Full,
    /// The stream failed; `EPIPE` if the peer has disconnected.
    Failed(std::io::Error),
}

impl Outbox {
    /// Starts the thread that writes to `output`. It calls `lost`, which should end the process, when the peer is lost.
    ///
    /// # Errors
    /// If the thread cannot be started.
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

    /// Queues a message without waiting. A response that is too long for a frame is replaced by the error `EMSGSIZE`.
    pub fn send(&self, message: &Message) {
        match frame::encode(message) {
            Ok(frame) => self.put(frame),
            Err(error) => {
                eprintln!("rdma-health-verbs: cannot send a message: {error}");
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
        // No code that holds the lock leaves the queue inconsistent.
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
            // Counted until it is written, so that the limit includes the current frame.
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
    fn a_peer_that_does_not_read_is_lost_and_blocks_no_thread() {
        let (output, _input) = UnixStream::pair().unwrap();
        let (sender, receiver) = channel();
        let outbox = Outbox::start(output, move |lost| {
            let _ = sender.send(matches!(lost, Lost::Full));
        })
        .unwrap();
        for _ in 0..2 * MAX_FRAMES {
            outbox.send(&event());
        }
        assert!(receiver.recv_timeout(Duration::from_secs(10)).unwrap());
        assert!(outbox.0.lock().bytes <= MAX_BYTES);
    }

    #[test]
    fn a_disconnected_peer_is_lost() {
        let (output, input) = UnixStream::pair().unwrap();
        drop(input);
        let (sender, receiver) = channel();
        let outbox = Outbox::start(output, move |lost| {
            let _ =
                sender.send(matches!(lost, Lost::Failed(error) if error.kind() == io::ErrorKind::BrokenPipe));
        })
        .unwrap();
        outbox.send(&event());
        assert!(receiver.recv_timeout(Duration::from_secs(10)).unwrap());
    }

    #[test]
    fn a_response_too_long_for_a_frame_becomes_an_error() {
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
