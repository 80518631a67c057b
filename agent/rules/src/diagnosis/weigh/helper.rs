//! Which cause a finding belongs to where its rule serves several: what the verbs helper's silence means, and in which
//! direction the IOMMU's mode differs from the one asked for.

use rdma_health_node::Node;

use crate::{Finding, domain::iommu::asks_for_passthrough};

/// The rule whose one remedy is too wide for each of the causes that it shows, so that each of them says itself what to do.
const RULE: &str = "helper-unhealthy";

/// Whether a finding's remedy is too wide for any cause: it serves several.
pub(in crate::diagnosis) fn is_ambiguous(finding: &Finding) -> bool {
    finding.rule.id == RULE
}

/// Whether a finding shows the cause of this name. Of the causes that a silent helper has, how it fell silent decides.
pub(in crate::diagnosis) fn shows(finding: &Finding, cause: &str, node: &Node) -> bool {
    match finding.rule.id {
        RULE => cause_of_silence(node) == cause,
        // Asked for in vain it is translated now; in effect unasked it will be after the next boot.
        "iommu-cmdline-mismatch" => asks_for_passthrough(node) == (cause == "iommu-translation"),
        _ => true,
    }
}

fn cause_of_silence(node: &Node) -> &'static str {
    match node.verbs.unread().map(|unread| unread.kind.as_str()) {
        Some("helper_unreachable") => "helper-missing",
        Some("helper_not_loaded") => "userspace-libraries",
        // Alive and without an answer: what it asks does not answer.
        Some("helper_hung") => "device-stalled",
        // libibverbs finds no kernel part.
        Some("helper_refused") if node.modules.user_verbs.known() == Some(&false) => "rdma-modules",
        _ => "helper-fails",
    }
}
