//! Lines of each program, and binary data.

use proptest::prelude::*;
use rdma_health_protocol::{Errno, WcStatus};

use super::*;
use crate::symptom::{Grade, SymptomKind};

fn read(text: impl AsRef<[u8]>) -> Log {
    let mut reader = LogReader::default();
    reader.feed(text.as_ref());
    reader.finish()
}

/// The only symptom of a log.
fn one(text: impl AsRef<[u8]>) -> Symptom {
    let log = read(&text);
    assert_eq!(
        log.symptoms.len(),
        1,
        "{:?} in {}",
        log.symptoms,
        String::from_utf8_lossy(text.as_ref())
    );
    log.symptoms.into_iter().next().unwrap()
}

fn kind(text: &str) -> SymptomKind {
    one(text).kind
}

#[test]
fn completions_of_every_nccl_are_read() {
    // NCCL 2.4.
    let old = one(
        "node1:14:72 [0] transport/net_ib.cu:788 NCCL WARN NET/IB : Got completion with error 4, opcode 1, len 21938, vendor err 81",
    );
    assert_eq!(old.kind, SymptomKind::Completion(WcStatus::LocProtErr));
    assert_eq!(old.named.vendor_error, Some(0x51), "NCCL prints it in decimal");
    assert_eq!(old.hosts, ["node1"]);
    // NCCL 2.12 to 2.18.
    let text = "node2:15902:15967 [3] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.11.10.2<51436> with error 4, opcode 0, len 0, vendor err 81 (Send) localGid ::ffff:10.10.11.161 remoteGid ::ffff:10.10.11.162";
    let middle = one(text);
    assert_eq!(middle.kind, SymptomKind::Completion(WcStatus::LocProtErr));
    assert_eq!(middle.named.peer.as_deref(), Some("10.11.10.2"));
    assert_eq!(middle.named.local_gid.as_deref(), Some("::ffff:10.10.11.161"));
    assert_eq!(middle.named.remote_gid.as_deref(), Some("::ffff:10.10.11.162"));
    // NCCL 2.19 to 2.26: no space after remoteGids.
    let newer = one(
        "w-0:3468:3905 [4] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.216.210.236<54862> with status=12 opcode=32616 len=0 vendor err 129 (Recv) localGid fd00:1148::22 remoteGidsfd00:1148::1f hca mlx5_4",
    );
    assert_eq!(newer.kind, SymptomKind::Completion(WcStatus::RetryExcErr));
    assert_eq!(newer.named.vendor_error, Some(0x81));
    assert_eq!(newer.named.remote_gid.as_deref(), Some("fd00:1148::1f"));
    assert_eq!(newer.named.device.as_deref(), Some("mlx5_4"));
    // NCCL 2.27 and later.
    let newest = one(
        "h:1:2 [0] transport/net_ib/p2p.cc:9 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) vendor_err=81  localGid ::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2 hca mlx5_0",
    );
    assert_eq!(
        (newest.kind, newest.named.vendor_error),
        (SymptomKind::Completion(WcStatus::LocProtErr), Some(81))
    );
    assert_eq!(newest.named.device.as_deref(), Some("mlx5_0"));
    assert_eq!(
        kind("NET/IB/GIN: Got completion from peer x with status=10 opcode=1 len=0 vendor err 136 (Put)"),
        SymptomKind::Completion(WcStatus::RemAccessErr)
    );
}

