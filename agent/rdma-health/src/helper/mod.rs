//! The verbs helper, seen from the agent: a process of its own that may hang or crash without harm.
//!
//! [`Helper`] is a handle to a task that keeps the connection: it starts the helper (or connects to its socket), hands
//! requests over, and ends the connection where an answer does not come in time. A helper that was started here is killed
//! then, and while too many that were killed have not ended no other is started; one behind a socket kills its own worker
//! when the connection ends. Restarts back off.

mod connection;
mod errors;
mod keeper;
mod killed;
mod words;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rdma_health_protocol::{Ask, AsyncEvent, Device, HelperError, ProbeReport, ProbeRequest, Reply};
use tokio::sync::{mpsc, oneshot, watch};

use crate::config;
pub use words::Words;

/// How long the helper may take to say hello and to answer a query, in all.
const QUERY_DEADLINE: Duration = Duration::from_secs(5);
/// What a probe may take beyond its own time budget: the helper ends it itself, this is for one that does not.
const PROBE_GRACE: Duration = Duration::from_secs(3);

/// Where the helper is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A program to start, spoken to over its standard input and output.
    Program(PathBuf),
    /// A Unix socket that a helper listens on.
    Socket(PathBuf),
}

impl Place {
    /// Where the configuration says; else the helper that belongs to this program.
    pub fn of(settings: &config::Helper) -> Self {
        match (&settings.program, &settings.socket) {
            (_, Some(socket)) => Self::Socket(socket.clone()),
            (Some(program), None) => Self::Program(program.clone()),
            (None, None) => Self::beside_us(),
        }
    }

    /// The helper of the directory that this program is in, else found by `PATH`.
    fn beside_us() -> Self {
        const NAME: &str = "rdma-health-verbs";
        let beside = std::env::current_exe()
            .ok()
            .and_then(|own| Some(own.parent()?.join(NAME)));
        Self::Program(beside.filter(|path| path.exists()).unwrap_or_else(|| NAME.into()))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Program(path) | Self::Socket(path) => path,
        }
    }
}

/// Why the helper did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It could not be started or reached.
    #[error("{path}: {error}")]
    Unreachable {
        /// The program or socket.
        path: String,
        /// The system's word.
        error: Words,
    },
    /// It speaks another version of the protocol.
    #[error("the helper is version {version} (protocol {protocol}), which does not fit this program")]
    WrongVersion {
        /// The helper's version.
        version: Words,
        /// The version of its protocol.
        protocol: u32,
    },
    /// It did not answer in time and was killed.
    #[error("the helper did not answer within {0:?}")]
    Hung(Duration),
    /// Earlier ones did not answer, were killed, and have not ended.
    #[error("{0} earlier helpers still hang in the kernel; no other is started until one of them has ended")]
    Stuck(usize),
    /// Its libraries could not be loaded: it never ran.
    #[error("the helper could not be loaded (exit status 127){0}; is libibverbs installed?")]
    NotLoaded(Words),
    /// It ended, or the connection did.
    #[error("the helper ended: {0}")]
    Ended(Words),
    /// It sent what makes no sense.
    #[error("the helper sent a malformed message: {0}")]
    Malformed(Words),
    /// It refused the request.
    #[error("{}", refusal(.0))]
    Refused(HelperError),
}

fn refusal(error: &HelperError) -> String {
    const ENOSYS: i32 = 38;
    let hint = match error.errno {
        ENOSYS => "; this kernel has no RDMA support loaded (modprobe ib_uverbs)",
        _ => "",
    };
    format!(
        "{} failed: {}{hint}",
        Words::from(&error.call),
        std::io::Error::from_raw_os_error(error.errno)
    )
}

impl Failure {
    /// A word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::WrongVersion { .. } => "version",
            Self::Hung(_) | Self::Stuck(_) => "hung",
            Self::NotLoaded(_) => "not_loaded",
            Self::Ended(_) => "ended",
            Self::Malformed(_) => "malformed",
            Self::Refused(_) => "refused",
        }
    }
}

/// How the helper fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is being started for the first time.
    Starting,
    /// It answers.
    Up,
    /// It does not; the next try follows after a pause.
    Down(Failure),
}

/// A request on its way, with the place for its answer.
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
    /// Starts to keep a connection to the helper at `place`; its events go to `events`. Ends when the last handle is
    /// dropped.
    pub fn keep(place: Place, events: mpsc::Sender<AsyncEvent>) -> Self {
        // Few requests wait at a time: the agent asks one after the other.
        let (calls, receiver) = mpsc::channel(8);
        let (state_sender, state) = watch::channel(State::Starting);
        tokio::spawn(keeper::run(place, receiver, events, state_sender));
        Self { calls, state }
    }

    /// How the helper fares, now and later.
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

    async fn call(&self, ask: Ask, deadline: Duration) -> Result<Reply, Failure> {
        let (answer, reply) = oneshot::channel();
        let gone = || Failure::Ended("its keeper has stopped".into());
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
        Reply::Probe(_) => "a probe",
        Reply::Failed(_) => "a failure",
    };
    Failure::Malformed(format!("an answer to another question: {answer}").into())
}
