//! The line that decides, among generic ones that follow from it or stand next to it.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::{Confidence, diagnose};
use rdma_health_node::Node;

use common::{each_is, first, read};

#[test]
fn a_peer_that_no_neighbour_table_resolves_is_a_matter_of_addresses() {
    each_is(&[
        (
            "I0331 rdma_context.cpp:125] RDMA device: mlx5_0, LID: 0, GID: (GID_Index 3) 00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:01:01\n\
             E0331 rdma_endpoint.cpp:385] [Handshake] Failed to modify QP to RTR, check mtu, gid, peer lid, peer qp num: Connection timed \
             out [110]",
            "addressing",
            "ip neigh",
        ),
        (
            "/nvshmem/src/modules/transport/ibrc/ibrc.cpp:418: non-zero status: 110 ibv_modify_qp failed",
            "addressing",
            "ip route get",
        ),
        (
            "n1:1:2 [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_5:1, curr state INIT, next \
             state RTR, local GID index 3, local GID ::ffff:10.20.35.11, remote GID ::ffff:10.20.132.14",
            "addressing",
            "NCCL_CROSS_NIC=0",
        ),
        // On InfiniBand nothing is looked up.
        (
            "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.1.0.1<0>\n\
             n1:1:9 [0] ibvwrap.c:160 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
            "fabric-or-peer",
            "",
        ),
    ]);
}

#[test]
fn the_status_of_a_library_says_more_than_the_error_number_above_it() {
    each_is(&[
        (
            "Libfabric error: (-13) Permission denied\nEFA internal error: (4111) RMA address verification failed",
            "application-memory",
            "",
        ),
        (
            "libfabric:812:efa:cq:efa_rdm_cq_readerr():120<warn> err: 5, prov_errno: 4124",
            "peer-failed",
            "",
        ),
        (
            "NET/OFI Request completed with error. RC: 22. Error: EFA provider, prov_errno: 15",
            "fabric-or-peer",
            "",
        ),
        (
            "libfabric:1:efa:ep_data: EFA internal error: (4108) RX entries exhausted",
            "hca-resources",
            "",
        ),
        // Alone, the number is all that is known.
        (
            "Libfabric error: (-13) Permission denied",
            "device-permission",
            "",
        ),
    ]);
}

#[test]
fn memory_of_a_gpu_that_is_mapped_as_dma_buf_is_not_locked() {
    for text in [
        "n1:318:3584 [5] misc/ibvwrap.cc:183 NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Cannot allocate memory",
        "ucx ib_md.c:300 UCX ERROR ibv_reg_dmabuf_mr(fd=88 length=4294967296) failed: Cannot allocate memory",
    ] {
        let (id, step) = first(text);
        assert_eq!(id, "hca-resources", "{text}");
        assert!(step.contains("BAR1"), "{step}");
    }
    let (id, _) =
        first("n1:1:2 [5] NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory");
    assert_eq!(id, "memlock-limit");
    let (id, _) = first("__rdma_buffer_pool_alloc:645 ibv_reg_mr() failed, errno: 12");
    assert_eq!(id, "memlock-limit");
}

#[test]
fn a_missing_way_to_the_memory_of_a_gpu_comes_before_the_devices_that_it_disables() {
    each_is(&[
        (
            "E20260821 4411 rdma_context.cpp:1343] DMA BUF supported required for GPU RDMA without nvidia-peermem\n\
             E20260821 4411 rdma_context.cpp:209] Failed to open device mlx5_3 on port  with GID 3\n\
             E20260821 4411 rdma_transport.cpp:827] RdmaTransport: No available RNIC",
            "peer-memory-path",
            "nvidia_peermem",
        ),
        (
            "ERROR: GPUDirect RDMA requires the nvidia-peermem kernel module, which is not loaded",
            "peer-memory-path",
            "",
        ),
    ]);
    assert_eq!(
        first("INFO rdma: nvidia_peermem is not loaded, using dma-buf instead").0,
        ""
    );
}

