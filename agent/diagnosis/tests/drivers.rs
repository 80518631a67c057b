//! Messages of drivers of the kernel and of programs above them: who refused what, in words that other drivers use as well.

#![allow(missing_docs)]

mod common;

use common::{each_is, first, kinds, read};
use rdma_health_diagnosis::symptom::SymptomKind as K;

fn each_shows(lines: &[(&str, &[K])]) {
    for (line, expected) in lines {
        assert_eq!(kinds(line), *expected, "{line}");
    }
}

#[test]
fn a_driver_without_memory_of_the_host_does_not_blame_the_adapter() {
    each_is(&[
        (
            "[ 91.1] hns3 0000:7d:00.0: Alloc ring memory fail! ret=-12",
            "host-memory",
            "",
        ),
        (
            "[ 91.1] hns3 0000:7d:00.0: failed(-12) to alloc CSQ desc",
            "host-memory",
            "",
        ),
        (
            "[ 91.1] [qedr_create_kernel_qp:1839(qedr0)]create qp: failed SQ shadow memory allocation",
            "host-memory",
            "",
        ),
        // Memory that the adapter manages.
        (
            "[ 91.1] mlx4_core 0000:05:00.0: Failed to allocate icm chunk (order 9)",
            "hca-resources",
            "",
        ),
        (
            "[ 91.1] [qedr_create_gsi_qp:382(qedr0)]create gsi qp: failed on ll2 start. rc=-12",
            "hca-resources",
            "",
        ),
    ]);
    // The firmware of the adapter manages this one.
    assert_eq!(
        first("[ 91.1] bnxt_en 0000:3b:00.0 ens1f0np0: hwrm ring alloc failure rc: 2").0,
        ""
    );
}

#[test]
fn a_driver_that_cannot_read_what_the_library_passes_does_not_fit_it() {
    each_shows(&[
        (
            "[ 91.1] hns3 0000:7d:00.0: ib_copy_from_udata error for create qp",
            &[K::VersionMismatch],
        ),
        (
            "[ 91.1] [qedr_copy_qp_uresp:1463(qedr0)]create qp: failed a copy to user space with qp icid=0x2f.",
            &[K::VersionMismatch],
        ),
    ]);
}

#[test]
fn mlx4_names_its_function_before_what_failed() {
    each_shows(&[
        (
            "[ 91.1] <mlx4_ib> create_pv_sqp: Couldn't create tunnel QP (-12)",
            &[K::CreateFailed],
        ),
        // The port did not start: no queue pair has a wrong address.
        (
            "[ 91.1] <mlx4_ib> __mlx4_ib_modify_qp: INIT_PORT failed for port 1",
            &[K::Unrecognised],
        ),
        (
            "[ 91.1] <mlx4_ib> pv_qp_event_handler: Fatal error (1) on a MAD QP on port 1",
            &[K::QueueError],
        ),
        (
            "[ 91.1] <mlx4_ib> handle_slaves_guid_change: Failed in get GUID INFO MAD_IFC",
            &[K::Unrecognised],
        ),
    ]);
}

#[test]
fn drivers_whose_messages_name_no_object_of_verbs_are_not_silent() {
    each_shows(&[
        (
            "[ 91.1] iw_cxgb4: c4iw_connect - cannot find route",
            &[K::Unrecognised],
        ),
        (
            "[ 91.1] iw_cxgb4: ARP failure during accept - tid 4 - dropping connection",
            &[K::Unrecognised],
        ),
        ("[ 91.1] infiniband ionic_0: wait status -110", &[K::Unrecognised]),
        (
            "[ 91.1] [qedr_can_post_send:3125(qedr0)]error: WQ is full. Post send on QP 00000000d3a1c2b4 failed (this error appears only once)",
            &[K::QueueFull],
        ),
        (
            "[ 91.1] [qedr_can_post_send:3125(qedr0)]error: WR is bad. Post send on QP 00000000d3a1c2b4 failed (this error appears only once)",
            &[K::Unrecognised],
        ),
        ("[ 91.1] rdma_rxe: no route to 10.1.2.7", &[K::ConnectUnreachable]),
        ("[ 91.1] rdma_rxe: Host not reachable", &[K::ConnectUnreachable]),
        (
            "[n7:mpi_rank_3][mv2_get_path_rec_sl] No response from SA",
            &[K::NoSubnetManager],
        ),
    ]);
}

