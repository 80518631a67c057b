//! Symptoms: what a user sees, in a job's log or in a probe, before anybody knows the cause.

use serde::Serialize;

pub use super::kind::{Grade, SymptomKind};

/// One symptom, as often as it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Symptom {
    /// What went wrong.
    pub kind: SymptomKind,
    /// How much it says.
    pub grade: Grade,
    /// Where it was seen first: `log line 12`, `probe of mlx5_0:1`.
    pub source: String,
    /// The line of the log, from 1; `None` for a probe.
    pub line: Option<u64>,
    /// How often it was seen.
    pub count: u64,
    /// What was written, from the point on where it matters; bounded, without control characters.
    pub text: String,
    /// What the text names.
    #[serde(flatten)]
    pub named: Named,
    /// The machines that wrote it, where the lines say so; the first few.
    pub hosts: Vec<String>,
}

/// What the text of a symptom names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Named {
    /// RDMA device.
    pub device: Option<String>,
    /// Its port.
    pub port: Option<u8>,
    /// Address of the peer.
    pub peer: Option<String>,
    /// Index of the GID that was used.
    pub gid_index: Option<u32>,
    /// The local GID that was used.
    pub local_gid: Option<String>,
    /// The GID of the other side.
    pub remote_gid: Option<String>,
    /// The adapter's own code.
    pub vendor_error: Option<u32>,
    /// The error number of a call.
    pub errno: Option<i32>,
    /// The memory-lock limit in bytes.
    pub memlock_bytes: Option<u64>,
}

impl Named {
    /// Takes over from `other` what is not known yet.
    pub(crate) fn complete(&mut self, other: Self) {
        if self.device.is_none() {
            (self.device, self.port) = (other.device, other.port);
        }
        self.port = self.port.or(other.port);
        self.peer = self.peer.take().or(other.peer);
        self.gid_index = self.gid_index.or(other.gid_index);
        self.local_gid = self.local_gid.take().or(other.local_gid);
        self.remote_gid = self.remote_gid.take().or(other.remote_gid);
        self.vendor_error = self.vendor_error.or(other.vendor_error);
        self.errno = self.errno.or(other.errno);
        self.memlock_bytes = self.memlock_bytes.or(other.memlock_bytes);
    }
}
