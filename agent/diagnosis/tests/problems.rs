//! How findings are grouped into problems: each is one alert.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

#[path = "common/healthy.rs"]
mod healthy;

use std::sync::Arc;

use rdma_health_diagnosis::{Problem, diagnose, problems};
use rdma_health_node::{
    Node,
    history::{
        History,
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
