//! Storage over RDMA, and what surrounds an adapter in the kernel: the cause is named, and the next step is one for such a node.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

#[path = "common/healthy.rs"]
mod healthy;

use healthy::{causes, node};
use rdma_health_diagnosis::Confidence;

#[test]
fn the_first_cause_of_a_kernel_message_is_the_right_one() {
    let node = node();
    for (log, cause) in [
        (
            "[ 1.1] irdma: ice 0000:c4:00.0 rocep196s0: abnormal ae_id = 0x50a bool qp=1 qp_id = 213",
            "fabric-or-peer",
        ),
        (
            "[ 1.1] infiniband rocep24s0f0: abnormal ae_id = 0x108 bool qp=1 qp_id = 77",
            "application-memory",
        ),
        ("[ 1.1] hns3 0000:7d:00.0 hns_0: AEQ overflow!", "device-fault"),
        (
            "[ 1.1] ice 0000:c4:00.0 rocep196s0: critical PE Error, GLPE_CRITERR=0x87ff0009",
            "device-fault",
        ),
        (
            "[ 1.1] ice 0000:51:00.0: Direct firmware load for intel/ice/ddp/ice.pkg failed with error -2\n\
          [ 1.2] ice 0000:51:00.0: The DDP package file was not found or could not be read. Entering Safe Mode",
            "firmware-file",
        ),
        (
            "[ 1.1] pci 0000:41:00.0: BAR 0 [mem size 0x02000000 64bit pref]: failed to assign\n\
          [ 1.2] mlx5_core: probe of 0000:41:00.0 failed with error -12",
            "pci-resources",
        ),
        (
            "[ 1.1] scsi host9: ib_srp: REJ received\n[ 1.2] scsi host9:   REJ reason 0x8",
            "no-listener",
        ),
        (
            "2024-02-01_06:00:02.332+0100: [W] VERBS RDMA open error   verbsPort mlx5_0/1   due to port state = IBV_PORT_DOWN",
            "port-down",
        ),
        (
            "(1) Jan12 10:22:09 *XNodeSync(22120) [IBVSocket_connectByIP] >> Timed out waiting for connection: 10.2.1.11",
            "fabric-or-peer",
        ),
        (
            "insmod: ERROR: could not insert module mlx5_core.ko: Key was rejected by service",
            "module-signature",
        ),
        (
            "modprobe: ERROR: could not insert 'mlx5_core': Exec format error",
            "kernel-module-build",
        ),
        (
            "[ 1.1] kworker/1:2: page allocation failure: order:9, mode:0x40cc0(GFP_KERNEL)\n\
          [ 1.1]  mlx5_ib_create_cq+0x3a5/0x8d0 [mlx5_ib]",
            "host-memory",
        ),
        (
            "qemu-kvm: vfio 0000:41:00.2: group 42 is not viable",
            "device-assignment",
        ),
        (
            "[ 1.1] nvme nvme1: Connect for subsystem nqn.x is not allowed, hostnqn: nqn.y",
            "storage-access",
        ),
        (
            "[ 1.1] LNetError: 1822:0:(o2iblnd_cb.c:3128:kiblnd_check_connreply()) 10.0.0.5@o2ib has incompatible queue depth 128 (<=8 wanted): rc = -71",
            "peer-settings",
        ),
        ("[ 1.1] scsi host7: ib_srp: REJ reason 0x8", "no-listener"),
        (
            "[ 1.1] bnxt_en 0000:41:00.0 bnxt_re0: Failed to initialize RCFW: 0xffffff92\n\
          [ 1.2] bnxt_re bnxt_en.rdma.0: probe with driver bnxt_re failed with error -110",
            "device-fault",
        ),
        (
            "[ 1.1] {1}[Hardware Error]: event severity: fatal\n[ 1.1] {1}[Hardware Error]:   section_type: PCIe error",
            "pci-errors",
        ),
    ] {
        let found = causes(&node, log);
        assert_eq!(
            found.first().map(|cause| cause.id),
            Some(cause),
            "{log}: {found:?}"
        );
    }
}

