//! The helper's side of one connection: answers requests and reports events.
//!
//! Five kinds of threads, so that one that hangs in a verbs call takes none of the others with it:
//!
//! | thread | does | ends |
//! | --- | --- | --- |
//! | `run` | reads requests | with the stream; then the process exits |
//! | `outbox` | writes frames | never |
//! | `query` | lists devices | never |
//! | `probe` | one probe, one at a time | with it |
//! | `events` | watches devices | never |
//!
//! Memory is bounded: a frame by its maximum length, waiting requests and waiting frames by their number and size. A
//! peer that does not read what it asked for loses the connection.

mod events;
mod outbox;

use std::{
    fmt,
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use rdma_health_protocol::{
    Ask, Greeting, HelperError, Message, PROTOCOL_VERSION, Reply, Request, Response,
    frame::{self, FrameError},
};
use rustix::io::Errno;

pub use self::outbox::{Lost, Outbox};
use crate::{devices, probe};

/// Requests for devices that may wait for the one that is being answered.
const WAITING_QUERIES: usize = 8;

/// Why a connection ended other than by its peer's wish.
#[derive(Debug)]
pub enum End {
    /// The peer sent something that is not a request, or the stream failed.
    Frame(FrameError),
    /// A thread could not be started.
    Thread(std::io::Error),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => write!(f, "{error}"),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for End {}

/// Greets, then serves requests until the peer closes the stream. The caller must end the process then: threads that
/// wait for a device are left behind.
///
/// # Errors
/// [`End`]; nothing more can be said to the peer.
pub fn run(input: &mut impl Read, outbox: &Outbox) -> Result<(), End> {
    outbox.send(&Message::Greeting(Greeting {
        protocol: PROTOCOL_VERSION,
        version: env!("CARGO_PKG_VERSION").into(),
    }));
    let (queries, waiting) = sync_channel(WAITING_QUERIES);
    let answers = outbox.clone();
    spawn("query", move || answer_queries(&waiting, &answers)).map_err(End::Thread)?;
    let reports = outbox.clone();
    spawn("events", move || events::watch(&reports)).map_err(End::Thread)?;
    let desk = Desk {
        queries,
        outbox: outbox.clone(),
        probing: Arc::default(),
    };
    loop {
        match frame::read::<Request>(input) {
            Ok(request) => desk.take(request),
            Err(FrameError::Closed) => return Ok(()),
            Err(error) => return Err(End::Frame(error)),
        }
    }
}

/// Hands requests to the threads that answer them.
struct Desk {
    queries: SyncSender<u64>,
    outbox: Outbox,
    probing: Arc<AtomicBool>,
}

impl Desk {
    fn take(&self, request: Request) {
        let Request { id, ask } = request;
        match ask {
            Ask::Devices => {
                if self.queries.try_send(id).is_err() {
                    self.refuse(id, None, "ibv_get_device_list", Errno::BUSY);
                }
            }
            Ask::Probe(request) => {
                let device = request.device.clone();
                let Some(turn) = Turn::take(&self.probing) else {
                    return self.refuse(id, Some(device), "probe", Errno::BUSY);
                };
                let outbox = self.outbox.clone();
                let spawned = spawn("probe", move || {
                    let report = probe::run(&request);
                    // Before the answer, so that whoever gets it may ask for the next one.
                    drop(turn);
                    respond(&outbox, id, Reply::Probe(Box::new(report)));
                });
                if spawned.is_err() {
                    self.refuse(id, Some(device), "probe", Errno::AGAIN);
                }
            }
        }
    }

    fn refuse(&self, id: u64, device: Option<String>, call: &str, errno: Errno) {
        let error = HelperError {
            device,
            call: call.into(),
            errno: errno.raw_os_error(),
        };
        respond(&self.outbox, id, Reply::Failed(error));
    }
}

/// The right to run the one probe; returned when dropped, also by a panic.
struct Turn(Arc<AtomicBool>);

impl Turn {
    fn take(taken: &Arc<AtomicBool>) -> Option<Self> {
        let free = taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
        free.ok().map(|_| Self(Arc::clone(taken)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn answer_queries(waiting: &Receiver<u64>, outbox: &Outbox) {
    for id in waiting {
        let reply = match devices::all() {
            Ok(devices) => Reply::Devices(devices),
            Err(error) => Reply::Failed(error),
        };
        respond(outbox, id, reply);
    }
}

fn respond(outbox: &Outbox, id: u64, reply: Reply) {
    outbox.send(&Message::Response(Response { id, reply }));
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_probe_at_a_time_also_after_a_panic() {
        let taken = Arc::default();
        let turn = Turn::take(&taken).unwrap();
        assert!(Turn::take(&taken).is_none());
        drop(turn);
        let turn = Turn::take(&taken).unwrap();
        let panicked = thread::spawn(move || {
            let _turn = turn;
            panic!("as a test");
        });
        assert!(panicked.join().is_err());
        assert!(Turn::take(&taken).is_some());
    }
}
