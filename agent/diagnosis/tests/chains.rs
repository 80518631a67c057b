//! What decides where one line has several causes: the lines around it, the first line of a chain, the machine that wrote it.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::{Confidence, diagnose, symptom::SymptomKind as K};
use rdma_health_node::Node;

use common::{each_is, first, kinds, primary, read};

const LOW: &str = "[    1.5] mlx5_core 0000:01:00.0: mlx5_pcie_event:326:(pid 12): Detected insufficient power on the PCIe slot (27W).\n";

#[test]
fn low_power_of_a_slot_is_usual_where_the_adapter_is_part_of_the_board() {
    let board = "[    5.3] cx7-pcie-hotplug MTKP0001:00: Hotplug enabled\n";
    assert_eq!(first(&[LOW, board].concat()).0, "");
    let off = "[ 9.1] mlx5_core 0000:01:00.0: Port module event[error]: module 0, Cable error, One or more network ports have been powered down due to \
               insufficient/unadvertised power on the PCIe slot\n";
    assert_eq!(first(&[off, board].concat()).0, "slot-power");
    // Alone, it does not show which machine it is.
    let causes = diagnose(&Node::unknown(), &[], Some(&read(LOW))).causes;
    assert_eq!(causes[0].id, "slot-power");
    assert_eq!(causes[0].confidence, Confidence::Possible);
    assert!(causes[0].next_step.starts_with("See what the machine is"));
}

#[test]
fn a_symbol_that_is_absent_is_not_there_after_another_build() {
    each_is(&[
        (
            "[ 1.1] nv_peer_mem: Unknown symbol ib_register_peer_memory_client (err 0)",
            "peer-memory-path",
            "install MLNX_OFED",
        ),
        (
            "[ 1.1] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -2)",
            "peer-memory-path",
            "install MLNX_OFED",
        ),
        (
            "[ 1.1] nv_peer_mem: Unknown symbol ib_register_peer_memory_client (err -22)",
            "peer-memory-path",
            "Build nv_peer_mem again",
        ),
    ]);
}

#[test]
fn an_adapter_that_is_taken_away_has_no_fault_of_its_cable() {
    let down = "[ 309.2] mlx5_core 0000:0a:00.0 mlx5_0: Port: 1 Link DOWN\n";
    let cleanup = "[ 351.5] mlx5_core 0000:0a:00.0: E-Switch: cleanup\n";
    let of_bus = "[ 351.5] pci 0000:0a:00.0: Removing from iommu group 12\n";
    assert_eq!(primary(down), [K::PortError]);
    for end in [cleanup, of_bus] {
        assert_eq!(kinds(&[down, end].concat()), [], "{end}");
        let symptoms = read(&[down, end].concat()).symptoms;
        assert_eq!(symptoms[0].kind, K::DeviceGone, "{end}");
        // Of another adapter, or before.
        assert_eq!(
            primary(&[down, &end.replace("0a:00", "0b:00")].concat()),
            [K::PortError]
        );
        assert_eq!(primary(&[end, down].concat()), [K::PortError]);
    }
    // A driver that gives up ends in the same words.
    let dead = "[ 300.1] mlx5_core 0000:0a:00.0: poll_health:825:(pid 0): Fatal error 1 detected\n";
    assert!(primary(&[dead, down, cleanup].concat()).contains(&K::DeviceFatal));
}

#[test]
fn a_board_that_sees_no_cable_takes_its_adapters_off_the_bus() {
    let removal = "[ 16.2] cx7-pcie-hotplug MTKP0001:00: Cable removal\n";
    let (id, step) = first(removal);
    assert_eq!(id, "devices-missing");
    assert!(step.contains("Do not rescan"), "{step}");
    assert!(!step.contains("echo 1"), "{step}");
    let plugged = "[ 90.2] cx7-pcie-hotplug MTKP0001:00: Cable plugin\n";
    assert_eq!(kinds(&[removal, plugged].concat()), []);
}

