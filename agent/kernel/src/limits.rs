//! Memlock limits of the processes whose limits pods inherit.
//!
//! Source: `/proc/PID/limits` of the container runtime and the kubelet. A pod inherits the runtime's limit, so the limit
//! of this process says little. Registering more than the limit without `CAP_IPC_LOCK` fails with `ENOMEM`.
//!
//! Any user can start a process with the name of a runtime, so a name is not enough: see `service.rs`.

mod service;

pub use service::FIRST_PROCESS;

use procfs::{
    FromRead,
    process::{LimitValue, Limits as ProcLimits},
};
use rdma_health_protocol::{MemlockLimit, RuntimeLimits};
use serde::{Deserialize, Serialize};

use crate::{
    crio::default_memlock,
    fact::{Fact, Unread, UnreadKind},
    root::Scope,
    source::{Known, Source},
};

/// Names (`/proc/PID/comm`, at most 15 characters) of the processes whose limit pods inherit.
pub const RUNTIMES: [&str; 6] = [
    "containerd",
    "crio",
    "dockerd",
    "kubelet",
    "k3s-server",
    "k3s-agent",
];
/// Names of the daemons of batch systems whose limit jobs inherit: Slurm, PBS and Torque, Grid Engine, LSF.
pub const SCHEDULERS: [&str; 4] = ["slurmd", "pbs_mom", "sge_execd", "sbatchd"];

/// The directory of all processes: the source of what is not known of processes that are not visible.
pub const PROCESSES: &str = "/proc";
const OWN: &str = "/proc/self/limits";

/// Maximum number of processes whose name is read.
const MAX_PROCESSES: usize = 65_536;
/// Maximum number of runtimes of a node.
pub const MAX_RUNTIMES: usize = rdma_health_protocol::MAX_RUNTIMES;

/// The memlock limits of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The limit of this process; absent in a captured tree.
    pub own: Fact<Memlock>,
    /// Container runtimes and kubelet, in order of process id.
    pub runtimes: Fact<Vec<Runtime>>,
    /// The limit that CRI-O gives to containers in place of its own; absent if its configuration sets none or is not visible.
    #[serde(default)]
    pub crio_default: Fact<Memlock>,
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

impl Source for Limits {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        let own = if scope.root().is_live() {
            // Every process has them where /proc is mounted.
            match memlock(scope, OWN) {
                Fact::Absent => scope.hidden(OWN, "this process runs"),
                own => own,
            }
        } else {
            Fact::Absent
        };
        Self {
            own,
            runtimes: runtimes(scope),
            crio_default: default_memlock(scope),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            own: why.clone().into(),
            runtimes: why.clone().into(),
            crio_default: why.clone().into(),
        }
    }
}

/// The services of the host that are container runtimes or the kubelet, in order of process id, at most [`MAX_RUNTIMES`].
pub fn runtimes(scope: &Scope<'_>) -> Fact<Vec<Runtime>> {
    scope.entries(PROCESSES).and_then(|names| {
        let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        if let Some(why) = service::hidden(scope, &pids) {
            // That is not a failure, but how this process runs.
            return scope.remembered(Unread {
                source: PROCESSES.into(),
                kind: UnreadKind::Missing,
                detail: why.into(),
            });
        }
        let read = pids.into_iter().take(MAX_PROCESSES);
        let found = read.filter_map(|pid| Runtime::read(scope, pid).transpose());
        match found.take(MAX_RUNTIMES).collect() {
            Ok(runtimes) => Fact::Known(runtimes),
            Err(unread) => unread.into(),
        }
    })
}

/// The limits that a helper on the host reports.
impl From<RuntimeLimits> for Runtime {
    fn from(found: RuntimeLimits) -> Self {
        let source = format!("/proc/{}/limits", found.pid);
        Self {
            name: found.name,
            pid: found.pid,
            memlock: match found.memlock {
                MemlockLimit::Bytes { soft, hard } => Fact::Known(Memlock { soft, hard }),
                MemlockLimit::Unread(reason) => Fact::from(Unread {
                    source,
                    kind: UnreadKind::Malformed,
                    detail: reason,
                }),
            },
        }
    }
}

/// The lines of `/proc/PID/status` that are read of it.
pub fn used_lines(status: &[u8]) -> Vec<u8> {
    const KEYS: [&[u8]; 3] = [b"State:", b"Uid:", b"NSpid:"];
    let used = |line: &&[u8]| KEYS.iter().any(|key| line.starts_with(key));
    let lines = status.split_inclusive(|byte| *byte == b'\n').filter(used);
    lines.take(KEYS.len()).flatten().copied().collect()
}

impl Runtime {
    /// Whether jobs of a batch system inherit its limit, and no pods.
    pub fn is_scheduler(&self) -> bool {
        SCHEDULERS.contains(&self.name.as_str())
    }

    /// The process if it is a runtime. An error if its name could not be read: the names of the others cannot be, either.
    fn read(scope: &Scope<'_>, pid: u32) -> Result<Option<Self>, Unread> {
        let comm = match scope.binary(&format!("/proc/{pid}/comm")) {
            Fact::Known(comm) => comm,
            // A process that ends meanwhile is not a failure.
            Fact::Absent => return Ok(None),
            Fact::Unread { unread } => return Err(*unread),
        };
        // A name that is not text is not that of a runtime.
        let named = |name: &&str| name.as_bytes() == comm.trim_ascii_end();
        let Some(name) = RUNTIMES.into_iter().chain(SCHEDULERS).find(named) else {
            return Ok(None);
        };
        Ok(service::is_service(scope, pid, name).then(|| Self {
            name: name.to_owned(),
            pid,
            memlock: memlock(scope, &format!("/proc/{pid}/limits")),
        }))
    }
}

/// The memlock limit in a file `/proc/PID/limits`; absent if the process has ended.
pub(crate) fn memlock(scope: &Scope<'_>, path: &str) -> Fact<Memlock> {
    let bytes = |value| match value {
        LimitValue::Unlimited => None,
        LimitValue::Value(bytes) => Some(bytes),
    };
    // The procfs crate panics if the soft limit, hard limit or unit is missing in a line.
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
