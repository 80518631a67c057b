//! One consistent state, which every publisher reads and none changes.
//!
//! It is a separate crate, so that publishers do not depend on each other.

#![forbid(unsafe_code)]

use std::sync::Arc;

use rdma_health_diagnosis::Diagnosis;
use rdma_health_node::{Node, UnreadKind};
use rdma_health_rules::Verdict;

/// A node, what was judged of it, and how the agent itself fares.
#[derive(Debug, Clone)]
pub struct View {
    /// The facts.
    pub node: Node,
    /// The findings.
    pub verdict: Arc<Verdict>,
    /// The causes of the findings.
    pub diagnosis: Arc<Diagnosis>,
    /// Failing reads so far, by source and kind.
    pub read_errors: Vec<ReadErrors>,
    /// Reader threads alive, stuck ones included.
    pub reader_threads: usize,
    /// Grows with everything in the node that changes, but for counters (the collector's revision).
    pub revision: u64,
    /// Differs from that of another view if anything but counters, the times and durations of readings, and how the agent fares
    /// does.
    pub generation: u64,
}

/// How often reads of one source failed in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadErrors {
    /// The source, with all devices as one (`infiniband`).
    pub source: String,
    /// In which way.
    pub kind: UnreadKind,
    /// How often.
    pub count: u64,
}
