//! The status page: the verdict, the findings, the ports. No script, nothing from elsewhere.

use std::{collections::BTreeSet, fmt::Write};

use rdma_health_node::Fact;
use rdma_health_rules::{Finding, failure_in_words};

use crate::{report::gigabits, view::View};

const STYLE: &str = "\
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
body{max-width:60rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\
.status{display:inline-block;padding:.1rem .6rem;border-radius:.3rem;color:#fff;background:#555}\
.ok{background:#176f2c}.warning{background:#8a5a00}.critical{background:#b3261e}\
article{border-left:.3rem solid #888;padding-left:.8rem;margin:1rem 0}\
code,dd{font-family:ui-monospace,monospace;font-size:.9rem}\
dt{font-weight:600}dd{margin:0 0 .4rem 0}\
.wide{overflow-x:auto}table{border-collapse:collapse}td,th{text-align:left;padding:.2rem .8rem .2rem 0}";

/// The whole page.
pub(super) fn render(view: Option<&View>) -> String {
    let mut page = String::with_capacity(8 << 10);
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        page,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>rdma-health</title><style>{STYLE}</style><h1>rdma-health"
    );
    match view {
        None => page.push_str("</h1><p>The node has not been read yet."),
        Some(view) => content(&mut page, view),
    }
    let _ = writeln!(
        page,
        "<p><a href=/metrics>metrics</a> · <a href=/readyz>readiness</a> · <a href=/healthz>liveness</a> · version {}",
        env!("CARGO_PKG_VERSION")
    );
    page
}

fn content(page: &mut String, view: &View) {
    let host = &view.node.host;
    let word = |fact: &Fact<String>| escape(fact.known().map_or("unknown", String::as_str));
    let status = view.verdict.status.name();
    let _ = write!(
        page,
        ": {}</h1><p><span class=\"status {status}\">{status}</span> kernel {}",
        word(&host.hostname),
        word(&host.kernel)
    );
    if view.node.sources.values().any(|source| source.stale) {
        page.push_str("<p>Some facts are old: reading them has not ended yet.");
    }
    page.push_str("<h2>Findings</h2>");
    if view.verdict.findings.is_empty() {
        page.push_str("<p>None.");
    }
    for group in view.verdict.groups() {
        findings(page, group);
    }
    ports(page, view);
}

/// Findings of one rule: each message, the remedy once, the evidence on request.
fn findings(page: &mut String, group: &[Finding]) {
    let Some(first) = group.first() else { return };
    let severity = first.severity.name();
    let _ = write!(
        page,
        "<article><p><span class=\"status {severity}\">{severity}</span> <code>{}</code> {}<ul>",
        first.rule.id,
        escape(first.rule.title),
    );
    for finding in group {
        let _ = write!(page, "<li>{}", escape(&finding.message));
    }
    let _ = write!(page, "</ul><p>{}", escape(&first.remedy));
    let evidence: BTreeSet<_> = group
        .iter()
        .flat_map(|finding| &finding.evidence)
        .map(|evidence| (&evidence.source, &evidence.value))
        .collect();
    if !evidence.is_empty() {
        page.push_str("<details><summary>Evidence</summary><dl>");
        for (source, value) in evidence {
            let _ = write!(page, "<dt>{}<dd>{}", escape(source), escape(value));
        }
        page.push_str("</dl></details>");
    }
    page.push_str("</article>");
}

fn ports(page: &mut String, view: &View) {
    page.push_str("<h2>Ports</h2>");
    if view.node.hcas().next().is_none() {
        page.push_str("<p>No RDMA device.");
        return;
    }
    page.push_str(
        "<div class=wide><table><tr><th>port<th>state<th>rate<th>last probe<th>link layer<th>network device<th>PCI address",
    );
    for hca in view.node.hcas() {
        for (number, port) in &hca.ports {
            let dash = || "–".to_owned();
            let state = port.state.known().map_or_else(dash, |state| escape(&state.name));
            let rate = port.rate.known().map_or_else(dash, |rate| {
                let tenths = rate.bits_per_second / 100_000_000;
                format!("{}.{} Gb/s", tenths / 10, tenths % 10)
            });
            let layer = port.link_layer.known().map_or_else(dash, |layer| escape(layer));
            let netdev = port
                .netdev
                .known()
                .map_or_else(dash, |netdev| escape(&netdev.name));
            let probe = view.node.probes.iter().map(|probe| &probe.report);
            let probe = probe
                .filter(|probe| probe.device == hca.name && probe.port == *number)
                .map(|probe| match (&probe.failure, &probe.bandwidth) {
                    (Some(failure), _) => {
                        escape(&format!("{}: {}", probe.stage.name(), failure_in_words(failure)))
                    }
                    (None, Some(bandwidth)) => gigabits(bandwidth.bytes_per_second),
                    (None, None) => "passed".into(),
                })
                .next()
                .unwrap_or_else(dash);
            let address = hca
                .pci_address
                .known()
                .map_or_else(dash, |address| escape(address));
            let _ = write!(
                page,
                "<tr><td>{}:{number}<td>{state}<td>{rate}<td>{probe}<td>{layer}<td>{netdev}<td>{address}",
                escape(&hca.name)
            );
        }
    }
    page.push_str("</table></div>");
}

/// A text as it stands between tags and in quoted attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_calls_itself_is_text() {
        assert_eq!(
            escape("<b onload='x'>&\""),
            "&lt;b onload=&#39;x&#39;&gt;&amp;&quot;"
        );
    }

    #[test]
    fn before_the_first_reading_the_page_says_so() {
        assert!(render(None).contains("has not been read yet"));
    }
}
