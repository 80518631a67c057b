//! Jobs of training and inference: how they were started, how they ended, the services of the GPUs, and GPUDirect Storage. Each log gets the cause that its lines
//! show, with a step for what wrote them.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

mod common;

use common::{each_is, first, kinds, read};
use rdma_health_diagnosis::symptom::{Grade, SymptomKind as K};

/// What NCCL informs about on a host without libibverbs.
fn searched(host: &str, gpus: u64) -> String {
    let of = |gpu: u64| {
        let writer = format!("{host}:{}:{} [{gpu}]", 5020 + gpu, 5090 + gpu);
        format!(
            "{writer} NCCL INFO Failed to open libibverbs.so[.1]\n{writer} NCCL INFO NET/Socket : Using [0]eth0:10.1.2.3<0>\n\
             {writer} NCCL INFO Using network Socket\n"
        )
    };
    (0..gpus).map(of).collect()
}

#[test]
fn ranks_on_one_host_need_no_libibverbs() {
    assert_eq!(kinds(&searched("axon", 4)), []);
    let missed = |log: String| first(&log).0;
    // The others may be on other hosts.
    assert_eq!(missed(searched("axon", 1)), "userspace-libraries");
    assert_eq!(
        missed(searched("n1", 2) + &searched("n2", 2)),
        "userspace-libraries"
    );
    let all = "axon:5020:5090 [0] NCCL INFO comm 0x1 rank 0 nranks 16 cudaDev 0\n";
    assert_eq!(missed(searched("axon", 4) + all), "userspace-libraries");
    let set = "axon:5020:5090 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0\n";
    assert_eq!(missed(searched("axon", 4) + set), "userspace-libraries");
    // What fails is shown.
    let warned = "axon:5020:5090 [0] graph/paths.cc:120 NCCL WARN Failed to find reverse path from remNode 0/2 nlinks 3 to node 0/7\n";
    assert_eq!(missed(searched("axon", 2) + warned), "gpu-program");
}

#[test]
fn a_crash_at_the_end_is_shown() {
    const IB: &str =
        "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]\nn1:1:2 [0] NCCL INFO Using network IB\n";
    let (cause, step) = first(&format!("{IB}Segmentation fault (core dumped)\n"));
    assert_eq!(cause, "communication-library");
    assert!(step.contains("coredumpctl"), "{step}");
    let (cause, step) = first(&format!("{IB}[n1:812] Signal: Bus error (7)\n"));
    assert_eq!(cause, "shared-memory");
    assert!(step.contains("--shm-size"), "{step}");
    let killed = read(&format!("{IB}Killed\n"));
    assert!(
        killed
            .symptoms
            .iter()
            .any(|symptom| symptom.grade == Grade::Unrecognised),
        "{killed:?}"
    );
    assert_eq!(
        kinds("pcieport 0000:00:01.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer"),
        []
    );
}

#[test]
fn the_next_step_is_one_for_what_failed() {
    each_is(&[
        (
            "Job for nvidia-fabricmanager.service failed because the control process exited with error code.",
            "gpu-fault",
            "nvidia-fabricmanager",
        ),
        (
            "what():  Error (gpu_burn-drv.cpp:298): system not yet initialized",
            "gpu-fault",
            "nvidia-fabricmanager",
        ),
        (
            "a:1:6 [4] NCCL INFO socketPollConnect: connect to 10.0.0.1<50012> returned Connection refused, retrying (18/34) after sleep for 1800 msec\na:1:6 [4] NCCL INFO socketPollConnect: connect to 10.0.0.1<50012> returned Connection refused, retrying (19/34) after sleep for 1900 msec",
            "peer-failed",
            "",
        ),
        (
            "E20260608 14:45:44.404089 342420 ascend_direct_transport.cpp:1107] Connect timeout to: 10.2.0.7:20033, you can increase the timeout duration",
            "fabric-or-peer",
            "hccn_tool",
        ),
        (
            "w:8:9 [0] transport/net_ib/gdaki/gin_host_gdaki.cc:431 (gdakiConnectQp) NCCL WARN DOCA failure 21",
            "gpu-initiated-setup",
            "NCCL_GIN_TYPE=2",
        ),
        (
            " 06-11-2023 20:12:02:865 [pid=157254 tid=157254] ERROR  cufio-drv:716 nvidia-fs.ko driver not loaded",
            "peer-memory-path",
            "modprobe nvidia-fs",
        ),
        (
            " 27-06-2025 08:00:30:92 [pid=57637 tid=57637] ERROR  cufio-fs:268 Unsupported block device: /dev/dm-0",
            "peer-memory-path",
            "df -T",
        ),
        (
            " 11-10-2023 15:49:50:24 [pid=1 tid=1] NOTICE  cufio-rdma:175 nvidia_peermem.ko is not loaded. Disabling UserSpace RDMA access.\n 11-10-2023 15:49:51:316 [pid=1 tid=3] ERROR  0:1072 Inc-bar-usage failed: size 524288000 remaining bytes 281018368",
            "peer-memory-path",
            "BAR1",
        ),
        (
            "ERR:  Error getting the gdrdrv driver version with ioctl error (errno=22). gdrdrv might be too old.",
            "peer-memory-path",
            "/proc/devices",
        ),
        (
            "CUDA error in cuMemImportFromShareableHandle: invalid resource handle",
            "gpu-program",
            "nvidia-imex-ctl",
        ),
        (
            "n1:1:2 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in",
            "job-settings",
            "one process per rank",
        ),
        (
            "n1:812:1204 [4] graph/rings.cc:58 NCCL WARN Error : ring 0 does not loop back to start (12 != 0)",
            "peer-settings",
            "different rings",
        ),
        (
            "$ FI_PROVIDER=verbs fi_info\nfi_getinfo: -61 (No data available)\n$ FI_PROVIDER=efa fi_info\nprovider: efa\n    domain: rdmap79s0-rdm",
            "unsupported-adapter",
            "FI_PROVIDER",
        ),
        (
            "/opt/nvshmem/include/host/nvshmemx_api.h:63: non-zero status: 7: Connection timed out, exiting...\n/opt/nvshmem/src/host/init/init.cu:327: non-zero status: 7 bootstrap_init failed",
            "tcp-connection",
            "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME",
        ),
        (
            "[ERROR] HCCL(161138,):2025-12-10-08:04:09.802.299 [topoinfo_ranktableConcise.cc:446] [162256][Get][SingleDeviceIp]'device_ip' is not set correctly",
            "addressing",
            "hccn_tool -i N -ip",
        ),
        (
            "[rank7]:[E419 10:42:28.858931807 ProcessGroupNCCL.cpp:616] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4486, OpType=ALLTOALL) ran for 600013 milliseconds before timing out.",
            "peer-failed",
            "Find the rank that is late",
        ),
    ]);
}

#[test]
fn a_node_without_switches_of_gpus_needs_no_manager_of_them() {
    const LOG: &str = "Sep 18 03:19:01 n1 nvidia-fabricmanager-start.sh[4756]: request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n\
        Sep 18 03:19:01 n1 systemd[1]: nvidia-fabricmanager.service: Control process exited, code=exited, status=1/FAILURE\n";
    assert!(!kinds(LOG).contains(&K::GpuLinkError));
}
