//! Modules for RDMA that the node loads at each boot because an administrator or an installer of an RDMA stack wants it, and those that the running
//! kernel has.
//!
//! Source: `/etc/modules` and `/etc/modules-load.d/*.conf` (modules-load.d(5)), `/etc/infiniband/openib.conf` of MLNX_OFED and DOCA-OFED, and
//! `modules.dep` and `modules.builtin` below `/lib/modules/RELEASE`. The files of packages are not a sign: rdma-core lists every module in
//! `/etc/rdma/modules`, and libibverbs is installed with many programs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{fact::Fact, modules::KNOWN, root::Scope};

const MODULES: &str = "/etc/modules";
const DIRECTORY: &str = "/etc/modules-load.d";
/// The configuration of the service that loads the modules of MLNX_OFED and DOCA-OFED.
const OPENIBD: &str = "/etc/infiniband/openib.conf";
/// The directories of the modules of a kernel.
const OF_KERNEL: [&str; 2] = ["/lib/modules", "/usr/lib/modules"];
/// The most files that are read, and the most bytes of one.
const MAX_FILES: usize = 64;
const MAX_BYTES: usize = 64 << 10;
const MAX_LIST: usize = 8 << 20;
/// Modules that have another use than RDMA, or none without other software.
const NOT_FOR_RDMA: [&str; 12] = [
    "mlx5_core",
    "mlx4_core",
    "mlx_compat",
    "nvidia",
    "nvidia_peermem",
    "nv_peer_mem",
    "efa_nv_peermem",
    "gdrdrv",
    "amdgpu",
    "vfio_pci",
    "habanalabs_cn",
    "rdma_rxe",
];

/// What loads modules for RDMA at each boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// The file.
    pub file: String,
    /// The module; `openibd` for the service of that name.
    pub module: String,
}

/// The modules of [`KNOWN`] that the running kernel has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Available {
    /// The list of those in files.
    pub file: String,
    /// In files or built in.
    pub names: BTreeSet<String>,
}

/// What is loaded at each boot, as configured below the directory `prefix`; absent if nothing is.
pub(super) fn at_boot(scope: &Scope<'_>, prefix: &str) -> Fact<Vec<Load>> {
    let names = scope.collected_entries(&format!("{prefix}{DIRECTORY}"));
    let names = names
        .into_iter()
        .flatten()
        .filter(|name| name.strip_suffix(".conf").is_some());
    let mut files = vec![MODULES.to_owned()];
    files.extend(names.take(MAX_FILES).map(|name| format!("{DIRECTORY}/{name}")));
    let mut loads = Vec::new();
    for file in files {
        let text = scope.collected_up_to(&format!("{prefix}{file}"), MAX_BYTES);
        for module in text.iter().flat_map(|text| modules_in(text)) {
            loads.push(Load {
                file: file.clone(),
                module,
            });
        }
    }
    let openibd = scope.collected_up_to(&format!("{prefix}{OPENIBD}"), MAX_BYTES);
    if openibd.is_some_and(|text| is_on(&text)) {
        loads.push(Load {
            file: OPENIBD.to_owned(),
            module: "openibd".to_owned(),
        });
    }
    if loads.is_empty() {
        Fact::Absent
    } else {
        Fact::Known(loads)
    }
}

/// The modules for RDMA in a list with one on each line.
fn modules_in(text: &str) -> impl Iterator<Item = String> {
    let names = text.lines().filter_map(|line| {
        let name = line.split_whitespace().next()?.replace('-', "_");
        let is_for_rdma = KNOWN.contains(&name.as_str()) && !NOT_FOR_RDMA.contains(&name.as_str());
        is_for_rdma.then_some(name)
    });
    names.take(KNOWN.len())
}

/// Whether openibd loads the modules at boot.
fn is_on(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim().eq_ignore_ascii_case("ONBOOT=yes"))
}

/// The modules that the running kernel has, as listed below the directory `prefix`. Only asked where there is no RDMA device: the list is long.
pub(super) fn available(scope: &Scope<'_>, prefix: &str) -> Fact<Available> {
    let devices = scope.collected_entries("/sys/class/infiniband");
    if devices.is_some_and(|names| !names.is_empty()) {
        return Fact::Absent;
    }
    let Fact::Known(release) = scope.collected("/proc/sys/kernel/osrelease") else {
        return Fact::Absent;
    };
    let list = |directory: &str, name: &str| {
        let path = format!("{directory}/{}/{name}", release.trim());
        let text = scope.collected_up_to(&format!("{prefix}{path}"), MAX_LIST)?;
        Some((path, names_in(&text)))
    };
    for directory in OF_KERNEL {
        let Some((file, mut names)) = list(directory, "modules.dep") else {
            continue;
        };
        names.extend(
            list(directory, "modules.builtin")
                .into_iter()
                .flat_map(|(_, names)| names),
        );
        return Fact::Known(Available { file, names });
    }
    Fact::Absent
}

/// The modules of [`KNOWN`] whose files a list names, each at the begin of a line.
fn names_in(text: &str) -> BTreeSet<String> {
    let files = text.lines().filter_map(|line| {
        let path = line.split(':').next()?;
        let name = path.rsplit('/').next()?.split_once(".ko")?.0.replace('-', "_");
        KNOWN.contains(&name.as_str()).then_some(name)
    });
    files.collect()
}

/// What is used of such a file.
pub(super) fn used(path: &str, text: &str) -> Option<String> {
    let is_list = path == MODULES
        || path
            .strip_prefix(DIRECTORY)
            .is_some_and(|rest| rest.starts_with('/'));
    let lines: Vec<String> = if is_list {
        modules_in(text).collect()
    } else if path == OPENIBD {
        is_on(text).then(|| "ONBOOT=yes".to_owned()).into_iter().collect()
    } else if OF_KERNEL
        .iter()
        .any(|directory| path.starts_with(&format!("{directory}/")))
    {
        let names = names_in(text).into_iter();
        names.map(|name| format!("{name}.ko:")).collect()
    } else {
        return None;
    };
    Some(
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<Vec<_>>()
            .concat(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_with_another_use_are_no_sign() {
        let text = "# at boot\nib-uverbs\nmlx5_core\nrdma_cm # for storage\ndummy\n";
        assert_eq!(modules_in(text).collect::<Vec<_>>(), ["ib_uverbs", "rdma_cm"]);
        assert!(is_on("# Start HCA driver upon boot\nONBOOT=yes\n") && !is_on("ONBOOT=no\n"));
    }

    #[test]
    fn what_leaves_the_node_means_the_same() {
        let dep = "kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko.zst: kernel/x/ib_core.ko.zst\nupdates/dkms/secret.ko:\n";
        let kept = used("/lib/modules/6.8.0/modules.dep", dep).unwrap();
        assert_eq!(kept, "mlx5_ib.ko:\n");
        assert_eq!(names_in(&kept), names_in(dep));
        assert_eq!(
            used("/etc/modules-load.d/a.conf", "secret\nefa\n").as_deref(),
            Some("efa\n")
        );
        assert_eq!(
            used(OPENIBD, "# x\nONBOOT=yes\nA=b\n").as_deref(),
            Some("ONBOOT=yes\n")
        );
        assert_eq!(used("/etc/shadow", "x"), None);
    }
}
