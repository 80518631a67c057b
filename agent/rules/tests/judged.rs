//! A rule that finds nothing because a source could not be read is reported as not judged: `required.rs` knows which sources each rule judges.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
    recording::Recording,
};
use rdma_health_node::Node;
use rdma_health_rules::{Expectations, judge, not_judged, rule};
use rdma_health_tests::tree::Tree;

/// Rules that are about what could not be read.
const ABOUT_READING: [&str; 2] = ["facts-unreadable", "helper-unhealthy"];

fn read(root: Root) -> Node {
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(10));
    Node::new(collector.facts())
}

/// The rules that find something.
fn found(node: &Node) -> BTreeSet<&'static str> {
    let findings = judge(node, &Expectations::default()).findings;
    let found = findings.iter().map(|finding| finding.rule.id);
    found.filter(|id| !ABOUT_READING.contains(id)).collect()
}

/// A node of the field as it answered, with the rules that find something on it.
fn recorded(name: &str) -> (Recording, Node, BTreeSet<&'static str>) {
    let tree = Tree::fixture(name).unwrap().unpack().unwrap();
    let mut root = Root::open(tree.path()).unwrap();
    let recorder = root.record();
    let node = read(root);
    let found = found(&node);
    (recorder.recording(), node, found)
}

/// Nodes that show many rules between them.
const NODES: [&str; 12] = [
    "connectx7-gpu",
    "field/bf3-bond-member-down/node",
    "field/dgx-h100-half-of-the-rails-hdr/node",
    "field/dgx-h100-one-rail-two-lanes/node",
    "field/hgx-b200-nvswitch-functions-init/node",
    "field/imbue-h100-link-type-reset/node",
    "field/imbue-h100-one-rail-polling/node",
    "field/mi300x-one-rail-without-address/node",
    "field/roce-mlx5-ib-not-loaded/node",
    "field/roce-one-adapter-in-pre-initializing/node",
    "field/roce-one-slot-with-eight-lanes/node",
    "field/roce-two-rails-swapped/node",
];

#[test]
fn a_rule_that_misses_a_source_says_so() {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut silent: BTreeMap<(String, &str), &str> = BTreeMap::new();
    for name in NODES {
        let (recording, node, before) = recorded(name);
        seen.extend(&before);
        // All RDMA devices are one source here.
        for source in node.sources.keys().filter(|source| !source.contains('/')) {
            let mut hung = recording.clone();
            hung.hung.insert(source.to_string(), 60);
            let node = read(Root::replay(Arc::new(hung), false));
            let after = found(&node);
            for id in before.difference(&after) {
                if not_judged(&node, rule(id).unwrap()).is_none() {
                    silent.entry((source.to_string(), id)).or_insert(name);
                }
            }
        }
    }
    assert!(seen.len() > 12, "{seen:?}");
    assert_eq!(silent, BTreeMap::new());
}
