//! What launchers, collectors of logs and test harnesses put around lines, and messages that are wrapped over lines.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::symptom::{Grade, SymptomKind as K};

use common::{each_is, kinds, primary, read};

#[test]
fn a_mark_before_every_line_hides_no_message() {
    let lines = [
        "hfi_userinit_internal: assign_context command failed: Device or resource busy",
        "Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)",
        "Failed to modify QP 302 to RTR",
    ];
    for line in lines {
        let plain = kinds(line);
        assert!(!plain.is_empty(), "{line}");
        for mark in ["## ", "# ", "> ", "| ", "  | "] {
            assert_eq!(kinds(&format!("{mark}{line}")), plain, "{mark}{line}");
        }
    }
    for text in [
        "# Raise the limit if ibv_create_qp failed",
        "> You may see: Transport retry count exceeded",
        "| `IBV_WC_RETRY_EXC_ERR` | The peer did not answer |",
    ] {
        assert_eq!(kinds(text), [], "{text}");
    }
}

#[test]
fn a_frame_of_dashes_is_read_whatever_stands_before_its_lines() {
    let rule = "-".repeat(74);
    let frame = [
        rule.as_str(),
        "WARNING: It appears that your OpenFabrics subsystem is configured to only",
        "allow registering part of your physical memory.  This can cause MPI jobs to",
        "run with erratic performance, hang, and/or crash.",
        rule.as_str(),
    ];
    for (before, after) in [
        ("", ""),
        ("0: ", ""),
        ("node-1  | ", ""),
        ("2026-11-21T10:00:00.123Z stdout F ", ""),
        ("Nov 21 10:00:00 n1 job[71]: ", ""),
        ("{\"log\":\"", "\\n\",\"stream\":\"stderr\"}"),
    ] {
        let lines: Vec<String> = frame
            .iter()
            .map(|line| format!("{before}{line}{after}"))
            .collect();
        assert_eq!(kinds(&lines.join("\n")), [K::ResourceLimit], "{before}");
    }
}

#[test]
fn a_message_that_is_wrapped_over_lines_is_read_as_one() {
    for (text, kind) in [
        (
            "  Warning  FailedPrepareDynamicResources  kubelet\n  Failed to prepare dynamic resources: prepare dynamic resources:\n  \
             NodePrepareResources failed for ResourceClaim rails:\n  interface configuration is not supported for RDMA-only devices",
            K::NetworkAttachFailed,
        ),
        (
            "The Open MPI receive queue configuration for the OpenFabrics devices\non two nodes are incompatible, meaning that MPI processes",
            K::PeerDiffers,
        ),
        (
            "message fragment.  The OpenFabrics (openib) BTL will therefore be\ndeactivated for this run.",
            K::RdmaDisabled,
        ),
    ] {
        assert_eq!(kinds(text), [kind], "{text}");
    }
}

#[test]
fn the_log_as_a_whole_decides_what_a_line_means() {
    let family = "n1:1:2 [0] misc/socket.cc:709 NCCL WARN ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)\n";
    let graph = "n1:1:2 [0] NCCL INFO NCCL_GRAPH_FILE set by environment to /opt/graph.xml\n";
    let xml = "n1:1:2 [0] graph/search.cc:703 NCCL WARN XML Import Channel : dev 1 not found.\n";
    let reload = "# /etc/init.d/openibd restart\n";
    let down = "[ 71.2] mlx5_core 0000:01:00.1 enp1s0f1np1: Link down\n";
    let symbol = "[ 75.1] ksmbd: disagrees about version of symbol rdma_accept\n";
    each_is(&[
        (family, "peer-settings", "same version of NCCL"),
        (&[graph, xml].concat(), "job-settings", "NCCL_GRAPH_FILE"),
        (&[reload, down, symbol].concat(), "kernel-module-build", ""),
        (
            "n1:1:1 [0] NCCL INFO Using network IB\nn2:1:1 [0] NCCL INFO Using network IBext_v8\n",
            "peer-settings",
            "same network",
        ),
    ]);
    assert_eq!(primary(xml), []);
    // Two runs of one host.
    let runs = "n1:1:1 [0] NCCL INFO Using network IB\nn1:1:1 [0] NCCL INFO Using network IBext_v8\n";
    assert_eq!(kinds(runs), []);
}

#[test]
fn what_a_program_says_in_its_own_words_leads_to_its_setting() {
    each_is(&[
        (
            "[n1:1] pml_ucx.c:285  Error: UCP worker does not support MPI_THREAD_MULTIPLE",
            "communication-library",
            "--enable-mt",
        ),
        ("cxip_gen_auth_key failed: -38", "virtual-network", "VNI"),
        (
            "Device erdma_0 GID 1 not available: Invalid argument [22]",
            "gid-index",
            "",
        ),
        (
            "select.c:312  UCX  ERROR no atomic operations on registered memory transport to <no debug data>: Unsupported operation",
            "unsupported-adapter",
            "",
        ),
        (
            "fi_getinfo(): common/shared.c:627, ret=-61 (No data available)",
            "device-not-given",
            "IPoIB",
        ),
        (
            "GDRCOPY library \"libgdrapi.so\" unable to open GDR driver, is gdrdrv.ko loaded?",
            "peer-memory-path",
            "modprobe gdrdrv",
        ),
        (
            "gpu-1: Test CUDA failure common.cu:941 'system not yet initialized'",
            "gpu-fault",
            "fabricmanager",
        ),
        (
            "CreateTarget { msg: \"Network interface 'ibp20s0' has no IPv4 address\" }",
            "addressing",
            "",
        ),
        (
            "mlx5_net: port 0 Rx queue allocation failed: Cannot allocate memory",
            "host-memory",
            "huge pages",
        ),
        (
            "ice 0000:17:00.0: Failed to enable SRIOV: Only 0 MSI-X interrupts available for SR-IOV.",
            "virtual-functions",
            "interrupt vectors",
        ),
        (
            "error adding container to network \"rdma\": Error at storage engine: Could not allocate IP in range: ip: 10.0.0.1",
            "pod-network",
            "Enlarge the range",
        ),
    ]);
}

#[test]
fn failures_of_others_and_choices_without_rdma_are_no_alarm() {
    for text in [
        "level=fatal msg=\"map flows: map create: operation not permitted (MEMLOCK may be too low, consider rlimit.RemoveMemlock)\"",
        "create Pod vault-0 in StatefulSet vault failed error: pods \"vault-0\" is forbidden: unable to validate against any security context \
         constraint: [capabilities.add: Invalid value: \"IPC_LOCK\": capability may not be added]",
        "[3.1] pci 0000:00:04.0: 0.000 Gb/s available PCIe bandwidth, limited by Unknown x0 link at 0000:00:04.0 (capable of 126.016 Gb/s with 16.0 GT/s PCIe x8 link)",
        "nvme connect -t tcp -n nqn.x -a 10.0.0.4\nnvme nvme0: Invalid MNAN value 1024",
        "ibpanic: [769778] main: stat of IB device 'mlx5_an0' failed: No such file or directory",
        "modprobe: FATAL: Module nvme-fabrics not found in directory /lib/modules/6.12.20",
    ] {
        let log = read(text);
        let diagnosis = rdma_health_diagnosis::diagnose(&rdma_health_node::Node::unknown(), &[], Some(&log));
        let grave: Vec<_> = diagnosis
            .symptoms
            .iter()
            .filter(|symptom| symptom.grade > Grade::Unrecognised)
            .collect();
        assert!(grave.is_empty(), "{text}: {grave:?}");
    }
}
