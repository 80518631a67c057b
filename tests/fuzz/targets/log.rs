//! Any bytes as a job's log: bounded, the same however it comes in pieces, and joined with a node's facts.
#![no_main]

use std::sync::LazyLock;

use rdma_health_diagnosis::{
    diagnose,
    log::{LogReader, MAX_SYMPTOMS},
};
use rdma_health_fuzz::{FIXTURE, read};
use rdma_health_node::Node;
use rdma_health_rules::{Expectations, judge};

static NODE: LazyLock<Node> = LazyLock::new(|| read(FIXTURE.root()));

libfuzzer_sys::fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let mut whole = LogReader::default();
    whole.feed(bytes);
    let whole = whole.finish();
    let (first, second) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let mut pieces = LogReader::default();
    pieces.feed(first);
    pieces.feed(second);
    assert_eq!(pieces.finish(), whole);
    assert!(whole.symptoms.len() <= MAX_SYMPTOMS);
    let verdict = judge(&NODE, &Expectations::default());
    diagnose(&NODE, &verdict.findings, Some(&whole));
});
