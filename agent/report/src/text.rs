//! The report as text: the verdict in one line, the next step, the causes, other findings; then one line for each domain
//! without a problem. The short report has the evidence that matters most, and about a dozen lines for one cause.

use std::{collections::BTreeSet, io::Write};

use anstyle::Style as Ansi;
use rdma_health_diagnosis::{
    Diagnosis,
    symptom::{Grade, Symptom},
};
use rdma_health_node::{
    Node,
    words::{and_more, count, printable},
};
use rdma_health_rules::{
    Domain, Finding, Severity, Status,
    domain::{adapter_events::DRIVER_ERRORS, reading::FACTS_UNREADABLE},
    unread_in_short,
};

use super::{
    Report, cause, host_of, job,
    line::{Style, colour, instructions, labelled, list, status_colour},
    summary, unjudged,
};

/// The name of a node that is not known.
const THIS_NODE: &str = "this-node";

/// Writes the whole report. The stream must strip the escape sequences if it is not a terminal.
///
/// # Errors
/// If writing fails.
pub fn write(out: &mut impl Write, report: &Report<'_>, style: Style) -> std::io::Result<()> {
    headline(out, report)?;
    cause::symptoms(out, report, style)?;
    cause::next_step(out, report, style)?;
    cause::write(out, report, style)?;
    // Findings that no likely cause covers.
    let covered = cause::covered_rules(report.diagnosis);
    let explained = !report.diagnosis.causes.is_empty();
    for group in report.verdict.groups() {
        let Some(first) = group.first().filter(|first| !covered.contains(first.rule.id)) else {
            continue;
        };
        // A failed probe is a symptom and is listed at the top.
        if explained && is_symptom(report, first) {
            continue;
        }
        paragraph(out, report.node, group, style)?;
    }
    summaries(out, report, style)
}

/// One line for each domain without a problem. The short report has them only if there is no problem at all, and only those
/// that say something.
fn summaries(out: &mut impl Write, report: &Report<'_>, style: Style) -> std::io::Result<()> {
    let findings = report.verdict.findings.iter();
    let troubled: BTreeSet<Domain> = findings
        .filter(|finding| finding.severity > Severity::Info)
        .map(|finding| finding.domain)
        .collect();
    if !style.verbose && (!troubled.is_empty() || !report.diagnosis.causes.is_empty()) {
        return Ok(());
    }
    writeln!(out)?;
    if let Some(job) = &report.node.job {
        labelled(out, "job", &job::line(job), style, Ansi::new().dimmed())?;
    }
    for domain in Domain::ALL
        .into_iter()
        .filter(|domain| !troubled.contains(domain))
    {
        let line = if style.verbose {
            Some(summary::of(domain, report.node))
        } else {
            summary::notable(domain, report.node)
        };
        if let Some(line) = line {
            labelled(out, domain.name(), &line, style, Ansi::new().dimmed())?;
        }
    }
    Ok(())
}

/// The verdict for scripts: host, status, first cause and the rules of warnings and above, in columns. It has no numbers and no
/// names of devices, so that equal nodes give equal lines except for the host. `status` is that of the exit status: what a check
/// fails on is chosen.
///
/// # Errors
/// If writing fails.
pub fn quiet(out: &mut impl Write, report: &Report<'_>, status: Status) -> std::io::Result<()> {
    let paint = status_colour(status);
    let host = host_of(report.node).unwrap_or(THIS_NODE);
    write!(
        out,
        "{}  {paint}{}{paint:#}",
        printable(host),
        status.name().to_uppercase()
    )?;
    let mut rules: Vec<&str> = Vec::new();
    for finding in report
        .verdict
        .findings
        .iter()
        .filter(|finding| finding.severity > Severity::Info)
    {
        if !rules.contains(&finding.rule.id) {
            rules.push(finding.rule.id);
        }
    }
    if report.status() == Status::Ok {
        return match (report.information(status), unread_in_short(report.node)) {
            (Some(rules), _) => writeln!(out, "  information: {rules}"),
            (None, Some((_, hint))) => writeln!(out, "  some facts could not be read{hint}"),
            (None, None) => writeln!(out),
        };
    }
    match (report.diagnosis.first(), report.unknown_because()) {
        (Some(cause), _) => write!(out, "  {}", cause.id)?,
        (None, Some(why)) if rules.is_empty() => write!(out, "  {}", printable(&why))?,
        (None, _) => {}
    }
    if !rules.is_empty() {
        write!(out, "  {}", rules.join(","))?;
    }
    writeln!(out)
}