#[test]
fn what_a_driver_does_without_does_not_alarm() {
    for line in [
        "[ 91.1] bnxt_en 0000:3b:00.0 ens1f0np0: Not enough resources to support NTUPLE filters, enough resources for up to 8 rx rings",
        "[ 91.1] bnxt_en 0000:3b:00.0 ens1f0np0: PF does not have admin privileges to reset the device",
        "[ 91.1] mlx4_core 0000:3b:00.0: Failed to map internal error buffer at 0x7f2c8a001000, size 64",
        "[ 91.1] mlx4_en 0000:3b:00.0: LSO not supported, please upgrade to later FW version to enable LSO",
        "[ 91.1] iw_cxgb4: could not create debugfs entry, continuing",
        "W1126 20:36:45.123456 4127 context.cpp:217] [RDMA] Relaxed ordering requested but NOT supported (ibv_reg_mr_iova2 missing). Falling back to strict ordering.",
        "W1126 20:36:45.123456 4127 ibgda_device_transport.cpp:217] [EP IBGDA] CUDA DMA-BUF control memory is unavailable; trying GPU-VA control buffer",
        "W1126 20:36:45.123456 4127 efa_transport.cpp:217] EfaTransport: No EFA devices found, falling back to all devices",
    ] {
        assert_eq!(kinds(line), [], "{line}");
    }
    // What it falls back to is slower.
    let line = "W1126 20:36:45.123456 4127 engine.cpp:217] RDMA transport failed: no RDMA device found, falling back to TCP";
    assert!(!read(line).symptoms.is_empty());
}

#[test]
fn a_target_that_asks_for_a_proof_refuses_the_host() {
    each_shows(&[
        (
            "[ 91.1] nvme nvme0: qid 0: authentication failed, error -13",
            &[K::StorageRefused],
        ),
        (
            "[ 91.1] nvme nvme0: qid 4: authentication setup failed",
            &[K::StorageRefused],
        ),
        (
            "[ 91.1] nvme nvme0: qid 0: authenticated with hash hmac(sha256) dhgroup null",
            &[],
        ),
    ]);
}

#[test]
fn a_file_that_is_missing_is_not_a_device() {
    for line in [
        "2026-11-26T20:36:45.123Z\tERROR\tservice\tfailed to write sriov result file\t{\"error\": \"open /etc/sriov/result.yaml: no such file or directory\"}",
        "2026-11-26T20:36:45.123Z\tERROR\tsriovoperatorconfig_controller\tFail to render metrics exporter manifests\t{\"error\": \"no such file or directory\"}",
        "E1126 20:36:45.123456       1 hostdevice.go:217] failed to get link for interface ens3f0v1 of SR-IOV: no such file or directory",
    ] {
        assert_eq!(first(line).0, "", "{line}");
        assert_eq!(kinds(line), [K::Unrecognised], "{line}");
    }
    assert_eq!(
        kinds("ERROR rdma agent: cannot stat /dev/infiniband/uverbs0: no such file or directory").len(),
        1
    );
    let device = "ERROR sriov: cannot retrieve the Mellanox device: no such file or directory";
    assert_eq!(kinds(device), [K::DeviceAbsent]);
}

#[test]
fn words_of_a_status_in_a_plural_are_none() {
    let line =
        "E1126 20:36:45.123456 4127 nixl_agent.cpp:217] createXferReq: no backends support remote operations";
    assert_eq!(kinds(line), [K::Unrecognised]);
}

#[test]
fn what_the_host_does_not_give_an_adapter_is_no_limit_of_the_adapter_and_no_version() {
    each_is(&[
        (
            "[   9.1] mlx5_core 0000:01:00.0: swiotlb buffer is full (sz: 4096 bytes), total 32768 (slots), used 3 (slots)\n",
            "hca-resources",
            "SWIOTLB",
        ),
        (
            "[   5.2] mlx5_core 0000:01:00.0: mlx5_load:1068:(pid 26): Failed to alloc IRQs\n\
            [   6.0] mlx5_core 0000:01:00.0: init_one:1349:(pid 26): mlx5_load_one failed with error code -28\n",
            "driver-firmware",
            "MSI-X",
        ),
        (
            "[   9.8] mlx5_core 0000:01:00.0: mlx5_cmd_out_err:803:(pid 1440): SET_ROCE_ADDRESS(0x761) op_mod(0x0) failed, status bad parameter(0x3), \
            syndrome (0x1), err(-22)\n",
            "driver-firmware",
            "MAC address",
        ),
    ]);
}
