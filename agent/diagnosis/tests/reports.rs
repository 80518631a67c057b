//! Reports of users who paste several outputs, and of clouds and their newest programs: blank lines, folded messages, lists, traces and other words.

#![allow(missing_docs)]

mod common;

use common::{each_is, first, kinds, primary};
use rdma_health_diagnosis::symptom::SymptomKind as K;

#[test]
fn blank_lines_within_a_list_are_no_empty_list() {
    let spaced = "# ibv_devices\n\n    device                 node GUID\n\n    ------              ----------------\n\n    rxe0                085697fffec1059b\n\n";
    assert_eq!(kinds(spaced), []);
    let empty =
        "    device                 node GUID\n\n    ------              ----------------\n\n# lspci\n";
    assert_eq!(kinds(empty), [K::NoDevice]);
}

#[test]
fn a_monitor_that_misses_what_only_a_subnet_manager_needs_reports_no_failure() {
    let line = "\"message\": \"ErrorCode:issm NIC:mlx5_3 Device mlx5_3 port 1: issm character device missing from /sys/class/infiniband_mad. pods cannot open /dev/infiniband/issm*\"";
    assert_eq!(kinds(line), []);
    let needed = "ibwarn: [28113] mad_rpc_open_port: can't open UMAD port (mlx5_0:1)";
    assert_ne!(kinds(needed), []);
}

#[test]
fn a_crash_in_a_library_of_rdma_counts_more_than_an_idle_port() {
    let trace = "#6  <signal handler called>\n#7  0x0000ffffb64e6af8 in ucma_process_addr_resolved (evt=0x1c600070) at src/cma.c:2002\n";
    let idle =
        "mlx5_0 port 1 ==> ib0 (Down)\nmlx5_1 port 1 ==> ib1 (Up)\nmlx5_3 port 1 ==> enp23s0f1 (Down)\n";
    let (cause, step) = first(&format!("{trace}{idle}"));
    assert!(
        cause == "communication-library" && step.contains("crashed"),
        "{cause}: {step}"
    );
    let own = trace.replace("ucma_process_addr_resolved", "compute_loss");
    assert_eq!(kinds(&own), []);
}

#[test]
fn an_adapter_in_recovery_needs_its_firmware_written_again() {
    let (cause, step) = first(
        "41:00.0 Memory controller: Mellanox Technologies MT28800 Family [ConnectX-5 Flash Recovery]\n",
    );
    assert!(
        cause == "driver-firmware" && step.contains("burn") && !step.contains("NETDEV"),
        "{cause}: {step}"
    );
}

#[test]
fn what_failed_before_any_packet_was_sent_is_looked_for_on_this_host() {
    each_is(&[
        (
            "E0801 04:22:10.301011 90021 tcp_transport.cpp:512] TcpTransport::startTransfer encountered an ASIO exception: connect: Cannot assign requested address\n",
            "tcp-connection",
            "ip_local_port_range",
        ),
        (
            "E0612 14:05:26.176716 1192408 tcp_transport.cpp:136] Session::writeBody failed. Error: Bad address (value: 14), total_transferred_bytes_: 0\n",
            "device-not-given",
            "cannot read GPU memory",
        ),
        (
            "NCCL WARN NET/FasTrak ...: INVALID_ARGUMENT: Buffer registration request does not have a valid fd set.\n",
            "communication-library",
            "RxDM",
        ),
        (
            "waiting for mellanox ofed and nvidia drivers to be installed\n",
            "kernel-module-build",
            "useHostMofed",
        ),
    ]);
}

#[test]
fn the_address_handle_of_an_efa_decides_before_the_call_that_repeats_it() {
    let (cause, step) = first(
        "libfabric:6:17::efa:av:efa_ah_alloc():147<warn> ibv_create_ah failed with EINVAL. Local GID: fe80::8, remote GID: fe80::9.\n\
         fi_enable(): common/shared.c:1529, ret=-22 (Invalid argument)\n",
    );
    assert!(
        cause == "fabric-or-peer" && step.contains("availability zone"),
        "{cause}: {step}"
    );
}

#[test]
fn a_missing_gid_is_known_in_other_words() {
    for line in [
        "[jaccl] No IPv4-mapped GID for this device. Thunderbolt RDMA ports only publish one\n",
        "Get Connection from 172.16.3.104: 0002:0000:000069:4bd5c0:00000000000000000000000000000000\n",
        "  remote address: LID 0x0000, QPN 0x000011, PSN 0xd7af63, GID ::\n",
    ] {
        assert_eq!(kinds(line), [K::NoGid], "{line}");
    }
    for sound in [
        "Get Connection from 172.16.3.104: 0002:0003:000069:4bd5c0:00000000000000000000000000000000\n",
        "  remote address: LID 0x0004, QPN 0x000011, PSN 0xd7af63, GID ::\n",
        "Get Connection from 172.16.3.105: 0001:0000:00004b:50f524:fe800000000000006eb311fffe4d0b88\n",
    ] {
        assert_eq!(kinds(sound), [], "{sound}");
    }
}