#[test]
fn completions_of_ucx_perftest_and_libmlx5_are_read() {
    let ucx = one(
        "[a670n1:162239:0:162239] ib_mlx5_log.c:177  Local protection on mlx5_0:1/IB (synd 0x4 vend 0x51 hw_synd 0/2)",
    );
    assert_eq!(ucx.kind, SymptomKind::Completion(WcStatus::LocProtErr));
    assert_eq!(
        (
            ucx.named.device.as_deref(),
            ucx.named.port,
            ucx.named.vendor_error
        ),
        (Some("mlx5_0"), Some(1), Some(0x51))
    );
    assert_eq!(
        kind("ib_mlx5_log.c:139  Remote OP on mlx5_1:1/RoCE (synd 0x14 vend 0x89 hw_synd 0/0)"),
        SymptomKind::Completion(WcStatus::RemOpErr)
    );
    assert_eq!(
        kind(
            "rc_verbs_iface.c:124  send completion with error: local protection error [qpn 0xf9db wrid 0x149vendor_err 0x51]"
        ),
        SymptomKind::Completion(WcStatus::LocProtErr)
    );
    assert_eq!(
        kind("Send completion with error: transport retry counter exceeded"),
        SymptomKind::Completion(WcStatus::RetryExcErr)
    );
    assert_eq!(
        kind(" Failed status 12: wr_id 0 syndrom 0x81"),
        SymptomKind::Completion(WcStatus::RetryExcErr)
    );
    let libmlx5 = "x\nmlx5: node7: got completion with error:\n00000000 00000000 00000000 00000000\n00000000 00000000 00000000 00000000\n00000000 00000000 00000000 00000000\n00000000 00008914 10000132 000045d2\n";
    let dump = one(libmlx5);
    assert_eq!(
        (dump.kind, dump.named.vendor_error, dump.line),
        (SymptomKind::Completion(WcStatus::RemOpErr), Some(0x89), Some(2))
    );
    let row = |bytes: &str| format!("[ 5.1] 00000000: {bytes}\n");
    let zero = row("00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00");
    let kernel = format!(
        "[5.1] infiniband mlx5_3: dump_cqe:272:(pid 0): dump error cqe\n{zero}{zero}{zero}{}",
        row("00 00 00 00 00 00 51 04 0a 00 01 2b 00 00 d1 d2")
    );
    let dump = one(kernel);
    assert_eq!(
        (dump.kind, dump.named.device.as_deref()),
        (SymptomKind::Completion(WcStatus::LocProtErr), Some("mlx5_3"))
    );
    // The kernel warns of the kind of queue first, and of the syndrome in the same line or in the next.
    let warning = "infiniband mlx5_0: mlx5_poll_one:530:(pid 0): Requestor error cqe on cqn 0x406:";
    for end in [" ", "\ninfiniband mlx5_0: mlx5_poll_one:532:(pid 0): "] {
        assert_eq!(
            kind(&format!("{warning}{end}syndrome 0x15, vendor syndrome 0x81")),
            SymptomKind::Completion(WcStatus::RetryExcErr),
            "{end:?}"
        );
    }
}

