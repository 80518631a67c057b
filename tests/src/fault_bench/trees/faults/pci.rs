//! PCI Express: switches, links, errors, sizes of packets, and what of a GPU lies near and open.

use anyhow::Result;

use super::super::field::{BRANCHES, config_space};
use super::super::{Change, set};
use super::ports::remove_adapter;
use super::{harmless, tree};
use crate::tree::Tree;

/// Every change, one fault each.
pub(super) const CHANGES: &[Change] = &[
    Change {
        fault: tree(
            "t-acs",
            "the switch port above mlx5_0 redirects requests (ACS)",
            "acs-redirect",
            &[],
        ),
        make: redirect,
        config: "",
    },
    Change {
        fault: harmless(
            "t-acs-in-vm",
            "the same in a virtual machine, where it is needed: no fault",
        ),
        make: |tree| {
            set(
                tree,
                "proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vme hypervisor",
            )?;
            redirect(tree)
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-link-degraded",
            "mlx5_1 runs with 8 of 16 lanes",
            "pci-link-degraded",
            &[],
        ),
        make: |tree| {
            let branch = &BRANCHES[1];
            for end in [branch.nic, branch.above_nic] {
                set(tree, &format!("{}/current_link_width", branch.path(end)), "8")?;
            }
            Ok(())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-gen4-slot",
            "mlx5_1, a port of 400 Gb/s, sits in a slot of 16 GT/s: the best both can do, but too slow for the port",
            "pci-below-port-rate",
            &[],
        ),
        make: |tree| {
            let branch = &BRANCHES[1];
            for end in [branch.nic, branch.above_nic] {
                let file = format!("{}/current_link_speed", branch.path(end));
                set(tree, &file, "16.0 GT/s PCIe")?;
            }
            set(
                tree,
                &format!("{}/max_link_speed", branch.path(branch.above_nic)),
                "16.0 GT/s PCIe",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-aer",
            "the function of mlx5_1 reported fatal and many corrected PCIe errors",
            "pci-aer-errors",
            &[],
        ),
        make: |tree| {
            let path = BRANCHES[1].path(BRANCHES[1].nic);
            set(
                tree,
                &format!("{path}/aer_dev_correctable"),
                "RxErr 912345\nBadTLP 20\nTOTAL_ERR_COR 912365",
            )?;
            set(tree, &format!("{path}/aer_dev_fatal"), "DLP 3\nTOTAL_ERR_FATAL 3")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-aer-corrected",
            "the function of mlx5_1 reported 400,000 corrected PCIe errors, its equals none",
            "pci-aer-errors",
            &[],
        ),
        make: |tree| {
            let path = BRANCHES[1].path(BRANCHES[1].nic);
            set(
                tree,
                &format!("{path}/aer_dev_correctable"),
                "RxErr 0\nBadTLP 400000\nTOTAL_ERR_COR 400000",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-payload",
            "mlx5_0 sends packets of 512 bytes, the port above it accepts 128",
            "pci-payload-mismatch",
            &[],
        ),
        make: |tree| payload(tree, BRANCHES[0].nic, 2).and_then(|()| payload(tree, BRANCHES[0].above_nic, 0)),
        config: "",
    },
    Change {
        fault: tree(
            "t-read-request",
            "mlx5_0 may read 128 bytes at once only",
            "pci-max-read-request",
            &[],
        ),
        make: |tree| {
            tree.write(
                &format!("{}/config", BRANCHES[0].path(BRANCHES[0].nic)),
                config_space(0, None),
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-small-aperture",
            "a GPU shows 256 MiB of its memory to other devices",
            "gpu-aperture-small",
            &[],
        ),
        make: |tree| {
            tree.write(
                &format!("{}/resource", BRANCHES[0].path(BRANCHES[0].gpu)),
                "0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200\n0x0000380000000000 0x000038000fffffff 0x000000000014220c\n",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-far-gpu",
            "the NICs of NUMA node 1 are gone, so its GPUs have none near",
            "gpu-without-local-nic",
            &[],
        )
        .known_miss(None, "without `expect.profile` nothing says that the GPUs are to use RDMA, so the finding is for information"),
        make: |tree| {
            [&BRANCHES[1], &BRANCHES[3]].into_iter().try_for_each(|branch| remove_adapter(tree, branch))
        },
        config: "",
    },
];

/// Sets the maximum payload size of a function of the first branch: 0 is 128 bytes, 2 is 512.
fn payload(tree: &mut Tree, address: &str, code: u8) -> Result<()> {
    let mut space = config_space(5, None);
    space[0x68] = space[0x68] & 0x1f | code << 5;
    tree.write(&format!("{}/config", BRANCHES[0].path(address)), space)
}

/// The switch ports above the first adapter and its GPU redirect requests (ACS).
fn redirect(tree: &mut Tree) -> Result<()> {
    let branch = &BRANCHES[0];
    [branch.above_nic, branch.above_gpu]
        .into_iter()
        .try_for_each(|bridge| {
            let file = format!("{}/config", branch.path(bridge));
            tree.write(&file, config_space(0, Some(0x1d)))
        })
}
