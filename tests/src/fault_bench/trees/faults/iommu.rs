//! The IOMMU: groups that translate, and what it refused.

use anyhow::Result;

use super::super::{Change, remove, set};
use super::tree;
use crate::tree::{Entry, Tree};

/// Every change, one fault each.
pub(super) const CHANGES: &[Change] = &[
    Change {
        fault: tree(
            "t-translated",
            "the group of mlx5_0 is DMA-FQ, nothing asks for passthrough",
            "iommu-group-translated",
            &[],
        ),
        make: |tree| {
            set(
                tree,
                "proc/cmdline",
                "BOOT_IMAGE=/boot/vmlinuz root=/dev/sda2 ro intel_iommu=on",
            )?;
            set(
                tree,
                "dev/kmsg",
                "6,300,1200,-;iommu: Default domain type: Translated ",
            )?;
            translate(tree)
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-mismatch",
            "iommu=pt, and the group of mlx5_0 is DMA all the same",
            "iommu-cmdline-mismatch",
            &["iommu-group-translated"],
        ),
        make: |tree| set(tree, "sys/kernel/iommu_groups/15/type", "DMA"),
        config: "",
    },
    Change {
        fault: tree(
            "t-encryption",
            "AMD with SME: iommu=pt mem_encrypt=on, every group is DMA-FQ",
            "iommu-memory-encryption",
            &["iommu-group-translated", "iommu-cmdline-mismatch"],
        ),
        make: |tree| {
            set(
                tree,
                "proc/cmdline",
                "BOOT_IMAGE=/boot/vmlinuz root=/dev/sda2 ro iommu=pt mem_encrypt=on",
            )?;
            set(
                tree,
                "proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu vme sme sev",
            )?;
            set(
                tree,
                "dev/kmsg",
                "6,90,900,-;Memory Encryption Features active: AMD SME\n\
                6,300,1200,-;iommu: Default domain type: Translated (set via kernel command line)",
            )?;
            remove(tree, "sys/class/iommu/dmar0")?;
            tree.insert("sys/class/iommu/ivhd0", Entry::Directory { mode: 0o755 })?;
            translate(tree)
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-dmar-fault",
            "DMAR logged 20 refused writes of the function of mlx5_0",
            "iommu-faults",
            &[],
        ),
        make: |tree| {
            // Ten minutes before the node was captured.
            let lines = (2_591_400..2_591_420).map(|n| {
                format!("3,{n},{n}000000,-;DMAR: [DMA Write NO_PASID] Request device [18:00.0] fault addr 0x{n}000 [fault reason 0x05] PTE Write access is not set\n")
            });
            tree.write("dev/kmsg", lines.collect::<String>())
        },
        config: "",
    },
];

/// Every IOMMU group translates.
fn translate(tree: &mut Tree) -> Result<()> {
    let is_type = |path: &&str| path.starts_with("sys/kernel/iommu_groups/") && path.ends_with("/type");
    let paths: Vec<_> = tree
        .entries()
        .map(|(path, _)| path)
        .filter(is_type)
        .map(str::to_owned)
        .collect();
    paths.iter().try_for_each(|path| set(tree, path, "DMA-FQ"))
}
