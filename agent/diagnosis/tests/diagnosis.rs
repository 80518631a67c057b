//! From a symptom to the right cause. Each case occurred in the field; the node is the field's, with all faults but one
//! fixed.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_diagnosis::{
    Cause, Confidence, Diagnosis, diagnose,
    log::{Log, LogReader},
    symptom::{Grade, SymptomKind},
};
use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::{
    Node, Unread, UnreadKind,
    fact::HelperTrouble,
    history::{History, Measured},
    node::{Probe, VerbsDevice},
};
use rdma_health_protocol::{
    Completion, Device, Gid, GidType, Path, Peer, Port, ProbeFailure, ProbeReport, Stage, WcStatus,
};
use rdma_health_rules::{
    Expectations, Severity, Status,
    domain::{probe, reading},
    judge,
};
use rdma_health_tests::{
    measured,
    tree::{Entry, Tree},
};

const SWITCH: &str = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0";

/// Switches ACS redirection off at the switch port above the NIC.
fn no_redirection(tree: &mut Tree) {
    let config = format!("{SWITCH}/config");
    let Some(Entry::File { content, .. }) = tree.get(&config).cloned() else {
        panic!("no {config}");
    };
    let mut content = content;
    content[0x14e..0x150].copy_from_slice(&[0x11, 0x00]);
    tree.write(&config, content).unwrap();
}

/// The field's node with all faults fixed, then changed.
fn node(change: impl FnOnce(&mut Tree)) -> Node {
    let mut archive = Tree::fixture("connectx7-gpu").unwrap();
    for group in 1..=9 {
        archive
            .write(&format!("sys/kernel/iommu_groups/{group}/type"), "identity\n")
            .unwrap();
    }
    archive
        .write("proc/cmdline", "ro intel_iommu=on iommu=pt\n")
        .unwrap();
    let modules = "nvidia_peermem 16384 0 - Live 0x0\nnvidia 60710912 1 nvidia_peermem, Live 0x0\nib_uverbs 1 0 - Live 0x0\nmlx5_ib 507904 0 - Live 0x0\n";
    archive.write("proc/modules", modules).unwrap();
    for pid in [2101, 2240] {
        limits(&mut archive, pid, "unlimited");
    }
    archive
        .write(
            "dev/kmsg",
            "6,300,1200,-;iommu: Default domain type: Passthrough \n",
        )
        .unwrap();
    let guid = format!("{SWITCH}/0000:18:00.1/infiniband/mlx5_1/node_guid");
    archive.write(&guid, "a088:c203:0012:3457\n").unwrap();
    archive.remove(&format!(
        "{SWITCH}/0000:18:00.0/infiniband/mlx5_0/ports/1/counters/VL15_dropped"
    ));
    no_redirection(&mut archive);
    change(&mut archive);
    let tree = archive.unpack().unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

fn limits(archive: &mut Tree, pid: u32, soft: &str) {
    let limits = include_str!("../../rules/tests/limits.txt").replace("SOFT", soft);
    archive.write(&format!("proc/{pid}/limits"), limits).unwrap();
}

fn translated(tree: &mut Tree) {
    tree.write("sys/kernel/iommu_groups/7/type", "DMA-FQ\n").unwrap();
    tree.write("proc/cmdline", "ro\n").unwrap();
}

fn read(text: &str) -> Log {
    let mut reader = LogReader::default();
    reader.feed(text.as_bytes());
    reader.finish()
}

fn diagnosis(node: &Node, text: &str) -> Diagnosis {
    let findings = judge(node, &Expectations::default()).findings;
    diagnose(node, &findings, Some(&read(text)))
}

fn first(diagnosis: &Diagnosis) -> (&str, Confidence) {
    let cause = diagnosis.first().unwrap();
    (cause.id, cause.confidence)
}

fn cause<'a>(diagnosis: &'a Diagnosis, id: &str) -> &'a Cause {
    diagnosis.causes.iter().find(|cause| cause.id == id).unwrap()
}

