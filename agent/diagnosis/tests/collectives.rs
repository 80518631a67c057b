//! Logs of collective libraries and frameworks: what a user reads of them first.

#![allow(missing_docs)]

mod common;

use common::{primary, read};
use rdma_health_diagnosis::symptom::{Grade, Symptom, SymptomKind as K};
use rdma_health_protocol::WcStatus;

/// The kinds of all symptoms, also of those that follow from others.
fn all(text: &str) -> Vec<K> {
    let symptoms = read(text).symptoms.into_iter();
    symptoms.map(|symptom| symptom.kind).collect()
}

#[test]
fn the_source_file_of_a_message_says_that_it_is_about_rdma() {
    for (line, expected) in [
        (
            "RuntimeError: In operator() at tensorpipe/common/ibv.h:172 \"\": Cannot allocate memory",
            Some(K::NoMemory),
        ),
        (
            "  what():  [enforce fail at gloo/transport/ibverbs/device.cc:118] devices->size() > 0. 0 vs 0. No devices found",
            Some(K::NoDevice),
        ),
        (
            "W0417 03:25:46.8 102786 42 src/brpc/rdma/rdma_endpoint.cpp:571] Fail to read Hello Message from client: Got EOF",
            Some(K::PeerClosed),
        ),
        (
            "pyverbs.pyverbs_error.PyverbsUserError: Failed to find device mlx5_9",
            Some(K::NoDevice),
        ),
        (
            "[enforce fail at gloo/transport/tcp/device.cc:118] No devices found",
            None,
        ),
        (
            "W0417 03:25:46.8 102786 42 src/brpc/input_messenger.cpp:571] Fail to read: Got EOF",
            None,
        ),
        ("camera.Error: Failed to find device video_9", None),
    ] {
        let kinds = all(line);
        assert_eq!(
            kinds.first().copied().filter(|kind| *kind != K::Unrecognised),
            expected,
            "{line}"
        );
    }
}

#[test]
fn a_help_text_is_read_below_the_rank_of_each_line() {
    const TEXT: [&str; 3] = [
        "The InfiniBand retry count between two MPI processes has been",
        "exceeded.  \"Retry count\" is defined in the InfiniBand spec 1.2",
        "(section 12.7.38):",
    ];
    for tag in ["", "[1,3]<stderr>:", "[prterun-n1-7@1,3]<stderr>: "] {
        let log = TEXT.map(|line| format!("{tag}{line}\n")).concat();
        assert_eq!(primary(&log), [K::Completion(WcStatus::RetryExcErr)], "{log}");
    }
}

#[test]
fn a_library_that_old_versions_of_nccl_do_without_is_no_failure() {
    let log = read("n1:890:890 [0] misc/ibvwrap.cu:60 WARN Failed to open libibverbs.so[.1]\n");
    assert!(
        log.symptoms
            .iter()
            .all(|symptom| symptom.grade <= Grade::Degraded)
    );
}

#[test]
fn what_a_call_should_have_returned_is_no_success() {
    let log = read("  PML add procs failed\n  --> Returned \"Not found\" (-13) instead of \"Success\" (0)\n");
    let failed = |symptom: &&Symptom| symptom.kind == K::BackendFailed && symptom.grade == Grade::Failure;
    assert!(log.symptoms.iter().any(|symptom| failed(&symptom)), "{log:?}");
    let failed = "[n1:28596] PMIX ERROR: NOT-FOUND in file server/pmix_server.c at line 237";
    for line in [
        "  --> Returned value -46 instead of PMIX_SUCCESS",
        "  --> Returned value -46 instead of ORTE_SUCCESS",
        "in do_kvs_fence() at bootstrap.c:357: PMIX_SUCCESS == rc",
        "  op1 :  0 (0x0) == PMIX_SUCCESS",
        "x == cudaSuccess",
        "rc != OPAL_SUCCESS",
        "the run was unsuccessful",
        "the connection is not established",
        "the port is inactive",
    ] {
        let log = read(&format!("{failed}\n{line}\n"));
        assert!(log.others > 0, "{line}");
    }
    for line in [
        "Job finished with SUCCESS",
        "status: SUCCESS",
        "epoch 3 val_loss=0.2",
        "1.2 GB/s",
        "All ranks connected",
        "result = successful",
    ] {
        let log = read(&format!("{failed}\n{line}\n"));
        assert_eq!(log.others, 0, "{line}");
    }
}

