//! Adapters without an RDMA device: which class they are of, what holds them, and what is to be done.

use rdma_health_node::{history::History, infiniband::LinkLayer, pci::Role};

use super::*;

/// How an adapter without an RDMA device shows.
struct Card {
    class: &'static str,
    device: &'static str,
    driver: Option<&'static str>,
    /// A network device of it.
    netdev: Option<&'static str>,
}

const CONNECTX3: Card = Card {
    class: "0x028000",
    device: "0x1003",
    driver: Some("mlx4_core"),
    netdev: None,
};

/// Takes all RDMA devices away from their functions, whose directories it returns.
fn take_devices(tree: &mut Tree) -> Vec<String> {
    let files = tree.entries().map(|(path, _)| path);
    let names: Vec<_> = files
        .filter(|path| path.starts_with("sys/devices/"))
        .filter_map(|path| path.strip_suffix("/fw_ver")?.split_once("/infiniband/"))
        .map(|(_, name)| name.to_owned())
        .collect();
    names
        .iter()
        .map(|name| take_device(tree, name).unwrap())
        .collect()
}

/// A node without RDMA devices whose only adapters are two of NVIDIA that show so, with these modules and these lines of the kernel log.
fn with(card: &Card, modules: &[&str], log: &str) -> Node {
    node("infiniband-ndr", |tree| {
        for function in take_devices(tree) {
            tree.remove(&format!("{function}/net"));
            tree.remove(&format!("{function}/driver"));
            tree.write(&format!("{function}/class"), format!("{}\n", card.class))
                .unwrap();
            tree.write(&format!("{function}/device"), format!("{}\n", card.device))
                .unwrap();
            if let Some(driver) = card.driver {
                tree.insert(
                    &format!("{function}/driver"),
                    Entry::Link {
                        target: format!("../drivers/{driver}"),
                    },
                )
                .unwrap();
            }
            if let Some(netdev) = card.netdev {
                tree.write(&format!("{function}/net/{netdev}/mtu"), "1500\n")
                    .unwrap();
            }
        }
        let lines: Vec<_> = modules
            .iter()
            .map(|name| format!("{name} 1 0 - Live 0x0\n"))
            .collect();
        tree.write("proc/modules", lines.concat()).unwrap();
        tree.write("dev/kmsg", log).unwrap();
    })
}

fn first(node: &Node) -> Finding {
    findings(node, &auto(), "rdma-modules-missing").remove(0)
}

#[test]
fn an_adapter_of_any_class_of_network_controllers_is_judged() {
    for class in ["0x028000", "0x020700", "0x0c0600"] {
        let without_module = with(&Card { class, ..CONNECTX3 }, &["mlx4_core", "igb"], "");
        let found = first(&without_module);
        assert!(
            found.message.contains("mlx4_ib is not loaded"),
            "{class}: {}",
            found.message
        );
        assert_eq!(found.severity.name(), "warning", "{class}");
    }
    // An Ethernet port of such an adapter has a network device, and may never be used for RDMA.
    let ethernet = with(
        &Card {
            netdev: Some("ens1"),
            ..CONNECTX3
        },
        &["mlx4_core", "mlx4_en"],
        "",
    );
    assert_eq!(first(&ethernet).severity.name(), "info");
}

#[test]
fn adapters_that_no_driver_holds_are_found_if_none_of_the_node_is_in_use() {
    let unbound = |class, modules: &[&str]| {
        let card = Card {
            class,
            device: "0x1017",
            driver: None,
            netdev: None,
        };
        with(&card, modules, "")
    };
    for class in ["0x020000", "0x028000", "0x020700"] {
        let missing = first(&unbound(class, &["igb"]));
        assert!(
            missing.message.contains("mlx5_core is not loaded"),
            "{class}: {}",
            missing.message
        );
        assert_eq!(missing.severity.name(), "warning", "{class}");
        assert!(missing.remedy.contains("modprobe"), "{}", missing.remedy);
        // The driver is there and did not take the adapter: what is to be done is about the driver.
        let refused = first(&unbound(class, &["mlx5_core", "mlx5_ib"]));
        let text = format!("{} {}", refused.message, refused.remedy);
        assert!(
            text.contains("mlx5_core is loaded but did not bind") && text.contains("drivers_probe"),
            "{text}"
        );
        assert!(
            !text.contains("mlx5_ib") && !text.contains("enable_rdma"),
            "{text}"
        );
    }
    // Another one of the node serves Ethernet: this one may be spare.
    let spare = node("infiniband-ndr", |tree| {
        for name in ["mlx5_0", "mlx5_1"] {
            let Some(function) = take_device(tree, name) else {
                continue;
            };
            set(tree, &format!("{function}/class"), "0x020000");
            if name == "mlx5_1" {
                assert!(tree.remove(&format!("{function}/driver")));
            }
        }
        tree.write("proc/modules", "mlx5_core 1 0 - Live 0x0\n").unwrap();
    });
    let subjects: Vec<_> = of(&spare, &auto(), "rdma-modules-missing")
        .into_iter()
        .filter(|found| found.contains("0000:41:00.0"))
        .collect();
    assert_eq!(subjects, [""; 0]);
}

