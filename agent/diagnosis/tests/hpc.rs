//! What MPI, UCX, libfabric, PSM and the tools of a fabric report on clusters of HPC: the first cause, and what to do.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::{
    Confidence, diagnose,
    symptom::{Grade, SymptomKind},
};
use rdma_health_node::Node;

use common::{first, read};

const OVERFLOW: &str = "MPICH WARNING: OFI is failing to make progress on posting a send. MPICH suspects a hang due to completion queue exhaustion. \
    Setting environment variable FI_CXI_DEFAULT_CQ_SIZE to a higher number might circumvent this scenario.\n";

#[test]
fn the_first_cause_and_its_step_are_those_of_the_library() {
    let rows = [
        (format!("7: PE 7: {OVERFLOW}").repeat(4), "hca-resources", "FI_CXI_DEFAULT_CQ_SIZE="),
        (OVERFLOW.repeat(3), "hca-resources", "FI_CXI_DEFAULT_CQ_SIZE="),
        ("UCX_TLS=self,sm,cuda_copy\n[n1:3581] pml_ucx.c:383  Error: ucp_ep_create(proc=0) failed: Destination is unreachable\n".into(), "job-settings", "Unset UCX_TLS"),
        ("UCX_TLS=self,sm,tcp\n[n1:3581] pml_ucx.c:383  Error: ucp_ep_create(proc=0) failed: Destination is unreachable\n".into(), "fabric-or-peer", ""),
        ("slurmstepd: error: pyxis:     [ERROR] Unknown MELLANOX device id: 12\nslurmstepd: error: pyxis:     [ERROR] /etc/enroot/hooks.d/99-mellanox.sh exited with return code 1\n".into(), "device-not-given", "MELLANOX_VISIBLE_DEVICES of the job"),
        ("ibv_open_device(mlx5_0) failed: Operation not permitted\n".into(), "device-permission", "ConstrainDevices"),
        ("ibv_open_device(mlx5_0) failed: Permission denied\n".into(), "device-permission", "ls -lZ"),
        ("libfabric:4:1::cxi:core:cxip_eq():531<warn> x1: Cassini Event Queue overflow detected.\n".into(), "hca-resources", "FI_CXI_CQ_FILL_PERCENT"),
        ("psm2:core:psmx2_getinfo():536<info> no PSM2 device is active.\nopap3s0:1\n   PortState:     Active\n".into(), "communication-library", "hfi1_0"),
        ("n1:rank0:  Trying to connect from eth0 port 1 (subnet 192.0.2.1/32) to a node (IP=198.51.100.3/32 TCP=45575 UDP=54793) on a different subnet 198.51.100.3/32\n".into(), "addressing", "FI_PROVIDER=^psm3"),
        ("libi40iw-i40iw_ucreate_qp: failed to create QP, unsupported QP type: 0x4\n".into(), "unsupported-adapter", "btl ^openib"),
        ("n1:1:2 [0] graph/xml.cc:332 NCCL WARN Could not find real path of /sys/class/pci_bus/0000:0b/../../0000:0b:00.0\n".into(), "communication-library", "docker run -v /sys"),
        ("OpenSM 3.3.19\nNo local ports detected!\n".into(), "device-not-given", ""),
        ("Switch ibb Port 11: Linkwidth (1X) not at maximum width supported (1XOR4X)\n".into(), "link-quality", "ibqueryerrors -k"),
        ("[3] MPI startup(): cannot open dynamic library libdat2.so.2\n".into(), "userspace-libraries", "I_MPI_FABRICS"),
        ("[1.0] [n1:1:0] ib_mlx5.c:558  UCX  ERROR mlx5dv_devx_alloc_uar(device=mlx5_1, flags=0x0(BF)) failed: Cannot allocate memory\n".into(), "hca-resources", "PF_LOG_BAR_SIZE"),
        ("$ fi_rdm_bw -p verbs n2\nfi_getinfo(): common/shared.c:627, ret=-61 (No data available)\n".into(), "addressing", "ib_ipoib"),
        ("XLIO ERROR: qpm[0x1]:611:prepare_ibv_qp() failed to modify QP from ERR to INIT state (ret = -3)\n".into(), "driver-firmware", "an Ethernet one"),
        ("n1:rank0.a: Failed to modify UD QP to INIT on mlx5_bond_1: Invalid argument\n".into(), "driver-firmware", "firmware"),
        ("[1.0] [n1:1:a] rdmacm_cm.c:715  UCX  ERROR [cep 0x6] got error event RDMA_CM_EVENT_DEVICE_REMOVAL, event status Success (0)\n".into(), "devices-missing", "removed the device"),
        ("[1.0] [n1:1:0] ucp_context.c:586  UCX  WARN  device 'mlx5_7:1' is not available\n".into(), "job-settings", "UCX_NET_DEVICES"),
        ("realm_ucp_bootstrap_pmi.so: cannot open shared object file: No such file or directory\n".into(), "communication-library", "ldd"),
        ("MPIDI_OFI_do_get(9): OFI rdma read immediate failed (ofi_rma.h:9:MPIDI_OFI_do_get:Invalid argument)\n$ fi_info\nfi_getinfo: -61\n".into(), "communication-library", "FI_PROVIDER"),
        ("flux: cxi1: cxil_alloc_svc: No space left on device\n".into(), "hca-resources", "cxi_service list"),
        ("n4.11PSM2 no hfi units are active (err=23)\n".into(), "port-down", "opafm"),
        ("n1: Request dest_addr: 32 caddr.pid: 1 rxc_id: 0  error: 0x26 (err: 5, VNI_NOT_FOUND)\n".into(), "virtual-network", "single_node_vni"),
        ("*** FATAL ERROR (proc 0): at gasnet_ofi.c:946: fi_domain failed: -38(Function not implemented)\n".into(), "communication-library", "VNI"),
        ("ibwarn: [41] mad_rpc_open_port: client_register for mgmt 1 failed\n".into(), "unsupported-adapter", "rdma link"),
        ("ibportstate: iberror: failed: smp query portinfo failed\n".into(), "fabric-or-peer", ""),
        ("[0,1,6][btl_openib_component.c:587:progress] error polling HP CQ with status 12 for wr_id 47003 opcode 0\n".into(), "fabric-or-peer", ""),
        ("error polling HP CQ with status 1 for wr_id 270995584 opcode -1286736\n".into(), "application-memory", ""),
        ("hfi_wait_for_device: The /dev/hfi1_0 device failed to appear after 15.0 seconds: Connection timed out\n".into(), "device-not-given", "FI_PROVIDER"),
        ("n1:1:2 [0] NCCL WARN NET/OFI Couldn't set FI_OPT_CUDA_API_PERMITTED. RC: -92, ERROR: Protocol not available\n".into(), "communication-library", "fi_info -p efa"),
        ("n1.7384PSM Could not find an InfiniPath Unit on device /dev/ipath (30s elapsed) (err=21)\n".into(), "device-not-given", "FI_PROVIDER"),
        ("[1.0] [n1:1:0]            sock.c:260  UCX  ERROR   connect(fd=41, dest_addr=172.17.0.1:45031) failed: Connection refused\npml_ucx.c:419  Error: ucp_ep_create(proc=0) failed: Destination is unreachable\n".into(), "addressing", "docker0"),
        ("  what():  fabric_runtime_error (61) \"No data available\" at fabric.cpp:111 fi_info: verbs\n".into(), "device-not-given", "fi_info -p verbs"),
        ("# na_ofi_cq_process_retries(): retry operation of 3 failed, rc: -113 (No route to host)\n".into(), "addressing", ""),
        ("[0,1,0]: OpenIB on host n1 was unable to find any HCAs.\n".into(), "device-not-given", ""),
        ("140628 [F0D43740] 0x01 -> umad_receiver: ERR 5404: recv error on MAD sized umad (Input/output error)\n".into(), "devices-missing", ""),
    ];
    for (log, cause, step) in rows {
        let diagnosis = diagnose(&Node::unknown(), &[], Some(&read(&log)));
        let first = diagnosis
            .causes
            .first()
            .filter(|cause| cause.confidence > Confidence::Unlikely);
        assert_eq!(first.map(|first| first.id), Some(cause), "{log}");
        assert!(
            first.is_some_and(|first| first.next_step.contains(step)),
            "{log}: {diagnosis:?}"
        );
    }
}

