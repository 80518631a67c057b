//! GIDs and GUIDs.

use rdma_health_node::{infiniband::LinkLayer, node::Probe};
use rdma_health_protocol::{GidType, Path, ProbeFailure, ProbeReport, Stage};
use rdma_health_rules::Profile;

use super::*;

/// Takes the entries with IPv4 addresses out of a port's table.
fn without_ipv4(node: &mut Node, device: &str) {
    with_port(node, device, |port| {
        if let Fact::Known(gids) = &mut port.gids {
            gids.retain(|gid| !gid.is_ipv4_mapped());
        }
    });
}

#[test]
fn gid_tables_are_read_through_sysfs() {
    let node = node("h100-connectx7", |_| {});
    let gids = node.port("mlx5_0", 1).unwrap().gids().unwrap();
    let words: Vec<_> = gids.iter().map(|gid| (gid.index, gid.kind)).collect();
    let (v1, v2) = (GidType::RoceV1, GidType::RoceV2);
    assert_eq!(words, [(0, v1), (1, v2), (2, v1), (3, v2)]);
    assert_eq!(gids[3].gid.to_ipv4_mapped(), Some([10, 0, 0, 2].into()));
}

#[test]
fn a_port_without_ipv4_gid_among_others_that_have_one_is_found() {
    let mut node = node("h100-connectx7", |_| {});
    without_ipv4(&mut node, "mlx5_6");
    assert_eq!(of(&node, &auto(), "gid-missing"), ["mlx5_6:1 warning"]);
    assert_eq!(of(&node, &profile(Profile::TcpOnly), "gid-missing"), [""; 0]);
    assert!(message(&node, &auto(), "gid-missing").contains("ens7f0np0 has none"));
}

#[test]
fn a_port_whose_equals_have_their_address_on_a_vlan_is_told_to_create_it() {
    let mut node = node("h100-connectx7", |_| {});
    for rail in 0..8u8 {
        with_port(&mut node, &format!("mlx5_{rail}"), |port| {
            let own = port.netdev.known().unwrap().name.clone();
            let Fact::Known(gids) = &mut port.gids else {
                panic!("no GIDs")
            };
            if rail == 6 {
                gids.retain(|gid| !gid.is_ipv4_mapped());
            }
            for gid in gids.iter_mut().filter(|gid| gid.is_ipv4_mapped()) {
                gid.netdev = Some(format!("{own}.100"));
            }
        });
    }
    let found = &findings(&node, &auto(), "gid-missing")[0];
    let command = "ip link add link ens7f0np0 name ens7f0np0.100 type vlan id 100";
    assert!(found.remedy.contains(command), "{}", found.remedy);
}

/// Adds `mlx5_9`, a port like the one for management, without an IPv4 address.
fn with_second_management_port(node: &mut Node) {
    let Fact::Known(hcas) = &mut node.hcas else {
        panic!("no devices")
    };
    let mut second = Hca::clone(hcas.get("mlx5_bond_0").unwrap());
    "mlx5_9".clone_into(&mut second.name);
    hcas.insert("mlx5_9".into(), Arc::new(second));
    without_ipv4(node, "mlx5_9");
}

#[test]
fn next_to_rails_of_infiniband_an_ethernet_port_without_an_address_is_info() {
    let mut node = node("h100-connectx7", |_| {});
    for rail in 0..8u8 {
        with_port(&mut node, &format!("mlx5_{rail}"), |port| {
            port.link_layer = Fact::Known(LinkLayer::InfiniBand);
            port.gids = Fact::Known(Vec::new());
        });
    }
    with_second_management_port(&mut node);
    assert_eq!(of(&node, &auto(), "gid-missing"), ["mlx5_9:1 info"]);
}

#[test]
fn on_rails_of_ipv6_only_the_one_without_an_address_is_found() {
    let mut node = node("h100-connectx7", |_| {});
    for rail in 0..8u8 {
        with_port(&mut node, &format!("mlx5_{rail}"), |port| {
            let Fact::Known(gids) = &mut port.gids else {
                panic!("no GIDs")
            };
            gids.retain(|gid| rail != 6 || !gid.is_ipv4_mapped());
            for gid in gids.iter_mut().filter(|gid| gid.is_ipv4_mapped()) {
                gid.gid = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(rail) + 1);
            }
        });
    }
    assert_eq!(of(&node, &auto(), "gid-missing"), ["mlx5_6:1 warning"]);
    let found = &findings(&node, &auto(), "gid-missing")[0];
    assert!(found.message.contains("7 of 8"), "{}", found.message);
    assert!(!found.remedy.contains("IPv4"), "{}", found.remedy);
}

