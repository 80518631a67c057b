//! Equal ports that differ: expectations without configuration.

use rdma_health_node::{
    infiniband::{LinkLayer, PortCode},
    network::{BondMember, Settings},
};

use rdma_health_node::pci::Role;

use super::*;

const H100: &str = "h100-connectx7";

fn state(code: u8, name: &str) -> Fact<PortCode> {
    Fact::Known(PortCode {
        code,
        name: name.into(),
    })
}

/// A port that never came up and has no address.
fn never_up(node: &mut Node, name: &str) {
    up_without_link(node, name);
    let netdev = node.port(name, 1).and_then(|port| port.netdev.known().cloned());
    let netdev = netdev.map(|netdev| netdev.name).unwrap_or_default();
    if let Fact::Known(subnets) = &mut Arc::make_mut(&mut node.network).subnets {
        subnets.retain(|subnet| subnet.netdev != netdev);
    }
}

/// A port that never came up, although its network device is up and has an address.
fn up_without_link(node: &mut Node, name: &str) {
    with_port(node, name, |port| {
        port.state = state(1, "DOWN");
        port.phys_state = state(2, "Polling");
        for counter in port.counters.iter_mut().chain(&mut port.hw_counters) {
            counter.value = Fact::Known(0);
        }
        if let Fact::Known(netdev) = &mut port.netdev {
            netdev.carrier_ups = Fact::Known(0);
        }
    });
}

#[test]
fn a_rail_that_never_came_up_is_found_by_its_equals() {
    let mut one = node(H100, |_| {});
    never_up(&mut one, "mlx5_5");
    assert_eq!(of(&one, &auto(), "port-down"), ["mlx5_5:1 warning"]);
    assert!(message(&one, &auto(), "port-down").contains("7 of 8 equal ports are ACTIVE"));
    assert_eq!(
        of(&one, &profile(Profile::Rdma), "port-down"),
        ["mlx5_5:1 critical"]
    );
    let mut half = node(H100, |_| {});
    for name in ["mlx5_1", "mlx5_3", "mlx5_5", "mlx5_7"] {
        never_up(&mut half, name);
    }
    assert_eq!(
        of(&half, &auto(), "port-down"),
        [""; 0],
        "every second rail is a design"
    );
    let mut few = node("bnxt-re", |_| {});
    never_up(&mut few, "bnxt_re1");
    assert_eq!(of(&few, &auto(), "port-down"), [""; 0], "one of two is a spare");
}

#[test]
fn a_port_that_never_came_up_is_found_by_the_address_of_its_network_device() {
    let mut with_address = node("bnxt-re", |_| {});
    up_without_link(&mut with_address, "bnxt_re1");
    assert_eq!(of(&with_address, &auto(), "port-down"), ["bnxt_re1:1 warning"]);
    assert_eq!(
        of(&with_address, &profile(Profile::Rdma), "port-down"),
        ["bnxt_re1:1 critical"]
    );
    let mut set_down = with_address.clone();
    with_port(&mut set_down, "bnxt_re1", |port| {
        if let Fact::Known(netdev) = &mut port.netdev {
            netdev.admin_up = Fact::Known(false);
        }
    });
    assert_eq!(of(&set_down, &auto(), "port-down"), [""; 0], "not in use");
    let mut link_local = with_address;
    if let Fact::Known(subnets) = &mut Arc::make_mut(&mut link_local.network).subnets {
        for subnet in subnets {
            subnet.address = std::net::Ipv4Addr::new(169, 254, 0, 0);
        }
    }
    assert_eq!(
        of(&link_local, &auto(), "port-down"),
        [""; 0],
        "hosts give it themselves"
    );
}

