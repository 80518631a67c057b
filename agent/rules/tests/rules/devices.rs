//! Modules, firmware, and which RDMA devices there are.

use rdma_health_node::history::History;
use rdma_health_node::rdma::Namespaces;
use rdma_health_rules::Profile;

use super::*;

#[test]
fn an_adapter_without_rdma_device_names_the_missing_module() {
    let without = node("infiniband-ndr", |tree| {
        let device = tree.path("/infiniband/mlx5_1/fw_ver");
        let device = device.strip_suffix("/mlx5_1/fw_ver").unwrap().to_owned();
        assert!(tree.remove(&device) && tree.remove("sys/class/infiniband/mlx5_1"));
        without_module(tree, "mlx5_ib");
    });
    assert_eq!(
        of(&without, &auto(), "rdma-modules-missing"),
        ["0000:41:00.0 warning"]
    );
    assert!(message(&without, &auto(), "rdma-modules-missing").contains("mlx5_ib is not loaded"));
    let expected = profile(Profile::Rdma);
    assert_eq!(
        of(&without, &expected, "rdma-modules-missing"),
        ["0000:41:00.0 critical"]
    );
}

/// The InfiniBand node without the modules for its adapters, and so without RDMA devices.
fn without_devices(tree: &mut Tree, driver: Option<&str>) {
    for name in (0..16).map(|number| format!("mlx5_{number}")) {
        let Some(function) = take_device(tree, &name) else {
            continue;
        };
        if driver.is_none() {
            tree.remove(&format!("{function}/driver"));
        }
    }
    tree.write(
        "proc/modules",
        "ib_core 1 0 - Live 0x0\nib_uverbs 1 0 - Live 0x0\n",
    )
    .unwrap();
}

#[test]
fn the_configuration_of_modprobe_explains_why_a_module_is_missing() {
    let with = |file: &str, text: &str| {
        node("infiniband-ndr", |tree| {
            without_devices(tree, Some("mlx5_core"));
            tree.write(file, text).unwrap();
        })
    };
    let off = with(
        "etc/modprobe.d/hardening.conf",
        "# policy\nblacklist mlx5_ib\ninstall mlx5-ib /bin/true\n",
    );
    let found = &findings(&off, &auto(), "rdma-modules-missing")[0];
    assert!(found.message.contains(
        "blacklist mlx5_ib in /etc/modprobe.d/hardening.conf line 2 and install mlx5-ib /bin/true in"
    ));
    assert!(
        found
            .remedy
            .contains("Remove line 2 of /etc/modprobe.d/hardening.conf")
    );
    let other = with(
        "etc/modprobe.d/hardening.conf",
        "blacklist irdma\ninstall mlx5_ib /sbin/modprobe mlx5_ib\n",
    );
    assert!(message(&other, &auto(), "rdma-modules-missing").contains("mlx5_ib is not loaded"));
}

#[test]
fn the_configuration_of_modprobe_explains_why_programs_cannot_use_rdma_cm() {
    let off = node("infiniband-ndr", |tree| {
        without_module(tree, "rdma_ucm");
        tree.remove("sys/class/misc/rdma_cm");
        tree.write("etc/modprobe.d/site.conf", "install rdma_ucm /bin/false\n")
            .unwrap();
    });
    let found = &findings(&off, &auto(), "rdma-modules-missing")[0];
    assert!(
        found.message.ends_with(
            "; install rdma_ucm /bin/false in /etc/modprobe.d/site.conf line 1 keeps it from being loaded"
        ),
        "{}",
        found.message
    );
    assert!(
        found
            .remedy
            .starts_with("Remove line 1 of /etc/modprobe.d/site.conf"),
        "{}",
        found.remedy
    );
}

