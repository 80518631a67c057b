#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::fs;

use super::*;
use crate::UnreadKind;

/// A captured tree with a process 77 in a container with one RoCE device.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &[u8]| {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let fields = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
    write("proc/77/stat", format!("77 (a) b) {fields}\n").as_bytes());
    write("proc/77/comm", b"python3\n");
    write("proc/77/status", b"Name:\tx\nCapEff:\t0000000000004000\n");
    write(
        "proc/77/environ",
        b"NCCL_IB_HCA=mlx5\0HOME=/root\0PCIDEVICE_X=0000:14:00.0\0NCCL_DEBUG=\x1b[31m\xff\0broken",
    );
    write("proc/77/maps", b"7f00-7f01 r-xp 0 00:00 1 /usr/lib/libibverbs.so.1.14.0\n7f01-7f02 r-xp 0 00:00 1 /usr/lib/libibverbs.so.1.14.0\n7f00-7f01 r-xp 0 00:00 1 /usr/lib/libc.so.6\n");
    write("proc/77/net/dev", b"Inter-|\n face |\n    lo: 0 0\n  net1: 0 0\n");
    write(
        "proc/77/net/fib_trie",
        b"Local:\n  |-- 10.1.0.7\n     /32 host LOCAL\n",
    );
    write(
        "proc/77/cgroup",
        b"0::/kubepods.slice/kubepods-pod1f2e_3d.slice/cri-containerd-00ff00ff00ff.scope\n",
    );
    write("proc/77/root/dev/infiniband/uverbs0", b"");
    let port = "proc/77/root/sys/class/infiniband/mlx5_3/ports/1";
    write(&format!("{port}/link_layer"), b"Ethernet\n");
    write(
        &format!("{port}/gids/0"),
        b"0000:0000:0000:0000:0000:ffff:0a01:0007\n",
    );
    write(&format!("{port}/gid_attrs/types/0"), b"RoCE v2\n");
    fs::create_dir_all(tree.path().join("var/log/pods/ns_job-0_1f2e-3d/x")).unwrap();
    tree
}

fn read(tree: &tempfile::TempDir, pid: u32) -> io::Result<Process> {
    Process::read(&Root::open(tree.path()).unwrap(), tree.path(), pid)
}

#[test]
fn the_view_of_a_job_is_read() {
    let tree = tree();
    let process = read(&tree, 77).unwrap();
    assert_eq!(process.netdevs.known().unwrap(), &["lo", "net1"]);
    assert_eq!(process.addresses.known().unwrap().len(), 1);
    assert_eq!(process.device_files.known().unwrap(), &["uverbs0"]);
    assert_eq!(process.gids.known().unwrap()["mlx5_3:1"].len(), 1);
    assert_eq!(process.libraries.known().unwrap(), &["libibverbs.so.1.14.0"]);
    assert_eq!(process.ipc_lock, Fact::Known(true));
    assert!(process.memlock.is_absent() && process.host_network.is_absent());
    let environment = process.environment.known().unwrap();
    assert_eq!(environment.len(), 3, "{environment:?}");
    assert_eq!(
        environment["NCCL_DEBUG"], "\\u{1b}[31m\u{fffd}",
        "no escape sequences"
    );
}

#[test]
fn a_process_that_is_not_there_is_an_error_and_not_an_empty_view() {
    let tree = tree();
    assert!(read(&tree, 78).unwrap_err().to_string().contains("no process 78"));
    fs::write(tree.path().join("proc/77/stat"), "nonsense").unwrap();
    assert!(read(&tree, 77).is_err());
}

#[test]
fn what_is_not_permitted_is_reported() {
    let tree = tree();
    let path = tree.path().join("proc/77/environ");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let process = read(&tree, 77).unwrap();
    assert_eq!(process.environment.unread().unwrap().kind, UnreadKind::NotAFile);
}

#[test]
fn the_root_of_a_captured_process_does_not_lead_out_of_the_tree() {
    let tree = tree();
    let root = tree.path().join("proc/77/root");
    fs::remove_dir_all(&root).unwrap();
    std::os::unix::fs::symlink("/", &root).unwrap();
    let process = read(&tree, 77).unwrap();
    // The link leads to the root of the tree, which has neither.
    assert!(process.device_files.is_absent() && process.gids.is_absent());
}

#[test]
fn a_pod_or_container_leads_to_its_process() {
    let tree = tree();
    let root = Root::open(tree.path()).unwrap();
    let found = |wanted: &Wanted| find(&Scope::new(&root), wanted);
    let container = |id: &str| found(&Wanted::Container(id.into()));
    let pod = |name: &str| {
        found(&Wanted::Pod {
            namespace: "ns".into(),
            name: name.into(),
        })
    };
    assert_eq!(container("00ff00ff00ff"), Found::Process(77));
    assert_eq!(container("containerd://00FF00ff"), Found::Process(77));
    assert_eq!(pod("job-0"), Found::Process(77));
    for other in [
        container("00ee00ee"),
        container("x"),
        container(""),
        pod("job"),
        pod("job-0_1f2e-3d"),
    ] {
        assert!(matches!(other, Found::Nothing(why) if !why.is_empty()));
    }
}

#[test]
fn a_container_that_names_a_cgroup_like_another_container_is_not_found_in_its_place() {
    let tree = tree();
    let root = Root::open(tree.path()).unwrap();
    let (own, victim) = ("aa".repeat(32), "bb".repeat(32));
    let process = |pid: u32, below: &str| {
        let directory = tree.path().join(format!("proc/{pid}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("cgroup"), format!("0::/kubepods/{below}\n")).unwrap();
        fs::write(directory.join("comm"), "python3\n").unwrap();
    };
    let found = || find(&Scope::new(&root), &Wanted::Container(victim[..12].into()));
    process(10, &format!("podaa/{own}/{victim}"));
    process(20, &format!("podbb/{victim}"));
    assert_eq!(found(), Found::Process(20));
    // Two containers whose ids begin alike.
    process(30, &format!("podcc/{}{}", &victim[..20], "c".repeat(44)));
    assert!(matches!(found(), Found::Nothing(why) if why.contains("2 containers")));
}

#[test]
fn the_value_of_a_variable_that_is_not_known_is_hidden() {
    let found = environment(
        b"NCCL_SECRET_TOKEN=hunter2\0NCCL_IB_HCA=mlx5_0\0UCX_PASSWORD=hunter2\0FI_EFA_USE_DEVICE_RDMA=1",
    );
    assert_eq!(found["NCCL_IB_HCA"], "mlx5_0");
    assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
    assert_eq!(found.len(), 4);
}

#[test]
fn this_process_is_read_as_it_is() {
    let root = Root::open(Path::new("/")).unwrap();
    let process = Process::read(&root, Path::new("/"), std::process::id()).unwrap();
    assert!(
        process
            .netdevs
            .known()
            .is_some_and(|names| names.iter().any(|name| name == "lo"))
    );
    assert!(process.memlock.known().is_some());
}

proptest::proptest! {
    #[test]
    fn any_environment_and_map_is_read_without_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        let _ = environment(&bytes);
        let _ = libraries(&bytes);
    }
}