#[test]
fn calls_that_failed_are_read_with_their_error() {
    use SymptomKind as K;
    for (line, expected) in [
        (
            "misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
            K::RegMrNoMemory,
        ),
        (
            "NCCL WARN Call to ibv_reg_mr failed with error Bad address",
            K::RegMrFailed,
        ),
        ("NCCL WARN Call to ibv_reg_mr failed", K::RegMrFailed),
        (
            "NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
            K::RegMrFailed,
        ),
        (
            "UCX  ERROR ibv_reg_mr(address=0x15213b956010, length=65536, access=0xf) failed: Cannot allocate memory",
            K::RegMrNoMemory,
        ),
        (
            "NCCL WARN Call to ibv_create_qp failed with error Cannot allocate memory",
            K::CreateFailed,
        ),
        ("NCCL WARN Call to ibv_create_cq failed", K::CreateFailed),
        ("NCCL WARN Call to ibv_open_device failed", K::OpenFailed),
        (
            "NCCL WARN Call to ibv_modify_qp failed with error Invalid argument",
            K::ConnectInvalid,
        ),
        (
            "NCCL WARN Call to ibv_modify_qp failed with error Invalid argument errno 22",
            K::ConnectInvalid,
        ),
        (
            "NCCL WARN Call to ibv_modify_qp failed with 61 No data available, on dev rocep1s0f0:1, curr state INIT",
            K::ConnectNoData,
        ),
        (
            "NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable",
            K::ConnectUnreachable,
        ),
        (
            "NCCL WARN Call to ibv_modify_qp failed with error No route to host",
            K::ConnectUnreachable,
        ),
        (
            "NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
            K::ConnectTimedOut,
        ),
        (
            "NCCL WARN Call to ibv_modify_qp failed with error No such device",
            K::ConnectNoDevice,
        ),
        (
            "NCCL WARN Call to ibv_query_port failed with error Protocol not supported errno 93",
            K::VersionMismatch,
        ),
        (
            "fi_mr_reg failed, ret is:-12, Cannot allocate memory",
            K::RegMrNoMemory,
        ),
        (
            "mlx5_core 0000:41:00.0: mlx5_cmd_out_err:800:(pid 2): CREATE_MKEY(0x200) op_mod(0x0) failed, status limits exceeded(0x8), syndrome (0x18af6), err(-12)",
            K::ResourceLimit,
        ),
    ] {
        assert_eq!(kind(line), expected, "{line}");
    }
    let full = one(
        "h:1:2 [0] misc/ibvwrap.cc:309 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev rocep1s0f0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:192.168.2.1, remote GID ::ffff:192.168.4.1",
    );
    assert_eq!(full.kind, K::ConnectTimedOut);
    assert_eq!(full.named.device.as_deref(), Some("rocep1s0f0"));
    assert_eq!(
        (full.named.port, full.named.gid_index, full.named.errno),
        (Some(1), Some(3), Some(Errno::ETIMEDOUT))
    );
    assert_eq!(full.named.local_gid.as_deref(), Some("::ffff:192.168.2.1"));
    assert_eq!(full.named.remote_gid.as_deref(), Some("::ffff:192.168.4.1"));
    let limit = one(
        "[1744644100.5] [c:188662:0] ib_iface.c:1230 UCX  ERROR mlx5_0: ibv_create_cq(cqe=4096) failed: Cannot allocate memory : Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)",
    );
    assert_eq!(
        (limit.kind, limit.named.memlock_bytes),
        (K::CreateFailed, Some(65536))
    );
    assert_eq!(limit.named.device.as_deref(), Some("mlx5_0"));
    // Calls whose failure is normal for NCCL.
    for harmless in [
        "NCCL INFO Call to ibv_query_ece not supported",
        "NCCL INFO Call to ibv_reg_mr_iova2 skipped, internal_name doesn't exist",
        "ibv_devinfo",
    ] {
        assert_eq!(read(harmless).symptoms, [], "{harmless}");
    }
}

#[test]
fn reasons_for_a_job_without_rdma_are_read() {
    use SymptomKind as K;
    for (line, expected) in [
        ("gpu-1:8:9 [0] NCCL INFO NET/IB : No device found.", K::NoDevice),
        ("gpu-1:8:9 [0] NCCL INFO Using network Socket", K::SocketFallback),
        (
            "gpu-1:8:9 [0] NCCL WARN Bootstrap : no socket interface found",
            K::NoSocketInterface,
        ),
        (
            "NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
            K::GdrDisabled,
        ),
        (
            "NCCL INFO GPU Direct RDMA Disabled for GPU 4b000 / HCA 0 (distance 7 > 6)",
            K::GdrTooFar,
        ),
        ("NCCL WARN NET/IB : Unable to open device mlx5_2", K::OpenFailed),
        (
            "libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': libmlx5-rdmav34.so: cannot open shared object file",
            K::NoProvider,
        ),
        ("NCCL INFO Failed to open libibverbs.so[.1]", K::NoLibrary),
        (
            "libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.",
            K::MemlockWarning,
        ),
        (
            "NCCL WARN NET/IB : mlx5_0:1 Got async event : port error",
            K::PortError,
        ),
        (
            "NCCL WARN NET/IB : Got async event : local catastrophic error",
            K::DeviceFatal,
        ),
        (
            "NCCL INFO NCCL_IB_DISABLE set by environment to 1.",
            K::RdmaDisabled,
        ),
        (
            "nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)",
            K::PeerMemorySymbol,
        ),
        (
            "DMAR: [DMA Read NO_PASID] Request device [18:00.0] fault addr 0x7f00 [fault reason 0x06]",
            K::IommuFault,
        ),
        (
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x0021 address=0x1 flags=0x0020]",
            K::IommuFault,
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: X.cpp, unhandled system error (run with NCCL_DEBUG=INFO for details)",
            K::JobFailed,
        ),
        (
            "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)",
            K::CollectiveTimeout,
        ),
    ] {
        assert_eq!(kind(line), expected, "{line}");
    }
    for harmless in [
        "NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
        "NCCL INFO NCCL_IB_DISABLE set by environment to 0.",
        "NCCL WARN NET/IB : Got async event : port active",
        "NCCL INFO Using network IB",
        "NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)",
        "DMAR: [Firmware Bug]: Your BIOS is broken",
        "IBV_WC_SUCCESS",
    ] {
        assert_eq!(read(harmless).symptoms, [], "{harmless}");
    }
}

