//! What programs print at their only level for what goes wrong, or at none: a user takes it for a failure.

#![allow(missing_docs)]

mod common;

use common::{first, kinds};
use rdma_health_diagnosis::symptom::SymptomKind as K;

#[test]
fn a_failure_without_a_word_of_failure_is_shown() {
    for line in [
        // A warning of a provider of libfabric.
        "libfabric:42:1764::efa:ep_ctrl:fn():12<warn> The device is not initialized",
        "libfabric:42:1764::lpp:ep_ctrl:fn():12<warn> endpoint and CQ belong to different domains",
        "libfabric:42:1764::psm3:ep_ctrl:fn():12<warn> memory shortage detected",
        "libfabric:42:1764::efa:ep_ctrl:fn():12<warn> RQ[3] is full wqe_posted[8]",
        // klog's and glog's letter is the level.
        "E1127 10:11:12.123456      77 libfabric_backend.cpp:12] No connection found for agent: 7",
        "F1127 10:11:12.123456      77 rdma_transport.cpp:12] The batch was started before",
        // NVSHMEM's status of a call.
        "ibgda.cpp:4417: non-zero status: 7 The depth of the queue and the number of requests",
        // An exception.
        "RuntimeError: IB transport: the endpoint has no queue",
        "ValueError: the RDMA buffer and its peer have two sizes",
        // Words of no level.
        "ACK MR not initialised",
        "UCX: the GPU rank does not match",
    ] {
        assert_eq!(kinds(line), [K::Unrecognised], "{line}");
    }
}

#[test]
fn what_only_informs_stays_silent() {
    for line in [
        "libfabric:42:1764::efa:ep_ctrl:fn():12<info> The device requires registration",
        "libfabric:42:1764::verbs:ep_ctrl:fn():12<warn> NIC affinity policy is unknown, falling back to 'none'",
        "I1127 10:11:12.123456      77 libfabric_backend.cpp:12] No connection found for agent: 7",
        "ibgda.cpp:4417: non-zero status: 0 NVSHMEM_IBGDA",
        "WARNING: RDMA device mlx5_0 found",
        "RDMA requires a port that must be up",
    ] {
        assert!(kinds(line).is_empty(), "{line}");
    }
}

#[test]
fn a_setting_with_a_wrong_value_is_one_of_the_job() {
    for line in [
        "ibgda.cpp:4417: non-zero status: 7 NVSHMEM_IBGDA_RC_MAP_BY=foo is not supported.",
        "h1:77:88 [0] connect.cc:12 NCCL WARN NET/IB: NCCL_IB_SUBNET_PREFIX_LEN=33 is out of range [1,32]",
        "h1.77 Invalid value provided through PSM2_ADDR_FMT",
    ] {
        assert_eq!(first(line).0, "job-settings", "{line}");
    }
}

#[test]
fn the_name_of_a_function_or_one_word_names_no_cause() {
    for line in [
        // GDRCopy maps memory of a GPU for the CPU.
        "h1:77:88 [0] gdrwrap.cc:12 NCCL WARN gdr_pin_buffer_v2(addr 1a, size 7, flags 7) failed: 22",
        "ibgda.cpp:12: non-zero status: 7 gdrcopy pin_buffer failed",
        // What has not failed yet.
        "E1127 10:11:12.123456 77 efa_context.cpp:12] EFA: cuInit failed for device 0: unknown (7); GPU memory registration or a copy may fail",
        // A file that could not be written.
        "2026/11/27 10:11:12 createCDISpec(): can not create CDI json: read-only file system",
        "2026-11-27T10:11:12Z\tERROR\tsriov.go:12\tconfigSriovPFDevice(): fail to add udev rules",
        "2026-11-27T10:11:12Z\tERROR\tsriov.go:12\tconfigSriovInterfaces(): failed to save PF applied config to host",
        // A queue pair of a program, which no partition refuses.
        "Couldn't attach QP to MultiCast group",
        "Nov 27 10:11:12 123456 [A1B2C3] 0x01 -> fn: ERR 1B28: Requested MGID invalid, uses Reserved Flags: flags=0x1",
    ] {
        assert_eq!(first(line).0, "", "{line}");
    }
    assert!(kinds("failed to close UMAD portid").is_empty());
    assert_eq!(
        first("2026-11-27T10:11:12Z\tERROR\tsriov.go:12\tSetSriovNumVfs(): fail to reset NumVfs file").0,
        "virtual-functions"
    );
    assert_eq!(
        kinds(
            "h1:77:88 [0] common.cc:12 NCCL WARN NET/IB : mlx5_0:1 async fatal event on SRQ, unused for now (0x7f): SRQ catastrophic error"
        ),
        [K::QueueError]
    );
}

#[test]
fn verbs_and_objects_in_other_words_are_recognised() {
    for (line, kind) in [
        ("uccl: Failed to get IB devices", K::OpenFailed),
        ("Unable to allocate PD", K::CreateUnexplained),
        ("mlx5_0: couldn't read port attributes", K::OpenFailed),
        (
            "ucx.cpp:12: non-zero status: 7 Failed to connect endpoint in UCX transport.",
            K::ConnectFailed,
        ),
        (
            "libfabric.cpp:12: non-zero status: 7 No providers matched fi_getinfo query: 22",
            K::NoDevice,
        ),
        ("umad_open_port failed for device mlx5_0 port 1", K::OpenFailed),
        (
            "libfabric:42:1764::psm3:ep_ctrl:fn():12<warn> Connect protocol (3.1) is incompatible with 4.0",
            K::PeerDiffers,
        ),
        ("mlx5_0 port 1 is not an InfiniBand port", K::UnsupportedAdapter),
        (
            "libfabric:42:1764::psm3:ep_ctrl:fn():12<warn> Port state is not up for mlx5_0 port 1",
            K::PortNotActive,
        ),
        (
            "libfabric:42:1764::opx:ep_ctrl:fn():12<warn> hfi1 driver version 1.2 is less than minimum required 1.3",
            K::VersionMismatch,
        ),
        (
            "E1127 10:11:12.123456 77 ibv_loader.cpp:12] missing required verbs symbols, RDMA will be disabled.",
            K::LibraryMismatch,
        ),
    ] {
        assert_eq!(kinds(line), [kind], "{line}");
    }
}
