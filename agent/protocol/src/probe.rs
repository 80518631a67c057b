//! A probe: what is requested and what came of it.

use serde::{Deserialize, Serialize};

use crate::{Errno, Gid, Path, WcStatus};

/// The most queue pairs of a probe.
pub const MAX_QUEUE_PAIRS: usize = 64;

/// The port rate in bits per second that one queue pair is trusted to fill. Above it, one queue pair is often limited by the
/// adapter's processing of a single connection and not by the port.
const RATE_OF_ONE: u64 = 100_000_000_000;

/// How many queue pairs a probe needs before its result says something about a port of this rate in bits per second: one for
/// each 100 Gb/s, at most 16.
pub fn queue_pairs_for(rate: u64) -> u32 {
    u32::try_from(rate.div_ceil(RATE_OF_ONE).clamp(1, 16)).unwrap_or(1)
}

/// One RDMA WRITE measurement to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// The port to probe, and the far end.
    #[serde(flatten)]
    pub path: Path,
    /// Size of one bandwidth message in bytes.
    pub message_size: u32,
    /// How many writes may be outstanding on each queue pair.
    pub depth: u32,
    /// How many queue pairs the bandwidth part uses, 1 to [`MAX_QUEUE_PAIRS`].
    pub queue_pairs: u32,
    /// Never write more bytes than this, all parts together.
    pub byte_budget: u64,
    /// Never run longer than this, setup included, in milliseconds. A measurement that the time cuts short counts.
    pub time_budget_ms: u64,
    /// How many small writes the latency part makes.
    pub latency_samples: u32,
    /// Size of one latency message in bytes.
    pub latency_size: u32,
    /// The GID index to use instead of the one an expert would choose.
    pub gid_index: Option<u32>,
    /// Start even where the port's counters show traffic.
    pub even_if_busy: bool,
    /// The NUMA node whose memory both buffers take; `None` for what the kernel chooses. For a loopback only.
    #[serde(default)]
    pub memory_node: Option<u32>,
    /// A port counts as busy from this many bytes per second on, both directions together.
    pub busy_bytes_per_second: u64,
}

/// How far a probe got, in order: the name of the step that failed or [`Stage::Done`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Find and open the device (`ibv_open_device`).
    Open,
    /// Read the port's attributes and check that it is active (`ibv_query_port`).
    QueryPort,
    /// Read the port's traffic counters to see whether it is in use.
    BusyCheck,
    /// Choose a GID (`_ibv_query_gid_table`); not on InfiniBand, where a LID is enough.
    Gid,
    /// Allocate a protection domain (`ibv_alloc_pd`).
    AllocPd,
    /// Register the buffers (`ibv_reg_mr`).
    RegMr,
    /// Create the completion queues (`ibv_create_cq`).
    CreateCq,
    /// Create the queue pair of each end (`ibv_create_qp`).
    CreateQp,
    /// Move them to INIT.
    Init,
    /// Move them to RTR (ready to receive).
    Rtr,
    /// Move them to RTS (ready to send).
    Rts,
    /// Post a write (`ibv_post_send`).
    Write,
    /// Wait for its completion (`ibv_poll_cq`).
    Poll,
    /// Compare the bytes that arrived with those sent.
    Verify,
    /// All of it worked.
    Done,
}

impl Stage {
    /// Every stage in order.
    pub const ALL: [Self; 15] = [
        Self::Open,
        Self::QueryPort,
        Self::BusyCheck,
        Self::Gid,
        Self::AllocPd,
        Self::RegMr,
        Self::CreateCq,
        Self::CreateQp,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Write,
        Self::Poll,
        Self::Verify,
        Self::Done,
    ];

    /// The stage's name in messages, labels and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::QueryPort => "query_port",
            Self::BusyCheck => "busy_check",
            Self::Gid => "gid",
            Self::AllocPd => "alloc_pd",
            Self::RegMr => "reg_mr",
            Self::CreateCq => "create_cq",
            Self::CreateQp => "create_qp",
            Self::Init => "init",
            Self::Rtr => "rtr",
            Self::Rts => "rts",
            Self::Write => "write",
            Self::Poll => "poll",
            Self::Verify => "verify",
            Self::Done => "done",
        }
    }
}

