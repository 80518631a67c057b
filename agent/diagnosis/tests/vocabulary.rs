//! Messages that a user pastes, by the vocabulary of the software that writes them, and texts that only quote such messages.

#![allow(missing_docs)]

mod common;

use common::{kinds, read};
use rdma_health_diagnosis::{
    lookup::{Meaning, lookup},
    symptom::{Grade, SymptomKind as K},
};
use rdma_health_protocol::{Errno, WcStatus};

fn each_shows(lines: &[(&str, K)]) {
    for (line, kind) in lines {
        assert_eq!(kinds(line), [*kind], "{line}");
    }
}

#[test]
fn kernel_messages_of_each_driver_show_their_failure() {
    each_shows(&[
        (
            "[ 91.1] ib1.8001: multicast join failed for ff12:401b:8001::1, status -22",
            K::JoinRefused,
        ),
        (
            "[ 91.1] ib3: sendonly multicast join failed for ff12:401b:ffff::16, status -110",
            K::NoSubnetManager,
        ),
        (
            "[ 91.1] mlx4_core 0000:05:00.0: CQ overrun on CQN 00008f",
            K::CqError,
        ),
        (
            "[ 91.1] mlx5_core 0000:5e:00.0: cq_err_event_notifier:580:(pid 0): CQ error on CQN 0x40a, syndrome 0x2",
            K::CqError,
        ),
        (
            "[ 91.1] mlx4_core 0000:05:00.0: Failed to allocate icm chunk (order 9)",
            K::ResourceLimit,
        ),
        ("[ 91.1] rdma_rxe: qp#21 moved to error state", K::QueueError),
        ("[ 91.1] rdma_rxe: err -12 from rxe_umem_get", K::HostMemory),
        (
            "[ 91.1] infiniband ionic_0: Couldn't create ib_mad QP1",
            K::CommandRefused,
        ),
        (
            "[ 91.1] infiniband qedr0: Couldn't open port 1",
            K::CommandRefused,
        ),
        (
            "[ 91.1] ionic 0000:08:00.3 ionic_0: opcode CREATE_QP (2) error BAD_ATTR (5)",
            K::CommandRefused,
        ),
        (
            "[ 91.1] infiniband rdmap79s0: Failed to allocate pd[-62]",
            K::DeviceStalled,
        ),
        (
            "[ 91.1] [qed_cxt_acquire_cid:944(eth0)]no CID available for protocol 2",
            K::ResourceLimit,
        ),
        (
            "[ 91.1] NVRM: fallen off the bus and is not responding to commands.",
            K::GpuStopped,
        ),
        ("[0] DAPL startup: RLIMIT_MEMLOCK too small", K::MemlockWarning),
        (
            "[ 91.1] irdma 0000:17:00.0 rocep23s0: abnormal ae_id = 0x401 bool qp=1 qp_id = 1, ae_src=5",
            K::QueueError,
        ),
        (
            "[ 91.1] iser: iser_cm_handler: rejected (8): status 8 conn 00000000ab id 00000000cd",
            K::NoListener,
        ),
        (
            "[ 91.1] isert: isert_cma_handler: unreachable (7): status -110 id 00000000ab np 00000000cd",
            K::PeerUnreachable,
        ),
        (
            "[ 91.1] iser: iser_cm_handler: route error (3): status -22 conn 00000000ab",
            K::RouteUnresolved,
        ),
        (
            "[ 91.1] mlx5_core 0000:5e:00.0: modify lag map port 1:1 port 2:1",
            K::BondMemberDown,
        ),
        (
            "DKMS autoinstall on 6.8.0-45-generic failed for irdma(10) mlnx-nfsrdma(10)",
            K::DriverNotBuilt,
        ),
    ]);
}

#[test]
fn an_interface_of_a_healthy_bond_and_an_adapter_without_rdma_are_no_failures() {
    for line in [
        "[ 91.1] mlx5_core 0000:5e:00.0: lag map port 1:1 port 2:2 shared_fdb:0 mode:queue_affinity",
        "[ 91.1] bond0: (slave ens1f0np0): link status definitely up, 100000 Mbps full duplex",
        "[ 91.1] ice 0000:17:00.0: RDMA is not supported on this device",
        "[ 91.1] i40e 0000:17:00.0: device is not RDMA capable",
        "NVSHMEM: NET/IB: Ip address 'fe80::1' is invalid for family AF_INET, ignoring address",
    ] {
        assert_eq!(kinds(line), [], "{line}");
    }
}

