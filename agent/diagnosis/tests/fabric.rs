//! What users paste of MPI, PSM, libfabric, DPDK and the tools of an InfiniBand fabric, and their sound relatives.

#![allow(missing_docs)]

mod common;

use common::{kinds, read};
use rdma_health_diagnosis::{Diagnosis, diagnose, symptom::SymptomKind as K};
use rdma_health_node::Node;
use rdma_health_protocol::WcStatus;

const FRAME: &str = "--------------------------------------------------------------------------";

/// The diagnosis of a text, with no node known.
fn diagnosed(text: &str) -> Diagnosis {
    diagnose(&Node::unknown(), &[], Some(&read(text)))
}

fn first(text: &str) -> (&'static str, String) {
    let shown = diagnosed(text);
    let cause = shown.causes.first().unwrap_or_else(|| panic!("no cause: {text}"));
    (cause.id, cause.next_step.clone())
}

#[test]
fn messages_show_their_failure() {
    for (text, kind) in [
        (
            "e001.53882PSM2 no hfi units are active (err=23)",
            K::PortNotActive,
        ),
        (
            "hfi_userinit: PSM2 and driver version mismatch: (6 != 5)",
            K::VersionMismatch,
        ),
        (
            "node12 hfi_userinit: assign_context command failed: Device or resource busy",
            K::ResourceLimit,
        ),
        (
            "psm2_ep_open: Wrong pkey 0x8002, please use PSM2_PKEY to specify a valid pkey",
            K::PkeyMissing,
        ),
        ("[17:n01] unexpected DAPL event 0x4008", K::PeerUnreachable),
        ("[17:n01] unexpected DAPL event 0x4003", K::ConnectRefused),
        (
            "mlx5_common: DevX create q counter set failed errno=121 status=0x2 syndrome=0x8975f1",
            K::CommandRefused,
        ),
        (
            "net_mlx5: probe of PCI device 0000:5e:00.0 aborted after encountering an error: Operation not permitted",
            K::NotPermitted,
        ),
        (" Couldn't get local LID", K::PortInitializing),
        (" DMA-BUF is not supported on this GPU", K::DmaBufUnsupported),
        (
            "ibv_devinfo: symbol lookup error: /usr/lib/libibverbs/libbnxt_re-rdmav34.so: undefined symbol: verbs_register_driver_34",
            K::LibraryMismatch,
        ),
        (
            "# [551.22] mercury->cls: [error] na_ofi.c:3102 na_ofi_verify_info(): No provider found for \"verbs;ofi_rxm\" provider on domain \"mlx5_7\"",
            K::SettingUnmatched,
        ),
        (
            "ACTIVE        00000 0067890 10.0.0.1:5201 10.0.0.2:43210  0000 TCP 0x03030000",
            K::SocketFallback,
        ),
        (
            "openibd[1512]: Module mlx5_ib belong to kernel which is not a part of MLNX_OFED, skipping...[FAILED]",
            K::ModuleMismatch,
        ),
    ] {
        assert_eq!(kinds(text), [kind], "{text}");
    }
}

#[test]
fn sound_output_shows_nothing() {
    for text in [
        "mlx5_net: Default miss action is not supported.",
        "provider: verbs;ofi_rxm, score = 5, pref = -2, FI_FORMAT_UNSPEC [28]",
        "[0] MPI startup(): File \"/opt/intel/etc/tuning_skx_shm-ofi_mlx_100.dat\" not found",
        "SymbolErrorCounter:..............0\nLinkDownedCounter:...............2",
        "Recommendation                     : No issue was observed",
        "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev a\nlink mlx5_1/1 state DOWN physical_state DISABLED netdev b",
        "\t\tState: Down\n\t\tPhysical state: Disabled\n\t\tState: Active\n\t\tPhysical state: LinkUp",
        "Nov 12 09:31:02 112233 [6B7FE700] 0x02 -> SUBNET UP",
    ] {
        assert_eq!(kinds(text), [], "{text}");
    }
}

