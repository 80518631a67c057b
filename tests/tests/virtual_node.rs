//! The virtual node itself: what it boots into, and that it does what a test asks and leaves nothing behind.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rdma_health_tests::run_acts;
use rdma_health_tests::virtual_node::{Options, VirtualNode};

#[test]
fn the_node_has_its_devices_and_does_what_it_is_asked() {
    let mut node = VirtualNode::boot(&Options {
        nics: 4,
        ..Options::default()
    })
    .unwrap();
    let states = node
        .check("grep -H . /sys/class/infiniband/rxe*/ports/1/state")
        .unwrap();
    let active = (0..4).map(|nic| format!("/sys/class/infiniband/rxe{nic}/ports/1/state:4: ACTIVE\n"));
    assert_eq!(states, active.collect::<String>());
    run_acts!(
        &mut node,
        |_| (),
        [
            statuses_and_output_are_exact,
            a_late_command_is_ended_and_the_node_can_be_used_on,
            jobs_run_beside_commands,
            files_hold_any_byte,
            conditions_are_waited_for,
            the_host_is_read_only,
        ]
    );
}

fn statuses_and_output_are_exact(node: &VirtualNode) {
    let out = node.run("echo out; echo err >&2; exit 7").unwrap();
    assert_eq!(
        (out.status, &*out.stdout, &*out.stderr),
        (7, &b"out\n"[..], &b"err\n"[..])
    );
    for status in [0, 1, 124, 137, 255] {
        assert_eq!(node.run(&format!("exit {status}")).unwrap().status, status);
    }
    assert_eq!(node.run("kill -SEGV $$").unwrap().status, 128 + 11);
    let zeros = node
        .run("head -c 300000 /dev/zero; printf '\\377\\0'")
        .unwrap()
        .stdout;
    assert_eq!((zeros.len(), &zeros[300_000..]), (300_002, &[0xff, 0][..]));
    assert!(
        node.check("echo why >&2; exit 3")
            .unwrap_err()
            .to_string()
            .contains("why")
    );
    assert_eq!(
        node.check("id -u; hostname; pwd").unwrap(),
        "0\nvirtual-node\n/\n"
    );
}

fn a_late_command_is_ended_and_the_node_can_be_used_on(node: &VirtualNode) {
    let error = node
        .run_within(Duration::from_secs(1), "echo begun; sleep 600")
        .unwrap_err()
        .to_string();
    assert!(error.contains("1s") && error.contains("begun"), "{error}");
    let stubborn = "trap '' TERM; while :; do sleep 1; done";
    node.run_within(Duration::from_secs(1), stubborn).unwrap_err();
    assert_eq!(
        node.run("pgrep -x sleep").unwrap().status,
        1,
        "nothing of it is left"
    );
}

fn jobs_run_beside_commands(node: &VirtualNode) {
    let job = node
        .spawn("echo begun; echo aside >&2; until [ -e /run/go ]; do sleep 0.1; done; exit 5")
        .unwrap();
    assert_eq!(node.check("echo next").unwrap(), "next\n");
    assert_eq!(job.status().unwrap(), None);
    node.check("touch /run/go").unwrap();
    assert_eq!(job.wait(Duration::from_secs(30)).unwrap(), 5);
    assert_eq!(
        (&*job.stdout().unwrap(), &*job.stderr().unwrap()),
        ("begun\n", "aside\n")
    );
    let job = node.spawn("sleep 600 & sleep 600").unwrap();
    job.signal("TERM").unwrap();
    assert_eq!(job.wait(Duration::from_secs(30)).unwrap(), 128 + 15);
}

fn files_hold_any_byte(node: &VirtualNode) {
    let content: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
    node.write_file("/run/it's a/new file", &content).unwrap();
    assert_eq!(node.read_file("/run/it's a/new file").unwrap(), content);
    node.read_file("/run/none").unwrap_err();
}

fn conditions_are_waited_for(node: &VirtualNode) {
    let _job = node.spawn("sleep 0.5; touch /run/ready").unwrap();
    node.wait_until(Duration::from_secs(30), "test -e /run/ready")
        .unwrap();
    node.wait_until(Duration::from_millis(300), "false").unwrap_err();
}

fn the_host_is_read_only(node: &VirtualNode) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    node.write_file(path.to_str().unwrap(), "guest only").unwrap();
    assert!(!path.exists());
    node.run("echo spoilt >>/etc/hostname").unwrap();
    assert!(!fs::read_to_string("/etc/hostname").unwrap().contains("spoilt"));
}

#[test]
fn a_boot_that_fails_says_why() {
    let refused = Options {
        qemu_args: vec!["-device".into(), "no-such-device".into()],
        ..Options::default()
    };
    let error = format!("{:#}", VirtualNode::boot(&refused).unwrap_err());
    assert!(error.contains("no-such-device"), "{error}");
    let panics = Options {
        kernel_args: "rdinit=/no/such/init".into(),
        nics: 0,
        ..Options::default()
    };
    let error = format!("{:#}", VirtualNode::boot(&panics).unwrap_err());
    assert!(
        error.contains("last lines of the console") && error.contains("panic"),
        "{error}"
    );
}

/// Boots until it is killed; the test below runs this in its own process.
#[test]
#[ignore = "a part of the test below"]
fn hold() {
    let _node = VirtualNode::boot(&Options::default()).unwrap();
    sleep(Duration::from_secs(600));
}

#[test]
fn nothing_is_left_of_a_node_whose_test_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "hold", "--ignored"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null());
    let mut test = test.spawn().unwrap();
    let patience = Duration::from_secs(900); // other tests have their turn first
    wait(patience, "a machine starts", || machines(folder.path()) > 0);
    test.kill().unwrap();
    test.wait().unwrap();
    let left = || fs::read_dir(folder.path()).unwrap().count();
    wait(Duration::from_secs(30), "the machine ends", || {
        machines(folder.path()) == 0 && left() == 0
    });
}

/// How many processes name this folder on their command line.
fn machines(folder: &Path) -> usize {
    let folder = folder.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(folder))
        .count()
}

fn wait(patience: Duration, what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + patience;
    while !condition() {
        assert!(Instant::now() < end, "waited {patience:?} until {what}");
        sleep(Duration::from_millis(50));
    }
}
