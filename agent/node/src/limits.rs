//! Memory-lock limits of the processes that hand them on to pods.
//!
//! Source: `/proc/PID/limits` of the container runtime and the kubelet: a pod inherits the runtime's limit, so our own
//! tells little. Registering more than the limit without `CAP_IPC_LOCK` fails with `ENOMEM`.

use procfs::{
    FromRead,
    process::{LimitValue, Limits as ProcLimits},
};
use serde::{Deserialize, Serialize};

use crate::{fact::Fact, root::Scope};

/// Names (`/proc/PID/comm`, at most 15 characters) of the processes whose limit pods (or jobs of `slurmd`) inherit.
pub const RUNTIMES: [&str; 7] = [
    "containerd",
    "crio",
    "dockerd",
    "kubelet",
    "k3s-server",
    "k3s-agent",
    "slurmd",
];

/// The most processes whose name is looked at.
const MAX_PROCESSES: usize = 65_536;

/// The memory-lock limits of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// This process; absent in a captured tree.
    pub own: Fact<Memlock>,
    /// Container runtimes and kubelet, in order of process id.
    pub runtimes: Fact<Vec<Runtime>>,
}

/// One process whose limit pods inherit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// Its name.
    pub name: String,
    /// Its process id on the node.
    pub pid: u32,
    /// Its limit.
    pub memlock: Fact<Memlock>,
}

/// `RLIMIT_MEMLOCK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memlock {
    /// Soft limit in bytes; `None` is unlimited.
    pub soft: Option<u64>,
    /// Hard limit in bytes; `None` is unlimited.
    pub hard: Option<u64>,
}

impl Limits {
    /// Reads our own limit and those of every container runtime.
    pub fn read(scope: &Scope<'_>) -> Self {
        let own = if scope.root().is_live() {
            memlock(scope, "/proc/self/limits")
        } else {
            Fact::Absent
        };
        let runtimes = scope.entries("/proc").map(|names| {
            let pids = names
                .iter()
                .filter_map(|name| name.parse::<u32>().ok())
                .take(MAX_PROCESSES);
            let mut found: Vec<_> = pids.filter_map(|pid| Runtime::read(scope, pid)).collect();
            found.sort_by_key(|runtime| runtime.pid);
            found
        });
        Self { own, runtimes }
    }
}

impl Runtime {
    fn read(scope: &Scope<'_>, pid: u32) -> Option<Self> {
        // A process that ends while we look is no failure.
        let name = scope.optional(&format!("/proc/{pid}/comm")).known()?.clone();
        RUNTIMES.contains(&name.as_str()).then(|| {
            let memlock = memlock(scope, &format!("/proc/{pid}/limits"));
            Self { name, pid, memlock }
        })
    }
}

fn memlock(scope: &Scope<'_>, path: &str) -> Fact<Memlock> {
    let bytes = |value| match value {
        LimitValue::Unlimited => None,
        LimitValue::Value(bytes) => Some(bytes),
    };
    // procfs panics at a line of fewer words than soft limit, hard limit and unit.
    let whole = |text: &str| text.lines().all(|line| line.split_whitespace().nth(2).is_some());
    scope.optional_file(path).and_then(|text| {
        let limits = whole(&text).then(|| ProcLimits::from_read(text.as_bytes()));
        match limits {
            Some(Ok(limits)) => Fact::Known(Memlock {
                soft: bytes(limits.max_locked_memory.soft_limit),
                hard: bytes(limits.max_locked_memory.hard_limit),
            }),
            _ => scope.malformed(path, &text, "process limits"),
        }
    })
}
