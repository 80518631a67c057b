//! Logs of jobs on GPU clusters, and what people write about them: what a user reads first.

#![allow(missing_docs)]

mod common;

use common::{each_is, first, primary, read};
use rdma_health_diagnosis::symptom::SymptomKind as K;

#[test]
fn that_a_job_gave_up_says_less_than_the_other_messages_of_its_line() {
    for (line, expected) in [
        (
            "both ranks died in ncclCommInitRank with NCCL error: invalid usage after NCCL WARN Failed to initialize any NET plugin.",
            K::NoDevice,
        ),
        (
            "RuntimeError: NCCL error: unhandled system error, NET/IB : No device found.",
            K::NoDevice,
        ),
        (
            "n1:1:2 [0] NCCL WARN ncclSystemError: Could not find any optimal provider",
            K::NoDevice,
        ),
        (
            "NCCL error: unhandled system error. Last error: Call to ibv_modify_qp failed with error Connection timed out",
            K::ConnectTimedOut,
        ),
    ] {
        assert_eq!(primary(line), [expected], "{line}");
    }
}

#[test]
fn sockets_of_nccl_need_no_path_to_gpu_memory() {
    let line = "n1:8:9 [2] NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 1 'virbr0'";
    assert_eq!(primary(line), []);
    let line = "n1:8:9 [2] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 1 'mlx5_0'";
    assert_eq!(primary(line), [K::GdrDisabled]);
}

#[test]
fn a_message_in_backquotes_is_a_failure_where_a_person_reports_it() {
    for (line, expected) in [
        (
            "The ring consistently fails during the first all-reduce with `ibv_modify_qp failed with 110 (Connection timed out)`.",
            K::ConnectTimedOut,
        ),
        (
            "`ibv_devinfo` inside the container prints `No IB devices found`.",
            K::NoDevice,
        ),
        (
            "The launch on two nodes aborts: `ibv_open_device failed for mlx5_0: Permission denied`.",
            K::OpenFailed,
        ),
        (
            "vLLM with NIXL: `ibv_modify_qp` to RTR failed with `Invalid argument` on the decode pod",
            K::ConnectInvalid,
        ),
    ] {
        assert_eq!(primary(line), [expected], "{line}");
    }
    for line in [
        "A job may end with `ibv_modify_qp failed with 110 (Connection timed out)`.",
        "If the limit is low, the job fails with `ibv_create_qp failed: Cannot allocate memory`.",
        "The call `ibv_modify_qp` fails with an error number.",
        "The job has stopped to end with `ibv_devinfo -v`.",
        "Q: The pod crashes with `ibv_reg_mr failed: Cannot allocate memory`.",
        "- The plugin no longer fails with `ibv_create_cq failed: Cannot allocate memory` on nodes with 8 NICs.",
        "The suite checks that the driver prints `ibv_create_qp failed: Invalid argument` for a bad attribute.",
        "Known errors: `ibv_create_qp failed: Cannot allocate memory`.",
        "The tool prints `ibv_open_device failed` when the device is not there.",
    ] {
        assert_eq!(primary(line), [], "{line}");
    }
}

#[test]
fn memory_that_ucx_could_not_register_points_to_the_limit() {
    for line in [
        "[1570471904.113390] [node11:20712:0] mpool.c:176  UCX  ERROR Failed to allocate memory pool chunk: Input/output error",
        "[1570471904.113390] [node11:20712:0] mpool.c:269  UCX  ERROR Failed to allocate memory pool (name=rc_recv_desc) chunk: Input/output error",
        "[1570471904.113390] [node11:20712:0] ucp_mm.c:76  UCX  ERROR failed to register address 0x7f00 (host) length 64 on md[1]=mlx5_0: \
         Input/output error (md supports: host)",
    ] {
        assert_eq!(primary(line), [K::RegMrFailed], "{line}");
        assert_eq!(first(line).0, "memlock-limit", "{line}");
    }
    let shared = "[1570471904.1] [n1:2:0] mpool.c:269  UCX  ERROR Failed to allocate memory pool (name=mm_recv_desc) chunk: Input/output error";
    assert!(!primary(shared).contains(&K::RegMrFailed));
}

