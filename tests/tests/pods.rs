//! Pods and their devices, from a fake kubelet through the real helper into the real program: on this machine, which may have no
//! RDMA device.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a failure is a panic

use std::{
    fs,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread::sleep,
    time::{Duration, Instant},
};

use rdma_health_tests::{fake_kubelet::FakeKubelet, running::Running, virtual_node::built};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A helper that asks the kubelet on a socket in its own directory.
struct Helper {
    _program: Running,
    directory: TempDir,
}

impl Helper {
    fn start(kubelet: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("verbs.sock");
        let mut command = Command::new(built("rdma-health-verbs").unwrap());
        command
            .arg("serve")
            .arg("--socket")
            .arg(&socket)
            .arg("--kubelet")
            .arg(kubelet);
        let program = Running::start(&mut command).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while !socket.exists() {
            assert!(Instant::now() < until, "the helper does not listen");
            sleep(Duration::from_millis(20));
        }
        Self {
            _program: program,
            directory,
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("verbs.sock")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(built("rdma-health").unwrap())
            .args(arguments)
            .arg("--helper-socket")
            .arg(self.socket())
            .output()
            .unwrap()
    }

    /// What the node knows of the kubelet: its facts, and what could not be read.
    fn kubelet(&self) -> (Value, Value) {
        let output = self.run(&["check", "--output", "json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let status = report["node"]["sources"]["kubelet"]["unread"].clone();
        (report["node"]["kubelet"].clone(), status)
    }
}

fn answers() -> Value {
    json!({
        "List": {"podResources": [{"name": "train-0", "namespace": "secret-team", "containers": [
            {"name": "main", "devices": [{"resourceName": "openshift.io/rail0", "deviceIds": ["0000:41:00.2"]}]}]}]},
        "GetAllocatableResources": {"devices": [
            {"resourceName": "openshift.io/rail0", "deviceIds": ["0000:41:00.2"]},
            {"resourceName": "openshift.io/rail0", "deviceIds": ["0000:41:00.3"]}]}})
}

#[test]
fn what_the_kubelet_answers_is_part_of_the_node_and_of_a_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let kubelet = FakeKubelet::start(directory.path(), &answers()).unwrap();
    let helper = Helper::start(kubelet.socket());
    let (facts, unread) = helper.kubelet();
    assert_eq!(facts["pods"][0]["name"], "train-0", "{facts}");
    assert_eq!(
        facts["allocatable"][0]["deviceIds"],
        json!(["0000:41:00.2", "0000:41:00.3"])
    );
    assert_eq!(unread, json!([]));

    let saved = directory.path().join("node.tar.zst");
    let file = saved.to_str().unwrap();
    for (anonymize, shown) in [(None, true), (Some("--anonymize"), false)] {
        let mut arguments = vec!["snapshot", "--force", "-o", file];
        arguments.extend(anonymize);
        let output = helper.run(&arguments);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let replayed = Command::new(built("rdma-health").unwrap())
            .args(["check", "--output", "json", "--snapshot", file])
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&replayed.stdout).unwrap();
        let text = report["node"]["kubelet"].to_string();
        assert_eq!(
            text.contains("train-0") && text.contains("secret-team"),
            shown,
            "{text}"
        );
        // What joins them to devices stays.
        assert!(
            text.contains("0000:41:00.2") && text.contains("openshift.io/rail0"),
            "{text}"
        );
    }
}

#[test]
fn no_kubelet_is_an_answer_and_one_that_fails_is_reported_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("kubelet.sock");
    let helper = Helper::start(&socket);
    let (facts, unread) = helper.kubelet();
    assert_eq!((&facts["pods"], &unread), (&Value::Null, &json!([])), "{facts}");

    // It accepts connections and says nothing; the helper gives up in time and answers other questions.
    let hung = UnixListener::bind(&socket).unwrap();
    let (_, unread) = helper.kubelet();
    assert_eq!(unread[0]["kind"], "hung", "{unread}");
    assert_eq!(unread[0]["source"], "kubelet List");
    drop(hung);
    let (_, unread) = helper.kubelet();
    assert_eq!(unread[0]["kind"], "ECONNREFUSED", "{unread}");
    fs::remove_file(&socket).unwrap();

    let kubelet = FakeKubelet::start(
        directory.path(),
        &json!({"List": {"code": "RESOURCE_EXHAUSTED", "error": "rejected by rate limit"}}),
    )
    .unwrap();
    let (facts, unread) = helper.kubelet();
    assert_eq!(unread[0]["kind"], "refused", "{unread}");
    assert_eq!(facts["allocatable"], Value::Null, "not served");
    kubelet.answer(&answers()).unwrap();
    let (facts, unread) = helper.kubelet();
    assert_eq!(
        (&facts["pods"][0]["name"], &unread),
        (&json!("train-0"), &json!([]))
    );
}
