//! What links negotiated.

use std::{collections::BTreeMap, sync::Arc};

use rdma_health_node::{infiniband::PortCode, node::VerbsDevice};
use rdma_health_protocol::{Device, Port as VerbsPort};
use rdma_health_rules::Profile;

use super::*;

#[test]
fn infiniband_without_subnet_manager_is_found_once() {
    let state = |code: &str| node("infiniband-ndr", |tree| set(tree, "/mlx5_0/ports/1/state", code));
    let init = state("2: INIT");
    assert_eq!(of(&init, &auto(), "no-subnet-manager"), ["mlx5_0:1 critical"]);
    assert_eq!(of(&init, &auto(), "port-down"), [""; 0], "one fault, one finding");
    assert_eq!(
        of(&init, &profile(Profile::TcpOnly), "no-subnet-manager"),
        ["mlx5_0:1 info"]
    );
    assert_eq!(of(&state("1: DOWN"), &auto(), "no-subnet-manager"), [""; 0]);
    assert_eq!(of(&state("1: DOWN"), &auto(), "port-down"), ["mlx5_0:1 critical"]);
    let lost = node("infiniband-ndr", |tree| {
        set(tree, "/mlx5_0/ports/1/sm_lid", "0x0");
    });
    assert_eq!(of(&lost, &auto(), "no-subnet-manager"), ["mlx5_0:1 warning"]);
    let roce = node("h100-connectx7", |tree| {
        set(tree, "/mlx5_0/ports/1/state", "2: INIT");
    });
    assert_eq!(of(&roce, &auto(), "no-subnet-manager"), [""; 0]);
}

#[test]
fn a_port_slower_than_most_of_its_kind_is_found_and_a_tie_is_not() {
    let slow = node("h100-connectx7", |tree| {
        set(tree, "/mlx5_5/ports/1/rate", "200 Gb/sec (4X HDR)");
    });
    assert_eq!(of(&slow, &auto(), "rate-low"), ["mlx5_5:1 warning"]);
    assert!(
        message(&slow, &auto(), "rate-low").contains("200 Gb/s; 7 of 8 ports of its kind run at 400 Gb/s")
    );
    assert_eq!(of(&slow, &profile(Profile::TcpOnly), "rate-low"), [""; 0]);
    let tie = node("bnxt-re", |tree| {
        set(tree, "/bnxt_re1/ports/1/rate", "25 Gb/sec (1X EDR)");
    });
    assert_eq!(of(&tie, &auto(), "rate-low"), [""; 0]);
    let expected = Expectations {
        rate_gbps: Some(100),
        ..auto()
    };
    assert_eq!(of(&tie, &expected, "rate-low"), ["bnxt_re1:1 warning"]);
}

#[test]
fn ports_for_storage_are_not_compared_with_the_rails_of_gpus() {
    const STORAGE: [&str; 2] = ["mlx5_4", "mlx5_5"];
    let mut node = node("h100-connectx7", |tree| {
        for device in STORAGE {
            set(tree, &format!("/{device}/ports/1/rate"), "200 Gb/sec (4X HDR)");
        }
    });
    assert_eq!(
        of(&node, &auto(), "rate-low"),
        ["mlx5_4:1 warning", "mlx5_5:1 warning"],
        "rails of GPUs"
    );
    let roots: Vec<String> = node
        .hcas()
        .filter(|hca| STORAGE.contains(&hca.name.as_str()))
        .filter_map(|hca| {
            node.pci
                .functions
                .known()?
                .get(hca.pci_address.known()?)?
                .bridges
                .first()
                .cloned()
        })
        .collect();
    assert_eq!(roots.len(), STORAGE.len(), "each has a root port");
    let Fact::Known(functions) = &mut Arc::make_mut(&mut node.pci).functions else {
        panic!("functions are known");
    };
    functions.retain(|_, function| {
        let is_below = function.bridges.first().is_some_and(|root| roots.contains(root));
        !(is_below && function.driver.known().is_some_and(|driver| driver == "nvidia"))
    });
    assert_eq!(of(&node, &auto(), "rate-low"), [""; 0], "ports for storage");
}

