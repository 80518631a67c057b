//! Logs of services that use RDMA: Lustre, NVMe over Fabrics, DRBD, `BeeGFS`, NFS, SPDK. The cause is named with a step for this service,
//! and lines about what works do not count as failures.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

mod common;
#[path = "common/healthy.rs"]
mod healthy;

use common::{each_is, kinds};
use healthy::{causes, node};
use rdma_health_diagnosis::symptom::SymptomKind as K;

#[test]
fn a_line_about_what_works_is_no_failure() {
    for line in [
        "Login to [iface: iser, target: iqn.2020-07.com.example:lun1, portal: 192.168.2.58,3260] successful.",
        "iscsid: iser login timeout is 15 seconds",
        "nvme nvme0: keep-alive timeout set to 30",
        "ldmsd: Listening on the 'rdma' transport, port 411",
        "IBVSocket: connect to 10.0.0.4:8003 established",
        "hg: Requested OFI provider verbs;ofi_rxm is available",
        "libfabric:verbs: fi_av_insert: inserted 4 addresses",
        "[ 12.1] mlx5_core 0000:3b:00.0: fw_status: 0x0",
        "Max locked memory         unlimited            unlimited            bytes",
        "ib_srpt: ***ERROR***: mlx5_0-1: MAD agent registration failed (-93). Note: this is expected if SR-IOV is enabled.",
        "drbd r0 rdma:stor2: tx_event: wc.status = IB_WC_SUCCESS 0",
    ] {
        assert_eq!(kinds(line), [], "{line}");
    }
    for (line, expected) in [
        (
            "iscsiadm: Could not login to [iface: iser, target: iqn.x, portal: 192.168.2.58,3260].",
            K::CmFailed,
        ),
        ("Error 7 listening on the 'rdma' transport.", K::CmUnavailable),
        (
            "[ 12.1] mlx5_core 0000:3b:00.0: fw_status: 0x8001",
            K::DeviceFatal,
        ),
        (
            "Max locked memory         65536                65536                bytes",
            K::MemlockWarning,
        ),
    ] {
        assert_eq!(kinds(line), [expected], "{line}");
    }
}

#[test]
fn the_status_of_a_completion_is_read_in_the_words_of_the_kernel() {
    for (line, first) in [
        (
            "drbd r0 rdma:stor2: tx_event: wc.status != IB_WC_SUCCESS 12",
            "fabric-or-peer",
        ),
        (
            "drbd r0 rdma:stor2: tx_event: wc.status = IB_WC_RNR_RETRY_EXC_ERR",
            "peer-failed",
        ),
        (
            "LNetError: 2046:0:(o2iblnd_cb.c:4021:kiblnd_complete()) RDMA (tx: 00000000c12fa8d2) failed: 12",
            "fabric-or-peer",
        ),
    ] {
        let found = causes(&node(), line);
        assert_eq!(found.first().map(|cause| cause.id), Some(first), "{line}");
    }
}

