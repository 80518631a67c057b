//! Support bundles of other tools: read as far as possible, with missing facts reported as missing.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::{Node, UnreadKind};
use rdma_health_rules::{Expectations, Status, judge};
use rdma_health_snapshot::foreign::{self, Error};

fn read(root: Root) -> Node {
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(20));
    Node::new(collector.facts())
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const DMESG: &str = "[    0.000000] Linux version 5.14.0-427.el9.x86_64 (mockbuild@x86) #1 SMP\n\
    [    0.000000] Command line: BOOT_IMAGE=/vmlinuz root=UUID=6b1c intel_iommu=on\n\
    [    0.412345] iommu: Default domain type: Translated\n\
    [    9.000001] usb 1-1: new device\n";

fn sosreport(root: &Path) {
    write(root, "version.txt", "sosreport: 4.7.2\n");
    write(root, "sos_commands/kernel/dmesg", DMESG);
    write(
        root,
        "sos_commands/kernel/uname_-a",
        "Linux gpu-17 5.14.0-427.el9.x86_64 #1 SMP x86_64 GNU/Linux\n",
    );
    write(
        root,
        "sos_commands/kernel/lsmod",
        "Module Size Used by\nmlx5_core 2600000 1 mlx5_ib\nmlx5_ib 462848 0\n",
    );
    write(root, "proc/cpuinfo", "processor : 0\nflags : fpu vme\n");
    write(root, "sys/module/mlx5_core/version", "24.10-1.1.4\n");
    write(
        root,
        "sos_commands/infiniband/ibstat",
        "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.41.1000\n\
         \tNode GUID: 0xa088c20300123456\n\tPort 1:\n\t\tState: Initializing\n\t\tPhysical state: LinkUp\n\
         \t\tRate: 400\n\t\tBase lid: 0\n\t\tLink layer: InfiniBand\n",
    );
}

#[test]
fn a_sosreport_is_judged_by_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    // As it unpacks: into a folder with its own name.
    sosreport(&folder.path().join("sosreport-gpu-17-2026-11-21"));
    let found = foreign::open(folder.path()).unwrap().unwrap();
    assert_eq!(found.tool, "sosreport");
    let node = read(found.root);
    assert_eq!(node.host.hostname.known().unwrap(), "gpu-17");
    assert_eq!(node.host.kernel.known().unwrap(), "5.14.0-427.el9.x86_64");
    assert!(node.host.iommu_arguments.known().unwrap().intel_on);
    assert!(!node.host.cmdline.known().unwrap().contains("6b1c"));
    assert_eq!(node.host.virtual_machine.known(), Some(&false));
    let modules = node.modules.loaded.known().unwrap();
    assert_eq!(modules["mlx5_core"].version.known().unwrap(), "24.10-1.1.4");
    let log = &node.kernel_log.known().unwrap().lines;
    assert!(
        log.iter()
            .any(|line| line.contains("Default domain type: Translated"))
    );
    let hca = node.hcas().next().unwrap();
    assert_eq!(hca.ports[&1].state.known().unwrap().name, "INIT");
    // What it does not hold proves nothing.
    assert_eq!(node.iommu.groups.unread().unwrap().kind, UnreadKind::NotCollected);
    assert_eq!(
        node.limits.runtimes.unread().unwrap().kind,
        UnreadKind::NotCollected
    );
    assert_eq!(
        node.pci.functions.unread().unwrap().kind,
        UnreadKind::NotCollected
    );
    let verdict = judge(&node, &Expectations::default());
    let unreadable = verdict
        .findings
        .iter()
        .find(|finding| finding.rule.id == "facts-unreadable")
        .unwrap();
    assert!(
        unreadable
            .evidence
            .iter()
            .any(|evidence| evidence.value.contains("not collected")),
        "{unreadable:?}"
    );
}

#[test]
fn a_message_without_a_severity_is_judged_by_its_text() {
    let folder = tempfile::tempdir().unwrap();
    sosreport(folder.path());
    let fault = "mlx5_core 0000:13:00.0: Fatal error 3 detected";
    let log = format!("{DMESG}[   10.000000] {fault}\n");
    write(folder.path(), "sos_commands/kernel/dmesg", &log);
    let node = read(foreign::open(folder.path()).unwrap().unwrap().root);
    let events = &node.kernel_log.known().unwrap().events;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((events[0].message.as_str(), events[0].last), (fault, Some(10)));
}