#[test]
fn messages_of_each_library_show_their_failure() {
    for (line, kind) in [
        (
            "Warning: no habanalabs network interfaces were detected",
            K::NoDevice,
        ),
        (
            "n1:4:5 [0] gin/gin_host.cc:91 NCCL WARN Unable to use GIN: Peermem is not supported, and device 0 does not support DMA-BUF.",
            K::GdrDisabled,
        ),
        (
            "n1:4:5 [0] platform_init:412 NCCL WARN NET/OFI EFA provider requires at least libfabric version 1.22.0.",
            K::BackendMissing,
        ),
        (
            "ip-10-0-0-1:1:2 [0] init_endpoint:64 NCCL WARN NET/OFI Couldn't set FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES. RC: -92, ERROR: Protocol not available",
            K::BackendMissing,
        ),
        (
            "ip-10-0-0-1:1:2 [0] init_endpoint:64 NCCL WARN NET/OFI CM: Unable to bind MR to EP. RC: -22, Error: Invalid argument",
            K::RegMrFailed,
        ),
        (
            "ip-10-0-0-1:1:2 [0] init_endpoint:64 NCCL WARN NET/OFI Network does not support CUDA buffers. Dev: 3",
            K::GdrDisabled,
        ),
        (
            "[1700000000.000001] [n1:123:0]   ib_iface.c:1234 UCX  ERROR uct_iface_open(rc_verbs/mlx5_bond_0:1) failed: Address not valid",
            K::NoGid,
        ),
        (
            "[1700000000.000001] [n1:123:0]   ib_mlx5.c:735  UCX  ERROR mlx5_0: both WC and NC_DEDICATED UAR allocation types are not supported",
            K::CreateRefused,
        ),
        (
            "E0901 10:10:10.111 200 rdma_topology.cpp:125] mlx5_0/1 has no GID table entries",
            K::NoGid,
        ),
        (
            "/x/transport/ibdevx/ibdevx.cpp:853: Unable to set qp to state INIT with errno 22.",
            K::InitRefused,
        ),
        (
            "/x/transport/ibdevx/ibdevx.cpp:1853: Unable to dlopen libibverbs. Skipping devx transport.",
            K::NoLibrary,
        ),
        (
            "/x/transport/ibgda/ibgda.cpp:3853: cound not find user specified HCA name: mlx5_0 port: 1, skipping",
            K::SettingUnmatched,
        ),
        (
            "[application] [error] IONIC device detected but libionic.so not available at runtime",
            K::NoProvider,
        ),
        (
            "[io] [warning] No active RDMA device; falling back to XGMI-only mode (port=0)",
            K::NoDevice,
        ),
        (
            "I0529 23:22:59.04 67580 transfer_engine.cpp:127] Topology discovery complete. Found 0 HCAs.",
            K::NoDevice,
        ),
        (
            "E0901 10:10:10.111 200 rdma_helper.cpp:430] Fail to find available RDMA device mlx5_7",
            K::NoDevice,
        ),
        (
            "E0901 10:10:10.111 200 rdma_helper.cpp:450] Fail to find available RDMA GID",
            K::NoGid,
        ),
        (
            "[1700000000.1] [n:1:0] ib_iface.c:790  UCX  ERROR unable to find specified pkey 0x8001 on mlx5_0:1/IB",
            K::PkeyMissing,
        ),
        (
            "[1700000000.1] [n:1:0] select.c:438 UCX ERROR no active messages transport to n2: self/memory - Destination is unreachable",
            K::SettingUnmatched,
        ),
        (
            "[1700000000.1] [n:1:0] select.c:438 UCX ERROR no active messages transport to n2: rc_mlx5/mlx5_0:1 - Destination is unreachable",
            K::PeerUnreachable,
        ),
        (
            "[ERROR] EJ0002: [PID: 38079] 2025-07-15-12:45:31.202.787 The network port is down.",
            K::PortNotActive,
        ),
        (
            "mi300-1:4:5 [0] init.cc:179 NCCL WARN Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!",
            K::PassthroughMissing,
        ),
    ] {
        assert_eq!(primary(line), [kind], "{line}");
    }
}

