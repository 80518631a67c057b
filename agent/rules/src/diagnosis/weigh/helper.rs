//! What the verbs helper's silence means: it is not there, it ends, or what it asks does not answer.

use rdma_health_node::Node;

use crate::Finding;

/// The one rule whose finding shows different causes, so that each of them says itself what to do.
const RULE: &str = "helper-unhealthy";

/// Whether a finding's remedy is too wide for any cause: it serves several.
pub(in crate::diagnosis) fn is_ambiguous(finding: &Finding) -> bool {
    finding.rule.id == RULE
}

/// Whether a finding shows the cause of this name. Of the causes that a silent helper has, how it fell silent decides.
pub(in crate::diagnosis) fn shows(finding: &Finding, cause: &str, node: &Node) -> bool {
    !is_ambiguous(finding) || cause_of_silence(node) == cause
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