#[test]
fn a_snapshot_of_a_sosreport_holds_what_its_commands_printed() {
    let folder = tempfile::tempdir().unwrap();
    sosreport(folder.path());
    let mut root = foreign::open(folder.path()).unwrap().unwrap().root;
    let recorder = root.record();
    let node = read(root);
    let replayed = read(Root::replay(Arc::new(recorder.recording()), false));
    assert!(node.host.hostname.known().is_some());
    assert_eq!(replayed.host, node.host);
    assert_eq!(replayed.hcas, node.hcas);
    assert_eq!(replayed.kernel_log, node.kernel_log);
}

#[test]
fn a_sosreport_without_a_word_about_rdma_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    sosreport(folder.path());
    fs::remove_file(folder.path().join("sos_commands/infiniband/ibstat")).unwrap();
    let node = read(foreign::open(folder.path()).unwrap().unwrap().root);
    let verdict = judge(&node, &Expectations::default());
    assert_eq!(verdict.status, Status::Unknown);
    assert!(verdict.unknown_because.unwrap().contains("not collected"));
}

#[test]
fn the_node_of_a_must_gather_is_judged_by_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("quay-io-openshift-release-sha256-1234");
    for name in ["cluster-scoped-resources", "namespaces"] {
        fs::create_dir_all(image.join(name)).unwrap();
    }
    assert!(matches!(foreign::open(folder.path()), Err(Error::NoNode)));
    let node = |name: &str| {
        let node = format!("nodes/{name}");
        write(
            &image,
            &format!("{node}/proc_cmdline"),
            "intel_iommu=on iommu=pt\n",
        );
        write(&image, &format!("{node}/dmesg"), DMESG);
        write(
            &image,
            &format!("{node}/sysinfo/sys/class/infiniband/mlx5_0/ports/1/state"),
            "4: ACTIVE\n",
        );
    };
    node("worker-0");
    let found = foreign::open(folder.path()).unwrap().unwrap();
    assert_eq!(found.tool, "must-gather");
    let read_node = read(found.root);
    assert_eq!(read_node.host.hostname.known().unwrap(), "worker-0");
    assert_eq!(read_node.host.kernel.known().unwrap(), "5.14.0-427.el9.x86_64");
    let arguments = read_node.host.iommu_arguments.known().unwrap();
    assert_eq!(arguments.arguments, ["intel_iommu=on", "iommu=pt"]);
    let hca = read_node.hcas().next().unwrap();
    assert_eq!(hca.ports[&1].is_active(), Some(true));
    // One device's folder was collected, so what is not in it was not on the node.
    assert!(hca.board_id.is_absent());
    assert_eq!(
        read_node.modules.loaded.unread().unwrap().kind,
        UnreadKind::NotCollected
    );

    node("worker-1");
    let error = foreign::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("2 nodes") && error.contains("worker-1"), "{error}");
    let one = image.join("nodes/worker-1");
    assert!(foreign::open(&one).unwrap().is_some());
}

#[test]
fn other_folders_are_nobodys() {
    let empty = tempfile::tempdir().unwrap();
    assert!(foreign::open(empty.path()).unwrap().is_none());
    assert!(foreign::open(&empty.path().join("none")).unwrap().is_none());
    assert!(foreign::open(Path::new("/")).unwrap().is_none());
    let tree = rdma_health_tests::tree::fixture("connectx7-gpu").unwrap();
    assert!(foreign::open(tree.path()).unwrap().is_none());
}

#[test]
fn links_in_a_foreign_tree_lead_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret", "Linux stolen 6.6.6\n");
    sosreport(folder.path());
    let uname = folder.path().join("sos_commands/kernel/uname_-a");
    fs::remove_file(&uname).unwrap();
    symlink(outside.path().join("secret"), &uname).unwrap();
    let node = read(foreign::open(folder.path()).unwrap().unwrap().root);
    assert!(!format!("{node:?}").contains("stolen"));
}