#[test]
fn a_message_that_a_help_text_wraps_is_read_as_one() {
    let text = format!(
        "{FRAME}\nWARNING: It appears that your OpenFabrics subsystem is configured to only\nallow registering part of your physical \
         memory.  This can cause MPI jobs to\nrun with erratic performance.\n{FRAME}\n"
    );
    assert_eq!(kinds(&text), [K::ResourceLimit]);
    let without_frame = text.replace(FRAME, "");
    assert_eq!(kinds(&without_frame), []);
    // The rest of a table is not the continuation of a message.
    let table = format!("{FRAME}\nBenchmark: ring on mlx5_0 port 1\nNodes not active: 0\n{FRAME}\n");
    assert_eq!(kinds(&table), []);
}

#[test]
fn a_help_text_is_read_wherever_it_breaks() {
    let retry = [
        "The InfiniBand retry count between two MPI processes has been exceeded.  \"Retry count\" is defined in the InfiniBand spec 1.2",
    ];
    let receiver = [
        "The OpenFabrics \"receiver not ready\" retry count on a per-peer connection between two MPI processes has been exceeded.  In general, \
                     this should not happen because Open MPI uses flow control on per-peer connections.",
    ];
    for (text, kind) in [
        (retry, K::Completion(WcStatus::RetryExcErr)),
        (receiver, K::Completion(WcStatus::RnrRetryExcErr)),
    ] {
        let words: Vec<&str> = text[0].split(' ').collect();
        for width in 4..words.len() {
            let lines: Vec<String> = words.chunks(width).map(|line| line.join(" ")).collect();
            let boxed = format!("{FRAME}\n{}\n\n  Local host:   n1\n{FRAME}\n", lines.join("\n"));
            assert_eq!(kinds(&boxed), [kind], "{boxed}");
        }
    }
    // Other processes print the same text, which Open MPI only counts.
    let counted =
        "[n1:21344] 3 more processes have sent help message help-mpi-btl-openib.txt / pp retry exceeded";
    assert_eq!(kinds(counted), [K::Completion(WcStatus::RetryExcErr)]);
    let sound =
        "[n1:21344] 1 more process has sent help message help-mpi-btl-openib.txt / no device params found";
    assert_eq!(kinds(sound), []);
}

#[test]
fn remedies_are_those_of_what_was_pasted() {
    for (text, cause, words) in [
        (
            "Consult /var/lib/dkms/mlnx-ofed-kernel/24.04/build/make.log for more information.",
            "kernel-module-build",
            "linux-headers",
        ),
        (
            "-E- PSID mismatch. The PSID on flash (LNV0000000025) differs from the PSID in the given image (MT_0000000158).",
            "firmware-tool-refused",
            "maker of the adapter",
        ),
        (
            "mlx5_common: No Verbs device matches PCI device 0000:c3:00.2, are kernel drivers loaded?",
            "rdma-modules",
            "mlx5_core/bind",
        ),
        (
            "[  121.3] mlx5_core 0000:03:00.0: mlx5_function_setup:1236:(pid 182): Firmware over 120000 MS in pre-initializing state, aborting\n\
             [  121.4] mlx5_core 0000:03:00.0: init_one:1812:(pid 182): mlx5_load_one failed with error code -16",
            "device-fault",
            "reset the adapter",
        ),
        (
            "libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1 to 1) for device bnxt_re0\nNo IB devices found",
            "userspace-libraries",
            "of different releases",
        ),
        (
            "c101.7712PSM2 can't open hfi unit: -1 (err=23)",
            "hca-resources",
            "num_user_contexts",
        ),
        (
            "Nov 12 09:31:02 112233 [6B7FE700] 0x01 -> ni_rcv_set_links: ERR 0D01: Found duplicated node GUID.",
            "guids",
            "ibnetdiscover",
        ),
        (
            "Nov 12 09:31:02 112233 [6B7FE700] 0x01 -> mcmr_rcv_join_mgrp: ERR 1B12: validate_port_caps failed for MGID: ff12::1 port 0x1",
            "partition-key",
            "saquery -g",
        ),
        (
            "Nov 12 09:31:02 112233 [6B7FE700] 0x01 -> osm_vendor_bind: ERR 5426: Unable to register class 129 version 1",
            "no-subnet-manager",
            "no other opensm",
        ),
        (
            "Nov 12 09:31:02 112233 [6B7FE700] 0x01 -> umad_receiver: ERR 5411: DR SMP Send completed with error (IB_TIMEOUT) -- dropping",
            "fabric-or-peer",
            "smpquery",
        ),
        (
            " Requested QP size might be too big. Try reducing TX depth and/or inline size.\nUnable to create QP.\n Couldn't create IB resources",
            "memlock-limit",
            "ulimit -l",
        ),
    ] {
        let (id, step) = first(text);
        assert_eq!(id, cause, "{text}");
        assert!(step.contains(words), "{text}: {step}");
    }
}