#[test]
fn libfabric_and_its_efa_provider_are_read_by_their_table_of_statuses() {
    let of = |text: &str| {
        format!(
            "libfabric:451:1708520807::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 22, message: {text} My EFA addr: fi_addr_efa://[fe80::13]:0:1"
        )
    };
    for (text, kind) in [
        ("Invalid receiver queue pair number (QPN).", K::PeerClosed),
        ("Connection was reset by remote peer", K::PeerClosed),
        (
            "Local memory registration is invalid, has insufficient access flags or does not match IOVA",
            K::Completion(WcStatus::LocProtErr),
        ),
        (
            "Remote scatter-gather list too short",
            K::Completion(WcStatus::RemInvReqErr),
        ),
        ("Message too long", K::Completion(WcStatus::LocLenErr)),
        ("Unsupported operation type", K::PostRefused),
    ] {
        assert_eq!(kinds(&of(text)), [kind], "{text}");
    }
    each_shows(&[
        (
            "n1:1:9 [7] NCCL WARN NET/OFI Couldn't open CQ. RC: -12, ERROR: Cannot allocate memory",
            K::CreateFailed,
        ),
        (
            "libfabric:4321:efa:domain:efa_domain_open():298<warn> efa_domain_init_dgram failed. err: 28",
            K::ResourceLimit,
        ),
        (
            "libfabric:812:ofi_rxm:fabric:rxm_conn_handle_eq_err():290<warn> fi_eq_readerr: err: 113, prov_err: Unknown error -6 (-6)",
            K::ConnectUnreachable,
        ),
    ]);
}

#[test]
fn libraries_over_rdma_are_read_by_their_own_words() {
    each_shows(&[
        (
            "DeepEP timeout for combine receivers, rank 5, responsible_channel = 2",
            K::CollectiveTimeout,
        ),
        (
            "DeepEP combine RDMA sender timeout, channel: 3, RDMA: 1, nvl: 2, dst RDMA: 0",
            K::PeerUnreachable,
        ),
        (
            "RuntimeError: DeepEP error: timeout (dispatch CPU)",
            K::CollectiveTimeout,
        ),
        (
            "nixl._bindings.nixlNotSupportedError: NIXL_ERR_NOT_SUPPORTED",
            K::BackendFailed,
        ),
        (
            "nixl._bindings.nixlRemoteDisconnectError: NIXL_ERR_REMOTE_DISCONNECT",
            K::PeerClosed,
        ),
        (
            "E0421 11:56:59.774282  709103 nixl_agent.cpp:259] getPluginParams: backend 'LIBFABRIC' not found",
            K::BackendMissing,
        ),
        (
            "[1746690477.9] [n6:611  :0] ucp_context.c:1268 UCX  WARN  transports 'rocm_ipc','rocm_copy' are not available, please use one or more of: posix, self, tcp",
            K::BackendMissing,
        ),
        (
            "WARN: GPU cannot map UAR of device mlx5_2. Skipping...",
            K::GpuDoorbellFailed,
        ),
        (
            "n1:1:9 [0] misc/socket.cc:441 NCCL WARN socketFinalizeConnect: wrong magic 1234 != 5678",
            K::ExchangeFailed,
        ),
        (
            "n1:1:9 [0] net.cc:190 NCCL WARN Error: network AWS Libfabric not found.",
            K::SettingUnmatched,
        ),
        (
            "n1:1:9 [0] transport/net_ib.cc:170 NCCL WARN NET/IB : mlx5_3:1 Got async error event: GID table change",
            K::GidChanged,
        ),
        (
            "[n1:0:100 - context.c:600] ERROR sharp_create_job failed: No Aggregation Manager (sharp_am) detected(-52)",
            K::SharpUnavailable,
        ),
        (
            "rdma_open_hca(575)....: No active HCAs found on the system",
            K::NoDevice,
        ),
        (
            "WARNING: One or more nonexistent OpenFabrics devices/ports were specified",
            K::SettingUnmatched,
        ),
    ]);
    // The event that ends it has no consequence.
    let healthy = "n1:1:9 [0] transport/net_ib.cc:170 NCCL WARN NET/IB : mlx5_3:1 Got async error event: SRQ limit reached";
    assert_eq!(kinds(healthy), []);
}