#[test]
fn a_device_that_does_not_exist_by_its_name_is_a_setting() {
    for line in [
        "RuntimeError: RDMA device not found: mlx5_29",
        "ValueError: HCA 'mlx5_9' does not exist",
        "RDMA device mlx5_bond_7 not found",
    ] {
        assert_eq!(primary(line), [K::SettingUnmatched], "{line}");
        assert_eq!(first(line).0, "job-settings", "{line}");
    }
    // A device of characters, which a module makes.
    let line = "error creating new device: \"missing RDMA device spec for device 0000:1a:00.2, RDMA device \\\"issm\\\" not found\"";
    assert_eq!(primary(line), [K::ModuleMissing]);
}

#[test]
fn that_ucx_was_not_selected_follows_from_what_it_reports() {
    let failed = "ib_device.c:1163 UCX  ERROR   ibv_create_ah(dlid=49152 sl=0 port=1 dgid=::ffff:10.224.7.229 sgid_index=3) for UD mlx5 connect on mlx5_0 \
                  failed: Connection timed out\n";
    let end = "PML ucx cannot be selected\n";
    assert_eq!(primary(&format!("{failed}{end}")), [K::ConnectTimedOut]);
    assert_eq!(primary(end), [K::NoDevice]);
}

#[test]
fn ucx_without_support_for_gpus_comes_before_the_path_to_their_memory() {
    let failed = "ib_md.c:282  UCX  ERROR ibv_reg_mr(address=0x320000000, length=1024, access=0x10000f) failed: Bad address\n";
    for offer in [
        "UCX  WARN  transports 'cuda_copy','cuda_ipc' are not available, please use\none or more of: cma, rc, tcp\n",
        "UCX  WARN  transports 'cuda_copy','cuda_ipc' are not available, please use one or more of: cma, rc, tcp\n",
    ] {
        assert_eq!(
            first(&format!("{offer}{failed}")).0,
            "communication-library",
            "{offer}"
        );
    }
    assert_eq!(first(failed).0, "peer-memory-path");
}

#[test]
fn what_a_setting_makes_impossible_is_named_with_the_setting() {
    each_is(&[
        (
            "rpc_server.cc:111] Init RDMA failed!Invalid RDMA endpoint:  Fall back to TCP.",
            "job-settings",
            "IP:PORT",
        ),
        (
            "n1:1:2 [0] NCCL INFO NCCL_NET set by environment to gIB.\nn1:1:2 [0] NCCL WARN Failed to initialize any NET plugin",
            "job-settings",
            "NCCL_NET",
        ),
        (
            "UCX_TLS=tcp,sockcm,cuda_copy python -m scheduler --protocol ucx\n[1574185843.1] [n1:5:0] select.c:438  UCX  ERROR no active messages \
             transport to <no debug data>: Unsupported operation",
            "job-settings",
            "UCX_TLS",
        ),
        (
            "n1:1:2 [1] NCCL WARN NET/OFI Unexpected number of remote rails for dev 3. Expected 1 but got 2",
            "peer-settings",
            "vpc.amazonaws.com/efa",
        ),
        (
            "[1629755187.4] [n1:41:0] ucp_context.c:1114 UCX  ERROR exceeded transports/devices limit (72 requested, up to 64 are supported)",
            "communication-library",
            "UCX_NET_DEVICES",
        ),
        (
            "MPIDI_OFI_mpi_init_hook(599): OFI fi_open domain failed (ofi_init.c:599:MPIDI_OFI_mpi_init_hook:Invalid argument)",
            "communication-library",
            "VNI",
        ),
        (
            "[n1:122] 2 more processes have sent help message help-mpi-btl-openib-cpc-base.txt / no cpcs for port",
            "job-settings",
            "--mca pml ucx",
        ),
    ]);
}

