//! What only a process of the host's root can read: a closed list of questions, of which no argument is a path.
//!
//! The agent's container has no `/proc` of the host, because files below it (`/proc/PID/root`, `/proc/PID/environ`) open the
//! containers of others, no `/dev/kmsg`, and sees only the beginning of a PCI configuration space. The agent asks, this helper
//! reads, and answers only what the agent's readers use.

use std::path::Path;

use rdma_health_kernel::{
    Fact, Root, UnreadKind, drivers, limits,
    netlink::transceiver,
    pci,
    root::{LogFollower, Scope},
};
use rdma_health_protocol::{
    DriverStatistics, HelperError, LogPart, MAX_DRIVERS, MAX_RUNTIMES, MAX_SPACES, MAX_STATISTICS,
    MemlockLimit, ModuleMemory, PciSpace, RuntimeLimits, Statistic,
};
use rustix::io::Errno;

use crate::sys;

/// The memlock limits of the container runtimes and the kubelet, read from `/proc` below the directory `host`.
///
/// # Errors
/// `ENOSYS` if there is no such directory for this helper, `EIO` if processes could not be listed.
pub fn runtimes(host: Option<&Path>) -> Result<Vec<RuntimeLimits>, HelperError> {
    let failed = |errno| failed("runtimes", errno);
    let host = host.ok_or_else(|| failed(Errno::NOSYS))?;
    let root = open(host).map_err(failed)?;
    match limits::runtimes(&Scope::new(&root)) {
        Fact::Known(runtimes) => Ok(runtimes.into_iter().take(MAX_RUNTIMES).map(answer).collect()),
        Fact::Absent | Fact::Unread { .. } => Err(failed(Errno::IO)),
    }
}

/// The configuration spaces of the functions below the directory `own`, as far as the agent's reader uses them.
///
/// # Errors
/// The kernel's, if the functions could not be listed.
pub fn pci_spaces(own: &Path) -> Result<Vec<PciSpace>, HelperError> {
    let failed = |errno| failed("listing /sys/bus/pci/devices", errno);
    let root = open(own).map_err(failed)?;
    match pci::spaces(&Scope::new(&root), MAX_SPACES) {
        Fact::Known(spaces) => Ok(spaces
            .into_iter()
            .map(|(address, space)| PciSpace { address, space })
            .collect()),
        // A machine without PCI.
        Fact::Absent => Ok(Vec::new()),
        Fact::Unread { unread } => Err(failed(match unread.kind {
            UnreadKind::Errno(errno) => errno,
            _ => Errno::IO,
        })),
    }
}

/// The memory of the transceivers of RDMA devices below the directory `own`, as far as the agent's reader uses it.
///
/// # Errors
/// The kernel's, if the directory could not be opened.
pub fn modules(own: &Path) -> Result<Vec<ModuleMemory>, HelperError> {
    let root = open(own).map_err(|errno| failed("listing RDMA devices", errno))?;
    Ok(transceiver::memories(&Scope::new(&root)))
}

/// The statistics of the drivers of RDMA devices' network devices below the directory `own`, as far as the agent's reader uses them.
///
/// # Errors
/// The kernel's, if the directory could not be opened.
pub fn statistics(own: &Path) -> Result<Vec<DriverStatistics>, HelperError> {
    let root = open(own).map_err(|errno| failed("listing RDMA devices", errno))?;
    let netdevs = drivers::netdevs(&Scope::new(&root), MAX_DRIVERS);
    Ok(netdevs.into_iter().map(statistics_of).collect())
}

fn statistics_of(netdev: String) -> DriverStatistics {
    let (found, errno) = match sys::driver_statistics(&netdev) {
        Ok(found) => (found, 0),
        Err(error) => (Vec::new(), error.errno),
    };
    let used = found.into_iter().filter(|(name, _)| drivers::is_used(name));
    DriverStatistics {
        netdev,
        statistics: used
            .map(|(name, value)| Statistic { name, value })
            .take(MAX_STATISTICS)
            .collect(),
        errno,
    }
}

/// A part of the kernel log of the machine that the directory `own` belongs to, from the record `from` on.
///
/// # Errors
/// The kernel's.
pub fn kernel_log(own: &Path, follower: &mut LogFollower, from: u64) -> Result<LogPart, HelperError> {
    let part = open(own).and_then(|root| follower.read(&root, from));
    part.map_err(|errno| failed("reading /dev/kmsg", errno))
}

fn open(path: &Path) -> Result<Root, Errno> {
    Root::open(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn failed(call: &str, errno: Errno) -> HelperError {
    HelperError {
        device: None,
        call: call.into(),
        errno: errno.raw_os_error(),
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

    #[test]
    fn only_functions_that_matter_are_answered_and_only_with_what_is_used() {
        let own = tempfile::tempdir().unwrap();
        assert_eq!(pci_spaces(own.path()).unwrap(), []);
        let mut space = vec![0; 4096];
        space[0x06] = 0x10;
        space[0x34] = 0x60;
        space[0x60..0x64].copy_from_slice(&[0x10, 0x00, 0x62, 0x00]);
        space[0x100..0x108].copy_from_slice(&[0x0d, 0, 1, 0, 0x1f, 0, 0x1d, 0]);
        space[0x800..0x808].copy_from_slice(b"unneeded");
        for (address, class, length) in [
            ("0000:40:01.0", "0x060400", 4096),
            ("0000:41:00.0", "0x020700", 4096),
            ("0000:42:00.0", "0x010802", 4096),
            ("0000:43:00.0", "0x030200", 64),
        ] {
            let function = own.path().join("sys/bus/pci/devices").join(address);
            fs::create_dir_all(&function).unwrap();
            fs::write(function.join("class"), class).unwrap();
            fs::write(function.join("config"), &space[..length]).unwrap();
        }
        let found = pci_spaces(own.path()).unwrap();
        let addresses: Vec<_> = found.iter().map(|found| found.address.as_str()).collect();
        // Neither the disk, nor the GPU of which this process sees no more than the agent does.
        assert_eq!(addresses, ["0000:40:01.0", "0000:41:00.0"]);
        assert!(!found[0].space.windows(8).any(|bytes| bytes == b"unneeded"));
        assert!(found[0].space.ends_with(&[0x1f, 0, 0x1d, 0]));
    }
}
