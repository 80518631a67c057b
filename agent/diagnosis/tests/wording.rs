//! Words and numbers that mislead: what the rest of the line, or the line next to it, says instead.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::{diagnose, symptom::SymptomKind};
use rdma_health_node::Node;

use common::{each_is, first, kinds, primary, read};

#[test]
fn what_a_program_repeats_in_one_line_is_read_as_lines() {
    each_is(&[
        (
            "INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled system error (run with NCCL_DEBUG=INFO for details). Last NCCL \
             warning(error) log entry (may be unrelated) 'Call to ibv_modify_qp failed with error Connection timed out'.",
            "addressing",
            "",
        ),
        (
            r#"{"level":"ERROR","message":"ncclSystemError: System call failed.\nLast error:\nCall to ibv_modify_qp failed with error No data available"}"#,
            "gid-missing",
            "",
        ),
    ]);
}

#[test]
fn a_number_beside_the_status_of_a_completion_is_that_status() {
    for line in [
        "Check failed: wc->status == IBV_WC_SUCCESS RC send CQ state error: 12, 0",
        "F0425 rdma.cc:88] Check failed: wc.status == IBV_WC_SUCCESS (12 vs. 0) on qp 44",
        "wc status error 12 on qp 44",
        "poll cq failed with state error: 12",
    ] {
        let id = kinds(line).first().map(|kind| kind.id());
        assert_eq!(id, Some("IBV_WC_RETRY_EXC_ERR"), "{line}");
    }
    assert_eq!(kinds("wc.status == IBV_WC_SUCCESS (0 vs. 0), state error: 0"), []);
}

#[test]
fn the_answer_of_the_system_says_more_than_what_a_program_guesses() {
    each_is(&[
        (
            "create interface rdma: no RDMA devices available, errno = 13. Is the ib_uverbs module loaded?: Permission denied",
            "device-permission",
            "",
        ),
        (
            "Oct 24 15:02:11 n1 kernel: [ 5216.4] uverbs_write: process 20417 (app) changed security contexts after opening file descriptor, \
             this is not allowed.",
            "device-permission",
            "before it opens",
        ),
        (
            "Failed to register memory 0x7fa3ce000000: Operation not permitted [1]",
            "memlock-limit",
            "",
        ),
        (
            "Libfabric error: (-12) Cannot allocate memory\nEFA internal error: (4112) Failure to post internal receive buffers",
            "memlock-limit",
            "",
        ),
    ]);
}

#[test]
fn an_error_number_of_what_has_no_peer_is_none_of_the_network() {
    each_is(&[
        (
            "[1516265731.5] [n1:4417 :0] rc_iface.c:650  UCX  ERROR Failed to create TM XRQ: No route to host",
            "driver-firmware",
            "",
        ),
        (
            "ib_srp: mlx5_0: ib_alloc_mr() failed. Try to reduce max_cmd_per_lun, max_sect or ch_count",
            "hca-resources",
            "",
        ),
        (
            "Failed to register memory 0x7fa3ce000000: Input/output error [5]",
            "hca-resources",
            "max_mr_size",
        ),
    ]);
}

#[test]
fn a_failure_of_another_device_or_network_is_none_of_rdma() {
    for text in [
        "[ 4593.4] i915 0000:00:02.0: not enough MMIO resources for SR-IOV\n\
         [ 4593.5] i915 0000:00:02.0: [drm] *ERROR* Failed to enable 2 VFs (-ENOMEM)",
        "n1 kernel: LNetError: 105-4: Error -100 starting up LNI tcp",
        "[1] W [MSGID: 103071] [rdma.c:4629:__gf_rdma_ctx_create] 0-rpc-transport/rdma: rdma_cm event channel creation failed [No such device]\n\
         [2] W [rpc-transport.c:351:rpc_transport_load] 0-rpc-transport: 'rdma' initialization failed\n\
         [3] E [MSGID: 106244] [glusterd.c:1764:init] 0-management: creation of 1 listeners failed, continuing with succeeded transport",
    ] {
        assert_eq!(primary(text), [], "{text}");
    }
    let refused = "[1] W [MSGID: 103071] [rdma.c:4629:__gf_rdma_ctx_create] 0-rpc-transport/rdma: rdma_cm event channel creation failed [No such device]";
    assert_eq!(kinds(refused), [SymptomKind::CmUnavailable]);
}