#[test]
fn an_ethernet_adapter_whose_driver_is_kept_from_being_loaded_is_not_used_on_purpose() {
    let card = Card {
        class: "0x020000",
        device: "0x1017",
        driver: None,
        netdev: None,
    };
    let mut off = with(&card, &["igb"], "");
    Arc::make_mut(&mut off.host).cmdline = Fact::Known("ro modprobe.blacklist=mlx5_core".into());
    assert_eq!(first(&off).severity.name(), "info");
}

#[test]
fn firmware_that_the_driver_calls_too_old_explains_a_missing_device() {
    let log = |line: &str| {
        let text = format!("4,301,1204000,-;{line}\n");
        let node = with(&CONNECTX3, &["mlx4_core", "mlx4_en", "mlx4_ib"], &text);
        let address = first(&node).subject.device.unwrap();
        with(
            &CONNECTX3,
            &["mlx4_core", "mlx4_en", "mlx4_ib"],
            &text.replace("ADDRESS", &address),
        )
    };
    let old = first(&log(
        "mlx4_en ADDRESS: LSO not supported, please upgrade to later FW version to enable LSO",
    ));
    assert!(
        old.message.contains("firmware of the adapter is too old"),
        "{}",
        old.message
    );
    assert!(
        old.remedy.contains("Update the firmware") && !old.remedy.contains("modprobe"),
        "{}",
        old.remedy
    );
    // What the device does not support is not RDMA.
    let other = first(&log("mlx4_en ADDRESS: UDP RSS is not supported on this device"));
    assert!(!other.message.contains("offers no RDMA"), "{}", other.message);
    let none = first(&log("mlx4_core ADDRESS: RDMA is not supported on this device"));
    assert!(none.message.contains("offers no RDMA"), "{}", none.message);
}

#[test]
fn a_driver_that_is_no_part_of_the_rdma_stack_that_is_loaded_is_not_one_of_faulty_firmware() {
    let after = |modules: &'static str, line: &str| {
        node("efa-p5", |tree| {
            for function in take_devices(tree) {
                tree.remove(&format!("{function}/driver"));
            }
            tree.write("proc/modules", modules).unwrap();
            tree.write("dev/kmsg", format!("3,9,9000000,-;{line}\n")).unwrap();
        })
    };
    let ofed = "mlx_compat 1 0 - Live 0x0\nib_core 1 1 efa, Live 0x0\nefa 1 0 - Live 0x0\n";
    let upstream = "ib_core 1 1 efa, Live 0x0\nefa 1 0 - Live 0x0\n";
    let address = {
        let whole = node("efa-p5", |_| {});
        let first = whole.hcas().find_map(|hca| hca.pci_address.known().cloned());
        first.unwrap()
    };
    let failed = format!("efa: probe of {address} failed with error -22");
    for rule in ["rdma-modules-missing", "adapter-not-started"] {
        let foreign = findings(&after(ofed, &failed), &auto(), rule).remove(0);
        let remedy = &foreign.remedy;
        assert!(
            remedy.contains("MLNX_OFED") && remedy.contains("EFA installer"),
            "{remedy}"
        );
        assert!(
            remedy.contains("failed with error -22") && !remedy.contains("power cycle"),
            "{remedy}"
        );
        let own = findings(&after(upstream, &failed), &auto(), rule).remove(0);
        assert!(!own.remedy.contains("MLNX_OFED"), "{}", own.remedy);
    }
}

/// A card with two ports, each a function with an RDMA device, of which the second one has lost its device.
fn second_port(change: impl FnOnce(&mut Tree)) -> Node {
    let mut history = History::default();
    history.record(&node("irdma-e810", |_| {}), 1000);
    let mut without = node("irdma-e810", |tree| {
        assert!(take_device(tree, "rocep152s0f1").is_some());
        change(tree);
    });
    without.time = 1600;
    without.history = Some(Arc::new(history));
    without
}