#[test]
fn the_infiniband_port_of_a_virtual_machine_is_expected_to_be_active() {
    let with = |flags: &str| {
        let mut node = node("infiniband-ndr", |tree| {
            tree.write("proc/cpuinfo", format!("flags\t: fpu {flags}\n"))
                .unwrap();
        });
        let names: Vec<_> = node.hcas().map(|hca| hca.name.clone()).collect();
        for name in &names {
            never_up(&mut node, name);
        }
        let lost: Vec<_> = node.gpus().map(|gpu| gpu.address.to_owned()).collect();
        if let Fact::Known(functions) = &mut Arc::make_mut(&mut node.pci).functions {
            functions.retain(|address, _| !lost.contains(address));
        }
        node
    };
    let guest = with("hypervisor");
    let found = findings(&guest, &auto(), "port-down");
    assert!(!found.is_empty());
    assert!(found[0].message.contains("given to this virtual machine"));
    // On a physical machine, some may be spares, but not all of them.
    let alone = findings(&with(""), &auto(), "port-down");
    assert!(alone[0].message.contains("no RDMA port of the node is ACTIVE"));
    let next_to_one = {
        let mut node = with("");
        with_port(&mut node, "mlx5_0", |port| {
            port.state = state(4, "ACTIVE");
        });
        node
    };
    assert_eq!(
        of(&next_to_one, &auto(), "port-down"),
        [""; 0],
        "they may be spares"
    );
}

#[test]
fn an_adapter_in_the_other_link_type_is_found_and_its_port_is_reported_once() {
    let mut reset = node(H100, |_| {});
    never_up(&mut reset, "mlx5_2");
    with_port(&mut reset, "mlx5_2", |port| {
        port.link_layer = Fact::Known(LinkLayer::InfiniBand);
    });
    assert_eq!(of(&reset, &auto(), "link-type-differs"), ["mlx5_2:1 warning"]);
    assert!(message(&reset, &auto(), "link-type-differs").contains("7 of 8 equal ports have Ethernet"));
    assert_eq!(of(&reset, &auto(), "port-down"), [""; 0]);
    assert_eq!(of(&reset, &auto(), "no-subnet-manager"), [""; 0]);
    assert_eq!(of(&node(H100, |_| {}), &auto(), "link-type-differs"), [""; 0]);

    // Its cable leads to an InfiniBand switch.
    with_port(&mut reset, "mlx5_2", |port| {
        port.state = state(2, "INIT");
        port.phys_state = state(5, "LinkUp");
    });
    assert!(
        message(&reset, &auto(), "link-type-differs").contains("the other end of its cable is InfiniBand")
    );
    assert_eq!(of(&reset, &auto(), "no-subnet-manager"), ["mlx5_2:1 critical"]);
}

#[test]
fn a_storage_port_of_another_link_type_is_reported_only_if_its_state_is_known() {
    let with = |state: &str| {
        let node = node("infiniband-ndr", |tree| {
            set(tree, "/mlx5_2/ports/1/link_layer", "Ethernet");
            set(tree, "/mlx5_2/ports/1/state", state);
        });
        of(&node, &auto(), "link-type-differs")
    };
    assert_eq!(with("1: DOWN"), ["mlx5_2:1 warning"]);
    for other in ["4: ACTIVE", "garbage"] {
        assert_eq!(with(other), [""; 0], "{other}");
    }
}

#[test]
fn a_lost_partition_key_is_found_by_the_equals_of_the_port() {
    let with_keys = |keys: [&[u16]; 4]| {
        let mut node = node("infiniband-ndr", |_| {});
        for (n, keys) in keys.iter().enumerate() {
            with_port(&mut node, &format!("mlx5_{n}"), |port| {
                port.state = state(4, "ACTIVE");
                port.partition_keys = Fact::Known(keys.to_vec());
            });
        }
        of(&node, &auto(), "partition-key-missing")
    };
    let tenant: &[u16] = &[0x8010, 0x7fff];
    assert_eq!(with_keys([tenant; 4]), [""; 0]);
    assert_eq!(with_keys([&[0xffff]; 4]), [""; 0]);
    assert_eq!(
        with_keys([tenant, tenant, &[0x8020, 0x7fff], tenant]),
        ["mlx5_2:1 warning"]
    );
    let limited = with_keys([&[0x7fff]; 4]);
    assert_eq!(limited.len(), 4, "{limited:?}");
}