#[test]
fn an_infiniband_adapter_without_a_driver_is_found_if_the_node_has_no_rdma() {
    let none = |line: &str| {
        node("infiniband-ndr", |tree| {
            without_devices(tree, None);
            tree.write("dev/kmsg", format!("5,900,9000000,-;{line}\n"))
                .unwrap();
        })
    };
    let found = findings(&none("x"), &auto(), "rdma-modules-missing");
    assert!(
        found[0].message.contains("mlx5_core is not loaded"),
        "{}",
        found[0].message
    );
    let refused = none("Loading of module with unavailable key is rejected");
    let found = findings(&refused, &auto(), "rdma-modules-missing");
    assert!(found[0].message.contains("because of its signature"));
    assert!(found[0].remedy.contains("mokutil"));
    let spare = node("infiniband-ndr", |tree| {
        let device = tree.path("/infiniband/mlx5_1/fw_ver");
        let function = device.split("/infiniband/").next().unwrap().to_owned();
        for gone in ["infiniband", "driver"] {
            assert!(tree.remove(&format!("{function}/{gone}")));
        }
        assert!(tree.remove("sys/class/infiniband/mlx5_1"));
    });
    assert_eq!(
        of(&spare, &auto(), "rdma-modules-missing"),
        [""; 0],
        "another adapter works"
    );
}

#[test]
fn an_ethernet_adapter_without_rdma_device_is_info() {
    let without = node("irdma-e810", |tree| {
        for k in 0..2 {
            let device = tree.path(&format!("/infiniband/rocep152s0f{k}/fw_ver"));
            let device = device
                .strip_suffix(&format!("/rocep152s0f{k}/fw_ver"))
                .unwrap()
                .to_owned();
            assert!(tree.remove(&device) && tree.remove(&format!("sys/class/infiniband/rocep152s0f{k}")));
        }
    });
    assert_eq!(
        of(&without, &auto(), "rdma-modules-missing"),
        ["0000:98:00.0 info", "0000:98:00.1 info"]
    );
    // Storage over RDMA needs it.
    let with_storage = node("irdma-e810", |tree| {
        for k in 0..2 {
            let device = tree.path(&format!("/infiniband/rocep152s0f{k}/fw_ver"));
            let device = device.strip_suffix(&format!("/rocep152s0f{k}/fw_ver")).unwrap();
            assert!(tree.remove(device) && tree.remove(&format!("sys/class/infiniband/rocep152s0f{k}")));
        }
        tree.write("proc/modules", "nvme_rdma 1 0 - Live 0x0\nice 1 0 - Live 0x0\n")
            .unwrap();
    });
    let found = findings(&with_storage, &auto(), "rdma-modules-missing");
    assert_eq!(found[0].severity.name(), "warning");
    assert!(
        found[0].message.starts_with("irdma is not loaded"),
        "{}",
        found[0].message
    );
    let handed_on = node("connectx6-vfs", |_| {});
    assert_eq!(
        of(&handed_on, &profile(Profile::Rdma), "rdma-modules-missing"),
        [""; 0]
    );
}

#[test]
fn devices_that_no_program_can_open_are_found() {
    let without = node("irdma-e810", |tree| {
        assert!(tree.remove("sys/class/infiniband_verbs"));
        tree.write("proc/modules", "irdma 1 0 - Live 0x0\n").unwrap();
    });
    assert_eq!(of(&without, &auto(), "rdma-modules-missing"), ["node warning"]);
    let built_in = node("irdma-e810", |tree| {
        tree.write("proc/modules", "irdma 1 0 - Live 0x0\n").unwrap();
    });
    assert_eq!(
        of(&built_in, &auto(), "rdma-modules-missing"),
        [""; 0],
        "the class is there"
    );
}

#[test]
fn equal_boards_with_different_firmware_are_found_and_different_boards_are_not() {
    let mixed = node("h100-connectx7", |tree| set(tree, "/mlx5_3/fw_ver", "28.39.1002"));
    assert_eq!(of(&mixed, &auto(), "firmware-mixed"), ["node info"]);
    assert_eq!(
        of(&mixed, &profile(Profile::Rdma), "firmware-mixed"),
        ["node warning"]
    );
    assert!(message(&mixed, &auto(), "firmware-mixed").contains("28.39.1002 on mlx5_3"));
    let storage = node("h100-connectx7", |tree| {
        set(tree, "/mlx5_bond_0/fw_ver", "22.31.1014");
    });
    assert_eq!(of(&storage, &auto(), "firmware-mixed"), [""; 0]);
    // Broadcom reports no board.
    let thor = |board: &str| {
        node("bnxt-re", |tree| {
            set(tree, "/bnxt_re1/fw_ver", "231.0.1.0");
            for (address, board) in [("0000:c1:00.0", "0x4114"), ("0000:c1:00.1", board)] {
                let function = tree.path(&format!("/{address}/vendor"));
                let file = |name| function.replace("/vendor", name);
                tree.write(&file("/subsystem_vendor"), "0x14e4\n").unwrap();
                tree.write(&file("/subsystem_device"), format!("{board}\n"))
                    .unwrap();
            }
        })
    };
    let found = message(&thor("0x4114"), &auto(), "firmware-mixed");
    assert!(found.contains("14e4:4114) run different firmware"), "{found}");
    assert_eq!(of(&thor("0x5045"), &auto(), "firmware-mixed"), [""; 0]);
}

