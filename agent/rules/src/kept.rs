//! Findings that a later reading can neither confirm nor deny, because the fact behind them could not be read. What could not be judged is
//! not over: its alert stays, and so does a taint.

use std::cmp::Reverse;

use rdma_health_node::Node;

use crate::{CATALOGUE, Evidence, Finding, Severity, Verdict, required};

/// The source of the evidence that says why a finding was kept.
const NOT_READ: &str = "not known whether it is over";

impl Verdict {
    /// Adds the findings of the verdict before that are neither in this one nor over, with the reason.
    pub fn keep_unjudged(&mut self, before: &Self, node: &Node) {
        let is_here = |old: &Finding| {
            self.findings
                .iter()
                .any(|new| new.rule == old.rule && new.subject == old.subject)
        };
        let kept: Vec<Finding> = before
            .findings
            .iter()
            .filter(|old| old.severity >= Severity::Warning && !is_here(old))
            .filter_map(|old| kept(old, node))
            .collect();
        if kept.is_empty() {
            return;
        }
        self.findings.extend(kept);
        let place = |finding: &Finding| CATALOGUE.iter().position(|rule| *rule == finding.rule);
        self.findings
            .sort_by_cached_key(|finding| (Reverse(finding.severity), place(finding)));
        self.settle();
    }
}

/// The finding, with the reason why it is not known whether it is over; `None` if that is known.
fn kept(finding: &Finding, node: &Node) -> Option<Finding> {
    let unread = required::unread_about(node, finding.domain, &finding.subject)?;
    let mut finding = finding.clone();
    finding.evidence.retain(|evidence| evidence.source != NOT_READ);
    finding.evidence.push(Evidence {
        source: NOT_READ.into(),
        value: unread,
    });
    Some(finding)
}
