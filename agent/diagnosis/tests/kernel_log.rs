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

#[test]
fn services_that_use_rdma_fail_alike_in_every_form_of_a_line() {
    use rdma_health_diagnosis::symptom::Grade;
    let fails = |line: &str| {
        let mut reader = LogReader::default();
        reader.feed(line.as_bytes());
        let symptoms = reader.finish().symptoms;
        symptoms.iter().any(|symptom| symptom.grade > Grade::Note)
    };
    for message in [
        "ko2iblnd: start failed",
        "beegfs: client failed",
        "beegfs: mount(1516568): Initialization of common objects failed",
        "rpcrdma: start failed",
        "iser: start failed",
        "ib_isert: start failed",
        "smbdirect: start failed",
        "rds_rdma: start failed",
        "smc: start failed",
        "nvmet_rdma: start failed",
        "rtrs_client: start failed",
        "nvme nvme1: rdma connection failed",
    ] {
        for before in [
            "",
            "[ 8123.123456] ",
            "Mar  3 10:00:01 n1 kernel: ",
            "<3>[    8.123456] ",
        ] {
            let log =
                format!("{before}mlx5_core 0000:41:00.0: firmware version: 28.39.1002\n{before}{message}\n");
            assert!(fails(&log), "{before}{message}");
        }
    }
    for line in [
        "[ 8123.123456] nvme nvme0: failed to set APST feature (2)\n",
        "[ 8123.123456] usb 1-1: start failed\n",
        "[ 8123.123456] beegfs: mount(12): BeeGFS mount ready.\n",
    ] {
        assert!(!fails(line), "{line}");
    }
}

#[test]
fn a_program_that_crashed_in_a_library_of_rdma_is_shown() {
    let shown = |line: &str| {
        let mut reader = LogReader::default();
        reader.feed(line.as_bytes());
        reader.finish().symptoms.len()
    };
    for line in [
        "[ 5123.114410] traps: mpi_app[20431] general protection fault ip:7f405a46cceb sp:7ffd2e7f0a10 error:0 in mca_btl_openib.so[7f405a45c000+40000]\n",
        "[ 5123.114410] mpi_app[20431]: segfault at 0 ip 00007f405a46cceb sp 00007ffd2e7f0a10 error 4 in mca_btl_openib.so[7f405a45c000+40000]\n",
        "Nov 27 20:10:05 n1 kernel: ib_write_bw[46826]: segfault at 0 ip 00007f sp 00007f error 4 in librdmacm.so.1.3.37.0[7f3c957e9000+15000]\n",
    ] {
        assert_eq!(shown(line), 1, "{line}");
    }
    for line in [
        "[ 5123.114410] traps: python3[20431] general protection fault ip:7f405a46cceb sp:7ffd2e7f0a10 error:0 in libc-2.31.so[7f405a45c000+40000]\n",
        "[ 5123.114410] python3[20431]: segfault at 0 ip 00007f405a46cceb sp 00007ffd2e7f0a10 error 4 in libtorch_cpu.so[7f405a45c000+40000]\n",
    ] {
        assert_eq!(shown(line), 0, "{line}");
    }
}

#[test]
fn modules_that_an_adapter_refuses_and_storms_of_pause_frames_are_read_from_a_log() {
    for (line, cause) in [
        (
            "ice 0000:4b:00.0: The module's power requirements exceed the device's power supply. Cannot start link.",
            "link-quality",
        ),
        (
            "ice 0000:4b:00.0: The installed module is incompatible with the device's NVM image. Cannot start link.",
            "link-quality",
        ),
        ("bnxt_en 0000:01:00.0 eth0: Pause Storm detected!", "flow-control"),
    ] {
        let first = causes(&[], &format!("[ 1234.567890] {line}\n"));
        assert_eq!(
            first.first().map(String::as_str),
            Some(cause),
            "{line}: {first:?}"
        );
    }
}
