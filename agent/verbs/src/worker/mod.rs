//! The helper's side of one connection: answers requests and reports events.
//!
//! Ten kinds of threads, so that one that hangs in a verbs call takes none of the others with it:
//!
//! | thread | does | ends |
//! | --- | --- | --- |
//! | `run` | reads requests | with the stream; then the process exits |
//! | `outbox` | writes frames | never |
//! | `query` | lists devices, reads what only root may | never |
//! | `kubelet` | one question to the kubelet, one at a time | with it |
//! | `modules` | reads transceivers, one reading at a time | with it |
//! | `drivers` | reads the statistics of network drivers, one reading at a time | with it |
//! | `files` | reads files of the host, one reading at a time | with it |
//! | `probe` | one probe, one at a time | with it |
//! | `end` | one end of a connection | when it has measured, or is asked nothing |
//! | `events` | watches devices | never |
//!
//! Memory is bounded: a frame by its maximum length, waiting requests and waiting frames by their number and size. A
//! peer that does not read what it asked for loses the connection.

mod bounds;
mod ends;
mod events;
mod idle;
mod latest;
mod outbox;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use rdma_health_kernel::root::LogFollower;
use rdma_health_protocol::{
    Ask, END_IDLE, FINGERPRINT, Greeting, HelperError, KubeletMethod, Message, PROTOCOL_VERSION, Reply,
    Request, Response, frame::FrameError,
};
use rustix::io::Errno;

pub use self::{
    bounds::Bounds,
    idle::Requests,
    outbox::{Lost, Outbox},
};
use self::{
    ends::{Ends, Step},
    latest::Latest,
};
use crate::{
    devices, host,
    probe::{self, OfferedEnd},
};

/// Requests for devices that may wait for the one that is being answered.
const WAITING_QUERIES: usize = 8;

/// How long the kubelet may take for an answer; less than the agent waits for this helper.
const KUBELET_DEADLINE: Duration = Duration::from_secs(2);

/// What is refused with `EPERM`.
const BEYOND: &str = "measuring beyond the bounds of an unprivileged user (rdma-health-verbs --help)";
const READ_MODULES: &str = "reading the memory of transceivers";
const READ_STATISTICS: &str = "reading the statistics of network drivers";
const READ_FILES: &str = "reading files of the host";

/// Where this helper finds what belongs to the host, and what its peer may do there.
#[derive(Debug, Clone)]
pub struct Places {
    /// The directory with the host's `/proc`, if this helper has one.
    pub host: Option<PathBuf>,
    /// The kubelet's pod-resources socket.
    pub kubelet: PathBuf,
    /// What the peer may measure, if it is bounded.
    pub bounds: Option<Bounds>,
}

impl Places {
    /// The places that the command line names, or else the usual ones.
    pub fn new(host: Option<PathBuf>, kubelet: Option<PathBuf>) -> Self {
        Self {
            host,
            kubelet: kubelet.unwrap_or_else(|| rdma_health_kubelet::SOCKET.into()),
            bounds: None,
        }
    }
}