#[test]
fn messages_of_transfer_engines_and_plugins_show_their_failure() {
    for (line, expected) in [
        (
            "W0324 02:24:00.960508 77 topology.cpp:67] Device /dev/infiniband/uverbs3 is not accessible for read/write",
            K::NotPermitted,
        ),
        (
            "W0324 02:24:00.960508 77 worker_pool.cpp:120] All rails failed for context mlx5_0 for 8 consecutive attempts, marking inactive",
            K::PeerUnreachable,
        ),
        (
            "E0324 02:24:00.960508 77 worker_pool.cpp:510] Worker: Timed out waiting for RDMA ready ACK for endpoint: 10.0.0.2@mlx5_1, deleting endpoint",
            K::PeerUnreachable,
        ),
        (
            "W0324 02:24:00.960508 77 ibv_loader.cpp:27] libibverbs missing required symbol: ibv_reg_dmabuf_mr, error: undefined",
            K::LibraryMismatch,
        ),
        (
            "E0324 02:24:00.960508 77 rdma_context.cpp:815] Uninitialized GID 3 on mlx5_0/1",
            K::NoGid,
        ),
        (
            "W0324 02:24:00.960508 77 context.cpp:210] Configured GID index 7 out of range [0, 3) for mlx5_0",
            K::NoGid,
        ),
        (
            "E0324 02:24:00.960508 7 libfabric_backend.cpp:614] Rail count mismatch (local: 4, remote: 8)",
            K::PeerDiffers,
        ),
        (
            "E0324 02:24:00.960508 7 nixl_plugin_manager.cpp:133] Plugin API version mismatch for UCX: expected 2, got 1",
            K::BackendMissing,
        ),
        (
            "/src/modules/transport/libfabric/libfabric.cpp:1433: non-zero status: 7 Unable to find the selected fabric.",
            K::NoDevice,
        ),
        (
            "n1:301:450 [1] NCCL WARN NET/OFI Insufficient Libfabric devices found",
            K::NoDevice,
        ),
        (
            "n1:301:450 [1] NCCL WARN NET/OFI unknown transport SENDRCV",
            K::SettingUnmatched,
        ),
        (
            "OSError: Timed out trying to connect to ucx://10.0.0.1:13337 after 30 s",
            K::PeerUnreachable,
        ),
        (
            "RuntimeError: rdma: no usable GID at index 3 of the table",
            K::NoGid,
        ),
        ("[n2:mpi_rank_5][async_thread] Got FATAL event 3", K::QueueAccess),
        ("[n2:mpi_rank_5][async_thread] Got FATAL event 10", K::PortError),
        (
            "2025:01:02-03:04:05:( 1234) |CCL_ERROR| atl_ofi_comm.cpp:310 init_transport: condition ret == ATL_STATUS_SUCCESS failed",
            K::BackendFailed,
        ),
        (
            "KVTransferError(bootstrap_room=12): Failed to send kv chunk of 12 to 10.0.0.2:3456",
            K::BackendFailed,
        ),
        // The claim of a pod names the device, not a setting of the job.
        (
            "Warning  FailedPrepareDynamicResources kubelet  Failed to prepare dynamic resources: NodePrepareResources failed for claim rdma-0: device \
             mlx5_3 not found",
            K::NetworkAttachFailed,
        ),
    ] {
        assert_eq!(primary(line), [expected], "{line}");
    }
}

#[test]
fn a_line_with_a_setting_may_report_a_failure() {
    let text = "ERROR: UCX_TLS=tcp,self: no RDMA device found\n";
    assert_eq!(primary(text), [K::NoDevice]);
    assert_eq!(
        read(text).settings.get("UCX_TLS").map(String::as_str),
        Some("tcp,self")
    );
    let text = "mpirun -x UCX_TLS=rc,sm -x NCCL_IB_TIMEOUT=22 -x NCCL_DEBUG=WARN ./all_reduce_perf -e 8G\n";
    assert_eq!(primary(text), []);
    assert!(read(text).settings.contains_key("UCX_TLS"));
}
