//! Findings whose fact can no longer be read.

use rdma_health_node::history::{History, changes::Current};
use rdma_health_rules::Verdict;

use super::*;

/// The node with another state of a port.
fn changed(port: &str, state: &str) -> Node {
    node("h100-connectx7", |tree| {
        set(tree, &format!("/{port}/ports/1/state"), state);
    })
}

/// The rules that found something about `mlx5_3`.
fn ids(verdict: &Verdict) -> Vec<&str> {
    let of_port = |finding: &&Finding| finding.subject.device.as_deref() == Some("mlx5_3");
    verdict
        .findings
        .iter()
        .filter(of_port)
        .map(|finding| finding.rule.id)
        .collect()
}

#[test]
fn a_problem_whose_port_cannot_be_read_any_more_is_not_over() {
    let down = judge(&changed("mlx5_3", "1: DOWN"), &auto());
    assert!(ids(&down).contains(&"port-down"), "{down:?}");
    let after = |node: &Node| {
        let mut verdict = judge(node, &auto());
        verdict.keep_unjudged(&down, node);
        verdict
    };
    let unread = after(&changed("mlx5_3", "garbage"));
    assert!(ids(&unread).contains(&"port-down"), "{unread:?}");
    assert_eq!(unread.status, down.status);
    let why = format!("{:?}", unread.findings);
    assert!(why.contains("the state of mlx5_3:1 could not be read"), "{why}");
    // What can be read and is well again is over, whatever else cannot be read.
    let over = after(&changed("mlx5_4", "garbage"));
    assert!(!ids(&over).contains(&"port-down"), "{over:?}");
}

#[test]
fn a_new_agent_keeps_the_problems_that_it_cannot_judge() {
    let broken = changed("mlx5_3", "1: DOWN");
    let mut history = History::default();
    history.record(&broken, 1000);
    let down = judge(&broken, &auto());
    let current: Vec<_> = down
        .findings
        .iter()
        .map(|finding| Current {
            rule: finding.rule.id,
            subject: finding.subject.to_string(),
            severity: finding.severity.name(),
            message: &finding.message,
        })
        .collect();
    history.changes.see(down.status.name(), &current, 1000, |_| false);
    let after = |node: &Node| {
        let mut verdict = judge(node, &auto());
        verdict.keep_remembered(&history, node);
        verdict
    };
    let unread = after(&changed("mlx5_3", "garbage"));
    let message = |verdict: &Verdict| {
        let mut findings = verdict.findings.iter();
        let found = findings.find(|finding| finding.rule.id == "port-down");
        found.map(|finding| (finding.severity, finding.message.clone(), finding.remedy.clone()))
    };
    assert_eq!(message(&unread), message(&down));
    let over = after(&changed("mlx5_3", "4: ACTIVE"));
    assert!(!ids(&over).contains(&"port-down"), "{over:?}");
    // A file of another version may have rules that this one does not know.
    history.changes.open[0].rule = "unknown-rule".into();
    history.changes.open[0].subject = ":::".into();
    let mut verdict = judge(&broken, &auto());
    verdict.keep_remembered(&history, &broken);
    assert_eq!(verdict.findings, down.findings);
}
