//! What the agent remembers of findings: since when they exist, and what changed.

use rdma_health_diagnosis::Cause;
use rdma_health_node::{
    Node,
    history::{Timeline, timeline::Change},
};
use rdma_health_rules::Finding;

use super::frame::{badge, moment};
use crate::markup::Markup;

/// Number of events on the page.
const EVENTS: usize = 24;

/// The timeline of a node, empty without a history.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past<'a>(Option<&'a Timeline>);

impl<'a> Past<'a> {
    pub(super) fn of(node: &'a Node) -> Self {
        Self(node.history.as_ref().map(|history| &history.timeline))
    }

    /// Since when the node has this status.
    pub(super) fn of_status(self, status: &str) -> Option<u64> {
        let known = self.0?.status.as_ref()?;
        (known.status == status).then_some(known.since)
    }

    /// Since when the first of a cause's findings exists.
    pub(super) fn of_cause(self, cause: &Cause) -> Option<u64> {
        let rules = cause.findings.iter();
        rules.filter_map(|rule| self.0?.since_of_rule(rule)).min()
    }

    /// Since when the first of these findings exists.
    pub(super) fn of_group(self, group: &[Finding]) -> Option<u64> {
        let since = |finding: &Finding| self.0?.since(finding.rule.id, &finding.subject.to_string());
        group.iter().filter_map(since).min()
    }

    /// What came and went, newest first.
    pub(super) fn events(self, page: &mut Markup, now: u64) {
        let events = self.0.map_or(&[][..], |timeline| &timeline.events);
        page.html("<section aria-labelledby=events><h2 id=events>Events</h2>");
        if events.is_empty() {
            page.html("<p class=dim>No finding came or went since the agent has a history of this node.</section>");
            return;
        }
        page.html("<ol reversed>");
        for event in events.iter().rev().take(EVENTS) {
            page.html("<li>");
            let colour = match event.change {
                Change::Resolved => "ok",
                Change::Found | Change::Severity => &event.severity,
            };
            badge(page, colour, event.change.name());
            page.html("<a href=\"/explain/").text(&event.rule).html("\"><code>");
            page.text(&event.rule).html("</code></a> ").text(&event.subject).html(" ");
            moment(page, event.time, now);
            if !event.message.is_empty() {
                page.html("<br><small>").prose(&event.message).html("</small>");
            }
        }
        page.html("</ol></section>");
    }
}
