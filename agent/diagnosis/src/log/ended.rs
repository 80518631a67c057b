//! Lines that show that a process of the job ended by itself. They say nothing about RDMA, but the failures of its peers follow from it.

use std::sync::LazyLock;

use super::phrases::Phrases;

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
];

static FOUND: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(anchors()));

/// The texts, which make a line worth reading.
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().copied()
}

/// Where a line in lower case shows the end of a process.
pub(super) fn find(lower: &str) -> Option<usize> {
    FOUND.first_in_text(lower).map(|found| found.start)
}