#[test]
fn failures_of_unknown_programs_are_read_by_their_error_number_or_kept_as_not_recognised() {
    use SymptomKind as K;
    for (line, expected) in [
        (
            "[3312] rdmad: setup of verbs ring failed: Cannot allocate memory",
            K::NoMemory,
        ),
        (
            "E0331 12:03:04 1 agent.cpp:281] mlx5_1: handover failed, rc=-13",
            K::NotPermitted,
        ),
        (
            "svc: RDMA lane to 10.0.0.3 lost: No route to host",
            K::ConnectUnreachable,
        ),
        (
            "ERROR fabric-manager: RDMA lane 3 entered state 7, giving up",
            K::Unrecognised,
        ),
    ] {
        let symptom = one(line);
        assert_eq!((symptom.kind, symptom.known), (expected, false), "{line}");
    }
    let many = (0..40)
        .map(|n| format!("ERROR rdma agent: lane {n} is stuck\n"))
        .collect::<Vec<_>>()
        .concat();
    let log = read(many);
    assert_eq!(log.symptoms.len(), MAX_UNRECOGNISED);
    assert_eq!(log.symptoms.iter().map(|symptom| symptom.count).sum::<u64>(), 40);
    for harmless in [
        "2026-01-01 INFO hint: if you see IBV_WC_RETRY_EXC_ERR in the logs raise NCCL_IB_TIMEOUT",
        "If you see `ibv_reg_mr failed: Cannot allocate memory`, raise the memlock limit.",
        "rdma_check: mlx5_0 port 1 errors=0 failed: 0, timeout=20",
        "gpu: ERROR the loss is not a number",
    ] {
        assert_eq!(read(harmless).symptoms, [], "{harmless}");
    }
}

#[test]
fn adapters_subnet_managers_gpus_and_other_programs_are_not_passed_over() {
    use SymptomKind as K;
    for (line, expected) in [
        (
            "[ 91.1] ib0: multicast join failed for ff12:401b:ffff::, status -22",
            K::JoinRefused,
        ),
        (
            "-E- Subnet Manager Check finished with errors: Missing master SM",
            K::NoSubnetManager,
        ),
        (
            "[ 3110.2] mana 7870:00:00.0: HWC: Request timed out: 60000 ms",
            K::DeviceStalled,
        ),
        (
            "[ 11.1] ice 0000:c1:00.0: Package download failed. Device now in Safe Mode",
            K::AdapterNotStarted,
        ),
        (
            "[ 15.1] RIP: 0010:bnxt_re_modify_qp+0x123/0x9a0 [bnxt_re]",
            K::DriverCrashed,
        ),
        (
            "[ 25.1] NVRM: Xid (PCI:0000:53:00): 79, pid=1, GPU has fallen off the bus.",
            K::GpuStopped,
        ),
        (
            "[jazz15:39570:0:39570] ud_ep.c:248  Fatal: UD endpoint 0x3b9a060: unhandled timeout error",
            K::PeerUnreachable,
        ),
        (
            "e001.53882PSM2 no hfi units are active (err=23)",
            K::PortNotActive,
        ),
        (
            " # na_ofi_msg_send(): fi_tsend() failed, rc: -113(No route to host)",
            K::ConnectUnreachable,
        ),
        (
            "n1:10:20 [0] socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3",
            K::PeerDiffers,
        ),
        (
            "[rank0]: DistBackendError: NCCL error in: x, remote process exited, NCCL version 2.21.5",
            K::JobFailed,
        ),
        (
            "[ 101.1] nvme nvme0: address resolution error (-110)",
            K::ConnectTimedOut,
        ),
        ("\t\tState: Initializing", K::PortInitializing),
        (
            "type=AVC avc:  denied  { open } for comm=\"tgtd\" path=\"/dev/infiniband/rdma_cm\"",
            K::NotPermitted,
        ),
        (
            "[ 25.1] mlx5_core 0000:54:00.0: Detected insufficient power on the PCIe slot (27W).",
            K::SlotPower,
        ),
        (
            "[ 25.1] mlx5_core 0000:54:00.0: mlx5_cmd_out_err:816:(pid 9): CREATE_TIR(0x900) failed, status bad parameter(0x3)",
            K::CommandRefused,
        ),
        (
            "[ 25.1] mlx5_core 0000:54:00.0: 2RTR_QP(0x503) failed, status bad parameter(0x3), err(-22)",
            K::ConnectInvalid,
        ),
    ] {
        assert_eq!(one(line).kind, expected, "{line}");
    }
    for (line, status) in [
        (
            "[ 101.1] nvme nvme0: RECV for CQE 0x0 failed with status WR flushed (5)",
            WcStatus::WrFlushErr,
        ),
        (
            "[ 101.1] scsi host11: ib_srp: failed send status 12",
            WcStatus::RetryExcErr,
        ),
        (
            "kiblnd_tx_complete()) Tx -> 10.1.1.3@o2ib cookie 0x1: failed 12",
            WcStatus::RetryExcErr,
        ),
        (
            "BLOCKSTORE INFO: CRITICAL_EVENT: RECV 10.0.A6 failed: IBV_WC_RETRY_EXC_ERR",
            WcStatus::RetryExcErr,
        ),
    ] {
        assert_eq!(one(line).kind, K::Completion(status), "{line}");
    }
}

