//! Faults that only equal ports, adapters and GPUs show: nothing is configured, and nothing was ever seen otherwise.

use anyhow::Result;

use super::faults::{infiniband, lose_adapter, port_down, tree};
use super::field::BRANCHES;
use super::{Change, remove, set};
use crate::tree::Tree;

/// Every change, one fault each.
pub(super) const CHANGES: &[Change] = &[
    Change {
        fault: tree(
            "t-rail-never-up",
            "mlx5_1 never came up, nothing expects it, and its three equals are ACTIVE",
            "port-down",
            &[],
        ),
        make: never_up,
        config: "",
    },
    Change {
        fault: tree(
            "t-link-type",
            "mlx5_1 is InfiniBand after a reset of its settings, its three equals are Ethernet",
            "link-type-differs",
            &[],
        ),
        make: |tree| {
            never_up(tree)?;
            let port = BRANCHES[1].port();
            set(tree, &format!("{port}/link_layer"), "InfiniBand")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-adapter-never-there",
            "the adapter of mlx5_3 is gone from the bus, and only the other switches show that it should be there",
            "hcas-missing",
            &["gpu-without-local-nic"],
        ),
        make: lose_adapter,
        config: "",
    },
    Change {
        fault: tree(
            "t-duplicate-address",
            "mlx5_2 has the address of mlx5_1",
            "rail-addresses",
            &[],
        ),
        make: |tree| {
            let address = "0000:0000:0000:0000:0000:ffff:0a00:0063";
            for branch in &BRANCHES[1..3] {
                for index in [2, 3] {
                    set(tree, &format!("{}/gids/{index}", branch.port()), address)?;
                }
            }
            Ok(())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-uverbs-node",
            "/dev/infiniband has no node for mlx5_1, and nodes for its equals",
            "uverbs-node-missing",
            &[],
        ),
        make: |tree| {
            for (n, branch) in BRANCHES.iter().enumerate() {
                let ibdev = format!("sys/class/infiniband_verbs/uverbs{n}/ibdev");
                tree.write(&ibdev, format!("{}\n", branch.device))?;
                if n != 1 {
                    tree.write(&format!("dev/infiniband/uverbs{n}"), "")?;
                }
            }
            Ok(())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-gpu-driver",
            "no driver holds one of the four GPUs",
            "gpu-without-driver",
            &[],
        ),
        make: |tree| remove(tree, &format!("{}/driver", BRANCHES[2].path(BRANCHES[2].gpu))),
        config: "",
    },
    Change {
        fault: tree(
            "t-slow-slot",
            "the slot of mlx5_2 has eight lanes, its port 400 Gb/s",
            "pci-below-port-rate",
            &[],
        ),
        make: |tree| {
            let branch = &BRANCHES[2];
            let slot = branch.path(branch.above_nic);
            set(tree, &format!("{slot}/max_link_width"), "8")?;
            set(tree, &format!("{slot}/current_link_width"), "8")?;
            set(
                tree,
                &format!("{}/current_link_width", branch.path(branch.nic)),
                "8",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-bond-member",
            "mlx5_1 is a bond of two ports, and one of them has no link",
            "bond-degraded",
            &[],
        ),
        make: |tree| {
            let netdev = BRANCHES[1].net();
            tree.write(&format!("{netdev}/bonding/slaves"), "ens9f0np0 ens9f1np1\n")?;
            for (member, state) in [("ens9f0np0", "up"), ("ens9f1np1", "down")] {
                tree.write(
                    &format!("sys/class/net/{member}/bonding_slave/mii_status"),
                    format!("{state}\n"),
                )?;
            }
            Ok(())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-partition-key",
            "all ports are InfiniBand; mlx5_1 lost the partition key of its equals",
            "partition-key-missing",
            &[],
        ),
        make: |tree| {
            infiniband(tree)?;
            for (n, branch) in BRANCHES.iter().enumerate() {
                let keys: &[&str] = if n == 1 {
                    &["0x7fff"]
                } else {
                    &["0x8010", "0x7fff"]
                };
                for (index, key) in keys.iter().enumerate() {
                    tree.write(&format!("{}/pkeys/{index}", branch.port()), format!("{key}\n"))?;
                }
            }
            Ok(())
        },
        config: "",
    },
];

/// The port of `mlx5_1` never had a link.
fn never_up(tree: &mut Tree) -> Result<()> {
    port_down(tree)?;
    let (port, net) = (BRANCHES[1].port(), BRANCHES[1].net());
    set(tree, &format!("{net}/carrier_up_count"), "0")?;
    set(tree, &format!("{net}/carrier_changes"), "0")?;
    for counter in ["port_rcv_data", "port_xmit_data"] {
        set(tree, &format!("{port}/counters/{counter}"), "0")?;
    }
    set(tree, &format!("{port}/hw_counters/rx_write_requests"), "0")
}
