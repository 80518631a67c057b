//! The report as its reader sees it, on nodes whose files never change.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rdma_health_node::{
    Node, Root,
    collector::{Collector, Refresh},
};
use rdma_health_rules::{
    Expectations, Status, diagnose, judge,
    log::{Log, LogReader},
};
use rdma_health_tests::tree;

use super::*;

fn read(root: &Path) -> Node {
    let mut collector = Collector::new(Root::open(root).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    collector.node()
}

fn log(text: &str) -> Log {
    let mut reader = LogReader::default();
    reader.feed(text.as_bytes());
    reader.finish()
}

/// The text report, with escape sequences or without.
fn told(node: &Node, log: Option<&Log>, width: usize, coloured: bool) -> (String, Status) {
    let verdict = judge(node, &Expectations::default());
    let diagnosis = diagnose(node, &verdict.findings, log);
    let report = Report {
        node,
        verdict: &verdict,
        diagnosis: &diagnosis,
    };
    let choice = if coloured {
        anstream::ColorChoice::AlwaysAnsi
    } else {
        anstream::ColorChoice::Never
    };
    let mut out = anstream::AutoStream::new(Vec::new(), choice);
    text(&mut out, &report, Style { width }).unwrap();
    (String::from_utf8(out.into_inner()).unwrap(), report.status())
}

const NCCL: &str = include_str!("nccl.log");

#[test]
fn the_report_on_the_fields_node_with_every_fault() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let (text, status) = told(&read(tree.path()), None, 100, false);
    assert_eq!(status, Status::Critical);
    insta::assert_snapshot!("connectx7-gpu", text);
}

#[test]
fn the_report_on_a_jobs_log_and_the_node_that_wrote_it() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let (text, status) = told(&read(tree.path()), Some(&log(NCCL)), 100, false);
    assert_eq!(status, Status::Critical);
    insta::assert_snapshot!("connectx7-gpu-with-log", text);
}

#[test]
fn the_report_on_a_log_from_another_machine() {
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let (text, status) = told(&read(tree.path()), Some(&log(NCCL)), 100, false);
    assert_eq!(status, Status::Critical, "the log alone tells of a failure");
    insta::assert_snapshot!("virtual-node-passthrough-with-log", text);
}

#[test]
fn the_report_on_a_node_in_order_says_so_first() {
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let (text, status) = told(&read(tree.path()), None, 100, false);
    assert_eq!(status, Status::Ok);
    assert!(
        text.lines().next().unwrap().ends_with("nothing wrong found"),
        "{text}"
    );
    insta::assert_snapshot!("virtual-node-passthrough", text);
}

#[test]
fn the_report_on_nothing_says_what_was_not_there() {
    let empty = tempfile::tempdir().unwrap();
    let (text, status) = told(&read(empty.path()), None, 100, false);
    assert_eq!(status, Status::Unknown);
    insta::assert_snapshot!("nothing", text);
}

#[test]
fn lines_keep_to_the_width_but_for_the_verdict_and_titles() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    for width in [40, 60, 80, 120] {
        let (text, _) = told(&node, Some(&log(NCCL)), width, false);
        for line in text.lines().filter(|line| line.starts_with("  ")) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn colour_adds_escape_sequences_and_nothing_else() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    let (plain, _) = told(&node, Some(&log(NCCL)), 80, false);
    let (coloured, _) = told(&node, Some(&log(NCCL)), 80, true);
    assert!(coloured.contains("\u{1b}[") && !plain.contains('\u{1b}'));
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
}

#[test]
fn what_a_log_or_a_driver_says_cannot_command_the_terminal() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    std::fs::write(
        tree.path().join("proc/sys/kernel/hostname"),
        "gpu\u{1b}]0;x\u{7}\n",
    )
    .unwrap();
    let hostile = "\u{1b}]0;title\u{7} NCCL WARN NET/IB : Got completion with error 4, opcode \u{9b}2J, len 0, vendor err 81\n";
    let (text, _) = told(&read(tree.path()), Some(&log(hostile)), 80, false);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}
