//! Forms of messages that many drivers and services share, whatever their other words: the event that came or did not come, more than a
//! device has, a device that goes away, what keeps a module out.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

mod common;
#[path = "common/healthy.rs"]
mod healthy;

use common::{each_is, kinds};
use healthy::{causes, node};
use rdma_health_diagnosis::symptom::SymptomKind as K;

#[test]
fn the_cause_has_a_step_of_its_own() {
    each_is(&[
        (
            "[ 1.1] CIFS: VFS: CONFIG_CIFS_SMB_DIRECT is not enabled\n[ 1.2] CIFS: VFS: cifs_mount failed w/return code = -2",
            "rdma-modules",
            "Boot a kernel that is built with CONFIG_CIFS_SMB_DIRECT",
        ),
        (
            "[ 1.1] infiniband mlx5_0: __ib_cache_gid_add: unable to add gid 0000:0000:0000:0000:0000:ffff:0a64:0702 error=-28",
            "hca-resources",
            "The GID table of the port has no entry left",
        ),
        (
            "[ 1.1] rxe0: rxe_cq_chk_attr: cqe(65536) > max_cqe(32767)\nibv_create_cq failed: Invalid argument",
            "hca-resources",
            "asked the device for more than it offers",
        ),
        (
            "[ 1.1] mlx4_core 0000:05:00.0: Failed to allocate mtts for 262144 pages(order 18)",
            "hca-resources",
            "log_num_mtt",
        ),
        (
            "[ 1.1] Oops: 0000 [#1] SMP\n[ 1.1] Workqueue: ib-comp-wq ib_cq_poll_work [ib_core]\n[ 1.1] RIP: 0010:__queue_work+0x1b/0x340",
            "driver-firmware",
            "Keep the report",
        ),
        (
            "modprobe: ERROR: could not insert 'nv_peer_mem': Invalid argument",
            "peer-memory-path",
            "Build the module again",
        ),
        (
            "0000:3b:00.0 'MT27800 Family [ConnectX-5] 1017' drv=igb_uio unused=mlx5_core,vfio-pci",
            "rdma-modules",
            "bind the function to mlx5_core",
        ),
        (
            "could not add new controller: failed to load transport rdma",
            "rdma-modules",
            "",
        ),
        (
            "nvmf_rdma_handle_device_removal: *NOTICE*: Port 10.0.0.9:4420 on device mlx5_1 is being removed.\n\
             nvme_rdma.c:1012:nvme_rdma_resolve_addr: *ERROR*: rdma_resolve_addr, 19 (No such device)",
            "devices-missing",
            "what removed the device",
        ),
    ]);
}