#[test]
fn errors_of_the_gpu_and_of_shared_memory_end_a_job_where_rdma_did_not_fail() {
    for (line, kind) in [
        (
            "n1:1:9 [0] enqueue.cc:1500 NCCL WARN Cuda failure 2 'out of memory'",
            K::ComputeError,
        ),
        (
            "n1:1:9 [0] init.cc:1 NCCL WARN HIP failure 'invalid device function'",
            K::ComputeError,
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:275, unhandled cuda error, NCCL version 2.20.5",
            K::ComputeError,
        ),
        (
            "n1:1:9 [0] misc/shmutils.cc:87 NCCL WARN Call to posix_fallocate failed: No space left on device /dev/shm/nccl-x",
            K::SharedMemory,
        ),
    ] {
        let symptoms = read(line).symptoms;
        let found: Vec<_> = symptoms
            .iter()
            .map(|symptom| (symptom.kind, symptom.grade))
            .collect();
        assert_eq!(found, [(kind, Grade::Unrecognised)], "{line}");
        let went_on = format!("{line}\nn1 step 100 loss 2.31\nTraining finished\n");
        let grades: Vec<_> = read(&went_on)
            .symptoms
            .iter()
            .map(|symptom| symptom.grade)
            .collect();
        assert_eq!(grades, [Grade::Note], "the job went on: {line}");
        let after = format!(
            "n1:1:9 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.1<1> with status=12 opcode=0 len=0 vendor err 129 (Send)\n{line}"
        );
        let found: Vec<_> = read(&after)
            .symptoms
            .iter()
            .map(|symptom| (symptom.kind, symptom.grade))
            .collect();
        assert!(
            found.contains(&(kind, Grade::Note)),
            "RDMA failed first: {found:?}"
        );
    }
}

#[test]
fn quoted_documentation_is_no_failure() {
    for text in [
        "| Code | Name | Meaning |\n|---|---|---|\n| 10 | IBV_WC_REM_ACCESS_ERR | A protection error at the peer |\n\
         | 13 | IBV_WC_RNR_RETRY_EXC_ERR | The peer posted no receive |",
        "IBV_EVENT_DEVICE_FATAL CA is in FATAL state\nIBV_EVENT_PORT_ERR Link became unavailable on a port",
        "RDMA_CM_EVENT_DEVICE_REMOVAL\n       The local RDMA device associated with the rdma_cm_id has been removed by the user.",
        "See the guide for what this message means in practice.\n```\nNCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129\n```",
        "> Yesterday the job of my colleague stopped with this:\n> ibv_create_cq failed: Cannot allocate memory",
        "  ucs_error(\"ibv_modify_qp(%s) failed: %m\", uct_ib_device_name(dev));",
        "providers/mlx5/qp.c:812:    mlx5_err(ctx, \"create_qp failed, status %d syndrome 0x%x\\n\",",
        "    regex: 'mlx5_core .* (health compromised|device removed)'",
        "openat(AT_FDCWD, \"/etc/libibverbs.d/mlx4.driver\", O_RDONLY) = -1 ENOENT (No such file or directory)",
        "An RDMA port may go down when the switch restarts. You should raise NCCL_IB_TIMEOUT if ibv_poll_cq reports a transport retry \
         counter exceeded error in such a case.",
    ] {
        assert_eq!(kinds(text), [], "{text}");
    }
}

#[test]
fn a_log_that_someone_pasted_into_a_text_is_read() {
    for text in [
        "## Report\n\nThe job stopped on the second day of the run.\n```\nn7:812:901 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4000> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n```",
        "> This is what the node of the job printed:\n> 2026-11-22 10:11:12 n7 UCX  ERROR mlx5_0: Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81)",
        "If you see this in the log, what can I do?\n\n    [rank3]: ib_poll_cq: IBV_WC_RETRY_EXC_ERR on mlx5_0",
        "openat(AT_FDCWD, \"/dev/infiniband/uverbs0\", O_RDWR|O_CLOEXEC) = -1 EACCES (Permission denied)",
    ] {
        assert_eq!(kinds(text).len(), 1, "{text}");
    }
}

#[test]
fn a_number_has_each_of_its_meanings_the_one_of_its_spelling_first() {
    let syndrome = |code, status| Meaning::CqeSyndrome(code, status);
    for (text, first) in [
        ("0x15", syndrome(0x15, WcStatus::RetryExcErr)),
        ("synd 0x13", syndrome(0x13, WcStatus::RemAccessErr)),
        ("syndrome 0x22", syndrome(0x22, WcStatus::RemAbortErr)),
        ("0x51", Meaning::VendorError(0x51, WcStatus::LocProtErr)),
        ("0x6e", Meaning::Errno(Errno::ETIMEDOUT)),
        ("21", Meaning::Symptom(K::Completion(WcStatus::GeneralErr))),
        ("524", Meaning::Errno(Errno::ENOTSUPP)),
        ("ENOTSUPP", Meaning::Errno(Errno::ENOTSUPP)),
        ("vendor err 83", Meaning::UnlistedVendorError(83)),
        ("0x8e", Meaning::UnlistedVendorError(0x8e)),
        (
            "IB_WC_RETRY_EXC_ERR",
            Meaning::Symptom(K::Completion(WcStatus::RetryExcErr)),
        ),
        ("limits exceeded(0x8)", Meaning::Symptom(K::ResourceLimit)),
        ("bad parameter(0x3)", Meaning::Symptom(K::CommandRefused)),
        ("GID table change", Meaning::Symptom(K::GidChanged)),
        (
            "local access violation work queue error",
            Meaning::Symptom(K::QueueAccess),
        ),
        ("syndrome 0x19c6d6", Meaning::Syndrome(0x19_c6d6)),
    ] {
        assert_eq!(lookup(text).first(), Some(&first), "{text}");
    }
    // Error 21 is EISDIR, too.
    assert!(lookup("0x15").contains(&Meaning::Errno(Errno::EISDIR)));
    assert_eq!(lookup("4711"), []);
}

