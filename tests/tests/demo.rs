//! `make demo`, as a newcomer runs it: the alert fires, and Ctrl-C leaves nothing behind.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a failure is a panic

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::channel,
    thread::{sleep, spawn},
    time::{Duration, Instant},
};

use rdma_health_tests::virtual_node::built;
use rustix::process::{Pid, Signal, kill_process};

/// Generous: two emulated machines boot, and others may use this one.
const DEADLINE: Duration = Duration::from_secs(500);

/// Ends the demo if the test fails.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_demo_shows_the_alert_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(built("demo").unwrap())
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut demo = Demo(child);
    let (send, receive) = channel();
    spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));

    // It may wait for another program that runs virtual nodes.
    let mut shown = receive.recv().unwrap();
    let end = Instant::now() + DEADLINE;
    while !shown.contains("Ctrl-C ends everything.") {
        let left = end.saturating_duration_since(Instant::now());
        let line = receive
            .recv_timeout(left)
            .unwrap_or_else(|_| panic!("the demo does not go on:\n{shown}"));
        shown = shown + "\n" + &line;
    }
    for expected in [
        "translated # rdma-health check\nWARNING  translated",
        "iommu-translation: The IOMMU translates the DMA addresses",
        "healthy  OK\n(exit status 0)",
        "Prometheus: RDMAIommuProblem of translated is firing",
        "Alertmanager notifies rdma-warning: FIRING RDMAIommuProblem",
    ] {
        assert!(shown.contains(expected), "no {expected:?}:\n{shown}");
    }
    assert!(!shown.contains("of healthy is firing"), "{shown}");
    assert!(
        fs::read_dir(folder.path()).unwrap().count() >= 3,
        "two nodes and Prometheus"
    );

    kill_process(Pid::from_child(&demo.0), Signal::INT).unwrap();
    let status = loop {
        if let Some(status) = demo.0.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < end, "the demo does not end");
        sleep(Duration::from_millis(100));
    };
    assert_eq!(status.code(), Some(0));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
