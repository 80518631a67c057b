//! Logs of collective libraries and frameworks: what a user reads of them first.

#![allow(missing_docs)]

use rdma_health_diagnosis::{
    log::{Log, LogReader},
    symptom::{Grade, SymptomKind as K},
};
use rdma_health_protocol::WcStatus;

fn read(text: &str) -> Log {
    let mut reader = LogReader::default();
    reader.feed(text.as_bytes());
    reader.finish()
}

/// The failures and degradations that are not a consequence of another one.
fn primary(text: &str) -> Vec<K> {
    let symptoms = read(text).symptoms.into_iter();
    symptoms
        .filter(|symptom| symptom.grade > Grade::Secondary)
        .map(|symptom| symptom.kind)
        .collect()
}

#[test]
fn messages_of_each_library_show_their_failure() {
    for (line, kind) in [
        (
            "n1:4:5 [0] gin/gin_host.cc:91 NCCL WARN Unable to use GIN: Peermem is not supported, and device 0 does not support DMA-BUF.",
            K::GdrDisabled,
        ),
        (
            "n1:4:5 [0] platform_init:412 NCCL WARN NET/OFI EFA provider requires at least libfabric version 1.22.0.",
            K::BackendMissing,
        ),
        (
            "[application] [error] IONIC device detected but libionic.so not available at runtime",
            K::NoProvider,
        ),
        (
            "[io] [warning] No active RDMA device; falling back to XGMI-only mode (port=0)",
            K::NoDevice,
        ),
        (
            "I0529 23:22:59.04 67580 transfer_engine.cpp:127] Topology discovery complete. Found 0 HCAs.",
            K::NoDevice,
        ),
        (
            "E0901 10:10:10.111 200 rdma_helper.cpp:430] Fail to find available RDMA device mlx5_7",
            K::NoDevice,
        ),
        (
            "E0901 10:10:10.111 200 rdma_helper.cpp:450] Fail to find available RDMA GID",
            K::NoGid,
        ),
        (
            "[1700000000.1] [n:1:0] ib_iface.c:790  UCX  ERROR unable to find specified pkey 0x8001 on mlx5_0:1/IB",
            K::PkeyMissing,
        ),
        (
            "[1700000000.1] [n:1:0] select.c:438 UCX ERROR no active messages transport to n2: self/memory - Destination is unreachable",
            K::NoDevice,
        ),
        (
            "[1700000000.1] [n:1:0] select.c:438 UCX ERROR no active messages transport to n2: rc_mlx5/mlx5_0:1 - Destination is unreachable",
            K::PeerUnreachable,
        ),
        (
            "[ERROR] EJ0002: [PID: 38079] 2025-07-15-12:45:31.202.787 The network port is down.",
            K::PortNotActive,
        ),
        (
            "mi300-1:4:5 [0] init.cc:179 NCCL WARN Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!",
            K::PassthroughMissing,
        ),
    ] {
        assert_eq!(primary(line), [kind], "{line}");
    }
}

#[test]
fn what_a_process_ended_of_comes_before_what_its_peers_report() {
    const RETRY: &str = "n8:910:1022 [6] transport/net_ib.cc:1905 NCCL WARN NET/IB : Got completion from peer 10.1.0.12<40338> with \
        status=12 opcode=0 len=0 vendor err 129 (Send)";
    for line in [
        "[rank5]: ValueError: Expected input batch_size (8) to match target batch_size (7).",
        "[rank17]: AssertionError: found NaN in local grad norm",
        "slurmstepd: error: *** STEP 88122.0 ON gpu-014 CANCELLED AT 2025-06-03T02:11:40 DUE TO PREEMPTION ***",
        "[ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 'train.py'] exits with return code = -9",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 912 got signal: 15",
    ] {
        assert_eq!(primary(&format!("{line}\n{RETRY}\n")), [K::RankFailed], "{line}");
        // The peers saw the network fail first.
        let retried = K::Completion(WcStatus::RetryExcErr);
        assert_eq!(primary(&format!("{RETRY}\n{line}\n")), [retried], "{line}");
    }
    let handled = "[rank0]: RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited";
    assert!(!primary(&format!("{handled}\n{RETRY}\n")).contains(&K::RankFailed));
}

#[test]
fn a_plugin_that_does_not_load_explains_the_missing_network_and_one_that_is_not_there_is_no_fault() {
    let text = "p:1:1 [0] NCCL INFO NET/Plugin: libnccl-net.so: /lib/libc.so.6: version `GLIBC_2.34' not found (required by /gib/lib64/x.so)\n\
        p:1:1 [0] NCCL INFO NET/IB : No device found.\n\
        p:1:1 [0] plugin/net.cc:366 NCCL WARN Error: network gIB not found.\n";
    assert_eq!(primary(text), [K::BackendMissing]);
    let sound = "p:1:1 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.\n\
        p:1:1 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file: No such file or directory\n";
    assert_eq!(primary(sound), []);
}

#[test]
fn the_warning_of_a_missing_iommu_option_does_not_hide_another_failure() {
    const WARNING: &str = "mi300-1:4:5 [0] init.cc:179 NCCL WARN Missing \"iommu=pt\" from kernel command line which can lead to hang!";
    let with = |status: u32| {
        primary(&format!(
            "{WARNING}\nn:4:5 [0] net_ib.cc:1905 NCCL WARN NET/IB : Got completion from peer 10.1.0.12<4> with status={status} opcode=0 len=0\n"
        ))
    };
    assert_eq!(with(12), [K::Completion(WcStatus::RetryExcErr)]);
    assert_eq!(
        with(4),
        [K::PassthroughMissing, K::Completion(WcStatus::LocProtErr)]
    );
}

#[test]
fn gloo_connects_over_tcp_and_its_errors_are_none_of_rdma() {
    let log = read(
        "[rank0]: RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error\n",
    );
    let found: Vec<_> = log
        .symptoms
        .iter()
        .map(|symptom| (symptom.kind, symptom.grade))
        .collect();
    assert_eq!(found, [(K::GlooError, Grade::Note)]);
}

#[test]
fn a_log_shows_the_maker_of_the_gpus_and_the_batch_system() {
    let log =
        read("srun: job 8812 has been allocated resources\nm:1:1 [0] NCCL INFO RCCL version : 2.22.3-HEAD\n");
    assert!(log.marks.amd && log.marks.slurm);
    let log = read("m:1:1 [0] NCCL INFO NCCL version 2.22.3+cuda12.4\n");
    assert!(!log.marks.amd && !log.marks.slurm);
}
