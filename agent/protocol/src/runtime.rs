//! What a helper on the host reports about container runtimes and the kubelet.

use serde::{Deserialize, Serialize};

use crate::{bounded, text::excerpt};

/// The most runtimes of a node.
pub const MAX_RUNTIMES: usize = 64;
/// Maximum length of the name of a process in bytes (`TASK_COMM_LEN`, less the final zero).
const MAX_COMM: usize = 15;
/// Maximum length of a reason in bytes.
const MAX_REASON: usize = 2048;

/// The memlock limit of one runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeLimits {
    /// The name of the process.
    #[serde(deserialize_with = "bounded::text::<_, MAX_COMM>")]
    pub name: String,
    /// Its process id on the node.
    pub pid: u32,
    /// Its limit.
    pub memlock: MemlockLimit,
}

/// `RLIMIT_MEMLOCK` of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemlockLimit {
    /// Soft and hard limit in bytes; `None` is unlimited.
    Bytes {
        /// The soft limit.
        soft: Option<u64>,
        /// The hard limit.
        hard: Option<u64>,
    },
    /// Why it could not be read.
    Unread(#[serde(deserialize_with = "bounded::text::<_, MAX_REASON>")] String),
}

impl MemlockLimit {
    /// A limit that could not be read, with at most as much of the reason as the other side accepts.
    pub fn unread(reason: &str) -> Self {
        // A character takes at most ten bytes where it is escaped.
        Self::Unread(excerpt(reason, MAX_REASON / 10 - 1))
    }
}
