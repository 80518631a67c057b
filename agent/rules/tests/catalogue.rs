//! Each rule fires on the fault that it is for, and stays silent without it.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::{Node, node::Probe};
use rdma_health_protocol::{Completion, Path, ProbeFailure, ProbeReport, Stage};
use rdma_health_rules::{Expectations, Finding, Profile, Severity, Status, judge};
use rdma_health_tests::tree::Tree;

const NIC: &str = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0";

/// The faulty node of the field with all faults repaired, then changed.
fn node(change: impl FnOnce(&mut Tree)) -> Node {
    let mut archive = Tree::fixture("connectx7-gpu-mended").unwrap();
    change(&mut archive);
    let tree = archive.unpack().unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

fn expect(profile: Profile) -> Expectations {
    Expectations {
        profile,
        ..Expectations::default()
    }
}

/// The findings as `rule subject severity`.
fn found(node: &Node, expectations: &Expectations) -> Vec<String> {
    let line = |f: &Finding| format!("{} {} {}", f.rule.id, f.subject, f.severity.name());
    judge(node, expectations).findings.iter().map(line).collect()
}

#[test]
fn a_healthy_node_has_no_findings_and_is_ok() {
    let node = node(|_| {});
    for profile in [Profile::Auto, Profile::Rdma, Profile::GpuDirect, Profile::TcpOnly] {
        let verdict = judge(&node, &expect(profile));
        assert_eq!(found(&node, &expect(profile)), [""; 0], "{profile:?}");
        assert_eq!(verdict.status, Status::Ok, "{profile:?}");
    }
}

#[test]
fn translation_of_an_rdma_function_is_found_and_its_severity_follows_the_profile() {
    let node = node(|tree| {
        tree.write("sys/kernel/iommu_groups/7/type", "DMA-FQ\n").unwrap();
        tree.write("proc/cmdline", "ro\n").unwrap();
    });
    for (profile, severity) in [
        (Profile::Auto, "critical"),
        (Profile::GpuDirect, "critical"),
        (Profile::Rdma, "warning"),
        (Profile::TcpOnly, "info"),
    ] {
        assert_eq!(
            found(&node, &expect(profile)),
            [format!("iommu-group-translated mlx5_0 {severity}")]
        );
    }
    let finding = &judge(&node, &Expectations::default()).findings[0];
    assert!(finding.message.contains("lazy"), "{}", finding.message);
    assert_eq!(finding.evidence[0].source, "/sys/kernel/iommu_groups/7/type");
    assert_eq!(finding.evidence[0].value, "DMA-FQ");
}

#[test]
fn strict_translation_is_found_and_named() {
    let node = node(|tree| {
        tree.write("sys/kernel/iommu_groups/8/type", "DMA\n").unwrap();
        tree.write("proc/cmdline", "ro iommu.strict=1\n").unwrap();
    });
    assert_eq!(
        found(&node, &Expectations::default()),
        ["iommu-group-translated mlx5_1 critical"]
    );
    assert!(
        judge(&node, &Expectations::default()).findings[0]
            .message
            .contains("strict")
    );
}

#[test]
fn a_translated_gpu_is_found_and_translated_sata_is_not() {
    let node = node(|tree| {
        tree.write("sys/kernel/iommu_groups/9/type", "DMA-FQ\n").unwrap();
        tree.write("sys/kernel/iommu_groups/1/type", "DMA-FQ\n").unwrap();
        tree.write("proc/cmdline", "ro\n").unwrap();
    });
    assert_eq!(
        found(&node, &Expectations::default()),
        ["iommu-group-translated 0000:19:00.0 critical"]
    );
}

#[test]
fn the_command_line_is_compared_both_ways() {
    let asked_in_vain = node(|tree| tree.write("sys/kernel/iommu_groups/7/type", "DMA-FQ\n").unwrap());
    let all = found(&asked_in_vain, &Expectations::default());
    assert!(
        all.contains(&"iommu-cmdline-mismatch node warning".into()),
        "{all:?}"
    );
    let will_regress = node(|tree| tree.write("proc/cmdline", "ro iommu=nopt\n").unwrap());
    assert_eq!(
        found(&will_regress, &Expectations::default()),
        ["iommu-cmdline-mismatch node warning"]
    );
    let silent = node(|tree| tree.write("proc/cmdline", "ro\n").unwrap());
    assert_eq!(
        found(&silent, &Expectations::default()),
        [""; 0],
        "no argument agrees with every mode"
    );
}

#[test]
fn a_port_in_use_that_goes_down_is_found_and_a_spare_one_is_not() {
    let state = format!("{NIC}/infiniband/mlx5_0/ports/1/state");
    let down = node(|tree| tree.write(&state, "1: DOWN\n").unwrap());
    // mlx5_1 is down too, but was never up: a spare port.
    assert_eq!(
        found(&down, &Expectations::default()),
        ["port-down mlx5_0:1 critical"]
    );
    assert_eq!(judge(&down, &Expectations::default()).status, Status::Critical);
    let healthy = node(|_| {});
    let expects = |name: &str| Expectations {
        ports_up: vec![name.into()],
        ..Expectations::default()
    };
    assert_eq!(
        found(&healthy, &expects("mlx5_1")),
        ["port-down mlx5_1:1 critical"]
    );
    assert_eq!(
        found(&healthy, &expects("mlx5_9:1")),
        ["port-down mlx5_9:1 critical"]
    );
    assert_eq!(found(&healthy, &expects("mlx5_0:1")), [""; 0]);
}

#[test]
fn a_low_limit_of_the_container_runtime_is_found_and_the_kubelets_is_not() {
    let low = |pid: u32| {
        node(|tree| {
            let limits = include_str!("limits.txt").replace("SOFT", "8388608  ");
            tree.write(&format!("proc/{pid}/limits"), limits).unwrap();
        })
    };
    assert_eq!(
        found(&low(2101), &Expectations::default()),
        ["memlock-low containerd warning"]
    );
    assert_eq!(
        found(&low(2101), &expect(Profile::Rdma)),
        ["memlock-low containerd critical"]
    );
    assert!(
        judge(&low(2101), &Expectations::default()).findings[0]
            .message
            .contains("8 MiB")
    );
    assert_eq!(found(&low(2240), &Expectations::default()), [""; 0]);
}

#[test]
fn a_missing_peer_memory_path_is_found_and_dma_buf_is_one() {
    let without = |version: &str| {
        node(|tree| {
            tree.write(
                "proc/modules",
                "nvidia 60710912 1 - Live 0x0\nmlx5_ib 507904 0 - Live 0x0\nib_uverbs 188416 1 mlx5_ib, Live 0x0\n",
            )
            .unwrap();
            tree.write("proc/driver/nvidia/version", version).unwrap();
        })
    };
    let closed = without("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\n");
    assert_eq!(
        found(&closed, &Expectations::default()),
        ["peer-memory-missing node warning"]
    );
    assert_eq!(
        found(&closed, &expect(Profile::GpuDirect)),
        ["peer-memory-missing node critical"]
    );
    assert_eq!(found(&closed, &expect(Profile::Rdma)), [""; 0]);
    let open = without("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n");
    assert_eq!(found(&open, &Expectations::default()), [""; 0]);
}

fn probed(node: &mut Node, stage: Stage, failure: Option<ProbeFailure>) {
    let report = ProbeReport {
        path: Path::loopback("mlx5_0", 1),
        stage,
        failure,
        gid: None,
        numa_node: None,
        bandwidth: None,
        latency: None,
        elapsed_us: 1,
    };
    node.probes = vec![Arc::new(Probe { time: 0, report })];
}

#[test]
fn a_failed_probe_names_stage_and_error_and_a_skipped_one_is_not_reported() {
    let mut node = node(|_| {});
    let completion = Completion {
        status: 4,
        name: "IBV_WC_LOC_PROT_ERR".into(),
        vendor_error: 0x81,
    };
    probed(&mut node, Stage::Poll, Some(ProbeFailure::Completion(completion)));
    assert_eq!(
        found(&node, &Expectations::default()),
        ["probe-failed mlx5_0:1 critical"]
    );
    let message = &judge(&node, &Expectations::default()).findings[0].message;
    assert!(
        message.contains("poll") && message.contains("IBV_WC_LOC_PROT_ERR(4) vendor_err=0x81"),
        "{message}"
    );
    for failure in [
        None,
        Some(ProbeFailure::Busy { bytes_per_second: 1 }),
        Some(ProbeFailure::NotActive { state: 1 }),
    ] {
        probed(&mut node, Stage::Done, failure);
        assert_eq!(found(&node, &Expectations::default()), [""; 0]);
    }
}

#[test]
fn a_failed_probe_makes_translation_critical_without_gpus() {
    let mut node = node(|tree| tree.write("sys/kernel/iommu_groups/7/type", "DMA-FQ\n").unwrap());
    let translated = |node: &Node| {
        let findings = judge(node, &expect(Profile::Rdma)).findings;
        findings
            .iter()
            .find(|f| f.rule.id == "iommu-group-translated")
            .unwrap()
            .severity
    };
    assert_eq!(translated(&node), Severity::Warning);
    probed(&mut node, Stage::Poll, Some(ProbeFailure::TimedOut));
    assert_eq!(translated(&node), Severity::Critical);
}

#[test]
fn an_unread_source_is_a_warning_and_a_single_unread_file_is_not() {
    let counter = format!("{NIC}/infiniband/mlx5_0/ports/1/counters/symbol_error");
    let one_file = node(|tree| tree.write(&counter, "?\n").unwrap());
    assert_eq!(
        found(&one_file, &Expectations::default()),
        ["facts-unreadable node info"]
    );
    assert_eq!(judge(&one_file, &Expectations::default()).status, Status::Ok);
    let no_cmdline = node(|tree| assert!(tree.remove("proc/cmdline")));
    assert_eq!(
        found(&no_cmdline, &Expectations::default()),
        ["facts-unreadable node warning"]
    );
    let finding = &judge(&no_cmdline, &Expectations::default()).findings[0];
    assert_eq!(finding.evidence[0].source, "/proc/cmdline");
}

#[test]
fn a_node_that_cannot_be_judged_is_unknown_with_a_reason() {
    let empty = tempfile::tempdir().unwrap();
    let mut collector = Collector::new(Root::open(empty.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    let verdict = judge(&Node::new(collector.facts()), &Expectations::default());
    assert_eq!(verdict.status, Status::Unknown);
    assert!(
        verdict
            .unknown_because
            .unwrap()
            .contains("/proc/sys/kernel/osrelease")
    );
    let without = node(|tree| {
        tree.remove("sys/class/infiniband/mlx5_0");
        tree.remove("sys/class/infiniband/mlx5_1");
    });
    assert_eq!(judge(&without, &Expectations::default()).status, Status::Unknown);
    assert_eq!(judge(&without, &expect(Profile::TcpOnly)).status, Status::Ok);
}
