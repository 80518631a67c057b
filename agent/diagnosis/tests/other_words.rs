//! What programs say in their own words: that they gave up a peer, that they do without something, and whose memory they register.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

#[path = "common/healthy.rs"]
mod healthy;

use healthy::{causes, node};
use rdma_health_diagnosis::{
    log::{Log, LogReader},
    symptom::{Grade, SymptomKind},
};
use rdma_health_node::Node;

fn read(log: &str) -> Log {
    let mut reader = LogReader::default();
    reader.feed(log.as_bytes());
    reader.finish()
}

#[test]
fn the_first_cause_is_the_right_one_on_a_sound_node() {
    let node = node();
    for (log, cause) in [
        (
            "ctrlr.c: 169:nvmf_ctrlr_keep_alive_poll: *NOTICE*: Disconnecting host nqn.x from subsystem nqn.y due to keep alive timeout.",
            "fabric-or-peer",
        ),
        (
            "Ping timed out for OSD 2 (client 8), disconnecting peer\nConnected to OSD 2 using RDMA",
            "fabric-or-peer",
        ),
        (
            "712:M 21 Nov 2026 10:00:00.123 # RDMA: CQ handle error status: transport retry counter exceeded[0xc], opcode : 0x0",
            "fabric-or-peer",
        ),
        (
            " # RDMA: CQ handle error status: transport retry counter exceeded[0xc], opcode : 0x0",
            "fabric-or-peer",
        ),
        (
            "  PSM EP connect error (Incompatible PSM version)",
            "peer-settings",
        ),
        (
            "NET/Socket : Using [0]eth0:10.1.0.4<0> [1]br-4e5f60905511:172.18.0.1<0>\n\
             socketPollConnect: connect to 172.18.0.1<50012> returned Connection refused, retrying (13/34)\n\
             RuntimeError: NCCL error: remote process exited or there was a network error",
            "addressing",
        ),
        (
            "ib_iface.c:1138 UCX  ERROR ibv_create_cq(cqe=256) failed: Connection timed out",
            "device-fault",
        ),
        (
            "[9.1] mlx4_en 0000:0d:00.0: LSO not supported, please upgrade to later FW version to enable LSO\n\
             Fatal error:  device '*': sys files not found (/sys/class/infiniband/*/ports)",
            "driver-firmware",
        ),
        (
            "*** WARNING (proc 1): Unexpected error 12 (Cannot allocate memory) from fi_mr_regattr() when binding segment [0x602000000, 0xecc000000) to EP 2",
            "hca-resources",
        ),
    ] {
        let found = causes(&node, log);
        let first = found.first().map(|cause| cause.id);
        assert_eq!(first, Some(cause), "{log}: {found:?}");
    }
    let log = "socketPollConnect: connect to 169.254.170.23<50012> returned Connection refused, retrying (13/34)\nNCCL error: remote process exited";
    let found = causes(&node, log);
    assert!(found[0].next_step.contains("NCCL_SOCKET_IFNAME"), "{found:?}");
}

#[test]
fn a_limit_of_the_adapter_is_not_that_of_locked_memory() {
    let log = "libfabric:15409:1705531788::efa:mr:efa_mr_reg_impl():850<warn> Unable to register MR: Cannot allocate memory";
    let found = causes(&Node::unknown(), log);
    assert_eq!(
        found.first().map(|cause| cause.id),
        Some("hca-resources"),
        "{found:?}"
    );
}

