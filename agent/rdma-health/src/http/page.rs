//! The status page: what `check` says, verdict first, and the ports. No script, nothing from elsewhere.

use std::{collections::BTreeSet, fmt::Write};

use rdma_health_rules::{Evidence, Finding, diagnose, failure_in_words};

use crate::{
    report::{self, Report, gigabits},
    view::View,
};

const STYLE: &str = "\
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
body{max-width:60rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\
.status{display:inline-block;padding:.1rem .6rem;border-radius:.3rem;color:#fff;background:#555}\
.ok{background:#176f2c}.warning{background:#8a5a00}.critical{background:#b3261e}\
.step{border:.1rem solid #888;border-radius:.3rem;padding:.4rem .8rem}\
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
    let (node, verdict) = (&view.node, &view.verdict);
    // Cheap beside a page that somebody looks at, and nobody else of the agent needs it.
    let diagnosis = diagnose(node, &verdict.findings, None);
    let report = Report {
        node,
        verdict,
        diagnosis: &diagnosis,
    };
    let hostname = node.host.hostname.known().map_or("unknown", String::as_str);
    let status = report.status().name();
    let _ = write!(
        page,
        ": {}</h1><p><span class=\"status {status}\">{status}</span> {}",
        escape(hostname),
        escape(&report::outcome(&report))
    );
    if let Some(kernel) = node.host.kernel.known() {
        let _ = write!(page, "<p>Linux {}", escape(kernel));
    }
    if node.sources.values().any(|source| source.stale) {
        page.push_str("<p>Some facts are old: reading them has not ended yet.");
    }
    if let Some(step) = &diagnosis.next_step {
        let _ = write!(page, "<p class=step><b>Next step</b> {}", escape(step));
    }
    causes(page, &report);
    let told = report::told_by_causes(&diagnosis);
    let mut rest = verdict
        .groups()
        .filter(|group| group.first().is_some_and(|first| !told.contains(first.rule.id)))
        .peekable();
    if rest.peek().is_some() {
        page.push_str("<h2>Other findings</h2>");
    }
    for group in rest {
        findings(page, group);
    }
    ports(page, view);
}

/// What is wrong: the causes that something shows in full, and those that would explain it in a line each.
fn causes(page: &mut String, report: &Report<'_>) {
    let causes = &report.diagnosis.causes;
    if causes.is_empty() {
        return;
    }
    page.push_str("<h2>Causes</h2>");
    let (full, others): (Vec<_>, Vec<_>) = causes
        .iter()
        .enumerate()
        .partition(|(n, cause)| report::in_full(*n, cause));
    for (n, cause) in full {
        let class = cause.severity.name();
        let _ = write!(
            page,
            "<article><p><span class=\"status {class}\">{}</span> <code>{}</code> {}",
            report::how_sure(cause),
            cause.id,
            escape(cause.title)
        );
        let explains: Vec<_> = cause.explains.iter().map(ToString::to_string).collect();
        if !explains.is_empty() {
            let _ = write!(page, "<p>explains {}", escape(&explains.join(", ")));
        }
        page.push_str("<ul>");
        for finding in &report.verdict.findings {
            if cause.findings.contains(&finding.rule.id) {
                let _ = write!(page, "<li>{}", escape(&finding.message));
            }
        }
        page.push_str("</ul>");
        // That of the first stands at the top.
        if n > 0 {
            let _ = write!(page, "<p>{}", escape(&cause.next_step));
        }
        evidence(page, "Evidence", &cause.supports);
        evidence(page, "Speaks against it", &cause.contradicts);
        if !cause.unseen.is_empty() {
            let _ = write!(page, "<p>Not seen: {}", escape(&cause.unseen.join("; ")));
        }
        page.push_str("</article>");
    }
    if !others.is_empty() {
        page.push_str("<ul>");
    }
    for (_, cause) in &others {
        let _ = write!(
            page,
            "<li>{}: <code>{}</code> {}",
            cause.confidence.name(),
            cause.id,
            escape(cause.title)
        );
    }
    if !others.is_empty() {
        page.push_str("</ul>");
    }
}

/// What was read, on request.
fn evidence<'a>(page: &mut String, title: &str, pieces: impl IntoIterator<Item = &'a Evidence>) {
    let pieces: BTreeSet<_> = pieces
        .into_iter()
        .map(|evidence| (&evidence.source, &evidence.value))
        .collect();
    if pieces.is_empty() {
        return;
    }
    let _ = write!(page, "<details><summary>{title}</summary><dl>");
    for (source, value) in pieces {
        let _ = write!(page, "<dt>{}<dd>{}", escape(source), escape(value));
    }
    page.push_str("</dl></details>");
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
    evidence(
        page,
        "Evidence",
        group.iter().flat_map(|finding| &finding.evidence),
    );
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
    fn the_page_says_first_what_is_wrong_and_what_to_do_as_check_does() {
        let tree = rdma_health_tests::tree::fixture("connectx7-gpu").unwrap();
        let root = rdma_health_node::Root::open(tree.path()).unwrap();
        let mut collector = rdma_health_node::collector::Collector::new(root, Vec::new());
        let soon = std::time::Instant::now() + std::time::Duration::from_secs(5);
        collector.refresh(rdma_health_node::collector::Refresh::All, soon);
        let node = collector.node();
        let verdict = rdma_health_rules::judge(&node, &rdma_health_rules::Expectations::default());
        let diagnosis = diagnose(&node, &verdict.findings, None);
        let mut view = View {
            node,
            verdict: std::sync::Arc::new(verdict),
            read_errors: Vec::new(),
            reader_threads: 1,
            revision: 0,
        };
        let page = render(Some(&view));
        let place = |words: &str| {
            let words = escape(words);
            page.find(&words)
                .unwrap_or_else(|| panic!("{words} is not in {page}"))
        };
        let mut expected = vec![
            page.find("critical</span>").unwrap(),
            place(&format!("first: {}", diagnosis.causes[0].title)),
            place(diagnosis.next_step.as_ref().unwrap()),
        ];
        expected.extend(diagnosis.causes.iter().map(|cause| place(cause.id)));
        expected.push(page.find("<h2>Ports").unwrap());
        assert!(expected.is_sorted(), "{expected:?}: {page}");
        for finding in &view.verdict.findings {
            place(&finding.message);
        }
        // What is in order has neither causes nor findings.
        view.node.hcas = rdma_health_node::Fact::Absent;
        std::sync::Arc::make_mut(&mut view.verdict).findings.clear();
        let page = render(Some(&view));
        assert!(
            !page.contains("<h2>Causes") && !page.contains("Next step"),
            "{page}"
        );
    }

    #[test]
    fn before_the_first_reading_the_page_says_so() {
        assert!(render(None).contains("has not been read yet"));
    }
}
