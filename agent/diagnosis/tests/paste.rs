//! What other lines of the same paste show decides which cause comes first: the other end, a list of ports or of GIDs, the reason before a general message.

#![allow(missing_docs)]

use rdma_health_diagnosis::{Confidence, Diagnosis, diagnose, log::LogReader, symptom::Grade};
use rdma_health_node::Node;

fn diagnosed(log: &str) -> Diagnosis {
    let mut reader = LogReader::default();
    reader.feed(log.as_bytes());
    diagnose(&Node::unknown(), &[], Some(&reader.finish()))
}

/// The grade of the gravest symptom.
fn grade(log: &str) -> Option<Grade> {
    diagnosed(log)
        .symptoms
        .into_iter()
        .map(|symptom| symptom.grade)
        .max()
}

/// The first cause of a log, and its next step.
fn first(log: &str) -> (&'static str, String) {
    let diagnosis = diagnosed(log);
    let cause = diagnosis.causes.into_iter().next();
    cause
        .filter(|cause| cause.confidence > Confidence::Unlikely)
        .map_or(("none", String::new()), |cause| (cause.id, cause.next_step))
}

#[test]
fn a_server_that_fails_explains_what_its_client_sees_wherever_it_stands() {
    const INITIATOR: &str = "iser: iser_connect: rdma connection rejected (-104)\n";
    const CLIENT: &str = "Failed to write to /dev/nvme-fabrics: Connection reset by peer\n";
    const SERVER: &str = "rdma.c:1075:spdk_nvmf_rdma_qpair_initialize: *ERROR*: rdma_create_qp failed: errno 12: Cannot allocate memory\n";
    for log in [format!("{CLIENT}{SERVER}"), format!("{SERVER}{CLIENT}")] {
        assert_eq!(first(&log).0, "memlock-limit", "{log}");
    }
    let target = "isert: isert_create_qp: rdma_create_qp failed for cma_id -12\n";
    let alone = first(INITIATOR).0;
    let with_target = first(&format!("{INITIATOR}{target}")).0;
    assert!(alone != with_target && ["hca-resources", "memlock-limit", "host-memory"].contains(&with_target));
}

#[test]
fn a_port_with_a_link_and_no_state_is_a_function_without_guids() {
    let ibstat =
        |physical: &str| format!("CA 'mlx5_7'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: {physical}\n");
    let (cause, step) = first(&ibstat("LinkUp"));
    assert!(
        cause == "virtual-functions" && step.contains("port_guid"),
        "{cause}: {step}"
    );
    for physical in ["Polling", "Disabled"] {
        assert_eq!(first(&ibstat(physical)).0, "port-down", "{physical}");
    }
    let ethernet = ibstat("LinkUp") + "\t\tLink layer: Ethernet\n";
    assert_eq!(first(&ethernet).0, "port-down");
    let devinfo = "hca_id: mlx5_4\n\t\tstate:\t\t\tPORT_DOWN (1)\n\t\tmax_mtu:\t\t4096 (5)\n\t\tphys_state:\t\tLINK_UP (5)\n";
    assert_eq!(first(devinfo).0, "virtual-functions");
}

#[test]
fn a_list_of_gids_shows_what_libfabric_uses_for_datagrams() {
    const FAILED: &str = "[error] util/pingpong.c:1580: fi_av_insert: number of addresses inserted = 0;\n";
    for table in [
        "GID[0]: fe80::4001:c0ff:fea8:4004, RoCE v2\n",
        "mlx5_0  1  0  fe80:0000:0000:0000:5aa2:e1ff:fe1c:2f0a   v1  ens1f0\n",
    ] {
        let (cause, step) = first(&format!("{table}{FAILED}"));
        assert!(
            cause == "gid-index" && step.contains("FI_VERBS_GID_IDX"),
            "{table}: {cause}"
        );
    }
    assert_eq!(first(FAILED).0, "fabric-or-peer");
}

