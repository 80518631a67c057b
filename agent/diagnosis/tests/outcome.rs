//! What came after a complaint decides whether it counts, and what is awaited in vain is a failure.

#![allow(missing_docs)]

use rdma_health_diagnosis::{
    Confidence, diagnose,
    log::{Log, LogReader},
    symptom::{Grade, SymptomKind as K},
};
use rdma_health_node::Node;

fn read(log: &str) -> Log {
    let mut reader = LogReader::default();
    reader.feed(log.as_bytes());
    reader.finish()
}

/// The kinds that are more than notes.
fn kinds(log: &str) -> Vec<K> {
    let symptoms = read(log).symptoms.into_iter();
    let grave = symptoms.filter(|symptom| symptom.grade > Grade::Note);
    grave.map(|symptom| symptom.kind).collect()
}

/// The first cause.
fn first(log: &str) -> Option<&'static str> {
    let diagnosis = diagnose(&Node::unknown(), &[], Some(&read(log)));
    let cause = diagnosis.causes.first()?;
    (cause.confidence > Confidence::Unlikely).then_some(cause.id)
}

const OUT_OF_MEMORY: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB.\n";

#[test]
fn a_part_that_does_not_load_counts_unless_the_job_has_another() {
    const PLUGIN: &str = "E0112 04:05:09.2 6349 nixl_plugin_manager.cpp:128] Failed to load plugin from /usr/lib/plugins/libplugin_GDS.so: \
        libcufile.so.0: cannot open shared object file: No such file or directory\n";
    const CUDA: &str = "[1746690477.9] [n1:611:0] ucp_context.c:1268 UCX  WARN  transports 'cuda_ipc','cuda_copy' are not available, please use \
        one or more of: mm, posix, self, sysv, tcp, rc_mlx5, ib\n";
    const SYMBOL: &str = "n1:154:154 [5] NCCL INFO dlvsym failed on ibv_reg_dmabuf_mr - libibverbs.so.1: undefined symbol: ibv_reg_dmabuf_mr, \
        version IBVERBS_1.12\n";
    const USED: &str = "Backend UCX was instantiated\n";
    for log in [
        format!("{PLUGIN}{USED}"),
        format!("{PLUGIN}INFO Application startup complete.\n{OUT_OF_MEMORY}"),
        format!("{CUDA}{USED}tests/test_host.py::test_transfer PASSED\n"),
        format!("{SYMBOL}n1:154:154 [5] NCCL INFO Using network IB\n{OUT_OF_MEMORY}"),
    ] {
        assert_eq!(kinds(&log), [], "{log}");
    }
    for (log, kind) in [
        (PLUGIN.to_owned(), K::BackendMissing),
        (
            format!("{PLUGIN}{USED}RuntimeError: NIXL_ERR_BACKEND\n"),
            K::BackendMissing,
        ),
        (format!("{CUDA}{USED}"), K::BackendMissing),
        (
            format!("{CUDA}test_host PASSED\ntest_cuda FAILED\n"),
            K::BackendMissing,
        ),
        (
            format!("{SYMBOL}n1:154:154 [5] NCCL INFO NET/IB : No device found.\n"),
            K::LibraryMismatch,
        ),
    ] {
        assert_eq!(kinds(&log).first(), Some(&kind), "{log}");
    }
}

#[test]
fn a_pod_and_a_driver_that_are_awaited_in_vain_are_told_from_those_that_came() {
    const REFUSED: &str = "  Warning  FailedScheduling  3m  default-scheduler  0/12 nodes are available: 9 Insufficient rdma/hca.\n";
    const ASSIGNED: &str =
        "  Normal  Scheduled  40s  default-scheduler  Successfully assigned ml/nccl-0 to gpu-1\n";
    const WAITS: &str = "waiting for mofed driver to be ready...\n";
    assert_eq!(kinds(&format!("{REFUSED}{ASSIGNED}")), []);
    assert_eq!(
        kinds(&format!("{REFUSED}{ASSIGNED}{REFUSED}")),
        [K::ResourceUnavailable]
    );
    assert_eq!(kinds(&format!("{WAITS}mofed driver is ready\n")), []);
    assert_eq!(kinds(WAITS), [K::DriverNotReady]);
    assert_eq!(first(WAITS), Some("kernel-module-build"));
}