#[test]
fn a_resource_that_no_node_offers_is_shown_folded_or_as_a_zero() {
    for text in [
        "0/3 nodes are available: 3 Insufficient\n      mellanox.com/MT27800_VIRTUAL_FUNCTION. preemption: 0/3\n",
        "{\n  \"nvidia.com/gpu\": \"7\",\n  \"rdma/rdma_shared_device_a\": \"0\"\n}\n",
    ] {
        assert_eq!(primary(text), [K::ResourceUnavailable], "{text}");
    }
    for sound in [
        "  \"rdma/hca_a\": \"0\",\n  \"rdma/hca_b\": \"63\"\n",
        "0/3 nodes are available: 3 Insufficient\n      cpu. preemption: 0/3\n",
    ] {
        assert_eq!(primary(sound), [], "{sound}");
    }
}

#[test]
fn ports_are_counted_and_interfaces_listed() {
    each_is(&[
        (
            "Alert: IB port(s) down: 1 of 9 ports are not active\n",
            "port-down",
            "",
        ),
        ("ERROR: 2 of 8 IB ports are down\n", "port-down", ""),
        (
            "4: ibp5s0: <BROADCAST,MULTICAST> mtu 4092 qdisc noop state DOWN mode DEFAULT group default qlen 256\n",
            "port-down",
            "ip link set",
        ),
    ]);
    for sound in [
        "IB monitor: 0 of 9 ports are not active\n",
        "switch: 2 of 48 ports are down\n",
    ] {
        assert_eq!(kinds(sound), [], "{sound}");
    }
}

#[test]
fn storage_without_a_path_to_gpus_and_its_module_are_named() {
    each_is(&[
        (
            "file register error: GPUDirect Storage not supported on current file filename:/mnt/gdsio.0\n",
            "peer-memory-path",
            "gdscheck",
        ),
        (
            "WARNING: modpost: \"nvidia_p2p_get_pages\" [/src/nvidia-fs.ko] undefined!\n",
            "kernel-module-build",
            "Module.symvers",
        ),
    ]);
}

#[test]
fn other_accelerators_and_gpus_are_known_in_their_own_words() {
    for (line, expected) in [
        (
            "[E1212] EH9999: rtEventQueryStatus execute failed, reason=[aicore timeout]\n",
            "gpu-program",
        ),
        (
            "hipErrorNoDevice: No ROCm-capable device is detected\n",
            "gpu-program",
        ),
        (
            "[gpu.cpp:80] rocm smi failed with RSMI_STATUS_INIT_ERROR: An error occurred\n",
            "gpu-program",
        ),
        (
            "INTERNAL: nccl_utils.cc:275: NCCL operation ncclCommInitRank(&comm, nranks, id, rank) failed: unhandled cuda error\n",
            "gpu-program",
        ),
        (
            "kubelet[33460]: nvidia-container-cli: detection error: driver error: timed out: unknown\n",
            "gpu-program",
        ),
        (
            "[ERROR] HCCL(55694,): [hccl_socket_manager.cc:860] [60446][Wait][LinksEstablishCompleted] is failed. ret[9].\n",
            "fabric-or-peer",
        ),
        (
            "ucp_context.c:2339 UCX  WARN  UCP API version is incompatible: required >= 1.20, actual 1.19.0 (loaded from /usr/lib/libucp.so.0)\n",
            "communication-library",
        ),
        (
            "E0801 02:11:40.401251 77122 rdma_context.cpp:318] No matched device found: mlx5_11\n",
            "job-settings",
        ),
    ] {
        assert_eq!(first(line).0, expected, "{line}");
    }
}

#[test]
fn a_crash_of_the_kernel_without_a_module_is_not_passed_over() {
    let oops = "[ 88.85] BUG: unable to handle kernel paging request at 000055586ff60cf0\n[ 88.85] RIP: 0010:memcpy_erms+0x6/0x10\n";
    assert_eq!(kinds(&format!("1) modprobe rpcrdma\n{oops}")), [K::Unrecognised]);
    assert_eq!(kinds(&format!("1) modprobe xfs\n{oops}")), []);
    let accelio = "[ 1073.7] BUG: unable to handle kernel paging request at 00007ffde7d89ca0\n[ 1073.7] IP: [<ffffffffa07713bd>] xio_observable_notify_all_observers+0x1d/0x70 [xio_core]\n";
    assert_eq!(kinds(accelio), [K::DriverCrashed]);
}
