//! The client of the verbs helper, a separate process that may hang or crash without harm to the agent.
//!
//! [`Helper`] is a handle to a task that keeps the connection: it starts the helper or connects to its socket, forwards
//! requests, and closes the connection if a response is not in time. It then kills a helper that it started, and starts
//! no other while too many killed helpers have not ended. A helper behind a socket kills its own worker when the
//! connection ends. Restarts back off.

#![forbid(unsafe_code)]

mod connection;
mod errors;
mod keeper;
mod killed;
mod metrics;
mod orphans;
mod words;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use rdma_health_node::fact::HelperTrouble;
use rdma_health_protocol::{
    Ask, AsyncEvent, ConnectRequest, Device, DriverStatistics, EndAddress, Errno, HelperError, HostFile,
    KubeletAnswer, KubeletMethod, LogPart, ModuleMemory, OfferRequest, OfferedEnd, PROTOCOL_VERSION,
    PciSpace, ProbeReport, ProbeRequest, Reply, RuntimeLimits,
};
use tokio::sync::{mpsc, oneshot, watch};

pub use metrics::Metrics;
pub use words::Words;

/// Timeout of the greeting and of a query.
const QUERY_DEADLINE: Duration = Duration::from_secs(5);
/// Extra time for a probe beyond its time budget. The helper enforces the budget itself; this is for a helper that hangs.
const PROBE_GRACE: Duration = Duration::from_secs(3);

/// The location of the helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A program to start; messages use its standard input and output.
    Program(PathBuf),
    /// A Unix socket that a helper listens on.
    Socket(PathBuf),
}

impl Place {
    /// The helper of this program: in the same directory, otherwise in `PATH`.
    pub fn of_this_program() -> Self {
        const NAME: &str = "rdma-health-verbs";
        let neighbour = std::env::current_exe()
            .ok()
            .and_then(|own| Some(own.parent()?.join(NAME)));
        Self::Program(
            neighbour
                .filter(|path| path.exists())
                .unwrap_or_else(|| NAME.into()),
        )
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Program(path) | Self::Socket(path) => path,
        }
    }
}

/// Why a call to the helper failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It could not be started or reached; says what failed, why, and what to do.
    #[error("{0}")]
    Unreachable(Words),
    /// It speaks another version of the protocol.
    #[error(
        "the verbs helper is version {version} (protocol {protocol}), but this program speaks protocol {PROTOCOL_VERSION}; \
         install both from the same release"
    )]
    WrongVersion {
        /// The helper's version.
        version: Words,
        /// The version of its protocol.
        protocol: u32,
    },
    /// It is another build, whose messages differ although they have the same version.
    #[error(
        "the verbs helper is another build of version {0}, with other messages than this program; install both from the same release"
    )]
    OtherBuild(Words),
    /// It did not send its greeting in time, which comes before any call of a library or driver.
    #[error("the verbs helper did not greet within {0:?}: it is stopped, or gets no processor time")]
    Silent(Duration),
    /// It did not respond in time and was killed.
    #[error("the verbs helper did not respond within {0:?}")]
    Hung(Duration),
    /// Earlier ones did not respond, were killed, and have not ended.
    #[error(
        "{0} earlier verbs helpers still hang in the kernel; no new one is started until one of them has ended"
    )]
    Stuck(usize),
    /// Its libraries could not be loaded, so it never ran.
    #[error(
        "the verbs helper cannot load its libraries (exit status 127){0}; check that libibverbs is installed"
    )]
    NotLoaded(Words),
    /// The helper or the connection ended.
    #[error("the verbs helper died: {0}")]
    Ended(Words),
    /// It sent an invalid message.
    #[error("the verbs helper sent a malformed message: {0}")]
    Malformed(Words),
    /// It rejected the request.
    #[error("{}", refusal(.0))]
    Refused(HelperError),
}

/// What to do about an error of a verbs call that stays until someone acts; empty for other errors.
pub fn hint(errno: i32) -> &'static str {
    match Errno(errno) {
        Errno::ENOSYS => "; this kernel has no RDMA support loaded (modprobe ib_uverbs)",
        _ => "",
    }
}

fn refusal(error: &HelperError) -> String {
    let hint = hint(error.errno);
    format!(
        "{} failed: {}{hint}",
        Words::from(&error.call),
        std::io::Error::from_raw_os_error(error.errno)
    )
}

