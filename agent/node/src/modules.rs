//! Kernel modules: which are loaded, in which version, and whether RDMA comes from the kernel or from OFED.
//!
//! Source: `/proc/modules`, `/sys/module/NAME/version` and `/sys/class/infiniband_verbs`.

use std::collections::BTreeMap;

use procfs::{FromBufRead, KernelModules};
use serde::{Deserialize, Serialize};

use crate::{fact::Fact, root::Scope};

/// The modules that decide about RDMA and GPUDirect, in the order in which they are told.
pub const KNOWN: [&str; 24] = [
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
        let loaded =
            scope
                .required_file(PATH)
                .and_then(|text| match KernelModules::from_buf_read(text.as_bytes()) {
                    Ok(KernelModules(all)) => Fact::Known(
                        KNOWN
                            .iter()
                            .filter(|name| all.contains_key(**name))
                            .map(|name| ((*name).to_owned(), Module::read(scope, name)))
                            .collect(),
                    ),
                    Err(error) => scope.malformed(PATH, &error.to_string(), "a list of modules"),
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

impl Module {
    fn read(scope: &Scope<'_>, name: &str) -> Self {
        Self {
            version: scope.optional(&format!("/sys/module/{name}/version")),
        }
    }
}
