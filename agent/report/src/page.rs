//! The status page: the verdict, as `check` prints it, and the ports. It has no scripts and no external resources.

use std::collections::BTreeSet;

use rdma_health_diagnosis::diagnose;
use rdma_health_node::{
    Port,
    failure::in_words,
    infiniband::LinkLayer,
    words::{bandwidth, gigabits},
};
use rdma_health_protocol::ProbeReport;
use rdma_health_rules::{Evidence, Finding};
use rdma_health_view::View;

use super::markup::Markup;
use super::{
    Report,
    cause::{confidence_or_severity, covered_rules, in_full},
    text::outcome,
};

const STYLE: &str = "\
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
body{max-width:60rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\
.status{display:inline-block;padding:.1rem .6rem;border-radius:.3rem;color:#fff;background:#555}\
.ok{background:#176f2c}.warning{background:#8a5a00}.critical{background:#b3261e}\
.step{border:.1rem solid #888;border-radius:.3rem;padding:.4rem .8rem;white-space:pre-line}\
article{border-left:.3rem solid #888;padding-left:.8rem;margin:1rem 0}\
code,dd{font-family:ui-monospace,monospace;font-size:.9rem}\
dt{font-weight:600}dd{margin:0 0 .4rem 0}\
.wide{overflow-x:auto}table{border-collapse:collapse}td,th{text-align:left;padding:.2rem .8rem .2rem 0}";

/// The content of an empty cell.
const DASH: &str = "–";

/// The whole page; without a view (before the first reading), a message.
pub fn render(view: Option<&View>) -> String {
    let mut page = Markup::default();
    page.html("<!doctype html><html lang=en><meta charset=utf-8>")
        .html("<meta name=viewport content=\"width=device-width\"><title>rdma-health</title><style>")
        .html(STYLE)
        .html("</style><h1>rdma-health");
    match view {
        None => {
            page.html("</h1><p>The node has not been read yet.");
        }
        Some(view) => content(&mut page, view),
    }
    page.html("<p><a href=/metrics>metrics</a> · <a href=/readyz>readiness</a> · <a href=/healthz>liveness</a> · version ")
        .text(env!("CARGO_PKG_VERSION"))
        .html("\n");
    page.into_string()
}

fn content(page: &mut Markup, view: &View) {
    let (node, verdict) = (&view.node, &view.verdict);
    // Computed for each request: it is cheap, and nothing else in the agent needs it.
    let diagnosis = diagnose(node, &verdict.findings, None);
    let report = Report {
        node,
        verdict,
        diagnosis: &diagnosis,
    };
    let hostname = node.host.hostname.known().map_or("unknown", String::as_str);
    let status = report.status().name();
    page.html(": ").text(hostname).html("</h1><p>");
    badge(page, status, status);
    page.text(outcome(&report));
    if let Some(kernel) = node.host.kernel.known() {
        page.html("<p>Linux ").text(kernel);
    }
    if node.sources.values().any(|source| source.stale) {
        page.html("<p>Some facts are stale: reading them has not finished yet.");
    }
    if let Some(step) = &diagnosis.next_step {
        page.html("<p class=step><b>Next step</b> ").text(step);
    }
    causes(page, &report);
    let covered = covered_rules(&diagnosis);
    let mut rest = verdict
        .groups()
        .filter(|group| {
            group
                .first()
                .is_some_and(|first| !covered.contains(first.rule.id))
        })
        .peekable();
    if rest.peek().is_some() {
        page.html("<h2>Other findings</h2>");
    }
    for group in rest {
        findings(page, group);
    }
    ports(page, view);
}

/// A word on a background in the colour of a severity or status.
fn badge(page: &mut Markup, colour: &str, word: &str) {
    page.html("<span class=\"status ")
        .text(colour)
        .html("\">")
        .text(word)
        .html("</span> ");
}

/// The causes: likely causes in full, the others in one line each.
fn causes(page: &mut Markup, report: &Report<'_>) {
    let causes = &report.diagnosis.causes;
    if causes.is_empty() {
        return;
    }
    page.html("<h2>Causes</h2>");
    let (full, others): (Vec<_>, Vec<_>) = causes
        .iter()
        .enumerate()
        .partition(|(n, cause)| in_full(*n, cause));
    for (n, cause) in full {
        page.html("<article><p>");
        badge(page, cause.severity.name(), confidence_or_severity(cause));
        page.html("<code>")
            .text(cause.id)
            .html("</code> ")
            .text(cause.title);
        let explains: Vec<_> = cause.explains.iter().map(ToString::to_string).collect();
        if !explains.is_empty() {
            page.html("<p>explains ").text(explains.join(", "));
        }
        page.html("<ul>");
        for finding in &report.verdict.findings {
            if cause.findings.contains(&finding.rule.id) {
                page.html("<li>").text(&finding.message);
            }
        }
        page.html("</ul>");
        // The next step of the first cause is at the top.
        if n > 0 {
            page.html("<p>").text(&cause.next_step);
        }
        evidence(page, "Evidence", &cause.supports);
        evidence(page, "Evidence against it", &cause.contradicts);
        if !cause.unseen.is_empty() {
            page.html("<p>Not checked: ").text(cause.unseen.join("; "));
        }
        page.html("</article>");
    }
    if others.is_empty() {
        return;
    }
    page.html("<ul>");
    for (_, cause) in &others {
        page.html("<li>").text(cause.confidence.name()).html(": <code>");
        page.text(cause.id).html("</code> ").text(cause.title);
    }
    page.html("</ul>");
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
    page.html("<details><summary>").text(title).html("</summary><dl>");
    for (source, value) in pieces {
        page.html("<dt>").text(source).html("<dd>").text(value);
    }
    page.html("</dl></details>");
}

/// Findings of one rule: each message, the remedy once, the evidence collapsed.
fn findings(page: &mut Markup, group: &[Finding]) {
    let Some(first) = group.first() else { return };
    let severity = first.severity.name();
    page.html("<article><p>");
    badge(page, severity, severity);
    page.html("<code>")
        .text(first.rule.id)
        .html("</code> ")
        .text(first.rule.title)
        .html("<ul>");
    for finding in group {
        page.html("<li>").text(&finding.message);
    }
    page.html("</ul><p>").text(&first.remedy);
    evidence(
        page,
        "Evidence",
        group.iter().flat_map(|finding| &finding.evidence),
    );
    page.html("</article>");
}

fn ports(page: &mut Markup, view: &View) {
    page.html("<h2>Ports</h2>");
    if view.node.hcas().next().is_none() {
        page.html("<p>No RDMA device.");
        return;
    }
    page.html("<div class=wide><table><tr><th>port<th>state<th>rate<th>last probe")
        .html("<th>link layer<th>network device<th>PCI address");
    for port in view.node.ports() {
        let mut probes = view.node.loopbacks().map(|probe| &probe.report);
        let probe = probes
            .find(|probe| probe.path.from.device == port.hca.name && probe.path.from.port == port.number);
        page.html("<tr><td>").text(port);
        cell(page, port.state.known().map(|state| &*state.name));
        cell(page, rate(&port).as_deref());
        cell(page, probe.map(probed).as_deref());
        cell(page, port.link_layer.known().map(LinkLayer::name));
        cell(page, port.netdev.known().map(|netdev| &*netdev.name));
        cell(page, port.hca.pci_address.known().map(String::as_str));
    }
    page.html("</table></div>");
}

fn cell(page: &mut Markup, text: Option<&str>) {
    page.html("<td>").text(text.unwrap_or(DASH));
}

fn rate(port: &Port<'_>) -> Option<String> {
    Some(gigabits(port.rate.known()?.bits_per_second))
}

fn probed(probe: &ProbeReport) -> String {
    match (&probe.failure, &probe.bandwidth) {
        (Some(failure), _) => format!("{}: {}", probe.stage.name(), in_words(failure)),
        (None, Some(measured)) => bandwidth(measured.bytes_per_second),
        (None, None) => "passed".into(),
    }
}

#[cfg(test)]
mod tests;