#[test]
fn libraries_that_do_not_fit_and_parts_that_cannot_be_replaced_are_named() {
    each_is(&[
        (
            "./a.out: relocation error: /opt/ucx/libuct_ib.so.0: symbol mlx5dv_is_supported, version MLX5_1.8 not defined in file \
             libmlx5.so.1 with link time reference",
            "communication-library",
            "",
        ),
        (
            "n1:1:1 [0] net.cc:579 NCCL WARN Error: network gIB not found.\n\
             n1:1:1 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libc.so.6: version `GLIBC_2.32' not found (required by \
             /usr/local/lib64/libnccl-net.so) : when loading libnccl-net.so",
            "communication-library",
            "ldd --version",
        ),
        (
            "Storage modules are loaded for current driver, terminating prior driver reload failure due to UNLOAD_STORAGE_MODULES not set to \"true\"",
            "modules-in-use",
            "UNLOAD_STORAGE_MODULES",
        ),
        (
            "Failed loading kernel module mlx5_ib:[FAILED]",
            "rdma-modules",
            "modprobe mlx5_ib",
        ),
        (
            "[1] [n1:1:0] ib_mlx5dv_md.c:702  UCX  ERROR mlx5dv_devx_create_event_channel() failed: Protocol not supported",
            "driver-firmware",
            "",
        ),
    ]);
}

#[test]
fn an_address_of_no_rdma_device_is_a_matter_of_addresses() {
    each_is(&[
        (
            "rdma_getaddrinfo(node=127.0.0.1, service=7471): No such device",
            "addressing",
            "loopback interface",
        ),
        (
            "rdma_bind_addr(addr=10.1.1.11:50956) failed: No such device",
            "addressing",
            "ip route get PEER",
        ),
        (
            "lnetctl[3065]: descr: \"couldn't query intf ib0\"",
            "addressing",
            "lnet.service",
        ),
        (
            "libibverbs: resolver: Neighbour doesn't have a hw addr",
            "addressing",
            "",
        ),
        // Without a library for the device there is none to resolve an address for.
        (
            "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0\n\
             rdma_getaddrinfo: No such device",
            "userspace-libraries",
            "",
        ),
    ]);
}

#[test]
fn what_a_target_or_a_firmware_answers_is_no_fault_of_the_network() {
    each_is(&[
        (
            "[ 5743.2] nvme nvme9: Connect command failed, error wo/DNR bit: 6\n[ 5743.3] nvme nvme9: failed to connect queue: 0 ret=6",
            "storage-access",
            "",
        ),
        (
            "15:35:48.149 /opt/nvshmem/src/modules/transport/ibgda/ibgda.cpp:1393: non-zero status: 121 Error in mlx5dv_devx_obj_modify for \
             INIT2RTR_QP with syndrome 764216",
            "driver-firmware",
            "NVSHMEM_IB_TRAFFIC_CLASS",
        ),
        (
            "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_3:1/IB [1]mlx5_2:1/RoCE ; OOB eth0:10.100.72.18<0>\n\
             n1:1:3 [0] misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument",
            "job-settings",
            "NCCL_IB_HCA=^NAME",
        ),
        (
            "rmmod: ERROR: Module rdma_cm is in use by: ksmbd",
            "modules-in-use",
            "modprobe -r ksmbd",
        ),
        (
            "na_ofi_getinfo(): Requested OFI provider \"verbs;ofi_rxm\" is not available.",
            "communication-library",
            "fi_info -l",
        ),
    ]);
}

#[test]
fn the_kernels_reports_name_the_module_in_any_of_their_lines() {
    for (text, expected) in [
        (
            "[53902.55] WARNING: CPU: 0 PID: 14451 at net/core/devlink.c:8047 devlink_alloc+0x37/0x1cc\n\
             [53902.56] Modules linked in: mlx5_core(OE+) mlxfw(OE) tls",
            Some(SymptomKind::ModuleMismatch),
        ),
        (
            "[8.859] BUG: KASAN: stack-out-of-bounds in rxe_post_send+0x12f3/0x1880 [rdma_rxe] at addr ffff88001f787838",
            Some(SymptomKind::DriverCrashed),
        ),
        // A module of the kernel's own, or one that is loaded already, is not what is wrong.
        (
            "[53902.55] WARNING: CPU: 0 PID: 14451 at net/core/devlink.c:8047 devlink_alloc+0x37/0x1cc\n\
             [53902.56] Modules linked in: mlx5_core(OE) mlxfw(OE) tls",
            None,
        ),
        (
            "[8.859] BUG: KASAN: use-after-free in nfs_read+0x12/0x80 [nfs] at addr ffff88001f787838",
            None,
        ),
    ] {
        assert_eq!(kinds(text).first().copied(), expected, "{text}");
    }
}

#[test]
fn a_dump_of_bytes_with_offsets_and_text_is_read_like_one_of_words() {
    let dump = "MLX5 Error CQE: at [0x7f6a7d20c000], len=64\n\
        00000000: 00 73 65 65 6E 00 00 00 00 00 00 00 00 00 00 00 | .seen...........\n\
        00000010: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 | ................\n\
        00000020: 00 00 00 13 00 00 00 00 00 00 00 00 00 00 00 00 | ................\n\
        00000030: 00 00 00 00 9D 00 53 04 0A 00 15 42 00 19 B0 D2 | ......S....B....";
    let ids: Vec<_> = kinds(dump).iter().map(|kind| kind.id()).collect();
    assert_eq!(ids, ["IBV_WC_LOC_PROT_ERR"]);
}