#[test]
fn what_a_process_ended_of_comes_before_what_its_peers_report() {
    const RETRY: &str = "n8:910:1022 [6] transport/net_ib.cc:1905 NCCL WARN NET/IB : Got completion from peer 10.1.0.12<40338> with \
        status=12 opcode=0 len=0 vendor err 129 (Send)";
    for line in [
        "[rank5]: ValueError: Expected input batch_size (8) to match target batch_size (7).",
        "[rank17]: AssertionError: found NaN in local grad norm",
        "slurmstepd: error: *** STEP 88122.0 ON gpu-014 CANCELLED AT 2025-06-03T02:11:40 DUE TO PREEMPTION ***",
        "[ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 'train.py'] exits with return code = -9",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 912 got signal: 15",
    ] {
        assert_eq!(primary(&format!("{line}\n{RETRY}\n")), [K::RankFailed], "{line}");
        // The peers saw the network fail first.
        let retried = K::Completion(WcStatus::RetryExcErr);
        assert_eq!(primary(&format!("{RETRY}\n{line}\n")), [retried], "{line}");
    }
    let handled = "[rank0]: RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited";
    assert!(!primary(&format!("{handled}\n{RETRY}\n")).contains(&K::RankFailed));
}

#[test]
fn a_plugin_that_does_not_load_explains_the_missing_network_and_one_that_is_not_there_is_no_fault() {
    let text = "p:1:1 [0] NCCL INFO NET/Plugin: libnccl-net.so: /lib/libc.so.6: version `GLIBC_2.34' not found (required by /gib/lib64/x.so)\n\
        p:1:1 [0] NCCL INFO NET/IB : No device found.\n\
        p:1:1 [0] plugin/net.cc:366 NCCL WARN Error: network gIB not found.\n";
    assert_eq!(primary(text), [K::BackendMissing]);
    let sound = "p:1:1 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.\n\
        p:1:1 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory\n";
    assert_eq!(primary(sound), []);
}

#[test]
fn the_warning_of_a_missing_iommu_option_does_not_hide_another_failure() {
    const WARNING: &str = "mi300-1:4:5 [0] init.cc:179 NCCL WARN Missing \"iommu=pt\" from kernel command line which can lead to hang!";
    let with = |status: u32| {
        primary(&format!(
            "{WARNING}\nn:4:5 [0] net_ib.cc:1905 NCCL WARN NET/IB : Got completion from peer 10.1.0.12<4> with status={status} opcode=0 len=0\n"
        ))
    };
    assert_eq!(with(12), [K::Completion(WcStatus::RetryExcErr)]);
    assert_eq!(
        with(4),
        [K::PassthroughMissing, K::Completion(WcStatus::LocProtErr)]
    );
}

#[test]
fn gloo_connects_over_tcp_and_its_errors_are_none_of_rdma() {
    let log = read(
        "[rank0]: RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error\n",
    );
    let found: Vec<_> = log
        .symptoms
        .iter()
        .map(|symptom| (symptom.kind, symptom.grade))
        .collect();
    assert_eq!(found, [(K::GlooError, Grade::Unrecognised)]);
}

#[test]
fn a_log_shows_the_maker_of_the_gpus_and_the_batch_system() {
    let log =
        read("srun: job 8812 has been allocated resources\nm:1:1 [0] NCCL INFO RCCL version : 2.22.3-HEAD\n");
    assert!(log.marks.amd && log.marks.slurm);
    let log = read("m:1:1 [0] NCCL INFO NCCL version 2.22.3+cuda12.4\n");
    assert!(!log.marks.amd && !log.marks.slurm);
}

#[test]
fn the_status_of_a_completion_says_more_than_the_words_around_it() {
    let failed = |status| [K::Completion(status)];
    let of_efa =
        "t:1:2 [2] process_err_completion:1562 NCCL WARN NET/OFI Request 0x7f08 completed with error. RC: ";
    for error in [
        "5. Error: Invalid receiver queue pair number (QPN) My EFA addr: fi_addr_efa://[fe80::30]:0:657",
        "103. Error: 4126 (Unresponsive receiver (reachable by EFA device but handshake failed) My EFA addr: fi_addr_efa://[fe80::30]:0:657",
    ] {
        assert_eq!(all(&format!("{of_efa}{error}\n")), [K::PeerClosed], "{error}");
    }
    let unexplained = format!("{of_efa}5. Error: 0 (unknown error)\n");
    assert_eq!(primary(&unexplained), [K::PeerUnreachable]);
    for (text, status) in [
        (
            "  what():  [enforce fail at /g/gloo/transport/ibverbs/pair.cc:466] wc->status == IBV_WC_SUCCESS. 12 vs 0. Memory region send for \
                slot 0: x\n",
            WcStatus::RetryExcErr,
        ),
        (
            "[ERROR] ROCE(204,test):2025-09-15-08:38:12.776 [hns_roce_lite.c:630]hns_roce_lite_handle_error_cqe(630) : error cqe status: 0x15\n",
            WcStatus::RetryExcErr,
        ),
        (
            "hns3 0000:7d:00.0 hns_0: error cqe status 0x4:\n",
            WcStatus::LocProtErr,
        ),
    ] {
        assert_eq!(primary(text), failed(status), "{text}");
    }
    // The status stands in the next line.
    let check =
        "  what():  [16:07:33] rdma_van.h:785: Check failed: wc[i].status == IBV_WC_SUCCESS Failed status \n";
    let found = primary(&format!(
        "{check}local protection error 4 0 81 128 RECV ptr: 0xaaae\n"
    ));
    assert!(found.contains(&K::Completion(WcStatus::LocProtErr)), "{found:?}");
    assert_eq!(primary("local protection error 4 0 81 128 RECV\n"), []);
}

