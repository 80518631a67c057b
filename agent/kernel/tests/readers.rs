//! Reads a tree modelled on the field, and trees that are broken in every way that we know of.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Fact, Facts, UnreadKind,
    cmdline::Domain,
    infiniband::Hca,
    iommu::{Group, logged_default},
    nvidia::{PeerMemory, peer_memory},
    pci::Role,
};
use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_tests::tree;

const PATIENCE: Duration = Duration::from_secs(5);
const PORT: &str = "sys/class/infiniband/mlx5_0/ports/1";

fn read(root: &Path) -> Facts {
    let mut collector = Collector::new(Root::open(root).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + PATIENCE);
    collector.facts()
}

fn hca<'a>(node: &'a Facts, name: &str) -> &'a Hca {
    node.hcas().find(|hca| hca.name == name).unwrap()
}

fn counter(node: &Facts, name: &str) -> Fact<u64> {
    let port = &hca(node, "mlx5_0").ports[&1];
    let mut all = port.counters.iter().chain(&port.hw_counters);
    all.find(|counter| &*counter.name == name)
        .map_or(Fact::Absent, |counter| counter.value.clone())
}

#[test]
fn devices_ports_and_counters_are_read_as_the_kernel_tells_them() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    let pf = hca(&node, "mlx5_0");
    assert_eq!(pf.pci_address.known().unwrap(), "0000:18:00.0");
    assert_eq!(pf.driver.known().unwrap(), "mlx5_core");
    assert_eq!(pf.firmware.known().unwrap(), "28.41.1000");
    assert_eq!(pf.node_guid.known().unwrap().to_string(), "a088:c203:0012:3456");
    assert_eq!(pf.numa_node.known(), Some(&0));
    assert!(pf.physical_function.is_absent());
    let port = &pf.ports[&1];
    assert_eq!(port.is_active(), Some(true));
    assert_eq!(port.rate.known().unwrap().bits_per_second, 400_000_000_000);
    let netdev = port.netdev.known().unwrap();
    assert_eq!(
        (netdev.name.as_str(), netdev.mtu.known()),
        ("ens1f0np0", Some(&9000))
    );
    assert_eq!(counter(&node, "port_rcv_data").known(), Some(&1000));
    assert_eq!(counter(&node, "out_of_sequence").known(), Some(&3));
    assert!(
        port.hw_counters
            .iter()
            .all(|counter| &*counter.name != "lifespan")
    );
}

#[test]
fn a_virtual_function_is_not_skipped_and_its_missing_counters_are_absent() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    let vf = hca(&node, "mlx5_1");
    assert_eq!(vf.physical_function.known().unwrap(), "0000:18:00.0");
    let port = &vf.ports[&1];
    assert_eq!(port.is_active(), Some(false));
    // "N/A (no PMA)" is the device's answer that it has none.
    assert!(
        port.counters.iter().all(|counter| counter.value.is_absent()),
        "{:?}",
        port.counters
    );
}

#[test]
fn one_counter_that_fails_is_unread_and_costs_nothing_else() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    let unread = counter(&node, "VL15_dropped").unread().cloned().unwrap();
    assert!(
        unread.source.ends_with("mlx5_0/ports/1/counters/VL15_dropped"),
        "{unread}"
    );
    let listed: Vec<_> = node.unread().collect();
    assert_eq!(listed, [("infiniband/mlx5_0", &unread)]);
    assert_eq!(counter(&node, "symbol_error").known(), Some(&0));
}

#[test]
fn iommu_kernel_and_peer_memory_are_read() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    let kind = |address| {
        let mut groups = node.iommu.groups.known().unwrap().iter();
        let holds = |group: &Group| {
            group
                .devices
                .known()
                .unwrap()
                .iter()
                .any(|device| device == address)
        };
        let (number, group) = groups.find(|(_, group)| holds(group)).unwrap();
        (*number, group.domain.known().unwrap().as_str().to_owned())
    };
    assert_eq!(kind("0000:18:00.0"), (7, "DMA-FQ".into()));
    assert_eq!(kind("0000:18:00.1"), (8, "DMA".into()));
    assert_eq!(kind("0000:19:00.0"), (9, "identity".into()));
    assert_eq!(node.host.iommu_arguments.known().unwrap().domain, None);
    assert!(node.host.iommu_arguments.known().unwrap().intel_on);
    let log = &node.kernel_log.known().unwrap().lines;
    assert_eq!(log.len(), 2, "the USB line is not relevant: {log:?}");
    assert_eq!(logged_default(&log.join("\n")).unwrap().0, Domain::Translated);
    assert_eq!(node.modules.has("mlx5_ib"), Some(true));
    assert_eq!(node.modules.has("nvidia_peermem"), Some(false));
    assert_eq!(node.modules.is_ofed(), Some(true));
    assert_eq!(
        peer_memory(&node.modules, &node.pci.nvidia_driver, &node.host.kernel),
        Fact::Known(PeerMemory::None)
    );
    assert_eq!(node.host.virtual_machine, Fact::Known(false));
}