#[test]
fn a_program_that_registers_host_memory_has_no_path_to_gpus() {
    for log in [
        "*** FATAL ERROR (proc 1): ibv_reg_mr failed in firehose_move_callback errno=14 (Bad address)",
        "nvme_rdma.c:1748:nvme_rdma_qpair_process_completions: *ERROR*: CQ error on Queue Pair 0x7e, Opcode 128, Response Index 1 (4): local protection error\n\
         nvme_qpair.c: 453:spdk_nvme_qpair_process_completions: *ERROR*: CQ error, abort requests after transport retry counter exceeded",
        "mlx5: gpu-1: got completion with error:\nnvme_rdma_log_wc_status: WC error, qid 0, qp state 2, type 1, status: (4): local protection error",
    ] {
        let found = causes(&Node::unknown(), log);
        assert_eq!(
            found.iter().map(|cause| cause.id).collect::<Vec<_>>(),
            ["application-memory"],
            "{log}: {found:?}"
        );
    }
    // A GPU takes part.
    let log = "app: cudaMalloc of 1 GiB\nspdk: ibv_reg_mr failed errno=14 (Bad address)";
    let found = causes(&Node::unknown(), log);
    assert_eq!(
        found.first().map(|cause| cause.id),
        Some("peer-memory-path"),
        "{found:?}"
    );
}

#[test]
fn what_a_program_does_without_is_no_failure() {
    for line in [
        "RX queue 0: real-time CQ timestamps are unsupported; using the device clock format",
        "WARNING: Error in initializing MVAPICH2 ptmalloc library.Continuing without InfiniBand registration cache support.",
        "MST:: : get_space_support_status 438: At least one SPACE is not supported",
        "[1729852.7] ksmbd: smb_direct: disconnected",
        "[  165.9] mlx4_core 0000:0d:00.0: command 0x5a failed: fw status = 0x2",
        "net_fastsocket.cc:785 NCCL WARN Maximum retry reached for accept 3.",
    ] {
        let log = read(line);
        assert!(
            log.symptoms
                .iter()
                .all(|symptom| symptom.grade <= Grade::Unrecognised),
            "{:?}",
            log.symptoms
        );
    }
    for line in [
        "WARNING: ibv_open_device failed. Continuing without InfiniBand support.",
        "[  165.9] mlx4_core 0000:0d:00.0: command 0x5a failed: fw status = 0x1",
        "[1729852.7] nvme nvme0: rdma queue 3: disconnected",
    ] {
        let log = read(line);
        assert!(
            log.symptoms.iter().any(|symptom| symptom.grade > Grade::Note),
            "{line}"
        );
    }
}

#[test]
fn a_crash_that_may_be_of_rdma_is_not_passed_over() {
    const OOPS: &str = "[7.1] BUG: kernel NULL pointer dereference, address: 0000000000000000\n[7.2] Oops: 0000 [#8] SMP NOPTI\n";
    const PLACE: &str = "[7.4] RIP: 0010:vdisk_exec+0x79/0x270 [scst_vdisk]\n";
    for (log, expected) in [
        (
            format!("{OOPS}[7.3] CPU: 15 PID: 3111 Comm: ISER-PSC-Net5 Tainted: P\n{PLACE}"),
            Some("vdisk_exec"),
        ),
        (
            format!(
                "{OOPS}{PLACE}[7.5] Call Trace:\n[7.5]  scst_cmd_done+0x1/0x20 [scst]\n[7.6]  isert_login+0x3/0x90 [ib_isert]\n"
            ),
            Some("vdisk_exec"),
        ),
        (
            format!("{OOPS}[7.3] Modules linked in: ksmbd(OE) libdes rpcrdma rdma_cm\n"),
            Some("Oops"),
        ),
        // RDMA is only loaded.
        (
            format!(
                "{OOPS}{PLACE}[7.5] Modules linked in: svcrdma mlx4_ib\n[7.5] Call Trace:\n[7.6]  nfsd+0x1/0x20 [nfsd]\n"
            ),
            None,
        ),
        (format!("{OOPS}[7.3] Modules linked in: mlx4_ib ext4\n"), None),
        (
            format!("{OOPS}{PLACE}[7.5]  ? isert_login+0x3/0x90 [ib_isert]\n"),
            None,
        ),
    ] {
        let log = read(&log);
        let found = log
            .symptoms
            .iter()
            .find(|symptom| symptom.kind == SymptomKind::Unrecognised);
        match expected {
            Some(text) => assert!(
                found.is_some_and(|symptom| symptom.text.contains(text)),
                "{:?}",
                log.symptoms
            ),
            None => assert!(found.is_none(), "{:?}", log.symptoms),
        }
    }
}