const LOC_PROT: &str = "gpu-17:1:2 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) vendor_err=81 hca mlx5_0\n";
const RETRY: &str = "gpu-17:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with error 12, opcode 0, len 0, vendor err 129 (Send)\n";
const NO_MEMORY: &str =
    "gpu-17:1:2 [0] NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory\n";

#[test]
fn a_protection_error_is_traced_to_translation_and_other_causes_are_unlikely() {
    let node = node(translated);
    let diagnosis = diagnosis(&node, LOC_PROT);
    assert_eq!(first(&diagnosis), ("iommu-translation", Confidence::Likely));
    let iommu = cause(&diagnosis, "iommu-translation");
    assert!(
        iommu
            .supports
            .iter()
            .any(|e| e.source == "/sys/kernel/iommu_groups/7/type" && e.value == "DMA-FQ")
    );
    assert!(iommu.next_step.contains("iommu=pt"), "{}", iommu.next_step);
    assert_eq!(diagnosis.next_step.as_ref(), Some(&iommu.next_step));
    assert_eq!(iommu.explains, [SymptomKind::Completion(WcStatus::LocProtErr)]);
    let peermem = cause(&diagnosis, "peer-memory-path");
    assert_eq!(peermem.confidence, Confidence::Unlikely);
    assert_eq!(peermem.contradicts[0].value, "nvidia_peermem is loaded");
    // A low limit fails registrations, not transfers.
    assert!(!diagnosis.causes.iter().any(|cause| cause.id == "memlock-limit"));
}

#[test]
fn the_same_protection_error_on_a_healthy_node_points_to_the_application() {
    let node = node(|_| {});
    let diagnosis = diagnosis(&node, LOC_PROT);
    let iommu = cause(&diagnosis, "iommu-translation");
    assert_eq!(iommu.confidence, Confidence::Unlikely);
    assert!(iommu.contradicts[0].value.starts_with("identity"), "{iommu:?}");
    let left: Vec<_> = diagnosis
        .causes
        .iter()
        .filter(|cause| cause.confidence > Confidence::Unlikely)
        .map(|cause| cause.id)
        .collect();
    assert!(left.contains(&"application-memory"), "{left:?}");
    assert!(!left.contains(&"memlock-limit"), "{left:?}");
}

#[test]
fn a_missing_peer_memory_path_is_found_behind_a_protection_error() {
    let node = node(|tree| {
        tree.write(
            "proc/modules",
            "nvidia 60710912 1 - Live 0x0\nmlx5_ib 507904 0 - Live 0x0\n",
        )
        .unwrap();
    });
    assert_eq!(
        first(&diagnosis(&node, LOC_PROT)),
        ("peer-memory-path", Confidence::Likely)
    );
}

#[test]
fn enomem_at_registration_is_traced_to_the_memlock_limit_or_to_the_firmware() {
    let low = node(|tree| limits(tree, 2101, "8388608"));
    let found = diagnosis(&low, NO_MEMORY);
    assert_eq!(first(&found), ("memlock-limit", Confidence::Likely));
    assert!(found.next_step.as_ref().unwrap().contains("LimitMEMLOCK"));
    // The log of UCX names the limit itself.
    let node = node(|_| {});
    let ucx = "UCX  ERROR mlx5_0: ibv_create_cq(cqe=4096) failed: Cannot allocate memory : Please set max locked memory (ulimit -l) to 'unlimited' (current: 8192 kbytes)\n";
    assert_eq!(
        first(&diagnosis(&node, ucx)),
        ("memlock-limit", Confidence::Likely)
    );
    // Unlimited, but the firmware is out of memory keys.
    let mkey = "mlx5_core 0000:41:00.0: CREATE_MKEY(0x200) op_mod(0x0) failed, status limits exceeded(0x8), syndrome (0x18af6), err(-12)\n";
    assert_eq!(
        first(&diagnosis(&node, &format!("{NO_MEMORY}{mkey}"))),
        ("hca-resources", Confidence::Likely)
    );
}

