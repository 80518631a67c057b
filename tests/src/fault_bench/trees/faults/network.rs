//! The network of a port: its MTU, addresses and priorities, and how the host answers for them.

use anyhow::Result;

use super::super::field::BRANCHES;
use super::super::{Change, remove, set};
use super::tree;
use crate::tree::Tree;

/// The routing table of a node with two ports in 192.168.1.0/24.
const ONE_SUBNET: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
    ens1f0np0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
    ens2f0np0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0";

/// Every change, one fault each.
pub(super) const CHANGES: &[Change] = &[
    Change {
        fault: tree(
            "t-mtu",
            "mlx5_1's interface has an MTU of 1500, its peers' 9000",
            "mtu-low",
            &[],
        ),
        make: |tree| set(tree, &format!("{}/mtu", BRANCHES[1].net()), "1500"),
        config: "",
    },
    Change {
        fault: tree(
            "t-no-gid",
            "mlx5_1 has no IPv4 GID",
            "gid-missing",
            &["gid-index-differs"],
        ),
        make: |tree| {
            for index in [2, 3] {
                gid(tree, index, "0000:0000:0000:0000:0000:0000:0000:0000")?;
                remove(tree, &format!("{}/gid_attrs/types/{index}", BRANCHES[1].port()))?;
                remove(tree, &format!("{}/gid_attrs/ndevs/{index}", BRANCHES[1].port()))?;
            }
            Ok(())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-gid-index",
            "mlx5_1's RoCE v2 GID of IPv4 stands at 5, that of mlx5_0 at 3",
            "gid-index-differs",
            &[],
        ),
        make: |tree| {
            let port = BRANCHES[1].port();
            for index in [2, 3] {
                gid(tree, index, "fd00:0000:0000:0000:0000:0000:0000:0002")?;
                tree.write(
                    &format!("{port}/gids/{}", index + 2),
                    "0000:0000:0000:0000:0000:ffff:c0a8:0211\n",
                )?;
                let kind = if index == 2 { "IB/RoCE v1\n" } else { "RoCE v2\n" };
                tree.write(&format!("{port}/gid_attrs/types/{}", index + 2), kind)?;
                tree.write(&format!("{port}/gid_attrs/ndevs/{}", index + 2), "ens2f0np0\n")?;
            }
            Ok(())
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-duplicate-guid",
            "mlx5_1 has the node GUID of mlx5_0",
            "guid-invalid",
            &[],
        ),
        make: |tree| {
            set(
                tree,
                &format!("{}/node_guid", BRANCHES[1].hca()),
                "a088:c203:0012:3401",
            )
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-same-subnet",
            "two ports are in 192.168.1.0/24, ARP is as Linux sets it",
            "same-subnet-arp",
            &[],
        ),
        make: |tree| set(tree, "proc/net/route", ONE_SUBNET),
        config: "",
    },
    Change {
        fault: tree(
            "t-same-subnet-strict",
            "two ports are in 192.168.1.0/24, ARP is set for it, and the reverse path filter is strict",
            "same-subnet-arp",
            &[],
        ),
        make: |tree| {
            for (name, value) in [("arp_ignore", "1"), ("arp_announce", "2"), ("rp_filter", "1")] {
                set(tree, &format!("proc/sys/net/ipv4/conf/all/{name}"), value)?;
            }
            set(tree, "proc/net/route", ONE_SUBNET)
        },
        config: "",
    },
    Change {
        fault: tree(
            "t-flow-control",
            "no priority of mlx5_1 has flow control or congestion notification",
            "roce-flow-control",
            &[],
        )
        .known_miss(None, "lossy RoCE needs neither, and no file says what the switches are set up for, so the finding is for information"),
        make: |tree| {
            let net = BRANCHES[1].net();
            set(tree, &format!("{net}/qos/pfc"), "0 0 0 0 0 0 0 0")?;
            set(tree, &format!("{net}/ecn/roce_np/enable/3"), "0")?;
            set(tree, &format!("{net}/ecn/roce_rp/enable/3"), "0")
        },
        config: "",
    },
];

fn gid(tree: &mut Tree, index: u32, gid: &str) -> Result<()> {
    set(tree, &format!("{}/gids/{index}", BRANCHES[1].port()), gid)
}