impl Failure {
    /// The failure to start or reach the helper at `place`.
    fn unreachable(place: &Place, error: &io::Error) -> Self {
        let path = place.path().display();
        let text = match (place, error.kind()) {
            (Place::Program(_), io::ErrorKind::NotFound) => {
                format!("verbs helper {path} not found: install rdma-health-verbs or pass --helper")
            }
            (Place::Program(_), _) => {
                format!(
                    "verbs helper {path} cannot be executed: {error}; pass the path of rdma-health-verbs with --helper"
                )
            }
            (Place::Socket(_), io::ErrorKind::NotFound) => {
                format!(
                    "verbs helper socket {path} not found: start rdma-health-verbs or correct --helper-socket"
                )
            }
            (Place::Socket(_), io::ErrorKind::ConnectionRefused) => {
                format!("verbs helper socket {path} refused the connection: no verbs helper listens on it")
            }
            (Place::Socket(_), _) => format!("cannot connect to the verbs helper socket {path}: {error}"),
        };
        Self::Unreachable(text.into())
    }

    /// Whether no helper was there, or no longer; not one that hangs or misbehaves.
    fn is_missing(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Ended(_))
    }

    /// The value of the label `reason` in metrics.
    pub fn reason(&self) -> &'static str {
        self.trouble().reason()
    }

    /// Its kind.
    pub fn trouble(&self) -> HelperTrouble {
        match self {
            Self::Unreachable(_) => HelperTrouble::Unreachable,
            Self::Silent(_) => HelperTrouble::Silent,
            Self::WrongVersion { .. } | Self::OtherBuild(_) => HelperTrouble::Version,
            Self::Hung(_) | Self::Stuck(_) => HelperTrouble::Hung,
            Self::NotLoaded(_) => HelperTrouble::NotLoaded,
            Self::Ended(_) => HelperTrouble::Ended,
            Self::Malformed(_) => HelperTrouble::Malformed,
            Self::Refused(_) => HelperTrouble::Refused,
        }
    }
}

/// The state of the helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Starting for the first time.
    Starting,
    /// Running and responding.
    Up,
    /// It ended after it had worked, and another service is about to start it again.
    Away(Failure),
    /// Not running; the next attempt follows after a pause.
    Down(Failure),
}

/// Whether a helper that is missing for some seconds is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Reported,
    Tolerated,
}

/// A request with the channel for its response.
struct Call {
    ask: Ask,
    deadline: Duration,
    answer: oneshot::Sender<Result<Reply, Failure>>,
}

/// A handle to the helper.
#[derive(Debug, Clone)]
pub struct Helper {
    calls: mpsc::Sender<Call>,
    state: watch::Receiver<State>,
}

impl Helper {
    /// Starts a task that keeps a connection to the helper at `place` and sends the helper's events to `events`. It ends
    /// when the last handle is dropped.
    pub fn keep(place: Place, events: mpsc::Sender<AsyncEvent>) -> Self {
        Self::spawn(place, events, Missing::Reported)
    }

    /// As [`Helper::keep`], for a program that runs as long as the helper does: a helper behind a socket that is not there yet,
    /// or that worked and is started again, is waited for. It is reported only if it stays away.
    pub fn keep_patiently(place: Place, events: mpsc::Sender<AsyncEvent>) -> Self {
        Self::spawn(place, events, Missing::Tolerated)
    }

    fn spawn(place: Place, events: mpsc::Sender<AsyncEvent>, missing: Missing) -> Self {
        // The queue is short because the agent sends one request after the other.
        let (calls, receiver) = mpsc::channel(8);
        let (state_sender, state) = watch::channel(State::Starting);
        tokio::spawn(keeper::run(place, receiver, events, state_sender, missing));
        Self { calls, state }
    }