#[test]
fn lost_lanes_are_found_on_infiniband_and_reported_once() {
    let narrow = node("infiniband-ndr", |tree| {
        set(tree, "/mlx5_2/ports/1/rate", "100 Gb/sec (1X NDR)");
    });
    assert_eq!(of(&narrow, &auto(), "width-degraded"), ["mlx5_2:1 warning"]);
    assert!(message(&narrow, &auto(), "width-degraded").contains("1 of 4 lanes"));
    let lanes_of_all = |rate: &str| {
        node("infiniband-ndr", |tree| {
            let files: Vec<_> = tree.entries().map(|(path, _)| path.to_owned()).collect();
            for file in files.iter().filter(|file| file.ends_with("/ports/1/rate")) {
                tree.write(file, format!("{rate}\n")).unwrap();
            }
        })
    };
    let all = lanes_of_all("100 Gb/sec (1X NDR)");
    assert!(
        !of(&all, &auto(), "width-degraded").is_empty(),
        "no cable has one lane"
    );
    let split = lanes_of_all("200 Gb/sec (2X NDR)");
    assert_eq!(of(&split, &auto(), "width-degraded"), [""; 0]);
    assert_eq!(
        of(&narrow, &auto(), "rate-low"),
        [""; 0],
        "one fault, one finding"
    );
    let ethernet = node("h100-connectx7", |tree| {
        set(tree, "/mlx5_2/ports/1/rate", "50 Gb/sec (1X HDR)");
    });
    assert_eq!(of(&ethernet, &auto(), "width-degraded"), [""; 0]);
}

/// What libibverbs would say, with the active MTU of each device.
fn with_verbs(node: &mut Node, active_mtu: impl Fn(&str) -> u32) {
    let devices: BTreeMap<_, _> = node
        .hcas()
        .map(|hca| {
            let port = VerbsPort {
                number: 1,
                state: 4,
                phys_state: 5,
                link_layer: 2,
                active_mtu: active_mtu(&hca.name),
                max_mtu: 4096,
                lid: 0,
                sm_lid: 0,
                gid_table_len: 256,
                gids: hca.ports[&1].gids.known().cloned().unwrap_or_default(),
            };
            let device = Device {
                name: hca.name.clone(),
                node_guid: 1,
                firmware: String::new(),
                vendor_id: 0x15b3,
                vendor_part_id: 1,
                max_mr_size: 1 << 40,
                ports: vec![port],
            };
            (hca.name.clone(), VerbsDevice::Device(device))
        })
        .collect();
    node.verbs = Fact::Known(Arc::new(devices));
}

#[test]
fn a_low_path_mtu_is_judged_by_expectation_by_others_and_by_the_network_device() {
    let healthy = node("h100-connectx7", |_| {});
    let one_low = |mtu| {
        let mut node = healthy.clone();
        with_verbs(&mut node, |name| if name == "mlx5_4" { mtu } else { 4096 });
        node
    };
    assert_eq!(of(&one_low(4096), &auto(), "mtu-low"), [""; 0]);
    assert_eq!(of(&one_low(1024), &auto(), "mtu-low"), ["mlx5_4:1 warning"]);
    assert!(message(&one_low(1024), &auto(), "mtu-low").contains("most ports of its kind have 4096"));
    let mut all_low = healthy.clone();
    with_verbs(&mut all_low, |_| 1024);
    assert!(message(&all_low, &auto(), "mtu-low").contains("its network device allows 4096"));
    let expected = Expectations {
        mtu: Some(1024),
        ..auto()
    };
    assert_eq!(of(&all_low, &expected, "mtu-low"), [""; 0], "it is expected");
    // The usual MTU of 1500 works.
    let mut usual = node("irdma-e810", |_| {});
    with_verbs(&mut usual, |_| 1024);
    assert_eq!(
        of(&usual, &auto(), "mtu-low"),
        ["rocep152s0f0:1 info", "rocep152s0f1:1 info"]
    );
    let expected = Expectations {
        mtu: Some(4096),
        ..auto()
    };
    assert_eq!(of(&usual, &expected, "mtu-low").len(), 2);
    assert!(of(&usual, &expected, "mtu-low")[0].ends_with("warning"));
}