/// Writes why the node could not be judged, as [`quiet`] does.
///
/// # Errors
/// If writing fails.
pub fn quiet_failed(out: &mut impl Write, error: &str) -> std::io::Result<()> {
    let paint = status_colour(Status::Unknown);
    let status = Status::Unknown.name().to_uppercase();
    writeln!(out, "{THIS_NODE}  {paint}{status}{paint:#}  {}", printable(error))
}

/// Whether a finding is already listed at the top, as a symptom.
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
/// If writing fails.
pub fn headline(out: &mut impl Write, report: &Report<'_>) -> std::io::Result<()> {
    let node = report.node;
    let status = report.status();
    let paint = status_colour(status);
    let host = host_of(node).unwrap_or("this node");
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

/// The numbers of problems, as people count them, and the first cause, without a line end.
pub(crate) fn outcome(report: &Report<'_>) -> String {
    let Report {
        verdict, diagnosis, ..
    } = report;
    let (critical, warning) = report.problems();
    let in_log = number_of(diagnosis, |symptom| {
        symptom.line.is_some() && symptom.grade > Grade::Unrecognised && !symptom.is_of_process()
    });
    let in_process = number_of(diagnosis, Symptom::is_of_process);
    let log = diagnosis.log.as_ref();
    let mut parts = Vec::new();
    if critical > 0 {
        parts.push(count(critical, "critical problem"));
    } else if let Some(why) = &verdict.unknown_because {
        parts.push(printable(why));
    }
    if warning > 0 {
        parts.push(count(warning, "warning"));
    }
    if in_log > 0 {
        parts.push(format!("{} in the log", count(in_log, "symptom")));
    }
    if in_process > 0 {
        parts.push(format!("{} in the job's process", count(in_process, "symptom")));
    }
    parts.extend(log.and_then(unjudged::unrecognised));
    parts.extend(log.and_then(unjudged::why_unreadable));
    if parts.is_empty() {
        let doubt = diagnosis
            .symptoms
            .iter()
            .find(|symptom| unjudged::is_doubt(symptom));
        let notes = number_of(diagnosis, |symptom| {
            symptom.line.is_some() && symptom.grade == Grade::Note
        });
        parts.push(match doubt {
            None if notes > 0 => {
                format!(
                    "no problem found, {} in the log without consequence",
                    count(notes, "symptom")
                )
            }
            Some(doubt) => format!("no problem of RDMA found; the log shows {}", doubt.kind),
            None if log.is_some_and(|log| log.document) => {
                "no problem found on the node; the log reads like documentation and was not judged".into()
            }
            None => "no problem found".into(),
        });
    }
    let cause = diagnosis
        .first()
        .map(|cause| match cause.explains.is_empty() {
            // Unread facts are not a cause of a problem.
            true if cause.findings == [FACTS_UNREADABLE.id] => String::new(),
            true => format!("; top cause: {}", cause.title),
            false => format!("; {} cause: {}", cause.confidence.name(), cause.title),
        })
        .unwrap_or_default();
    format!("{}{cause}", parts.join(", "))
}

fn number_of(diagnosis: &Diagnosis, matches: impl Fn(&Symptom) -> bool) -> usize {
    diagnosis
        .symptoms
        .iter()
        .filter(|symptom| matches(symptom))
        .count()
}

/// Findings of one rule: each message, the evidence, and the remedy once. In the short report one line.
fn paragraph(out: &mut impl Write, node: &Node, group: &[Finding], style: Style) -> std::io::Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    let paint = colour(first.severity);
    if !style.verbose {
        let more = and_more(group.len() - 1);
        let line = format!("{}: {}{more}", first.rule.id, first.message_with_pods());
        list(out, first.severity.name(), &[line], style, paint)?;
        // What this program does not know, the reader may.
        return match first.evidence.first().filter(|_| *first.rule == DRIVER_ERRORS) {
            Some(piece) => labelled(out, "", &piece.value, style, Ansi::new()),
            None => Ok(()),
        };
    }
    writeln!(out)?;
    writeln!(
        out,
        "{paint}{}{paint:#}  {}: {}",
        first.severity.name(),
        first.rule.id,
        first.rule.title
    )?;
    let messages: Vec<_> = group
        .iter()
        .map(|finding| finding.message_with_pods().into_owned())
        .collect();
    list(out, "", &messages, style, Ansi::new())?;
    let mut seen = BTreeSet::new();
    let evidence: Vec<_> = group
        .iter()
        .flat_map(|finding| &finding.evidence)
        .filter(|piece| seen.insert((&piece.source, &piece.value)))
        .map(|piece| format!("{}: {}", cause::dated(node, &piece.source), piece.value))
        .collect();
    list(out, "evidence", &evidence, style, Ansi::new().dimmed())?;
    instructions(out, "remedy", &first.remedy, style, Ansi::new().bold())
}