#[test]
fn what_has_no_consequence_stays_silent() {
    for log in [
        "libfabric:1:2:psm2:core:psmx2_getinfo():536<info> no PSM2 device is active.\nlibfabric:1:2:verbs:fabric:vrb_init():871<info> list of devices\n",
        "[LOG_CAT_ML] component ucx_p2p is not available but requested in hierarchy: ucx_p2p:p2p\n",
        "libi40iw-i40iw_ucreate_qp: failed to create QP, unsupported QP type: 0x4\nYou job will continue, but Open MPI will ignore the \"ud\" \
         oob component\n",
        "the lamp is not at maximum width\n",
    ] {
        let symptoms = read(log).symptoms;
        assert!(
            symptoms.iter().all(|symptom| symptom.grade <= Grade::Note),
            "{symptoms:?}"
        );
    }
}

#[test]
fn a_process_that_was_killed_comes_before_what_its_peers_report() {
    let retry = "[n1:7:0] ib_mlx5_log.c:170  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n";
    for end in [
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=8.0. Some of your processes may have been killed.\n",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n",
        "=>> PBS: job killed: mem 64gb exceeded limit 60gb\n",
    ] {
        let log = read(&format!("{end}{retry}"));
        let diagnosis = diagnose(&Node::unknown(), &[], Some(&log));
        let is_of_it = |id: &str| matches!(id, "peer-failed" | "host-memory");
        assert!(
            is_of_it(diagnosis.causes[0].id),
            "{end}: {}",
            diagnosis.causes[0].id
        );
    }
}