#[test]
fn a_software_device_on_an_adapter_whose_module_is_not_loaded_is_a_warning() {
    let node = node("bnxt-re", |tree| {
        for name in ["bnxt_re0", "bnxt_re1"] {
            take_device(tree, name).unwrap();
        }
        let device = "sys/devices/virtual/infiniband/rxe0";
        let target = "../../devices/virtual/infiniband/rxe0".into();
        tree.insert("sys/class/infiniband/rxe0", Entry::Link { target })
            .unwrap();
        for (file, content) in [
            ("parent", "eno1np0"),
            ("fw_ver", ""),
            ("node_type", "1: CA"),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/link_layer", "Ethernet"),
        ] {
            tree.write(&format!("{device}/{file}"), format!("{content}\n"))
                .unwrap();
        }
        set_modules_without(tree, "bnxt_re");
    });
    assert_eq!(of(&node, &auto(), "softroce-in-use"), ["node warning"]);
    let missing = of(&node, &auto(), "rdma-modules-missing");
    assert_eq!(missing, ["0000:c1:00.0 warning", "0000:c1:00.1 warning"]);
    let remedy = &findings(&node, &auto(), "rdma-modules-missing")[0].remedy;
    assert!(remedy.contains("modprobe -a ib_uverbs bnxt_re"), "{remedy}");
}

/// Takes a module out of those that are loaded.
fn set_modules_without(tree: &mut Tree, module: &str) {
    let Some(Entry::File { content, .. }) = tree.get("proc/modules") else {
        panic!("no modules")
    };
    let text = String::from_utf8(content.clone()).unwrap();
    let others = text
        .lines()
        .filter(|line| !line.starts_with(&format!("{module} ")));
    let others: Vec<_> = others.collect();
    tree.write("proc/modules", others.join("\n") + "\n").unwrap();
}

#[test]
fn software_devices_are_a_warning_only_where_hardware_is_expected_or_there() {
    let software = node("virtual-node-no-iommu", |_| {});
    assert_eq!(of(&software, &auto(), "softroce-in-use"), ["node info"]);
    assert_eq!(
        of(&software, &profile(Profile::Rdma), "softroce-in-use"),
        ["node warning"]
    );
    assert_eq!(
        of(&software, &profile(Profile::TcpOnly), "softroce-in-use"),
        [""; 0]
    );
    let hardware = node("bnxt-re", |_| {});
    assert_eq!(of(&hardware, &profile(Profile::Rdma), "softroce-in-use"), [""; 0]);
    // Without an adapter, there is nothing to find out about it.
    let remedy = &findings(&software, &auto(), "softroce-in-use")[0].remedy;
    assert!(
        remedy.contains("no adapter that supports RDMA") && remedy.contains("rdma link delete rxe0"),
        "{remedy}"
    );
    // Hardware of which a driver names a parent.
    let named = node("bnxt-re", |tree| {
        let file = tree.path("/bnxt_re0/hca_type").replace("/hca_type", "/parent");
        tree.write(&file, "eth0\n").unwrap();
    });
    assert_eq!(of(&named, &auto(), "softroce-in-use"), [""; 0]);
}

#[test]
fn fewer_devices_than_expected_are_found() {
    let node = node("h100-connectx7", |_| {});
    let expect = |hcas| Expectations {
        hcas: Some(hcas),
        ..auto()
    };
    assert_eq!(of(&node, &expect(10), "hcas-missing"), ["node critical"]);
    assert_eq!(of(&node, &expect(9), "hcas-missing"), [""; 0]);
    let virtual_functions = super::node("connectx6-vfs", |_| {});
    assert_eq!(
        of(&virtual_functions, &expect(2), "hcas-missing"),
        ["node critical"],
        "one is physical"
    );
}

