//! Whether a process is a system service of the host, by facts that a tenant of the node cannot write.
//!
//! The name of a process (`/proc/PID/comm`) is what the process says of itself. These facts are not:
//!
//! - `Uid:` of `/proc/PID/status`: a service runs as root with all four user ids. A program with the setuid bit keeps the
//!   real id of the user who started it; root of a user namespace has another id on the host.
//! - `NSpid:` of the same file: a service of the host has one process id, that of the host. A process of a container that has its
//!   own process ids has one more for each level.
//! - `State:` of the same file: a process that ended loses its cgroup, so it proves nothing.
//! - `/proc/PID/cgroup` (cgroups(7)): only root of the host, in practice systemd, puts processes into the cgroup of a
//!   system service. A container as root of the host is in the cgroup of its pod or scope, a session in `user.slice`. The root
//!   of a hierarchy is the cgroup of a service only where process 1 is there, too: on hosts without systemd, and in hierarchies
//!   that systemd does not use.
//! - `/proc/PID/exe`, where the reader may look: the program that runs.

use crate::root::Scope;

/// Maximum number of cgroup hierarchies of a process; cgroup v1 has about a dozen.
const MAX_HIERARCHIES: usize = 64;

/// The cgroups of process 1, which is the host's and no tenant's.
pub const FIRST_PROCESS: &str = "/proc/1/cgroup";

/// Slices in which users and virtual machines, not the host's services, run.
const FOREIGN_SLICES: [&str; 2] = ["user.slice", "machine.slice"];

/// Cgroups of services on hosts without systemd: the parent in Talos, the prefix in `OpenRC`.
const TALOS_PARENTS: [&str; 2] = ["podruntime", "system"];
const OPENRC_PREFIX: &str = "openrc.";

/// Whether the process is a service of the host that may have the name `name`. False where a fact could not be read, which
/// the scope then records.
///
/// On a running machine both files exist for every process. A captured tree may contain names and limits only: what it does
/// not contain disproves nothing, because no tenant of the node decides what is captured.
pub(super) fn is_service(scope: &Scope<'_>, pid: u32, name: &str) -> bool {
    let captured = !scope.root().is_live();
    let shows = |file: &str, proof: &dyn Fn(&str) -> bool| {
        let fact = scope.optional(&format!("/proc/{pid}/{file}"));
        fact.known()
            .map_or(captured && fact.is_absent(), |text| proof(text))
    };
    // The state last: a process that has not ended by then had not when its cgroup was read.
    shows("cgroup", &|cgroup| {
        is_of_a_service(cgroup, || first_process(scope))
    }) && shows("status", &|status| {
        runs_as_root(status) && has_not_ended(status) && has_one_process_id(status)
    }) && program(scope, pid).is_none_or(|program| may_be_called(&program, name))
}

/// Why the processes of the node are not visible here, if so.
pub(super) fn hidden(scope: &Scope<'_>, pids: &[u32]) -> Option<&'static str> {
    // A snapshot has the processes of runtimes only, and what was visible where it was taken.
    if !scope.root().is_running() {
        return None;
    }
    let aside = Scope::new(scope.root());
    let sees_first = pids.first() == Some(&1) && !aside.binary("/proc/1/comm").is_absent();
    let status = aside.collected("/proc/self/status");
    why_hidden(
        sees_first,
        status.known().map_or("", String::as_str),
        aside.collected_link_name("/proc/self/ns/pid").as_deref(),
    )
}

/// The same, by whether process 1 is visible, and the status and the process namespace of this process.
fn why_hidden(sees_first: bool, status: &str, namespace: Option<&str>) -> Option<&'static str> {
    /// That of the kernel's first process (`PROC_PID_INIT_INO` in include/uapi/linux/nsfs.h), since Linux 3.8.
    const OUTERMOST: &str = "pid:[4026531836]";
    if !sees_first {
        return Some(
            "process 1 is not visible here, so other processes may not be either: /proc is mounted with hidepid, or something else is mounted over it; \
             run as root on the node",
        );
    }
    // A /proc of outer processes, such as the node's in a pod, has more than one process id of this one.
    let is_own = !status.is_empty() && has_one_process_id(status);
    (is_own && namespace.is_some_and(|namespace| namespace != OUTERMOST)).then_some(
        "only the processes of this container are visible, not those of the node; run on the node as root, or with hostPID: true in the pod \
         (docker run --pid=host)",
    )
}

