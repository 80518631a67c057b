//! A helper behind a socket that starts after the agent, as in a pod, whose containers start one after the other.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rdma_health_tests::{running::Running, tree, virtual_node::built};

const SOON: Duration = Duration::from_secs(60);

#[test]
fn an_agent_waits_for_a_helper_that_starts_later() {
    let folder = tempfile::tempdir().unwrap();
    let (log, socket) = (folder.path().join("log"), folder.path().join("verbs.sock"));
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let mut agent = Command::new(built("rdma-health").unwrap());
    agent
        .args(["agent", "--listen", "127.0.0.1:0", "--interval", "1s"])
        .arg("--root")
        .arg(tree.path())
        .arg("--helper-socket")
        .arg(&socket)
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap());
    let _agent = Running::start(&mut agent).unwrap();
    // It has read the node several times, and would have asked the helper each time.
    until_log(&log, "serving /metrics");
    sleep(Duration::from_secs(3));
    let mut helper = Command::new(built("rdma-health-verbs").unwrap());
    helper.arg("serve").arg("--socket").arg(&socket);
    let _helper = Running::start(helper.stderr(Stdio::null())).unwrap();
    let text = until_log(&log, "verbs helper up");
    // What the helper then answers depends on this machine.
    let (before, _) = text.split_once("verbs helper up").unwrap();
    assert!(!before.contains("verbs helper down"), "{text}");
    assert!(!before.contains("helper-unhealthy"), "{text}");
}

fn until_log(log: &Path, words: &str) -> String {
    let end = Instant::now() + SOON;
    loop {
        let text = fs::read_to_string(log).unwrap();
        if text.contains(words) {
            return text;
        }
        assert!(
            Instant::now() < end,
            "the log does not contain {words:?}:\n{text}"
        );
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_peer_writes_no_line_of_its_choice_into_the_log_of_the_helper() {
    let mut helper = Command::new(built("rdma-health-verbs").unwrap())
        .arg("stdio")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let request = format!(
        "{{\"id\":1,\"ask\":\"x\\nrdma-health-verbs: forged\\u001b[31m{}\"}}",
        "y".repeat(100_000)
    );
    let length = u32::try_from(request.len()).unwrap();
    let mut input = helper.stdin.take().unwrap();
    input.write_all(&length.to_le_bytes()).unwrap();
    input.write_all(request.as_bytes()).unwrap();
    drop(input);
    let output = helper.wait_with_output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{log}");
    assert!(log.contains("cannot read a request"), "{log}");
    assert!(
        log.lines().count() == 1 && log.len() < 1000 && !log.contains('\u{1b}'),
        "{log}"
    );
}
