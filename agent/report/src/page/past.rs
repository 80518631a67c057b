//! What the agent remembers: since when findings exist, and what happened.

use rdma_health_diagnosis::Cause;
use rdma_health_node::{
    Node,
    history::{Changes, Since, changes::Change},
    timeline::Happened,
    words::{and_more, count_of},
};
use rdma_health_rules::Finding;

use super::frame::{badge, moment};
use crate::markup::Markup;

/// Number of events on the page.
const EVENTS: usize = 24;

/// The history of a node, if there is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past<'a> {
    node: &'a Node,
    changes: Option<&'a Changes>,
}

impl<'a> Past<'a> {
    pub(super) fn of(node: &'a Node) -> Self {
        Self {
            node,
            changes: node.history.as_ref().map(|history| &history.changes),
        }
    }

    /// Since when the node has this status; before the first reading nothing is known.
    pub(super) fn of_status(self, status: &str) -> Option<Since> {
        let known = self.changes?.status.as_ref()?;
        let observed = self.node.history.as_ref()?.observed.as_ref();
        (known.status == status).then_some(Since {
            time: known.since,
            exact: observed.is_some_and(|observed| known.since > observed.first),
        })
    }

    /// Since when a cause is suggested.
    pub(super) fn of_cause(self, cause: &Cause) -> Option<Since> {
        cause.since(self.node)
    }

    /// Since when the first of these findings exists.
    pub(super) fn of_group(self, group: &[Finding]) -> Option<Since> {
        let since = group.iter().filter_map(|finding| finding.since(self.node));
        since.min_by_key(|since| since.time)
    }

    /// What happened, newest first. What has no time is left out.
    pub(super) fn events(self, page: &mut Markup, now: u64) {
        let mut all = self.node.timeline();
        all.retain(|one| one.time.is_some());
        page.html("<section aria-labelledby=events><h2 id=events>Events</h2>");
        if all.is_empty() {
            page.html("<p class=dim>Nothing happened since the agent has a history of this node.</section>");
            return;
        }
        page.html("<ol reversed>");
        for one in all.iter().rev().take(EVENTS) {
            page.html("<li>");
            match &one.rule {
                Some(rule) => finding(page, one, rule),
                None => other(page, one),
            }
            if let Some(time) = one.time {
                moment(page, time, now);
            }
            if !one.message.is_empty() {
                page.html("<br><small>").prose(&one.message).html("</small>");
            }
        }
        page.html("</ol></section>");
    }
}

fn finding(page: &mut Markup, change: &Happened, rule: &str) {
    let severity = change.severity.as_deref().unwrap_or_default();
    let resolved = change.kind == Change::Resolved.name();
    badge(page, if resolved { "ok" } else { severity }, change.kind);
    page.html("<a href=\"/explain/").text(rule).html("\"><code>");
    page.text(rule).html("</code></a> ").text(&change.subject);
    let others = change.subjects.len().saturating_sub(1);
    if others > 0 {
        page.text(and_more(others));
    }
    page.html(" ");
}

fn other(page: &mut Markup, happened: &Happened) {
    badge(page, "", happened.kind);
    page.text(&happened.subject).html(" ");
    if happened.count > 1 {
        page.text(count_of(happened.count, "time")).html(", last ");
    }
}
