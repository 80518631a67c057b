//! The verdict: causes, findings and what to do.

use std::collections::BTreeSet;

use rdma_health_node::{history::Since, words::count};
use rdma_health_rules::{Evidence, Finding};

use super::{
    frame::{badge, moment},
    past::Past,
};
use crate::{
    Report,
    cause::{confidence_or_severity, covered_rules, in_full},
    markup::Markup,
};

/// Messages of one rule that are shown at once; the others are collapsed.
const MESSAGES: usize = 4;
/// Messages and pieces of evidence that the page has at most of one cause or rule.
const MAX_LISTED: usize = 64;

/// The causes: likely causes in full, the others in one line each.
pub(super) fn causes(page: &mut Markup, report: &Report<'_>, past: &Past<'_>) {
    let causes = &report.diagnosis.causes;
    if causes.is_empty() {
        return;
    }
    page.html("<section aria-labelledby=causes><h2 id=causes>Causes</h2>");
    let (full, others): (Vec<_>, Vec<_>) = causes
        .iter()
        .enumerate()
        .partition(|(n, cause)| in_full(*n, cause));
    for (n, cause) in full {
        page.html("<article id=\"cause-")
            .text(cause.id)
            .html("\" class=\"");
        page.text(cause.severity.name()).html("\"><h3>");
        badge(page, cause.severity.name(), confidence_or_severity(cause));
        page.text(cause.title).html("</h3><p>");
        explained(page, cause.id);
        since(page, past.of_cause(cause), report.node.time);
        let explains: Vec<_> = cause.explains.iter().map(ToString::to_string).collect();
        if !explains.is_empty() {
            page.html("<p>Explains ").text(explains.join(", "));
        }
        let findings = report.verdict.findings.iter();
        messages(
            page,
            findings.filter(|finding| cause.findings.contains(&finding.rule.id)),
        );
        // The next step of the first cause is at the top.
        if n > 0 {
            page.instructions(&cause.next_step);
        }
        evidence(page, "Evidence", &cause.supports);
        evidence(page, "Evidence against it", &cause.contradicts);
        if !cause.unseen.is_empty() {
            page.html("<p>Not checked: ").prose(&cause.unseen.join("; "));
        }
        page.html("</article>");
    }
    if !others.is_empty() {
        page.html("<details><summary>")
            .text(count(others.len(), "less likely cause"))
            .html("</summary><ul>");
        for (_, cause) in &others {
            page.html("<li>").text(cause.confidence.name()).html(": ");
            explained(page, cause.id);
            page.text(cause.title);
        }
        page.html("</ul></details>");
    }
    page.html("</section>");
}

/// The findings that no likely cause covers.
pub(super) fn other_findings(page: &mut Markup, report: &Report<'_>, past: &Past<'_>) {
    let covered = covered_rules(report.diagnosis);
    let is_other = |group: &&[Finding]| {
        let first = group.first();
        first.is_some_and(|first| !covered.contains(first.rule.id))
    };
    let mut rest = report.verdict.groups().filter(is_other).peekable();
    if rest.peek().is_none() {
        return;
    }
    page.html("<section aria-labelledby=findings><h2 id=findings>Other findings</h2>");
    for group in rest {
        findings(page, report, past, group);
    }
    page.html("</section>");
}

/// Findings of one rule: each message, the remedy once, the evidence collapsed.
fn findings(page: &mut Markup, report: &Report<'_>, past: &Past<'_>, group: &[Finding]) {
    let Some(first) = group.first() else { return };
    let severity = first.severity.name();
    page.html("<article id=\"rule-")
        .text(first.rule.id)
        .html("\" class=\"");
    page.text(severity).html("\"><h3>");
    badge(page, severity, severity);
    page.text(first.rule.title).html("</h3><p>");
    explained(page, first.rule.id);
    since(page, past.of_group(group), report.node.time);
    messages(page, group.iter());
    for (place, text) in first.remedy_by_place(report.node) {
        if !place.is_empty() {
            page.html("<h4>").html(place).html("</h4>");
        }
        page.instructions(&text);
    }
    evidence(
        page,
        "Evidence",
        group.iter().flat_map(|finding| &finding.evidence),
    );
    page.html("</article>");
}

/// The id of a rule or cause, as a link to its explanation.
fn explained(page: &mut Markup, id: &str) {
    page.html("<a href=\"/explain/")
        .text(id)
        .html("\"><code>")
        .text(id)
        .html("</code></a> ");
}

/// Since when a problem has been observed; it may be older than the agent's history.
pub(super) fn since(page: &mut Markup, since: Option<Since>, now: u64) {
    if let Some(since) = since {
        page.html(if since.exact {
            "<span class=dim>since </span>"
        } else {
            "<span class=dim>since at least </span>"
        });
        moment(page, since.time, now);
    }
}

/// The first messages, and the others collapsed: a fault on 17 functions is one fault.
fn messages<'a>(page: &mut Markup, findings: impl Iterator<Item = &'a Finding>) {
    let all: Vec<_> = findings.collect();
    let (first, more) = all.split_at(all.len().min(MESSAGES));
    let list = |page: &mut Markup, findings: &[&Finding]| {
        page.html("<ul>");
        for finding in findings.iter().take(MAX_LISTED) {
            page.html("<li>").prose(&finding.message_with_pods());
        }
        page.html("</ul>");
    };
    if !first.is_empty() {
        list(page, first);
    }
    if !more.is_empty() {
        page.html("<details><summary>")
            .text(count(more.len(), "more finding"))
            .html("</summary>");
        list(page, more);
        page.html("</details>");
    }
}

/// The evidence, collapsed.
fn evidence<'a>(page: &mut Markup, title: &'static str, pieces: impl IntoIterator<Item = &'a Evidence>) {
    let pieces: BTreeSet<_> = pieces
        .into_iter()
        .map(|evidence| (&evidence.source, &evidence.value))
        .collect();
    if pieces.is_empty() {
        return;
    }
    page.html("<details><summary>").html(title).html("</summary><dl>");
    for (source, value) in pieces.iter().take(MAX_LISTED) {
        page.html("<dt>").text(source).html("<dd>").text(value);
    }
    page.html("</dl>");
    let more = pieces.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        page.html("<p>")
            .text(count(more, "more piece"))
            .html(" in <code>rdma-health check --verbose</code>");
    }
    page.html("</details>");
}