#[test]
fn messages_of_storage_and_of_the_tools_of_a_node_have_their_cause() {
    let node = node();
    for (log, cause) in [
        (
            "[ 1.1] bnxt_en 0000:12:00.0: QPLIB: bnxt_re_is_fw_stalled: FW STALL Detected. cmdq[0xe]=0x3 waited\n\
             [ 1.2] infiniband bnxt_re0: Couldn't start port",
            "device-fault",
        ),
        (
            "Failed to write to /dev/nvme-fabrics: Invalid argument\n\
             [5.262528]mlx5_cmd_check:810:(pid 9): create_mkey(0x200) op_mod(0x0) failed, status bad parameter(0x3), syndrome (0x35e6ec)\n\
             [5.262551] nvme nvme1: rdma connection establishment failed (-22)",
            "driver-firmware",
        ),
        (
            "nvme.c: 598:spdk_nvme_probe_internal: *ERROR*: NVMe trtype 1 not available",
            "communication-library",
        ),
        (
            "transport.c: 173:nvmf_transport_create: *ERROR*: Transport type 'RDMA' unavailable.",
            "communication-library",
        ),
        (
            "# nvme connect -t rdma -n nqn.x -a 10.0.0.9 -s 4420\nFailed to write to /dev/nvme-fabrics: Invalid argument",
            "nvme-options",
        ),
        (
            "[394445.76] nvme_fabrics: found same hostid cdf90517 but different hostnqn nqn.x",
            "nvme-options",
        ),
        (
            "ibpanic: [4711] main: can't open UMAD port ((null):0): No such file or directory",
            "rdma-modules",
        ),
        (
            "ibwarn: [1] umad_open_port: open /dev/infiniband/umad0 failed: No such file or directory",
            "rdma-modules",
        ),
        (
            "modprobe: ERROR: could not insert 'mlx5_ib': Invalid argument",
            "kernel-module-build",
        ),
        (
            "bnxt_en 0000:41:00.0 ens1f0np0: hwrm req_type 0x61 seq id 0x12 error 0x2",
            "driver-firmware",
        ),
        (
            "WARNING: bnxtnet: hwrm_get_version:1201: [vmnic4 : 0x450a] VER_GET failed- FW_STATUS_REG: 0x89021",
            "device-fault",
        ),
        (
            "Startup probe failed: ls: cannot access '/run/mellanox/drivers/.driver-ready': No such file or directory",
            "kernel-module-build",
        ),
        (
            "libfabric:7:efa:core:efa_check_hints():176<info> Unsupported capabilities\nfi_getinfo: -61 (No data available)",
            "unsupported-adapter",
        ),
    ] {
        let found = causes(&node, log);
        assert_eq!(
            found.first().map(|cause| cause.id),
            Some(cause),
            "{log}: {found:?}"
        );
    }
}

#[test]
fn modules_of_the_kernel_get_no_advice_for_processes_and_storage_none_for_pods() {
    let node = node();
    for log in [
        "[ 1.1] nvmet_rdma: failed to create_qp ret= -12",
        "[ 1.1] LNetError: 1822:0:(o2iblnd.c:947:kiblnd_create_conn()) Can't create QP: -12, send_wr: 32634",
        "[ 1.1] iser: iser_connect: rdma_resolve_addr failed: -19",
        "[ 1.1] LNetError: 105-4: Error -19 starting up LNI o2ib",
    ] {
        let found = causes(&node, log);
        assert!(!found.is_empty(), "{log}");
        for cause in found {
            assert!(
                ![
                    "memlock-limit",
                    "device-not-given",
                    "userspace-libraries",
                    "gid-other-namespace"
                ]
                .contains(&cause.id),
                "{log}: {cause:?}"
            );
        }
    }
    for log in [
        "[2024-02-02 10:03:13.9] rdma.c:2611:nvmf_rdma_create: *ERROR*: spdk_rdma_cm_get_devices() failed: No such device (19)",
        "2023-05-08_08:13:44.110+0200: [E] VERBS RDMA ibv_reg_mr addr 0x1801000000 size 17179869184 errno 12 (Cannot allocate memory)",
        "Logging in to [iface: iser, target: iqn.x, portal: 10.0.0.4,3260]\n\
         iscsiadm: initiator reported error (24 - iSCSI login failed due to authorization failure)",
    ] {
        let first = causes(&node, log).remove(0);
        let step = first.next_step.to_ascii_lowercase();
        assert!(
            !["pod", "nccl", "rank"].iter().any(|word| step.contains(word)),
            "{log}: {step}"
        );
    }
}