#[test]
fn an_exceeded_retry_counter_on_a_healthy_node_points_to_the_peer() {
    let mut node = node(|_| {});
    node.probes = vec![Arc::new(Probe {
        time: 0,
        report: passed(),
    })];
    let found = diagnosis(&node, RETRY);
    assert_eq!(first(&found).0, "fabric-or-peer");
    let fabric = cause(&found, "fabric-or-peer");
    assert!(
        fabric.unseen.iter().any(|what| what.contains("10.0.0.2")),
        "{:?}",
        fabric.unseen
    );
    assert_eq!(cause(&found, "port-down").confidence, Confidence::Unlikely);
}

#[test]
fn an_empty_gid_is_read_from_the_log_itself() {
    let node = node(|_| {});
    let line = "NCCL WARN Call to ibv_modify_qp failed with 61 No data available, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::, remote GID ::ffff:10.0.0.2\n";
    let found = diagnosis(&node, line);
    assert_eq!(
        first(&found),
        ("gid-missing", Confidence::Likely),
        "{:#?}",
        found.causes
    );
}

/// What libibverbs would report for a RoCE port with a RoCE v2 IPv4 GID at this index.
fn device(name: &str, index: u32) -> (String, VerbsDevice) {
    let gid = |index, gid: &str, kind| Gid {
        index,
        gid: gid.parse().unwrap(),
        kind,
        netdev_index: Some(2),
        netdev: None,
    };
    let port = Port {
        number: 1,
        state: 4,
        phys_state: 5,
        link_layer: 2,
        active_mtu: 4096,
        max_mtu: 4096,
        lid: 0,
        sm_lid: 0,
        gid_table_len: 256,
        gids: vec![
            gid(0, "fe80::1", GidType::RoceV1),
            gid(index, "::ffff:10.0.0.1", GidType::RoceV2),
        ],
    };
    let device = Device {
        name: name.into(),
        node_guid: 1,
        firmware: String::new(),
        vendor_id: 0x15b3,
        vendor_part_id: 4129,
        max_mr_size: u64::MAX,
        ports: vec![port],
    };
    (name.to_owned(), VerbsDevice::Device(device))
}

#[test]
fn a_gid_index_is_compared_with_the_tables() {
    let mut node = node(|_| {});
    node.verbs = rdma_health_node::Fact::Known(Arc::new([device("mlx5_0", 5)].into()));
    let log = "gpu-17:1:2 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.\ngpu-17:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with error Invalid argument\n";
    let wrong = diagnosis(&node, log);
    assert_eq!(
        first(&wrong),
        ("gid-index", Confidence::Likely),
        "{:#?}",
        wrong.causes
    );
    assert!(
        cause(&wrong, "gid-index")
            .supports
            .iter()
            .any(|e| e.value.contains("mlx5_0:1 has an empty entry"))
    );
    assert_eq!(cause(&wrong, "gid-missing").confidence, Confidence::Unlikely);
    node.verbs = rdma_health_node::Fact::Known(Arc::new([device("mlx5_0", 3)].into()));
    assert_eq!(
        cause(&diagnosis(&node, log), "gid-index").confidence,
        Confidence::Unlikely
    );
}

#[test]
fn a_job_without_devices_on_a_node_with_devices_misses_the_resource_or_has_wrong_settings() {
    let node = node(|_| {});
    let nothing = "p:1:2 [0] NCCL INFO NET/IB : No device found.\np:1:2 [0] NCCL INFO Using network Socket\n";
    assert_eq!(first(&diagnosis(&node, nothing)).0, "device-not-given");
    let misspelled = format!("p:1:2 [0] NCCL INFO NCCL_IB_HCA set to mlx4_0\n{nothing}");
    let found = diagnosis(&node, &misspelled);
    assert_eq!(
        first(&found),
        ("job-settings", Confidence::Likely),
        "{:#?}",
        found.causes
    );
    let disabled = "p:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\np:1:2 [0] NCCL INFO Using network Socket\n";
    let chosen = diagnosis(&node, disabled);
    assert!(chosen.causes.is_empty(), "{:#?}", chosen.causes);
    assert!(chosen.next_step.unwrap().contains("unset NCCL_IB_DISABLE"));
    let surprised = format!("{disabled}bench: RDMA bandwidth lower than expected: ibv_reg_mr failed\n");
    let found = diagnosis(&node, &surprised);
    assert!(found.causes.iter().any(|cause| cause.id == "job-settings"));
}