#[test]
fn an_index_that_ucx_selected_itself_shows_a_device_without_an_address() {
    let refused = |index: u32, peer: &str| {
        format!(
            "ib_device.c:1319 UCX  ERROR ibv_create_ah(dlid=49152 sl=0 port=1 src_path_bits=0 dgid={peer} sgid_index={index} traffic_class=106) \
            on rocep33s0f1 failed: Invalid argument\n"
        )
    };
    for index in 0..2 {
        let (cause, step) = first(&refused(index, "::ffff:172.17.22.101"));
        assert!(
            cause == "gid-missing" && step.contains("UCX_NET_DEVICES"),
            "{index}: {cause}"
        );
    }
    assert_eq!(first(&refused(3, "::ffff:172.17.22.101")).0, "gid-index");
    let set = format!("UCX_IB_GID_INDEX=1\n{}", refused(1, "::ffff:172.17.22.101"));
    assert_eq!(first(&set).0, "gid-index");
}

#[test]
fn what_psm_says_before_a_unit_that_does_not_open_is_the_reason() {
    const UNIT: &str = "n1.30734PSM2 can't open hfi unit: -1 (err=23)\n";
    let (cause, step) = first(UNIT);
    assert!(
        cause == "hca-resources" && step.contains("nctxts"),
        "{cause}: {step}"
    );
    for (reason, expected) in [
        (
            "hfi_userinit: assign_context command failed: Device or resource busy",
            "hca-resources",
        ),
        (
            "hfi_userinit: mmap of rcvhdrq at dabbad0004030000 failed: Resource temporarily unavailable",
            "memlock-limit",
        ),
        ("PSM2 no hfi units are active (err=23)", "port-down"),
    ] {
        assert_eq!(first(&format!("{reason}\n{UNIT}")).0, expected, "{reason}");
    }
    for follows in [
        "PSM2 was unable to open an endpoint. Please make sure that the network link is",
        "n1.329747hfp_gen1_context_open: hfi_userinit: failed, trying again (3/3)",
        "[1] MPI startup(): ofi fabric is not available and fallback fabric is not enabled",
    ] {
        assert_eq!(
            first(&format!("{UNIT}{follows}\n")).0,
            "hca-resources",
            "{follows}"
        );
    }
}

#[test]
fn calls_of_one_vendor_fail_for_other_reasons_than_verbs() {
    for (line, expected) in [
        (
            "ib_mlx5_dv.c:161  UCX  ERROR   mlx5dv_devx_obj_create(QP) failed, syndrome 0: Cannot allocate memory\n",
            "hca-resources",
        ),
        (
            "dc_mlx5.c:456  UCX  ERROR ibv_modify_qp(DCI, RTR) failed : Invalid argument\n",
            "userspace-libraries",
        ),
    ] {
        assert_eq!(first(line).0, expected, "{line}");
    }
}

#[test]
fn a_library_that_finds_no_device_beside_a_list_of_them_has_no_support() {
    const UNFOUND: &str = "ucp_context.c:1321 UCX  WARN  network device 'mlx5_2:1' is not available, please use one or more of: 'eth0'(tcp), 'lo'(tcp)\n";
    let (cause, step) = first(&format!("mlx5_2 port 1 ==> ens3f0 (Up)\n{UNFOUND}"));
    assert!(
        cause == "userspace-libraries" && step.contains("ucx_info -d"),
        "{cause}"
    );
    assert_eq!(first(UNFOUND).0, "device-not-given");
}

#[test]
fn a_device_that_a_guest_cannot_have_counts_if_it_may_be_an_adapter() {
    const REFUSED: &str = "qemu: -device vfio-pci,host=0000:81:00.2: vfio 0000:81:00.2: no iommu_group found: No such file or directory\n";
    const BUSY: &str = "qemu: vfio 0000:81:00.2: failed to open /dev/vfio/12: Device or resource busy\n";
    const CARD: &str = "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GK104 [GeForce GTX 760] [10de:1187] (rev a1)\n";
    const BRIDGE: &str =
        "00:01.0 PCI bridge [0604]: Intel Corporation Xeon E3-1200 v3/4th Gen Core Processor [8086:0c01]\n";
    const ADAPTER: &str =
        "81:00.2 Ethernet controller [0200]: Mellanox Technologies MT27800 Family [15b3:1018]\n";
    for refused in [REFUSED, BUSY] {
        assert_eq!(first(&format!("{ADAPTER}{refused}")).0, "device-assignment");
        assert_eq!(grade(&format!("{ADAPTER}{refused}")), Some(Grade::Failure));
        assert_eq!(grade(refused), Some(Grade::Degraded));
        assert_eq!(grade(&format!("{CARD}{BRIDGE}{refused}")), Some(Grade::Note));
    }
}

