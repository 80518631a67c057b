//! The whole report on fixture trees.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rdma_health_diagnosis::{
    diagnose,
    log::{Log, LogReader},
};
use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::Node;
use rdma_health_rules::{Expectations, Status, judge};
use rdma_health_tests::tree;

use super::*;

fn read(root: &Path) -> Node {
    let mut collector = Collector::new(Root::open(root).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

fn log(text: &str) -> Log {
    let mut reader = LogReader::default();
    reader.feed(text.as_bytes());
    reader.finish()
}

/// The text report, with or without escape sequences.
fn rendered(node: &Node, log: Option<&Log>, width: usize, coloured: bool) -> (String, Status) {
    let style = Style { width, verbose: true };
    styled(node, log, style, coloured)
}

/// The same in this style.
fn styled(node: &Node, log: Option<&Log>, style: Style, coloured: bool) -> (String, Status) {
    let verdict = judge(node, &Expectations::default());
    let diagnosis = diagnose(node, &verdict.findings, log);
    let report = Report {
        node,
        verdict: &verdict,
        diagnosis: &diagnosis,
        kubernetes_node: None,
    };
    let choice = if coloured {
        anstream::ColorChoice::AlwaysAnsi
    } else {
        anstream::ColorChoice::Never
    };
    let mut out = anstream::AutoStream::new(Vec::new(), choice);
    text(&mut out, &report, style).unwrap();
    (String::from_utf8(out.into_inner()).unwrap(), report.status())
}

const NCCL: &str = include_str!("nccl.log");

#[test]
fn the_report_on_the_fields_node_with_every_fault() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let (text, status) = rendered(&read(tree.path()), None, 100, false);
    assert_eq!(status, Status::Critical);
    insta::assert_snapshot!("connectx7-gpu", text);
}

#[test]
fn the_report_on_a_jobs_log_and_the_node_that_wrote_it() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let (text, status) = rendered(&read(tree.path()), Some(&log(NCCL)), 100, false);
    assert_eq!(status, Status::Critical);
    insta::assert_snapshot!("connectx7-gpu-with-log", text);
}

#[test]
fn the_report_on_a_log_from_another_machine() {
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let (text, status) = rendered(&read(tree.path()), Some(&log(NCCL)), 100, false);
    assert_eq!(status, Status::Critical, "the log shows a failure");
    insta::assert_snapshot!("virtual-node-passthrough-with-log", text);
}

#[test]
fn a_collective_operation_that_timed_out_is_named_first() {
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let waited = "[rank1]:[E ProcessGroupNCCL.cpp:1414] [PG 0 Rank 1] Process group watchdog thread terminated with exception: [Rank 1] Watchdog \
        caught collective operation timeout: WorkNCCL(SeqNum=6075, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800090 milliseconds";
    let (text, status) = rendered(&read(tree.path()), Some(&log(waited)), 100, false);
    assert_eq!(status, Status::Unknown, "{text}");
    let first = text.lines().next().unwrap();
    let words = "the log shows collective-timeout; possible cause: The peer (another rank, the server or the target) failed";
    assert!(first.contains(words), "{first}");
}

#[test]
fn the_report_on_a_healthy_node_says_so_first() {
    let tree = tree::fixture("virtual-node-passthrough").unwrap();
    let (text, status) = rendered(&read(tree.path()), None, 100, false);
    assert_eq!(status, Status::Ok);
    assert!(
        text.lines().next().unwrap().ends_with("no problem found"),
        "{text}"
    );
    insta::assert_snapshot!("virtual-node-passthrough", text);
}

#[test]
fn the_report_on_an_empty_tree_names_what_is_missing() {
    let empty = tempfile::tempdir().unwrap();
    let (text, status) = rendered(&read(empty.path()), None, 100, false);
    assert_eq!(status, Status::Unknown);
    insta::assert_snapshot!("nothing", text);
}

