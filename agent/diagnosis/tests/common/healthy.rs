//! What the tests of logs on a healthy node share.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::time::{Duration, Instant};

use rdma_health_diagnosis::{Cause, Confidence, diagnose, log::LogReader};
use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::Node;
use rdma_health_tests::tree::Tree;

/// The healthy node of the fixtures, on which pods with GPUs run.
pub fn node() -> Node {
    of(&Tree::fixture("h100-connectx7").unwrap())
}

/// The node of a tree.
pub fn of(tree: &Tree) -> Node {
    let tree = tree.unpack().unwrap();
    let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    Node::new(collector.facts())
}

/// The causes of a log, without the unlikely ones.
pub fn causes(node: &Node, log: &str) -> Vec<Cause> {
    let mut reader = LogReader::default();
    reader.feed(log.as_bytes());
    let causes = diagnose(node, &[], Some(&reader.finish())).causes.into_iter();
    causes
        .filter(|cause| cause.confidence > Confidence::Unlikely)
        .collect()
}
