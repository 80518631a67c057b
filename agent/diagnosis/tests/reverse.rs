//! Messages that share their words with a failure and mean something else: the end of an object, a part of a longer name, the flag of a call, the
//! name of a source file, a program's own memory, a status of a library.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::{each_is, first, kinds};
use rdma_health_diagnosis::symptom::SymptomKind as K;
use rdma_health_protocol::WcStatus;

#[test]
fn the_end_of_an_object_is_no_failure_of_the_job() {
    for line in [
        "[ 1.1] infiniband rdmap0s6: Failed to deallocate pd-3 [-22]",
        "libibverbs: Failed to deallocate PD",
        "libfabric:812:1718000000::verbs:domain:vrb_domain_close():455<warn> ofi_domain_close fails",
        "libfabric:812:1718000000::efa:cq:efa_cq_close():952<warn> Unable to close ibv cq: Invalid argument",
        "E0331 12:03:04.222625 56060 libfabric_rail.cpp:682] fi_close domain failed for rail 3: Invalid argument",
        "E0331 12:03:04.222625 56060 libfabric_backend.cpp:1081] Rail Manager deregisterMemory failed",
        "E0331 12:03:04.222625 56060 rdma_endpoint.cpp:263] Failed to modify QP[3] to ERR during beginDestroy: Invalid argument",
        "rdma_provider_mlx5_dv.c: 249:spdk_rdma_provider_qp_disconnect: *ERROR*: Failed to modify ibv qp 0x7f00 state to ERR, rc 22",
        // A queue pair sends over the port that the adapter chooses.
        "W0331 12:03:04.222625 56060 rdma_endpoint.cpp:1247] [RDMA] mlx5dv_modify_qp_lag_port failed (qp_index=1, target_port=2): Invalid argument",
        // The driver looks into its firmware with these, and does without.
        "[ 1.1] mlx5_core 0000:3b:00.0: FWTracer: Failed to allocate PD -22",
        "[ 1.1] mlx5_core 0000:3b:00.0: Failed to create fw fatal reporter, err = -22",
        "[ 1.1] mlx5_core 0000:3b:00.0: Resource dump: Failed to create mkey, -22",
        "[ 1.1] nvmet_rdma: Failed to create BE CTRL for device nvme0. Continue without it.",
    ] {
        assert_eq!(kinds(line), [], "{line}");
    }
}

#[test]
fn what_only_shares_its_words_names_no_cause() {
    for line in [
        "[1718000000.123456] [node1:812  :0]        ucp_mm.c:1187 UCX  ERROR UCP_MEM_MAP_FIXED flag requires page aligned address",
        "[1718000000.123456] [node1:812  :0]  ucp_listener.c:323 UCX  ERROR cannot allocate memory for UCP listener",
        "node1:812:930 [0] gin_resources:58 NCCL WARN NET/OFI GIN plugin does not support FI_MR_ENDPOINT",
        "E0331 12:03:04.222625 56060 rdma_connection.cc:220] SendConnection::write - Failed to select channel",
        "E0331 12:03:04.222625 56060 transfer_engine_impl.cpp:655] Transfer Engine does not support overlapped memory region",
        "E0331 12:03:04.222625 56060 transfer_engine_impl.cpp:374] Failed to install rdma transport",
        "E0331 12:03:04.222625 56060 libfabric_topology.cpp:83] Failed to build PCIe to Libfabric mapping",
        "E0331 12:03:04.222625 56060 nixl_plugin_manager.cpp:100] Failed to find nixl_plugin_init in libplugin_UCX.so: undefined symbol",
        "rdma.c:2637:nvmf_rdma_create: *ERROR*: Failed to register interrupt for CM event channel",
        "rdma.c:3878:nvmf_rdma_poller_create: *ERROR*: Failed to set completion channel fd 9 to non-blocking",
        "mlx5_net: Can't allocate qp array memory.",
        "[ 1.1] irdma 0000:18:00.0: Invalid opcode = 3 in CQE",
        "[ 1.1] siw: device registration error -23",
        "src/modules/transport/ibrc/ibrc.cpp:950: non-zero status: 7 ibv_poll_cq failed",
    ] {
        assert_eq!(kinds(line), [K::Unrecognised], "{line}");
        assert_eq!(first(line).0, "", "{line}");
    }
    // What the objects and calls themselves report is read as before.
    for (line, expected) in [
        (
            "Failed to create a completion queue (CQ): Cannot allocate memory",
            K::CreateFailed,
        ),
        (
            "Failed to register internal buffer! buf: 0x7f00 len: 64: Bad address, libfabric efa",
            K::RegMrFailed,
        ),
        (
            "rdma: Unable to create memory region: Invalid argument",
            K::RegMrFailed,
        ),
        ("ibv_reg_mr failed: Cannot allocate memory", K::RegMrNoMemory),
        (
            "RDMA event channel creation failed: No such device",
            K::CmUnavailable,
        ),
        (
            "src/modules/transport/ibrc/ibrc.cpp:1071: non-zero status: 12 ibv_poll_cq failed, status: 12",
            K::Completion(WcStatus::RetryExcErr),
        ),
    ] {
        assert_eq!(kinds(line), [expected], "{line}");
    }
}

