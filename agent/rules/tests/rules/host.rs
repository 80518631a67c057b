//! The host's network, limits, the helper.

use rdma_health_node::{Unread, UnreadKind, fact::HelperTrouble};
use rdma_health_rules::Profile;

use super::*;

/// Puts both ports of the E810 into one subnet.
fn one_subnet(tree: &mut Tree) {
    let row = |netdev: &str| format!("{netdev}\t0000040A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n");
    let table = format!("Iface\tDestination\n{}{}", row("ens3f0"), row("ens3f1"));
    tree.write("proc/1/net/route", table).unwrap();
}

fn sysctl(tree: &mut Tree, netdev: &str, name: &str, value: u32) {
    let file = format!("proc/sys/net/ipv4/conf/{netdev}/{name}");
    assert!(tree.get(&file).is_some(), "{file}");
    tree.write(&file, format!("{value}\n")).unwrap();
}

#[test]
fn two_devices_in_one_subnet_need_arp_settings() {
    let shared = node("irdma-e810", one_subnet);
    assert_eq!(of(&shared, &auto(), "same-subnet-arp"), ["ens3f0 warning"]);
    let message = message(&shared, &auto(), "same-subnet-arp");
    assert!(
        message.contains("10.4.0.0/16")
            && message.contains("arp_announce=0 (expected 2)")
            && message.contains("arp_ignore=0 (expected 1)"),
        "{message}"
    );
    let set_for_all = node("irdma-e810", |tree| {
        one_subnet(tree);
        sysctl(tree, "all", "arp_ignore", 1);
        sysctl(tree, "all", "arp_announce", 2);
    });
    assert_eq!(of(&set_for_all, &auto(), "same-subnet-arp"), [""; 0]);
    let strict = node("irdma-e810", |tree| {
        one_subnet(tree);
        sysctl(tree, "all", "arp_ignore", 1);
        sysctl(tree, "all", "arp_announce", 2);
        sysctl(tree, "ens3f1", "rp_filter", 1);
    });
    assert_eq!(
        of(&strict, &auto(), "same-subnet-arp"),
        ["ens3f0 warning"],
        "answers of rdma_cm are dropped"
    );
    let out_of_sight = node("irdma-e810", |tree| {
        one_subnet(tree);
        assert!(tree.remove("proc/sys/net"));
    });
    assert_eq!(of(&out_of_sight, &auto(), "same-subnet-arp"), [""; 0]);
    let down = node("irdma-e810", |tree| {
        one_subnet(tree);
        set(tree, "/rocep152s0f1/ports/1/state", "1: DOWN");
    });
    assert_eq!(of(&down, &auto(), "same-subnet-arp"), [""; 0]);
}

