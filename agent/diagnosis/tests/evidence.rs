//! What lines of a log show besides the failure itself decides which cause comes first.

#![allow(missing_docs)]

use rdma_health_diagnosis::{Confidence, Diagnosis, diagnose, log::LogReader};
use rdma_health_node::Node;

fn diagnosed(log: &str) -> Diagnosis {
    let mut reader = LogReader::default();
    reader.feed(log.as_bytes());
    diagnose(&Node::unknown(), &[], Some(&reader.finish()))
}

/// The ids of the causes that are not unlikely, the first one first.
fn causes(log: &str) -> Vec<&'static str> {
    let causes = diagnosed(log).causes.into_iter();
    causes
        .filter(|cause| cause.confidence > Confidence::Unlikely)
        .map(|cause| cause.id)
        .collect()
}

#[test]
fn a_receiver_of_efa_that_was_reached_before_failed_itself() {
    const LINE: &str =
        "libfabric:451707:1708520807::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 113, message: ";
    const GROUP: &str = "security group";
    for (message, first, names_group) in [
        (
            "Unresponsive receiver (reachable by EFA device but handshake failed) My EFA addr: x",
            "peer-failed",
            false,
        ),
        (
            "Unresponsive receiver (connection previously established) My EFA addr: x",
            "peer-failed",
            false,
        ),
        (
            "Unreachable remote (never received a response) My EFA addr: x",
            "fabric-or-peer",
            true,
        ),
    ] {
        let log = format!("{LINE}{message}\n");
        assert_eq!(causes(&log).first(), Some(&first), "{message}");
        let step = diagnosed(&log).next_step.unwrap_or_default();
        assert_eq!(step.contains(GROUP), names_group, "{message}: {step}");
    }
}