#[test]
fn numbers_are_read_as_what_they_are_and_passed_tests_as_no_failure() {
    // Numbers that are not those of the C library, or of another process.
    for line in [
        "n1.53882 PSM2 can't open hfi unit: -1 (err=23)",
        "[ 101.1] nvmet_rdma: received IB QP event: QP fatal error (1)",
        "[ 22.2] mlx5_core 0000:04:00.0: mlx5_sriov_enable:169:(pid 2211): pci_enable_sriov failed : -12",
        "[ 12.2] nvidia: probe of 0000:53:00.0 failed with error -1",
    ] {
        assert_eq!(one(line).named.errno, None, "{line}");
    }
    for harmless in [
        "options nvidia NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords=\"PeerMappingOverride=1;\"",
        "[ 25.1] mlx5_core 0000:54:00.0: QUERY_HCA_CAP(0x100) op_mod(0x51) failed, status bad parameter(0x3), err(-22)",
        "[n1:12345] unable to open mca_btl_openib: librdmacm.so.1: cannot open shared object file (ignored)",
        "0 occurrences of \"IBV_WC_RETRY_EXC_ERR\"",
        "Total completion errors: 0 (IBV_WC_RETRY_EXC_ERR 0, IBV_WC_RNR_RETRY_EXC_ERR 0)",
        "ok 12 - ibv_reg_mr fails with ENOMEM",
        "ibv_reg_mr failed: Cannot allocate memory (expected)",
        "commit 1a2b3c: fix crash when ibv_modify_qp failed with ETIMEDOUT",
        "  - `Device XXX port not active` → RDMA port not in ACTIVE state",
        "n1:1:2 [0] NCCL WARN NUMA auto balancing enabled which can lead to variability",
        "[ 25.1] EDAC MC0: 1 CE memory read error on DIMM#0 (slot:0 syndrome:0x0)",
    ] {
        assert_eq!(read(harmless).symptoms, [], "{harmless}");
    }
    for line in [
        "[rdma.c:612:gf_rdma_create_qp] could not create QP",
        "[2025-07-15T13:57:42.4 ERROR rdma.c:2994] rdma_bind_addr() failed",
    ] {
        assert!(read(line).hosts.is_empty(), "{line}");
    }
}