fn passed() -> ProbeReport {
    ProbeReport {
        path: Path::loopback("mlx5_0", 1),
        stage: Stage::Done,
        failure: None,
        gid: None,
        numa_node: None,
        bandwidth: None,
        latency: None,
        elapsed_us: 1,
    }
}

fn failed(stage: Stage, failure: ProbeFailure) -> ProbeReport {
    ProbeReport {
        stage,
        failure: Some(failure),
        ..passed()
    }
}

#[test]
fn a_probe_that_failed_is_a_symptom_like_any_other() {
    let completion = ProbeFailure::Completion(Completion {
        status: 4,
        name: "IBV_WC_LOC_PROT_ERR".into(),
        vendor_error: 0x51,
    });
    let mut node = node(translated);
    node.probes = vec![Arc::new(Probe {
        time: 0,
        report: failed(Stage::Poll, completion),
    })];
    let findings = judge(&node, &Expectations::default()).findings;
    let found = diagnose(&node, &findings, None);
    assert_eq!(first(&found), ("iommu-translation", Confidence::Likely));
    assert_eq!(found.symptoms[0].source, "probe of mlx5_0:1");
    // The probe registers its own memory correctly.
    assert_eq!(
        cause(&found, "application-memory").confidence,
        Confidence::Unlikely
    );
    // probe-failed says that a probe fails, not why: it is not a cause in addition to the one that explains it.
    assert!(
        found.causes.iter().all(|cause| cause.id != probe::FAILED.id),
        "{:#?}",
        found.causes
    );
    // A failure that no cause explains is listed itself.
    node.probes = vec![Arc::new(Probe {
        time: 0,
        report: failed(
            Stage::Write,
            ProbeFailure::Errno {
                errno: 95,
                name: "EOPNOTSUPP".into(),
            },
        ),
    })];
    let findings: Vec<_> = judge(&node, &Expectations::default()).findings;
    let found = diagnose(&node, &findings, None);
    assert!(
        found
            .causes
            .iter()
            .any(|cause| cause.id == probe::FAILED.id || cause.explains == [SymptomKind::ProbeFailed])
    );
}

#[test]
fn findings_without_symptom_are_causes_and_one_fault_on_four_devices_is_one() {
    let node = node(|tree| {
        for group in 1..=9 {
            tree.write(&format!("sys/kernel/iommu_groups/{group}/type"), "DMA\n")
                .unwrap();
        }
        tree.write("proc/cmdline", "ro\n").unwrap();
        limits(tree, 2101, "8388608");
    });
    let findings = judge(&node, &Expectations::default()).findings;
    assert!(findings.len() > 3, "{findings:?}");
    let found = diagnose(&node, &findings, None);
    let ids: Vec<_> = found
        .causes
        .iter()
        .map(|cause| (cause.id, cause.confidence))
        .collect();
    assert_eq!(
        ids,
        [
            ("iommu-translation", Confidence::Likely),
            ("memlock-limit", Confidence::Likely)
        ]
    );
    assert!(
        found.causes[0].subjects.len() > 2,
        "{:?}",
        found.causes[0].subjects
    );
}

#[test]
fn passthrough_that_the_next_boot_may_undo_is_not_translation() {
    let node = node(|tree| tree.write("proc/cmdline", "ro iommu=nopt\n").unwrap());
    let findings = judge(&node, &Expectations::default()).findings;
    let found = diagnose(&node, &findings, None);
    let ids: Vec<_> = found.causes.iter().map(|cause| cause.id).collect();
    assert_eq!(ids, ["iommu-next-boot"]);
}

#[test]
fn configured_passthrough_that_is_not_active_is_translation() {
    let node = node(|tree| tree.write("sys/kernel/iommu_groups/7/type", "DMA-FQ\n").unwrap());
    let found = diagnosis(&node, "");
    let ids: Vec<_> = found.causes.iter().map(|cause| cause.id).collect();
    assert_eq!(ids, ["iommu-translation"]);
    assert_eq!(
        found.causes[0].findings,
        ["iommu-cmdline-mismatch", "iommu-group-translated"]
    );
}