#[test]
fn starts_of_healthy_nodes_and_other_modules_show_nothing() {
    let node = node();
    for log in [
        "bnxt_en 0000:12:00.0 (unnamed net_device) (uninitialized): Device requests max timeout of 100 seconds, may trigger hung task watchdog",
        "[ 1.1] iwlwifi 0000:02:00.0: Direct firmware load for iwlwifi-72.ucode failed with error -2",
        "[ 1.1] pci 0000:18:00.0: VF BAR 0 [mem size 0x00800000 64bit pref]: can't assign; no space",
        "[ 1.1] pci 0000:3b:00.0: BAR 0 [mem size 0x02000000 64bit pref]: can't assign; no space\n\
         [ 1.2] pci 0000:3b:00.0: BAR 0 [mem 0x383800000000-0x383801ffffff 64bit pref]: assigned",
        "vboxdrv: version magic '6.1.0-9' should be '6.1.0-13'",
        "[ 1.1] INFO: task jbd2/sda1-8:412 blocked for more than 120 seconds.\n[ 1.1]  jbd2_commit+0x43/0x120 [jbd2]",
        "[ 1.1] mlx5_core 0000:41:00.0:   device [15b3:1021] error status/mask=00000001/0000e000",
        "[ 1.1] {1}[Hardware Error]: event severity: corrected\n[ 1.1] {1}[Hardware Error]:   section_type: PCIe error",
        "[ 1.1] nvme nvme2: Successfully reconnected (1 attempts)",
        "# nvme connect -t tcp -n nqn.x -a 10.0.0.9 -s 4420\nFailed to write to /dev/nvme-fabrics: Invalid argument",
        "Logging in to [iface: default, target: iqn.x, portal: 10.0.0.4,3260]\n\
         iscsiadm: initiator reported error (24 - iSCSI login failed due to authorization failure)",
        "# mount -t nfs nas1:/export/home /mnt\nmount.nfs: access denied by server while mounting nas1:/export/home",
        "nvme.c: 598:spdk_nvme_probe_internal: *ERROR*: NVMe trtype 256 not available",
        "W0619 08:10:00.12 1100 transfer_engine.cpp:210] No RDMA devices found. To enable RDMA transport, install Mooncake with RDMA support.\n\
         I0619 08:10:01.10 1100 tcp_transport.cpp:120] TcpTransport: listen on port 15867",
    ] {
        let found = causes(&node, log);
        assert!(found.is_empty(), "{log}: {found:?}");
    }
}

#[test]
fn a_connection_of_lustre_that_was_lost_once_and_restored_is_no_failure() {
    let node = node();
    let lost = "[ 9122.0] Lustre: s-OST0007-osc-ffff9a11: Connection to s-OST0007 (at 10.10.1.7@o2ib) was lost; in progress operations using this \
        service will wait for recovery to complete";
    let restored = "[ 9155.0] Lustre: s-OST0007-osc-ffff9a11: Connection restored to  (at 10.10.1.7@o2ib)";
    assert_eq!(
        causes(&node, lost).first().map(|cause| cause.id),
        Some("peer-failed")
    );
    assert!(causes(&node, &format!("{lost}\n{restored}")).is_empty());
    let again = format!("{lost}\n{restored}\n{}", lost.replace("9122", "9201"));
    assert_eq!(
        causes(&node, &again).first().map(|cause| cause.id),
        Some("peer-failed")
    );
    // Over TCP it is not a matter of RDMA.
    assert!(causes(&node, &lost.replace("@o2ib", "@tcp")).is_empty());
}