#[test]
fn an_empty_list_of_devices_is_a_failure() {
    const HEADER: &str = "    device          \t   node GUID\n    ------          \t----------------\n";
    assert_eq!(kinds(&format!("# ibv_devices\n{HEADER}")), [K::NoDevice]);
    assert_eq!(
        kinds(&format!("{HEADER}    mlx5_0          \tb83fd20300a1b2c4\n")),
        []
    );
    for (line, kind) in [
        (
            "python3: /mori/rdma/backend.cpp:112: Assertion `availDevices.size() > 0' failed.",
            Some(K::NoDevice),
        ),
        (
            "perf: ctx.c:88: open_ctx: Assertion `ibv_devs && num_ib_devs > 0' failed.",
            Some(K::NoDevice),
        ),
        (
            "python3: tensor.cpp:99: Assertion `dims.size() > 0' failed.",
            None,
        ),
        (
            "no devices in device pool, skipping creating resource server for sriov_rdma_vf",
            Some(K::ResourceUnavailable),
        ),
        (
            "[1.0] [n1:28:3] ucp_worker.c:1903 UCX  INFO  ucp_context_0 inter-node cfg#2 tag(tcp/eth0 tcp/eth1)",
            Some(K::SocketFallback),
        ),
        (
            "[1.0] [n1:28:3] ucp_worker.c:1903 UCX  INFO  ucp_context_0 inter-node cfg#2 tag(rc_mlx5/mlx5_0:1 tcp/eth0)",
            None,
        ),
        (
            "[9.1] gdrdrv:nvidia_p2p_get_pages(va=23 len=4194304 p2p_token=0 va_space=0) failed [ret = -22]",
            Some(K::PeerMemoryError),
        ),
        (
            "[9.1] mlx5_warn:mlx5_0:mlx5_ib_reg_user_mr:1418:(pid 23): umem get failed (-14)",
            Some(K::RegMrFailed),
        ),
        (
            "RDMA buffer MR registration failed: Invalid argument [repeated 28x across cluster]",
            Some(K::RegMrFailed),
        ),
        ("-- Could NOT find ibverbs (missing: IBVERBS_LIBRARIES)", None),
        ("checking for ibv_reg_dmabuf_mr in -libverbs... no", None),
    ] {
        assert_eq!(kinds(&format!("{line}\n")).first(), kind.as_ref(), "{line}");
    }
}

#[test]
fn a_reason_comes_before_what_only_repeats_it() {
    const NO_PROVIDER: &str = "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0\n";
    const TIMED_OUT: &str = "[1.0] [n1:1:0] ib_device.c:1171 UCX  ERROR   ibv_create_ah(dlid=49152 sl=0 port=1 dgid=::ffff:10.0.0.40 \
        sgid_index=3) for RC DEVX QP connect on mlx5_0 failed: Connection timed out\n";
    for (log, cause) in [
        (
            "E1120 11:09:25.0 2 transfer_metadata_plugin.cpp:784] SocketHandShakePlugin: connect()10.1.2.3:15533: Connection refused [111]\n\
             E1120 11:09:25.1 2 worker_pool.cpp:240] Worker: Cannot make connection for endpoint: 10.1.2.3:15533@mlx5_0\n"
                .to_owned(),
            "peer-failed",
        ),
        (
            "[1.0] [n1:77:0] select.c:629  UCX  ERROR   no active messages transport to <no debug data>: self/memory - Destination is \
             unreachable, posix/memory - Destination is unreachable\n\
             [n1:00077] pml_ucx.c:424  Error: ucp_ep_create(proc=1) failed: Destination is unreachable\n"
                .to_owned(),
            "device-not-given",
        ),
        (
            format!("{NO_PROVIDER}Failed to open device mlx5_0. Errno: 13, Permission denied\n"),
            "device-permission",
        ),
        (TIMED_OUT.to_owned(), "addressing"),
        (
            "ibgda.cpp:1889: NULL value cannot allocate mlx5dv_devx_uar\n".to_owned(),
            "device-permission",
        ),
        (
            "docker: Error response from daemon: error gathering device information while adding custom device \"/dev/infiniband\": no such \
             file or directory.\n"
                .to_owned(),
            "rdma-modules",
        ),
        (
            "bash -c 'ulimit -l unlimited && ./alltoall_perf'\n\
             n1:9:1 [4] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory\n"
                .to_owned(),
            "hca-resources",
        ),
        (
            "{\"stream\":\"stderr\",\"log\":\"w:71 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 7.\"}\n\
             {\"stream\":\"stderr\",\"log\":\"w:71 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on \
             dev mlx5_0:1, curr state INIT, next state RTR, local GID index 7, local GID ::, remote GID ::ffff:10.1.1.5\"}\n"
                .to_owned(),
            "gid-index",
        ),
    ] {
        assert_eq!(first(&log), Some(cause), "{log}");
    }
}