#[test]
fn a_function_that_only_returns_a_failure_does_not_hide_the_one_that_reports_it() {
    let reason = "/m/ibgda.cpp:2234: NULL value Unable to create ah.\n";
    let caller = "/m/ibgda.cpp:2966: non-zero status: 7 create DCT share err.\n";
    assert_eq!(primary(&format!("{reason}{caller}")), [K::ConnectFailed]);
    assert_eq!(primary(caller), [K::CreateUnexplained]);
}

#[test]
fn what_a_program_cleans_up_is_no_failure_and_what_it_sets_up_is_one() {
    for line in [
        "E0325 09:33:41.55 82 rdma_transport.cpp:648] RDMA: Failed to unregister memory region with context 7\n",
        "E0325 09:33:41.55 82 rdma_context.cpp:367] RDMA: Failed to destroy completion channel: Invalid argument\n",
        "E0325 09:33:41.55 82 rdma_endpoint.cpp:216] RDMA: Failed to modify QP to ERR: Invalid argument\n",
        "E0325 09:33:41.55 82 rdma_context.cpp:377] RDMA: Failed to deallocate protection domain: Invalid argument\n",
    ] {
        assert_eq!(primary(line), [], "{line}");
    }
    for (line, kind) in [
        (
            "E0325 09:33:41.55 82 rdma_context.cpp:224] Failed to allocate new protection domain on device mlx5_2: Invalid argument [22]\n",
            K::CreateRefused,
        ),
        (
            "E0325 09:33:41.55 82 cxi_context.cpp:403] fi_mr_enable failed for 0x7f00: Invalid argument\n",
            K::RegMrFailed,
        ),
        (
            "E0325 09:33:41.55 82 rdma_transport.cpp:955] Memory region not registered by any active device(s): 0x7f00\n",
            K::PostRefused,
        ),
        (
            "g:1:2 [0] gin_host_gdaki.cc:611 NCCL WARN doca_verbs_qp_modify failed with error DOCA_ERROR_DRIVER(21)\n",
            K::CommandRefused,
        ),
        (
            "[ERROR]HCCL(835,test):2025-10-23-17:28:06.04[task_exception_handler.cc:610]Cluster Exception Location[IP/ID]:[10.10.0.1/1], \
                ExceptionType:[Heartbeat Lost Occurred], Possible Reason:1. Process has exited\n",
            K::PeerClosed,
        ),
        (
            "E20260608 14:45:44.40 342 ascend_direct_transport.cpp:1107] Connect timeout to: 10.2.0.4:20033, you can increase the timeout\n",
            K::PeerUnreachable,
        ),
        (
            "g:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 async fatal event on QP(0x7f): invalid request local work queue error\n",
            K::QueueError,
        ),
        (
            "gpu-1 rdma0 GDAProvider::BNXT requested but an invalid device is selected\n",
            K::UnsupportedAdapter,
        ),
    ] {
        assert_eq!(all(line), [kind], "{line}");
    }
}