#[test]
fn the_pci_topology_tells_bridges_links_and_redirection() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    let functions = node.pci.functions.known().unwrap();
    let nic = &functions["0000:18:00.0"];
    assert_eq!(nic.role, Role::Rdma);
    assert_eq!(nic.bridges, ["0000:15:01.0", "0000:16:00.0", "0000:17:00.0"]);
    let sriov = nic.sriov.known().unwrap();
    assert_eq!((sriov.active, sriov.possible), (1, 8));
    let functions_of: Vec<_> = sriov.functions.iter().map(|f| f.address.as_str()).collect();
    assert_eq!(functions_of, ["0000:18:00.1"]);
    assert_eq!(sriov.functions[0].driver.known().unwrap(), "mlx5_core");
    assert_eq!(nic.capabilities.known().unwrap().max_read_request, Some(4096));
    // Both ends of its link support Gen5.
    assert_eq!(nic.link.max_speed.known(), Some(&32_000));
    assert_eq!(node.pci.best_link(nic), (Some(32_000), Some(16)));
    let redirects = |address: &str| {
        functions[address]
            .capabilities
            .known()
            .unwrap()
            .acs
            .map(rdma_health_kernel::pci::Acs::redirects)
    };
    assert_eq!(redirects("0000:17:00.0"), Some(true));
    assert_eq!(redirects("0000:17:01.0"), Some(false));
    assert_eq!(redirects("0000:16:00.0"), None);
    let gpus: Vec<_> = functions
        .iter()
        .filter(|(_, function)| function.role == Role::Gpu)
        .map(|(address, _)| address.as_str())
        .collect();
    assert_eq!(
        gpus,
        ["0000:19:00.0"],
        "the management controller's display is not a GPU"
    );
    assert!(!functions.contains_key("0000:00:17.0"), "SATA is not relevant");
}

#[test]
fn limits_of_runtimes_are_read_and_a_tree_has_none_of_its_own() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    let runtimes = node.limits.runtimes.known().unwrap();
    let names: Vec<_> = runtimes
        .iter()
        .map(|r| (r.name.as_str(), r.pid, r.memlock.known().unwrap().soft))
        .collect();
    assert_eq!(
        names,
        [
            ("containerd", 2101, Some(8 << 20)),
            ("kubelet", 2240, Some(8 << 20))
        ]
    );
    assert!(node.limits.own.is_absent());
    assert!(!node.live);
}

#[test]
fn an_excluded_device_is_not_touched() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), vec!["mlx5_0".into()]);
    collector.refresh(Refresh::All, Instant::now() + PATIENCE);
    let node = collector.facts();
    assert_eq!(
        node.hcas().map(|hca| hca.name.as_str()).collect::<Vec<_>>(),
        ["mlx5_1"]
    );
    assert_eq!(node.unread().count(), 0, "its bad counter was not read");
}

#[test]
fn a_failing_counter_is_asked_once_and_remembered() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    for _ in 0..5 {
        collector.refresh(Refresh::Ports, Instant::now() + PATIENCE);
    }
    assert!(counter(&collector.facts(), "VL15_dropped").unread().is_some());
    assert_eq!(collector.facts().unread().count(), 1, "reported at every reading");
    let total: u64 = collector.errors().map(|(.., count)| count).sum();
    assert_eq!(total, 1);
}

#[test]
fn changes_are_seen_by_a_refresh_of_ports() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + PATIENCE);
    let write = |name: &str, text: &str| {
        let path = fs::canonicalize(tree.path().join(PORT)).unwrap().join(name);
        fs::remove_file(&path).unwrap();
        fs::write(path, text).unwrap();
    };
    overwrite(tree.path(), &format!("{PORT}/counters/port_rcv_data"), "5000\n");
    collector.refresh(Refresh::Ports, Instant::now() + PATIENCE);
    assert_eq!(counter(&collector.facts(), "port_rcv_data"), Fact::Known(5000));
    // A device that was taken away and came back under its name has new files.
    write("state", "1: DOWN\n");
    let mut again = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    again.refresh(Refresh::All, Instant::now() + PATIENCE);
    assert_eq!(hca(&again.facts(), "mlx5_0").ports[&1].is_active(), Some(false));
}

/// Writes in place, as sysfs changes.
fn overwrite(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    #[allow(clippy::permissions_set_readonly_false)]
    permissions.set_readonly(false);
    fs::set_permissions(&path, permissions).unwrap();
    fs::write(&path, text).unwrap();
}

