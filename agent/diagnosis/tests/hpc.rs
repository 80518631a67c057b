//! What MPI, UCX, libfabric, PSM and the tools of a fabric report on clusters of HPC: the first cause, and what to do.

#![allow(missing_docs)]

use rdma_health_diagnosis::{
    Confidence, diagnose,
    log::{Log, LogReader},
    symptom::Grade,
};
use rdma_health_node::Node;

fn read(log: &str) -> Log {
    let mut reader = LogReader::default();
    reader.feed(log.as_bytes());
    reader.finish()
}

const OVERFLOW: &str = "MPICH WARNING: OFI is failing to make progress on posting a send. MPICH suspects a hang due to completion queue exhaustion. \
    Setting environment variable FI_CXI_DEFAULT_CQ_SIZE to a higher number might circumvent this scenario.\n";

#[test]
fn the_first_cause_and_its_step_are_those_of_the_library() {
    let rows = [
        (format!("7: PE 7: {OVERFLOW}").repeat(4), "hca-resources", "FI_CXI_DEFAULT_CQ_SIZE="),
        (OVERFLOW.repeat(3), "hca-resources", "FI_CXI_DEFAULT_CQ_SIZE="),
        ("libfabric:4:1::cxi:core:cxip_eq():531<warn> x1: Cassini Event Queue overflow detected.\n".into(), "hca-resources", "FI_CXI_CQ_FILL_PERCENT"),
        ("psm2:core:psmx2_getinfo():536<info> no PSM2 device is active.\nopap3s0:1\n   PortState:     Active\n".into(), "communication-library", "hfi1_0"),
        ("Switch ibb Port 11: Linkwidth (1X) not at maximum width supported (1XOR4X)\n".into(), "link-quality", "ibqueryerrors -k"),
        ("[3] MPI startup(): cannot open dynamic library libdat2.so.2\n".into(), "userspace-libraries", "I_MPI_FABRICS"),
        ("[1.0] [n1:1:0] ib_mlx5.c:558  UCX  ERROR mlx5dv_devx_alloc_uar(device=mlx5_1, flags=0x0(BF)) failed: Cannot allocate memory\n".into(), "hca-resources", "PF_LOG_BAR_SIZE"),
        ("$ fi_rdm_bw -p verbs n2\nfi_getinfo(): common/shared.c:627, ret=-61 (No data available)\n".into(), "addressing", "ib_ipoib"),
        ("n1:rank0.a: Failed to modify UD QP to INIT on mlx5_bond_1: Invalid argument\n".into(), "driver-firmware", "firmware"),
        ("[1.0] [n1:1:a] rdmacm_cm.c:715  UCX  ERROR [cep 0x6] got error event RDMA_CM_EVENT_DEVICE_REMOVAL, event status Success (0)\n".into(), "devices-missing", "removed the device"),
        ("[1.0] [n1:1:0] ucp_context.c:586  UCX  WARN  device 'mlx5_7:1' is not available\n".into(), "job-settings", "UCX_NET_DEVICES"),
        ("realm_ucp_bootstrap_pmi.so: cannot open shared object file: No such file or directory\n".into(), "communication-library", "ldd"),
        ("MPIDI_OFI_do_get(9): OFI rdma read immediate failed (ofi_rma.h:9:MPIDI_OFI_do_get:Invalid argument)\n$ fi_info\nfi_getinfo: -61\n".into(), "communication-library", "FI_PROVIDER"),
        ("flux: cxi1: cxil_alloc_svc: No space left on device\n".into(), "hca-resources", "cxi_service list"),
        ("n4.11PSM2 no hfi units are active (err=23)\n".into(), "port-down", "opafm"),
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
        "psm2:core:psmx2_getinfo():536<info> no PSM2 device is active.\n",
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
