//! Findings whose fact can no longer be read.

use rdma_health_node::{
    Unread, UnreadKind,
    fact::HelperTrouble,
    history::{History, changes::Current},
    limits::Runtime,
};
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
        verdict.keep_unjudged(&down, node, &auto());
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
fn a_problem_of_infiniband_is_over_once_its_port_is_ethernet_even_if_its_state_cannot_be_read() {
    let port = |layer: &str, state: &str, others: &[(&str, &str)]| {
        node("infiniband-ndr", |tree| {
            let port = "/mlx5_0/ports/1";
            set(tree, &format!("{port}/link_layer"), layer);
            set(tree, &format!("{port}/state"), state);
            set(tree, &format!("{port}/sm_lid"), "0x0");
            for (file, value) in others {
                set(tree, &format!("{port}/{file}"), value);
            }
        })
    };
    let lost = judge(&port("InfiniBand", "4: ACTIVE", &[]), &auto());
    let kept = |node: &Node, before: &Verdict| {
        let mut verdict = judge(node, &auto());
        verdict.keep_unjudged(before, node, &auto());
        verdict
    };
    let words = |verdict: &Verdict| {
        let mut findings = verdict.findings.iter();
        let found = findings.find(|finding| finding.rule.id == "no-subnet-manager");
        found.map(|finding| finding.message.clone())
    };
    assert!(words(&lost).unwrap().ends_with("(LID 0)"));
    let node = port("InfiniBand", "garbage", &[]);
    let unread = kept(&node, &lost);
    let mark = "(as last known: what it depends on can no longer be read)";
    assert!(words(&unread).unwrap().ends_with(mark), "{unread:?}");
    // Once only, however long it stays.
    let again = kept(&node, &unread);
    assert_eq!(words(&again), words(&unread));
    assert_eq!(words(&kept(&port("Ethernet", "garbage", &[]), &lost)), None);
    // Not known either.
    let both = port("InfiniBand", "garbage", &[("sm_lid", "garbage")]);
    assert!(words(&kept(&both, &lost)).is_some());
    let managed = port("InfiniBand", "garbage", &[("sm_lid", "0x1")]);
    assert_eq!(words(&kept(&managed, &lost)), None);
}

#[test]
fn a_low_limit_is_not_over_while_no_one_says_which_runtimes_there_are() {
    let limits = include_str!("../limits.txt").replace("SOFT", "8388608  ");
    let low = node("hfi1-opa", |tree| {
        tree.write("proc/1200/limits", limits.clone()).unwrap();
    });
    let before = judge(&low, &auto());
    let after = |runtimes: Fact<Vec<Runtime>>| {
        let mut node = low.clone();
        node.see_runtimes(runtimes);
        let mut verdict = judge(&node, &auto());
        verdict.keep_unjudged(&before, &node, &auto());
        verdict
    };
    let has = |verdict: &Verdict| {
        let mut findings = verdict.findings.iter();
        findings.any(|finding| finding.rule.id == "memlock-low" && finding.subject.to_string() == "slurmd")
    };
    let hung = Unread {
        source: "rdma-health-verbs".into(),
        kind: UnreadKind::Helper(HelperTrouble::Hung),
        detail: "the verbs helper did not respond".into(),
    };
    assert!(has(&before) && has(&after(hung.into())));
    assert!(!has(&after(Fact::Known(Vec::new()))), "its daemon is gone");
}

#[test]
fn findings_for_information_are_kept_too() {
    let mut own = node("irdma-e810", |_| {});
    Arc::make_mut(&mut own.limits).own = Fact::Known(rdma_health_node::limits::Memlock {
        soft: Some(8 << 20),
        hard: Some(8 << 20),
    });
    own.see_runtimes(Fact::Known(Vec::new()));
    let before = judge(&own, &auto());
    let hung = Unread {
        source: "rdma-health-verbs".into(),
        kind: UnreadKind::Helper(HelperTrouble::Hung),
        detail: "the verbs helper did not respond".into(),
    };
    own.see_runtimes(hung.into());
    let mut verdict = judge(&own, &auto());
    let ids = |verdict: &Verdict| {
        let found = verdict.findings.iter().map(|finding| finding.rule.id);
        found.filter(|id| *id == "memlock-low").count()
    };
    assert_eq!([ids(&before), ids(&verdict)], [1, 0]);
    verdict.keep_unjudged(&before, &own, &auto());
    assert_eq!(ids(&verdict), 1);
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
        verdict.keep_remembered(&history, node, &auto());
        verdict
    };
    let unread = after(&changed("mlx5_3", "garbage"));
    let message = |verdict: &Verdict| {
        let mut findings = verdict.findings.iter();
        let found = findings.find(|finding| finding.rule.id == "port-down");
        found.map(|finding| (finding.severity, finding.message.clone(), finding.remedy.clone()))
    };
    let (kept, before) = (message(&unread).unwrap(), message(&down).unwrap());
    assert_eq!((kept.0, kept.2), (before.0, before.2));
    let words = format!(
        "{} (as last known: what it depends on can no longer be read)",
        before.1
    );
    assert_eq!(kept.1, words);
    let over = after(&changed("mlx5_3", "4: ACTIVE"));
    assert!(!ids(&over).contains(&"port-down"), "{over:?}");
    // A file of another version may have rules that this one does not know.
    history.changes.open[0].rule = "unknown-rule".into();
    history.changes.open[0].subject = ":::".into();
    let mut verdict = judge(&broken, &auto());
    verdict.keep_remembered(&history, &broken, &auto());
    assert_eq!(verdict.findings, down.findings);
}