#[test]
fn a_second_port_that_lost_its_device_is_lost_unless_it_is_in_a_bond_with_the_first() {
    const SECOND: &str = "sys/devices/pci0000:97/0000:97:02.0/0000:98:00.1/net/ens3f1";
    let lost = |node: &Node| of(node, &auto(), "device-lost");
    assert_eq!(lost(&second_port(|_| {})), ["rocep152s0f1 critical"]);
    let without_netdev = second_port(|tree| {
        assert!(tree.remove(SECOND) && tree.remove("sys/class/net/ens3f1"));
    });
    assert_eq!(lost(&without_netdev), ["rocep152s0f1 critical"]);
    let member = |tree: &mut Tree, netdev: &str| {
        let number = if netdev == "ens3f0" { "0" } else { "1" };
        let device = format!("sys/devices/pci0000:97/0000:97:02.0/0000:98:00.{number}/net/{netdev}");
        let target = "../../../../../virtual/net/bond0".into();
        tree.insert(&format!("{device}/master"), Entry::Link { target })
            .unwrap();
    };
    let of_bond = second_port(|tree| {
        member(tree, "ens3f0");
        member(tree, "ens3f1");
    });
    assert_eq!(lost(&of_bond), [""; 0], "both are members");
    let shown = |tree: &mut Tree| set(tree, "/rocep152s0f0/ports/1/gid_attrs/ndevs/0", "bond0");
    let renamed = second_port(|tree| {
        member(tree, "ens3f1");
        shown(tree);
    });
    assert_eq!(
        lost(&renamed),
        [""; 0],
        "the device of the first is that of the bond"
    );
    let of_another = second_port(|tree| member(tree, "ens3f1"));
    assert_eq!(lost(&of_another), ["rocep152s0f1 critical"]);
    let mut infiniband = of_bond.clone();
    with_port(&mut infiniband, "rocep152s0f0", |port| {
        port.link_layer = Fact::Known(LinkLayer::InfiniBand);
    });
    assert_eq!(lost(&infiniband), ["rocep152s0f1 critical"]);
}

#[test]
fn a_gaudi_without_its_device_is_found_by_the_others() {
    let gaudi_with = |lost: usize, driver: Option<&str>, without_verbs: bool| {
        let mut node = node("h100-connectx7", |tree| {
            for number in 0..lost {
                take_device(tree, &format!("mlx5_{number}"));
            }
        });
        let Fact::Known(functions) = &mut Arc::make_mut(&mut node.pci).functions else {
            panic!("no PCI")
        };
        functions.retain(|_, one| one.role != Role::Gpu);
        let ports = ["13", "14", "33", "34", "53", "54", "73", "74"];
        for (number, bus) in ports.into_iter().enumerate() {
            let one = functions.get_mut(&format!("0000:{bus}:00.0")).unwrap();
            (one.vendor, one.device) = (Fact::Known(0x1da3), Fact::Known(0x1060));
            one.class = Fact::Known(0x12_0000);
            one.driver = driver.map_or(Fact::Absent, |driver| Fact::Known(driver.to_owned()));
            if number < lost {
                one.role = Role::Gpu;
            }
        }
        let Fact::Known(loaded) = &mut Arc::make_mut(&mut node.modules).loaded else {
            panic!("no modules")
        };
        let module = loaded["mlx5_ib"].clone();
        loaded.insert("habanalabs_ib".to_owned(), module.clone());
        loaded.insert("habanalabs_cn".to_owned(), module);
        if without_verbs {
            loaded.remove("habanalabs_ib");
            node.hcas = Fact::Known(std::collections::BTreeMap::default());
        }
        findings(&node, &auto(), "rdma-modules-missing")
    };
    let gaudi = |lost, driver| gaudi_with(lost, driver, false);
    let one = gaudi(1, Some("habanalabs"));
    assert_eq!(one.len(), 1);
    assert_eq!(
        (one[0].subject.to_string().as_str(), one[0].severity.name()),
        ("0000:13:00.0", "warning")
    );
    let remedy = &one[0].remedy;
    assert!(
        remedy.contains("hl-smi") && !remedy.contains("devlink"),
        "{remedy}"
    );
    assert_eq!(gaudi(3, Some("habanalabs")).len(), 3);
    assert!(gaudi(8, Some("habanalabs")).is_empty(), "no one uses their ports");
    assert!(gaudi(1, None).is_empty(), "that is a finding of its driver");
    let none = gaudi_with(8, Some("habanalabs"), true);
    let of_gaudi = |found: &&Finding| found.message.contains("habanalabs_ib is not loaded");
    let count = none.iter().filter(of_gaudi).count();
    assert_eq!(count, 8, "programs can use RDMA devices, and no one makes them");
}

