//! The verdict as text: the verdict in one line, what to do next, the causes, other findings; then what is fine, in one
//! line per domain.

use std::{collections::BTreeSet, io::Write};

use anstyle::Style as Ansi;
use rdma_health_rules::{Domain, Finding, Severity};

use super::{
    Report, cause, count,
    line::{Style, colour, labelled, list, status_colour},
    printable, summary,
};

/// The rule that tells what could not be read.
const FACTS_UNREADABLE: &str = "facts-unreadable";

/// Writes the whole report. Escape sequences are the stream's to strip where it is no terminal.
///
/// # Errors
/// The system's.
pub(crate) fn write(out: &mut impl Write, report: &Report<'_>, style: Style) -> std::io::Result<()> {
    headline(out, report)?;
    cause::symptoms(out, report, style)?;
    cause::next_step(out, report, style)?;
    cause::write(out, report, style)?;
    // What no cause tells.
    let told = cause::told(report.diagnosis);
    let explained = !report.diagnosis.causes.is_empty();
    for group in report.verdict.groups() {
        let Some(first) = group.first().filter(|first| !told.contains(first.rule.id)) else {
            continue;
        };
        // A failed probe is a symptom: it stands at the top.
        if explained && is_symptom(report, first) {
            continue;
        }
        writeln!(out)?;
        paragraph(out, group, style)?;
    }
    let findings = report.verdict.findings.iter();
    let troubled: BTreeSet<Domain> = findings
        .filter(|finding| finding.severity > Severity::Info)
        .map(|finding| finding.domain)
        .collect();
    writeln!(out)?;
    for domain in Domain::ALL
        .into_iter()
        .filter(|domain| !troubled.contains(domain))
    {
        let line = summary::of(domain, report.node);
        labelled(out, domain.name(), &line, style, Ansi::new().dimmed())?;
    }
    Ok(())
}

/// Whether a finding says what fails, which stands at the top already.
fn is_symptom(report: &Report<'_>, finding: &Finding) -> bool {
    let subject = format!("probe of {}", finding.subject);
    finding.domain == Domain::Probe
        && report
            .diagnosis
            .symptoms
            .iter()
            .any(|symptom| symptom.source == subject)
}

/// The verdict in one line.
///
/// # Errors
/// The system's.
pub(crate) fn headline(out: &mut impl Write, report: &Report<'_>) -> std::io::Result<()> {
    let node = report.node;
    let status = report.status();
    let paint = status_colour(status);
    let host = node.host.hostname.known().map_or("this node", String::as_str);
    let kernel = node
        .host
        .kernel
        .known()
        .map(|kernel| format!(" (Linux {kernel})"))
        .unwrap_or_default();
    writeln!(
        out,
        "{paint}{}{paint:#}  {}{}: {}",
        status.name().to_uppercase(),
        printable(host),
        printable(&kernel),
        outcome(report)
    )
}

/// What the verdict comes to, and the first cause, without line end.
pub(crate) fn outcome(report: &Report<'_>) -> String {
    let Report {
        verdict, diagnosis, ..
    } = report;
    let number = |severity| {
        verdict
            .findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let (critical, warning) = (number(Severity::Critical), number(Severity::Warning));
    let in_log = diagnosis
        .symptoms
        .iter()
        .filter(|symptom| symptom.line.is_some())
        .count();
    let mut parts = Vec::new();
    if critical > 0 {
        parts.push(count(critical, "critical finding"));
    } else if let Some(why) = &verdict.unknown_because {
        parts.push(printable(why));
    }
    if warning > 0 {
        parts.push(count(warning, "warning"));
    }
    if in_log > 0 {
        parts.push(format!("{} in the log", count(in_log, "symptom")));
    }
    if parts.is_empty() {
        parts.push("nothing wrong found".into());
    }
    let cause = diagnosis
        .first()
        .map(|cause| match cause.explains.is_empty() {
            // What could not be read is no cause of anything.
            true if cause.findings == [FACTS_UNREADABLE] => String::new(),
            true => format!("; first: {}", cause.title),
            false => format!("; {} cause: {}", cause.confidence.name(), cause.title),
        })
        .unwrap_or_default();
    format!("{}{cause}", parts.join(", "))
}

/// Findings of one rule: what, the evidence, the remedy once.
fn paragraph(out: &mut impl Write, group: &[Finding], style: Style) -> std::io::Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    let paint = colour(first.severity);
    writeln!(
        out,
        "{paint}{}{paint:#}  {}: {}",
        first.severity.name(),
        first.rule.id,
        first.rule.title
    )?;
    let messages: Vec<_> = group.iter().map(|finding| finding.message.clone()).collect();
    list(out, "", &messages, style, Ansi::new())?;
    let mut seen = BTreeSet::new();
    let evidence: Vec<_> = group
        .iter()
        .flat_map(|finding| &finding.evidence)
        .filter(|piece| seen.insert((&piece.source, &piece.value)))
        .map(|piece| format!("{}: {}", piece.source, piece.value))
        .collect();
    list(out, "evidence", &evidence, style, Ansi::new().dimmed())?;
    labelled(out, "remedy", &cause::in_brief(first), style, Ansi::new().bold())
}
