//! Virtual functions.

use rdma_health_rules::Profile;

use super::*;

const VFS: &str = "connectx6-vfs";

#[test]
fn fewer_virtual_functions_than_configured_or_expected_are_found() {
    let missing = node(VFS, |tree| {
        let link = tree.path("/virtfn2");
        assert!(tree.remove(&link));
    });
    assert_eq!(of(&missing, &auto(), "vfs-missing"), ["mlx5_0 warning"]);
    let whole = node(VFS, |_| {});
    let expect = |vfs| Expectations {
        vfs: Some(vfs),
        ..auto()
    };
    assert_eq!(of(&whole, &expect(4), "vfs-missing"), [""; 0]);
    assert_eq!(of(&whole, &expect(8), "vfs-missing"), ["node critical"]);
    assert!(
        message(&whole, &expect(8), "vfs-missing")
            .contains("RDMA devices have 4 virtual functions, expected 8")
    );
    assert_eq!(
        of(&node("bnxt-re", |_| {}), &expect(8), "vfs-missing"),
        ["node critical"]
    );
}

#[test]
fn an_adapter_in_use_without_virtual_functions_is_found_among_equals_that_have_some() {
    let rails = |without: &'static [u8], idle: Option<u8>| {
        node("h100-connectx7", move |tree| {
            for rail in 0..8u8 {
                let device = tree.path(&format!("/infiniband/mlx5_{rail}/fw_ver"));
                let function = device.split("/infiniband/").next().unwrap().to_owned();
                let number = if without.contains(&rail) { 0 } else { 2 };
                let vfs = [("sriov_totalvfs", 8), ("sriov_numvfs", number)];
                for (file, value) in vfs {
                    tree.write(&format!("{function}/{file}"), format!("{value}\n"))
                        .unwrap();
                }
                for vf in 0..number {
                    let target = format!("../0000:f{rail}:00.{}", vf + 1);
                    tree.insert(&format!("{function}/virtfn{vf}"), Entry::Link { target })
                        .unwrap();
                }
            }
            if let Some(rail) = idle {
                set(tree, &format!("/mlx5_{rail}/ports/1/state"), "1: DOWN");
            }
        })
    };
    let one = rails(&[5], None);
    assert_eq!(of(&one, &auto(), "vfs-missing"), ["mlx5_5 warning"]);
    assert!(message(&one, &auto(), "vfs-missing").contains("7 of 8 equal adapters"));
    assert_eq!(of(&rails(&[], None), &auto(), "vfs-missing"), [""; 0]);
    assert_eq!(
        of(&rails(&[5], Some(5)), &auto(), "vfs-missing"),
        [""; 0],
        "a spare"
    );
    let half = rails(&[1, 3, 5, 7], None);
    assert_eq!(of(&half, &auto(), "vfs-missing"), [""; 0], "by design");
}

#[test]
fn a_virtual_function_without_driver_is_a_warning_unless_autoprobe_is_off() {
    let unbound = |autoprobe: &str| {
        node(VFS, |tree| {
            let driver = tree.path("/0000:41:00.4/driver");
            assert!(tree.remove(&driver) && tree.remove("sys/class/infiniband/mlx5_3"));
            set(tree, "/0000:41:00.0/sriov_drivers_autoprobe", autoprobe);
        })
    };
    assert_eq!(
        of(&unbound("1"), &auto(), "vf-without-driver"),
        ["mlx5_0 warning"]
    );
    assert!(message(&unbound("1"), &auto(), "vf-without-driver").contains("0000:41:00.4"));
    assert_eq!(of(&unbound("0"), &auto(), "vf-without-driver"), ["mlx5_0 info"]);
    assert_eq!(
        of(&unbound("1"), &profile(Profile::TcpOnly), "vf-without-driver"),
        [""; 0]
    );
}

#[test]
fn virtual_functions_that_wait_for_a_refused_mode_are_not_bound_by_hand() {
    let refused =
        "3,9,9000000,-;mlx5_core 0000:41:00.0: E-Switch: Failed to create slow path FDB Table err -22\n";
    let entered = "6,10,19000000,-;mlx5_core 0000:41:00.0: E-Switch: Enable: mode(OFFLOADS), nvfs(4), active vports(5)\n";
    let remedy = |log: &str| {
        let node = node(VFS, |tree| {
            let driver = tree.path("/0000:41:00.4/driver");
            assert!(tree.remove(&driver) && tree.remove("sys/class/infiniband/mlx5_3"));
            tree.write("dev/kmsg", log).unwrap();
        });
        findings(&node, &auto(), "vf-without-driver").remove(0).remedy
    };
    let found = remedy(refused);
    assert!(
        found.contains("slow path FDB") && !found.contains("/bind"),
        "{found}"
    );
    assert!(
        found.contains("devlink dev eswitch set pci/0000:41:00.0 mode switchdev"),
        "{found}"
    );
    assert!(remedy(&[refused, entered].concat()).contains("mlx5_core/bind"));
}

