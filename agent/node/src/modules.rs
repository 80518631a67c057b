//! Kernel modules: which are loaded, in which version, and whether RDMA comes from the kernel or from OFED.
//!
//! Source: `/proc/modules`, `/sys/module/NAME/version` and `/sys/class/infiniband_verbs`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{fact::Fact, root::Scope};

/// The modules that decide about RDMA and GPUDirect, in the order in which they are told.
pub const KNOWN: [&str; 25] = [
    "ib_core",
    "ib_uverbs",
    "ib_umad",
    "ib_ipoib",
    "rdma_cm",
    "rdma_ucm",
    "mlx5_core",
    "mlx5_ib",
    "mlx4_ib",
    "mlx_compat",
    "bnxt_re",
    "efa",
    "hfi1",
    "irdma",
    "mana_ib",
    "qedr",
    "rdma_rxe",
    "siw",
    "nvidia",
    "nvidia_peermem",
    "nv_peer_mem",
    "efa_nv_peermem",
    "gdrdrv",
    "amdgpu",
    "vfio_pci",
];

/// The modules of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modules {
    /// Those of [`KNOWN`] that are loaded, by name. A module built into the kernel is not listed.
    pub loaded: Fact<BTreeMap<String, Module>>,
    /// Whether user space can reach RDMA devices: the class that `ib_uverbs` makes is there, or the module is loaded.
    #[serde(default)]
    pub user_verbs: Fact<bool>,
}

/// One loaded module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its version; absent for most modules that come with the kernel.
    pub version: Fact<String>,
}

impl Modules {
    /// Reads the loaded modules.
    pub fn read(scope: &Scope<'_>) -> Self {
        const PATH: &str = "/proc/modules";
        // A running kernel without the file was built without modules; a tree without it is not complete.
        let text = if scope.root().is_live() {
            scope.optional_file(PATH)
        } else {
            scope.required_file(PATH)
        };
        let loaded = text.and_then(|text| match names(&text) {
            Ok(names) => Fact::Known(
                KNOWN
                    .iter()
                    .filter(|name| names.contains(**name))
                    .map(|name| ((*name).to_owned(), Module::read(scope, name)))
                    .collect(),
            ),
            Err(line) => scope.malformed(PATH, line, "a module per line"),
        });
        // The class tells of a built-in ib_uverbs, too, which no list of modules does.
        let class = scope.entries("/sys/class/infiniband_verbs");
        let user_verbs = match class.known() {
            Some(_) => Fact::Known(true),
            None => loaded
                .as_ref()
                .map(|all: &BTreeMap<_, _>| all.contains_key("ib_uverbs")),
        };
        Self { loaded, user_verbs }
    }

    /// Whether a module is loaded; `None` where the list could not be read.
    pub fn has(&self, name: &str) -> Option<bool> {
        self.loaded.known().map(|all| all.contains_key(name))
    }

    /// Whether the RDMA stack is MLNX_OFED or DOCA-OFED rather than the kernel's own: only they load `mlx_compat`.
    pub fn is_ofed(&self) -> Option<bool> {
        self.has("mlx_compat")
    }
}

/// The names in `/proc/modules`, or the line that is none of it. Only name and size are looked at: the third column is `-`
/// on kernels that cannot unload modules, which the procfs crate takes for an error.
fn names(text: &str) -> Result<BTreeSet<&str>, &str> {
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().filter(|name| !name.is_empty());
            let size = words.next().and_then(|size| size.parse::<u64>().ok());
            name.zip(size).map(|(name, _)| name).ok_or(line)
        })
        .collect()
}

impl Module {
    fn read(scope: &Scope<'_>, name: &str) -> Self {
        Self {
            version: scope.optional(&format!("/sys/module/{name}/version")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_cannot_unload_modules_counts_no_references() {
        let text = "nvidia_uvm 1830912 - - Live 0xffffffffc080c000 (O)\nib_core 442368 7 ib_umad,rdma_cm, Live 0x0\n";
        assert_eq!(names(text), Ok(BTreeSet::from(["ib_core", "nvidia_uvm"])));
        assert_eq!(names(""), Ok(BTreeSet::new()));
        assert_eq!(names("ib_core\n"), Err("ib_core"));
        assert_eq!(names("<html> x\n"), Err("<html> x"));
    }
}
