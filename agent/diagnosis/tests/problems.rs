//! How findings are grouped into problems: each is one alert.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

#[path = "common/healthy.rs"]
mod healthy;

use std::{collections::BTreeSet, fmt::Write, sync::Arc};

use rdma_health_diagnosis::{Problem, diagnose, problems};
use rdma_health_node::{
    Fact, Node,
    history::{
        History, Missing,
        changes::{Change, Event},
    },
};
use rdma_health_rules::{Expectations, judge};
use rdma_health_tests::tree::Tree;

/// The node with these ports down, and with ports whose finding was resolved some seconds ago.
fn with_ports_down(down: &[&str], resolved: &[(&str, u64)]) -> Node {
    let mut tree = Tree::fixture("h100-connectx7").unwrap();
    for device in down {
        let end = format!("/infiniband/{device}/ports/1/state");
        let path = tree.entries().map(|(path, _)| path.to_owned());
        let path = path.into_iter().find(|path| path.ends_with(&end)).unwrap();
        tree.write(&path, "1: DOWN\n").unwrap();
    }
    let mut node = healthy::of(&tree);
    let mut history = History::default();
    history
        .changes
        .events
        .extend(resolved.iter().map(|(device, seconds)| Event {
            time: node.facts.time - seconds,
            change: Change::Resolved,
            rule: "port-down".to_owned(),
            subject: format!("{device}:1"),
            severity: "critical".to_owned(),
            message: String::new(),
        }));
    node.history = Some(Arc::new(history));
    node
}

/// What the problems of cause `port-down` are about.
fn subjects(node: &Node) -> Vec<String> {
    let verdict = judge(node, &Expectations::default());
    let diagnosis = diagnose(node, &verdict.findings, None);
    let problems = problems(node, &verdict.findings, &diagnosis);
    let of_ports = problems.iter().filter(|problem| problem.cause == "port-down");
    of_ports.map(Problem::subject).collect()
}

const FOUR: [&str; 4] = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"];

#[test]
fn ports_of_most_devices_are_one_problem_and_of_few_devices_one_each() {
    let each = ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1"];
    assert_eq!(subjects(&with_ports_down(&FOUR, &[])), each);
    let five = [&FOUR[..], &["mlx5_4"]].concat();
    assert_eq!(subjects(&with_ports_down(&five, &[])), ["node"]);
}

#[test]
fn a_port_that_flaps_does_not_regroup_the_ports_that_stay_down() {
    let flapping = with_ports_down(&FOUR, &[("mlx5_4", 120)]);
    assert_eq!(subjects(&flapping), ["node"]);
    // Long ago, of a device that stays down, or of a device that no longer exists.
    for (device, seconds) in [("mlx5_4", 3600), ("mlx5_3", 120), ("mlx5_99", 120)] {
        let node = with_ports_down(&FOUR, &[(device, seconds)]);
        assert_eq!(subjects(&node).len(), 4, "{device} {seconds}");
    }
}

/// The node of which `mlx5_2` is gone with its function, with the kernel log of how it died.
fn without_device(lines: &[&str]) -> Node {
    let mut tree = Tree::fixture("h100-connectx7").unwrap();
    let before = healthy::of(&tree);
    let hca = before.hcas().find(|hca| &*hca.name == "mlx5_2").unwrap();
    let address = hca.pci_address.known().unwrap();
    let paths: Vec<String> = tree.entries().map(|(path, _)| path.to_owned()).collect();
    for path in paths {
        let is_function = path.contains(&format!("/{address}/")) || path.ends_with(&format!("/{address}"));
        if is_function || path.ends_with("/infiniband/mlx5_2") {
            tree.remove(&path);
        }
    }
    let mut log = String::new();
    for (n, line) in lines.iter().enumerate() {
        let message = line.replace("ADDRESS", address);
        writeln!(log, "3,{n},{}000000,-;{message}", 100 + n).unwrap();
    }
    tree.write("dev/kmsg", log).unwrap();
    let mut node = healthy::of(&tree);
    let mut history = History::default();
    history.record(&before, before.facts.time);
    node.see_history(Arc::new(history));
    node
}

