//! What stands around a message, and failures of others than RDMA, decide nothing about it.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::{
    lookup::{Meaning, lookup},
    symptom::SymptomKind as K,
};

use common::{each_is, kinds as failures, read};

#[test]
fn one_decorated_line_in_a_log_is_read() {
    let line = "n1:7:9 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory";
    let event = "Warning  FailedScheduling  4m11s (x12 over 59m)  default-scheduler  0/12 nodes are available: 12 Insufficient rdma/hca.";
    for (line, kind) in [(line, K::CreateFailed), (event, K::ResourceUnavailable)] {
        for decorated in [
            format!("| {line} |"),
            format!("  | 2025-05-16T16:39:51.208-07:00 | {line}"),
            format!("+ {line}"),
            format!("// {line}"),
            format!("### Error: {line}"),
            format!("> > {line}"),
            format!("**{line}**"),
            format!("<p>{line}<br></p>"),
        ] {
            let text = format!("step 1 loss 2.4\n{decorated}\nstep 2 loss 2.3\n");
            assert_eq!(failures(&text), [kind], "{decorated}");
        }
    }
}

#[test]
fn a_page_about_errors_stays_silent() {
    let page = "# Troubleshooting of large jobs\n\nThis page explains what the messages mean.\n\n\
                - `NCCL WARN NET/IB : Got completion with error 12` usually means that a NIC is not reached.\n\
                For example, our cluster passes all of these checks.\n";
    let log = read(page);
    assert!(log.document && log.disputed == 0, "{page}");
}

#[test]
fn a_page_that_may_be_a_report_names_the_number_of_its_failures_and_judges_none() {
    let text = "## Cause\nThe limit of the process is too low for the job.\n## Solution\nRaise it, as #1234 says.\n\
                ```\nibv_create_qp failed: Cannot allocate memory\nibv_reg_mr failed: Cannot allocate memory\n```\n";
    let log = read(text);
    assert!(log.document && log.symptoms.is_empty(), "{log:?}");
    assert_eq!(log.disputed, 2);
    // Without a failing line there is nothing to ask about.
    let harmless = text.replace("failed: Cannot allocate memory", "returned a pointer");
    assert_eq!(read(&harmless).disputed, 0);
}

#[test]
fn failures_of_others_than_rdma_are_no_alarm() {
    for text in [
        "OSError: We couldn't connect to 'https://huggingface.co' to load this file",
        "mlflow: couldn't connect to server: Connection refused",
        "[1749803291.5] [n1:70:0] tcp_ep.c:1260 UCX  ERROR tcp_ep 0x3c (state=CONNECTED): send(110) failed: Input/output error\n\
         W0613 08:28:11.555796 7053 ucx_utils.cpp:43] Unexpected UCX error: Endpoint timeout",
        "n1:7:9 [0] NCCL WARN NET/IB : mlx5_1:1 Got async event : GID table changed\nstep 2 loss 2.4",
        "n1:7:9 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-b, error: No space left on device (28)\n\
         torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error, NCCL version 2.18.1",
        "n1:7:9 [0] init.cc:959 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000\n\
         torch.distributed.DistBackendError: NCCL error in: x.cpp:1, invalid usage (run with NCCL_DEBUG=WARN for details)",
        "n1:7:9 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n1<51159>\n\
         n1:7:9 [0] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x55a5\n\
         n1:8:9 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'",
        "[rank5]: ValueError: bad sample 81277\n\
         [rank2]:[E626 05:06:30.9 x.cpp:632] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)",
    ] {
        let mut found = failures(text);
        // Not recognised: the program failed, and nothing shows that RDMA did.
        found.retain(|kind| *kind != K::Unrecognised && !kind.is_of_other());
        assert!(found.is_empty(), "{text}: {found:?}");
    }
    for (text, kind) in [
        ("Couldn't connect to 10.0.0.4:18515", K::ExchangeFailed),
        (
            "n1:7:9 [0] NCCL WARN NET/IB : mlx5_1:1 Got async event : GID table changed\nTraining stopped",
            K::GidChanged,
        ),
        (
            "n1:7:9 [0] NCCL WARN Cuda failure 'out of memory'\n\
             n1:7:9 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<3> with status=12 opcode=0 len=0 vendor err 129",
            K::Completion(rdma_health_protocol::WcStatus::RetryExcErr),
        ),
    ] {
        assert!(failures(text).contains(&kind), "{text}: {:?}", failures(text));
    }
}

#[test]
fn a_line_is_explained_as_check_reads_it() {
    for (text, kind) in [
        (
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed",
            K::JobFailed,
        ),
        (
            "UCX ERROR no active messages transport to <no debug data>: Unsupported operation",
            K::SettingUnmatched,
        ),
        ("EI0006", K::PeerUnreachable),
        ("HcclAllreduce, error code is 9", K::CollectiveTimeout),
        ("HcclAllreduce, error code is 6", K::JobFailed),
        ("HcclAllreduce, error code is 12", K::PeerUnreachable),
        (
            "cudaHostRegister with IoMemory failed with error=800",
            K::GpuDoorbellFailed,
        ),
        (
            "erdma 0000:00:07.0: wait device init done failed.",
            K::AdapterNotStarted,
        ),
    ] {
        let found = lookup(text);
        let line = |meaning: &Meaning| matches!(meaning, Meaning::Line(symptom) if symptom.kind == kind);
        assert!(found.first().is_some_and(line), "{text}: {found:?}");
    }
    // A state in brackets is not what a line is about, and the vendor's error is not the C library's.
    assert!(
        lookup("hbldv_modify_qp(INIT) failed: 22")
            .iter()
            .all(|found| !matches!(found, Meaning::Term(_)))
    );
    assert_eq!(lookup("vendor_err 0xd"), [Meaning::UnlistedVendorError(13)]);
}