#[test]
fn an_address_of_no_family_is_first_a_matter_of_a_setting_that_the_log_shows() {
    let family = "n1:1:2 [0] misc/socket.cc:709 NCCL WARN ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)\n";
    let set = "n1:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set to eth2\n";
    let excluded = "n1:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set to ^docker0\n";
    each_is(&[
        (&[set, family].concat(), "job-settings", "eth2"),
        (
            &[excluded, family].concat(),
            "peer-settings",
            "NCCL_SOCKET_IFNAME",
        ),
        (family, "peer-settings", "same order"),
    ]);
    let causes = diagnose(&Node::unknown(), &[], Some(&read(family))).causes;
    assert_eq!(causes[0].confidence, Confidence::Possible);
    let versions = "n1:1:2 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\nn2:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n";
    let causes = diagnose(
        &Node::unknown(),
        &[],
        Some(&read(&[versions, set, family].concat())),
    )
    .causes;
    assert_eq!(
        (causes[0].id, causes[0].confidence),
        ("peer-settings", Confidence::Likely)
    );
}

#[test]
fn the_first_line_of_a_chain_says_why_a_driver_gave_up() {
    let irqs = "mlx5_core 0000:00:08.0: mlx5_load:1266:(pid 1283): Failed to alloc IRQs\n";
    let end = "mlx5_core 0000:00:08.0: probe_one:1959:(pid 1283): mlx5_init_one failed with error code -19\n";
    let vectors = "hns3 0000:7d:00.0: failed to allocate MSI-X vectors\n";
    let of_hns = "hns3: probe of 0000:7d:00.0 failed with error -19\n";
    each_is(&[
        (&[irqs, end].concat(), "driver-firmware", "MSI-X"),
        (&[vectors, of_hns].concat(), "driver-firmware", "MSI-X"),
        (end, "device-fault", ""),
        // What failed later is not the reason.
        (&[end, irqs].concat(), "device-fault", ""),
    ]);
}

#[test]
fn a_provider_says_what_it_does_not_offer_and_others_only_answer() {
    let hints = "libfabric:7:efa:core:efa_check_hints():176<info> Unsupported capabilities\n";
    let efa = "libfabric:7:core:core:fi_getinfo_():889<warn> fi_getinfo: provider efa returned -61 (No data available)\n";
    let rxm = "libfabric:7:core:core:fi_getinfo_():889<warn> fi_getinfo: provider ofi_rxm returned -61 (No data available)\n";
    let selected = "n1:7:9 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)\n";
    assert_eq!(primary(&[hints, efa].concat()), [K::UnsupportedAdapter]);
    assert!(first(&[hints, efa].concat()).1.contains("fi_info"));
    assert_eq!(kinds(&[hints, efa, selected].concat()), []);
    assert_eq!(kinds(&[efa, rxm].concat()), []);
    assert_eq!(kinds(&efa.replace("warn", "info")), []);
}

#[test]
fn an_error_of_shared_memory_is_one_where_its_callers_repeat_it() {
    let open = "[1.2] [n71:2:0] mm_posix.c:194  UCX  ERROR open(file_name=/proc/20353/fd/18 flags=0x0) failed: No such file or directory\n";
    let other = "[n71:2] pml_ucx.c:472  Error: Failed to do what UCX was to do\n";
    each_is(&[
        (open, "shared-memory", "UCX_POSIX_USE_PROC_LINK"),
        (
            &[open, other].concat(),
            "shared-memory",
            "UCX_POSIX_USE_PROC_LINK",
        ),
        (
            "[n1:12] Read -1, expected 36864, errno = 1",
            "shared-memory",
            "SYS_PTRACE",
        ),
        (
            "cma_ep.c:81 UCX ERROR process_vm_readv(pid=12 {0x7f,64}-->{0x7e,64}) returned -1: Operation not permitted",
            "shared-memory",
            "SYS_PTRACE",
        ),
    ]);
}

