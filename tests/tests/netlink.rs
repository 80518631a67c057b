//! What netlink reports on a real kernel: bonds, neighbour tables, objects of RDMA devices, network namespaces; and with the simulated
//! adapter `netdevsim`, virtual functions and pause frames.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use rdma_health_tests::virtual_node::{Options, VirtualNode, built};
use serde_json::Value;

/// What `check` reports; the node may have findings.
fn check(node: &VirtualNode) -> Value {
    let product = built("rdma-health").unwrap().display().to_string();
    let report = node
        .check(&format!("{product} check --output json || true"))
        .unwrap();
    serde_json::from_str(&report).unwrap()
}

fn messages(report: &Value, rule: &str) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let of_rule = findings.filter(|finding| finding["rule"] == rule);
    of_rule
        .map(|finding| finding["message"].as_str().unwrap().to_owned())
        .collect()
}

/// Members of a bond whose other end speaks no LACP, each in its own aggregator.
const BOND: &str = "ip link add bond9 type bond mode 802.3ad miimon 100
    for eth in eth1 eth2; do ip link set $eth down; ip link set $eth master bond9; done
    ip link set bond9 up
    rdma link add rxebond type rxe netdev bond9
    until grep -q 'MII Status: up' /proc/net/bonding/bond9; do sleep 0.2; done";

#[test]
fn bonds_tables_and_objects_are_those_of_the_kernel() {
    let node = VirtualNode::boot(&Options {
        nics: 3,
        modules_added: vec!["bonding".into()],
        ..Options::default()
    })
    .unwrap();
    node.check(BOND).unwrap();
    // The members' links come up within a second or two.
    node.check("until [ $(grep -c 'MII Status: up' /proc/net/bonding/bond9) = 3 ]; do sleep 0.2; done")
        .unwrap();
    node.check("ip neigh add 10.0.100.77 lladdr 02:00:00:00:00:77 dev eth0; sysctl -qw net.ipv4.neigh.default.gc_thresh3=1")
        .unwrap();
    let report = check(&node);
    let facts = &report["node"];

    let bond = &facts["interfaces"]["netdevs"]["bond9"]["bond"];
    assert_eq!(bond["mode"], "802.3ad", "{facts:#}");
    let members: Vec<_> = bond["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["name"])
        .collect();
    assert_eq!(members, ["eth1", "eth2"]);
    let degraded = messages(&report, "bond-degraded");
    assert!(
        degraded.iter().any(|message| message.contains("LACP")),
        "{degraded:?} {bond:#}"
    );

    let table = &facts["neighbours"]["tables"]["arp_cache"];
    assert_eq!(table["limit"], 1);
    assert!(table["entries"].as_u64().unwrap() >= 1, "{table}");
    let full = messages(&report, "neighbour-table-full");
    assert!(full[0].contains("arp_cache"), "{full:?}");

    assert_eq!(facts["rdma"]["namespaces"], "shared");
    let shown = node.check("rdma -j resource show rxe0").unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    for kind in ["pd", "cq", "qp", "mr"] {
        assert_eq!(
            facts["rdma"]["resources"]["rxe0"][kind], shown[0][kind],
            "{kind}: {shown}"
        );
    }
    // Absent: virtio_net and SoftRoCE have neither. Nothing of it is a failure.
    assert!(facts["dcb"]["netdevs"].as_object().unwrap().is_empty());
    assert!(facts["transceivers"]["netdevs"].as_object().unwrap().is_empty());
    for source in ["interfaces", "dcb", "transceivers", "neighbours", "rdma", "links"] {
        assert_eq!(
            facts["sources"][source]["unread"],
            serde_json::json!([]),
            "{source}"
        );
    }
}

/// Debian's kernel has no `netdevsim`. Run it with the module in `NETDEVSIM`, built for the kernel of the virtual node.
#[test]
#[ignore = "needs the kernel module netdevsim"]
fn virtual_functions_and_links_are_those_of_a_simulated_adapter() {
    let module = std::env::var("NETDEVSIM").unwrap();
    let needed = ["psample", "udp_tunnel", "macsec"];
    let node = VirtualNode::boot(&Options {
        modules_added: needed.map(str::to_owned).into(),
        ..Options::default()
    })
    .unwrap();
    node.check(&format!(
        "insmod {module}
        echo '1 1' >/sys/bus/netdevsim/new_device
        until [ -e /sys/bus/netdevsim/devices/netdevsim1/net ]; do sleep 0.1; done
        name=$(ls /sys/bus/netdevsim/devices/netdevsim1/net); ip link set $name name sim0
        echo 2 >/sys/bus/netdevsim/devices/netdevsim1/sriov_numvfs
        ip link set sim0 vf 0 mac 02:00:00:00:00:aa trust on spoofchk on state disable
        echo Y >/sys/kernel/debug/netdevsim/netdevsim1/ports/0/ethtool/pause/report_stats_rx
        ip link set sim0 up; rdma link add rxesim type rxe netdev sim0"
    ))
    .unwrap();
    let report = check(&node);
    let facts = &report["node"];
    let vfs = &facts["interfaces"]["netdevs"]["sim0"]["vfs"];
    let expected = serde_json::json!({"number": 0, "mac": "02:00:00:00:00:aa", "link_state": "disable", "trust": true, "spoof_check": true});
    assert_eq!(vfs[0], expected, "{vfs:#}");
    assert_eq!(vfs[1]["link_state"], "auto");
    let link = &facts["links"]["netdevs"]["sim0"];
    assert!(link["pause"]["rx_frames"].is_u64(), "{link:#}");
    assert!(
        link["pause"]["tx_frames"].is_null(),
        "it counts one direction only: {link:#}"
    );
    assert_eq!(facts["sources"]["links"]["unread"], serde_json::json!([]));
}
