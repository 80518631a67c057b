//! Kernel modules: the loaded ones, their versions, and whether the RDMA stack is in-kernel or OFED.
//!
//! Source: `/proc/modules`, `/sys/module/NAME/version`, `/sys/class/infiniband_verbs`, `/sys/class/misc/rdma_cm` and
//! `/sys/module/ib_core/parameters/netns_mode`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    device_nodes::{self, DeviceNode, NodeMode},
    fact::{Fact, Unread},
    root::Scope,
    source::{Known, Source},
};

/// The modules that RDMA and GPUDirect depend on, in the order of the output.
pub const KNOWN: [&str; 37] = [
    "ib_core",
    "ib_uverbs",
    "ib_umad",
    "ib_ipoib",
    "rdma_cm",
    "rdma_ucm",
    "mlx5_core",
    "mlx5_ib",
    "mlx4_core",
    "mlx4_ib",
    "mlx_compat",
    "bng_re",
    "bnxt_re",
    "efa",
    "erdma",
    "habanalabs_cn",
    "habanalabs_ib",
    "hfi1",
    "hns_roce_hw_v2",
    "ionic_rdma",
    "i40iw",
    "irdma",
    "iw_cxgb4",
    "mana_ib",
    "ocrdma",
    "qedr",
    "usnic_verbs",
    "vmw_pvrdma",
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

const MODULES: &str = "/sys/module";
const VERBS: &str = "/sys/class/infiniband_verbs";

/// Modules for storage and sockets over RDMA, which no package loads without a need.
const CONSUMERS: [&str; 5] = ["nvme_rdma", "nvmet_rdma", "ib_srp", "ko2iblnd", "rds_rdma"];

/// The driver of the kernel for NVIDIA's GPUs, without which NVIDIA's own one can take them.
const NOUVEAU: &str = "nouveau";

/// The modules of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modules {
    /// Those of [`KNOWN`], of the consumers of RDMA and `nouveau` that are loaded, by name. A module built into the kernel is not listed.
    pub loaded: Fact<BTreeMap<String, Module>>,
    /// Whether user space can access RDMA devices: the class of `ib_uverbs` exists, or the module is loaded.
    #[serde(default)]
    pub user_verbs: Fact<bool>,
    /// Whether programs can use `rdma_cm`: the device of `rdma_ucm` exists, or the module is loaded.
    #[serde(default)]
    pub user_rdma_cm: Fact<bool>,
    /// Whether every network namespace has its own RDMA devices (`netns_mode` of `ib_core` is `N`: exclusive); absent before
    /// Linux 5.2.
    #[serde(default)]
    pub exclusive_namespaces: Fact<bool>,
    /// The device node of each RDMA device, by the name of the device. Absent if nothing shows the node's
    /// `/dev/infiniband`: in a container without helper, or in a tree that was copied without it.
    #[serde(default)]
    pub device_nodes: Fact<BTreeMap<String, DeviceNode>>,
    /// The permissions of the device nodes that programs open. Absent where nothing shows those of the host.
    #[serde(default)]
    pub node_modes: Fact<Vec<NodeMode>>,
}

/// One loaded module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its version; absent for most in-kernel modules.
    pub version: Fact<String>,
    /// The modules of [`KNOWN`] that use it; empty also on a kernel that does not report users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
}

impl Source for Modules {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        const PATH: &str = "/proc/modules";
        // A running kernel without the file was built without modules; a tree without it is incomplete, unless it shows the same.
        let text = match scope.optional_file(PATH) {
            Fact::Absent if !scope.root().is_live() && !is_without_modules(scope) => {
                scope.required_file(PATH)
            }
            text => text,
        };
        let loaded = text.and_then(|text| match names(&text) {
            Ok(names) => Fact::Known(
                KNOWN
                    .iter()
                    .chain(&CONSUMERS)
                    .chain([&NOUVEAU])
                    .filter_map(|name| Some((*name, names.get(name)?)))
                    .map(|(name, users)| (name.to_owned(), Module::read(scope, name, users)))
                    .collect(),
            ),
            Err(line) => scope.malformed(PATH, line, "a module per line"),
        });
        // A tree may have been copied without them.
        let is_hidden = |path| scope.root().is_live() && scope.is_hidden(path);
        if let Some(module) = loaded.known().and_then(|all: &BTreeMap<_, _>| all.keys().next())
            && is_hidden(MODULES)
        {
            let _: Fact<()> = scope.hidden(MODULES, &format!("the module {module} is loaded"));
        }
        // The class also exists if ib_uverbs is built in, which the list of modules does not show.
        let class = scope.entries(VERBS);
        let is_empty = class.is_absent() || class.known().is_some_and(Vec::is_empty);
        if is_empty && loaded.known().is_some_and(|all| all.contains_key("ib_uverbs")) && is_hidden(VERBS) {
            let _: Fact<()> = scope.hidden(VERBS, "the module ib_uverbs is loaded");
        }
        let user_verbs = match class.known() {
            Some(_) => Fact::Known(true),
            None => loaded
                .as_ref()
                .map(|all: &BTreeMap<_, _>| all.contains_key("ib_uverbs")),
        };
        // A character device of its own class, also if rdma_ucm is built in (drivers/infiniband/core/ucma.c).
        let user_rdma_cm = match scope.entries("/sys/class/misc/rdma_cm").known() {
            Some(_) => Fact::Known(true),
            None => loaded
                .as_ref()
                .map(|all: &BTreeMap<_, _>| all.contains_key("rdma_ucm")),
        };
        let exclusive_namespaces = scope.parsed(
            "/sys/module/ib_core/parameters/netns_mode",
            "Y or N",
            |mode| match mode {
                "Y" => Some(false),
                "N" => Some(true),
                _ => None,
            },
        );
        Self {
            loaded,
            user_verbs,
            user_rdma_cm,
            exclusive_namespaces,
            device_nodes: device_nodes::of_devices(scope, &class),
            node_modes: device_nodes::modes(scope, &class),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            loaded: why.clone().into(),
            user_verbs: why.clone().into(),
            user_rdma_cm: why.clone().into(),
            exclusive_namespaces: why.clone().into(),
            device_nodes: why.clone().into(),
            node_modes: why.clone().into(),
        }
    }
}

