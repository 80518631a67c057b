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
    assert_eq!(first(TIMEOUT), Some("peer-failed"));
    let diagnosis = diagnose(&Node::unknown(), &[], Some(&read(TIMEOUT)));
    assert!(
        diagnosis
            .next_step
            .is_some_and(|step| step.contains("rank that is late"))
    );
    let ids: Vec<&str> = diagnosis.causes.iter().map(|cause| cause.id).collect();
    assert_eq!(ids, ["peer-failed"]);
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
            grade(&format!("--nnodes=4\n{start}{}", end("success"))),
            Some(Grade::Degraded)
        );
        assert_eq!(
            grade(&format!("{start}{USED}{}", end("success"))),
            Some(Grade::Note)
        );
        assert_eq!(grade(&format!("{}{start}", end("success"))), alone);
    }
}

/// The highest grade of a log's symptoms.
fn worst(log: &str) -> Option<Grade> {
    read(log).symptoms.into_iter().map(|symptom| symptom.grade).max()
}

#[test]
fn tcp_that_the_settings_of_a_job_select_is_information() {
    for selected in [
        "n1:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n",
        "n1:1:2 [0] NCCL INFO NCCL_NET set by environment to Socket\n",
        "mpirun -x FI_PROVIDER=tcp ./app\n",
        "mpirun -x UCX_TLS=tcp,self,sm ./app\n",
    ] {
        let log = format!("{selected}n1:1:2 [0] NCCL INFO Using network Socket\n");
        assert_eq!(worst(&log), Some(Grade::Note), "{log}");
        let step = diagnose(&Node::unknown(), &[], Some(&read(&log))).next_step;
        assert!(step.unwrap().contains("If TCP is intended"), "{log}");
    }
    for other in ["UCX_TLS=rc,tcp", "NCCL_NET=IB", "FI_PROVIDER=verbs"] {
        let log = format!("mpirun -x {other} ./app\nn1:1:2 [0] NCCL INFO Using network Socket\n");
        assert_eq!(worst(&log), Some(Grade::Degraded), "{log}");
    }
}

#[test]
fn what_the_launcher_complained_of_before_the_job_did_its_work_is_no_failure() {
    const BOX: &str = "WARNING: There is at least non-excluded one OpenFabrics device found,\nbut there are no active ports detected\n";
    const MODULE: &str = "----------------------------------------------------------------------\nA high-performance Open MPI point-to-point messaging module\nwas unable to find any relevant network interfaces:\n\n\
        Module: OpenFabrics (openib)\n  Host: n1\n\n";
    const STEPS: &str = "Epoch 3 step 40 loss 2.4\nEpoch 3 step 60 loss 2.3\n";
    for start in [BOX, MODULE] {
        assert_eq!(worst(start), Some(Grade::Failure), "{start}");
        assert_eq!(
            worst(&format!("{start}Hello, world, I am 1 of 4\n")),
            Some(Grade::Note)
        );
        assert_eq!(worst(&format!("{start}{STEPS}")), Some(Grade::Note));
        assert_eq!(
            worst(&format!("torchrun --nnodes=4 x.py\n{start}{STEPS}")),
            Some(Grade::Degraded)
        );
        assert_eq!(worst(&format!("{STEPS}{start}")), Some(Grade::Failure));
    }
    let instead = "Another transport will be used instead, although this may result in\nlower performance.\n";
    assert_eq!(worst(&format!("{MODULE}{instead}")), Some(Grade::Degraded));
}

#[test]
fn ranks_that_one_host_lists_are_of_one_node() {
    let row = |rank: u32, host: &str| {
        format!("#  Rank  {rank} Group  0 Pid 812 on {host} device  {rank} [0x00] x\n")
    };
    let all = |rows: &[(u32, &str)]| {
        rows.iter()
            .map(|(rank, host)| row(*rank, host))
            .collect::<String>()
    };
    assert_eq!(read(&all(&[(0, "n1"), (1, "n1")])).nodes, Some(1));
    assert_eq!(read(&all(&[(0, "n1"), (1, "n2")])).nodes, None);
    // Those before are of other hosts, perhaps.
    assert_eq!(read(&all(&[(8, "n2"), (9, "n2")])).nodes, None);
    assert_eq!(
        read("num_sockets = 2 num_nodes=2 cores_per_socket=26\n").nodes,
        None
    );
}