#[test]
fn a_device_plugin_that_the_kubelet_does_not_know_offers_nothing() {
    each_is(&[
        (
            "2024/03/22 05:58:49 hca_3.sock failed to be registered at Kubelet: RegisterPlugin error -- plugin registration failed with err: \
             failed to dial device plugin: context deadline exceeded; restarting.",
            "device-not-given",
            "plugins_registry",
        ),
        (
            "INFO[0000] Starting to serve on /var/lib/kubelet/device-plugins/rdma.sock\n\
             ERRO[0008] Could not register device plugin: rpc error: code = Unimplemented desc = unknown service deviceplugin.Registration",
            "device-not-given",
            "API version",
        ),
        (
            "Warning  UnexpectedAdmissionError  9s  kubelet  Allocate failed due to requested number of devices unavailable for rdma/hca. \
             Requested: 1, Available: 0, which is unexpected",
            "device-not-given",
            "unhealthy",
        ),
    ]);
    for sound in [
        "INFO[0000] Starting to serve on /var/lib/kubelet/device-plugins/nvidia-gpu.sock\n\
         ERRO[0008] Could not register device plugin: rpc error: connection refused",
        "2024/03/22 hca_3.sock failed to be registered at Kubelet: dial failed; restarting.\n\
         2024/03/22 hca_3.sock gets registered successfully at Kubelet",
    ] {
        assert_eq!(first(sound).0, "", "{sound}");
    }
}

#[test]
fn the_remedy_is_that_of_the_message() {
    each_is(&[
        (
            "kubelet  error adding container to network \"rdma-net-ib1\": failed to create macvlan: invalid argument",
            "pod-network",
            "ipoib-cni",
        ),
        (
            "error adding container to network \"ib\": infiniBand SRI-OV CNI failed to configure VF \"VF ib4 GUID is not valid\"",
            "virtual-functions",
            "node_guid",
        ),
        (
            "E0331 utils.go:325] configSriovDevice(): fail to configure VF admin mac address for device 0000:0c:00.1 \"operation not supported\"",
            "virtual-functions",
            "linkType: ib",
        ),
    ]);
}

#[test]
fn several_lines_are_weighed_together() {
    each_is(&[
        (
            "WARN: init failed for remote transport: ibrc\n\
             transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA\n\
             transport.cpp:nvshmemi_transport_init:287: Unable to initialize any transports. returning error.",
            "device-not-given",
            "",
        ),
        // The transport between the hosts is there.
        (
            "transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA",
            "gpu-initiated-setup",
            "",
        ),
        (
            "n1:9:9 [0] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_0:1 Got async event : local access violation work queue error\n\
             n2:8:8 [0] transport/net_ib.cc:1909 NCCL WARN NET/IB : Got completion from peer 10.1.3.201<33057> with status=9 opcode=0 len=0 \
             vendor err 138 (Send)",
            "mtu",
            "active_mtu",
        ),
        (
            "ib_write_bw: Completion with error at client\nFailed status 9: wr_id 0 syndrom 0x8a",
            "application-memory",
            "",
        ),
    ]);
}

#[test]
fn a_limit_that_a_shell_printed_decides() {
    const REFUSED: &str = "n1:9:9 [3] misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory\n";
    let confidence = |text: &str| {
        let diagnosis = diagnose(&Node::unknown(), &[], Some(&read(text)));
        let cause = diagnosis
            .causes
            .into_iter()
            .find(|cause| cause.id == "memlock-limit");
        cause.map(|cause| cause.confidence)
    };
    for (shell, expected) in [
        ("$ ulimit -l\n8192\n", Confidence::Likely),
        ("$ bash -c 'ulimit -S -l'\n8192\n", Confidence::Likely),
        ("$ ulimit -Hl\n8192\n", Confidence::Possible),
        (
            "max locked memory           (kbytes, -l) 64\n",
            Confidence::Likely,
        ),
        ("$ ulimit -l\n\n", Confidence::Possible),
        ("Set ulimit -l 65536 and try again\n8192\n", Confidence::Possible),
    ] {
        assert_eq!(
            confidence(&format!("{REFUSED}{shell}")),
            Some(expected),
            "{shell}"
        );
    }
}

