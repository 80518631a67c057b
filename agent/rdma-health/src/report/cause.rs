//! Causes as text: the likely ones in full, the others in a line each.

use std::{collections::BTreeSet, io::Write};

use anstyle::Style as Ansi;
use rdma_health_rules::{
    Diagnosis, Evidence, Finding, Severity,
    diagnosis::{Cause, Confidence, symptom::Symptom},
    size_in_words,
};

use super::{
    Report,
    line::{Style, cause_colour, labelled, list},
    printable,
};

/// The most characters of a line of a log that are shown: what it says is in its kind, and its number leads to the rest.
const ROOM: usize = 140;
/// The most causes that are told in one line each; JSON has them all.
const OTHERS: usize = 6;

/// Whether the cause at this place is told in full: what is shown by evidence; where nothing is, the first that is left.
pub(crate) fn in_full(place: usize, cause: &Cause) -> bool {
    cause.confidence == Confidence::Likely || (place == 0 && cause.confidence == Confidence::Possible)
}

/// The rules whose findings the causes tell.
pub(crate) fn told(diagnosis: &Diagnosis) -> BTreeSet<&'static str> {
    let likely = diagnosis
        .causes
        .iter()
        .filter(|cause| cause.confidence == Confidence::Likely);
    likely.flat_map(|cause| cause.findings.iter().copied()).collect()
}

/// Writes all causes, after an empty line each.
pub(super) fn write(out: &mut impl Write, report: &Report<'_>, style: Style) -> std::io::Result<()> {
    let causes = &report.diagnosis.causes;
    let (told, others): (Vec<_>, Vec<_>) = causes
        .iter()
        .enumerate()
        .partition(|(n, cause)| in_full(*n, cause));
    for (n, cause) in told {
        writeln!(out)?;
        paragraph(out, report, cause, n == 0, style)?;
    }
    if others.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for (_, cause) in others.iter().take(OTHERS) {
        let paint = cause_colour(cause.confidence, cause.severity);
        labelled(out, cause.confidence.name(), &in_short(cause), style, paint)?;
    }
    if others.len() > OTHERS {
        let names: Vec<_> = others.iter().skip(OTHERS).map(|(_, cause)| cause.id).collect();
        labelled(
            out,
            "",
            &format!("and {}", names.join(", ")),
            style,
            Ansi::new().dimmed(),
        )?;
    }
    Ok(())
}

fn in_short(cause: &Cause) -> String {
    let why = match cause.confidence {
        Confidence::Unlikely => cause.contradicts.first().map(words),
        _ if !cause.supports.is_empty() => cause.supports.first().map(words),
        _ => (!cause.unseen.is_empty()).then(|| format!("not seen: {}", cause.unseen.join("; "))),
    };
    format!(
        "{}: {}{}",
        cause.id,
        cause.title,
        why.map(|why| format!(" - {why}")).unwrap_or_default()
    )
}

fn words(evidence: &Evidence) -> String {
    format!("{}: {}", evidence.source, evidence.value)
}

/// One cause in full: what was found, what shows it, what speaks against it, what is not known. What to do stands at the
/// top of the report for the first one.
fn paragraph(
    out: &mut impl Write,
    report: &Report<'_>,
    cause: &Cause,
    first: bool,
    style: Style,
) -> std::io::Result<()> {
    let paint = cause_colour(cause.confidence, cause.severity);
    writeln!(
        out,
        "{paint}{}{paint:#}  {}: {}",
        how_sure(cause),
        cause.id,
        cause.title
    )?;
    let explains: Vec<_> = cause.explains.iter().map(ToString::to_string).collect();
    if !explains.is_empty() {
        labelled(out, "explains", &explains.join(", "), style, Ansi::new())?;
    }
    let mut found = Vec::new();
    for id in &cause.findings {
        let mine: Vec<&Finding> = report
            .verdict
            .findings
            .iter()
            .filter(|f| f.rule.id == *id)
            .collect();
        for (n, finding) in mine.iter().enumerate() {
            found.push(if n == 0 {
                format!("{id} ({}): {}", finding.severity.name(), finding.message)
            } else {
                finding.message.clone()
            });
        }
    }
    list(out, "found", &found, style, Ansi::new())?;
    let dimmed = Ansi::new().dimmed();
    let all = |evidence: &[Evidence]| evidence.iter().map(words).collect::<Vec<_>>();
    list(out, "evidence", &all(&cause.supports), style, dimmed)?;
    list(out, "against", &all(&cause.contradicts), style, dimmed)?;
    list(out, "not seen", &cause.unseen, style, dimmed)?;
    if !first {
        let text = lead(report, cause).map_or_else(|| cause.next_step.clone(), in_brief);
        labelled(out, "remedy", &text, style, Ansi::new().bold())?;
    }
    Ok(())
}

/// What explains a symptom is more or less likely; what was found without one is as bad as its findings.
pub(crate) fn how_sure(cause: &Cause) -> &'static str {
    if cause.explains.is_empty() {
        cause.severity.name()
    } else {
        cause.confidence.name()
    }
}