/// Two ports of an Ethernet adapter with this id and driver and no RDMA device, and these modules.
fn ethernet(ids: (&str, &str), driver: &str, modules: &[&str]) -> Node {
    node("infiniband-ndr", |tree| {
        for function in take_devices(tree) {
            tree.remove(&format!("{function}/driver"));
            for (file, text) in [("class", "0x020000"), ("vendor", ids.0), ("device", ids.1)] {
                tree.write(&format!("{function}/{file}"), format!("{text}\n"))
                    .unwrap();
            }
            let target = format!("../drivers/{driver}");
            tree.insert(&format!("{function}/driver"), Entry::Link { target })
                .unwrap();
            tree.write(&format!("{function}/net/ens1/mtu"), "1500\n").unwrap();
        }
        let lines: Vec<_> = modules
            .iter()
            .map(|name| format!("{name} 1 0 - Live 0x0\n"))
            .collect();
        tree.write("proc/modules", lines.concat()).unwrap();
        tree.write("dev/kmsg", "").unwrap();
    })
}

#[test]
fn modules_for_programs_that_no_driver_brought_along_show_that_rdma_is_wanted() {
    let severity = |ids, driver, modules: &[&str]| first(&ethernet(ids, driver, modules)).severity.name();
    let (hns, e810) = (("0x19e5", "0xa222"), ("0x8086", "0x1592"));
    assert_eq!(
        severity(hns, "hns3", &["hns3", "ib_core", "ib_uverbs"]),
        "warning"
    );
    assert_eq!(
        severity(hns, "hns3", &["hns3", "ib_core"]),
        "info",
        "iSCSI loads the core"
    );
    // The module of the adapter brought it along, and RDMA is switched off for the adapter.
    assert_eq!(
        severity(e810, "ice", &["ice", "irdma", "ib_core", "ib_uverbs"]),
        "info"
    );
    assert_eq!(severity(e810, "ice", &["ice", "ib_core", "ib_uverbs"]), "warning");
}

#[test]
fn a_port_of_the_chipset_is_not_named_where_an_adapter_for_rdma_is() {
    let mut both = ethernet(("0x8086", "0x37d2"), "i40e", &["i40e", "cxgb4"]);
    assert!(first(&both).message.contains("irdma is not loaded"));
    let Fact::Known(functions) = &mut Arc::make_mut(&mut both.pci).functions else {
        panic!("no PCI")
    };
    let last = functions
        .values_mut()
        .rfind(|one| one.role == Role::Capable)
        .unwrap();
    (last.vendor, last.device) = (Fact::Known(0x1425), Fact::Known(0x640d));
    last.driver = Fact::Known("cxgb4".into());
    let found = findings(&both, &auto(), "rdma-modules-missing");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].message.contains("iw_cxgb4 is not loaded"),
        "{}",
        found[0].message
    );
}

#[test]
fn adapters_that_vfio_holds_are_missing_where_the_host_itself_has_a_use_for_them() {
    let lent = |ids, modules: &[&str]| {
        let node = ethernet(ids, "vfio-pci", modules);
        of(&node, &auto(), "hcas-missing")
    };
    let card = ("0x15b3", "0x101d");
    let found = lent(card, &["vfio_pci", "ib_uverbs", "rdma_ucm", "mlx5_core"]);
    assert!(found.len() == 1 && found[0].ends_with("info"), "{found:?}");
    assert_eq!(lent(card, &["vfio_pci"]), [""; 0], "a host of virtual machines");
    let gpus = node("connectx7-gpu", |tree| {
        for function in take_devices(tree) {
            tree.remove(&format!("{function}/driver"));
            let target = "../drivers/vfio-pci".into();
            tree.insert(&format!("{function}/driver"), Entry::Link { target })
                .unwrap();
        }
    });
    let found = findings(&gpus, &auto(), "hcas-missing").remove(0);
    assert_eq!(found.severity.name(), "warning");
    assert!(
        found.message.contains("bound to vfio-pci") && found.remedy.contains("driverctl unset-override"),
        "{} {}",
        found.message,
        found.remedy
    );
}

#[test]
fn a_line_that_keeps_a_module_out_is_to_be_removed_on_every_system() {
    for system in ["ID=rhel", "ID=linux"] {
        let node = node("infiniband-ndr", |tree| {
            take_devices(tree);
            tree.write("etc/os-release", format!("{system}\n")).unwrap();
            tree.write("etc/modprobe.d/rdma.conf", "blacklist mlx5_ib\n")
                .unwrap();
            tree.write("proc/modules", "mlx5_core 1 0 - Live 0x0\n").unwrap();
        });
        let remedy = first(&node).remedy;
        assert!(
            remedy.contains("Remove line 1 of /etc/modprobe.d/rdma.conf"),
            "{system}: {remedy}"
        );
    }
}