#[test]
fn errors_of_other_parts_are_not_failures_of_rdma() {
    for sound in [
        "[1776787275.6] [c0:677454:0] mm_posix.c:206  UCX  ERROR   Not enough memory to write total of 4292720 bytes. Please check that /dev/shm \
         or the directory you specified has more available memory.\n\
         [1776787275.7] [c0:677445:0] mm_iface.c:857  UCX  ERROR failed to get the first receive descriptor",
        "[1575430973.9] [dgx15:70612:0] sock.c:212  UCX  ERROR send(fd=-1) failed: Bad file descriptor",
        "The `UCX ERROR` lines are a known issue at teardown, computation finished fine",
        "n1:16674:17023 [0] graph/search.cc:703 NCCL WARN XML Import Channel : dev 1 not found.",
        "{\"level\":\"ERROR\",\"logger\":\"rdma-metrics-exporter\",\"msg\":\"failed to get RDMA stats\",\"error\":\"error executing 'rdma \
         statistic -j' command: executable file not found in $PATH\"}",
        "  gdrcopy.service              loaded failed failed GDRCopy service",
    ] {
        let log = read(sound);
        let grave: Vec<_> = log
            .symptoms
            .iter()
            .filter(|symptom| symptom.grade > rdma_health_diagnosis::symptom::Grade::Unrecognised)
            .collect();
        assert!(grave.is_empty(), "{sound}: {grave:?}");
    }
    assert!(
        !read("error: the step `connect the queue pair` of mlx5_0 failed")
            .symptoms
            .is_empty()
    );
}

#[test]
fn a_peer_that_tcp_does_not_reach_is_a_matter_of_the_interface() {
    each_is(&[
        (
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, remote process exited or there was a network error, NCCL version 2.21.5\n\
             ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n\
             Last error:\n\
             socketStartConnect: Connect to 172.18.0.1<51973> failed : Connection timed out",
            "fabric-or-peer",
            "NCCL_SOCKET_IFNAME",
        ),
        (
            "n3:77:99 [0] NCCL INFO Using network Socket\n\
             n3:77:99 [0] transport/net_socket.cc:550 NCCL WARN NET/Socket : remote peer 10.0.0.2<44556> recv failed : No route to host",
            "fabric-or-peer",
            "NCCL_SOCKET_IFNAME",
        ),
        // A peer that ended closes its sockets.
        (
            "n3:77:99 [0] misc/socket.cc:50 NCCL WARN socketProgressOpt: Call to recv from 10.0.0.2<44556> failed : Connection reset by peer",
            "peer-failed",
            "",
        ),
    ]);
}

#[test]
fn a_crashed_adapter_is_why_its_clients_reach_no_server() {
    each_is(&[
        (
            "[ 812.1] nvme nvme2: rdma connection establishment failed (-113)\n\
             [ 830.0] bnxt_en 0000:3b:00.0 ens1: Firmware fatal reset event, data1: 0x1, data2: 0x2",
            "device-fault",
            "0000:3b:00.0",
        ),
        (
            "[ 812.1] nvme nvme2: rdma connection establishment failed (-113)",
            "addressing",
            "",
        ),
    ]);
}

#[test]
fn an_adapter_with_too_few_entries_does_not_fit_smb_direct() {
    each_is(&[(
        "[ 55.1] CIFS: VFS: smbd_create_qp: max_send_sge = 2 too small\n\
         [ 55.2] CIFS: VFS: smbd_create_qp: Queue Pair creation may fail",
        "unsupported-adapter",
        "max_sge",
    )]);
}

#[test]
fn a_name_without_an_address_is_no_missing_device() {
    each_is(&[(
        "E0520 01:56:34.500635  2097 transfer_metadata_plugin.cpp:969] SocketHandShakePlugin: failed to get IP address of peer server \
         100.102.191.154:16936, check DNS and /etc/hosts, or use IPv4 address instead: No such file or directory [2]",
        "addressing",
        "getent hosts",
    )]);
}

#[test]
fn a_link_local_gid_explains_a_connection_in_which_no_one_answers() {
    each_is(&[(
        "I0331 12:02:38.363528 56056 rdma_context.cpp:125] RDMA device: mlx5_0, LID: 0, GID: (GID_Index 1) \
         fe:80:00:00:00:00:00:00:9e:63:c0:ff:fe:65:ab:90\n\
         E0331 12:03:04.222625 56060 rdma_endpoint.cpp:385] [Handshake] Failed to modify QP to RTR, check mtu, gid, peer lid, peer qp num: \
         Connection timed out [110]",
        "gid-index",
        "",
    )]);
}

#[test]
fn libraries_that_ldd_does_not_find_are_missing() {
    each_is(&[(
        "$ ldd $(which mpirun)\n\tlibopen-pal.so.40 => /apps/lib/libopen-pal.so.40 (0x00007fdd38690000)\n\tlibucp.so.0 => not found\n\
         \tlibucs.so.0 => not found",
        "communication-library",
        "",
    )]);
    assert_eq!(
        first("$ ldd ./tool\n\tlibpng16.so.16 => not found"),
        ("", String::new())
    );
}

