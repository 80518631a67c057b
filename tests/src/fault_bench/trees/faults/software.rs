//! What the node runs: kernel modules, drivers, firmware and limits.

use anyhow::Result;

use super::super::field::{BRANCHES, VF, limits};
use super::super::{Change, remove, set};
use super::tree;
use crate::tree::{Entry, Tree};

/// Every change, one fault each.
pub(super) const CHANGES: &[Change] = &[
    Change {
        fault: tree(
            "t-no-peermem",
            "nvidia_peermem is not loaded and the GPU driver is proprietary",
            "peer-memory-missing",
            &[],
        ),
        make: |tree| without_module(tree, "nvidia_peermem"),
        config: "",
    },
    Change {
        fault: tree(
            "t-peermem-order",
            "nvidia_peermem cannot be loaded: the GPU driver was built before DOCA came",
            "peer-memory-install-order",
            &["peer-memory-missing"],
        ),
        make: |tree| {
            without_module(tree, "nvidia_peermem")?;
            tree.write("dev/kmsg", "4,500,5000,-;nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n\
                4,501,5001,-;nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)\n")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-nv-peer-mem",
            "the legacy module nv_peer_mem is loaded in place of nvidia_peermem",
            "nv-peer-mem-legacy",
            &[],
        )
        .known_miss(None, "it works where it is the only path, so the finding is for information"),
        make: |tree| {
            without_module(tree, "nvidia_peermem")?;
            add_module(tree, "nv_peer_mem 16384 0 - Live 0x0000000000000000 (OE)")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-two-peer-modules",
            "the legacy module nv_peer_mem is loaded next to nvidia_peermem",
            "nv-peer-mem-legacy",
            &[],
        ),
        make: |tree| add_module(tree, "nv_peer_mem 16384 0 - Live 0x0000000000000000 (OE)"),
        config: "",
    },
    Change {
        fault: tree(
            "t-no-mlx5-ib",
            "the adapters are there, mlx5_ib is not loaded, so no RDMA device is",
            "rdma-modules-missing",
            &["port-down", "gpu-without-local-nic", "peer-memory-missing"],
        ),
        make: without_rdma_devices,
        config: "",
    },
    Change {
        fault: tree(
            "t-mlx5-ib-off",
            "a file of modprobe.d keeps mlx5_ib from being loaded",
            "rdma-modules-missing",
            &["port-down", "gpu-without-local-nic", "peer-memory-missing"],
        ),
        make: |tree| {
            without_rdma_devices(tree)?;
            tree.write("etc/modprobe.d/hardening.conf", "blacklist mlx5_ib\n")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-no-uverbs",
            "ib_uverbs is not loaded: the devices are there and no program can open them",
            "rdma-modules-missing",
            &[],
        ),
        make: |tree| {
            without_module(tree, "rdma_ucm")?;
            without_module(tree, "ib_uverbs")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-firmware",
            "mlx5_1 has an older firmware than its equal mlx5_0",
            "firmware-mixed",
            &[],
        )
        .known_miss(None, "adapters with different firmware mostly work, so without `expect.profile` the finding is for information"),
        make: |tree| set(tree, &format!("{}/fw_ver", BRANCHES[1].hca()), "28.36.1010"),
        config: "",
    },
    Change {
        fault: tree(
            "t-driver",
            "the configuration expects another driver than the adapters have",
            "driver-unexpected",
            &[],
        ),
        make: |_| Ok(()),
        config: "expect:\n  driver: mlx5_vdpa\n",
    },
    Change {
        fault: tree(
            "t-rdma-cgroup",
            "a cgroup has all the objects of mlx5_0 that its rdma.max allows, and was refused more",
            "registration-limit",
            &[],
        ),
        make: |tree| {
            let group = "sys/fs/cgroup/system.slice/rdma";
            tree.write(&format!("{group}.max"), "mlx5_0 hca_handle=max hca_object=1000\n")?;
            tree.write(&format!("{group}.current"), "mlx5_0 hca_handle=4 hca_object=1000\n")?;
            tree.write(&format!("{group}.events"), "mlx5_0 hca_handle.max=0 hca_object.max=17\n")
        },
        config: "",
    },
    Change {
        fault: tree("t-memlock", "containerd may lock 8 MiB", "memlock-low", &[]),
        make: |tree| tree.write("proc/2101/limits", limits("8388608")),
        config: "",
    },
];

/// Takes `mlx5_ib`, and all RDMA devices with it.
fn without_rdma_devices(tree: &mut Tree) -> Result<()> {
    without_module(tree, "mlx5_ib")?;
    remove(tree, "sys/class/infiniband")?;
    tree.insert("sys/class/infiniband", Entry::Directory { mode: 0o755 })?;
    for branch in &BRANCHES {
        remove(tree, &format!("{}/infiniband", branch.path(branch.nic)))?;
    }
    remove(tree, &format!("{}/infiniband", BRANCHES[0].path(VF)))
}

fn without_module(tree: &mut Tree, name: &str) -> Result<()> {
    let kept: Vec<_> = modules(tree)?
        .into_iter()
        .filter(|line| !line.starts_with(&format!("{name} ")))
        .collect();
    set(tree, "proc/modules", &kept.join("\n"))
}

fn add_module(tree: &mut Tree, line: &str) -> Result<()> {
    let mut lines = modules(tree)?;
    lines.push(line.to_owned());
    set(tree, "proc/modules", &lines.join("\n"))
}

fn modules(tree: &Tree) -> Result<Vec<String>> {
    match tree.get("proc/modules") {
        Some(Entry::File { content, .. }) => Ok(String::from_utf8_lossy(content)
            .lines()
            .map(str::to_owned)
            .collect()),
        _ => anyhow::bail!("the tree has no /proc/modules"),
    }
}