#[test]
fn clients_of_storage_name_their_limits_and_ends() {
    each_is(&[
        (
            "[ 1.1] nvme nvme1: unreachable (7): status -110 id 00000000ab12cd34",
            "fabric-or-peer",
            "",
        ),
        (
            "[ 1.1] nvme nvme1: Memory registrations not supported.",
            "unsupported-adapter",
            "",
        ),
        (
            "[ 1.1] iser: iser_create_device_ib_res: IB device does not support memory registrations",
            "unsupported-adapter",
            "",
        ),
        (
            "[ 1.1] nvme nvme1: Mandatory keyed sgls are not supported!",
            "peer-settings",
            "",
        ),
        (
            "[ 1.1] scsi host7: ib_srp: Out of MRs (mr_per_cmd = 3)",
            "hca-resources",
            "",
        ),
        (
            "[ 1.1] scsi host7: ib_srp: DREQ received - connection closed",
            "peer-failed",
            "",
        ),
        (
            "[ 1.1] smc: SMC-R lg 00000100 net 1 link removed: id 00000101, peerid 00000101, ibdev mlx5_0, ibport 1",
            "fabric-or-peer",
            "",
        ),
    ]);
}

#[test]
fn drivers_and_libraries_name_what_they_lack() {
    each_is(&[
        (
            "[ 1.1] irdma 0000:18:00.0: AEQ has overflowed",
            "device-fault",
            "",
        ),
        (
            "[ 1.1] irdma 0000:18:00.0: No MSI-X vectors reserved for RDMA.",
            "hca-resources",
            "",
        ),
        (
            "[ 1.1] irdma 0000:18:00.0: cqp opcode = 0x5 maj_err_code = 0xffff min_err_code = 0x8002",
            "driver-firmware",
            "",
        ),
        (
            "[ 1.1] efa 0000:00:1e.0: EFA version is lower than the minimal version the driver supports",
            "driver-firmware",
            "",
        ),
        (
            "UCX  ERROR The device lists are empty. Please specify the devices you would like to use",
            "job-settings",
            "",
        ),
        (
            "ib_iface.c:1440 UCX  ERROR both GID_INDEX and ROCE_SUBNET_LIST are specified, please select only one of them",
            "job-settings",
            "",
        ),
        (
            "node1:812:930 [0] misc/gdrwrap.cc:169 NCCL WARN gdr_pin_buffer_v2 not available; GDRCopy >= 2.5 required",
            "communication-library",
            "",
        ),
        (
            "[ 1.1] irdma 0000:18:00.0: MTU setting [512] too low for RDMA traffic. Minimum MTU is 576 for IPv4",
            "mtu",
            "",
        ),
        (
            "[ 1.1] irdma 0000:18:00.0: IRDMA hardware initialization FAILED init_state=3 status=-22",
            "driver-firmware",
            "",
        ),
        (
            "[ 1.1] infiniband irdma0: [Create QP Cmd Error] status=-5 waiting=1 completion_err=1 maj=0xffff min=0x8002 qpn=3",
            "driver-firmware",
            "",
        ),
        (
            "[ 1.1] efa 0000:00:1e.0: BARs unavailable. Requested 0x5, available 0x1",
            "pci-resources",
            "",
        ),
        (
            "[ 1.1] ib0: ib_sa_join_multicast failed, status -22",
            "partition-key",
            "",
        ),
        (
            "[ 1.1] nvmet_rdma: listening to 10.0.0.2:4420 failed (-19)",
            "addressing",
            "",
        ),
        (
            "[ 1.1] scsi host7: ib_srp: Path resolution failed",
            "addressing",
            "",
        ),
        (
            "ib_iface.c:1166 UCX  ERROR requested pkey 0xffff is invalid, should be in the range 0..0x7fff",
            "partition-key",
            "",
        ),
        (
            "node1:812:930 [0] NCCL WARN NET/IB: OOO RQ is force enabled but not supported on both sides of the connection",
            "job-settings",
            "",
        ),
    ]);
}

#[test]
fn a_state_behind_a_call_is_the_transition_that_failed() {
    for (line, expected) in [
        (
            "rdma_provider_mlx5_dv.c:  41:x: *ERROR*: ibv_modify_qp(IBV_QPS_INIT) failed, rc 22",
            K::InitRefused,
        ),
        (
            "rdma_provider_mlx5_dv.c:  67:x: *ERROR*: ibv_modify_qp(IBV_QPS_RTS) failed, rc 22",
            K::RtsRefused,
        ),
        (
            "ibv_modify_qp RTS failed, rc=22, errno=22 (Invalid argument)",
            K::RtsRefused,
        ),
        (
            "libibverbs: Unsupported comp_mask for create_cq",
            K::CreateRefused,
        ),
    ] {
        assert_eq!(kinds(line), [expected], "{line}");
    }
}

#[test]
fn healthy_lines_of_the_same_programs_stay_healthy() {
    for line in [
        "[ 1.1] nvme nvme1: address resolved (0): status 0 id 00000000ab12cd34",
        "[ 1.1] nvme nvme1: established (9): status 0 id 00000000ab12cd34",
        "[ 1.1] smc: SMC-R lg 00000100 net 1 link added: id 00000101, peerid 00000101, ibdev mlx5_0, ibport 1",
        "[ 1.1] scsi host7: ib_srp: new target: id_ext 5 ioc_guid 5 pkey ffff service_id 5 sgid fe80::1 dgid fe80::2",
        "[ 1.1] mlx5_core 0000:3b:00.0: Flow counters bulk query buffer size increased, bulk_query_len(8)",
        "rdma.c:2600:nvmf_rdma_create: *NOTICE*: Create IB device mlx5_0(0x55)/0x66 succeed.",
    ] {
        assert_eq!(kinds(line), [], "{line}");
    }
}