impl Modules {
    /// Whether a module is loaded; `None` if the list could not be read.
    pub fn has(&self, name: &str) -> Option<bool> {
        self.loaded.known().map(|all| all.contains_key(name))
    }

    /// Whether `nvidia_peermem` is loaded and registered with `ib_core`, which is then among the modules it uses. `None` if it
    /// is not loaded, or the kernel does not report the users of `ib_core`.
    pub fn peermem_registered(&self) -> Option<bool> {
        let loaded = self.loaded.known()?;
        let users = &loaded.get("ib_core")?.users;
        (loaded.contains_key("nvidia_peermem") && !users.is_empty())
            .then(|| users.iter().any(|user| user == "nvidia_peermem"))
    }

    /// Whether the RDMA stack is MLNX_OFED or DOCA-OFED instead of in-kernel: only they load `mlx_compat`.
    pub fn is_ofed(&self) -> Option<bool> {
        self.has("mlx_compat")
    }
}

/// Whether a kernel has the RDMA core and none of the modules that could be loaded. Only those have a state, a size and, where
/// they can be unloaded, users (`modinfo_attrs` in kernel/module/main.c).
fn is_without_modules(scope: &Scope<'_>) -> bool {
    let present = scope.entries("/sys/module");
    let present = present.known().map_or(&[][..], Vec::as_slice);
    let is_built_in = |name: &String| {
        ["initstate", "coresize", "refcnt"]
            .iter()
            .all(|file| scope.optional(&format!("/sys/module/{name}/{file}")) == Fact::Absent)
    };
    let mut known = present.iter().filter(|name| KNOWN.contains(&name.as_str()));
    present.iter().any(|name| name == "ib_core") && known.all(is_built_in)
}

/// The modules in `/proc/modules` with their users (`-` for none), or the first invalid line. Only name and size are checked:
/// the third column is `-` on kernels that cannot unload modules, which the procfs crate treats as an error.
fn names(text: &str) -> Result<BTreeMap<&str, &str>, &str> {
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().filter(|name| !name.is_empty());
            let size = words.next().and_then(|size| size.parse::<u64>().ok());
            let users = words.nth(1).unwrap_or_default();
            name.zip(size).map(|(name, _)| (name, users)).ok_or(line)
        })
        .collect()
}

impl Module {
    fn read(scope: &Scope<'_>, name: &str, users: &str) -> Self {
        let users = users.split(',').filter(|user| KNOWN.contains(user));
        Self {
            version: scope.optional(&format!("/sys/module/{name}/version")),
            users: users.map(str::to_owned).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        fact::Errno,
        recording::{Answer, Failure, Question, Recording},
        root::Root,
    };

    /// What is unread on a running machine without these directories.
    fn unread_without(directories: &[&str]) -> Vec<String> {
        let mut recording = Recording::default();
        recording.insert_file(
            "/proc/modules",
            b"ib_core 442368 7 ib_uverbs, Live 0x0\nib_uverbs 1 0 - Live 0x0\n".to_vec(),
        );
        for directory in directories {
            let answer = Answer::Failed(Failure::Errno(Errno::NOENT));
            recording.insert(Question::List((*directory).to_owned()), answer);
        }
        let root = Root::replay(Arc::new(recording), true);
        let scope = Scope::new(&root);
        Modules::read(&scope, &Known::default());
        let misses = scope.finish().into_iter().map(|miss| miss.unread);
        let missing = misses.filter(|unread| unread.kind == crate::fact::UnreadKind::Missing);
        missing.map(|unread| unread.to_string()).collect()
    }

    #[test]
    fn directories_of_loaded_modules_are_not_absent() {
        assert_eq!(unread_without(&[]), [""; 0], "a snapshot of an earlier version");
        assert_eq!(
            unread_without(&[MODULES, VERBS]),
            [
                "/sys/module: it is not visible here, although the module ib_core is loaded (missing)",
                "/sys/class/infiniband_verbs: it is not visible here, although the module ib_uverbs is loaded (missing)"
            ]
        );
    }

    #[test]
    fn a_kernel_that_cannot_unload_modules_counts_no_references() {
        let text = "nvidia_uvm 1830912 - - Live 0xffffffffc080c000 (O)\nib_core 442368 7 ib_umad,rdma_cm, Live 0x0\n";
        assert_eq!(
            names(text),
            Ok(BTreeMap::from([
                ("ib_core", "ib_umad,rdma_cm,"),
                ("nvidia_uvm", "-")
            ]))
        );
        assert_eq!(names(""), Ok(BTreeMap::new()));
        assert_eq!(names("ib_core\n"), Err("ib_core"));
        assert_eq!(names("<html> x\n"), Err("<html> x"));
    }
}