#[test]
fn ports_of_ipv6_only_are_not_told_to_need_ipv4_and_azures_network_functions_need_no_gid() {
    let of_ipv6 = |virtual_machine: bool| {
        let mut node = node("h100-connectx7", |tree| {
            let flags = if virtual_machine { "fpu hypervisor" } else { "fpu" };
            tree.write("proc/cpuinfo", format!("flags\t: {flags}\n")).unwrap();
        });
        let names: Vec<_> = node.hcas().map(|hca| hca.name.clone()).collect();
        for name in names {
            with_port(&mut node, &name, |port| {
                let Fact::Known(gids) = &mut port.gids else {
                    panic!("no GIDs")
                };
                for gid in gids.iter_mut().filter(|gid| gid.is_ipv4_mapped()) {
                    gid.gid = std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
                }
            });
        }
        node
    };
    let found = &findings(&of_ipv6(false), &auto(), "gid-missing")[0];
    assert_eq!(found.severity.name(), "info");
    let text = format!("{} {}", found.message, found.remedy);
    assert!(
        text.contains("IPv6 addresses only") && text.contains("AF_INET6") && !text.contains("ip addr add"),
        "{text}"
    );
    let renamed = |virtual_machine: bool| {
        let mut node = of_ipv6(virtual_machine);
        let Fact::Known(hcas) = &mut node.hcas else {
            panic!("no devices")
        };
        let mut hca = hcas.remove("mlx5_0").unwrap();
        Arc::make_mut(&mut hca).name = "mlx5_an0".into();
        hcas.insert("mlx5_an0".into(), hca);
        let all = of(&node, &auto(), "gid-missing");
        all.iter().any(|found| found.contains("mlx5_an0"))
    };
    assert!(renamed(false), "a physical node may give its devices such names");
    assert!(!renamed(true));
}

#[test]
fn a_missing_gid_is_info_if_equal_ports_lack_it_too_unless_no_port_has_one() {
    let bond = |mut node: Node| {
        without_ipv4(&mut node, "mlx5_bond_0");
        node
    };
    let among_others = bond(node("h100-connectx7", |_| {}));
    assert_eq!(
        of(&among_others, &profile(Profile::Rdma), "gid-missing"),
        ["mlx5_bond_0:1 info"]
    );
    let mut none = node("bnxt-re", |_| {});
    for device in ["bnxt_re0", "bnxt_re1"] {
        without_ipv4(&mut none, device);
    }
    assert_eq!(
        of(&none, &auto(), "gid-missing"),
        ["bnxt_re0:1 info", "bnxt_re1:1 info"]
    );
    assert_eq!(
        of(&none, &profile(Profile::Rdma), "gid-missing"),
        ["bnxt_re0:1 warning", "bnxt_re1:1 warning"]
    );
}

#[test]
fn a_broken_rail_does_not_make_a_management_port_a_warning() {
    let mut node = node("h100-connectx7", |_| {});
    with_second_management_port(&mut node);
    assert_eq!(of(&node, &auto(), "gid-missing"), ["mlx5_9:1 info"]);
    without_ipv4(&mut node, "mlx5_2");
    assert_eq!(
        of(&node, &auto(), "gid-missing"),
        ["mlx5_2:1 warning", "mlx5_9:1 info"]
    );
}

#[test]
fn a_probe_that_found_no_gid_makes_it_a_warning() {
    let mut node = node("bnxt-re", |_| {});
    for device in ["bnxt_re0", "bnxt_re1"] {
        without_ipv4(&mut node, device);
    }
    let report = ProbeReport {
        path: Path::loopback("bnxt_re0", 1),
        stage: Stage::Gid,
        failure: Some(ProbeFailure::NoGid),
        gid: None,
        numa_node: None,
        bandwidth: None,
        latency: None,
        elapsed_us: 1,
    };
    node.probes = vec![Arc::new(Probe { time: 0, report })];
    assert_eq!(
        of(&node, &auto(), "gid-missing"),
        ["bnxt_re0:1 warning", "bnxt_re1:1 info"]
    );
}

/// Moves the RoCE v2 GID with an IPv4 address to another index.
fn moved(node: &mut Node, device: &str, index: u32) {
    with_port(node, device, |port| {
        if let Fact::Known(gids) = &mut port.gids {
            gids.last_mut().unwrap().index = index;
        }
    });
}

#[test]
fn indices_that_differ_between_equal_ports_are_found() {
    let mut node = node("h100-connectx7", |_| {});
    moved(&mut node, "mlx5_1", 5);
    assert_eq!(of(&node, &auto(), "gid-index-differs"), ["node warning"]);
    assert!(message(&node, &auto(), "gid-index-differs").contains("5 on mlx5_1:1"));
    let mut storage = super::node("h100-connectx7", |_| {});
    moved(&mut storage, "mlx5_bond_0", 5);
    assert_eq!(of(&storage, &auto(), "gid-index-differs"), ["node info"]);
}

#[test]
fn an_expected_index_applies_to_every_port() {
    let node = node("bnxt-re", |_| {});
    let expect = |index| Expectations {
        gid_index: Some(index),
        ..auto()
    };
    assert_eq!(of(&node, &expect(3), "gid-index-differs"), [""; 0]);
    assert_eq!(
        of(&node, &expect(1), "gid-index-differs"),
        ["bnxt_re0:1 warning", "bnxt_re1:1 warning"]
    );
}