#[test]
fn parameters_quotations_and_what_was_permitted_are_no_failures() {
    for text in [
        "ibwarn: [1234] umad_send: fd 3 agentid 2 umad 0x55 timeout 1000",
        "TestFail: The expected error 'RDMA ERROR: could not create rdma event channel' was not found in output ''",
        "avc:  denied  { open } for  pid=812 comm=\"app\" path=\"/dev/infiniband/rdma_cm\" scontext=u:r:t permissive=1",
        "n1:28:66 [0] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x55\n\
         n1:31:67 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n\
         n1:31:67 [3] proxy.cc:1519 NCCL WARN [Proxy Service 3] Failed to execute operation Setup",
    ] {
        assert_eq!(primary(text), [], "{text}");
    }
}

#[test]
fn a_setting_without_a_port_and_a_port_without_a_guid_are_named() {
    each_is(&[
        (
            "+ export UCX_NET_DEVICES=mlx5_0\n\
             [1] [n1:1:0] select.c:629  UCX  ERROR no active messages transport to <no debug data>: self/memory - Destination is unreachable",
            "job-settings",
            "UCX_NET_DEVICES=mlx5_0:1",
        ),
        (
            "hca_id: mlx5_4\n        node_guid:    0000:0000:0000:0000\n        port:   1\n                state:  PORT_INIT (2)\n                sm_lid: 4",
            "virtual-functions",
            "node_guid",
        ),
        ("rdma_create_ep: No such device", "addressing", "ip route get"),
    ]);
    let refused = kinds("Failed to modify UD QP to INIT on mlx5_0: Operation not permitted");
    assert_eq!(refused, [SymptomKind::NotPermitted]);
}

#[test]
fn a_crash_or_a_hang_in_a_module_of_rdma_names_the_module_and_the_function() {
    each_is(&[
        (
            "[14904.75] BUG: unable to handle kernel NULL pointer dereference at 0000000000000070\n\
             [14904.76] IP: [<ffffffffa06869ba>] iser_cq_tasklet_fn+0x6a/0x230 [ib_iser]\n",
            "driver-firmware",
            "The module ib_iser crashed in its function iser_cq_tasklet_fn",
        ),
        (
            "[    8.86] BUG: KASAN: stack-out-of-bounds in\nrxe_post_send+0x12f3/0x1880 [rdma_rxe] at addr ffff88001f787838\n",
            "driver-firmware",
            "no adapter and no firmware is concerned",
        ),
        (
            "  ? page_fault_oops+0x171/0x4c0\n  ? esw_port_metadata_get+0x19/0x30 [mlx5_core]\n",
            "driver-firmware",
            "The module mlx5_core crashed in its function esw_port_metadata_get",
        ),
        (
            "[  489.61] INFO: task drbdsetup:3646 blocked for more than 120 seconds.\n\
             [  489.62]  dtr_free+0x315/0x350 [drbd_transport_rdma]\n",
            "device-stalled",
            "waits in dtr_free of the module drbd_transport_rdma",
        ),
    ]);
    // A file system waits for its server, and other modules crash as well.
    for other in [
        "[  489.61] INFO: task cp:3646 blocked for more than 120 seconds.\n[  489.62]  rpc_wait_bit_killable+0x1/0x2 [rpcrdma]\n",
        "[ 1.1] BUG: unable to handle page fault for address: 0\n[ 1.1] RIP: 0010:nvme_tcp_x+0x1/0x2 [nvme_tcp]\n[ 1.1]  x+0x1/0x2 [ib_core]\n",
    ] {
        assert_eq!(kinds(other), [], "{other}");
    }
}

#[test]
fn a_module_that_the_kernel_refuses_is_one_of_rdma_by_its_name() {
    each_is(&[
        (
            "[  385.6] hv_network_direct: disagrees about version of symbol vmbus_sendpacket\n",
            "kernel-module-build",
            "modinfo",
        ),
        (
            "[  366.2] nv_peer_mem: disagrees about version of symbol ib_register_peer_memory_client\n",
            "peer-memory-path",
            "Build nv_peer_mem again",
        ),
    ]);
    let tainted = "[ 9.1] nvidia: module verification failed: signature and/or required key missing - tainting kernel\n";
    assert_eq!(kinds(tainted), []);
    let missing =
        "modprobe: FATAL: Module hv_network_direct not found in directory /lib/modules/6.8.0-1029-azure\n";
    assert_eq!(kinds(missing), []);
}

#[test]
fn a_bond_is_one_of_rdma_where_something_shows_it() {
    let bond = "[ 1202.7] bond0: (slave eno50): link status definitely down, disabling slave\n";
    assert_eq!(first(bond).0, "");
    let with_adapter = format!("{bond}[ 1202.8] mlx5_core 0000:5e:00.0 eno50: Link down\n");
    let diagnosis = diagnose(&Node::unknown(), &[], Some(&read(&with_adapter)));
    assert!(
        diagnosis.causes.iter().any(|cause| cause.id == "bond-degraded"),
        "{diagnosis:?}"
    );
}