#[test]
fn an_adapter_without_rdma_in_the_subnet_is_information() {
    let with = |other: &str, change: &dyn Fn(&mut Tree)| {
        let found = node("irdma-e810", |tree| {
            let row =
                |netdev: &str| format!("{netdev}\t0000040A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
            let table = format!("Iface\tDestination\n{}{}", row("ens3f0"), row(other));
            tree.write("proc/1/net/route", table).unwrap();
            let directory = "sys/devices/pci0000:00/0000:02:00.0/net/eno1";
            tree.write(&format!("{directory}/type"), "1\n").unwrap();
            tree.insert(
                &format!("{directory}/device"),
                Entry::Link {
                    target: "../../../0000:02:00.0".into(),
                },
            )
            .unwrap();
            let target = "../../devices/pci0000:00/0000:02:00.0/net/eno1";
            tree.insert(
                "sys/class/net/eno1",
                Entry::Link {
                    target: target.into(),
                },
            )
            .unwrap();
            change(tree);
        });
        of(&found, &auto(), "same-subnet-arp")
    };
    assert_eq!(with("eno1", &|_| {}), ["ens3f0 info"]);
    assert_eq!(with("docker0", &|_| {}), [""; 0], "no adapter");
    assert_eq!(
        with("eno1", &|tree| sysctl(tree, "all", "arp_ignore", 1)),
        [""; 0]
    );
    let of_bond = |tree: &mut Tree| {
        let master = "sys/devices/pci0000:00/0000:02:00.0/net/eno1/master";
        tree.insert(
            master,
            Entry::Link {
                target: "../../../../virtual/net/bond0".into(),
            },
        )
        .unwrap();
    };
    assert_eq!(with("eno1", &of_bond), [""; 0]);
    let of_card = |tree: &mut Tree| {
        let physfn = "sys/devices/pci0000:00/0000:02:00.0/physfn";
        let card = "../../pci0000:97/0000:97:02.0/0000:98:00.0";
        tree.insert(physfn, Entry::Link { target: card.into() }).unwrap();
    };
    assert_eq!(with("eno1", &of_card), [""; 0], "a function of the same card");
}

#[test]
fn interfaces_of_infiniband_in_one_subnet_are_information() {
    let shared = node("infiniband-ndr", |_| {});
    assert_eq!(of(&shared, &auto(), "same-subnet-arp"), ["ibp33s0 info"]);
    let set_for_all = node("infiniband-ndr", |tree| {
        sysctl(tree, "all", "arp_ignore", 1);
        sysctl(tree, "all", "arp_announce", 2);
    });
    assert_eq!(of(&set_for_all, &auto(), "same-subnet-arp"), [""; 0]);
}

#[test]
fn missing_flow_control_is_found_where_sysfs_shows_it() {
    let with = |priority: u8, pfc: &str| {
        node("h100-connectx7", |tree| {
            for role in ["roce_np", "roce_rp"] {
                for n in 0..8 {
                    let on = u8::from(n == priority);
                    let file = format!("sys/devices/virtual/net/bond0/ecn/{role}/enable/{n}");
                    tree.write(&file, format!("{on}\n")).unwrap();
                }
            }
            if !pfc.is_empty() {
                tree.write("sys/devices/virtual/net/bond0/qos/pfc", format!("{pfc}\n"))
                    .unwrap();
            }
            let counters = tree.path("/mlx5_bond_0/ports/1/hw_counters/np_cnp_sent");
            tree.write(&counters, "0\n").unwrap();
            set(tree, "/mlx5_bond_0/ports/1/hw_counters/rp_cnp_handled", "0");
        })
    };
    let found = |node: &Node| of(node, &auto(), "roce-flow-control");
    assert_eq!(found(&with(9, "")), ["mlx5_bond_0:1 info"]);
    assert_eq!(found(&with(9, "0 0 0 0 0 0 0 0")), ["mlx5_bond_0:1 info"]);
    assert_eq!(found(&with(3, "")), [""; 0]);
    assert_eq!(found(&with(9, "0 0 0 1 0 0 0 0")), [""; 0]);
    assert_eq!(
        found(&node("h100-connectx7", |_| {})),
        [""; 0],
        "the driver does not expose it"
    );
}

#[test]
fn low_limits_of_slurmd_the_kubelet_and_this_process_are_found() {
    let limits = include_str!("../limits.txt").replace("SOFT", "8388608  ");
    let slurm = node("hfi1-opa", |tree| {
        tree.write("proc/1200/limits", limits.clone()).unwrap();
    });
    assert_eq!(of(&slurm, &auto(), "memlock-low"), ["slurmd warning"]);
    assert!(message(&slurm, &auto(), "memlock-low").contains("jobs of slurmd"));
    let pbs = node("hfi1-opa", |tree| {
        tree.write("proc/1200/limits", limits.clone()).unwrap();
        tree.write("proc/1200/comm", "pbs_mom\n").unwrap();
    });
    assert_eq!(of(&pbs, &auto(), "memlock-low"), ["pbs_mom warning"]);
    assert!(message(&pbs, &auto(), "memlock-low").contains("jobs of pbs_mom"));
    let kubelet = node("h100-connectx7", |_| {});
    assert_eq!(of(&kubelet, &auto(), "memlock-low"), [""; 0]);
    assert_eq!(
        of(&kubelet, &profile(Profile::Rdma), "memlock-low"),
        ["kubelet info"]
    );
    let mut pod = node("irdma-e810", |_| {});
    Arc::make_mut(&mut pod.limits).own = Fact::Known(rdma_health_node::limits::Memlock {
        soft: Some(8 << 20),
        hard: Some(8 << 20),
    });
    assert_eq!(of(&pod, &auto(), "memlock-low"), ["rdma-health info"]);
    assert_eq!(
        of(&pod, &profile(Profile::Rdma), "memlock-low"),
        ["rdma-health warning"]
    );
}

#[test]
fn a_helper_that_does_not_answer_is_one_finding_of_its_own() {
    let mut node = node("bnxt-re", |_| {});
    node.verbs = Unread {
        source: "rdma-health-verbs".into(),
        kind: UnreadKind::Helper(HelperTrouble::Hung),
        detail: "the helper did not answer within 5s".into(),
    }
    .into();
    assert_eq!(of(&node, &auto(), "helper-unhealthy"), ["node warning"]);
    assert_eq!(of(&node, &auto(), "facts-unreadable"), [""; 0]);
    node.hcas = Fact::Absent;
    assert_eq!(
        of(&node, &auto(), "helper-unhealthy"),
        ["node info"],
        "it is not needed"
    );
}

#[test]
fn a_helper_that_fails_at_some_questions_is_found() {
    let with = |kind: UnreadKind| {
        let mut node = node("bnxt-re", |_| {});
        let status = Arc::make_mut(node.facts.sources.values_mut().next().unwrap());
        status.unread.extend(["config", "log"].map(|source| Unread {
            source: source.into(),
            kind: kind.clone(),
            detail: "why".into(),
        }));
        node
    };
    for trouble in [
        HelperTrouble::Malformed,
        HelperTrouble::Hung,
        HelperTrouble::Ended,
    ] {
        let node = with(UnreadKind::Helper(trouble));
        assert_eq!(of(&node, &auto(), "helper-unhealthy"), ["node warning"]);
        assert_eq!(
            message(&node, &auto(), "helper-unhealthy"),
            "the verbs helper fails at 2 questions, for example config: why"
        );
    }
    for excused in [
        UnreadKind::Helper(HelperTrouble::Refused),
        UnreadKind::Helper(HelperTrouble::Unreachable),
        UnreadKind::NotCollected,
    ] {
        assert_eq!(of(&with(excused), &auto(), "helper-unhealthy"), [""; 0]);
    }
}
