//! Whether a process is a system service of the host, by facts that a tenant of the node cannot write.
//!
//! The name of a process (`/proc/PID/comm`) is what the process says of itself. These facts are not:
//!
//! - `Uid:` of `/proc/PID/status`: a service runs as root with all four user ids. A program with the setuid bit keeps the
//!   real id of the user who started it; root of a user namespace has another id on the host.
//! - `/proc/PID/cgroup` (cgroups(7)): only root of the host, in practice systemd, puts processes into the cgroup of a
//!   system service. A container as root of the host is in the cgroup of its pod or scope, a session in `user.slice`.
//! - `/proc/PID/exe`, where the reader may look: the program that runs.

use crate::root::Scope;

/// Maximum number of cgroup hierarchies of a process; cgroup v1 has about a dozen.
const MAX_HIERARCHIES: usize = 64;

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
    let shows = |file: &str, proof: fn(&str) -> bool| {
        let fact = scope.optional(&format!("/proc/{pid}/{file}"));
        fact.known()
            .map_or(captured && fact.is_absent(), |text| proof(text))
    };
    shows("status", runs_as_root)
        && shows("cgroup", is_of_a_service)
        && program(scope, pid).is_none_or(|program| may_be_called(&program, name))
}

/// Whether the real, effective, saved and file system user ids are 0.
fn runs_as_root(status: &str) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let ids: Vec<_> = ids.into_iter().flat_map(str::split_whitespace).collect();
    ids.len() == 4 && ids.iter().all(|id| *id == "0")
}

/// Whether the process is in the cgroup of a system service in every hierarchy, or in a hierarchy's root.
fn is_of_a_service(cgroup: &str) -> bool {
    let mut lines = cgroup.lines().take(MAX_HIERARCHIES + 1).peekable();
    // `hierarchy:controllers:path`.
    let path = |line: &str| line.splitn(3, ':').nth(2).is_some_and(is_service_path);
    lines.peek().is_some() && cgroup.lines().count() <= MAX_HIERARCHIES && lines.all(path)
}

/// Whether this is the cgroup of a system service: slices, then a service (`system.slice/containerd.service`).
fn is_service_path(path: &str) -> bool {
    // The path is relative to the cgroup of the reader's cgroup namespace, so it may start with `/..`.
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .skip_while(|part| *part == "..")
        .collect();
    let kind = |part: &str| part.rsplit_once('.').map(|(_, kind)| kind.to_owned());
    let is_slice = |part: &&str| kind(part).as_deref() == Some("slice") && !FOREIGN_SLICES.contains(part);
    match parts.as_slice() {
        [] | ["init.scope"] => true,
        [one] if one.starts_with(OPENRC_PREFIX) => true,
        [parent, _] if TALOS_PARENTS.contains(parent) => true,
        [slices @ .., service] => {
            !slices.is_empty() && slices.iter().all(is_slice) && kind(service).as_deref() == Some("service")
        }
    }
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
            "/",
            // The reader is in a pod with its own cgroup namespace.
            "/../../../../system.slice/containerd.service",
            "/../../..",
        ] {
            assert!(is_of_a_service(&format!("0::{path}")), "{path}");
        }
        let v1 = "12:cpuset:/\n4:memory:/system.slice/containerd.service\n\
            1:name=systemd:/system.slice/containerd.service\n0::/system.slice/containerd.service";
        assert!(is_of_a_service(v1));
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
            assert!(!is_of_a_service(&format!("0::{path}")), "{path}");
            // A hybrid of cgroup v1 and v2: containers are moved in v1 only.
            let hybrid = format!("5:memory:{path}\n0::/system.slice/containerd.service");
            assert!(!is_of_a_service(&hybrid), "{path}");
        }
        assert!(!is_of_a_service(""));
        assert!(!is_of_a_service("nonsense"));
        assert!(!is_of_a_service(&"0::/\n".repeat(MAX_HIERARCHIES + 1)));
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