/// Why a probe ended before [`Stage::Done`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ProbeFailure {
    /// A call failed with an errno.
    Errno {
        /// The number, as in `errno.h`.
        errno: i32,
        /// Its symbol (`ENOMEM`) or the number where it has none.
        name: String,
    },
    /// The buffers could not be taken from the memory of the NUMA node that the request names (`mbind`).
    Placement {
        /// The number, as in `errno.h`.
        errno: i32,
        /// Its symbol or the number.
        name: String,
    },
    /// A completion came back with an error.
    Completion(Completion),
    /// The time budget ran out.
    TimedOut,
    /// The end that responds waited for the first write until its time budget ran out.
    Silent {
        /// Bytes of the first write that are in its memory, from the start on. 0: no packet arrived. More: packets arrive, but
        /// their acknowledgements do not reach the other end.
        arrived: u64,
    },
    /// The port carries traffic; nothing was written.
    Busy {
        /// Bytes per second seen, both directions together.
        bytes_per_second: u64,
    },
    /// The port is not active; nothing was written.
    NotActive {
        /// `ibv_port_state`.
        state: u8,
    },
    /// The port has no GID to use; nothing was written.
    NoGid,
    /// The bytes that arrived differ from those sent.
    Corrupted {
        /// Offset of the first difference in bytes.
        offset: u64,
    },
    /// There is no such device or port.
    NoSuchPort,
}

impl ProbeFailure {
    /// Whether nothing was measured, so that nothing is known to be wrong: the port is busy, not active or gone.
    pub fn is_not_probed(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. } | Self::NotActive { .. } | Self::NoSuchPort
        )
    }

    /// The error number of the call that failed, where one did.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Errno { errno, .. } | Self::Placement { errno, .. } => Some(Errno(*errno)),
            _ => None,
        }
    }

    /// The status of the completion that failed, where one did and `verbs.h` names it.
    pub fn status(&self) -> Option<WcStatus> {
        match self {
            Self::Completion(completion) => WcStatus::of(completion.status),
            _ => None,
        }
    }

    /// What kind of failure it is, in the word that JSON and metrics use.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Errno { .. } => "errno",
            Self::Placement { .. } => "placement",
            Self::Completion(_) => "completion",
            Self::TimedOut => "timed_out",
            Self::Silent { .. } => "silent",
            Self::Busy { .. } => "busy",
            Self::NotActive { .. } => "not_active",
            Self::NoGid => "no_gid",
            Self::Corrupted { .. } => "corrupted",
            Self::NoSuchPort => "no_such_port",
        }
    }
}

/// A failed completion (`ibv_wc`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// `ibv_wc_status` as a number; 4 is `LOC_PROT_ERR`.
    pub status: u32,
    /// Its name in `verbs.h` (`IBV_WC_LOC_PROT_ERR`).
    pub name: String,
    /// The vendor's own code. mlx5: 0x51 (81) with a local protection error, 0x81 (129) with an exceeded retry counter.
    pub vendor_error: u32,
}

/// What came of one probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// What was measured; the key of the measurement.
    #[serde(flatten)]
    pub path: Path,
    /// The stage that failed, or [`Stage::Done`].
    pub stage: Stage,
    /// Why it stopped; `None` exactly where `stage` is [`Stage::Done`].
    pub failure: Option<ProbeFailure>,
    /// The GID that was used; `None` on InfiniBand or before one was chosen.
    pub gid: Option<Gid>,
    /// The NUMA node that the probe ran on; `None` if the device reports none.
    pub numa_node: Option<u32>,
    /// The bandwidth part, where it ran.
    pub bandwidth: Option<Bandwidth>,
    /// The latency part, where it ran.
    pub latency: Option<Latency>,
    /// How long all of it took, in microseconds.
    pub elapsed_us: u64,
}

/// Bandwidth over a byte budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Bytes that were written and completed.
    pub bytes: u64,
    /// Time from the first post to the last completion, in seconds.
    pub seconds: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Size of one message in bytes.
    pub message_size: u32,
    /// How many queue pairs wrote at the same time. Older versions always used one and did not record it.
    #[serde(default = "one")]
    pub queue_pairs: u32,
}

fn one() -> u32 {
    1
}

/// Latency of small writes: half of the time of a round trip between the two ends, as `ib_write_lat` has it,
/// in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many writes were measured.
    pub samples: u32,
    /// The fastest.
    pub min: f64,
    /// Half were faster.
    pub median: f64,
    /// 99 of 100 were faster.
    pub p99: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_queue_pair_for_each_100_gigabits() {
        let gigabit = 1_000_000_000;
        let expected = [
            (0, 1),
            (10, 1),
            (100, 1),
            (200, 2),
            (400, 4),
            (800, 8),
            (64_000, 16),
        ];
        for (rate, number) in expected {
            assert_eq!(queue_pairs_for(rate * gigabit), number, "{rate} Gb/s");
        }
    }
}