#[test]
fn a_member_that_the_switch_leaves_out_is_found_without_netlink() {
    let with = |aggregator: u64, partner: u8, actor: u8| {
        let node = node(H100, |_| {});
        let member = |name: &str, aggregator: u64, partner: u8, actor: u8| BondMember {
            name: name.into(),
            link_up: Fact::Known(true),
            aggregator: Fact::Known(aggregator),
            partner_state: Fact::Known(partner),
            actor_state: Fact::Known(actor),
            is_active: Fact::Known(true),
            ..BondMember::default()
        };
        let members = vec![
            member("ens9f0np0", 1, 61, 61),
            member("ens9f1np1", aggregator, partner, actor),
        ];
        let settings = Settings {
            bond: Fact::Known(members),
            aggregator: Fact::Known(1),
            ..Settings::default()
        };
        with_bond(node, settings)
    };
    assert_eq!(of(&with(1, 61, 61), &auto(), "bond-degraded"), [""; 0]);
    for (aggregator, partner, actor) in [(2, 1, 61), (2, 61, 61), (1, 69, 61), (1, 61, 13), (1, 13, 61)] {
        let node = with(aggregator, partner, actor);
        assert_eq!(of(&node, &auto(), "bond-degraded"), ["mlx5_bond_0:1 warning"]);
        assert!(message(&node, &auto(), "bond-degraded").contains("ens9f1np1 of"));
    }
}

/// The node with these settings of the network device below its bonded RDMA device.
fn with_bond(mut node: Node, settings: Settings) -> Node {
    let bond = node.hcas.known().unwrap()["mlx5_bond_0"].ports[&1]
        .netdev
        .known()
        .unwrap()
        .name
        .clone();
    Arc::make_mut(&mut node.network).netdevs.insert(bond, settings);
    node
}

#[test]
fn a_member_of_a_bond_without_link_is_found_and_a_bond_without_any_while_its_port_is_active() {
    let with_members = |up: [bool; 2]| {
        let node = node(H100, |_| {});
        let members = ["ens9f0np0", "ens9f1np1"]
            .into_iter()
            .zip(up)
            .map(|(name, up)| BondMember {
                name: name.into(),
                link_up: Fact::Known(up),
                ..BondMember::default()
            });
        let settings = Settings {
            bond: Fact::Known(members.collect()),
            ..Settings::default()
        };
        with_bond(node, settings)
    };
    let half = with_members([true, false]);
    assert_eq!(of(&half, &auto(), "bond-degraded"), ["mlx5_bond_0:1 warning"]);
    assert!(message(&half, &auto(), "bond-degraded").contains("1 of 2 members are up"));
    assert_eq!(of(&with_members([true, true]), &auto(), "bond-degraded"), [""; 0]);
    let mut none = with_members([false, false]);
    assert_eq!(of(&none, &auto(), "bond-degraded"), ["mlx5_bond_0:1 critical"]);
    // That the port is down is another finding.
    with_port(&mut none, "mlx5_bond_0", |port| port.state = state(1, "DOWN"));
    assert_eq!(of(&none, &auto(), "bond-degraded"), [""; 0]);
}

/// The node whose bond has a second member that lost its carrier so often, and has one now or not.
fn with_second_member(downs: u64, has_carrier: bool) -> Node {
    let member = |name: &str, downs: u64, has_carrier: bool| BondMember {
        name: name.into(),
        link_up: Fact::Known(true),
        has_carrier: Fact::Known(has_carrier),
        carrier_downs: Fact::Known(downs),
        ..BondMember::default()
    };
    let members = vec![
        member("ens9f0np0", 1, true),
        member("ens9f1np1", downs, has_carrier),
    ];
    let settings = Settings {
        bond: Fact::Known(members),
        ..Settings::default()
    };
    with_bond(node(H100, |_| {}), settings)
}

#[test]
fn a_member_without_a_carrier_that_the_bond_does_not_notice_is_found() {
    let node = with_second_member(1, false);
    assert_eq!(of(&node, &auto(), "bond-degraded"), ["mlx5_bond_0:1 warning"]);
    let finding = findings(&node, &auto(), "bond-degraded").remove(0);
    assert!(
        finding
            .message
            .contains("it does not look at the carrier (miimon 0"),
        "{}",
        finding.message
    );
    assert!(finding.remedy.contains("miimon 100"), "{}", finding.remedy);
    assert_eq!(
        of(&with_second_member(1, true), &auto(), "bond-degraded"),
        [""; 0]
    );
}