#[test]
fn a_target_flushes_requests_when_its_client_leaves() {
    const FLUSHED: &str = "rdma.c:3868:spdk_nvmf_rdma_poller_poll: *ERROR*: Error on CQ 0x183b300, request 0x25446792, type 0, status: (5): Work Request \
        Flushed Error\n";
    const RETRIED: &str = "rdma.c:3868:spdk_nvmf_rdma_poller_poll: *ERROR*: Error on CQ 0x183b300, request 0x25446792, type 0, status: (12): transport \
        retry counter exceeded\n";
    assert_eq!(grade(FLUSHED), Some(Grade::Note));
    assert_eq!(first(&format!("{RETRIED}{FLUSHED}")).0, "fabric-or-peer");
}

#[test]
fn a_host_that_is_refused_at_once_had_no_peer_that_could_end() {
    for line in [
        "Failed to write to /dev/nvme-fabrics: Connection reset by peer\n",
        "[ 9.1] nvme nvme0: rdma connection establishment failed (-104)\n",
    ] {
        assert_eq!(first(line).0, "no-listener", "{line}");
    }
}

#[test]
fn libraries_over_libfabric_name_its_providers_as_the_remedy() {
    for (log, cause, words) in [
        (
            "MPIDI_OFI_mpi_init_hook(1061): OFI addrinfo() failed (ofi_init.c:1061:MPIDI_OFI_mpi_init_hook:No data available)\n",
            "job-settings",
            "FI_PROVIDER",
        ),
        (
            "Open MPI failed an OFI Libfabric library call (fi_endpoint).  This is highly\n",
            "communication-library",
            "mtl_ofi_provider_exclude",
        ),
        (
            "> mtl_ofi.h:101: Error returned from fi_cq_readerr: Resource temporarily unavailable(-11).\n\
             > *** The Open MPI OFI MTL is aborting the MPI job (via exit(3)).\n> mpirun noticed that process rank 0 \
             with PID 12345 on node n001 exited on signal 6 (Aborted).\n",
            "communication-library",
            "mtl_ofi_provider_exclude",
        ),
        (
            "common.c: 269:spdk_rdma_srq_create: *ERROR*: Unable to create SRQ, errno 22 (Invalid argument)\n",
            "unsupported-adapter",
            "--no-srq",
        ),
        (
            "init_worker(48)...: ucx function returned with failed status(ucx_init.c 48 init_worker No resources are available to initiate)\n",
            "hca-resources",
            "/dev/shm",
        ),
    ] {
        let (id, step) = first(log);
        assert!(id == cause && step.contains(words), "{log}: {id}: {step}");
    }
}

#[test]
fn open_mpi_over_tcp_beside_an_adapter_that_it_left_out_does_not_use_rdma() {
    const LEFT_OUT: &str = "WARNING: There was an error initializing an OpenFabrics device.\n";
    const TCP: &str = "[cu25][[1,1],1][btl_tcp_endpoint.c:626:mca_btl_tcp_endpoint_recv_connect_ack] received unexpected process identifier [[1,1],4]\n";
    let (cause, step) = first(&format!("{LEFT_OUT}{TCP}"));
    assert!(
        cause == "job-settings" && step.contains("btl_tcp_if_include"),
        "{cause}"
    );
    assert_eq!(grade(LEFT_OUT), None);
    assert_eq!(grade(TCP), Some(Grade::Unrecognised));
}

#[test]
fn an_adapter_of_a_guest_is_mended_on_its_host() {
    let start = |function: &str| {
        format!(
            "[102.3] mlx5_core {function}: init_one:1371:(pid 211): mlx5_load_one failed with error code -16\n"
        )
    };
    assert!(first(&start("0000:00:05.0")).1.starts_with("On the host"));
    assert!(!first(&start("0000:41:00.0")).1.starts_with("On the host"));
}