#[test]
fn what_other_layers_report_of_their_end_is_named() {
    each_is(&[
        (
            "Mon Jun 25 22:23:36 2018: Close connection to 10.1.10.9 c5n9. Attempting reconnect.",
            "tcp-connection",
            "",
        ),
        (
            "mlx4_core 0000:04:00.0: MLX4_CMD_MAD_IFC Get Module info attr(ff60) port(1) i2c_addr(50) offset(0) size(2): Response Mad Status(31c) - \
             cable is not connected",
            "port-down",
            "cable",
        ),
        (
            "[1.2] [ip-2:62:0] ib_device.c:670  UCX  ERROR ibv_query_gid(dev=mlx5_an0 port=1 index=0) failed: Invalid argument",
            "gid-missing",
            "Leave mlx5_an0 out",
        ),
        (
            "[1.2] [n1:2:0] rcache.c:534  UCX  WARN  failed to register region 0x563b3f909550 [0x7fae34a00000..0x7fae35000000]: Input/output error",
            "memlock-limit",
            "journalctl",
        ),
        (
            "infiniband mlx5_0: create_mkey_callback:131:(pid 0): async reg mr failed. status -12",
            "hca-resources",
            "neither a cgroup",
        ),
    ]);
    // The status of a request, and what goes on without.
    for harmless in [
        "mlx4_core 0000:04:00.0: MLX4_CMD_MAD_IFC Get Module info attr(ff60) port(1) i2c_addr(51) offset(0) size(48): Response Mad Status(71c) - invalid \
         I2C slave address",
        "[1.2] [gpu-1:2:2] cuda_copy_md.c:483  UCX  WARN  cuPointerSetAttribute(0xef0000000, SYNC_MEMOPS) error: operation not supported",
    ] {
        assert_eq!(kinds(harmless), [], "{harmless}");
    }
    // The adapter refused what this end posted.
    let local = "n0:1:2 [0] transport/net_ib.cc:154 NCCL WARN NET/IB : mlx5_3:1 async fatal event on QP (0x76fd): invalid request local work queue error\n";
    assert_ne!(first(local).0, "peer-failed");
}

#[test]
fn what_a_library_reports_explains_the_general_text_of_what_loaded_it() {
    const GENERAL: &str = "[n1:9] pml_ucx.c:309  Error: Failed to create UCP worker\n\
        No components were able to be opened in the pml framework.\n\n  Host:      n1\n  Framework: pml\n[n1:9] PML ucx cannot be selected\n";
    let log = format!(
        "[1.7] [n1:9:0]   ib_iface.c:1674 UCX  ERROR Invalid active_speed on mlx5_0:1: 128\n{GENERAL}"
    );
    let (cause, step) = first(&log);
    assert_eq!(cause, "unsupported-adapter");
    assert!(step.contains("Update UCX"), "{step}");
    assert_eq!(primary(&log), [K::UnsupportedAdapter]);
    let width = "[1.7] [n1:9:0]   ib_iface.c:947  UCX  ERROR Invalid active_width on mlx5_0:1: 16\n";
    assert_eq!(first(width).0, "unsupported-adapter");
    // The part was there, whatever failed in it.
    let (_, step) = first(GENERAL);
    assert!(step.contains("first error before this line"), "{step}");
    let (_, step) = first("No components were able to be opened in the pml framework.\n  Framework: pml\n");
    assert!(step.contains("ompi_info"), "{step}");
}

#[test]
fn a_transport_that_could_not_lock_memory_is_not_left_out_by_a_setting() {
    const FAILED: &str = "Failed to create a completion queue (CQ):\n\nHostname: n1\nRequested CQE: 16384\nError:    Cannot allocate memory\n";
    const LEFT_OUT: &str = "No OpenFabrics connection schemes reported that they were able to be used on a specific port.\n  Local device:         mlx4_0\n";
    assert_eq!(first(&format!("{FAILED}{LEFT_OUT}")).0, "memlock-limit");
    assert!(first(LEFT_OUT).1.contains("Select UCX"));
}