#[test]
fn an_error_of_a_gpu_explains_what_other_ranks_saw_over_sockets() {
    let peer = "n1:7:9 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n1<51159>\n\
        n1:7:9 [0] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x55a\n";
    let memory = "n1:8:9 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n";
    assert!(worst(peer) > Some(Grade::Note));
    let log = format!("{peer}{memory}");
    assert_eq!(worst(&log), Some(Grade::Unrecognised));
    let step = diagnose(&Node::unknown(), &[], Some(&read(&log))).next_step;
    assert!(step.unwrap().contains("the error of CUDA or ROCm"));
}

#[test]
fn the_scheduler_says_why_it_ended_a_job() {
    let aborted = "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n";
    let limit =
        "slurmstepd: error: *** JOB 812 ON n1 CANCELLED AT 2026-11-22T10:11:12 DUE TO TIME LIMIT ***\n";
    assert_eq!(worst(aborted), Some(Grade::Unrecognised));
    assert_eq!(worst(&format!("{aborted}{limit}")), None);
    assert_eq!(
        worst(&format!(
            "ERROR: this application must be run on 2 nodes\n{aborted}{limit}"
        )),
        Some(Grade::Unrecognised)
    );
}

#[test]
fn an_attempt_to_connect_that_is_repeated_is_no_failure() {
    let reset = "[ 82.5] nvme nvme0: rdma_resolve_addr wait failed (-104).\n";
    let connected =
        "[ 90.8] nvme nvme0: new ctrl: NQN \"nqn.2014-08.org.nvmexpress.discovery\", addr 10.1.1.5:4420\n";
    assert_eq!(worst(reset), Some(Grade::Failure));
    assert_eq!(worst(&format!("{reset}{connected}")), Some(Grade::Note));
    assert_eq!(
        worst(&format!("{reset}{}", connected.replace("nvme0", "nvme01"))),
        Some(Grade::Failure)
    );
    let rejected = "[ 82.5] scsi host3: ib_srp: REJ received\n[ 82.5] scsi host3:   REJ reason 0xffffff98\n";
    let failed = "[ 82.6] scsi host3: ib_srp: Connection 0/8 to 10.1.1.5 failed\n";
    assert_eq!(worst(rejected), Some(Grade::Unrecognised));
    assert_eq!(worst(&format!("{rejected}{failed}")), Some(Grade::Failure));
    assert_eq!(
        worst(&format!(
            "{rejected}{failed}[ 92.1] scsi host3: ib_srp: reconnect succeeded\n"
        )),
        Some(Grade::Note)
    );
}

#[test]
fn a_warning_of_nccl_did_not_keep_its_ranks_from_each_other() {
    let warning = "n1:7:9 [2] init.cc:2065 NCCL WARN NEW++: Cannot enable NEW++; environment is not compatible with RDMA\n";
    assert_eq!(worst(warning), Some(Grade::Unrecognised));
    assert_eq!(
        worst(&format!(
            "{warning}n1:7:9 [2] NCCL INFO comm 0x1 rank 2 nranks 4 - Init COMPLETE\n"
        )),
        Some(Grade::Note)
    );
}

#[test]
fn what_two_ends_disagree_about_is_no_fault_of_one_of_them() {
    for line in [
        "n1:1:2 [0] NCCL WARN Message truncated : receiving 1048576 bytes instead of 65536\n",
        "n1:1:2 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3\n",
        "n1:1:2 [0] NCCL WARN ncclSocketInit: connecting to address with family 0 is neither AF_INET(2) nor AF_INET6(10)\n",
        "rdma_endpoint.cpp:472] Invalid argument: received packet mismatch\nworker_pool.cpp:242] Worker: Cannot make connection for endpoint: 10.1.1.5:1@rdma2\n",
    ] {
        assert_eq!(first(line), Some("peer-settings"), "{line}");
    }
}

#[test]
fn a_port_of_pcie_that_cut_off_what_is_below_it_is_not_passed_over() {
    let contained = "[ 216.6] pcieport 0000:a9:10.0: DPC: containment event, status:0x2009 source:0x0000\n";
    let grade = |log: &str| {
        let symptoms = diagnose(&Node::unknown(), &[], Some(&read(log))).symptoms;
        symptoms.into_iter().map(|symptom| symptom.grade).max()
    };
    assert_eq!(grade(contained), Some(Grade::Unrecognised));
}