#[test]
fn a_healthy_node_has_no_cause_and_the_status_follows_the_log() {
    let node = node(|_| {});
    let found = diagnosis(&node, "epoch 1\nepoch 2\n");
    assert_eq!((found.causes.len(), found.next_step.as_ref()), (0, None));
    assert_eq!(found.log.as_ref().unwrap().lines, 2);
    assert_eq!(found.status(Status::Ok), Status::Ok);
    assert_eq!(found.status(Status::Unknown), Status::Unknown);
    assert_eq!(diagnosis(&node, LOC_PROT).status(Status::Ok), Status::Critical);
    assert_eq!(
        diagnosis(&node, LOC_PROT).status(Status::Unknown),
        Status::Critical
    );
    let slow = diagnosis(&node, "NCCL INFO Using network Socket\n");
    assert_eq!(slow.status(Status::Ok), Status::Warning);
    assert_eq!(slow.status(Status::Unknown), Status::Warning);
    assert_eq!(slow.status(Status::Critical), Status::Critical);
}

#[test]
fn a_secondary_failure_is_no_evidence_in_addition_to_a_primary_one() {
    let node = node(translated);
    let text = format!(
        "{LOC_PROT}x NCCL WARN NET/IB : Got completion with error 5, opcode 0, len 0, vendor err 249\nunhandled system error\n"
    );
    let found = diagnosis(&node, &text);
    assert_eq!(found.symptoms.len(), 3);
    assert!(
        found.causes.iter().all(|cause| cause.id != "peer-failed"),
        "{:#?}",
        found.causes
    );
    let alone = diagnosis(
        &node,
        "NET/IB : Got completion with error 5, opcode 0, len 0, vendor err 249\n",
    );
    assert_eq!(alone.symptoms[0].grade, Grade::Secondary);
    assert!(alone.causes.iter().any(|cause| cause.id == "peer-failed"));
}

