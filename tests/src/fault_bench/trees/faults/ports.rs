//! Adapters and ports: links, rates, counters, and what is missing.

use anyhow::Result;

use super::super::field::{BRANCHES, Branch};
use super::super::{Change, remove, set};
use super::{harmless, tree};
use crate::tree::{Entry, Tree};

/// Every change, one fault each.
pub(super) const CHANGES: &[Change] = &[
    Change {
        fault: tree(
            "t-port-down",
            "mlx5_1 lost its link: DOWN, Polling",
            "port-down",
            &["gid-missing", "rate-low"],
        ),
        make: port_down,
        config: "",
    },
    Change {
        fault: tree(
            "t-never-up-with-address",
            "two of four ports have an address and never had a link, so no majority shows what is usual",
            "port-down",
            &["gid-missing"],
        ),
        make: never_up,
        config: "",
    },
    Change {
        fault: tree(
            "t-flapping",
            "mlx5_1 lost its carrier 40 times since boot, three hours ago",
            "port-flapping",
            &["counter-errors"],
        ),
        make: |tree| {
            let net = BRANCHES[1].net();
            set(tree, "proc/uptime", "10800.00 40000.00")?;
            set(tree, &format!("{net}/carrier_up_count"), "41")?;
            set(tree, &format!("{net}/carrier_down_count"), "40")?;
            set(tree, &format!("{net}/carrier_changes"), "81")?;
            let lines = (0..12).map(|n| {
                let word = if n % 2 == 0 { "down" } else { "up" };
                format!(
                    "6,{},{},-;mlx5_core 0000:9a:00.0 ens2f0np0: Link {word}\n",
                    600 + n,
                    6_000_000 + n
                )
            });
            tree.write("dev/kmsg", lines.collect::<String>())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-rate-low",
            "mlx5_1 came up with 100 Gb/s, its peers with 400",
            "rate-low",
            &[],
        ),
        make: |tree| {
            set(
                tree,
                &format!("{}/rate", BRANCHES[1].port()),
                "100 Gb/sec (4X EDR)",
            )?;
            set(tree, &format!("{}/speed", BRANCHES[1].net()), "100000")
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-width",
            "an InfiniBand port runs with one lane of four",
            "width-degraded",
            &[],
        ),
        make: |tree| {
            infiniband(tree)?;
            set(
                tree,
                &format!("{}/rate", BRANCHES[1].port()),
                "100 Gb/sec (1X NDR)",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-no-sm",
            "an InfiniBand port is INIT with its link up",
            "no-subnet-manager",
            &["port-down"],
        ),
        make: |tree| {
            infiniband(tree)?;
            let port = BRANCHES[1].port();
            set(tree, &format!("{port}/state"), "2: INIT")?;
            set(tree, &format!("{port}/lid"), "0x0")?;
            set(tree, &format!("{port}/sm_lid"), "0x0")
        },
        config: "",
    },
    Change {
        fault: harmless("t-infiniband", "all ports are InfiniBand and up: no fault"),
        make: infiniband,
        config: "",
    },
    Change {
        fault: tree(
            "t-lost-packets",
            "mlx5_1 counted 900000 missing acknowledgements, its three equals none",
            "counter-errors",
            &[],
        ),
        make: |tree| {
            let port = BRANCHES[1].port();
            set(
                tree,
                &format!("{port}/hw_counters/local_ack_timeout_err"),
                "918221",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-state-unread",
            "reading the state of mlx5_1's port fails",
            "facts-unreadable",
            &[],
        ),
        make: |tree| {
            let path = format!("{}/state", BRANCHES[1].port());
            tree.insert(
                &path,
                Entry::Unreadable {
                    mode: 0o444,
                    errno: "EIO".into(),
                },
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-adapter-missing",
            "the adapter of mlx5_3 is gone from the bus, and the configuration expects four",
            "hcas-missing",
            &["gpu-without-local-nic"],
        ),
        make: lose_adapter,
        config: "expect:\n  hcas: 4\n",
    },
    Change {
        fault: tree(
            "t-absent-port",
            "the configuration expects mlx5_9, which is not there",
            "port-down",
            &[],
        ),
        make: |_| Ok(()),
        config: "expect:\n  ports_up: [mlx5_0, mlx5_9]\n",
    },
];

pub(in super::super) fn port_down(tree: &mut Tree) -> Result<()> {
    let branch = &BRANCHES[1];
    set(tree, &format!("{}/state", branch.port()), "1: DOWN")?;
    set(tree, &format!("{}/phys_state", branch.port()), "2: Polling")?;
    set(tree, &format!("{}/operstate", branch.net()), "down")
}

/// Takes the link of two of four ports from the start, and leaves their addresses.
fn never_up(tree: &mut Tree) -> Result<()> {
    for branch in &BRANCHES[1..3] {
        let (port, net) = (branch.port(), branch.net());
        set(tree, &format!("{port}/state"), "1: DOWN")?;
        set(tree, &format!("{port}/phys_state"), "2: Polling")?;
        set(tree, &format!("{net}/operstate"), "down")?;
        set(tree, &format!("{net}/carrier_up_count"), "0")?;
        set(tree, &format!("{net}/carrier_changes"), "0")?;
        for counter in ["port_rcv_data", "port_xmit_data"] {
            set(tree, &format!("{port}/counters/{counter}"), "0")?;
        }
        set(tree, &format!("{port}/hw_counters/rx_write_requests"), "0")?;
    }
    Ok(())
}

/// Makes the ports of all physical functions InfiniBand: a GID from the GUID, no RoCE.
pub(in super::super) fn infiniband(tree: &mut Tree) -> Result<()> {
    for (branch, lid) in BRANCHES.iter().zip(["0x11", "0x12", "0x13", "0x14"]) {
        let interface_id = format!("a088:c203:0012:34{}", &lid[2..]);
        let port = branch.port();
        set(tree, &format!("{port}/link_layer"), "InfiniBand")?;
        set(tree, &format!("{port}/lid"), lid)?;
        set(tree, &format!("{port}/sm_lid"), "0x1")?;
        set(
            tree,
            &format!("{port}/gids/0"),
            &format!("fe80:0000:0000:0000:{interface_id}"),
        )?;
        for index in 1..4 {
            for file in ["gids", "gid_attrs/types", "gid_attrs/ndevs"] {
                remove(tree, &format!("{port}/{file}/{index}"))?;
            }
        }
        let net = branch.net();
        remove(tree, &format!("{net}/qos"))?;
        remove(tree, &format!("{net}/ecn"))?;
        set(tree, &format!("{net}/type"), "32")?;
        set(tree, &format!("{net}/mtu"), "2044")?;
    }
    Ok(())
}

/// Takes the adapter of `mlx5_3` from the bus.
pub(in super::super) fn lose_adapter(tree: &mut Tree) -> Result<()> {
    remove_adapter(tree, &BRANCHES[3])
}

/// Takes the adapter of a branch from the bus.
pub(super) fn remove_adapter(tree: &mut Tree, branch: &Branch) -> Result<()> {
    remove(tree, &format!("sys/class/infiniband/{}", branch.device))?;
    remove(tree, &format!("sys/class/net/{}", branch.netdev))?;
    remove(tree, &format!("sys/bus/pci/devices/{}", branch.nic))?;
    remove(tree, &branch.path(branch.nic))
}