#[test]
fn a_virtual_function_that_takes_no_vlan_or_is_not_listed_has_its_own_step() {
    for (message, step) in [
        (
            "SRIOV-CNI failed to configure VF \"failed to set vf 2 vlan: operation not supported\"",
            "ib-sriov-cni",
        ),
        (
            "SRIOV-CNI failed to load netconf: LoadConf(): vlan ID 100 invalid for InfiniBand link type",
            "ib-sriov-cni",
        ),
        // The name of another kind of network ends in the same word.
        (
            "failed to create macvlan: operation not supported, master ib0 is infiniband",
            "ipoib-cni",
        ),
        (
            "failed to get original vf information: failed to find vf 2",
            "sriov_numvfs",
        ),
    ] {
        let event = format!(
            "Warning  FailedCreatePodSandBox  2s  kubelet  Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network \
             for sandbox \"94\": plugin type=\"multus\" name=\"multus-cni-network\" failed (add): [default/p:sriov-net]: error adding container to \
             network \"sriov-net\": {message}"
        );
        let (id, next_step) = first(&event);
        assert_eq!(id, "pod-network", "{event}");
        assert!(next_step.contains(step), "{event}: {next_step}");
    }
}

#[test]
fn what_kernel_and_library_do_not_support_is_why_a_driver_of_dpdk_stops() {
    each_is(&[(
        "EAL: Probe PCI driver: mlx5_pci (15b3:1017) device: 0000:01:00.0 (socket 0)\n\
         mlx5_pci: No kernel/verbs support for VF LAG bonding found.\n\
         common_mlx5: Failed to load driver = mlx5_pci.\n\
         EAL: Requested device 0000:01:00.0 cannot be used",
        "driver-firmware",
        "",
    )]);
}

#[test]
fn a_crash_or_a_check_that_failed_in_a_library_is_its_own() {
    each_is(&[
        (
            "[clx-13:20274:0]       ud_ep.c:478  Assertion `uct_ib_unpack_uint24(ctl->conn_req.ep_addr.ep_id) == ep->dest_ep_id' failed",
            "communication-library",
            "Update UCX",
        ),
        (
            " 2  /opt/ucx/lib/libucs.so.0(+0x31d16) [0x1554dc7add16]\n \
             4  /opt/ucx/lib/libucp.so.0(ucp_dt_pack+0x69) [0x1554dcc8d109]\n\
             [cluster128:493841] *** Process received signal",
            "communication-library",
            "mpi_built_with_cuda_support",
        ),
        (
            "Assertion failure at psm_ep.c:832: ep->epid != 0",
            "communication-library",
            "--mca mtl ^psm2",
        ),
        (
            "dc_mlx5.c:1244 UCX  ERROR error modifying DCT to RTR: Invalid argument\npml_ucx.c:208 Error: Failed to create UCP worker",
            "unsupported-adapter",
            "UCX_TLS=rc,sm,self",
        ),
        // The program's last word does not say why.
        (
            "[n1:800759:0]      rdmacm_cm.c:638  UCX  ERROR rdma_create_event_channel failed: No such device\n\
             [n1:800759] pml_ucx.c:273  Error: Failed to create UCP worker",
            "rdma-modules",
            "rdma_ucm",
        ),
    ]);
    assert!(first("app: main.cc:12  Assertion `a == b' failed").0.is_empty());
}

#[test]
fn a_program_that_took_no_gid_may_have_passed_over_one() {
    each_is(&[
        (
            "E0302 rdma_context.cpp:450] Failed to query GID 244 on rocep153s0/: No data available [61]\nNo suitable GID found on rocep153s0",
            "gid-missing",
            "MC_GID_INDEX",
        ),
        (
            "[1600672054.218898] [n1:1118475:0]           sock.c:344  UCX  ERROR recv(fd=30) failed: Bad address",
            "tcp-connection",
            "",
        ),
        (
            "The underlying rtslib object for /ib_srpt does not exist.",
            "rdma-modules",
            "modprobe ib_srpt",
        ),
        ("kernel: mlx5_core TX timeout detected", "device-fault", ""),
        ("java.io.IOException: getCmEvent() failed", "peer-failed", ""),
    ]);
}