#[test]
fn a_zero_guid_or_hardware_address_is_found() {
    let guid = node(VFS, |tree| set(tree, "/mlx5_2/node_guid", "0000:0000:0000:0000"));
    assert_eq!(of(&guid, &auto(), "vf-guid-zero"), ["mlx5_2 warning"]);
    assert_eq!(
        of(&guid, &auto(), "guid-invalid"),
        [""; 0],
        "one fault, one finding"
    );
    let mac = node(VFS, |tree| {
        set(tree, "/net/ens1f0v1/address", "00:00:00:00:00:00");
    });
    assert_eq!(of(&mac, &auto(), "vf-mac-zero"), ["mlx5_2:1 warning"]);
}

#[test]
fn traffic_that_the_physical_function_blocks_is_found() {
    let down = node(VFS, |tree| set(tree, "/sriov/1/link_state", "Down"));
    assert_eq!(of(&down, &auto(), "vf-trust"), ["mlx5_2 warning"]);
    let changed = |trust: &str| {
        node(VFS, |tree| {
            set(tree, "/net/ens1f0v0/address", "5a:12:00:00:00:77");
            set(tree, "/sriov/0/trust", trust);
        })
    };
    assert_eq!(of(&changed("OFF"), &auto(), "vf-trust"), ["mlx5_1 warning"]);
    assert_eq!(of(&changed("ON"), &auto(), "vf-trust"), [""; 0]);
}

fn down(port: &mut Port) {
    if let Fact::Known(state) = &mut port.state {
        (state.code, state.name) = (1, "DOWN".into());
    }
}

#[test]
fn a_virtual_function_that_came_back_from_a_pod_is_not_a_port_that_failed() {
    let mut back = node(VFS, |tree| {
        set(tree, "/net/ens1f0v0/carrier_up_count", "3");
        set(tree, "/infiniband/mlx5_1/ports/1/counters/port_rcv_data", "4711");
    });
    with_port(&mut back, "mlx5_1", down);
    assert_eq!(of(&back, &profile(Profile::Rdma), "port-down"), [""; 0]);
    let wanted = Expectations {
        ports_up: vec!["mlx5_1".into()],
        ..auto()
    };
    assert_eq!(of(&back, &wanted, "port-down"), ["mlx5_1:1 critical"]);
    with_port(&mut back, "mlx5_0", down);
    assert_eq!(of(&back, &auto(), "port-down"), ["mlx5_0:1 critical"]);
}

#[test]
fn a_representor_is_not_judged_as_a_port() {
    let mut switchdev = node("h100-connectx7", |_| {});
    with_hca(&mut switchdev, "mlx5_0", |hca| {
        // As mlx5 shows it: one more port per virtual function, with a network device and without RoCE.
        let mut representor = hca.ports[&1].clone();
        representor.gids = Fact::Known(Vec::new());
        hca.ports.insert(2, representor.clone());
        down(&mut representor);
        hca.ports.insert(3, representor);
    });
    for rule in ["port-down", "gid-missing", "rate-low", "mtu-low"] {
        assert_eq!(of(&switchdev, &profile(Profile::Rdma), rule), [""; 0], "{rule}");
    }
}

#[test]
fn a_function_of_ethernet_without_guid_is_given_a_mac_address() {
    let guid = node(VFS, |tree| set(tree, "/mlx5_2/node_guid", "0000:0000:0000:0000"));
    let remedy = &findings(&guid, &auto(), "vf-guid-zero")[0].remedy;
    assert!(
        remedy.contains("MAC address") && !remedy.contains("node_guid GUID"),
        "{remedy}"
    );
}

#[test]
fn a_function_of_infiniband_in_use_below_an_active_port_is_held_down() {
    let held = |is_up: bool, guid: u64, physical_is_active: bool| {
        let mut node = node(VFS, |_| {});
        for name in ["mlx5_0", "mlx5_1"] {
            with_port(&mut node, name, |port| {
                port.link_layer = Fact::Known(rdma_health_node::infiniband::LinkLayer::InfiniBand);
            });
        }
        with_hca(&mut node, "mlx5_1", |hca| {
            hca.node_guid = Fact::Known(rdma_health_node::infiniband::Guid(guid));
        });
        with_port(&mut node, "mlx5_1", |port| {
            down(port);
            if let Fact::Known(netdev) = &mut port.netdev {
                netdev.admin_up = Fact::Known(is_up);
            }
        });
        if !physical_is_active {
            with_port(&mut node, "mlx5_0", down);
        }
        let found = of(&node, &auto(), "port-down");
        found.iter().any(|found| found.starts_with("mlx5_1:1 "))
    };
    assert!(held(true, 7, true));
    assert!(!held(false, 7, true), "no pod has it");
    assert!(!held(true, 0, true), "vf-guid-zero reports it");
    assert!(!held(true, 7, false), "the physical port is what is down");
}