#[test]
fn a_list_of_changes_is_a_document() {
    let log = read(
        "## Release v1.14.1\n### Bug Fixes\n* Fix a crash when ibv_create_qp fails with ENOMEM (#812)\n\
         * Do not print \"Got completion with error 12\" during the end\n",
    );
    assert!(log.document && log.disputed == 0, "{log:?}");
}

#[test]
fn a_job_on_one_node_needs_no_network() {
    const FALLBACK: &str =
        "n1:9:9 [0] NCCL INFO NET/IB : No device found.\nn1:9:9 [0] NCCL INFO Using network Socket\n";
    const RANK: &str = "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\n";
    const OTHER: &str = "comm 0x2 rank 1 nranks 2 cudaDev 1 busId 2000 - Init COMPLETE\n";
    for (log, is_one) in [
        (
            format!("{FALLBACK}Detected 1 nodes in the distributed environment\n"),
            true,
        ),
        (
            format!("n1:9:9 [0] NCCL INFO NET/IB : Using [RO]; OOB lo:127.0.0.1<0>\n{FALLBACK}"),
            true,
        ),
        (
            format!("{FALLBACK}n1:9:9 [0] NCCL INFO {RANK}n1:8:8 [1] NCCL INFO {OTHER}"),
            true,
        ),
        (
            format!("{FALLBACK}n1:9:9 [0] NCCL INFO {RANK}n2:8:8 [1] NCCL INFO {OTHER}"),
            false,
        ),
        (format!("{FALLBACK}torchrun --nnodes=2 train.py\n"), false),
    ] {
        assert_eq!(kinds(&log).is_empty(), is_one, "{log}");
    }
}

#[test]
fn a_timeout_of_a_collective_alone_does_not_blame_the_network() {
    const TIMEOUT: &str = "[rank1]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: \
        WorkNCCL(SeqNum=808, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n";
    assert_eq!(first(TIMEOUT), None);
    let diagnosis = diagnose(&Node::unknown(), &[], Some(&read(TIMEOUT)));
    assert!(
        diagnosis
            .next_step
            .is_some_and(|step| step.contains("rank that is late"))
    );
    for network in [
        "n1:9:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.1.0.1<0>\n",
        "torchrun --nnodes=2 train.py\n",
    ] {
        assert_eq!(
            first(&format!("{network}{TIMEOUT}")),
            Some("fabric-or-peer"),
            "{network}"
        );
    }
}

#[test]
fn what_a_library_lacked_at_the_start_of_a_job_that_succeeded_is_no_failure_of_it() {
    const STARTS: [&str; 2] = [
        "[1594879245.1] [n1:33:0] ucp_context.c:690 UCX  WARN  device 'mlx5_9:1' is not available\n",
        "ibv_open_device(mlx5_9) failed: No such device\n",
    ];
    const USED: &str = "n1:33:33 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.0.0.1<0>\n";
    let end = |status: &str| {
        format!(":::MLLOG {{\"key\": \"run_stop\", \"metadata\": {{\"status\": \"{status}\"}}}}\n")
    };
    for start in STARTS {
        let grade = |log: &str| read(log).symptoms.into_iter().map(|symptom| symptom.grade).max();
        let alone = grade(start);
        assert!(alone > Some(Grade::Degraded), "{start}");
        assert_eq!(grade(&format!("{start}{}", end("aborted"))), alone);
        assert_eq!(
            grade(&format!("{start}{}", end("success"))),
            Some(Grade::Degraded)
        );
        assert_eq!(
            grade(&format!("{start}{USED}{}", end("success"))),
            Some(Grade::Note)
        );
        assert_eq!(grade(&format!("{}{start}", end("success"))), alone);
    }
}
