//! Findings that a later reading can neither confirm nor deny, because the fact behind them could not be read. What could not be judged is
//! not over: its alert stays, and so does a taint.

use std::cmp::Reverse;

use rdma_health_node::{
    Node,
    history::{
        History,
        changes::{Changes, Open},
    },
};

use crate::{
    CATALOGUE, Domain, Evidence, Finding, Severity, Subject, Verdict, draft::Draft,
    remedy::resolve::Resolver, required,
};

/// The source of the evidence that says why a finding was kept.
const NOT_READ: &str = "not known whether it is over";

impl Verdict {
    /// Adds the findings of the verdict before that are neither in this one nor over, with the reason.
    pub fn keep_unjudged(&mut self, before: &Self, node: &Node) {
        self.keep(&before.findings, node);
    }

    /// The same with the findings that an agent had before it was restarted, as far as `history` has them.
    pub fn keep_remembered(&mut self, history: &History, node: &Node) {
        self.keep(&remembered(history, node), node);
    }

    fn keep(&mut self, before: &[Finding], node: &Node) {
        let is_here = |old: &Finding| {
            self.findings
                .iter()
                .any(|new| new.rule == old.rule && new.subject == old.subject)
        };
        let kept: Vec<Finding> = before
            .iter()
            .filter(|old| !is_here(old))
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
    let unread = required::unread_about(node, finding)?;
    let mut finding = finding.clone();
    finding.evidence.retain(|evidence| evidence.source != NOT_READ);
    finding.evidence.push(Evidence {
        source: NOT_READ.into(),
        value: unread,
    });
    Some(finding)
}

/// The findings that the history has last. Those of the kernel log only if it is still the same boot: a later one starts a new log.
fn remembered(history: &History, node: &Node) -> Vec<Finding> {
    let boot = history.boots.last().map(|boot| &boot.id);
    let is_this_boot = boot.is_some() && boot == node.host.boot_id.known();
    let resolver = Resolver::new(node);
    let changes = &history.changes;
    let findings = changes
        .open
        .iter()
        .filter_map(|open| finding(open, changes, &resolver));
    findings
        .filter(|finding| is_this_boot || finding.domain != Domain::Kernel)
        .collect()
}

/// A finding from what is remembered of it; `None` if this version does not know its rule or its severity.
fn finding(open: &Open, changes: &Changes, resolver: &Resolver<'_>) -> Option<Finding> {
    let rule = CATALOGUE.iter().find(|rule| rule.id == open.rule)?;
    let severity = Severity::ALL
        .into_iter()
        .find(|severity| severity.name() == open.severity)?;
    let subject = Subject::named(&open.subject);
    let message = open
        .message(&changes.events)
        .map_or_else(|| format!("{} ({})", rule.title, open.subject), str::to_owned);
    Some(Draft::new(rule, subject, message).with_severity(severity, resolver))
}