#[test]
fn a_device_that_fell_off_the_bus_is_found_from_history() {
    let mut history = History::default();
    let whole = node("infiniband-ndr", |_| {});
    history.record(&whole, 1000);
    let mut gone = node("infiniband-ndr", |tree| {
        assert!(
            tree.remove("sys/class/infiniband/mlx5_1") && tree.remove("sys/bus/pci/devices/0000:41:00.0")
        );
    });
    gone.time = 1600;
    assert_eq!(of(&gone, &auto(), "device-lost"), [""; 0], "there is no history");
    gone.history = Some(Arc::new(history.clone()));
    assert_eq!(of(&gone, &auto(), "device-lost"), ["mlx5_1 critical"]);
    let shown = message(&gone, &auto(), "device-lost");
    assert!(
        shown.contains("at 1970-01-01T00:16:40Z") && shown.contains("rail 1"),
        "{shown}"
    );
    // One that the configuration leaves out is still on the bus.
    let mut excluded = node("infiniband-ndr", |tree| {
        assert!(tree.remove("sys/class/infiniband/mlx5_1"));
    });
    excluded.time = 1600;
    let pci = Arc::make_mut(&mut excluded.pci);
    pci.left_out.push("0000:41:00.0".into());
    let Fact::Known(functions) = &mut pci.functions else {
        panic!("no functions")
    };
    functions.remove("0000:41:00.0");
    excluded.history = Some(Arc::new(history.clone()));
    assert_eq!(of(&excluded, &auto(), "device-lost"), [""; 0]);
    // It did not come back after a reboot.
    Arc::make_mut(&mut gone.host).boot_id = Fact::Known("another".into());
    assert_eq!(of(&gone, &auto(), "device-lost"), ["mlx5_1 critical"]);
    assert!(message(&gone, &auto(), "device-lost").contains("in an earlier boot"));
    // It was moved to another slot: there are as many devices as before.
    let mut moved = node("infiniband-ndr", |_| {});
    moved.time = 1600;
    let mut elsewhere = history.clone();
    let boot = &mut elsewhere.boots[0];
    boot.id = "another".into();
    let seen = boot.hcas.remove("0000:41:00.0").unwrap();
    boot.hcas.insert("0000:99:00.0".into(), seen);
    moved.history = Some(Arc::new(elsewhere.clone()));
    assert_eq!(of(&moved, &auto(), "device-lost"), [""; 0]);
    // A new adapter of another maker or model is not the one that was moved.
    for (driver, ids) in [("irdma", None), ("mlx5_core", Some((0x15b3, 0x101f)))] {
        let mut another = elsewhere.clone();
        let seen = another.boots[0].hcas.get_mut("0000:99:00.0").unwrap();
        assert!(seen.ids.is_some(), "it is recorded");
        seen.driver = Some(driver.to_owned());
        seen.ids = ids;
        moved.history = Some(Arc::new(another));
        assert_eq!(
            of(&moved, &auto(), "device-lost"),
            ["mlx5_1 critical"],
            "{driver}"
        );
    }
}

#[test]
fn a_device_that_disappears_while_its_driver_holds_the_function_is_lost() {
    let mut history = History::default();
    history.record(&node("h100-connectx7", |_| {}), 1000);
    // Most of the rails: equal adapters no longer show what is missing.
    let lost: Vec<String> = (0..6).map(|n| format!("mlx5_{n}")).collect();
    let mut without = node("h100-connectx7", |tree| {
        for name in &lost {
            assert!(take_device(tree, name).is_some());
        }
    });
    without.time = 1600;
    assert_eq!(
        of(&without, &auto(), "rdma-modules-missing"),
        [
            "0000:13:00.0 warning",
            "0000:14:00.0 warning",
            "0000:33:00.0 warning",
            "0000:34:00.0 warning",
            "0000:53:00.0 warning",
            "0000:54:00.0 warning"
        ],
        "without history, the GPUs next to them show it"
    );
    without.history = Some(Arc::new(history));
    let found = findings(&without, &auto(), "device-lost");
    assert_eq!(found.len(), lost.len());
    let first = &found[0];
    assert!(
        first.message.contains("last seen in this boot")
            && first.remedy.contains("devlink dev reload pci/0000:13:00.0"),
        "{first:?}"
    );
    assert_eq!(
        of(&without, &auto(), "rdma-modules-missing"),
        [""; 0],
        "it is one fault"
    );
    // A pod may have the devices where each network namespace has its own. The kernel reports that in two places.
    let mut lent = without.clone();
    Arc::make_mut(&mut lent.facts.rdma).namespaces = Fact::Known(Namespaces::Exclusive);
    assert_eq!(of(&lent, &auto(), "device-lost"), [""; 0]);
    lent.history = None;
    assert_eq!(of(&lent, &auto(), "rdma-modules-missing"), [""; 0]);
    Arc::make_mut(&mut lent.facts.rdma).namespaces = Fact::Known(Namespaces::Shared);
    assert_eq!(
        of(&lent, &auto(), "rdma-modules-missing").len(),
        lost.len(),
        "in the shared mode no pod has them alone"
    );
    // Its module was unloaded: that says more.
    let mut unloaded = node("h100-connectx7", |tree| {
        take_device(tree, "mlx5_0");
        without_module(tree, "mlx5_ib");
    });
    unloaded.time = 1600;
    unloaded.history = without.history.clone();
    assert_eq!(of(&unloaded, &auto(), "device-lost"), [""; 0]);
}