#[test]
fn a_package_that_is_built_by_hand_is_not_that_of_a_container() {
    let (cause, step) = first("Failed to build MLNX_OFED_LINUX for 5.14.0-rc5\n");
    assert!(
        cause == "kernel-module-build" && !step.contains("kubectl"),
        "{cause}: {step}"
    );
}

#[test]
fn memory_that_processes_of_dpdk_share_is_not_a_device_that_is_missing() {
    const EXISTS: &str =
        "EAL: memzone_reserve_aligned_thread_unsafe(): memzone <mlx5_pmd_shared_data> already exists\n";
    const DRIVER: &str = "mlx5_common: Failed to load driver mlx5_eth\n";
    const DATA: &str = "mlx5_net: Unable to init PMD global data: File exists\n";
    let (cause, step) = first(&format!("{EXISTS}{DATA}{DRIVER}"));
    assert!(
        cause == "communication-library" && step.contains("--file-prefix"),
        "{cause}: {step}"
    );
    assert_eq!(grade(DRIVER), Some(Grade::Failure));
}

#[test]
fn lines_of_software_rdma_and_of_storage_on_gpus_are_not_passed_over() {
    for line in [
        "siw: got TERMINATE. layer 1, type 2, code 2",
        "rdma_rxe: check_rkey: no MW matches rkey 0x1008747",
        "[ 90.1] nvidia-fs:write IO failed :-512",
    ] {
        assert_eq!(grade(line), Some(Grade::Unrecognised), "{line}");
    }
    assert_eq!(grade("[ 90.1] rdma_rxe: null vaddr"), Some(Grade::Degraded));
    let key = "[ 90.1] rdma_rxe: rxe_invalidate_mr: rkey (0x4d9) doesn't match mr->ibmr.rkey (0x4da)";
    assert_eq!(grade(key), Some(Grade::Failure));
    for line in [
        "[ 90.1] rdma_rxe: loaded",
        "[ 90.1] siw: device registered",
        "[ 90.1] nvidia-fs:loaded",
    ] {
        assert_eq!(grade(line), None, "{line}");
    }
}

#[test]
fn a_mount_of_lustre_needs_its_own_module_and_over_tcp_nothing_of_rdma() {
    let mount = |network: &str| {
        format!("mount.lustre: mount 10.1.0.3@{network}:/s at /mnt/s failed: No such device\n")
    };
    assert!(first(&mount("o2ib")).1.contains("modprobe lustre"));
    assert_eq!(first(&mount("tcp0")).0, "none");
}

#[test]
fn a_step_does_not_assume_what_the_line_does_not_say() {
    let (_, step) =
        first("n1.6192osu_bw: An unrecoverable error occurred while communicating with the driver\n");
    assert!(
        !step.contains("FI_PROVIDER=psm2"),
        "the provider that failed: {step}"
    );
    let (_, step) = first("isert: isert_create_qp: rdma_create_qp failed for cma_id -12\n");
    assert!(!step.contains("cgroup") && step.contains("max_sge"), "{step}");
    let (_, step) = first("arm-smmu-v3 arm-smmu-v3.2.auto: \t0x0000350100000010\n");
    assert!(step.contains("had freed"), "{step}");
}

#[test]
fn a_client_of_storage_that_lost_its_connection_had_a_peer() {
    const LOST: &str = "[ 8812.3] nvme nvme0: starting error recovery\n[ 8823.3] nvme nvme0: rdma connection establishment failed (-104)\n";
    assert_ne!(first(LOST).0, "no-listener");
    assert_eq!(
        first("rpcrdma: rpcrdma_ep_connect: connection to 10.0.0.1 failed, status -103\n").0,
        "peer-failed"
    );
}

#[test]
fn an_assertion_about_a_descriptor_of_rdma_shows_a_limit_of_open_files() {
    for assertion in ["socket.fd() >= 0", "notify_fd >= 0"] {
        let log = format!("ceph-osd[9]: ./src/msg/async/x.cc: 712: FAILED ceph_assert({assertion})\n");
        assert_eq!(first(&log).0, "open-files-limit", "{assertion}");
    }
}