#[test]
fn a_member_of_a_bond_that_goes_down_again_and_again_flaps() {
    use rdma_health_node::history::History;
    let flapped = |times: &[u64]| {
        let mut history = History::default();
        let mut node = with_second_member(0, true);
        for (n, downs) in (0_u64..).zip(times) {
            node = with_second_member(*downs, true);
            node.time = 1_790_000_000 + 600 * n;
            node.history = Some(Arc::new(history.clone()));
            history.record(&node, node.time);
        }
        node.history = Some(Arc::new(history.clone()));
        assert_eq!(history.check(), Ok(()));
        node
    };
    assert_eq!(of(&flapped(&[7, 7, 7]), &auto(), "port-flapping"), [""; 0]);
    assert_eq!(
        of(&flapped(&[7, 8, 8]), &auto(), "port-flapping"),
        ["mlx5_bond_0:1 info"]
    );
    let often = flapped(&[7, 9, 12]);
    assert_eq!(of(&often, &auto(), "port-flapping"), ["mlx5_bond_0:1 warning"]);
    let words = "ens9f1np1, a member of the bond of mlx5_bond_0:1, went down 5 times within 12 hours";
    assert!(message(&often, &auto(), "port-flapping").contains(words));
    // Without an earlier reading, of a node that runs for long.
    let mut once = with_second_member(5000, true);
    Arc::make_mut(&mut once.host).uptime = Fact::Known(10 * 86_400);
    assert_eq!(of(&once, &auto(), "port-flapping"), ["mlx5_bond_0:1 info"]);
}

#[test]
fn duplicate_and_swapped_addresses_of_rails_are_found() {
    let with_addresses = |change: &dyn Fn(&mut Vec<rdma_health_protocol::Gid>, usize)| {
        let mut node = node(H100, |_| {});
        for n in 0..8 {
            with_port(&mut node, &format!("mlx5_{n}"), |port| {
                let Fact::Known(gids) = &mut port.gids else {
                    panic!("no GIDs")
                };
                change(gids, n);
            });
        }
        node
    };
    let to = |gids: &mut Vec<rdma_health_protocol::Gid>, rail: usize| {
        for gid in gids.iter_mut().filter(|gid| gid.is_ipv4_mapped()) {
            gid.gid = format!("::ffff:10.0.{rail}.1").parse().unwrap();
        }
    };
    let as_planned = with_addresses(&|gids, n| to(gids, n));
    assert_eq!(of(&as_planned, &auto(), "rail-addresses"), [""; 0]);
    let twice = with_addresses(&|gids, n| to(gids, if n == 6 { 5 } else { n }));
    assert!(
        message(&twice, &auto(), "rail-addresses")
            .contains("mlx5_5:1 and mlx5_6:1 have the same address 10.0.5.1")
    );
    let remedy = &findings(&twice, &auto(), "rail-addresses")[0].remedy;
    assert!(remedy.contains("another address"), "{remedy}");
    let mut bridged = twice.clone();
    for name in ["mlx5_5", "mlx5_6"] {
        with_port(&mut bridged, name, |port| {
            if let Fact::Known(netdev) = &mut port.netdev {
                netdev.master = Some("br0".into());
            }
        });
    }
    let finding = findings(&bridged, &auto(), "rail-addresses").remove(0);
    assert!(
        finding
            .message
            .contains("are both below br0, and have its address 10.0.5.1"),
        "{}",
        finding.message
    );
    assert!(
        finding.remedy.contains("Take the ports out of it"),
        "{}",
        finding.remedy
    );
    let swapped = with_addresses(&|gids, n| {
        to(
            gids,
            match n {
                3 => 4,
                4 => 3,
                n => n,
            },
        );
    });
    assert_eq!(of(&swapped, &auto(), "rail-addresses"), ["mlx5_3:1 warning"]);
    let other_socket_first = with_addresses(&|gids, n| to(gids, (n + 4) % 8));
    assert_eq!(of(&other_socket_first, &auto(), "rail-addresses"), [""; 0]);
}

