//! Lines that show that a process of the job ended by itself. They say nothing about RDMA, but the failures of its peers follow from it.

use std::sync::LazyLock;

use super::{line::number, phrases::Phrases};

/// Texts of `PyTorch`, the kernel and launchers, in lower case.
const TEXTS: &[&str] = &[
    "cuda out of memory",
    "hip out of memory",
    "outofmemoryerror",
    "out of memory: killed process",
    "oom-kill:",
    "oom_kill",
    "oomkilled",
    "memory cgroup out of memory",
    "exit code 137",
    "exitcode: -9",
    "exitcode  : -9",
    "exitcode: -11",
    "exitcode  : -11",
    "signal 9 (sigkill)",
    "signal 11 (segmentation fault",
    "exited on signal",
    "killed by signal",
    "terminated by signal",
    "segmentation fault (core dumped)",
    "caught signal 11",
    "an illegal memory access was encountered",
    "device-side assert triggered",
    "uncorrectable ecc error encountered",
    "nccl error: unhandled cuda error",
    // The program calls NCCL wrongly.
    "invalid rank requested",
    "duplicate gpu detected",
    "is not a valid pointer",
    // The batch system, the launcher or the cluster ended the job.
    "cancelled at ",
    "death signal, shutting down",
    "got signal: 15",
    "sigterm received",
    "received sigterm",
    "received signals.sigterm",
    "due to preemption",
    "return code = -9",
    "return code = -6",
    "return code = -11",
    "killed by sigkill",
    "the actor died unexpectedly",
];

/// Exceptions of Python that a program does not expect, in lower case. Those of connections, timeouts and libraries are left out: they are
/// what a peer sees.
const EXCEPTIONS: &[&str] = &[
    "valueerror",
    "typeerror",
    "keyerror",
    "indexerror",
    "attributeerror",
    "assertionerror",
    "nameerror",
    "unboundlocalerror",
    "zerodivisionerror",
    "floatingpointerror",
    "overflowerror",
    "filenotfounderror",
    "permissionerror",
    "isadirectoryerror",
    "unicodedecodeerror",
    "recursionerror",
    "memoryerror",
    "modulenotfounderror",
    "importerror",
    "notimplementederror",
    "runtimeerror",
];
/// Words by which an exception of a general type is one of communication.
const OF_COMMUNICATION: &[&str] = &[
    "nccl",
    "rccl",
    "hccl",
    "gloo",
    "nixl",
    "ucx",
    "rdma",
    "nvshmem",
    "deepep",
    "socket",
    "connect",
    "timed out",
    "timeout",
    "store",
    "engine",
    "worker",
    "process",
    "rank",
    "backend",
    "distributed",
    "remote",
    "peer",
    "network",
    "mooncake",
    "ibv_",
];

/// Where a line in lower case shows that an exception ended a process: `PyTorch` puts the rank before what no one caught, `[rank5]:
/// ValueError: …`.
fn exception(lower: &str) -> Option<usize> {
    let rest = lower.strip_prefix("[rank")?;
    let (rank, rest) = rest.split_once("]: ")?;
    let (name, message) = rest.split_once(": ")?;
    let is_rank = !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit());
    let is_known = EXCEPTIONS.contains(&name.rsplit('.').next()?);
    let of_communication = OF_COMMUNICATION.iter().any(|word| message.contains(word));
    (is_rank && is_known && !of_communication).then(|| lower.len() - rest.len())
}

/// The rank that a line in lower case begins with: `[rank5]: `, `[rank5]:[E1012 …`.
pub(super) fn rank(lower: &str) -> Option<u64> {
    number(lower.trim_start().strip_prefix("[rank")?)
}

/// Whether a process ended by an error in its own program or on its GPU, which a line in lower case shows.
pub(super) fn is_own_error(lower: &str) -> bool {
    const OWN: [&str; 8] = [
        "invalid rank requested",
        "duplicate gpu detected",
        "is not a valid pointer",
        "cuda out of memory",
        "hip out of memory",
        "outofmemoryerror",
        "illegal memory access",
        "device-side assert",
    ];
    OWN.iter().any(|text| lower.contains(text)) || exception(lower.trim_start()).is_some()
}

static FOUND: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(anchors()));

/// The texts, which make a line worth reading.
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().copied()
}

/// What makes a line worth reading besides: `[rank5]: `.
pub(super) const LABEL: &str = "[rank";

/// Where a line in lower case shows the end of a process.
pub(super) fn find(lower: &str) -> Option<usize> {
    let found = FOUND.first_in_text(lower).map(|found| found.start);
    found.or_else(|| exception(lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_that_no_one_caught_ends_a_rank_and_one_of_communication_is_what_a_peer_sees() {
        assert_eq!(
            find("[rank5]: valueerror: expected input batch_size (8)"),
            Some(9)
        );
        assert!(find("[rank0]: runtimeerror: the size of tensor a (8) must match").is_some());
        for line in [
            "[rank0]: runtimeerror: nccl error in: processgroupnccl.cpp",
            "valueerror: retrying",
            "[rank0]:[e611 12:30:10] [rank 0] watchdog caught",
            "[rank1]: connectionerror: x",
        ] {
            assert_eq!(find(line), None, "{line}");
        }
    }
}
