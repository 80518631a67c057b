//! Transfer engines, communication that GPUs start, and the libraries below: the first cause, and what to do.

#![allow(missing_docs)]

mod common;

use common::{each_is, first, kinds, read};
use rdma_health_diagnosis::symptom::{Grade, SymptomKind as K};

const CHECKS_GPU: &str = "n1:5:7 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n";

#[test]
fn a_module_that_the_log_shows_loaded_is_not_to_be_loaded() {
    for loaded in [
        "nvidia_peermem         12288  0",
        "ib_core               491520  9 rdma_cm,ib_ipoib,nvidia_peermem,iw_cm",
        "[ 9.1] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
    ] {
        let (cause, step) = first(&format!("{CHECKS_GPU}{loaded}"));
        assert_eq!(cause, "peer-memory-path", "{loaded}");
        assert!(step.starts_with("nvidia_peermem is loaded"), "{loaded}: {step}");
    }
    for other in [
        "",
        "modprobe nvidia_peermem",
        "nvidia_peermem: Unknown parameter 2",
    ] {
        let (_, step) = first(&format!("{CHECKS_GPU}{other}"));
        assert!(step.contains("modprobe nvidia_peermem"), "{other}: {step}");
    }
}

#[test]
fn a_late_callback_of_the_peer_memory_module_has_no_consequence() {
    let late = "[25033.2] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing";
    assert_eq!(kinds(late), []);
    let page = "[25033.2] nvidia-peermem nv_mem_get_pages:42 ERROR invalid page_table";
    assert_eq!(kinds(page), [K::PeerMemoryError]);
}

#[test]
fn each_message_of_an_engine_has_its_cause() {
    each_is(&[
        (
            "csrc/kernels/backend/nccl.cu:87\n(props.railedGinType) != NCCL_GIN_TYPE_NONE",
            "gpu-initiated-setup",
            "",
        ),
        (
            "run GIN example failed, doca_verbs_qp_modify return error DOCA_ERROR_DRIVER(21)",
            "driver-firmware",
            "",
        ),
        (
            "n1:5:7 [1] enqueue.cc:422 NCCL WARN Error : no algorithm/protocol available",
            "job-settings",
            "",
        ),
        (
            "n1:5:7 [4] misc/socket.cc:397 NCCL WARN Net : connecting to address  with family 33621 is neither AF_INET(2) nor AF_INET6(10)",
            "peer-settings",
            "",
        ),
        (
            "n1:5:7 [4] NCCL WARN socketStartConnect: exceeded timeouts (3)",
            "fabric-or-peer",
            "",
        ),
        (
            "n1:5:7 [4] NCCL WARN socketPollConnect poll() returned 1, no POLLOUT events",
            "fabric-or-peer",
            "",
        ),
        (
            "E0106 06:43:02.9  5793 ascend_direct_transport.cpp:820] Failed to connect to target: 172.17.0.16:25482, status: 103900",
            "fabric-or-peer",
            "",
        ),
        (
            "Failed to submit all transfers, error code is NotSupportedTransport",
            "peer-settings",
            "",
        ),
        (
            "E0701 08:43:59.4 654617 transport.cc:3381] RTO retransmission threshold reached.0",
            "fabric-or-peer",
            "",
        ),
        (
            "\"message\": \"An EFA requires a security group that allows all inbound and outbound traffic to and from the security group itself.\"",
            "fabric-or-peer",
            "security group",
        ),
        (
            "# OSU MPI-ROCM Bandwidth Test v7.3\n[1706257302.8] [n1:20:0] ib_md.c:309 UCX ERROR ibv_reg_mr(address=0x7fe35ea00000, length=16, \
             access=0x10000f) failed: Invalid argument",
            "peer-memory-path",
            "UCX was built with ROCm",
        ),
    ]);
}

#[test]
fn a_framework_repeats_what_its_transport_over_tcp_reported() {
    const TCP: &str = "E0430 16:02:26.0   391 tcp_transport.cpp:542] TcpTransport::startTransfer encountered an ASIO exception. Exception: connect: Cannot \
        assign requested address\n";
    const KV: &str = "Prefill transfer failed with exception KVTransferError(bootstrap_room=67): Failed to send kv chunk of 67";
    assert_eq!(first(&format!("{TCP}{KV}")).0, "tcp-connection");
    assert_eq!(first(KV).0, "communication-library");
}

#[test]
fn nccl_that_fails_without_a_warning_is_not_passed_over() {
    let failed = |places: &str| -> String {
        let lines = places
            .split(' ')
            .map(|place| format!("n1:5:7 [0] NCCL INFO {place} -> 2\n"));
        lines.collect()
    };
    let sockets = failed("misc/socket.cc:564 bootstrap.cc:270 init.cc:1303 group.cc:64");
    assert_eq!(kinds(&sockets), [K::TcpError]);
    let verbs = failed("transport/net_ib.cc:282 transport/net.cc:687");
    let shown: Vec<_> = read(&verbs)
        .symptoms
        .iter()
        .map(|symptom| symptom.grade)
        .collect();
    assert_eq!(shown, [Grade::Unrecognised]);
    let warned = format!(
        "n1:5:7 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n{sockets}"
    );
    assert_eq!(first(&warned).0, "memlock-limit");
}

#[test]
fn a_message_behind_the_mark_of_a_comment_is_shown() {
    let shown = |text: &str| read(text).symptoms.iter().map(|symptom| symptom.grade).max();
    assert_eq!(
        shown("//Error info is \"fi_mr_reg failed, ret is:-12, Cannot allocate memory\"."),
        Some(Grade::Unrecognised)
    );
    assert_eq!(shown("// raise the limit if ibv_reg_mr fails"), None);
}

#[test]
fn an_endpoint_of_ucx_ends_after_what_failed_on_it() {
    each_is(&[
        (
            "[1496344648.5] [n1:14879:0] dc_verbs.c:614 UCX ERROR Send completion with error on qp 0x6214: remote access error syndrome 0x88\n\
             [1496344648.6] [n1:14879:0] uct_iface.c:330 UCX ERROR Error Endpoint timeout was not handled for ep 0x942030",
            "application-memory",
            "",
        ),
        (
            "[1741292755.6] [n1:711629:0] address.c:1733 UCX ERROR failed to allocate address list\n\
             [n1:711629] pml_ucx.c:431  Error: ucp_ep_create(proc=509) failed: Out of memory",
            "host-memory",
            "",
        ),
    ]);
}