#[test]
fn a_switch_without_the_adapter_that_all_others_have_is_found() {
    let without = |addresses: &[&str]| {
        let mut node = node(H100, |_| {});
        for (name, address) in [("mlx5_2", "0000:33:00.0"), ("mlx5_3", "0000:34:00.0")] {
            if addresses.contains(&address) {
                let Fact::Known(hcas) = &mut node.hcas else {
                    panic!("no devices")
                };
                hcas.remove(name);
                let Fact::Known(functions) = &mut Arc::make_mut(&mut node.pci).functions else {
                    panic!("no PCI")
                };
                functions.remove(address);
            }
        }
        node
    };
    let both = without(&["0000:33:00.0", "0000:34:00.0"]);
    assert_eq!(of(&both, &auto(), "hcas-missing"), ["0000:30:01.0 warning"]);
    assert!(message(&both, &auto(), "hcas-missing").contains("3 of 4 switches with GPUs have one"));
    assert_eq!(of(&without(&["0000:33:00.0"]), &auto(), "hcas-missing"), [""; 0]);
}

#[test]
fn a_gpu_without_its_driver_is_found_and_one_of_a_virtual_machine_is_not() {
    let with_driver = |driver: Fact<String>| {
        let mut node = node(H100, |_| {});
        let gpu = node.gpus().next().unwrap().address.to_owned();
        let Fact::Known(functions) = &mut Arc::make_mut(&mut node.pci).functions else {
            panic!("no PCI")
        };
        functions.get_mut(&gpu).unwrap().driver = driver;
        let found = findings(&node, &auto(), "gpu-without-driver");
        found
            .into_iter()
            .map(|finding| finding.remedy)
            .collect::<Vec<_>>()
    };
    assert_eq!(with_driver(Fact::Absent).len(), 1);
    let of_nouveau = with_driver(Fact::Known("nouveau".into()));
    assert!(
        of_nouveau[0].contains("Keep nouveau from being loaded"),
        "{of_nouveau:?}"
    );
    assert_eq!(with_driver(Fact::Known("vfio-pci".into())), [""; 0]);
    assert_eq!(with_driver(Fact::Known("nvidia".into())), [""; 0]);
}

#[test]
fn accelerators_of_every_vendor_need_their_driver() {
    const GAUDI: u16 = 0x1da3;
    const INTEL: u16 = 0x8086;
    const FPGA: u16 = 0x10ee;
    let found = |vendor: u16, class: u32, without: usize| {
        let mut node = node(H100, |_| {});
        let Fact::Known(functions) = &mut Arc::make_mut(&mut node.pci).functions else {
            panic!("no PCI")
        };
        let gpus = functions.values_mut().filter(|one| one.role == Role::Gpu);
        for (number, gpu) in gpus.enumerate() {
            (gpu.vendor, gpu.device) = (Fact::Known(vendor), Fact::Known(0x1060));
            gpu.class = Fact::Known(class);
            gpu.driver = if number < without {
                Fact::Absent
            } else {
                Fact::Known("some".into())
            };
        }
        let found = findings(&node, &auto(), "gpu-without-driver").into_iter();
        found.map(|finding| finding.remedy).collect::<Vec<_>>()
    };
    let gaudi = found(GAUDI, 0x12_0000, 8);
    assert_eq!(gaudi.len(), 8);
    assert!(gaudi[0].contains("grep habanalabs"), "{}", gaudi[0]);
    let intel = found(INTEL, 0x03_8000, 1);
    assert!(intel.len() == 1 && intel[0].contains("grep -e i915"), "{intel:?}");
    assert_eq!(found(INTEL, 0x12_0000, 8), [""; 0], "the NPU of a processor");
    assert_eq!(found(FPGA, 0x12_0000, 8), [""; 0]);
    let one = found(FPGA, 0x12_0000, 1);
    assert!(one.len() == 1 && !one[0].contains("nvidia"), "{one:?}");
}

