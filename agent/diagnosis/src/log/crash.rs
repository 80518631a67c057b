//! A process that the system ended, with nothing else in the log that says why: `Segmentation fault (core dumped)`, `Signal: Bus error (7)`, `Killed`.

use std::sync::LazyLock;

use super::{
    line::{excerpt, number},
    phrases::Phrases,
};
use crate::symptom::SymptomKind as K;

/// Names of RDMA and of the libraries over it, in lower case.
const RDMA: [&str; 14] = [
    "net/ib",
    "network ib",
    "net/ofi",
    "mlx5_",
    "rdma",
    "infiniband",
    "ibv_",
    "roce",
    "ucx",
    "nvshmem",
    "mooncake",
    "nixl",
    "libfabric",
    "uverbs",
];
/// Names of programs whose processes of one node share memory, in lower case.
const SHARING: [&str; 8] = [
    "nccl",
    "mpi",
    "ucx",
    "torch",
    "dataloader",
    "/dev/shm",
    "shared memory",
    "gloo",
];

static OF_RDMA: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(RDMA));
static OF_SHARING: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(SHARING));

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It used an address that it does not have, or gave up itself.
    Fault,
    /// It used memory that is mapped and not there (SIGBUS).
    Bus,
    /// Another one ended it.
    Killed,
}

/// The last such line of a log, and what it shows before.
#[derive(Debug, Default)]
pub(super) struct Crash {
    /// The log names RDMA.
    rdma: bool,
    /// It names a program whose processes share memory.
    shares: bool,
    last: Option<(End, String, u64)>,
}

impl Crash {
    /// Adds a line. `works`: it shows that work goes on.
    pub(super) fn add(&mut self, text: &str, line: u64, works: impl Fn(&str) -> bool) {
        let is_used = || OF_RDMA.occur(text) && !text.to_ascii_lowercase().contains("no device found");
        self.rdma = self.rdma || is_used();
        self.shares = self.shares || OF_SHARING.occur(text);
        if let Some(end) = end(text) {
            // The first line of a report says more than its end.
            if self.last.is_none() {
                self.last = Some((end, excerpt(text.trim(), 0), line));
            }
        } else if self.last.is_some() && works(text) {
            self.last = None;
        }
    }

    /// What it shows: the kind, the line and its number.
    pub(super) fn shown(&self) -> Option<(K, &str, u64)> {
        let (end, text, line) = self.last.as_ref()?;
        let kind = match end {
            End::Bus if self.shares => K::SharedMemory,
            End::Fault if self.rdma => K::BackendFailed,
            End::Bus | End::Fault | End::Killed => K::Unrecognised,
        };
        Some((kind, text, *line))
    }
}

/// How a process ended, which a line shows.
fn end(text: &str) -> Option<End> {
    // Nearly all lines have none of these.
    if ![
        "ault",
        "us error",
        "illed",
        "signal",
        "core dumped",
        "Illegal inst",
    ]
    .iter()
    .any(|part| text.contains(part))
    {
        return None;
    }
    let lower = text.trim().to_ascii_lowercase();
    // The kernel reports errors of other buses, and a program may say what it would do.
    if [
        "pcie bus error",
        "pci bus error",
        "severity=",
        "caught signal 15",
        "if ",
    ]
    .iter()
    .any(|words| lower.contains(words))
    {
        return None;
    }
    let signal = [
        "caught signal ",
        "signal code ",
        "on signal ",
        "by signal ",
        "(signal ",
    ]
    .iter()
    .find_map(|label| lower.split_once(label))
    .and_then(|(_, rest)| number(rest));
    let ends = |name: &str| {
        lower == name
            || [
                format!("{name} (core dumped)"),
                format!("{name}      (core dumped)"),
                format!("signal: {name}"),
                format!("fatal python error: {name}"),
                format!("killed by signal: {name}"),
                format!("({name}"),
                format!("unexpected {name} encountered"),
                format!("exit string: {name}"),
            ]
            .iter()
            .any(|form| lower.contains(form.as_str()))
    };
    if signal == Some(7) || ends("bus error") {
        Some(End::Bus)
    } else if matches!(signal, Some(4 | 6 | 8 | 11))
        || ["segmentation fault", "illegal instruction"]
            .into_iter()
            .any(ends)
    {
        Some(End::Fault)
    } else {
        is_killed(&lower).then_some(End::Killed)
    }
}

/// Whether a shell reports that a process was killed: `Killed`, `run.sh: line 12:  4711 Killed                  python train.py`.
fn is_killed(lower: &str) -> bool {
    if lower == "killed" {
        return true;
    }
    let Some((_, rest)) = lower.split_once(": line ") else {
        return false;
    };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':' || c == ' ');
    rest.starts_with("killed ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<(K, u64)> {
        let mut crash = Crash::default();
        for (number, line) in (1..).zip(text.lines()) {
            crash.add(line, number, |text| text.contains("loss"));
        }
        crash.shown().map(|(kind, _, line)| (kind, line))
    }

    #[test]
    fn a_crash_shows_what_the_process_used() {
        const IB: &str = "n1:1:2 [0] NCCL INFO Using network IB\n";
        const SOCKET: &str = "n1:1:2 [0] NCCL INFO Using network Socket\n";
        for (text, expected) in [
            (
                format!("{IB}Segmentation fault (core dumped)"),
                Some((K::BackendFailed, 2)),
            ),
            (
                format!(
                    "{IB}[n1:812] Signal: Segmentation fault (11)\n[n1:812] Signal code: Address not mapped (1)"
                ),
                Some((K::BackendFailed, 2)),
            ),
            (
                format!("{IB}[n1:3039 :0:3095] Caught signal 7 (Bus error: nonexistent physical address)"),
                Some((K::SharedMemory, 2)),
            ),
            (
                format!("{SOCKET}Fatal Python error: Segmentation fault"),
                Some((K::Unrecognised, 2)),
            ),
            (
                "RuntimeError: DataLoader worker (pid 325) is killed by signal: Bus error.".to_owned(),
                Some((K::SharedMemory, 1)),
            ),
            (format!("{IB}Killed"), Some((K::Unrecognised, 2))),
            (
                format!("{IB}run.sh: line 12:  4711 Killed                  python train.py"),
                Some((K::Unrecognised, 2)),
            ),
            (
                format!("{IB}Segmentation fault (core dumped)\nstep 3 loss 2.1"),
                None,
            ),
            (
                "pcieport 0000:00:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer".to_owned(),
                None,
            ),
            (format!("{IB}stray processes were killed"), None),
            (format!("{IB}received signal 15"), None),
        ] {
            assert_eq!(shown(&text), expected, "{text}");
        }
    }
}