/// Why a connection ended before its peer closed it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The peer sent something that is not a request, or the stream failed.
    #[error("cannot read a request: {0}")]
    Frame(FrameError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Greets, then serves requests until the peer closes the stream. The caller must end the process then: threads that wait for
/// a device are left behind.
///
/// # Errors
/// [`ConnectionError`]; nothing more can be sent to the peer.
pub fn run(requests: &mut Requests, outbox: &Outbox, places: Places) -> Result<(), ConnectionError> {
    outbox.send(&Message::Greeting(Greeting {
        protocol: PROTOCOL_VERSION,
        version: env!("CARGO_PKG_VERSION").into(),
        fingerprint: FINGERPRINT,
    }));
    let (queries, waiting) = sync_channel(WAITING_QUERIES);
    let answers = outbox.clone();
    let Places {
        host,
        kubelet,
        bounds,
    } = places;
    spawn("query", move || {
        answer_queries(&waiting, &answers, host.as_deref());
    })
    .map_err(ConnectionError::Thread)?;
    let reports = outbox.clone();
    spawn("events", move || events::watch(&reports)).map_err(ConnectionError::Thread)?;
    let probing = Arc::default();
    let desk = Desk {
        queries,
        kubelet: kubelet.into(),
        asking_kubelet: Arc::default(),
        outbox: outbox.clone(),
        bounds,
        probing: Arc::clone(&probing),
        ends: Ends::new(outbox.clone(), probing, END_IDLE),
    };
    loop {
        match requests.receive() {
            Ok(request) => desk.take(request),
            Err(FrameError::Closed) => return Ok(()),
            Err(error) => return Err(ConnectionError::Frame(error)),
        }
    }
}

/// Hands requests to the threads that answer them.
struct Desk {
    queries: SyncSender<(u64, Query)>,
    kubelet: Arc<Path>,
    asking_kubelet: Arc<AtomicBool>,
    outbox: Outbox,
    bounds: Option<Bounds>,
    probing: Arc<AtomicBool>,
    ends: Ends,
}

impl Desk {
    fn query(&self, id: u64, query: Query, call: &str) {
        if self.queries.try_send((id, query)).is_err() {
            refuse(&self.outbox, id, None, call, Errno::BUSY);
        }
    }

    /// Has its own thread: no other question waits for a kubelet that hangs.
    fn ask_kubelet(&self, id: u64, method: KubeletMethod) {
        const CALL: &str = "asking the kubelet";
        let Some(turn) = Turn::take(&self.asking_kubelet) else {
            return refuse(&self.outbox, id, None, CALL, Errno::BUSY);
        };
        let (outbox, socket) = (self.outbox.clone(), Arc::clone(&self.kubelet));
        let spawned = spawn("kubelet", move || {
            let answer = rdma_health_kubelet::ask(&socket, method, KUBELET_DEADLINE);
            // Before the answer: who gets it may ask the next question.
            drop(turn);
            respond(&outbox, id, Reply::Kubelet(answer));
        });
        if spawned.is_err() {
            refuse(&self.outbox, id, None, CALL, Errno::AGAIN);
        }
    }

    /// Whether a bounded peer may not ask this.
    fn is_beyond_bounds(&self, ask: &Ask) -> bool {
        let Some(bounds) = &self.bounds else { return false };
        !match ask {
            Ask::Probe(request) => Bounds::allow(request),
            Ask::Offer(request) => bounds.allow_ends() && Bounds::allow(&request.probe),
            Ask::Connect(request) => bounds.reach(&request.to),
            _ => true,
        }
    }

    fn take(&self, request: Request) {
        let Request { id, ask } = request;
        if self.is_beyond_bounds(&ask) {
            return refuse(&self.outbox, id, None, BEYOND, Errno::PERM);
        }
        match ask {
            Ask::Devices => self.query(id, Query::Devices, "ibv_get_device_list"),
            Ask::Runtimes => self.query(id, Query::Runtimes, "runtimes"),
            Ask::PciSpaces => self.query(id, Query::PciSpaces, "listing /sys/bus/pci/devices"),
            Ask::Modules => self.query(id, Query::Modules, READ_MODULES),
            Ask::Statistics => self.query(id, Query::Statistics, READ_STATISTICS),
            Ask::HostFiles => self.query(id, Query::HostFiles, READ_FILES),
            Ask::KernelLog(from) => self.query(id, Query::KernelLog(from), "reading /dev/kmsg"),
            Ask::Kubelet(method) => self.ask_kubelet(id, method),
            Ask::Probe(request) => {
                let device = request.path.from.device.clone();
                let Some(turn) = Turn::take(&self.probing) else {
                    return refuse(&self.outbox, id, Some(device), "probe", Errno::BUSY);
                };
                let outbox = self.outbox.clone();
                let spawned = spawn("probe", move || {
                    let report = probe::run(&request);
                    // Before the answer: who gets it may ask for the next one.
                    drop(turn);
                    respond(&outbox, id, Reply::Probe(Box::new(report)));
                });
                if spawned.is_err() {
                    refuse(&self.outbox, id, Some(device), "probe", Errno::AGAIN);
                }
            }
            Ask::Offer(request) => self.ends.offer(id, move || OfferedEnd::open(request)),
            Ask::Connect(request) => self.ends.ask(id, request.end, Step::Connect(request.to)),
            Ask::Measure(end) => self.ends.ask(id, end, Step::Measure),
        }
    }
}

/// A question that the thread `query` answers.
enum Query {
    Devices,
    Runtimes,
    PciSpaces,
    Modules,
    Statistics,
    HostFiles,
    KernelLog(u64),
}

fn refuse(outbox: &Outbox, id: u64, device: Option<String>, call: &str, errno: Errno) {
    let error = HelperError {
        device,
        call: call.into(),
        errno: errno.raw_os_error(),
    };
    respond(outbox, id, Reply::Failed(error));
}

/// The right to do the one thing of its kind; returned when dropped, also by a panic.
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

fn answer_queries(waiting: &Receiver<(u64, Query)>, outbox: &Outbox, host: Option<&Path>) {
    // What this process sees itself.
    let own = Path::new("/");
    let mut log = LogFollower::default();
    let modules = Latest::new("modules", READ_MODULES);
    let statistics = Latest::new("drivers", READ_STATISTICS);
    let files = Latest::new("files", READ_FILES);
    for (id, query) in waiting {
        let reply = match query {
            Query::Devices => devices::all().map(Reply::Devices),
            Query::Runtimes => host::runtimes(host).map(Reply::Runtimes),
            Query::PciSpaces => host::pci_spaces(own).map(Reply::PciSpaces),
            Query::Modules => modules.read(|| host::modules(own)).map(Reply::Modules),
            Query::Statistics => statistics.read(|| host::statistics(own)).map(Reply::Statistics),
            Query::HostFiles => {
                let host = host.map(Path::to_owned);
                files
                    .read(move || host::files(host.as_deref()))
                    .map(Reply::HostFiles)
            }
            Query::KernelLog(from) => host::kernel_log(own, &mut log, from).map(Reply::KernelLog),
        };
        let reply = reply.unwrap_or_else(Reply::Failed);
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