#[test]
fn a_port_that_is_down_counts_beside_an_active_one_unless_it_is_not_in_use() {
    const ACTIVE: &str = "hca_id: mlx5_0\n\tport: 1\n\t\tstate: PORT_ACTIVE (4)\n";
    for (listed, is_down) in [
        ("hca_id: mlx5_1\n\tport: 1\n\t\tstate: PORT_DOWN (1)\n", true),
        ("\tport: 2\n\t\tstate: PORT_DOWN (1)\n", false),
        (
            "hca_id: mlx5_1\n\tport: 1\n\t\tstate: PORT_DOWN (1)\n\t\tphys_state: DISABLED (3)\n",
            false,
        ),
        (
            "hca_id: mlx5_1\n\tport: 1\n\t\tstate: PORT_DOWN (1)\n\t\tphys_state: POLLING (2)\n",
            true,
        ),
        (
            "CA 'mlx5_1'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n",
            false,
        ),
        (
            "CA 'mlx5_1'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Polling\n",
            true,
        ),
        (
            "link mlx5_1/1 state DOWN physical_state DISABLED netdev ens1\n",
            false,
        ),
        ("mlx5_1 port 1 ==> ens1f1np1 (Down)\n", false),
    ] {
        let expected: &[K] = if is_down { &[K::PortNotActive] } else { &[] };
        assert_eq!(kinds(&format!("{ACTIVE}{listed}")), expected, "{listed}");
    }
}

#[test]
fn the_status_of_a_completion_counts_in_the_line_of_its_heading_too() {
    for end in ["client", "server"] {
        let line = format!(" Completion with error at {end} Failed status 12: wr_id 0 syndrom 0x81 scnt=128");
        assert_eq!(kinds(&line), [K::Completion(WcStatus::RetryExcErr)], "{line}");
    }
}

#[test]
fn a_subnet_manager_without_a_link_says_so_in_the_log_of_the_system_until_it_has_one() {
    const DOWN: &str = "Sep 20 18:10:40 ts2 OpenSM[3527]: Entering DISCOVERING state#012\nSep 20 18:10:40 ts2 OpenSM[3527]: SM port is down#012\n";
    assert_eq!(kinds(DOWN), [K::PortNotActive]);
    for up in ["SM port is up", "Entering MASTER state", "SUBNET UP"] {
        let text = format!("{DOWN}Sep 20 18:38:50 ts2 OpenSM[3527]: {up}#012\n");
        assert_eq!(kinds(&text), [], "{up}");
    }
}

#[test]
fn a_program_names_the_state_of_a_port_that_it_cannot_use() {
    let ceph = |state: &str| {
        format!(
            "2018-03-19 11:02:33.1 7f9d3a4d0e00 -1 Infiniband binding_port  port 1 is not what we want. state: {state})"
        )
    };
    assert_eq!(kinds(&ceph("down")), [K::PortNotActive]);
    assert_eq!(kinds(&ceph("init")), [K::PortInitializing]);
    // Of a container, and not of an adapter.
    assert_eq!(kinds("container port 1 is not what we want. state: down"), []);
}

#[test]
fn a_directory_of_devices_that_is_not_there_is_no_device() {
    for line in [
        "ERR `/sys/class/infiniband` not found",
        "error: /dev/infiniband does not exist",
        "no matching RDMA port for interface eth0",
    ] {
        assert_eq!(kinds(line), [K::NoDevice], "{line}");
    }
    assert_eq!(kinds("reading /sys/class/infiniband: 8 devices, 0 not found"), []);
}