/// The finding whose remedy is the cause's next step.
fn lead<'a>(report: &Report<'a>, cause: &Cause) -> Option<&'a Finding> {
    let id = cause.findings.first()?;
    let findings = &report.verdict.findings;
    findings
        .iter()
        .find(|finding| finding.rule.id == *id && finding.severity > Severity::Info)
        // Where one rule serves several causes, the cause itself says what to do.
        .filter(|finding| finding.remedy == cause.next_step)
}

/// What holds everywhere, and where the commands are told.
pub(super) fn in_brief(finding: &Finding) -> String {
    let remedy = &finding.places;
    match remedy.parts().next() {
        Some(("", any)) if remedy.parts().nth(1).is_none() => any.to_owned(),
        // The rule's own commands are for another case.
        _ if *remedy != finding.rule.remedy => finding.remedy.clone(),
        Some(("", any)) => format!("{any} Commands: rdma-health explain {}", finding.rule.id),
        _ => finding.remedy.clone(),
    }
}

/// The one thing to do next, with the commands for each kind of place.
pub(super) fn next_step(out: &mut impl Write, report: &Report<'_>, style: Style) -> std::io::Result<()> {
    let diagnosis = report.diagnosis;
    let (Some(next), Some(cause)) = (&diagnosis.next_step, diagnosis.causes.first()) else {
        return Ok(());
    };
    let bold = Ansi::new().bold();
    let Some(finding) = lead(report, cause) else {
        return labelled(out, "next step", next, style, bold);
    };
    for (n, (place, text)) in finding.places.parts().enumerate() {
        let (label, paint) = if n == 0 {
            ("next step", bold)
        } else {
            (place, Ansi::new())
        };
        // A remedy that differs everywhere names the first place, too.
        let text = if n == 0 && !place.is_empty() {
            format!("{place}: {text}")
        } else {
            text.to_owned()
        };
        labelled(out, label, &text, style, paint)?;
    }
    Ok(())
}

/// What was seen to go wrong: in which line, how often.
pub(super) fn symptoms(out: &mut impl Write, report: &Report<'_>, style: Style) -> std::io::Result<()> {
    let seen: Vec<String> = report.diagnosis.symptoms.iter().map(symptom).collect();
    list(out, "seen", &seen, style, Ansi::new())?;
    let Some(log) = &report.diagnosis.log else {
        return Ok(());
    };
    if log.dropped > 0 {
        labelled(
            out,
            "",
            &format!("and {} lines more", log.dropped),
            style,
            Ansi::new(),
        )?;
    }
    if !report
        .diagnosis
        .symptoms
        .iter()
        .any(|symptom| symptom.line.is_some())
    {
        labelled(
            out,
            "log",
            &format!("no RDMA error in {}", super::count_of(log.lines, "line")),
            style,
            Ansi::new(),
        )?;
    }
    if let Some(bytes) = log.cut_after {
        let text = format!(
            "the log goes on: only its first {} were read",
            size_in_words(bytes)
        );
        labelled(out, "note", &text, style, Ansi::new().bold())?;
    }
    let own = report.node.host.hostname.known();
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let foreign = own.is_some_and(|own| !log.hosts.iter().any(|host| short(host) == short(own)));
    if foreign && !log.hosts.is_empty() {
        let hosts: Vec<_> = log.hosts.iter().take(4).map(String::as_str).collect();
        let more = if log.hosts.len() > 4 { ", …" } else { "" };
        let text = format!(
            "the errors were written by {}{more}, and this is {}: check the node that they ran on, unless they are pods of this one",
            hosts.join(", "),
            own.map_or("another node", String::as_str)
        );
        labelled(out, "note", &text, style, Ansi::new().bold())?;
    }
    let unknown: BTreeSet<&str> = report
        .diagnosis
        .symptoms
        .iter()
        .filter_map(|symptom| symptom.named.device.as_deref())
        .filter(|device| {
            report
                .node
                .hcas
                .known()
                .is_some_and(|hcas| !hcas.contains_key(*device))
        })
        .take(4)
        .collect();
    if !unknown.is_empty() {
        let names: Vec<_> = unknown.into_iter().collect();
        let text = format!(
            "the log names {}, which this node does not have",
            names.join(", ")
        );
        labelled(out, "note", &text, style, Ansi::new().bold())?;
    }
    Ok(())
}

fn symptom(symptom: &Symptom) -> String {
    let times = match symptom.count {
        1 => String::new(),
        count => format!(", {count} times"),
    };
    let device = match (&symptom.named.device, symptom.named.port) {
        _ if symptom.line.is_none() => String::new(),
        (Some(device), Some(port)) => format!(" on {device}:{port}"),
        (Some(device), None) => format!(" on {device}"),
        (None, _) => String::new(),
    };
    let text = printable(&symptom.text);
    // What NCCL writes in front - machine, process, source file - is in the line that the number leads to.
    let levels = ["NCCL WARN ", "NCCL INFO "];
    let text = levels
        .iter()
        .find_map(|level| text.split_once(level))
        .map_or(text.as_str(), |(_, rest)| rest);
    let cut = text.char_indices().nth(ROOM).map_or(text.len(), |(at, _)| at);
    let dots = if cut < text.len() { "…" } else { "" };
    format!(
        "{}{times}: {}{device}: {}{dots}",
        symptom.source,
        symptom.kind,
        &text[..cut]
    )
}
