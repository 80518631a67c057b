//! Virtual functions: their number, drivers and addresses, and the link that the physical function gives them.

use super::super::field::{BRANCHES, VF, vf_hca};
use super::super::{Change, remove, set};
use super::tree;

/// Every change, one fault each.
pub(super) const CHANGES: &[Change] = &[
    Change {
        fault: tree(
            "t-vf-guid",
            "the virtual function has a node GUID of zero",
            "vf-guid-zero",
            &["guid-invalid"],
        ),
        make: |tree| set(tree, &format!("{}/node_guid", vf_hca()), "0000:0000:0000:0000"),
        config: "",
    },
    Change {
        fault: tree(
            "t-vf-driver",
            "the virtual function has no driver",
            "vf-without-driver",
            &["vfs-missing"],
        ),
        make: |tree| {
            let path = BRANCHES[0].path(VF);
            for name in ["driver", "infiniband", "net"] {
                remove(tree, &format!("{path}/{name}"))?;
            }
            remove(tree, "sys/class/infiniband/mlx5_4")?;
            remove(tree, "sys/class/net/ens1f0v0")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-vfs-missing",
            "two virtual functions are configured, one is there",
            "vfs-missing",
            &[],
        ),
        make: |tree| {
            set(
                tree,
                &format!("{}/sriov_numvfs", BRANCHES[0].path(BRANCHES[0].nic)),
                "2",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-vf-mac",
            "the network device of the virtual function has no hardware address",
            "vf-mac-zero",
            &["vf-trust"],
        ),
        make: |tree| {
            let own = format!("{}/net/ens1f0v0/address", BRANCHES[0].path(VF));
            set(tree, &own, "00:00:00:00:00:00")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-vf-link",
            "the physical function holds the virtual one's link down",
            "vf-trust",
            &[],
        ),
        make: |tree| {
            let branch = &BRANCHES[0];
            set(
                tree,
                &format!("{}/sriov/0/link_state", branch.path(branch.nic)),
                "Disable",
            )
        },
        config: "",
    },
];