/// The cgroups of process 1; empty if they could not be read, which the scope then records.
fn first_process(scope: &Scope<'_>) -> String {
    scope.optional(FIRST_PROCESS).known().cloned().unwrap_or_default()
}

/// The rest of the line of a status with this key; `None` if the kernel does not write it.
fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(key))
}

/// Whether the real, effective, saved and file system user ids are 0.
fn runs_as_root(status: &str) -> bool {
    let ids: Vec<_> = field(status, "Uid:")
        .into_iter()
        .flat_map(str::split_whitespace)
        .collect();
    ids.len() == 4 && ids.iter().all(|id| *id == "0")
}

/// Whether the process runs: neither a zombie nor dead. Every kernel writes the state; a snapshot of an earlier version does
/// not have it.
fn has_not_ended(status: &str) -> bool {
    field(status, "State:").is_none_or(|state| !state.trim_start().starts_with(['Z', 'X', 'x']))
}

/// Whether the process is in the outermost process namespace. A kernel without these namespaces does not write the line.
fn has_one_process_id(status: &str) -> bool {
    field(status, "NSpid:").is_none_or(|ids| ids.split_whitespace().count() == 1)
}

/// Whether the process is in the cgroup of a system service in every hierarchy, or in the root of a hierarchy in which
/// process 1 is, too. `first` returns the cgroups of process 1.
fn is_of_a_service(cgroup: &str, first: impl FnOnce() -> String) -> bool {
    if cgroup.is_empty() || cgroup.lines().count() > MAX_HIERARCHIES {
        return false;
    }
    // `hierarchy:controllers:path`.
    let mut in_root = Vec::new();
    for line in cgroup.lines() {
        match line.splitn(3, ':').nth(2).map(place) {
            Some(Place::Service) => {}
            Some(Place::Root) => in_root.push(line),
            Some(Place::Other) | None => return false,
        }
    }
    if in_root.is_empty() {
        return true;
    }
    let first = first();
    in_root.into_iter().all(|line| {
        first
            .lines()
            .take(MAX_HIERARCHIES)
            .any(|of_first| of_first == line)
    })
}

/// Where a cgroup is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a system service.
    Service,
    /// The root of the hierarchy.
    Root,
    /// In a container, a session, a virtual machine or anything else.
    Other,
}

/// Whether this is the cgroup of a system service: slices, then a service (`system.slice/containerd.service`).
fn place(path: &str) -> Place {
    // The path is relative to the cgroup of the reader's cgroup namespace, so it may start with `/..`.
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .skip_while(|part| *part == "..")
        .collect();
    let kind = |part: &str| part.rsplit_once('.').map(|(_, kind)| kind.to_owned());
    let is_slice = |part: &&str| kind(part).as_deref() == Some("slice") && !FOREIGN_SLICES.contains(part);
    let is_service = match parts.as_slice() {
        [] => return Place::Root,
        ["init.scope"] => true,
        [one] if one.starts_with(OPENRC_PREFIX) => true,
        [parent, _] if TALOS_PARENTS.contains(parent) => true,
        [slices @ .., service] => {
            !slices.is_empty() && slices.iter().all(is_slice) && kind(service).as_deref() == Some("service")
        }
    };
    if is_service { Place::Service } else { Place::Other }
}