#[test]
fn the_revision_grows_with_every_change_but_those_of_counters() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + PATIENCE);
    let mut revision = collector.revision();
    let mut grew = |root: &Path, path: &str, text: &str| {
        overwrite(root, path, text);
        collector.refresh(Refresh::Ports, Instant::now() + PATIENCE);
        let before = std::mem::replace(&mut revision, collector.revision());
        (collector.revision() > before, collector.facts())
    };
    let port = |file: &str| format!("{PORT}/{file}");
    for value in ["7000", "8000", "9000"] {
        let (grew, node) = grew(tree.path(), &port("counters/port_rcv_data"), value);
        assert!(!grew);
        assert_eq!(
            counter(&node, "port_rcv_data"),
            Fact::Known(value.parse().unwrap())
        );
    }
    for (state, active) in [("1: DOWN", false), ("4: ACTIVE", true)] {
        let (grew, node) = grew(tree.path(), &port("state"), state);
        assert!(grew, "{state}");
        assert_eq!(hca(&node, "mlx5_0").ports[&1].is_active(), Some(active));
    }
    assert!(grew(tree.path(), &port("counters/port_rcv_data"), "broken").0);
    assert!(!grew(tree.path(), &port("counters/port_xmit_data"), "1").0);
}

#[test]
fn a_device_that_vanishes_is_gone_from_the_next_reading() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + PATIENCE);
    fs::remove_file(tree.path().join("sys/class/infiniband/mlx5_1")).unwrap();
    collector.refresh(Refresh::Ports, Instant::now() + PATIENCE);
    let node = collector.facts();
    assert_eq!(node.hcas().count(), 1);
    assert!(!node.sources.contains_key("infiniband/mlx5_1"));
}

/// Replaces a file of the tree by something else.
fn replace(root: &Path, path: &str, make: impl FnOnce(&Path)) {
    let path = root.join(path);
    fs::remove_file(&path).unwrap();
    make(&path);
}

#[test]
fn hostile_files_are_told_as_unread_with_file_and_reason() {
    type Make = fn(&Path);
    let cases: [(&str, Make, &str); 7] = [
        ("empty", |path| fs::write(path, "").unwrap(), "malformed"),
        (
            "huge",
            |path| fs::write(path, vec![b'1'; 1 << 20]).unwrap(),
            "too_long",
        ),
        (
            "binary",
            |path| fs::write(path, [0xff, 0x00, 0x1b]).unwrap(),
            "malformed",
        ),
        ("words", |path| fs::write(path, "many\n").unwrap(), "malformed"),
        (
            "a number too large",
            |path| fs::write(path, "99999999999999999999999\n").unwrap(),
            "malformed",
        ),
        (
            "a loop of links",
            |path| symlink(path.file_name().unwrap(), path).unwrap(),
            "ELOOP",
        ),
        (
            "a FIFO",
            |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
            "not_a_file",
        ),
    ];
    for (what, make, kind) in cases {
        let tree = tree::fixture("connectx7-gpu").unwrap();
        replace(tree.path(), &format!("{PORT}/counters/symbol_error"), make);
        let node = read(tree.path());
        let unread = counter(&node, "symbol_error")
            .unread()
            .cloned()
            .unwrap_or_else(|| panic!("{what} was read"));
        assert_eq!(unread.kind.name(), kind, "{what}: {unread}");
        assert!(
            unread.source.ends_with("counters/symbol_error"),
            "{what}: {unread}"
        );
        assert_eq!(
            counter(&node, "port_rcv_data"),
            Fact::Known(1000),
            "{what} took another counter along"
        );
    }
}

#[test]
fn a_link_out_of_the_tree_does_not_leave_it() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "42\n").unwrap();
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let target = outside.path().join("secret");
    replace(tree.path(), &format!("{PORT}/counters/symbol_error"), |path| {
        symlink(&target, path).unwrap();
    });
    assert!(counter(&read(tree.path()), "symbol_error").known().is_none());
    let climbing = format!("{}{}", "../".repeat(30), target.display());
    replace(tree.path(), &format!("{PORT}/counters/symbol_error"), |path| {
        symlink(climbing, path).unwrap();
    });
    assert!(counter(&read(tree.path()), "symbol_error").known().is_none());
}

#[test]
fn hostile_names_are_carried_and_never_break_the_reading() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let class = tree.path().join("sys/class/infiniband");
    for name in ["evil\"} 1\n", "\u{1b}[31mred", "..."] {
        fs::create_dir_all(class.join(name).join("ports/1")).unwrap();
        fs::create_dir_all(class.join(name).join("ports/999")).unwrap();
    }
    let bytes: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"bad\xff");
    fs::create_dir(class.join(bytes)).unwrap();
    let node = read(tree.path());
    assert_eq!(node.hcas().count(), 5);
    assert!(
        node.unread()
            .any(|(source, unread)| source == "infiniband" && unread.detail.contains("bad"))
    );
}

#[test]
fn an_empty_directory_says_what_is_missing() {
    let tree = tempfile::tempdir().unwrap();
    let node = read(tree.path());
    assert_eq!(node.host.cmdline.unread().unwrap().kind, UnreadKind::Missing);
    assert!(node.hcas.is_absent());
    assert_eq!(node.hcas().count(), 0);
}

#[test]
fn a_node_survives_json() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    let json = serde_json::to_string(&node).unwrap();
    assert_eq!(serde_json::from_str::<Facts>(&json).unwrap(), node);
}
