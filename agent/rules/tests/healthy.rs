//! No healthy node gives a warning: neither without expectations nor with its own baseline as the expectation.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

use std::{
    fs,
    sync::LazyLock,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::{Node, history::History};
use rdma_health_rules::{Expectations, Profile, Severity, judge};
use rdma_health_tests::tree;

/// Fixtures that show faults.
const FAULTY: [&str; 2] = ["connectx7-gpu", "virtual-node-translated"];

fn read(name: &str) -> Node {
    let tree = tree::fixture(name).unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

/// Every healthy fixture, read once.
static HEALTHY: LazyLock<Vec<(String, Node)>> = LazyLock::new(|| {
    let names = fs::read_dir(tree::fixtures()).unwrap().map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".tree").map(str::to_owned)
    });
    let mut names: Vec<String> = names
        .flatten()
        .filter(|name| !FAULTY.contains(&name.as_str()))
        .collect();
    names.sort();
    names
        .into_iter()
        .map(|name| (name.clone(), read(&name)))
        .collect()
});

fn alarms(node: &Node, expectations: &Expectations) -> Vec<String> {
    let findings = judge(node, expectations).findings;
    let alarms = findings
        .iter()
        .filter(|finding| finding.severity > Severity::Info);
    alarms
        .map(|finding| format!("{}: {}", finding.rule.id, finding.message))
        .collect()
}

#[test]
fn the_word_of_ibv_devinfo_for_no_link_layer_is_known() {
    let mut tree = tree::Tree::fixture("efa-p5").unwrap();
    let paths: Vec<String> = tree.entries().map(|(path, _)| path.to_owned()).collect();
    for path in paths.iter().filter(|path| path.ends_with("/link_layer")) {
        tree.write(path, "Unspecified\n").unwrap();
    }
    let tree = tree.unpack().unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    let verdict = judge(&Node::new(collector.facts()), &Expectations::default());
    assert_eq!(verdict.unknown_because, None);
}

#[test]
fn no_healthy_node_gives_an_alarm() {
    let all = &*HEALTHY;
    assert!(all.len() >= 12, "{}", all.len());
    for (name, node) in all {
        assert_eq!(alarms(node, &Expectations::default()), [""; 0], "{name}");
    }
}

#[test]
fn no_healthy_node_falls_short_of_its_own_baseline() {
    for (name, node) in &*HEALTHY {
        let baseline = Expectations::baseline(node);
        assert_eq!(baseline.check(), Ok(()), "{name}");
        assert_eq!(alarms(node, &baseline), [""; 0], "{name}");
    }
}

#[test]
fn no_healthy_node_gives_an_alarm_as_its_history_grows() {
    for (name, node) in &*HEALTHY {
        let mut node = node.clone();
        let mut history = History::default();
        for n in 0..20 {
            node.time = 1_790_000_000 + n * 400;
            node.history = Some(std::sync::Arc::new(history.clone()));
            assert_eq!(alarms(&node, &Expectations::default()), [""; 0], "{name}");
            history.record(&node, node.time);
        }
    }
}

#[test]
fn everything_on_a_healthy_node_is_read_except_known_failures() {
    for (name, node) in &*HEALTHY {
        let unread: Vec<String> = node
            .unread()
            .filter(|(_, unread)| !unread.source.contains("/counters/"))
            .map(|(_, unread)| unread.to_string())
            .collect();
        assert_eq!(unread, [""; 0], "{name}");
    }
}

#[test]
fn a_baseline_records_the_state_of_each_kind_of_node() {
    let of = |name: &str| Expectations::baseline(&read(name));
    let h100 = of("h100-connectx7");
    assert_eq!(h100.profile, Profile::GpuDirect);
    assert_eq!(
        (h100.hcas, h100.gid_index, h100.passthrough),
        (Some(9), Some(3), Some(true))
    );
    assert_eq!(h100.rate_gbps, Some(100), "the storage bond is the slowest");
    assert_eq!(h100.ports_up.len(), 9);
    assert_eq!(h100.driver.as_deref(), Some("mlx5_core"));
    let infiniband = of("infiniband-ndr");
    assert_eq!((infiniband.profile, infiniband.gid_index), (Profile::Rdma, None));
    assert!(
        !infiniband.ports_up.contains(&"mlx5_3:1".into()),
        "a spare port is not expected"
    );
    assert_eq!(of("connectx6-vfs").vfs, Some(4));
    assert_eq!(of("efa-p5").passthrough, None, "there is no IOMMU");
}