#[test]
fn without_libibverbs_the_mtu_of_the_network_device_is_compared() {
    let low = node("h100-connectx7", |tree| set(tree, "/net/ens5f0np0/mtu", "1500"));
    assert_eq!(of(&low, &auto(), "mtu-low"), ["mlx5_4:1 warning"]);
    // All have the usual one, and their rate suggests another.
    let usual = node("irdma-e810", |_| {});
    assert_eq!(
        of(&usual, &auto(), "mtu-low"),
        ["rocep152s0f0:1 info", "rocep152s0f1:1 info"]
    );
}

#[test]
fn a_port_that_is_not_active_is_not_compared() {
    let mut node = node("h100-connectx7", |_| {});
    with_port(&mut node, "mlx5_5", |port| {
        port.state = Fact::Known(PortCode {
            code: 1,
            name: "DOWN".into(),
        });
        port.rate = Fact::Absent;
    });
    assert_eq!(of(&node, &auto(), "rate-low"), [""; 0]);
    assert_eq!(of(&node, &auto(), "port-down"), ["mlx5_5:1 critical"]);
}

#[test]
fn a_port_whose_network_device_a_pod_has_is_a_warning_unless_it_is_expected() {
    let mut moved = node("connectx7-gpu", |tree| {
        set(tree, "/mlx5_0/ports/1/state", "1: DOWN");
    });
    assert_eq!(of(&moved, &auto(), "port-down"), ["mlx5_0:1 critical"]);
    with_port(&mut moved, "mlx5_0", |port| {
        if let Fact::Known(netdev) = &mut port.netdev {
            netdev.index = Fact::Absent;
            netdev.carrier_ups = Fact::Absent;
        }
    });
    assert_eq!(of(&moved, &auto(), "port-down"), ["mlx5_0:1 warning"]);
    let expected = Expectations {
        ports_up: vec!["mlx5_0".into()],
        ..auto()
    };
    assert_eq!(of(&moved, &expected, "port-down"), ["mlx5_0:1 critical"]);
}

#[test]
fn a_virtual_function_whose_host_holds_it_down_is_critical_in_the_guest() {
    let with = |flags: &str, phys: &str| {
        node("infiniband-ndr", |tree| {
            tree.write("proc/cpuinfo", format!("flags\t: fpu {flags}\n"))
                .unwrap();
            set(tree, "/mlx5_0/ports/1/state", "1: DOWN");
            set(tree, "/mlx5_0/ports/1/phys_state", phys);
            for counter in ["port_rcv_data", "port_xmit_data"] {
                set(tree, &format!("/mlx5_0/ports/1/counters/{counter}"), "0");
            }
        })
    };
    let held = with("hypervisor", "5: LinkUp");
    assert!(message(&held, &auto(), "port-down").contains("the host holds the port"));
    let physical = with("", "5: LinkUp");
    assert!(
        !findings(&physical, &auto(), "port-down")
            .iter()
            .any(|finding| finding.message.contains("the host holds"))
    );
}

#[test]
fn an_infiniband_port_that_never_came_up_is_found_if_no_other_port_is_active() {
    let dark = |also: &dyn Fn(&mut Tree)| {
        node("hfi1-opa", |tree| {
            set(tree, "/hfi1_0/ports/1/state", "1: DOWN");
            set(tree, "/hfi1_0/ports/1/phys_state", "2: Polling");
            let counters: Vec<String> = tree
                .entries()
                .map(|(path, _)| path.to_owned())
                .filter(|path| path.contains("/counters/port_"))
                .collect();
            for path in counters {
                tree.write(&path, "0\n").unwrap();
            }
            set(tree, "/net/ib0/carrier_up_count", "0");
            set(tree, "/net/ib0/operstate", "down");
            also(tree);
        })
    };
    assert_eq!(of(&dark(&|_| {}), &auto(), "port-down"), ["hfi1_0:1 warning"]);
    assert_eq!(
        of(&dark(&|_| {}), &profile(Profile::TcpOnly), "port-down"),
        [""; 0]
    );
    // An Ethernet port without a cable may be that of a network that the node does not use.
    let ethernet = dark(&|tree| {
        set(tree, "/hfi1_0/ports/1/link_layer", "Ethernet");
        tree.write("proc/1/net/route", "Iface\n").unwrap();
    });
    assert_eq!(of(&ethernet, &auto(), "port-down"), ["hfi1_0:1 info"]);
    assert_eq!(
        of(&ethernet, &profile(Profile::Rdma), "port-down"),
        ["hfi1_0:1 critical"]
    );
}

