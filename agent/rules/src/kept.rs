//! Findings that a later reading can neither confirm nor deny, because the fact behind them could not be read. What could not be judged is
//! not over: its alert stays, and so does a taint.

use std::{cmp::Reverse, sync::Arc};

use rdma_health_node::{
    Fact, Node, Port,
    history::{
        History,
        changes::{Changes, Open},
    },
    infiniband::PortCode,
};

use crate::{
    CATALOGUE, Domain, Evidence, Expectations, Finding, Severity, Subject, Verdict, draft::Draft,
    remedy::resolve::Resolver, required,
};

/// The source of the evidence that says why a finding was kept.
const NOT_READ: &str = "not known whether it is over";
/// The end of the message of such a finding.
const LAST_KNOWN: &str = " (as last known: what it depends on can no longer be read)";

/// The logical states of a port (InfiniBand Architecture Specification, 14.2.5.6).
const STATES: [(u8, &str); 5] = [
    (1, "DOWN"),
    (2, "INIT"),
    (3, "ARMED"),
    (PortCode::ACTIVE, "ACTIVE"),
    (PortCode::ACTIVE_DEFER, "ACTIVE_DEFER"),
];

impl Verdict {
    /// Adds the findings of the verdict before that are neither in this one nor over, with the reason.
    pub fn keep_unjudged(&mut self, before: &Self, node: &Node, expectations: &Expectations) {
        self.keep(&before.findings, node, expectations);
    }

    /// The same with the findings that an agent had before it was restarted, as far as `history` has them.
    pub fn keep_remembered(&mut self, history: &History, node: &Node, expectations: &Expectations) {
        self.keep(&remembered(history, node), node, expectations);
    }

    fn keep(&mut self, before: &[Finding], node: &Node, expectations: &Expectations) {
        let is_here = |old: &Finding| {
            self.findings
                .iter()
                .any(|new| new.rule == old.rule && new.subject == old.subject)
        };
        let kept: Vec<Finding> = before
            .iter()
            .filter(|old| !is_here(old))
            .filter_map(|old| kept(old, node, expectations))
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
fn kept(finding: &Finding, node: &Node, expectations: &Expectations) -> Option<Finding> {
    let unread = required::unread_about(node, finding)?;
    if is_over(finding, node, expectations) {
        return None;
    }
    let mut finding = finding.clone();
    if !finding.message.ends_with(LAST_KNOWN) {
        finding.message.push_str(LAST_KNOWN);
    }
    finding.evidence.retain(|evidence| evidence.source != NOT_READ);
    finding.evidence.push(Evidence {
        source: NOT_READ.into(),
        value: unread,
    });
    Some(finding)
}

/// Whether a finding about a port is over whatever the port's state is, if that is all that could not be read of the port: its rule finds it with none
/// of the states that a port can have, because another fact has changed, such as the kind of the link.
fn is_over(finding: &Finding, node: &Node, expectations: &Expectations) -> bool {
    let subject = &finding.subject;
    let mut ports = node.ports();
    let Some(port) = ports.find(|port| subject.port.is_some() && Subject::of_port(port) == *subject) else {
        return false;
    };
    if port.state.known().is_some() || others_unread(node, &port) {
        return false;
    }
    // With another severity it is not the same problem.
    let is_found = |state: &(u8, &str)| {
        let node = with_state(node, &port, state);
        let resolver = Resolver::new(&node);
        let found = (finding.rule.judge)(&node, expectations).into_iter();
        let mut found = found.filter_map(|draft| draft.judged(expectations.profile, &resolver));
        found.any(|new| new.subject == *subject && new.severity == finding.severity)
    };
    !STATES.iter().any(is_found)
}

/// Whether other facts of a port than its state could not be read.
fn others_unread(node: &Node, port: &Port<'_>) -> bool {
    let (directory, state) = (port.file(""), port.file("state"));
    let mut unread = node.unread().map(|(_, unread)| &unread.source);
    unread.any(|source| source.starts_with(&directory) && *source != state)
}

/// The node with this state of a port.
fn with_state(node: &Node, port: &Port<'_>, (code, name): &(u8, &str)) -> Node {
    let mut node = node.clone();
    let mut hca = port.hca.clone();
    if let Some(own) = hca.ports.get_mut(&port.number) {
        own.state = Fact::Known(PortCode {
            code: *code,
            name: (*name).to_owned(),
        });
    }
    if let Fact::Known(hcas) = &mut node.facts.hcas {
        hcas.insert(port.hca.name.as_str().into(), Arc::new(hca));
    }
    node
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
