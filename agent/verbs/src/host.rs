//! What only a process with the host's `/proc` can read: a closed list of questions without arguments.
//!
//! The agent's container has no `/proc` of the host, because files below it (`/proc/PID/root`, `/proc/PID/environ`) open the
//! containers of others. The agent asks, this helper reads; no path comes from the agent.

use std::path::Path;

use rdma_health_kernel::{Fact, Root, limits, root::Scope};
use rdma_health_protocol::{HelperError, MAX_RUNTIMES, MemlockLimit, RuntimeLimits};
use rustix::io::Errno;

/// The memlock limits of the container runtimes and the kubelet, read from `/proc` below the directory `host`.
///
/// # Errors
/// `ENOSYS` if there is no such directory for this helper, `EIO` if processes could not be listed.
pub fn runtimes(host: Option<&Path>) -> Result<Vec<RuntimeLimits>, HelperError> {
    let failed = |errno: Errno| HelperError {
        device: None,
        call: "runtimes".into(),
        errno: errno.raw_os_error(),
    };
    let host = host.ok_or_else(|| failed(Errno::NOSYS))?;
    let root = Root::open(host).map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    match limits::runtimes(&Scope::new(&root)) {
        Fact::Known(runtimes) => Ok(runtimes.into_iter().take(MAX_RUNTIMES).map(answer).collect()),
        Fact::Absent | Fact::Unread { .. } => Err(failed(Errno::IO)),
    }
}

fn answer(runtime: limits::Runtime) -> RuntimeLimits {
    RuntimeLimits {
        name: runtime.name,
        pid: runtime.pid,
        memlock: match runtime.memlock {
            Fact::Known(limit) => MemlockLimit::Bytes {
                soft: limit.soft,
                hard: limit.hard,
            },
            Fact::Absent => MemlockLimit::unread("the process has ended"),
            Fact::Unread { unread } => MemlockLimit::unread(&unread.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_runtimes_of_the_host_are_reported_and_only_where_it_is_visible() {
        assert_eq!(runtimes(None).unwrap_err().errno, Errno::NOSYS.raw_os_error());
        let host = tempfile::tempdir().unwrap();
        for (pid, name, uid, cgroup) in [
            (70, "containerd", 0, "system.slice/containerd.service"),
            (71, "containerd", 0, "kubepods/pod1/c1"),
            (72, "kubelet", 65_532, "system.slice/kubelet.service"),
            (73, "sshd", 0, "system.slice/ssh.service"),
        ] {
            let process = host.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("comm"), format!("{name}\n")).unwrap();
            fs::write(
                process.join("status"),
                format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"),
            )
            .unwrap();
            fs::write(process.join("cgroup"), format!("0::/{cgroup}\n")).unwrap();
            fs::write(process.join("environ"), "SECRET=1").unwrap();
        }
        let found = runtimes(Some(host.path())).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].pid), ("containerd", 70));
        assert!(matches!(found[0].memlock, MemlockLimit::Unread(_)));
        assert!(!serde_json::to_string(&found).unwrap().contains("SECRET"));
    }
}
