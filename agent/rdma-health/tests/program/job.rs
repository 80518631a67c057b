//! `check --pid`, `--container` and `--pod`: how a job's process sees the node.

use rdma_health_tests::tree::Tree;

use super::*;

const UID: &str = "1f2e3d4c-0000-4000-8000-000000000001";
const CONTAINER: &str = "00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff";

/// A process 77 in a pod of a healthy node.
struct Job {
    tree: tempfile::TempDir,
}

impl Job {
    /// With the host's network, an unlimited memlock limit and a device file.
    fn sound() -> Self {
        let tree = Tree::fixture("h100-connectx7").unwrap().unpack().unwrap();
        let job = Self { tree };
        let fields = (1..=18).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        job.write("stat", &format!("77 (python3) S {fields} 4242 20\n"));
        job.write("comm", "python3\n");
        job.write("status", "CapEff:\t0000000000000000\n");
        job.write("environ", "NCCL_DEBUG=INFO\0");
        job.write("maps", "7f00-7f01 r-xp 0 00:00 1 /usr/lib/libibverbs.so.1\n");
        job.write("net/dev", "a\nb\n  lo: 0\n  eth0: 0\n");
        job.write("net/fib_trie", "Local:\n |-- 10.244.0.7\n /32 host LOCAL\n");
        let below = UID.replace('-', "_");
        job.write(
            "cgroup",
            &format!("0::/kubepods-pod{below}.slice/cri-containerd-{CONTAINER}.scope\n"),
        );
        job.limit("unlimited");
        job.write("root/dev/infiniband/uverbs0", "");
        job.namespace("1", "4026531840");
        job.namespace("77", "4026531840");
        fs::create_dir_all(job.tree.path().join(format!("var/log/pods/ml_train-0_{UID}"))).unwrap();
        job
    }

    fn write(&self, file: &str, content: &str) {
        let path = self.tree.path().join("proc/77").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn limit(&self, soft: &str) {
        let proc = self.tree.path().join("proc");
        let mut limits = fs::read_dir(proc)
            .unwrap()
            .map(|entry| entry.unwrap().path().join("limits"));
        let text = fs::read_to_string(limits.find(|path| path.is_file()).unwrap()).unwrap();
        let line = |line: &str| match line.strip_prefix("Max locked memory") {
            Some(_) => format!("Max locked memory         {soft:20} {soft:20} bytes\n"),
            None => format!("{line}\n"),
        };
        self.write("limits", &text.lines().map(line).collect::<String>());
    }

    fn namespace(&self, pid: &str, inode: &str) {
        let directory = self.tree.path().join(format!("proc/{pid}/ns"));
        fs::create_dir_all(&directory).unwrap();
        let _ = fs::remove_file(directory.join("net"));
        std::os::unix::fs::symlink(format!("net:[{inode}]"), directory.join("net")).unwrap();
    }

    fn check(&self, more: &[&str]) -> (Option<i32>, String) {
        let output = check(self.tree.path(), more);
        (output.status.code(), out(&output) + &err(&output))
    }
}

#[test]
fn a_sound_job_is_ok_however_it_is_named() {
    let job = Job::sound();
    for by in [
        ["--pid", "77"],
        ["--container", "00ff00ff00ff"],
        ["--container", &format!("containerd://{CONTAINER}")],
        ["--pod", "ml/train-0"],
    ] {
        let (code, report) = job.check(&by);
        assert_eq!(code, Some(0), "{by:?}: {report}");
        for words in [
            "python3 (77)",
            "memlock unlimited",
            "uverbs0",
            "NCCL_DEBUG=INFO",
            "libibverbs.so.1",
        ] {
            assert!(report.contains(words), "{words}: {report}");
        }
    }
}

#[test]
fn what_the_job_lacks_is_a_warning_and_never_critical() {
    let low = Job::sound();
    low.limit("65536");
    let absent = Job::sound();
    fs::remove_dir_all(absent.tree.path().join("proc/77/root/dev")).unwrap();
    let foreign = Job::sound();
    foreign.namespace("77", "4026532999");
    let disabled = Job::sound();
    disabled.write("environ", "NCCL_IB_DISABLE=1\0");
    for (job, words) in [
        (low, "memlock-limit"),
        (absent, "device-not-given"),
        (foreign, "no GID of an active port"),
        (disabled, "job-settings"),
    ] {
        let (code, report) = job.check(&["--pid", "77"]);
        assert_eq!(code, Some(1), "{words}: {report}");
        assert!(report.contains(words), "{words}: {report}");
    }
}

#[test]
fn a_job_with_an_address_of_a_port_or_the_right_to_lock_memory_is_ok() {
    let job = Job::sound();
    job.namespace("77", "4026532999");
    job.limit("65536");
    job.write("status", "CapEff:\t0000000000004000\n");
    let table =
        fs::read_to_string(job.tree.path().join("sys/class/infiniband/mlx5_0/ports/1/gids/3")).unwrap();
    let gid: std::net::Ipv6Addr = table.trim().parse().unwrap();
    let address = gid.to_ipv4_mapped().unwrap();
    job.write(
        "net/fib_trie",
        &format!("Local:\n |-- {address}\n /32 host LOCAL\n"),
    );
    let (code, report) = job.check(&["--pid", "77"]);
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("CAP_IPC_LOCK"), "{report}");
}

#[test]
fn a_process_container_or_pod_that_is_not_there_is_an_error() {
    let job = Job::sound();
    for (by, words) in [
        (["--pid", "78"], "no process 78"),
        (["--container", "00ee00ee00ee"], "not found"),
        (["--container", "x"], "hexadecimal"),
        (["--pod", "ml/other"], "does not run on this node"),
    ] {
        let (code, report) = job.check(&by);
        assert_eq!(code, Some(3), "{report}");
        assert!(report.contains(words), "{words}: {report}");
    }
    let (code, report) = job.check(&["--pod", "train-0"]);
    assert_eq!(code, Some(3), "{report}");
    assert!(report.contains("NAMESPACE/NAME"), "{report}");
}