#[test]
fn an_adapter_for_infiniband_and_ethernet_whose_ports_are_all_down_is_found() {
    let down = |first: bool, class: &str| {
        node("mlx4-dual-port", |tree| {
            set(tree, "/0000:04:00.0/class", class);
            set(tree, "/mlx4_0/ports/1/link_layer", "Ethernet");
            let counters: Vec<String> = tree
                .entries()
                .map(|(path, _)| path.to_owned())
                .filter(|path| path.contains("/counters/port_") || path.ends_with("/carrier_up_count"))
                .collect();
            for path in counters {
                tree.write(&path, "0\n").unwrap();
            }
            if first {
                set(tree, "/mlx4_0/ports/1/state", "1: DOWN");
                set(tree, "/mlx4_0/ports/1/phys_state", "3: Disabled");
            }
            tree.write("proc/1/net/route", "Iface\n").unwrap();
        })
    };
    let all = down(true, "0x028000");
    assert_eq!(
        of(&all, &auto(), "port-down"),
        ["mlx4_0:1 warning", "mlx4_0:2 warning"]
    );
    let second = &findings(&all, &auto(), "port-down")[1];
    assert!(
        second.remedy.contains("LINK_TYPE_P2=1") && second.remedy.contains("0000:04:00.0/mlx4_port2"),
        "{}",
        second.remedy
    );
    assert_eq!(
        of(&down(true, "0x020000"), &auto(), "port-down"),
        ["mlx4_0:1 info", "mlx4_0:2 info"],
        "an Ethernet adapter may be unused"
    );
    assert_eq!(
        of(&down(false, "0x028000"), &auto(), "port-down"),
        [""; 0],
        "the other port works"
    );
}

#[test]
fn what_controls_nvswitches_is_not_for_jobs() {
    // An HGX B200 with EFA: its two ConnectX-7 are InfiniBand, have no network device, and may be down.
    let mut of_efa = node("efa-p5", |tree| {
        let is_h100 = |entry: &Entry| matches!(entry, Entry::File { content, .. } if content == b"0x2330\n");
        let gpus: Vec<_> = tree
            .entries()
            .filter(|(path, entry)| path.ends_with("/device") && is_h100(entry))
            .map(|(path, _)| path.to_owned())
            .collect();
        assert!(!gpus.is_empty());
        for gpu in gpus {
            tree.write(&gpu, "0x2901\n").unwrap();
        }
    });
    let spare = node("infiniband-ndr", |_| {});
    let mut control = Hca::clone(spare.hcas.known().unwrap().get("mlx5_3").unwrap());
    control.name = "ibp115s0f0".to_owned();
    control.ports.get_mut(&1).unwrap().netdev = Fact::Absent;
    let Fact::Known(hcas) = &mut of_efa.hcas else {
        panic!("no devices")
    };
    hcas.insert("ibp115s0f0".into(), Arc::new(control));
    assert_eq!(of(&of_efa, &auto(), "port-down"), [""; 0]);
    assert_eq!(of(&of_efa, &auto(), "rdma-modules-missing"), [""; 0]);
}

#[test]
fn a_port_whose_state_is_unknown_leaves_the_node_unjudged() {
    let verdict = |change: &dyn Fn(&mut Tree)| judge(&node("h100-connectx7", change), &auto());
    assert_eq!(verdict(&|_| ()).unknown_because, None);
    let unread = verdict(&|tree| {
        let file = tree.path("/mlx5_3/ports/1/state");
        assert!(tree.remove(&file));
    });
    let why = unread.unknown_because.unwrap();
    assert!(why.contains("the state of mlx5_3"), "{why}");
    let without = verdict(&|tree| {
        let port: Vec<_> = tree
            .entries()
            .map(|(file, _)| file.to_owned())
            .filter(|file| file.contains("/mlx5_3/ports/"))
            .collect();
        assert!(port.iter().all(|file| tree.remove(file)));
    });
    let why = without.unknown_because.unwrap();
    assert!(why.contains("mlx5_3/ports has no port"), "{why}");
}