#[test]
fn another_driver_than_expected_is_found() {
    let node = node("irdma-e810", |_| {});
    let expect = |driver: &str| Expectations {
        driver: Some(driver.into()),
        ..auto()
    };
    let driver = node.hcas().next().unwrap().driver.known().unwrap().clone();
    assert_eq!(of(&node, &expect(&driver), "driver-unexpected"), [""; 0]);
    assert_eq!(
        of(&node, &expect("mlx5_core"), "driver-unexpected"),
        ["rocep152s0f0 warning", "rocep152s0f1 warning"]
    );
}

#[test]
fn a_refused_peer_memory_module_names_the_install_order_and_nothing_else() {
    let refused = |line: &str| {
        node("h100-connectx7", |tree| {
            tree.write(
                "proc/modules",
                "nvidia 1 0 - Live 0x0\nmlx5_ib 1 0 - Live 0x0\nmlx_compat 1 0 - Live 0x0\n",
            )
            .unwrap();
            tree.write("dev/kmsg", format!("4,1,1,-;{line}\n")).unwrap();
        })
    };
    for line in [
        "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)",
        "nvidia_peermem: disagrees about version of symbol ib_unregister_peer_memory_client",
        "nv_peer_mem: Unknown symbol ib_register_peer_memory_client (err -22)",
    ] {
        assert_eq!(
            of(&refused(line), &auto(), "peer-memory-install-order"),
            ["node warning"],
            "{line}"
        );
        let expected = profile(Profile::GpuDirect);
        assert_eq!(
            of(&refused(line), &expected, "peer-memory-install-order"),
            ["node critical"]
        );
        assert_eq!(
            of(&refused(line), &auto(), "peer-memory-missing"),
            [""; 0],
            "one fault, one finding"
        );
    }
    // The modules of the kernel do not have the symbol at all.
    let of_kernel = |line: &str| {
        let node = node("h100-connectx7", |tree| {
            tree.write("proc/modules", "nvidia 1 0 - Live 0x0\nmlx5_ib 1 0 - Live 0x0\n")
                .unwrap();
            tree.write("dev/kmsg", format!("4,1,1,-;{line}\n")).unwrap();
        });
        findings(&node, &auto(), "peer-memory-install-order")[0]
            .remedy
            .clone()
    };
    let absent = "nv_peer_mem: Unknown symbol ib_register_peer_memory_client (err 0)";
    assert!(of_kernel(absent).starts_with("Install MLNX_OFED or DOCA-OFED"));
    assert!(of_kernel(&absent.replace("err 0", "err -2")).starts_with("Install MLNX_OFED"));
    assert!(of_kernel(&absent.replace("err 0", "err -22")).starts_with("Build nv_peer_mem again"));
    let other = refused("nvidia: module license 'NVIDIA' taints kernel.");
    assert_eq!(of(&other, &auto(), "peer-memory-install-order"), [""; 0]);
    assert_eq!(of(&other, &auto(), "peer-memory-missing"), ["node warning"]);
    // The second attempt worked.
    let repaired = node("h100-connectx7", |tree| {
        tree.write(
            "dev/kmsg",
            "4,1,1,-;nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)\n",
        )
        .unwrap();
    });
    assert_eq!(of(&repaired, &auto(), "peer-memory-install-order"), [""; 0]);
}