#[test]
fn zero_and_shared_guids_are_found() {
    let zero = node("infiniband-ndr", |tree| {
        set(tree, "/mlx5_1/node_guid", "0000:0000:0000:0000");
    });
    assert_eq!(of(&zero, &auto(), "guid-invalid"), ["mlx5_1 warning"]);
    let shared = node("infiniband-ndr", |tree| {
        set(tree, "/mlx5_1/node_guid", "a088:c203:0030:0000");
    });
    assert_eq!(of(&shared, &auto(), "guid-invalid"), ["mlx5_0 warning"]);
    assert!(message(&shared, &auto(), "guid-invalid").contains("mlx5_0 and mlx5_1 share the node GUID"));
    let port = node("infiniband-ndr", |tree| {
        set(
            tree,
            "/mlx5_1/ports/1/gids/0",
            "fe80:0000:0000:0000:a088:c203:0030:0000",
        );
    });
    assert!(message(&port, &auto(), "guid-invalid").contains("share the port GUID"));
    let system = node("infiniband-ndr", |tree| {
        set(tree, "/mlx5_1/sys_image_guid", "a088:c203:0030:0000");
    });
    assert_eq!(
        of(&system, &auto(), "guid-invalid"),
        [""; 0],
        "functions of one adapter share it"
    );
}

#[test]
fn an_efa_device_whose_type_an_older_kernel_cannot_name_has_no_guid_to_judge() {
    for word in ["7: <unknown>", "4: unspecified", "1: CA"] {
        let efa = node("efa-p5", |tree| {
            for device in ["rdmap64s27", "rdmap80s27"] {
                set(tree, &format!("/{device}/node_type"), word);
                set(tree, &format!("/{device}/node_guid"), "0000:0000:0000:0000");
            }
        });
        assert_eq!(of(&efa, &auto(), "guid-invalid"), [""; 0], "{word}");
    }
}

#[test]
fn an_active_port_with_an_empty_gid_table_is_a_warning_about_its_network_namespace() {
    let mut none = node("bnxt-re", |_| {});
    for device in ["bnxt_re0", "bnxt_re1"] {
        with_port(&mut none, device, |port| {
            port.gids = Fact::Known(Vec::new());
            port.netdev = Fact::Absent;
        });
    }
    assert_eq!(
        of(&none, &auto(), "gid-missing"),
        ["bnxt_re0:1 warning", "bnxt_re1:1 warning"]
    );
    let found = findings(&none, &auto(), "gid-missing").remove(0);
    assert!(
        found.message.contains("its GID table is empty") && found.message.contains("network namespace"),
        "{}",
        found.message
    );
    assert!(found.remedy.contains("hostNetwork"), "{}", found.remedy);
}

#[test]
fn an_ipv6_only_fabric_is_info() {
    let with = |address: &str| {
        let mut node = node("bnxt-re", |_| {});
        for device in ["bnxt_re0", "bnxt_re1"] {
            with_port(&mut node, device, |port| {
                if let Fact::Known(gids) = &mut port.gids {
                    for gid in gids.iter_mut().filter(|gid| gid.is_ipv4_mapped()) {
                        gid.gid = address.parse().unwrap();
                    }
                }
            });
        }
        of(&node, &profile(Profile::Rdma), "gid-missing")
    };
    assert_eq!(with("fd00::17"), ["bnxt_re0:1 info", "bnxt_re1:1 info"]);
    assert_eq!(
        with("fe80::17"),
        ["bnxt_re0:1 warning", "bnxt_re1:1 warning"],
        "it is not routed"
    );
}

#[test]
fn rails_without_addresses_are_a_warning_where_a_batch_system_starts_jobs() {
    let severities = |scheduler: bool, ipv6: bool| {
        let mut node = node("h100-connectx7", |_| {});
        let names: Vec<_> = node.hcas().map(|hca| hca.name.clone()).collect();
        for name in &names {
            without_ipv4(&mut node, name);
        }
        if ipv6 {
            for rail in 0..8u8 {
                with_port(&mut node, &format!("mlx5_{rail}"), |port| {
                    if let Fact::Known(gids) = &mut port.gids {
                        for gid in gids.iter_mut().filter(|gid| gid.index == 1) {
                            gid.gid = "2001:db8::5".parse().unwrap();
                        }
                    }
                });
            }
        }
        if scheduler && let Fact::Known(runtimes) = &mut Arc::make_mut(&mut node.limits).runtimes {
            runtimes[0].name = "slurmd".into();
        }
        of(&node, &auto(), "gid-missing")
    };
    let rail = |found: &[String], severity: &str| found.contains(&format!("mlx5_0:1 {severity}"));
    assert!(rail(&severities(true, false), "warning"));
    assert!(
        rail(&severities(false, false), "info"),
        "pods bring their own addresses"
    );
    assert!(!rail(&severities(true, true), "warning"), "IPv6 only");
}