#[test]
fn an_event_is_read_by_its_words_and_by_whether_it_came() {
    for (line, expected) in [
        (
            "[ 1.1] rtrs_client L2012: <blk@srv2>: CM error (CM event: unreachable, err: -110)",
            K::PeerUnreachable,
        ),
        (
            "[ 1.1] rtrs_client L2020: <blk@srv2>: CM error (CM event: address error, err: -19)",
            K::AddressUnresolved,
        ),
        (
            "[ 1.1] ksmbd: smb_direct: Unexpected RDMA CM event. cm_id=00000000a, event=unreachable (7)",
            K::PeerUnreachable,
        ),
        (
            "Timeout waiting for RDMA_CM_EVENT_ESTABLISHED",
            K::PeerUnreachable,
        ),
        ("Did not get RDMA_CM_EVENT_ADDR_RESOLVED", K::AddressUnresolved),
        ("wait for RDMA_CM_EVENT_ROUTE_RESOLVED failed", K::RouteUnresolved),
        ("[rdma] handshake timeout with peer 10.0.0.9", K::PeerUnreachable),
        (
            "IBSocket RDMA://node/mlx5_0:1/953 still in ACCEPTED state after wait 15s",
            K::PeerUnreachable,
        ),
        (
            "mount.lustre: mount 10.1.0.3@o2ib:/scratch at /mnt failed: Input/output error",
            K::PeerUnreachable,
        ),
        (
            "[ 1.1] scsi host7: ib_srp: Sending CM REQ failed",
            K::PeerUnreachable,
        ),
        ("rdma: QP negotiation with 10.0.0.9 timed out", K::PeerUnreachable),
        ("wait for CONNECTED state 10", K::CmFailed),
        (
            "srp_daemon[812]: bad MAD status (110) from lid 1",
            K::NoSubnetManager,
        ),
        ("ibv_get_device_list found 0 devices", K::NoDevice),
        (
            "rdma.c: *ERROR*: Unable to create RDMA CM event channel: No such device",
            K::CmUnavailable,
        ),
        (
            "src/ibnetdisc.c:811; can't open MAD port (mlx5_0:1)",
            K::OpenFailed,
        ),
        ("Error from osm_opensm_bind (0x2A)", K::ManagerNotStarted),
        (
            "MST modules:\n------------\n    MST PCI module is not loaded\n    MST PCI configuration module is not loaded",
            K::ToolNoAccess,
        ),
        ("eRPC: failed to resolve InfiniBand port index 3", K::NoDevice),
        (
            "-E- Failed to send Register MFRL: Unknown MAD error (268)",
            K::FirmwareRefused,
        ),
        (
            "[ 1.1] CIFS: VFS: smbd_create: Possible CQE overrun, device reporting max_cqe 255 max_qp_wr 255",
            K::ResourceLimit,
        ),
    ] {
        assert_eq!(kinds(line), [expected], "{line}");
    }
    for line in [
        "INFO waiting for RDMA_CM_EVENT_ESTABLISHED (timeout 5s)",
        "rdma: got RDMA_CM_EVENT_ESTABLISHED after 3 ms",
        "nvme nvme1: queue_size 128 > ctrl sqsize 32, clamping down",
        "rdma device mlx5_0 was removed from the pod",
        "# CONFIG_CIFS_SMB_DIRECT is not set",
        "[1718000000.123456] [node1:812  :0]  ib_mlx5.c:812  UCX  REQ   req 0x55 of mlx5_0 failed over to lane 1",
        "systemd-udevd[812]: mlx5_0: Process '/usr/bin/rdma_rename mlx5_0 NAME_FALLBACK' failed with exit code 1.",
        "rping: client DISCONNECT EVENT...",
        "MST modules:\n------------\n    MST PCI module is not loaded\n    MST PCI configuration module loaded",
        "Raw Errors Per Lane             : 12,0,5,1\nLink Down Counter               : 0\nLink Error Recovery Counter     : 0",
        "You can find detailed errors/warnings in: /var/tmp/ibdiagnet2/ibdiagnet2.log",
    ] {
        assert_eq!(kinds(line), [], "{line}");
    }
}

#[test]
fn how_a_program_ended_is_not_an_error_number() {
    let found = kinds("mlx5_0: ibv_devinfo failed with exit code 1");
    assert!(!found.contains(&K::NotPermitted), "{found:?}");
}

#[test]
fn what_needs_no_peer_is_not_explained_by_a_gid() {
    let found = causes(
        &node(),
        "ERROR: prepare_ibv_qp() failed to modify QP from ERR to INIT state (ret = -3)",
    );
    assert!(found.iter().all(|cause| cause.id != "gid-index"), "{found:?}");
    assert!(found.iter().any(|cause| cause.id == "job-settings"), "{found:?}");
}

#[test]
fn the_fault_of_the_iommu_comes_before_what_the_adapter_then_refused() {
    let log = "[ 5.1] arm-smmu-v3 arm-smmu-v3.9.auto: event: F_TRANSLATION client: 0009:01:00.0 sid: 0x90100 ssid: 0x0 iova: 0xffff ipa: 0x0\n\
               [ 5.2] mlx5_core 0009:01:00.0: mlx5_cmd_out_err:816:(pid 4119): CREATE_MKEY(0x200) op_mod(0x0) failed, status bad resource(0x5), syndrome \
               (0x4a1d02), err(-22)";
    let found = causes(&node(), log);
    assert_eq!(
        found.first().map(|cause| cause.id),
        Some("iommu-translation"),
        "{found:?}"
    );
}
