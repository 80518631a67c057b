//! What keeps a job from its first transfer: what was not built, started or given, and what another program holds.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::symptom::SymptomKind as K;

use common::{each_is, kinds, read};

#[test]
fn what_does_not_compile_or_load_is_a_matter_of_packages() {
    each_is(&[
        (
            "bench/rdma.c:12:10: fatal error: rdma/rdma_cma.h: No such file or directory\n",
            "userspace-libraries",
            "librdmacm-dev",
        ),
        (
            "/usr/bin/ld: cannot find -lrdmacm: No such file\n",
            "userspace-libraries",
            "rdma-core-devel",
        ),
        (
            "/root/x/iser.c:31:5: error: implicit declaration of function 'ib_alloc_cq_any'\n",
            "kernel-module-build",
            "",
        ),
        (
            "Caused by: java.lang.UnsatisfiedLinkError: no jucx in java.library.path: [/usr/lib]\n",
            "communication-library",
            "",
        ),
    ]);
    assert_eq!(
        kinds("widget.c:1:10: fatal error: gtk/gtk.h: No such file or directory\n"),
        [K::Unrecognised]
    );
}

#[test]
fn what_a_scheduler_or_plugin_does_not_have_is_named_and_pools_of_ethernet_are_left_out() {
    each_is(&[
        (
            "Warning  FailedScheduling  1 node(s) didn't have enough resources: rdma/hca_b.\n",
            "device-not-given",
            "Allocatable",
        ),
        (
            "I0512 factory: no devices in device pool, skipping creating resource server for mlnx_rail_3\n",
            "device-not-given",
            "default route",
        ),
        (
            "error adding container to network \"hostdev-net\": specify either \"device\", \"hwaddr\", \"kernelpath\" or \"pciBusID\"\n",
            "pod-network",
            "resourceName",
        ),
        (
            "Limits:\n  rdma/hca: 1\nError: could not configure devices: could not get device: not a device node\n",
            "device-not-given",
            "one by one",
        ),
        (
            "[ERROR] /etc/enroot/hooks.d/99-mellanox.sh exited with return code 1\n",
            "device-not-given",
            "MELLANOX_VISIBLE_DEVICES",
        ),
        (
            "RDMA resources for 0000:41:00.2 not found. Are RDMA modules loaded?\n",
            "rdma-modules",
            "modprobe mlx5_ib",
        ),
    ]);
    for text in [
        "I0512 factory: no devices in device pool, skipping creating resource server for intel_sriov_dpdk\n",
        "1 node(s) didn't have enough resources: nvidia.com/gpu.\n",
        "could not get device: not a device node\n",
    ] {
        assert!(kinds(text).iter().all(|kind| *kind == K::Unrecognised), "{text}");
    }
}

#[test]
fn a_port_that_another_program_holds_is_named() {
    each_is(&[
        (
            "EJ0003: [PID: 9] Failed to bind the IP port. Reason: The IP address and port have been bound already.\n",
            "addressing",
            "HCCL_IF_BASE_PORT",
        ),
        (
            "[HcclSocket][Listen] ip[10.1.2.3] listen on specific port[16668] fail\n",
            "addressing",
            "ss -ltnp",
        ),
    ]);
}

#[test]
fn gpus_that_are_lost_and_what_gpus_start_are_named() {
    each_is(&[
        (
            "W0101 device plugin: error creating nvml.Device 3: nvml: GPU is lost\n",
            "gpu-fault",
            "",
        ),
        (
            "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062)\n",
            "gpu-fault",
            "",
        ),
        (
            "NCCL WARN NET/OFI Failed to initialize GDRCopy: Failed to open gdr handle (nccl_ofi_gin_init:71)\n",
            "gpu-initiated-setup",
            "/dev/gdrdrv",
        ),
        (
            "nvidia-fs:nvfs_pin_gpu_pages:1292 Error ret -22 invoking nvidia_p2p_get_pages\n",
            "peer-memory-path",
            "",
        ),
    ]);
}

#[test]
fn a_file_of_a_topology_that_a_plugin_sets_is_named() {
    let text = "NCCL INFO NET/OFI Running on p5, Setting NCCL_TOPO_FILE environment variable to /x/p5-topo.xml\n\
        [0] graph/xml.h:85 NCCL WARN Attribute arch of node cpu not found\n";
    each_is(&[(text, "job-settings", "NCCL_TOPO_FILE")]);
    assert_eq!(
        read(text).settings.get("NCCL_TOPO_FILE").map(String::as_str),
        Some("/x/p5-topo.xml")
    );
}

#[test]
fn engines_that_do_not_find_each_other_are_named() {
    each_is(&[
        (
            "ERROR [nixl_connector.py:1263] NIXL transfer failure: handshake_setup_failed | Context: {}\n",
            "no-listener",
            "",
        ),
        (
            "ERROR Remote NIXL agent engine ID mismatch. Expected a,received b.\n",
            "peer-settings",
            "VLLM_NIXL_SIDE_CHANNEL_HOST",
        ),
        (
            "MetadataFetchFailedException: RdmaShuffleNode: A has no RDMA connection to BlockManagerId(3, n2, 4, None)\n",
            "fabric-or-peer",
            "",
        ),
    ]);
}

#[test]
fn devices_of_others_that_do_not_open_leave_the_own_ones() {
    let list =
        "Failed to open device\nFailed to open device\nhca_id: mlx5_4\n\tport: 1\n\tstate: PORT_ACTIVE (4)\n";
    assert_eq!(kinds(list), []);
    assert_eq!(kinds("Failed to open device\n"), [K::OpenFailed]);
    let nccl = "[0] NCCL WARN NET/IB : Unable to open device mlx5_3\n[0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n";
    let symptoms = read(nccl).symptoms;
    assert_eq!(
        symptoms
            .iter()
            .map(|symptom| (symptom.kind, symptom.grade))
            .collect::<Vec<_>>(),
        [(K::OpenFailed, rdma_health_diagnosis::symptom::Grade::Degraded)]
    );
}