#[test]
fn resources_of_a_pod_are_those_with_a_domain() {
    each_shows(&[
        (
            "0/4 nodes are available: 2 Insufficient rdma/hca_shared_devices_a, 2 Insufficient nvidia.com/gpu.",
            K::ResourceUnavailable,
        ),
        (
            "Warning  FailedScheduling  0/3 nodes are available: 3 Insufficient vpc.amazonaws.com/efa.",
            K::ResourceUnavailable,
        ),
    ]);
    for line in [
        "OpenSM ERR 1B11: failed to join the multicast group, insufficient components specified",
        "0/4 nodes are available: 4 Insufficient memory.",
        "insufficient components of type HCA in the inventory",
    ] {
        assert!(!kinds(line).contains(&K::ResourceUnavailable), "{line}");
    }
}

#[test]
fn a_short_phrase_is_not_a_part_of_a_longer_word() {
    each_shows(&[("ibwarn: no SM on this fabric", K::NoSubnetManager)]);
    for line in [
        "No SMC devices found",
        "SMB3 multichannel: no SMB Direct interface configured, using TCP",
    ] {
        assert_eq!(kinds(line), [], "{line}");
    }
}

#[test]
fn a_provider_that_is_not_found_is_not_a_missing_gid() {
    each_shows(&[
        (
            "# na_ofi_getinfo(): fi_getinfo failed, rc: -61(No data available).",
            K::NoDevice,
        ),
        (
            "2026:01:02-03:04:05:(35980) |CCL_ERROR| atl_ofi_helper.cpp:1210 atl_ofi_get_prov_list: fi_getinfo error: ret -61, providers 0",
            K::NoDevice,
        ),
    ]);
    // The description of a request that failed.
    let request = "UCX  ERROR RC QP 0x9d0 wqe[1]: RDMA_WRITE s-- [rqpn 0x9d4 dlid=0 dgid=::ffff:192.0.2.2 flow_label=0x0 sgid_index=3]";
    assert!(!kinds(request).contains(&K::NoGid), "{:?}", kinds(request));
}

#[test]
fn the_library_of_ascend_is_read_by_its_codes() {
    each_shows(&[
        (
            "EI0006: [PID: 77] 2026-01-02-03:04:05.678 Getting socket times out. Reason: Remote Rank did not send the data in time.",
            K::PeerUnreachable,
        ),
        (
            "[ERROR] HCCL(11,all_reduce):2026-01-02 [hccl_socket_manager.cc:816][Wait][LinkEstablish]wait socket establish timeout, role[0] rank[0]",
            K::PeerUnreachable,
        ),
        (
            "[rank1]: EI0009: [PID: 22] 2026-01-02-03:04:05.678 Transport init error. Reason: [Create][DestLink]Create Dest error!",
            K::PeerUnreachable,
        ),
    ]);
}

#[test]
fn what_a_process_could_not_do_by_itself_comes_before_the_connection_that_it_closed() {
    let failures = |text: &str| -> Vec<K> {
        let symptoms = read(text).symptoms.into_iter();
        symptoms
            .filter(|symptom| symptom.grade == Grade::Failure)
            .map(|symptom| symptom.kind)
            .collect()
    };
    for (text, expected) in [
        (
            "Couldn't allocate MR\nFailed to create MR\n Unable to perform rdma_client function\n Unable to init the socket connection",
            K::RegMrFailed,
        ),
        (
            "server error:\nethernet_read_keys: Couldn't read remote address\nclient error:\nFailed to modify QP to RTS",
            K::RtsRefused,
        ),
        (
            "nixlRemoteDisconnectError: NIXL_ERR_REMOTE_DISCONNECT\nnixlNotFoundError: NIXL_ERR_NOT_FOUND",
            K::PeerClosed,
        ),
    ] {
        assert_eq!(failures(text), [expected], "{text}");
    }
}
