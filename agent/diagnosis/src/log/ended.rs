//! Lines that show that a process of the job ended by itself. They say nothing about RDMA, but the failures of its peers follow from it.

use std::sync::LazyLock;

use super::{line::number, phrases::Phrases};
use crate::symptom::{Grade, Symptom, SymptomKind};

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
    // Slurm, hydra (MPICH, MVAPICH2), PBS and LSF.
    "oom-kill event",
    "oom kill event",
    "exit string: killed (signal 9",
    "exit string: segmentation fault (signal 11",
    "=>> pbs: job killed",
    "term_memlimit",
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
    "interrupt signal (11)",
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
    "stopiteration",
    "stopasynciteration",
    INTERRUPT,
];
/// What Python raises where a user presses Ctrl-C.
const INTERRUPT: &str = "keyboardinterrupt";
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
/// ValueError: …`, `[rank5]: StopIteration`. A program can report it, too: `StopIteration raised in rank 5`.
fn exception(lower: &str) -> Option<usize> {
    if let Some(at) = reported(lower) {
        return Some(at);
    }
    let rest = without_rank(lower);
    let (name, message) = rest.split_once(": ").unwrap_or((rest.trim_end(), ""));
    let of_communication = OF_COMMUNICATION.iter().any(|word| message.contains(word));
    (rest.len() < lower.len() && is_exception(name) && !of_communication).then(|| lower.len() - rest.len())
}

/// Where a program reports an exception of a rank: `StopIteration raised in rank 5`.
fn reported(lower: &str) -> Option<usize> {
    const WORDS: [&str; 3] = [" raised in rank ", " raised on rank ", " raised by rank "];
    let at = WORDS.iter().find_map(|words| lower.find(words))?;
    let name = lower[..at].rsplit(' ').next()?;
    is_exception(name).then_some(at - name.len())
}

/// Whether a name in lower case, with or without its module, is that of an exception that a program does not expect.
fn is_exception(name: &str) -> bool {
    name.rsplit('.')
        .next()
        .is_some_and(|name| EXCEPTIONS.contains(&name))
}

/// A line in lower case without the rank before it: `[rank5]: `.
fn without_rank(lower: &str) -> &str {
    let rest = lower
        .strip_prefix("[rank")
        .and_then(|rest| rest.split_once("]: "));
    match rest {
        Some((rank, rest)) if !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => lower,
    }
}

/// A trace of Python, whose last line is the exception.
#[derive(Debug, Default)]
pub(super) struct PythonTrace {
    /// The last line that names a place in the program.
    place: Option<u64>,
}

impl PythonTrace {
    /// Number of lines after the last place in which the exception follows: the line of the program, and marks below it.
    const WITHIN: u64 = 3;

    /// Adds a line: `  File "/opt/train.py", line 88, in <module>`.
    pub(super) fn add(&mut self, text: &str, number: u64) {
        let is_place = |text: &str| text.contains("  File \"") && text.contains("\", line ");
        if is_place(text) {
            self.place = Some(number);
        }
    }

    /// Whether a line in lower case is its end, and names no more than an exception: `AssertionError`.
    pub(super) fn ends_at(&self, lower: &str, number: u64) -> bool {
        let follows = self.place.is_some_and(|place| place + Self::WITHIN >= number);
        follows && is_exception(without_rank(lower).trim_end())
    }
}

/// Whether a line goes on with what the program did about the exception above, so that this did not end it.
pub(super) fn is_handled(text: &str) -> bool {
    text.contains("During handling of the above exception")
}

/// Whether a user ended the process, which a line in lower case shows. Users do so where a job hangs.
pub(super) fn is_interrupt(lower: &str) -> bool {
    lower.contains(INTERRUPT)
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
    OWN.iter().any(|text| lower.contains(text)) || names_exception(lower)
}

/// Whether a line in lower case shows that an exception of the program ended it.
pub(super) fn names_exception(lower: &str) -> bool {
    exception(lower.trim_start()).is_some() || is_exception(lower.trim())
}

/// A collective operation that did not end in time, in a log that names no network and no other node, does not show a failure of RDMA: a rank is
/// late, for a reason that is not in it.
pub(super) fn doubt_timeout(symptoms: &mut [Symptom]) {
    let is_timeout = |symptom: &Symptom| {
        symptom.kind == SymptomKind::CollectiveTimeout
            && symptom
                .text
                .to_ascii_lowercase()
                .contains("collective operation timeout")
    };
    let others_matter = symptoms
        .iter()
        .any(|symptom| symptom.grade > Grade::Unrecognised && !is_timeout(symptom));
    if others_matter {
        return;
    }
    for symptom in symptoms.iter_mut().filter(|symptom| is_timeout(symptom)) {
        symptom.grade = symptom.grade.min(Grade::Unrecognised);
    }
}

static FOUND: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(anchors()));

/// The texts, which make a line worth reading.
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().copied()
}

/// What makes a line worth reading besides: an exception without a message.
pub(super) fn exceptions() -> impl Iterator<Item = &'static str> {
    EXCEPTIONS.iter().copied()
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
        assert_eq!(find("[rank9]: stopiteration"), Some(9));
        assert!(find("error stopiteration raised in rank 9 after 70425 batches").is_some());
        let mut trace = PythonTrace::default();
        trace.add("  File \"/opt/sft.py\", line 31, in <module>", 4);
        assert!(trace.ends_at("keyboardinterrupt", 6));
        assert!(!trace.ends_at("keyboardinterrupt", 60));
        assert!(!trace.ends_at("    raise keyboardinterrupt", 5));
        for line in [
            "[rank0]: runtimeerror: nccl error in: processgroupnccl.cpp",
            "valueerror: retrying",
            "[rank0]:[e611 12:30:10] [rank 0] watchdog caught",
            "[rank1]: connectionerror: x",
            "[rank1]: distributed.connectionerror",
            "stopiteration",
            "[rank1]: the stopiteration",
        ] {
            assert_eq!(find(line), None, "{line}");
        }
    }
}
