//! What is shown: one consistent state that every publisher reads and none changes.

use std::sync::Arc;

use rdma_health_node::Node;
use rdma_health_rules::Verdict;

/// A node, what was judged of it, and how the agent itself fares.
#[derive(Debug, Clone)]
pub struct View {
    /// The facts.
    pub node: Node,
    /// The findings.
    pub verdict: Arc<Verdict>,
    /// Failing reads so far, by source and kind.
    pub read_errors: Vec<ReadErrors>,
    /// Reader threads alive, stuck ones included.
    pub reader_threads: usize,
    /// Grows with everything in the node that changes, but for counters
    /// ([`rdma_health_node::collector::Collector::revision`]).
    pub revision: u64,
}

/// How often reads of one source failed in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadErrors {
    /// The source, with all devices as one (`infiniband`).
    pub source: String,
    /// The kind, from the vocabulary of [`rdma_health_node::Unread::kind`].
    pub kind: String,
    /// How often.
    pub count: u64,
}
