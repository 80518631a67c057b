//! Symptoms: failures that a job's log or a probe shows. The cause is not yet known.

use rdma_health_protocol::Errno;
use rdma_health_rules::Severity;
use serde::Serialize;

pub(crate) mod completion;
mod family;
mod kind;
mod software;

pub use family::Family;
pub use kind::{Grade, SymptomKind};
pub(crate) use software::GENERAL_GID_STEP;
pub use software::Software;

/// One symptom, with the number of its occurrences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Symptom {
    /// What went wrong.
    pub kind: SymptomKind,
    /// How much it says about the cause.
    pub grade: Grade,
    /// Where it occurred first: `log line 12`, `probe of mlx5_0:1`.
    pub source: String,
    /// The line number in the log, from 1; [`Symptom::OF_PROCESS`] for the job's process; `None` for a probe.
    pub line: Option<u64>,
    /// Number of occurrences.
    pub count: u64,
    /// The relevant part of the line; its length is bounded and it has no control characters.
    pub text: String,
    /// Whether the message itself is known. Otherwise the kind follows from an error number or a status in a line of an unknown
    /// program.
    pub known: bool,
    /// What the text names.
    #[serde(flatten)]
    pub named: Named,
    /// The software that wrote it, if the line shows it.
    pub software: Option<Software>,
    /// The first few hosts that wrote it, as far as the lines name them.
    pub hosts: Vec<String>,
}

impl Symptom {
    /// The line number of a symptom that the job's process shows, and not its log.
    pub const OF_PROCESS: u64 = 0;

    /// Whether the job's process shows it.
    pub fn is_of_process(&self) -> bool {
        self.line == Some(Self::OF_PROCESS)
    }

    /// How bad it is for the job whose log or process shows it; `None` of a probe, which has rules, and where it proves no failure.
    pub fn severity_of_job(&self) -> Option<Severity> {
        self.line?;
        match self.grade {
            Grade::Failure => Some(Severity::Critical),
            Grade::Degraded | Grade::Secondary => Some(Severity::Warning),
            Grade::Unrecognised | Grade::Note => None,
        }
    }

    /// Grades it as secondary at most, because another failure leads to it.
    pub(crate) fn follows_another(&mut self) {
        self.grade = self.grade.min(Grade::Secondary);
    }
}

/// The devices, addresses and codes that the text of a symptom names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Named {
    /// RDMA device.
    pub device: Option<String>,
    /// The PCI function that a line of the kernel log names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Its port.
    pub port: Option<u8>,
    /// Address of the peer.
    pub peer: Option<String>,
    /// Index of the GID in use.
    pub gid_index: Option<u32>,
    /// The local GID in use.
    pub local_gid: Option<String>,
    /// Whether further lines of its kind name other local GIDs.
    #[serde(skip)]
    pub has_other_gids: bool,
    /// The peer's GID.
    pub remote_gid: Option<String>,
    /// The adapter's vendor error code.
    pub vendor_error: Option<u32>,
    /// The error number of a call.
    pub errno: Option<Errno>,
    /// The transition of a queue pair that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transition: Option<Transition>,
    /// The GPU whose memory was to be registered, as far as the line or its neighbours show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    /// The memory-lock limit in bytes.
    pub memlock_bytes: Option<u64>,
}

/// A state to which a queue pair is moved. Each transition sets other attributes (InfiniBand Architecture Specification volume 1, 10.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transition {
    /// From RESET to INIT: partition key, port, access flags.
    Init,
    /// From INIT to RTR: the path to the peer, with GID and MTU.
    Rtr,
    /// From RTR to RTS: timeouts and retries.
    Rts,
}

/// The kind of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gpu {
    /// NVIDIA's.
    Nvidia,
    /// AMD's.
    Amd,
    /// Any.
    Any,
}

impl Named {
    /// Copies from `other` the values that are not known yet.
    pub(crate) fn complete(&mut self, other: Self) {
        if self.device.is_none() {
            (self.device, self.port) = (other.device, other.port);
        }
        self.function = self.function.take().or(other.function);
        self.port = self.port.or(other.port);
        self.peer = self.peer.take().or(other.peer);
        self.gid_index = self.gid_index.or(other.gid_index);
        self.has_other_gids |= other.has_other_gids
            || self.local_gid.is_some() && other.local_gid.is_some() && self.local_gid != other.local_gid;
        self.local_gid = self.local_gid.take().or(other.local_gid);
        self.remote_gid = self.remote_gid.take().or(other.remote_gid);
        self.vendor_error = self.vendor_error.or(other.vendor_error);
        self.errno = self.errno.or(other.errno);
        self.transition = self.transition.or(other.transition);
        self.gpu = self.gpu.or(other.gpu);
        self.memlock_bytes = self.memlock_bytes.or(other.memlock_bytes);
    }
}
