//! What the kernel logged about a device explains the failures on it.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

use std::time::{Duration, Instant};

use rdma_health_diagnosis::{Confidence, Diagnosis, diagnose, log::LogReader};
use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::Node;
use rdma_health_rules::{Expectations, Status, judge};
use rdma_health_tests::tree::Tree;

const MLX5_0: &str = "mlx5_core 0000:13:00.0";
const RETRIES: &str = "h100-connectx7:14:72 [0] transport/net_ib.cc:2244 NCCL WARN NET/IB: Got completion from peer 10.9.0.3<53908> with status=12 \
    opcode=129 len=1048576 vendor err 129 (Recv) localGid ::ffff:10.0.0.2 remoteGids::ffff:10.0.0.3 hca mlx5_0\n";

/// The first causes of a job's failure on a node whose kernel logged this.
fn causes(kernel: &[String], job: &str) -> Vec<String> {
    let causes = diagnosed(kernel, job).causes;
    let likely = causes
        .into_iter()
        .filter(|cause| cause.confidence > Confidence::Unlikely);
    likely.map(|cause| cause.id.to_owned()).collect()
}

/// The node that a tree shows.
fn read(tree: &Tree) -> Node {
    let tree = tree.unpack().unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

/// The diagnosis of a job's failure on a node whose kernel logged this.
fn diagnosed(kernel: &[String], job: &str) -> Diagnosis {
    let mut tree = Tree::fixture("h100-connectx7").unwrap();
    let records: Vec<_> = (1..)
        .zip(kernel)
        .map(|(n, line)| format!("3,{n},86400{n:06},-;{line}\n"))
        .collect();
    let records = records.concat();
    tree.write("dev/kmsg", records).unwrap();
    tree.write("proc/uptime", "87000.00 1.00\n").unwrap();
    let node = read(&tree);
    let mut reader = LogReader::default();
    reader.feed(job.as_bytes());
    let findings = judge(&node, &Expectations::default()).findings;
    diagnose(&node, &findings, Some(&reader.finish()))
}

#[test]
fn a_fault_of_the_device_that_a_symptom_names_comes_first() {
    for (message, cause) in [
        ("device's health compromised - reached miss count", "device-fault"),
        (
            "CREATE_QP(0x500) timeout. Will cause a leak of a command resource",
            "device-fault",
        ),
        (
            "PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
            "pci-errors",
        ),
        (
            "Port module event[error]: module 0, Cable error, High Temperature",
            "adapter-overheating",
        ),
        (
            "Port module event[error]: module 0, Cable error, Power budget exceeded",
            "link-quality",
        ),
        ("Port module event: module 0, Cable unplugged", "port-down"),
    ] {
        let found = causes(&[format!("{MLX5_0}: {message}")], RETRIES);
        assert_eq!(found[0], cause, "{message}: {found:?}");
    }
}

#[test]
fn a_fault_of_another_device_does_not_explain_the_symptom() {
    // It comes first, because it is confirmed and critical, but what the job reports has its own cause.
    let kernel = ["mlx5_core 0000:14:00.0: device's health compromised".to_owned()];
    let diagnosis = diagnosed(&kernel, RETRIES);
    let [first, second, ..] = diagnosis.causes.as_slice() else {
        panic!("{diagnosis:?}");
    };
    assert_eq!((first.id, second.id), ("device-fault", "fabric-or-peer"));
    assert!(first.explains.is_empty(), "{first:?}");
}

#[test]
fn a_fault_explains_no_setting_of_the_job() {
    let unmatched =
        "[1594879245.1] [x:33:0] ucp_context.c:690 UCX  WARN  device 'mlx5_9:1' is not available\n";
    let diagnosis = diagnosed(&[format!("{MLX5_0}: device's health compromised")], unmatched);
    let explains = |id: &str| {
        let mut causes = diagnosis.causes.iter();
        !causes.find(|cause| cause.id == id).unwrap().explains.is_empty()
    };
    assert!(
        explains("job-settings") && !explains("device-fault"),
        "{diagnosis:?}"
    );
}

#[test]
fn a_link_that_went_down_in_the_past_is_not_refuted_by_its_present_state() {
    let flaps: Vec<_> = (0..3)
        .flat_map(|_| {
            [
                format!("{MLX5_0} rdma0: Link down"),
                format!("{MLX5_0} rdma0: Link up"),
            ]
        })
        .collect();
    assert_eq!(causes(&flaps, RETRIES)[0], "link-quality");
    let event = "x:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n";
    assert_eq!(causes(&[], &format!("{event}{RETRIES}"))[0], "port-down");
}

#[test]
fn what_the_kernel_logged_about_a_port_that_is_down_stands_above_it() {
    let found = |message: &str| {
        let mut tree = Tree::fixture("h100-connectx7").unwrap();
        tree.write("dev/kmsg", format!("3,1,900000000,-;{MLX5_0}: {message}\n"))
            .unwrap();
        let state = tree.path("/mlx5_0/ports/1/state");
        tree.write(&state, "1: DOWN\n").unwrap();
        let node = read(&tree);
        let findings = judge(&node, &Expectations::default()).findings;
        let causes = diagnose(&node, &findings, None).causes;
        causes.iter().map(|cause| cause.id).collect::<Vec<_>>()
    };
    for (message, cause) in [
        ("device's health compromised - reached miss count", "device-fault"),
        (
            "Port module event[error]: module 0, Cable error, High Temperature",
            "adapter-overheating",
        ),
        (
            "Port module event[error]: module 0, Cable error, One or more network ports have been powered down due to \
             insufficient/unadvertised power on the PCIe slot",
            "slot-power",
        ),
    ] {
        assert_eq!(found(message)[..2], [cause, "port-down"], "{message}");
    }
    let module = "Port module event[error]: module 0, Cable error, Bad or shorted cable/module";
    assert_eq!(found(module)[0], "port-down");
    assert!(!found(module).contains(&"link-quality"), "no link, no quality");
    assert_eq!(found("Link up")[0], "port-down");
}

#[test]
fn an_adapter_that_failed_stands_above_a_setting() {
    let mut tree = Tree::fixture("h100-connectx7").unwrap();
    let types: Vec<String> = tree
        .entries()
        .map(|(path, _)| path.to_owned())
        .filter(|path| path.starts_with("sys/kernel/iommu_groups/") && path.ends_with("/type"))
        .collect();
    for path in types {
        tree.write(&path, "DMA-FQ\n").unwrap();
    }
    tree.write("proc/cmdline", "root=/dev/sda2 ro\n").unwrap();
    let line = format!("3,1,900000000,-;{MLX5_0}: uncorrectable ECC error\n");
    tree.write("dev/kmsg", line).unwrap();
    let node = read(&tree);
    let findings = judge(&node, &Expectations::default()).findings;
    let causes = diagnose(&node, &findings, None).causes;
    let ids: Vec<_> = causes.iter().map(|cause| cause.id).take(2).collect();
    assert_eq!(ids, ["device-fault", "iommu-translation"]);
}

#[test]
fn the_power_that_a_gb10_announces_is_no_problem_and_too_little_in_a_slot_is() {
    let of = |gpu: &str, message: &str| {
        let mut tree = Tree::fixture("h100-connectx7").unwrap();
        let path = tree
            .entries()
            .map(|(path, _)| path.to_owned())
            .find(|path| path.ends_with("/0000:18:00.0/device"))
            .unwrap();
        tree.write(&path, format!("{gpu}\n")).unwrap();
        let class = format!("{}/class", path.strip_suffix("/device").unwrap());
        tree.write(&class, "0x030000\n").unwrap();
        let node = read(&tree);
        let line = format!("[    5.1] {MLX5_0}: {message}\n");
        let mut reader = LogReader::default();
        reader.feed(line.as_bytes());
        let verdict = judge(&node, &Expectations::default());
        let diagnosis = diagnose(&node, &verdict.findings, Some(&reader.finish()));
        let causes: Vec<_> = diagnosis.causes.iter().map(|cause| cause.id).collect();
        (diagnosis.status(verdict.status), causes.contains(&"slot-power"))
    };
    let low = "mlx5_pcie_event:299:(pid 0): Detected insufficient power on the PCIe slot (27W).";
    assert_eq!(of("0x2330", low), (Status::Warning, true));
    assert_eq!(of("0x2e12", low), (Status::Ok, false));
    let off = "Port module event[error]: module 0, Cable error, One or more network ports have been powered down due to \
               insufficient/unadvertised power on the PCIe slot";
    assert!(of("0x2e12", off).1);
}