#[test]
fn what_mpi_tries_before_the_program_starts_does_not_count() {
    let psm3 = "n1:rank0: PSM3 can't open nic unit: 2 (err=23)\n";
    let openib = format!(
        "{0}\nNo OpenFabrics connection schemes reported that they were able to be\nused on a specific port.  As such, the openib BTL \
         (OpenFabrics\nsupport) will be disabled for this port.\n{0}\n",
        "-".repeat(74)
    );
    let worst = |text: &str| read(text).symptoms.iter().map(|symptom| symptom.grade).max();
    for complaint in [psm3, &openib] {
        for start in [
            "Hello world from processor n1, rank 0 out of 1 processors\n",
            "Hello, world, I am 0 of 4, (Open MPI v4.1.2)\n",
        ] {
            assert!(worst(complaint) > Some(Grade::Note), "{complaint}");
            assert_eq!(
                worst(&format!("{complaint}{start}")),
                Some(Grade::Note),
                "{complaint}"
            );
        }
    }
}

#[test]
fn a_test_that_was_left_out_and_a_setting_that_was_lowered_are_no_failures() {
    let worst = |text: &str| read(text).symptoms.iter().map(|symptom| symptom.grade).max();
    let skipped =
        "Running getinfo4 [Test with node]...skipped because: fi_getinfo failed No data available(61)\n";
    assert_eq!(worst(skipped), None);
    let requested = " Requested mtu is higher than active mtu\n";
    assert!(worst(requested) > Some(Grade::Note));
    assert_eq!(
        worst(&format!("{requested} Changing to active mtu - 3\n")),
        Some(Grade::Note)
    );
}

#[test]
fn the_error_number_of_a_help_text_says_why_a_queue_was_not_created() {
    let help = |error: &str| {
        format!(
            "{0}\nThe OpenFabrics (openib) BTL failed to initialize while trying to\ncreate an internal queue.  The failure occured here:\n\n  \
             Local host:  n1\n  Function:    ibv_create_cq()\n  Error:       {error}\n  Device:      mlx4_0\n{0}\n",
            "-".repeat(74)
        )
    };
    for (error, cause) in [
        ("Cannot allocate memory (errno=12)", "memlock-limit"),
        ("Device or resource busy (errno=16)", "driver-firmware"),
    ] {
        let diagnosis = diagnose(&Node::unknown(), &[], Some(&read(&help(error))));
        assert_eq!(diagnosis.causes[0].id, cause, "{error}");
    }
}