#[test]
fn a_log_is_diagnosed_without_facts_of_the_node() {
    let empty = tempfile::tempdir().unwrap();
    let mut collector = Collector::new(Root::open(empty.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    let node = Node::new(collector.facts());
    let found = diagnosis(&node, LOC_PROT);
    assert!(!found.causes.is_empty());
    // Without facts, no cause is likely.
    for cause in found
        .causes
        .iter()
        .filter(|cause| cause.id != reading::FACTS_UNREADABLE.id)
    {
        assert!(cause.confidence < Confidence::Likely, "{cause:#?}");
    }
}

#[test]
fn the_reason_for_a_silent_helper_decides_the_next_step() {
    let silent = |trouble: HelperTrouble, detail: &str| {
        let mut node = node(|_| {});
        node.verbs = Unread {
            source: "rdma-health-verbs".into(),
            kind: UnreadKind::Helper(trouble),
            detail: detail.into(),
        }
        .into();
        let found = diagnosis(&node, "");
        let names: Vec<_> = found.causes.iter().map(|cause| cause.id).collect();
        assert_eq!(names.len(), 1, "one silence has one cause: {names:?}");
        let cause = &found.causes[0];
        assert!(cause.supports.iter().any(|piece| piece.value == detail));
        assert_eq!(
            (cause.confidence, cause.severity),
            (Confidence::Likely, Severity::Warning)
        );
        (names[0], found.next_step.unwrap())
    };
    let (missing, step) = silent(HelperTrouble::Unreachable, "/x: No such file or directory");
    assert_eq!(missing, "helper-missing");
    assert!(step.contains("Install rdma-health-verbs"), "{step}");
    let (libraries, step) = silent(HelperTrouble::NotLoaded, "libibverbs.so.1");
    assert_eq!(libraries, "userspace-libraries");
    assert!(step.contains("Install rdma-core"), "{step}");
    let (ended, step) = silent(HelperTrouble::Ended, "signal: 11 (SIGSEGV)");
    assert_eq!(ended, "helper-fails");
    assert!(step.contains("how it ended"), "{step}");
    let (other, step) = silent(
        HelperTrouble::Version,
        "it speaks version 3, this program version 4",
    );
    assert_eq!(other, "helper-fails");
    assert!(
        step.contains("from one release") && !step.contains("ibv_devinfo"),
        "{step}"
    );
    let (stopped, step) = silent(HelperTrouble::Silent, "the verbs helper did not greet within 5s");
    assert_eq!(stopped, "helper-fails", "no device is called before the greeting");
    assert!(
        step.contains("look at its state") && !step.contains("Drain"),
        "{step}"
    );
    let (hung, step) = silent(HelperTrouble::Hung, "the helper did not answer within 5s");
    assert_eq!(hung, "device-stalled");
    assert!(step.contains("hung tasks"), "{step}");
}

#[test]
fn a_helper_that_fails_with_enosys_shows_that_modules_are_missing() {
    let mut node = node(|tree| {
        tree.remove("sys/class/infiniband_verbs");
        tree.write(
            "proc/modules",
            "mlx5_ib 1 0 - Live 0x0\nnvidia_peermem 1 0 - Live 0x0\n",
        )
        .unwrap();
    });
    node.verbs = Unread {
        source: "rdma-health-verbs".into(),
        kind: UnreadKind::Helper(HelperTrouble::Refused),
        detail: "ibv_get_device_list failed: Function not implemented".into(),
    }
    .into();
    let found = diagnosis(&node, "");
    let names: Vec<_> = found.causes.iter().map(|cause| cause.id).collect();
    assert_eq!(names, ["rdma-modules"]);
    assert_eq!(
        found.causes[0].findings,
        ["rdma-modules-missing", "helper-unhealthy"]
    );
    assert!(found.next_step.unwrap().contains("modprobe"));
}

#[test]
fn a_missing_helper_is_no_evidence_for_missing_libraries() {
    let mut node = node(|_| {});
    node.verbs = Unread {
        source: "rdma-health-verbs".into(),
        kind: UnreadKind::Helper(HelperTrouble::Unreachable),
        detail: "No such file or directory".into(),
    }
    .into();
    let log = "NCCL INFO NET/IB : No device found.\nNCCL INFO Using network Socket\n";
    let found = diagnosis(&node, log);
    let libraries = cause(&found, "userspace-libraries");
    assert_eq!((libraries.findings.len(), libraries.supports.len()), (0, 0));
    assert!(libraries.confidence < Confidence::Likely);
}

/// The node with a probe of `mlx5_0` that was slower than each of the previous eight.
fn slower(gigabits: f64, micros: f64) -> Node {
    let mut node = node(|_| {});
    let mut history = History::default();
    let hca = node.hcas().find(|hca| hca.name == "mlx5_0").unwrap().clone();
    let past = history.ports.entry(History::port_key(&hca, 1)).or_default();
    past.measured = (1..=8)
        .map(|time| Measured {
            to: Peer::Loopback,
            time,
            bytes_per_second: Some(380e9 / 8.0),
            latency: Some(2e-6),
        })
        .collect();
    let (bandwidth, latency) = measured(gigabits, micros);
    let report = ProbeReport {
        bandwidth: Some(bandwidth),
        latency: Some(latency),
        ..passed()
    };
    let time = 1000;
    node.time = time;
    node.probes = vec![Arc::new(Probe { time, report })];
    node.history = Some(Arc::new(history));
    node
}

#[test]
fn a_slow_loopback_is_not_attributed_to_the_wire_or_to_healthy_parts() {
    for (gigabits, micros) in [(120.0, 2.0), (380.0, 9.0)] {
        let found = diagnosis(&slower(gigabits, micros), "");
        assert_eq!(first(&found), ("host-load", Confidence::Possible));
        for id in ["link-quality", "flow-control", "mtu", "software-rdma", "pci-path"] {
            let other = found.causes.iter().find(|cause| cause.id == id);
            assert!(
                other.is_none_or(|cause| cause.confidence == Confidence::Unlikely),
                "{id}"
            );
        }
    }
    assert_eq!(diagnosis(&slower(380.0, 2.0), "").causes, []);
}