/// What a program reports while it tries, and what shows that it got there.
#[test]
fn a_later_success_makes_a_complaint_void() {
    let hmem = "libfabric:771:1761000000::core:core:ofi_hmem_init():676<warn> Failed to initialize hmem iface FI_HMEM_ROCR: No data available\n";
    let provider = "libfabric:771:1761000000::core:core:ofi_reg_dl_prov():675<warn> dlopen(libpsm3-fi.so): libpsm3-fi.so: cannot open \
                    shared object file: No such file or directory\n";
    let selected =
        "n1:771:800 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)\n";
    let skipped = "2024/04/03 18:59:23 error creating new device: \"missing RDMA device spec for device 0000:3b:00.0, RDMA device \
                   \\\"issm\\\" not found\"\n";
    let exposed = "2024/04/03 18:59:23 exposing \"63\" devices\n";
    let module =
        "modprobe: FATAL: Module nvidia_peermem not found in directory /lib/modules/6.8.0-1029-azure\n";
    let direct = "n1:61:141 [0] NCCL INFO NET/IB : GPU Direct RDMA (DMABUF) Enabled for HCA 0 'mlx5_0'\n";
    for text in [
        hmem.to_owned(),
        [hmem, provider, selected].concat(),
        [skipped, exposed].concat(),
        [module, direct].concat(),
    ] {
        assert_eq!(failures(&text), [], "{text}");
    }
    for (text, kind) in [
        (provider.to_owned(), K::BackendMissing),
        ([selected, provider].concat(), K::BackendMissing),
        (
            [skipped, "2024/04/03 18:59:23 exposing \"0\" devices\n"].concat(),
            K::ModuleMissing,
        ),
        (module.to_owned(), K::GdrDisabled),
    ] {
        assert_eq!(failures(&text), [kind], "{text}");
    }
}

#[test]
fn a_number_that_no_call_returned_and_a_failure_of_another_layer_are_no_alarm() {
    for text in [
        "2026-02-19T23:31:52.698027970Z\tLEVEL(-2)\tsriov/sriov.go:354\tcreateVFs(): configure VFs for RDMA device\t{\"count\": 1}",
        "[rank-2] rdma store connection opened (-2)",
        "rdma0: class priority: -5, weight=-3",
        "Warning  Failed  30s (x3 over 2m)  kubelet  Failed to pull image \"registry.local/rdma-bench:1.2\": not found",
        "E0804 05:20:44.874174 1321649 store_py.cpp:495] Failed to allocate buffer for put_parts operation, key: a",
        "n1:7:9 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n\
         n1:7:9 [3] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 6291456 bytes",
        "n1:7:9 [0] init.cc:981 NCCL WARN Invalid rank requested : 1/1\n\
         RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:514, invalid argument, NCCL version 2.7.8",
        "[rank8]:[E1012 03:11:09.101 ProcessGroupNCCL.cpp:629] [Rank 8] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4412) ran\n\
         a\nb\nc\nd\n[rank3]: FileNotFoundError: [Errno 2] No such file or directory: '/mnt/ds/shard-00991.tar'",
    ] {
        let found: Vec<_> = failures(text)
            .into_iter()
            .filter(|kind| !kind.is_of_other())
            .collect();
        assert_eq!(found, [], "{text}");
    }
    // A container that failed, which only has a name of RDMA.
    let backs_off = "Warning  BackOff  30s (x3 over 2m)  kubelet  Back-off restarting failed container rdma-perf in pod rdma-perf-0";
    assert_eq!(failures(backs_off), [K::Unrecognised]);
    // TCP was given memory of a GPU, which only RDMA can read.
    let bad_address = "E0619 08:11:01.100000 1100 tcp_transport.cpp:213] Session::writeBody failed. Error: Bad address\n\
        Decode transfer failed with exception KVTransferError: Failed to get kvcache from prefill instance, it might be dead";
    assert_eq!(failures(bad_address).first(), Some(&K::SocketFallback));
    assert_eq!(
        failures(
            "2026-02-19T23:32:12.98Z\tERROR\tsriov/sriov.go:657\tconfigSriovVFDevices(): VF link is not ready"
        ),
        [K::FunctionUnconfigured]
    );
}

#[test]
fn every_missing_module_is_named_and_one_that_left_the_kernel_is_not_missed() {
    let missing =
        |name: &str| format!("modprobe: FATAL: Module {name} not found in directory /lib/modules/6.1.0\n");
    assert_eq!(failures(&missing("ib_ucm")), []);
    each_is(&[(
        &["ib_ucm", "rdma_ucm", "ib_umad"].map(missing).concat(),
        "rdma-modules",
        "modprobe -a ib_umad rdma_ucm.",
    )]);
}

#[test]
fn messages_of_one_setting_lead_to_it() {
    each_is(&[
        (
            "neighbour: arp_cache: neighbor table overflow!",
            "neighbour-table-full",
            "gc_thresh3",
        ),
        (
            "IOC_LIBCFS_GET_NI error 100: Network is down",
            "addressing",
            "lnetctl net show",
        ),
        (
            " Failed to modify QP 302 to RTR\n Unable to Connect the HCA's through the link",
            "gid-index",
            "-x INDEX",
        ),
        (
            "/var/lib/dkms/nvidia-peer-memory/1.1/build/nv_peer_mem.c:44:10: fatal error: nv-p2p.h: No such file or directory",
            "peer-memory-path",
            "nv-p2p.h",
        ),
    ]);
}
