//! What `rdma-health env` prints, given to the real libraries as far as they run without an adapter and a GPU, and the benchmark over
//! Gloo on CPUs. `make test-job` runs the ignored tests too, which download NCCL (350 MB) and PyTorch (150 MB).
//!
//! tests/job.rs gives the settings to UCX on a node with devices.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    collections::BTreeMap,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use rdma_health_tests::{
    tree::Tree,
    virtual_node::{built, quote},
};
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a script of `tests/job` and returns the path that it prints.
fn prepared(script: &str, arguments: &[&str]) -> String {
    let output = Command::new(repository().join("tests/job").join(script))
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{script} failed");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The settings for a tree whose default route is over `lo`, the one network device that every machine has.
fn settings(fixture: &str, mode: &str) -> BTreeMap<String, String> {
    let mut tree = Tree::fixture(fixture).unwrap();
    let route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                 lo\t00000000\t0100007F\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
    tree.write("proc/net/route", route).unwrap();
    let folder = tree.unpack().unwrap();
    let output = Command::new(built("rdma-health").unwrap())
        .args(["env", "--format", "json", "--mode", mode, "--root"])
        .arg(folder.path())
        .env_clear()
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let settings = all["settings"].as_array().unwrap().iter();
    settings
        .map(|one| (text(&one["name"]), text(&one["value"])))
        .collect()
}

fn both(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Without devices UCX cannot open any, but its parser takes the settings, and it warns about variables that it does not know.
#[test]
fn ucx_knows_every_variable() {
    let ucx = |mode: &str, more: (&str, &str)| {
        let output = Command::new("ucx_info")
            .args(["-c", "-p", "-w", "-u", "t"])
            .envs(settings("h100-connectx7", mode))
            .envs([("UCX_WARN_UNUSED_ENV_VARS", "y"), more])
            .output()
            .unwrap();
        both(&output)
    };
    let rdma = ucx("rdma", ("UCX_LOG_LEVEL", "warn"));
    let ports: Vec<_> = (0..8).map(|n| format!("mlx5_{n}:1")).collect();
    assert!(
        rdma.contains(&format!("UCX_NET_DEVICES={}\n", ports.join(","))),
        "{rdma}"
    );
    assert!(!rdma.contains("unused env variable"), "{rdma}");
    assert!(!rdma.contains("failed to parse"), "{rdma}");
    let tcp = ucx("tcp", ("UCX_LOG_LEVEL", "warn"));
    assert!(
        tcp.contains("UCX_NET_DEVICES=lo\n") && tcp.contains("tcp/lo"),
        "{tcp}"
    );
    assert!(!tcp.contains(" WARN "), "{tcp}");
    // The checks above can fail.
    let unknown = ucx("tcp", ("UCX_NET_DEVICE", "lo"));
    assert!(
        unknown.contains("unused env variable: UCX_NET_DEVICE"),
        "{unknown}"
    );
}

/// Logs of many NCCL versions, the exit status on a fall-back to TCP, the line `[bench]`.
#[test]
fn the_benchmark_without_torch() {
    let output = Command::new("python3")
        .arg(repository().join("tests/deploy/all_reduce_test.py"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", both(&output));
}

/// NCCL starts its bootstrap network without a GPU, over the interface in `NCCL_SOCKET_IFNAME`. It reads `NCCL_IB_HCA` only with one;
/// it parses both lists with the same function.
#[test]
#[ignore = "downloads NCCL: make test-job"]
fn nccl_bootstraps_over_the_interface() {
    let library = prepared("nccl", &[]);
    let nccl = |settings: &BTreeMap<String, String>| {
        Command::new(repository().join("tests/job/unique_id.py"))
            .arg(&library)
            .env_clear()
            .env("NCCL_DEBUG", "INFO")
            .env("NCCL_DEBUG_SUBSYS", "INIT,ENV,BOOTSTRAP,NET")
            .envs(settings)
            .output()
            .unwrap()
    };
    for (fixture, mode) in [
        ("h100-connectx7", "rdma"),
        ("h100-connectx7", "tcp"),
        ("efa-p5", "tcp"),
    ] {
        let settings = settings(fixture, mode);
        let output = nccl(&settings);
        let log = both(&output);
        assert!(output.status.success(), "{fixture} {mode}: {log}");
        for words in [
            "NCCL_SOCKET_IFNAME set by environment to =lo",
            "Bootstrap: Using lo:127.0.0.1",
        ] {
            assert!(log.contains(words), "{fixture} {mode}: {log}");
        }
        assert!(!log.contains("NCCL WARN"), "{log}");
    }
    // Exact match: a prefix would have found lo.
    let mut other = settings("h100-connectx7", "tcp");
    other.insert("NCCL_SOCKET_IFNAME".into(), "=l".into());
    let output = nccl(&other);
    assert!(!output.status.success(), "{}", both(&output));
    assert!(
        both(&output).contains("no socket interface found"),
        "{}",
        both(&output)
    );
}

/// Debian's libfabric has no provider for EFA: its parser takes the name, and it leaves out every other provider.
#[test]
#[ignore = "downloads libfabric: make test-job"]
fn libfabric_reads_the_provider() {
    let root = prepared("debian", &["libfabric", "libfabric-bin"]);
    let settings = settings("efa-p5", "rdma");
    assert_eq!(settings.get("FI_PROVIDER").map(String::as_str), Some("efa"));
    let output = Command::new(repository().join("tests/job/unpacked"))
        .args([root.as_str(), "fi_info"])
        .env("FI_LOG_LEVEL", "info")
        .envs(&settings)
        .output()
        .unwrap();
    let log = both(&output);
    assert!(log.contains("read string var provider=efa"), "{log}");
    assert!(
        log.contains("\"tcp\" filtered by provider include/exclude list"),
        "{log}"
    );
    assert!(output.stdout.is_empty(), "it offers another provider: {log}");
    let known = Command::new(repository().join("tests/job/unpacked"))
        .args([root.as_str(), "fi_info", "-e"])
        .output()
        .unwrap();
    for name in settings.keys().filter(|name| name.starts_with("FI_")) {
        assert!(both(&known).contains(&format!("# {name}:")), "{name}");
    }
}

/// Two processes on CPUs. Their addresses come from `GLOO_SOCKET_IFNAME`, as `env` sets it.
#[test]
#[ignore = "downloads PyTorch: make test-job"]
fn the_benchmark_measures_over_gloo() {
    let root = prepared("debian", &["torch", "python3-torch"]);
    let folder = tempfile::tempdir().unwrap();
    // Below the ports that the kernel gives to clients: rank 1, which dials until rank 0 listens, could otherwise connect to itself.
    let free = || {
        let mut ports = 20_000..30_000;
        ports
            .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
            .unwrap()
    };
    let settings = settings("h100-connectx7", "tcp");
    let run = |more: &str| {
        let repository = repository();
        let rank = |number: u8| {
            format!(
                "RANK={number} LOCAL_RANK={number} {} {} /usr/bin/python3 {} --backend gloo --sizes 1M,16M --iterations 3 --warmup 1 {more}",
                quote(&repository.join("tests/job/unpacked").display().to_string()),
                quote(&root),
                quote(
                    &repository
                        .join("deploy/workload/chart/files/all_reduce.py")
                        .display()
                        .to_string()
                ),
            )
        };
        // torchrun of Debian's PyTorch does not start on Debian's Python, so the ranks are started by hand.
        let script = format!(
            "{} & {}; first=$?; wait $! || exit 9$?; exit $first",
            rank(1),
            rank(0)
        );
        Command::new("timeout")
            .args(["120", "bash", "-c", &script])
            .envs(&settings)
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", free().to_string())
            .env("WORLD_SIZE", "2")
            .env("OMP_NUM_THREADS", "1")
            .output()
            .unwrap()
    };
    let json = folder.path().join("result.json");
    let output = run(&format!("--json {}", quote(&json.display().to_string())));
    let text = both(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    eprintln!("{text}");
    for words in [
        "[bench] op=all_reduce world=2 bytes=1048576 iters=3 avg_sec=",
        "[bench] op=all_reduce world=2 bytes=16777216 iters=3 avg_sec=",
        "passed: gloo does not write a log",
    ] {
        assert!(text.contains(words), "{text}");
    }
    let result: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(result["backend"], "gloo");
    assert!(result["results"][1]["bus_bytes_per_second"].as_f64().unwrap() > 0.0);
    // Gloo shows no transport, so RDMA cannot be confirmed. The status of rank 1 is the same.
    let output = run("--expect rdma");
    assert_eq!(output.status.code(), Some(93), "{}", both(&output));
}
