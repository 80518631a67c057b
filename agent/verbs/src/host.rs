//! What only a process of the host's root can read: a closed list of questions, of which no argument is a path.
//!
//! The agent's container has no `/proc` of the host, because files below it (`/proc/PID/root`, `/proc/PID/environ`) open the
//! containers of others, no `/dev/kmsg`, and sees only the beginning of a PCI configuration space. The agent asks, this helper
//! reads, and answers only what the agent's readers use.

use std::path::Path;

use rdma_health_kernel::{
    Fact, Root, Unread, UnreadKind, device_nodes, drivers, limits, lldp, modprobe,
    netlink::transceiver,
    os_release, pci,
    root::{LogFollower, Scope},
};
use rdma_health_protocol::{
    DriverStatistics, HelperError, HostFile, HostFileName, LogPart, MAX_DRIVERS, MAX_HOST_FILE,
    MAX_HOST_FILES, MAX_RUNTIMES, MAX_SPACES, MAX_STATISTICS, MemlockLimit, ModuleMemory, PciSpace,
    RuntimeLimits, Statistic,
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
        Fact::Unread { unread } => Err(failed(errno_of(&unread))),
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

/// The files of the host below the directory `host` that a container does not have, as far as the agent's readers use them. They are
/// read at the root of the host's first process, so no directory of the host must be mounted for them, which some hosts do not have, and
/// which `SELinux` may refuse to a container.
///
/// # Errors
/// `ENOSYS` if there is no such directory for this helper; `EACCES` for a helper that may not see the first process's root, which takes
/// `CAP_SYS_PTRACE`.
pub fn files(host: Option<&Path>) -> Result<Vec<HostFile>, HelperError> {
    let failed = |errno| failed("opening the root of the host's first process", errno);
    let host = host.ok_or_else(|| failed(Errno::NOSYS))?;
    let root = open(&host.join("proc/1/root")).map_err(failed)?;
    let scope = Scope::new(&root);
    let release = file(
        HostFileName::OsRelease,
        os_release::of_host(&scope).map(String::into_bytes),
    );
    let modules = file(
        HostFileName::Modprobe,
        modprobe::of_host(&scope).map(String::into_bytes),
    );
    let nodes = file(
        HostFileName::DeviceNodes,
        device_nodes::of_host(&scope).map(String::into_bytes),
    );
    let indexes = lldp::saved(&scope);
    let directory = file(HostFileName::Lldp, indexes.as_ref().map(|_| Vec::new()));
    let neighbours = indexes
        .known()
        .into_iter()
        .flatten()
        .filter_map(|&index| file(HostFileName::Neighbour(index), lldp::nearest(&scope, index)));
    let all = release
        .into_iter()
        .chain(modules)
        .chain(nodes)
        .chain(directory)
        .chain(neighbours);
    Ok(all.take(MAX_HOST_FILES).collect())
}

/// A file that exists.
fn file(name: HostFileName, content: Fact<Vec<u8>>) -> Option<HostFile> {
    let (content, errno) = match content {
        Fact::Known(content) if content.len() <= MAX_HOST_FILE => (content, 0),
        Fact::Known(_) => (Vec::new(), Errno::FBIG.raw_os_error()),
        Fact::Absent => return None,
        Fact::Unread { unread } => (Vec::new(), errno_of(&unread).raw_os_error()),
    };
    Some(HostFile { name, content, errno })
}

fn errno_of(unread: &Unread) -> Errno {
    match unread.kind {
        UnreadKind::Errno(errno) => errno,
        _ => Errno::IO,
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
    fn files_of_the_host_are_read_at_its_root_and_no_others() {
        assert_eq!(files(None).unwrap_err().errno, Errno::NOSYS.raw_os_error());
        let host = tempfile::tempdir().unwrap();
        assert_eq!(
            files(Some(host.path())).unwrap_err().errno,
            Errno::NOENT.raw_os_error()
        );
        let write = |path: &str, content: &[u8]| {
            let path = host.path().join("proc/1/root").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write("nix/store/1-os-release", b"ID=nixos\nPRETTY_NAME=\"of ALICE\"\n");
        write("run/systemd/netif/lldp/4", b"no frame, but a very long text");
        write("run/systemd/netif/lldp/notes", b"");
        write(
            "etc/modprobe.d/rdma.conf",
            b"# of ALICE\nblacklist mlx5_ib\nblacklist nouveau\n",
        );
        write("sys/class/infiniband_verbs/uverbs1/ibdev", b"mlx5_1");
        write("dev/infiniband/uverbs0", b"");
        let link = host.path().join("proc/1/root/etc/os-release");
        // An absolute link of the host leads into the host.
        std::os::unix::fs::symlink("/nix/store/1-os-release", link).unwrap();
        let found = files(Some(host.path())).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|file| (file.name, file.content.as_slice(), file.errno))
            .collect();
        let expected: [(_, &[u8], _); 5] = [
            (HostFileName::OsRelease, b"ID=nixos\n", 0),
            (
                HostFileName::Modprobe,
                b"/etc/modprobe.d/rdma.conf:2:blacklist mlx5_ib\n",
                0,
            ),
            (HostFileName::DeviceNodes, b"uverbs1\n", 0),
            (HostFileName::Lldp, b"", 0),
            (HostFileName::Neighbour(4), b"no frame, but a ", 0),
        ];
        assert_eq!(found, expected);
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