#[test]
fn the_short_report_on_one_cause_has_at_most_twelve_lines() {
    for (fixture, change, width) in [
        ("h100-connectx7", "DMA-FQ", 80),
        ("h100-connectx7", "DMA-FQ", 100),
    ] {
        let tree = tree::fixture(fixture).unwrap();
        let groups = tree.path().join("sys/kernel/iommu_groups");
        for group in std::fs::read_dir(groups).unwrap() {
            std::fs::write(group.unwrap().path().join("type"), change).unwrap();
        }
        std::fs::write(tree.path().join("proc/cmdline"), "root=/dev/sda2 ro\n").unwrap();
        std::fs::write(tree.path().join("dev/kmsg"), "").unwrap();
        let style = Style {
            width,
            verbose: false,
        };
        let (text, status) = styled(&read(tree.path()), None, style, false);
        assert_eq!(status, Status::Critical);
        assert!(text.lines().count() <= 12, "{text}");
        assert!(
            text.contains("next step") && text.contains("the same for"),
            "{text}"
        );
    }
}

#[test]
fn an_error_that_is_not_known_is_shown_whole() {
    let tree = tree::fixture("connectx7-gpu-mended").unwrap();
    let line = "mlx5_core 0000:18:00.0: a sentence from the future that is much longer than one line of this report, with its end at the end";
    std::fs::write(tree.path().join("dev/kmsg"), format!("3,1,900000000,-;{line}\n")).unwrap();
    let style = Style {
        width: 80,
        verbose: false,
    };
    let (text, _) = styled(&read(tree.path()), None, style, false);
    assert!(text.contains("its end at"), "{text}");
    assert!(!text.contains("no fault of an adapter"), "{text}");
    assert!(text.contains("does not know"), "{text}");
}

#[test]
fn the_line_for_scripts_is_equal_on_equal_nodes_but_for_the_host() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    let verdict = judge(&node, &Expectations::default());
    let diagnosis = diagnose(&node, &verdict.findings, None);
    let report = Report {
        node: &node,
        verdict: &verdict,
        diagnosis: &diagnosis,
        kubernetes_node: None,
    };
    let mut out = anstream::AutoStream::new(Vec::new(), anstream::ColorChoice::Never);
    quiet(&mut out, &report, report.status()).unwrap();
    let line = String::from_utf8(out.into_inner()).unwrap();
    assert!(
        line.starts_with("gpu-17  CRITICAL  iommu-translation  iommu-group-translated,"),
        "{line}"
    );
    assert!(line.ends_with('\n') && !line.contains("mlx5_"), "{line}");
}

#[test]
fn all_lines_but_the_verdict_and_titles_respect_the_width() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    for width in [40, 60, 80, 120] {
        let (text, _) = rendered(&node, Some(&log(NCCL)), width, false);
        // Commands are not wrapped, so that they can be pasted.
        let is_command = |line: &str| line.starts_with("    ") && !line.starts_with("     ");
        for line in text
            .lines()
            .filter(|line| line.starts_with("  ") && !is_command(line))
        {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn colour_adds_escape_sequences_and_nothing_else() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    let node = read(tree.path());
    let (plain, _) = rendered(&node, Some(&log(NCCL)), 80, false);
    let (coloured, _) = rendered(&node, Some(&log(NCCL)), 80, true);
    assert!(coloured.contains("\u{1b}[") && !plain.contains('\u{1b}'));
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
}

#[test]
fn text_of_a_log_or_a_driver_cannot_control_the_terminal() {
    let tree = tree::fixture("connectx7-gpu").unwrap();
    std::fs::write(
        tree.path().join("proc/sys/kernel/hostname"),
        "gpu\u{1b}]0;x\u{7}\n",
    )
    .unwrap();
    let hostile = "\u{1b}]0;title\u{7} NCCL WARN NET/IB : Got completion with error 4, opcode \u{9b}2J, len 0, vendor err 81\n";
    let (text, _) = rendered(&read(tree.path()), Some(&log(hostile)), 80, false);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}