#[test]
fn the_next_step_is_one_for_the_service() {
    each_is(&[
        (
            "LNetError: 2134:0:(o2iblnd_cb.c:2440:kiblnd_passive_connect()) peer_ni's port (10.20.0.41:39211) is not privileged",
            "peer-settings",
            "lnetctl",
        ),
        (
            "[ 201.8] LNetError: 1502:0:(o2iblnd.c:2710:kiblnd_hdev_get_attr()) IB device does not support FMRs nor FastRegs, can't register memory: rc = -6\n\
             [ 201.9] LNetError: 1502:0:(o2iblnd.c:3642:kiblnd_startup()) ko2iblnd: Can't initialize device: rc = -6\n\
             [ 202.9] LNetError: 105-4: Error -6 starting up LNI o2ib",
            "unsupported-adapter",
            "fast registration",
        ),
        (
            "[ 1.1] LNetError: 1498:0:(o2iblnd.c:2811:kiblnd_dev_failover()) Failed to bind eth0:10.0.4.12 to device(0000000000000000): -19\n\
             [ 1.2] LNetError: 105-4: Error -19 starting up LNI o2ib",
            "addressing",
            "interface that is of no RDMA device",
        ),
        (
            "[ 7.1] nvme nvme2: Connect rejected: status 28 (consumer defined) nvme status 6 (resource not found).",
            "hca-resources",
            "--nr-io-queues",
        ),
        (
            "rdma_utils.c: 341:spdk_rdma_utils_get_translation: *ERROR*: No translation for ptr 0x7f31c8021000, size 4096",
            "application-memory",
            "spdk_mem_register",
        ),
        (
            "[2020-11-17 17:02:13] rdma.c: *ERROR*: Unable to listen on transport RDMA. The transport must be created first.",
            "job-settings",
            "nvmf_create_transport",
        ),
        (
            "ice 0000:31:00.0 ens2f0: Cannot change channels when RDMA is active",
            "modules-in-use",
            "modprobe -r irdma",
        ),
        (
            "mkdir: cannot create directory `/sys/kernel/config/rdma_cm': Operation not permitted",
            "rdma-modules",
            "mount -t configfs",
        ),
        (
            "\"lastSyncError\": \"write /sys/bus/pci/devices/0000:3b:00.1/sriov_numvfs: cannot allocate memory\"",
            "virtual-functions",
            "Above 4G Decoding",
        ),
        (
            "kernel: vfio_pin_pages_remote: RLIMIT_MEMLOCK (67108864) exceeded",
            "memlock-limit",
            "hard_limit",
        ),
        (
            "xio_rdma_datapath.c:1300:7: error: 'IB_WC_FAST_REG_MR' undeclared (first use in this function)",
            "kernel-module-build",
            "ofa_kernel",
        ),
    ]);
}

#[test]
fn an_answer_of_an_nvme_target_differs_from_a_command_that_the_host_gave_up() {
    for (status, expected) in [
        ("7", K::PeerUnreachable),
        ("880", K::PeerUnreachable),
        ("881", K::PeerUnreachable),
        ("385", K::ResourceLimit),
        ("386", K::PeerDiffers),
        ("388", K::StorageRefused),
    ] {
        let line = format!("nvme nvme0: Connect command failed, error wo/DNR bit: {status}");
        assert_eq!(kinds(&line), [expected], "{line}");
    }
}

#[test]
fn an_adapter_that_is_gone_or_silent_is_named() {
    for (line, first) in [
        (
            "LNetError: 231:0:(o2iblnd_cb.c:3721:kiblnd_event_handler()) Fatal device error for NI 10.20.0.4@o2ib",
            "device-fault",
        ),
        (
            "LustreError: 0-0: Received notification of device removal",
            "devices-missing",
        ),
        (
            "rpc :TIRPC :EVENT :rpc_rdma_event_handler() 0x7f[3] cma detected device removal!!!!",
            "devices-missing",
        ),
        (
            "isert-scst: ***ERROR***: dev:mlx5_0 HCA evt: local catastrophic error",
            "device-fault",
        ),
        (
            "[ 8.1] infiniband efa_0: The device sent a completion but the driver didn't receive any MSI-X interrupt for admin cmd CREATE_QP(1) status 0",
            "device-fault",
        ),
    ] {
        let (id, _) = common::first(line);
        assert_eq!(id, first, "{line}");
    }
}

#[test]
fn a_fatal_error_above_a_gpu_counts_and_one_above_a_disk_does_not() {
    let port = "[ 1.1] pcieport 0000:00:03.0: AER: device recovery failed\n";
    for (device, expected) in [
        (
            "[ 1.0] nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)\n",
            true,
        ),
        (
            "[ 1.0] xhci_hcd 0000:03:00.0: AER: can't recover (no error_detected callback)\n",
            false,
        ),
    ] {
        let found = causes(&node(), &format!("{device}{port}"));
        let is_named = found.iter().any(|cause| cause.id == "pci-errors");
        assert_eq!(is_named, expected, "{device}");
    }
}