#[test]
fn what_a_plugin_of_nccl_tries_is_no_fault_and_its_transports_over_tcp_are_none_of_rdma() {
    let tries = "n:1:2 [0] NCCL INFO NET/OFI No eligible providers were found\n";
    let selects = "n:1:2 [0] NCCL INFO NET/OFI Selected provider is cxi, fabric is cxi (found 4 nics)\n";
    assert_eq!(primary(tries), [K::NoDevice]);
    assert_eq!(primary(&format!("{tries}{selects}")), []);
    let vni = "libfabric:50:17::cxi:fabric:cxip_nic_get_rgroup_vni():253<warn> : Failed to find valid default rgroup and vni for cxi0\n";
    let refused = "[0] NCCL WARN NET/OFI Couldn't open a fabric access domain. RC: -38, ERROR: Function not implemented\n";
    assert_eq!(primary(&format!("{vni}{refused}")), [K::NoVirtualNetwork]);
    let registers = "g:1:2 [0] NCCL WARN NET/FasTrak plugin.cc:310 : INVALID_ARGUMENT: Buffer registration request does not have a valid fd set.\n";
    assert_eq!(all(registers), [K::BackendFailed]);
    let over_tcp = "g:1:2 [0] NCCL WARN NET/FasTrak plugin.cc:310 : FAILED_PRECONDITION: receive() error: 32: Broken pipe\n";
    assert_eq!(all(over_tcp), [K::TcpError]);
    assert_eq!(primary(over_tcp), []);
}

#[test]
fn an_option_that_libfabric_does_not_have_is_a_fault_only_where_the_plugin_fails() {
    for quiet in [
        "i:1:2 [0] NCCL INFO NET/OFI Setting FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES not supported.\n",
        "i:1:2 [0] NCCL INFO NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR\n",
    ] {
        assert_eq!(primary(quiet), [], "{quiet}");
    }
}

#[test]
fn a_provider_without_rdma_excuses_nothing() {
    let log = |provider: &str| {
        read(&format!(
            "n1:1:2 [0] NCCL INFO NET/OFI No eligible providers were found\n\
             n1:1:2 [0] NCCL INFO NET/OFI Selected provider is {provider}, fabric is 10.0.0.0/16 (found 1 nics)\n\
             n1:1:2 [0] NCCL INFO Using network AWS Libfabric\n"
        ))
    };
    let failures = |provider: &str| -> Vec<K> {
        let symptoms = log(provider).symptoms.into_iter();
        let counted = symptoms.filter(|symptom| symptom.grade > Grade::Note);
        counted.map(|symptom| symptom.kind).collect()
    };
    assert_eq!(failures("efa"), []);
    assert_eq!(failures("tcp"), [K::NoDevice, K::SocketFallback]);
}

#[test]
fn a_network_without_rdma_and_a_refused_state_are_read() {
    for (line, kind) in [
        (
            "ip-10-0-0-1:1:2 [0] NCCL INFO NET/OFI Selected provider is tcp, fabric is 10.0.0.0/16 (found 1 nics)",
            K::SocketFallback,
        ),
        ("NET/OFI Selected Provider is sockets", K::SocketFallback),
        ("NET/gIB : No device found", K::NoDevice),
        (
            "Error: init_connection_modify_qp: ibv_modify_qp RTR -> RTS: Invalid argument.",
            K::RtsRefused,
        ),
        (
            "Error: init_connection_modify_qp: ibv_modify_qp INIT -> RTR: Invalid argument.",
            K::ConnectInvalid,
        ),
        (
            " # RDMA: CQ handle error status: transport retry counter exceeded[0xc], opcode : 0x0",
            K::Completion(WcStatus::RetryExcErr),
        ),
    ] {
        assert_eq!(all(line), [kind], "{line}");
    }
}

#[test]
fn attempts_to_connect_with_which_a_log_ends_are_a_failure() {
    const REFUSED: &str = "n1:9:18 [0] NCCL INFO Call to connect returned Connection refused, retrying\n";
    let begin = "n1:9:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.0.0.1<0>\n";
    assert_eq!(
        all(&format!("{begin}{}", REFUSED.repeat(20))),
        [K::ConnectRefused]
    );
    let failed =
        "n1:9:18 [0] include/socket.h:390 NCCL WARN Connect to 10.0.0.2<21724> failed : Connection refused\n";
    assert_eq!(
        primary(&format!("{begin}{}{failed}", REFUSED.repeat(20))),
        [K::ConnectRefused]
    );
    let connected = "n1:9:18 [0] NCCL INFO Connected all rings\n";
    assert!(all(&format!("{begin}{}{connected}", REFUSED.repeat(20))).is_empty());
    assert!(
        all(&format!("{begin}{}", REFUSED.repeat(2))).is_empty(),
        "processes start one after the other"
    );
}