#[test]
fn a_mail_that_quotes_what_a_rank_of_open_mpi_printed_is_a_log() {
    let mail = "> I get this error with both of the versions that I tried:\n>\n\
        > [[12770,1],0][btl_openib_component.c:3227:handle_wc] from bn0103 to: bn0122\n\
        > error polling LP CQ with status REMOTE ACCESS ERROR status number 10 for\n\
        > wr_id 560618664 opcode 1  vendor error 136 qp_idx 3\n>\n\
        > This error may indicate that there are connectivity problems within the fabric.\n";
    let log = read(mail);
    assert!(!log.document);
    let diagnosis = diagnose(&Node::unknown(), &[], Some(&log));
    assert_eq!(diagnosis.causes[0].id, "application-memory");
}

#[test]
fn a_remedy_that_a_reply_conjectures_was_not_applied() {
    let text = "[n1:07711] ibv_create_cq failed: Cannot allocate memory\nI'm guessing that docker run --ulimit memlock=-1 lifts it.\n";
    let diagnosis = diagnose(&Node::unknown(), &[], Some(&read(text)));
    assert_eq!(diagnosis.causes[0].id, "memlock-limit");
}

#[test]
fn memory_that_libfabric_cannot_register_is_that_of_a_gpu_only_where_one_is_named() {
    let line = "libfabric:21:1:fabrics:efa:mr:efa_mr_reg_impl():1021<warn> Unable to register MR of 4194304 bytes: Bad address, total mr reg size 0\n";
    let confidence = |log: &str| {
        let diagnosis = diagnose(&Node::unknown(), &[], Some(&read(log)));
        let mut causes = diagnosis.causes.iter();
        causes
            .find(|cause| cause.id == "peer-memory-path")
            .map(|cause| cause.confidence)
    };
    assert_eq!(confidence(line), Some(Confidence::Possible));
    let of_gpu = format!("{line}libfabric: registered CUDA memory before\n");
    assert_eq!(confidence(&of_gpu), Some(Confidence::Likely));
}

#[test]
fn a_mapping_of_an_omni_path_adapter_counts_as_locked_memory_in_any_function() {
    const LAST: &str = "n1.812xhpl: An unrecoverable error occurred while communicating with the driver\n";
    for function in ["hfi_userinit", "map_hfi_mem", "hfi_map_other"] {
        let log = format!(
            "n1.812{function}: mmap of rcv_x (0xdab) size 4096 failed: Resource temporarily unavailable\n{LAST}"
        );
        assert_eq!(first(&log).0, "memlock-limit", "{log}");
    }
    assert_eq!(first(LAST).0, "driver-firmware");
}

#[test]
fn ranks_without_a_transport_between_them_abort() {
    let log = "A high-performance Open MPI point-to-point messaging module\nwas unable to find any relevant network interfaces:\n\n\
               Module: OpenFabrics (openib)\n  Host: n1\n\nAnother transport will be used instead, although this may result in\nlower performance.\n\
               At least one pair of MPI processes are unable to reach each other for\nMPI communications.\n  BTLs attempted: vader self\n";
    let (cause, step) = first(log);
    assert_eq!(cause, "communication-library");
    assert!(step.contains("--mca mtl psm2"), "{step}");
}

#[test]
fn a_status_with_the_words_of_an_error_number_is_none() {
    let log = "libfabric:gni:ep_ctrl:_gnix_x():571<warn> gnix_y returned Operation not permitted in current state\n";
    assert_ne!(first(log).0, "device-permission");
}

#[test]
fn a_full_disk_below_efa_is_shared_memory() {
    let log = "libfabric:4321:efa:domain:efa_domain_open():298<warn> efa_domain_init_rdm failed. err: 28\n";
    let kinds: Vec<_> = read(log).symptoms.iter().map(|symptom| symptom.kind).collect();
    assert_eq!(kinds, [SymptomKind::SharedMemory]);
}

#[test]
fn a_symbol_of_a_provider_that_is_missing_is_one_of_rdma_core() {
    let log = "EAL: librte_net_x.so: undefined symbol: mlx5dv_query_x\n";
    assert_eq!(first(log).0, "userspace-libraries");
}