#[test]
fn an_error_number_on_a_later_line_belongs_to_the_operation_that_failed() {
    let mpi = "Failed to create a completion queue (CQ):\n\nHostname: mpi2\nRequested CQE: 16384\nError:    Cannot allocate memory\n";
    let symptom = one(mpi);
    assert_eq!(
        (symptom.kind, symptom.named.errno, symptom.line),
        (SymptomKind::CreateFailed, Some(Errno::ENOMEM), Some(1))
    );
    let without = one("Failed to modify QP to RTR\nall done\n");
    assert_eq!(
        (without.kind, without.named.errno),
        (SymptomKind::ConnectFailed, None)
    );
}

#[test]
fn a_job_within_one_node_needs_no_network() {
    let start = "h:1:2 [0] NCCL INFO NET/IB : No device found.\nh:1:2 [0] NCCL INFO Using network Socket\n";
    let grades = |log: &Log| {
        log.symptoms
            .iter()
            .map(|symptom| symptom.grade)
            .collect::<Vec<_>>()
    };
    let unknown = read(start);
    assert_eq!(grades(&unknown), [Grade::Degraded, Grade::Degraded]);
    let local = read(format!(
        "{start}h:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2\n"
    ));
    assert_eq!(
        (local.nodes, grades(&local)),
        (Some(1), vec![Grade::Note, Grade::Note])
    );
    let channels = read(format!(
        "{start}h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    ));
    assert_eq!(channels.nodes, Some(1));
    let remote = read(format!(
        "{start}h:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8\n"
    ));
    assert_eq!(grades(&remote), [Grade::Degraded, Grade::Degraded]);
}

#[test]
fn settings_of_the_job_are_kept() {
    let log = read(
        "a:1:2 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0,mlx5_1\na:1:2 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.\nNCCL_FOO set to 1\n",
    );
    let settings: Vec<_> = log
        .settings
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(settings, ["NCCL_IB_GID_INDEX=3", "NCCL_IB_HCA=mlx5_0,mlx5_1"]);
    assert_eq!(log.lines, 3);
}

#[test]
fn one_fault_on_one_device_is_one_symptom_with_a_count() {
    let line = |device: usize| {
        format!(
            "h{device}:1:2 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) vendor_err=81 hca mlx5_{device}\n"
        )
    };
    let log = read((0..1000).map(|n| line(n % 2)).collect::<String>());
    assert_eq!(log.symptoms.len(), 2);
    assert_eq!(log.symptoms[0].count, 500);
    assert_eq!(log.symptoms[0].source, "log line 1");
    assert_eq!(log.hosts.len(), 2);
    let many = read((0..1000).map(line).collect::<String>());
    assert_eq!(many.symptoms.len(), MAX_SYMPTOMS);
    assert_eq!(many.dropped, 1000 - MAX_SYMPTOMS as u64);
}

#[test]
fn consequences_of_a_failure_are_secondary() {
    assert_eq!(
        one("with error 5, opcode 0: NET/IB : Got completion with error 5, vendor err 249").grade,
        Grade::Secondary
    );
    assert_eq!(one("ncclSystemError: System call").grade, Grade::Secondary);
}

#[test]
fn encodings_and_escapes_do_not_hide_a_line() {
    let line = "NCCL WARN NET/IB : Got completion with error 4, opcode 1, len 21938, vendor err 81";
    let utf16: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain(format!("{line}\r\n").encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    assert_eq!(one(utf16).kind, SymptomKind::Completion(WcStatus::LocProtErr));
    assert_eq!(
        one(line
            .replace("NET/IB", "\x1b[31mNET/IB\x1b[0m")
            .replace("completion", "comp\x1b[1mletion"))
        .kind,
        SymptomKind::Completion(WcStatus::LocProtErr)
    );
    assert_eq!(
        one(format!("10%\r20%\r{line}")).kind,
        SymptomKind::Completion(WcStatus::LocProtErr)
    );
    let latin: Vec<u8> = b"caf\xe9 ".iter().copied().chain(line.bytes()).collect();
    assert_eq!(one(latin).kind, SymptomKind::Completion(WcStatus::LocProtErr));
    let hostile = one(format!("\u{202e}\x07\u{9b}2J {line}"));
    assert!(
        hostile.text.chars().all(|c| !c.is_control() && c != '\u{202e}'),
        "{:?}",
        hostile.text
    );
}

#[test]
fn an_endless_line_uses_bounded_memory_and_the_next_line_is_read() {
    let mut reader = LogReader::default();
    for _ in 0..1000 {
        reader.feed(&[b'x'; 4096]);
    }
    assert!(reader.begun.capacity() <= 2 * MAX_LINE);
    reader.feed(b" Got completion with error 4\nNCCL WARN Call to ibv_reg_mr failed\n");
    let log = reader.finish();
    assert_eq!(log.lines, 2);
    let lines: Vec<_> = log.symptoms.iter().map(|symptom| symptom.line).collect();
    assert_eq!(
        lines,
        [Some(1), Some(2)],
        "the end of the endless line is searched, too"
    );
}

#[test]
fn the_last_line_needs_no_newline_and_an_empty_log_has_no_lines() {
    assert_eq!(read("").lines, 0);
    assert_eq!(read("a").lines, 1);
    assert_eq!(read("a\n").lines, 1);
    assert_eq!(read("a\n\n").lines, 2);
}

fn junk() -> impl Strategy<Value = Vec<u8>> {
    // Arbitrary content, mixed with the anchors.
    let words = prop::sample::select(vec![
        "Got completion ",
        "with error ",
        "status=",
        "IBV_WC_",
        "LOC_PROT_ERR(4)",
        "ibv_modify_qp",
        "ibv_reg_mr(",
        " failed",
        " with error ",
        "Invalid argument",
        "(synd 0x",
        "4 vend 0x",
        "ffffffffffffffffffffff",
        " on dev ",
        "mlx5_0:1",
        ":",
        "remoteGids",
        "localGid ",
        "GID index ",
        "99999999999",
        "vendor err ",
        "-1",
        "NCCL_IB_HCA",
        " set to ",
        "got completion with error:\n",
        "00000000 00008914 10000132 000045d2\n",
        "\n",
        "\r",
        "\x1b[",
        " NCCL ",
        "h:1:2",
        "DMAR: [",
        "fault",
        "for HCA 0 '",
        "RLIMIT_MEMLOCK is ",
        "(current: 18446744073709551615 kbytes)",
        "é",
        "—",
        "\u{202e}",
        "\n--------------------------------------------------------------------------\n",
        "\"--------------------------------------------------------------------------\"é\n",
        "Training started — epoch 0.\n",
        "from peer ",
        "UCX  ERROR ",
        ": ibv_",
    ]);
    let piece = prop_oneof![
        words.prop_map(|word| word.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..12)
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// A frame of Open MPI is read by sentences, which end at bytes.
#[test]
fn a_frame_may_have_any_characters() {
    let rule = "-".repeat(74);
    for line in [
        "Training — rank 0 of 8",
        "学習を開始します。",
        "état: à revoir!",
        "█▓░ 5 %",
    ] {
        for (before, after) in [("", ""), ("0: ", ""), ("{\"m\":\"", "\"é}"), ("é ", "")] {
            let log = format!("{before}{rule}{after}\n{before}{line}{after}\n{before}{line}{after}\n");
            assert_eq!(read(log.as_bytes()).lines, 3, "{log}");
        }
    }
}

proptest! {
    #[test]
    fn any_log_is_read_and_the_result_is_bounded(bytes in junk(), cut in 0_usize..400) {
        let whole = read(&bytes);
        prop_assert!(whole.symptoms.len() <= MAX_SYMPTOMS);
        for symptom in &whole.symptoms {
            // A control character is written in at most eight characters (`\u{10ffff}`).
            prop_assert!(symptom.text.chars().count() <= MAX_TEXT * 10);
            prop_assert!(symptom.text.chars().all(|c| !c.is_control()));
            for name in [&symptom.named.device, &symptom.named.peer, &symptom.named.local_gid, &symptom.named.remote_gid] {
                prop_assert!(name.as_ref().is_none_or(|name| name.len() <= 64 && name.chars().all(|c| c.is_ascii_graphic())));
            }
        }
        // The result does not depend on how the log is split into pieces.
        let mut reader = LogReader::default();
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        reader.feed(first);
        reader.feed(second);
        prop_assert_eq!(reader.finish(), whole);
    }
}