#[test]
fn an_adapter_that_dies_is_one_problem_under_its_name() {
    let dead = "mlx5_core ADDRESS: poll_health:825:(pid 0): device's health compromised - reached miss count";
    let fatal = "mlx5_core ADDRESS: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)";
    let hung = "INFO: task kworker/u256:3:4411 blocked for more than 122 seconds.";
    let trace = [
        "Workqueue: mlx5_cmd_0000:54:00.0 cmd_work_handler [mlx5_core]",
        "Call Trace:",
        " mlx5_cmd_exec+0x1e/0x40 [mlx5_core]",
    ];
    for lines in [
        vec![],
        vec![dead],
        vec![fatal],
        vec![fatal, dead],
        [&[fatal, hung][..], &trace].concat(),
    ] {
        let node = without_device(&lines);
        let verdict = judge(&node, &Expectations::default());
        let diagnosis = diagnose(&node, &verdict.findings, None);
        let problems = problems(&node, &verdict.findings, &diagnosis);
        let subjects: Vec<_> = problems.iter().map(Problem::subject).collect();
        assert!(
            subjects == ["mlx5_2"] || subjects == ["mlx5_2:1"],
            "{lines:?}: {subjects:?}"
        );
        let rules: Vec<_> = problems[0]
            .findings
            .iter()
            .map(|finding| finding.rule.id)
            .collect();
        assert!(rules.contains(&"device-lost"), "{lines:?}: {rules:?}");
        assert!(rules.len() >= lines.len().min(2), "{lines:?}: {rules:?}");
    }
}

#[test]
fn a_link_that_flaps_is_one_problem_until_it_stays_down() {
    const UPTIME: u64 = 6 * 3600;
    let mut tree = Tree::fixture("h100-connectx7").unwrap();
    let paths: Vec<String> = tree.entries().map(|(path, _)| path.to_owned()).collect();
    let of_port = |file: &str| {
        let end = format!("/infiniband/mlx5_2/ports/1/{file}");
        paths.iter().find(|path| path.ends_with(&end)).unwrap()
    };
    tree.write(of_port("counters/link_downed"), "40\n").unwrap();
    let causes = |tree: &Tree, down_for: Option<u64>| {
        let mut node = healthy::of(tree);
        Arc::make_mut(&mut node.host).uptime = Fact::Known(UPTIME);
        if let Some(seconds) = down_for {
            let mut history = History::default();
            let found = BTreeSet::from(["port-down mlx5_2:1".to_owned()]);
            let now = node.facts.time;
            history.observe(&BTreeSet::new(), Missing::Over, now - seconds - 1);
            history.observe(&found, Missing::Over, now - seconds);
            node.history = Some(Arc::new(history));
        }
        let verdict = judge(&node, &Expectations::default());
        let diagnosis = diagnose(&node, &verdict.findings, None);
        let problems = problems(&node, &verdict.findings, &diagnosis);
        let shown = problems.iter().map(|problem| {
            let rules: Vec<_> = problem.findings.iter().map(|finding| finding.rule.id).collect();
            format!("{} {} {}", problem.subject(), problem.cause, rules.join(","))
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(causes(&tree, None), ["mlx5_2:1 link-quality port-flapping"]);
    tree.write(of_port("state"), "1: DOWN\n").unwrap();
    // The labels of its alert must not change each time it goes down.
    assert_eq!(
        causes(&tree, Some(60)),
        ["mlx5_2:1 link-quality port-down,port-flapping"]
    );
    for stays_down in [None, Some(3600)] {
        assert_eq!(
            causes(&tree, stays_down),
            ["mlx5_2:1 port-down port-down,port-flapping"]
        );
    }
}