/// The file name of the program that the process runs; `None` if the reader may not look, which is not a failure: only root
/// may look at every process.
fn program(scope: &Scope<'_>, pid: u32) -> Option<String> {
    let aside = Scope::new(scope.root());
    let target = aside.link(&format!("/proc/{pid}/exe")).known()?.clone();
    // An update replaced the file while the process runs.
    let path = target.strip_suffix(" (deleted)").unwrap_or(&target);
    path.rsplit('/').next().map(str::to_owned)
}

/// Whether a process of this program may have this name. Distributions put runtime and kubelet into one program.
fn may_be_called(program: &str, name: &str) -> bool {
    const IN_ONE: [&str; 4] = ["k3s", "rke2", "k0s", "hyperkube"];
    program.trim_start_matches('.').starts_with(name) || IN_ONE.contains(&program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_the_node_are_visible_outside_of_containers_only() {
        const NODE: Option<&str> = Some("pid:[4026531836]");
        const CONTAINER: Option<&str> = Some("pid:[4026532421]");
        let is_hidden = |first, status, namespace| why_hidden(first, status, namespace).is_some();
        assert!(!is_hidden(true, "NSpid:\t812\n", NODE));
        assert!(is_hidden(true, "NSpid:\t812\n", CONTAINER));
        assert!(is_hidden(false, "NSpid:\t812\n", NODE), "hidepid");
        // The node's own /proc in a pod.
        assert!(!is_hidden(true, "NSpid:\t812\t7\n", CONTAINER));
        // Old kernels, and files that could not be read.
        assert!(!is_hidden(true, "", CONTAINER));
        assert!(!is_hidden(true, "NSpid:\t812\n", None));
    }

    #[test]
    fn only_root_with_all_four_ids_is_root() {
        for (status, root) in [
            ("Name:\tcontainerd\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0", true),
            ("Name:\tcontainerd\nUid:\t12345\t12345\t12345\t12345", false),
            // A setuid program that a user started.
            ("Uid:\t1000\t0\t0\t0", false),
            // Root of a user namespace.
            ("Uid:\t100000\t100000\t100000\t100000", false),
            // The name cannot contain a line break: the kernel escapes it.
            ("Name:\tx\\nUid:\t0\t0\t0\t0\nUid:\t7\t7\t7\t7", false),
            ("Uid:\t0", false),
            ("", false),
        ] {
            assert_eq!(runs_as_root(status), root, "{status:?}");
        }
    }

    #[test]
    fn a_service_of_the_host_is_recognised_wherever_the_reader_is() {
        for path in [
            "/system.slice/containerd.service",
            "/system.slice/crio.service",
            "/runtime.slice/containerd.service",
            "/kubelet.slice/kubelet.service",
            "/system.slice/system-k3s.slice/k3s.service",
            "/system.slice/snap.microk8s.daemon-containerd.service",
            "/podruntime/runtime",
            "/system/runtime",
            "/openrc.containerd",
            // The reader is in a pod with its own cgroup namespace.
            "/../../../../system.slice/containerd.service",
        ] {
            assert!(is_of_a_service(&format!("0::{path}"), String::new), "{path}");
        }
    }

    #[test]
    fn the_root_of_a_hierarchy_is_a_service_only_where_process_1_is_there() {
        const SYSTEMD: &str = "12:cpuset:/\n4:memory:/init.scope\n1:name=systemd:/init.scope\n0::/init.scope";
        let service = "12:cpuset:/\n4:memory:/system.slice/containerd.service\n\
            1:name=systemd:/system.slice/containerd.service\n0::/system.slice/containerd.service";
        assert!(is_of_a_service(service, || SYSTEMD.into()));
        // A host without systemd, also as seen by a reader with its own cgroup namespace.
        assert!(is_of_a_service("0::/", || "0::/".into()));
        assert!(is_of_a_service("0::/../..", || "0::/../..".into()));
        // The kernel writes `/` for a process of a pod that ended.
        let ended = "12:cpuset:/\n4:memory:/\n1:name=systemd:/\n0::/";
        for (cgroup, first) in [
            (ended, SYSTEMD),
            ("0::/", "0::/init.scope"),
            ("0::/", ""),
            ("0::/..", "0::/"),
            ("0::/..", "0::/../../init.scope"),
        ] {
            assert!(!is_of_a_service(cgroup, || first.into()), "{cgroup} {first}");
        }
    }

    #[test]
    fn a_process_that_ended_or_has_its_own_process_ids_is_not_a_service() {
        for (status, runs) in [
            ("State:\tS (sleeping)", true),
            ("State:\tT (stopped)", true),
            ("State:\tZ (zombie)", false),
            ("State:\tX (dead)", false),
            // Of an earlier version's snapshot.
            ("Uid:\t0\t0\t0\t0", true),
        ] {
            assert_eq!(has_not_ended(status), runs, "{status}");
        }
        for (status, one) in [
            ("NSpid:\t9001", true),
            ("NSpid:\t9001\t17", false),
            ("NSpid:", false),
            ("", true),
        ] {
            assert_eq!(has_one_process_id(status), one, "{status}");
        }
    }

    #[test]
    fn a_container_or_a_session_is_not_a_service() {
        const POD: &str = "pod1f2e3d4c_0000_4000_8000_000000000001";
        for path in [
            format!(
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-{POD}.slice/cri-containerd-00ff.scope"
            ),
            format!("/kubepods/burstable/{POD}/00ff"),
            format!("/kubepods/burstable/{POD}/00ff/system.slice/containerd.service"),
            format!(
                "/kubepods.slice/kubepods-{POD}.slice/crio-00ff.scope/container/system.slice/kubelet.service"
            ),
            // The same from a pod with its own cgroup namespace.
            format!("/../../{POD}/00ff"),
            format!("/../../{POD}/00ff/system.slice/containerd.service"),
            format!("/../../kubepods-{POD}.slice/cri-containerd-00ff.scope"),
            "/../cri-containerd-00ff.scope/system.slice/containerd.service".into(),
            "/docker/00ff".into(),
            "/docker/00ff/system.slice/containerd.service".into(),
            "/system.slice/docker-00ff.scope".into(),
            "/system.slice/docker-00ff.scope/kubelet.slice/kubelet.service".into(),
            "/system.slice/nginx.service/libpod-payload-00ff".into(),
            "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0".into(),
            "/machine.slice/libpod-00ff.scope".into(),
            "/machine.slice/containerd.service".into(),
            "/user.slice/user-1000.slice/session-2.scope".into(),
            "/user.slice/user-1000.slice/user@1000.service/app.slice/containerd.service".into(),
            "/user.slice/containerd.service".into(),
            "/containerd.service".into(),
            "/default/00ff".into(),
        ] {
            assert!(!is_of_a_service(&format!("0::{path}"), String::new), "{path}");
            // A hybrid of cgroup v1 and v2: containers are moved in v1 only.
            let hybrid = format!("5:memory:{path}\n0::/system.slice/containerd.service");
            assert!(!is_of_a_service(&hybrid, String::new), "{path}");
        }
        assert!(!is_of_a_service("", String::new));
        assert!(!is_of_a_service("nonsense", String::new));
        assert!(!is_of_a_service(&"0::/\n".repeat(MAX_HIERARCHIES + 1), || "0::/".into()));
    }

    #[test]
    fn a_program_may_have_the_names_of_its_parts() {
        for (program, name) in [
            ("containerd", "containerd"),
            ("k3s", "k3s-server"),
            ("k3s", "containerd"),
            (".kubelet-wrapped", "kubelet"),
            ("hyperkube", "kubelet"),
        ] {
            assert!(may_be_called(program, name), "{program} {name}");
        }
        assert!(!may_be_called("sudo", "containerd"));
        assert!(!may_be_called("sleep", "kubelet"));
    }
}