#[test]
fn the_legacy_peer_memory_module_is_info_and_both_together_are_a_warning() {
    let with = |modules: &str| {
        let lines: Vec<_> = modules
            .split(' ')
            .map(|name| format!("{name} 1 0 - Live 0x0\n"))
            .collect();
        node("h100-connectx7", |tree| {
            tree.write("proc/modules", lines.concat()).unwrap();
        })
    };
    assert_eq!(
        of(&with("nvidia nv_peer_mem"), &auto(), "nv-peer-mem-legacy"),
        ["node info"]
    );
    assert_eq!(
        of(
            &with("nvidia nv_peer_mem nvidia_peermem"),
            &auto(),
            "nv-peer-mem-legacy"
        ),
        ["node warning"]
    );
    assert_eq!(
        of(&with("nvidia nvidia_peermem"), &auto(), "nv-peer-mem-legacy"),
        [""; 0]
    );
}

#[test]
fn findings_decide_the_status_even_if_not_everything_could_be_judged() {
    // No RDMA device is there, so that hardly anything can be judged; why none is there was found.
    let without = node("infiniband-ndr", |tree| {
        let device = tree.path("/infiniband/mlx5_1/fw_ver");
        let device = device.strip_suffix("/mlx5_1/fw_ver").unwrap().to_owned();
        assert!(tree.remove(&device));
        let all: Vec<_> = tree.entries().map(|(path, _)| path.to_owned()).collect();
        for link in all
            .iter()
            .filter(|path| path.starts_with("sys/class/infiniband/"))
        {
            tree.remove(link);
        }
    });
    let status = |node: &Node, expectations: &Expectations| {
        let verdict = judge(node, expectations);
        (verdict.status, verdict.unknown_because.is_some())
    };
    assert_eq!(status(&without, &auto()), (Status::Warning, true));
    assert_eq!(
        status(&without, &profile(Profile::Rdma)),
        (Status::Critical, true)
    );
    // For information only, and nothing else.
    let ethernet = node("irdma-e810", |tree| {
        for k in 0..2 {
            let device = tree.path(&format!("/infiniband/rocep152s0f{k}/fw_ver"));
            let end = format!("/rocep152s0f{k}/fw_ver");
            let device = device.strip_suffix(&end).unwrap().to_owned();
            assert!(tree.remove(&device) && tree.remove(&format!("sys/class/infiniband/rocep152s0f{k}")));
        }
    });
    assert_eq!(status(&ethernet, &auto()), (Status::Unknown, true));
    // The unreadable kernel release, a warning, is itself the reason why nothing can be judged.
    let unread = node("irdma-e810", |tree| {
        assert!(tree.remove("proc/sys/kernel/osrelease"));
    });
    assert_eq!(of(&unread, &auto(), "facts-unreadable"), ["node warning"]);
    assert_eq!(status(&unread, &auto()), (Status::Unknown, true));
}

#[test]
fn a_device_without_a_device_node_is_found_among_others() {
    let with = |nodes: &[usize]| {
        node("h100-connectx7", |tree| {
            for n in 0..8 {
                tree.write(
                    &format!("sys/class/infiniband_verbs/uverbs{n}/ibdev"),
                    format!("mlx5_{n}\n"),
                )
                .unwrap();
            }
            for n in nodes {
                tree.write(&format!("dev/infiniband/uverbs{n}"), "").unwrap();
            }
        })
    };
    let rule = "uverbs-node-missing";
    let one = with(&[0, 1, 2, 4, 5, 6, 7]);
    assert_eq!(of(&one, &auto(), rule), ["mlx5_3 warning"]);
    assert!(
        findings(&one, &auto(), rule)[0]
            .remedy
            .contains("mknod -m 666 /dev/infiniband/uverbs3 c")
    );
    assert_eq!(of(&with(&[0, 1, 2, 3, 4, 5, 6, 7]), &auto(), rule), [""; 0]);
    assert_eq!(
        of(&with(&[5]), &auto(), rule),
        [""; 0],
        "a pod was given one device"
    );
    assert_eq!(of(&with(&[]), &auto(), rule), [""; 0], "the tree has no /dev");
}