#[test]
fn a_slot_that_is_too_slow_for_the_port_is_found() {
    let with_slot = |width: u32, gpu: Option<(u32, u16)>| {
        let mut node = node(H100, |_| {});
        let Fact::Known(functions) = &mut Arc::make_mut(&mut node.pci).functions else {
            panic!("no PCI")
        };
        if let Some((class, device)) = gpu {
            for function in functions.values_mut().filter(|one| one.role == Role::Gpu) {
                (function.class, function.device) = (Fact::Known(class), Fact::Known(device));
            }
        }
        let above = functions["0000:13:00.0"].bridges.last().unwrap().clone();
        for address in ["0000:13:00.0", above.as_str()] {
            functions.get_mut(address).unwrap().link.width = Fact::Known(width);
        }
        functions.get_mut(&above).unwrap().link.max_width = Fact::Known(width);
        node
    };
    let rule = "pci-below-port-rate";
    assert_eq!(of(&with_slot(8, None), &auto(), rule), ["mlx5_0:1 warning"]);
    assert_eq!(of(&with_slot(16, None), &auto(), rule), [""; 0]);
    // Half of the lanes are enough for half of the rate.
    let mut slower = with_slot(8, None);
    with_port(&mut slower, "mlx5_0", |port| {
        if let Fact::Known(rate) = &mut port.rate {
            rate.bits_per_second = 200_000_000_000;
        }
    });
    assert_eq!(of(&slower, &auto(), rule), ["mlx5_0:1 info"]);
    assert!(message(&slower, &auto(), rule).contains("8 of the 16 lanes"));
    let remedy = |gpu| findings(&with_slot(8, gpu), &auto(), rule).remove(0).remedy;
    assert!(remedy(None).contains("Move the card"));
    // On a GB10, the adapters are part of the board.
    let soldered = remedy(Some((0x03_0000, 0x2e12)));
    assert!(
        soldered.contains("part of the board") && !soldered.contains("slot"),
        "{soldered}"
    );
}

#[test]
fn gpus_with_adapters_and_without_any_rdma_device_are_critical() {
    let none = node(H100, |tree| {
        let paths: Vec<_> = tree.entries().map(|(path, _)| path.to_owned()).collect();
        for path in paths.iter().filter(|path| path.contains("/infiniband/")) {
            tree.remove(path);
        }
    });
    let verdict = judge(&none, &auto());
    assert_eq!(verdict.status, Status::Critical);
    let missing = of(&none, &auto(), "rdma-modules-missing");
    assert!(
        missing.len() >= 8 && missing[0].ends_with("critical"),
        "{missing:?}"
    );
}

#[test]
fn an_expectation_that_cannot_be_judged_is_not_fulfilled() {
    let unknown = node(H100, |tree| assert!(tree.remove("sys/kernel/iommu_groups")));
    // Its functions are in groups, which the tree does not have.
    assert_eq!(judge(&unknown, &auto()).status, Status::Unknown);
    let expected = Expectations {
        passthrough: Some(true),
        ..auto()
    };
    let verdict = judge(&unknown, &expected);
    assert_eq!(verdict.status, Status::Unknown);
    assert!(
        verdict
            .unknown_because
            .unwrap()
            .contains("expect.passthrough cannot be judged")
    );
    assert_eq!(judge(&node(H100, |_| {}), &expected).status, Status::Ok);
}

#[test]
fn names_that_no_device_can_have_are_refused() {
    let check = |name: &str| {
        let expected = Expectations {
            ports_up: vec![name.into()],
            ..auto()
        };
        expected.check().is_ok()
    };
    for name in ["mlx5_0", "mlx5_0:1", "rocep65s0f0", "ibp24s0:2", "bnxt-re.1"] {
        assert!(check(name), "{name}");
    }
    for name in [
        "mlx5 0",
        "mlx5_0:",
        "mlx5_0:0",
        "mlx5_0:x",
        "mlx5_0:1:2",
        "a/b",
        ":1",
        "mlx5_*",
        "mlx5_0:256",
    ] {
        assert!(!check(name), "{name}");
    }
}

#[test]
fn a_kernel_that_does_not_report_the_iommu_mode_makes_the_node_unknown() {
    let old = node(H100, |tree| {
        let types: Vec<_> = tree
            .entries()
            .map(|(path, _)| path.to_owned())
            .filter(|path| path.starts_with("sys/kernel/iommu_groups/") && path.ends_with("/type"))
            .collect();
        assert!(!types.is_empty());
        for path in types {
            tree.remove(&path);
        }
    });
    let verdict = judge(&old, &auto());
    assert_eq!(verdict.status, Status::Unknown, "{:?}", verdict.findings);
    let why = verdict.unknown_because.unwrap();
    assert!(
        why.contains("does not report the IOMMU mode") && why.contains("Default domain type: Passthrough"),
        "{why}"
    );
}