#[test]
fn what_the_target_lacks_is_not_looked_for_on_the_host() {
    let node = node();
    let ejected = "[ 2.0] nvme nvme0: Connect rejected: status 9 (nvme status 6 resource not found).";
    let first = causes(&node, ejected).remove(0);
    assert_eq!(first.id, "hca-resources");
    assert!(
        first.next_step.contains("this host is not short of any"),
        "{}",
        first.next_step
    );
    // The target's own line says more, where the log has both.
    let target = "[ 1.0] nvmet_rdma: rdma_accept failed (error code = -12)";
    let first = causes(&node, &format!("{target}\n{ejected}")).remove(0);
    assert_eq!(first.id, "host-memory");
}

#[test]
fn the_program_that_lists_only_ports_without_a_link_found_no_device_because_of_them() {
    let node = node();
    let down = "INFO] ibdev2netdev: mlx5_0 port 1 ==> ens1f0np0 (Down)\n";
    let without = "mgmtd_main IBDevice.cc:531 CRITICAL] No available IB device found";
    let first = |log: &str| causes(&node, log).remove(0).id;
    assert_eq!(first(&format!("{down}{without}")), "port-down");
    // Another port is up: it is not the link.
    let up = "INFO] mlx5_1 port 1 ==> ens1f1np1 (Up)\n";
    assert_eq!(first(&format!("{down}{up}{without}")), "device-not-given");
}

#[test]
fn lnet_without_its_interface_gets_the_step_for_its_options() {
    let first = causes(
        &node(),
        "LNetError: 2719:0:(o2iblnd.c:3327:kiblnd_startup()) ko2iblnd: No matching interfaces\n\
         LNetError: 105-4: Error -100 starting up LNI o2ib",
    )
    .remove(0);
    assert_eq!((first.id, first.confidence), ("addressing", Confidence::Likely));
    assert!(first.next_step.contains("lustre_rmmod"), "{}", first.next_step);
}

#[test]
fn a_client_of_lustre_that_goes_on_with_the_other_server_of_a_pair_is_no_alarm() {
    let lost = "[9.1] Lustre: s-OST0001-osc-ffff8fe2: Connection to s-OST0001 (at 10.1.0.12@o2ib) was lost; in progress operations using this service \
                will wait for recovery to complete\n";
    let node = node();
    assert_eq!(causes(&node, lost).remove(0).id, "peer-failed");
    let other =
        "[9.9] Lustre: s-OST0002-osc-ffff8fe2: Connection restored to 10.1.0.13@o2ib (at 10.1.0.13@o2ib)\n";
    assert_eq!(
        causes(&node, &format!("{lost}{other}")).remove(0).id,
        "peer-failed"
    );
    let same = other.replace("OST0002", "OST0001");
    assert!(causes(&node, &format!("{lost}{same}")).is_empty());
}

#[test]
fn smb_direct_names_the_status_of_a_completion_with_and_without_its_module() {
    let node = node();
    for (line, cause) in [
        (
            "smb_direct: Recv error. status='local length error (1)' opcode=128",
            "application-memory",
        ),
        (
            "ksmbd: smb_direct: Recv error. status='local length error (1)' opcode=128",
            "application-memory",
        ),
        // A connection that ended before.
        ("[  424.1] ksmbd: Failed to send message: -107", "peer-failed"),
    ] {
        let found = causes(&node, line);
        assert_eq!(found.first().map(|cause| cause.id), Some(cause), "{line}");
    }
    let sent = "ksmbd: smb_direct: Send completed. status='success (0)', opcode=0";
    assert!(causes(&node, sent).is_empty());
}