    /// The current state, and its changes.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Every device with its ports and GID tables.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn devices(&self) -> Result<Vec<Result<Device, HelperError>>, Failure> {
        match self.call(Ask::Devices, QUERY_DEADLINE).await? {
            Reply::Devices(devices) => Ok(devices),
            other => Err(unexpected(&other)),
        }
    }

    /// The memlock limits of container runtimes and the kubelet; `None` if the helper does not see the host's processes.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn runtimes(&self) -> Result<Option<Vec<RuntimeLimits>>, Failure> {
        match self.call(Ask::Runtimes, QUERY_DEADLINE).await {
            Ok(Reply::Runtimes(runtimes)) => Ok(Some(runtimes)),
            Ok(other) => Err(unexpected(&other)),
            Err(Failure::Refused(error)) if Errno(error.errno) == Errno::ENOSYS => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The configuration spaces of PCI functions, as far as readers use them.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn pci_spaces(&self) -> Result<Vec<PciSpace>, Failure> {
        match self.call(Ask::PciSpaces, QUERY_DEADLINE).await? {
            Reply::PciSpaces(spaces) => Ok(spaces),
            other => Err(unexpected(&other)),
        }
    }

    /// The memory of transceivers, as far as readers use it.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn modules(&self) -> Result<Vec<ModuleMemory>, Failure> {
        match self.call(Ask::Modules, QUERY_DEADLINE).await? {
            Reply::Modules(modules) => Ok(modules),
            other => Err(unexpected(&other)),
        }
    }

    /// The statistics of the drivers of network devices, as far as readers use them.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn statistics(&self) -> Result<Vec<DriverStatistics>, Failure> {
        match self.call(Ask::Statistics, QUERY_DEADLINE).await? {
            Reply::Statistics(statistics) => Ok(statistics),
            other => Err(unexpected(&other)),
        }
    }

    /// The files of the host that a container does not have; none if the helper does not see the host.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn host_files(&self) -> Result<Vec<HostFile>, Failure> {
        match self.call(Ask::HostFiles, QUERY_DEADLINE).await {
            Ok(Reply::HostFiles(files)) => Ok(files),
            Ok(other) => Err(unexpected(&other)),
            Err(Failure::Refused(error)) if Errno(error.errno) == Errno::ENOSYS => Ok(Vec::new()),
            Err(failure) => Err(failure),
        }
    }

    /// The next part of the kernel log, from the record `from` on.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn kernel_log(&self, from: u64) -> Result<LogPart, Failure> {
        match self.call(Ask::KernelLog(from), QUERY_DEADLINE).await? {
            Reply::KernelLog(part) => Ok(part),
            other => Err(unexpected(&other)),
        }
    }

    /// What the kubelet answers.
    ///
    /// # Errors
    /// Any [`Failure`]; a kubelet that fails is an answer, not an error.
    pub async fn kubelet(&self, method: KubeletMethod) -> Result<KubeletAnswer, Failure> {
        match self.call(Ask::Kubelet(method), QUERY_DEADLINE).await? {
            Reply::Kubelet(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs one probe.
    ///
    /// # Errors
    /// Any [`Failure`]; a probe that fails is a report, not an error.
    pub async fn probe(&self, request: ProbeRequest) -> Result<ProbeReport, Failure> {
        let deadline = Duration::from_millis(request.time_budget_ms) + PROBE_GRACE;
        match self.call(Ask::Probe(request), deadline).await? {
            Reply::Probe(report) => Ok(*report),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens one end of a connection to another helper, for at most `within`. The inner error is how far it got.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn offer(
        &self,
        request: OfferRequest,
        within: Duration,
    ) -> Result<Result<OfferedEnd, Box<ProbeReport>>, Failure> {
        match self.call(Ask::Offer(request), within + PROBE_GRACE).await? {
            Reply::Offer(offered) => Ok(offered),
            other => Err(unexpected(&other)),
        }
    }

    /// Connects an end that [`Helper::offer`] opened to the other one, for at most `within`. Returns how far it got if that failed.
    ///
    /// # Errors
    /// Any [`Failure`].
    pub async fn connect(
        &self,
        end: u64,
        to: EndAddress,
        within: Duration,
    ) -> Result<Option<Box<ProbeReport>>, Failure> {
        let ask = Ask::Connect(ConnectRequest { end, to });
        match self.call(ask, within + PROBE_GRACE).await? {
            Reply::Connect(failed) => Ok(failed),
            other => Err(unexpected(&other)),
        }
    }

    /// Lets a connected end do its part of the measurement, for at most `within`, and closes it.
    ///
    /// # Errors
    /// Any [`Failure`]; a measurement that fails is a report, not an error.
    pub async fn measure(&self, end: u64, within: Duration) -> Result<ProbeReport, Failure> {
        match self.call(Ask::Measure(end), within + PROBE_GRACE).await? {
            Reply::Probe(report) => Ok(*report),
            other => Err(unexpected(&other)),
        }
    }

    async fn call(&self, ask: Ask, deadline: Duration) -> Result<Reply, Failure> {
        let (answer, reply) = oneshot::channel();
        let gone = || Failure::Ended("its supervising task has stopped".into());
        self.calls
            .send(Call {
                ask,
                deadline,
                answer,
            })
            .await
            .map_err(|_| gone())?;
        match reply.await.map_err(|_| gone())?? {
            Reply::Failed(error) => Err(Failure::Refused(error)),
            reply => Ok(reply),
        }
    }
}

fn unexpected(reply: &Reply) -> Failure {
    let answer = match reply {
        Reply::Devices(_) => "devices",
        Reply::Runtimes(_) => "runtimes",
        Reply::PciSpaces(_) => "configuration spaces",
        Reply::Modules(_) => "the memory of transceivers",
        Reply::Statistics(_) => "the statistics of network drivers",
        Reply::HostFiles(_) => "files of the host",
        Reply::KernelLog(_) => "a kernel log",
        Reply::Kubelet(_) => "the kubelet's answer",
        Reply::Probe(_) => "a probe report",
        Reply::Offer(_) => "an end",
        Reply::Connect(_) => "a connection",
        Reply::Failed(_) => "a failure",
    };
    Failure::Malformed(format!("the answer to another request: {answer}").into())
}
