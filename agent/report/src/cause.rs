//! Causes as text: likely causes in full, the others in one line each.

use std::{collections::BTreeSet, io::Write};

use anstyle::Style as Ansi;
use rdma_health_diagnosis::{
    Cause, Confidence, Diagnosis, LogSummary,
    symptom::{Grade, Symptom, SymptomKind},
};
use rdma_health_node::{
    Node,
    words::{count, count_of, duration, listed, size},
};
use rdma_health_rules::{Evidence, Finding};

use super::{
    Report,
    excerpt::{excerpt, message},
    line::{Style, cause_colour, instructions, labelled, list, list_wrapped},
};

/// Maximum number of causes with one line each; JSON has all of them.
const OTHERS: usize = 6;

/// Whether to print the cause at this position in full: a likely one, or, if no cause is likely, the first possible one.
pub(crate) fn in_full(place: usize, cause: &Cause) -> bool {
    cause.confidence == Confidence::Likely || (place == 0 && cause.confidence == Confidence::Possible)
}

/// The rules whose findings the likely causes cover.
pub(crate) fn covered_rules(diagnosis: &Diagnosis) -> BTreeSet<&'static str> {
    let likely = diagnosis
        .causes
        .iter()
        .filter(|cause| cause.confidence == Confidence::Likely);
    likely.flat_map(|cause| cause.findings.iter().copied()).collect()
}

/// Writes all causes, each after an empty line.
pub(super) fn write(out: &mut impl Write, report: &Report<'_>, style: Style) -> std::io::Result<()> {
    let causes = &report.diagnosis.causes;
    let (full, others): (Vec<_>, Vec<_>) = causes
        .iter()
        .enumerate()
        .partition(|(n, cause)| in_full(*n, cause));
    for (n, cause) in full {
        writeln!(out)?;
        paragraph(out, report, cause, n == 0, style)?;
    }
    if !others.is_empty() {
        writeln!(out)?;
        write_others(out, report.node, &others, style)?;
    }
    Ok(())
}

/// Possible causes in one line each, or in one line in the short report; unlikely causes in one line.
fn write_others(
    out: &mut impl Write,
    node: &Node,
    others: &[(usize, &Cause)],
    style: Style,
) -> std::io::Result<()> {
    let of = |unlikely: bool| {
        let causes = others.iter().map(|(_, cause)| *cause);
        causes.filter(move |cause| (cause.confidence == Confidence::Unlikely) == unlikely)
    };
    let names = |causes: &mut dyn Iterator<Item = &Cause>| {
        causes.map(|cause| cause.id).collect::<Vec<_>>().join(", ")
    };
    let dimmed = Ansi::new().dimmed();
    let full = if style.verbose { OTHERS } else { 0 };
    for cause in of(false).take(full) {
        let paint = cause_colour(cause.confidence, cause.severity);
        labelled(out, cause.confidence.name(), &one_line(node, cause), style, paint)?;
    }
    for (label, names) in [
        (
            if full > 0 { "and" } else { "others" },
            names(&mut of(false).skip(full)),
        ),
        ("unlikely", names(&mut of(true))),
    ] {
        if !names.is_empty() {
            list(out, label, &[names], style, dimmed)?;
        }
    }
    Ok(())
}

fn one_line(node: &Node, cause: &Cause) -> String {
    let why = match cause.supports.first() {
        Some(first) => Some(words(node, first)),
        None => (!cause.unseen.is_empty()).then(|| format!("not checked: {}", cause.unseen.join("; "))),
    };
    format!(
        "{}: {}{}",
        cause.id,
        cause.title,
        why.map(|why| format!(" - {why}")).unwrap_or_default()
    )
}

fn words(node: &Node, evidence: &Evidence) -> String {
    let value = if evidence.source.starts_with("log line ") {
        message(&evidence.value)
    } else {
        &evidence.value
    };
    format!("{}: {value}", dated(node, &evidence.source))
}

/// A source of evidence; of a message of the kernel also how long ago it was, as its time is in seconds since boot.
pub(super) fn dated(node: &Node, source: &str) -> String {
    let seconds = source
        .strip_prefix("/dev/kmsg at ")
        .and_then(|rest| rest.strip_suffix(" s"))
        .and_then(|seconds| seconds.parse::<u64>().ok());
    let ago = seconds.and_then(|at| node.host.uptime.known()?.checked_sub(at));
    match ago {
        Some(ago) => format!("{source} ({} ago)", duration(ago)),
        None => source.to_owned(),
    }
}

/// One cause in full: findings, evidence for and against it, and missing evidence. The remedy of the first cause is at
/// the top of the report.
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
        confidence_or_severity(cause),
        cause.id,
        cause.title
    )?;
    let explains: Vec<_> = cause.explains.iter().map(ToString::to_string).collect();
    if !explains.is_empty() && style.verbose {
        labelled(out, "explains", &explains.join(", "), style, Ansi::new())?;
    }
    let mut found = Vec::new();
    for id in &cause.findings {
        let of_rule = |finding: &&Finding| finding.rule.id == *id;
        let mine: Vec<&Finding> = report.verdict.findings.iter().filter(of_rule).collect();
        found.extend(messages(cause, &mine, style));
    }
    list_wrapped(out, "found", &found, style)?;
    let dimmed = Ansi::new().dimmed();
    let all = |evidence: &[Evidence]| {
        evidence
            .iter()
            .map(|piece| words(report.node, piece))
            .collect::<Vec<_>>()
    };
    list(out, "evidence", &all(&cause.supports), style, dimmed)?;
    list(out, "against", &all(&cause.contradicts), style, dimmed)?;
    // With evidence, what else could be checked is a detail.
    if style.verbose || cause.supports.is_empty() {
        list(out, "not checked", &cause.unseen, style, dimmed)?;
    }
    if !first && style.verbose {
        instructions(out, "remedy", &cause.next_step, style, Ansi::new().bold())?;
    }
    Ok(())
}

/// The messages of the findings of one rule. In the short report they are one: a fault on eight devices is one fault.
fn messages(cause: &Cause, findings: &[&Finding], style: Style) -> Vec<String> {
    let Some((first, others)) = findings.split_first() else {
        return Vec::new();
    };
    let id = first.rule.id;
    let lead = match style.verbose {
        true => format!("{id} ({}): {}", first.severity.name(), first.message_with_pods()),
        // The title of the cause has it already.
        false if cause.id == id => first.message_with_pods().into_owned(),
        false => format!("{id}: {}", first.message_with_pods()),
    };
    if style.verbose {
        let others = others
            .iter()
            .map(|finding| finding.message_with_pods().into_owned());
        return std::iter::once(lead).chain(others).collect();
    }
    let (same, different): (Vec<&Finding>, Vec<&Finding>) = others
        .iter()
        .copied()
        .partition(|other| other.subject != first.subject && shape(&other.message) == shape(&first.message));
    let mut messages = vec![lead];
    if !same.is_empty() {
        let subjects: Vec<_> = same.iter().map(|finding| finding.subject.to_string()).collect();
        let names = listed(subjects.iter().map(String::as_str));
        messages.push(format!("the same for {}: {names}", count(same.len(), "other")));
    }
    let (shown, rest) = different.split_at(different.len().min(DIFFERENT));
    messages.extend(
        shown
            .iter()
            .map(|finding| finding.message_with_pods().into_owned()),
    );
    if !rest.is_empty() {
        messages.push(format!("and {}", count(rest.len(), "more finding")));
    }
    messages
}

/// Maximum number of findings of one rule that say something else than the first.
const DIFFERENT: usize = 2;

/// The words of a message without names and numbers, which differ between devices.
fn shape(message: &str) -> Vec<&str> {
    let is_word = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
    message.split_whitespace().filter(is_word).collect()
}

/// The confidence of a cause that explains a symptom; the severity of one that has only findings.
pub(crate) fn confidence_or_severity(cause: &Cause) -> &'static str {
    if cause.explains.is_empty() {
        cause.severity.name()
    } else {
        cause.confidence.name()
    }
}

/// The next step of the first cause, unless it is unlikely.
pub(super) fn next_step(out: &mut impl Write, report: &Report<'_>, style: Style) -> std::io::Result<()> {
    match &report.diagnosis.next_step {
        Some(next) => instructions(out, "next step", next, style, Ansi::new().bold()),
        None => Ok(()),
    }
}

/// The symptoms: where they occurred, and how often.
pub(super) fn symptoms(out: &mut impl Write, report: &Report<'_>, style: Style) -> std::io::Result<()> {
    let symptoms = &report.diagnosis.symptoms;
    let is_recognised = |symptom: &&Symptom| symptom.kind != SymptomKind::Unrecognised;
    let seen: Vec<String> = symptoms.iter().filter(is_recognised).map(symptom).collect();
    list(out, "symptoms", &seen, style, Ansi::new())?;
    let Some(log) = &report.diagnosis.log else {
        return Ok(());
    };
    if log.dropped > 0 {
        labelled(
            out,
            "",
            &format!("and {} more lines", log.dropped),
            style,
            Ansi::new(),
        )?;
    }
    let of_log = |symptom: &&Symptom| symptom.line.is_some();
    if log.unrecognised > 0 {
        let lines = count_of(log.lines, "line");
        let is_known = symptoms
            .iter()
            .any(|symptom| is_recognised(&symptom) && of_log(&symptom) && symptom.grade == Grade::Failure);
        let text = match (log.unrecognised, is_known) {
            (1, _) if log.others > 0 => format!("{lines}, 1 looks like a failure and names nothing of RDMA:"),
            (some, _) if log.others > 0 => {
                format!("{lines}, {some} look like failures and name nothing of RDMA:")
            }
            (1, false) => format!("{lines}, 1 looks like an RDMA failure that rdma-health does not know:"),
            (some, false) => {
                format!("{lines}, {some} look like RDMA failures that rdma-health does not know:")
            }
            (1, true) => format!("{lines}, 1 more looks like a failure, perhaps of the same fault:"),
            (some, true) => format!("{lines}, {some} more look like failures, perhaps of the same fault:"),
        };
        labelled(out, "log", &text, style, Ansi::new().bold())?;
        for symptom in symptoms
            .iter()
            .filter(of_log)
            .filter(|symptom| !is_recognised(symptom))
        {
            let text = format!("{}: {}", symptom.source, excerpt(&symptom.text));
            labelled(out, "", &text, style, Ansi::new())?;
        }
    } else if !symptoms.iter().any(|symptom| of_log(&symptom)) {
        let lines = count_of(log.lines, "line");
        let text = if let Some(format) = log.packed {
            format!("not read: it is packed ({format}). Unpack it first")
        } else if log.readable == 0 {
            "empty: nothing could be judged".to_owned()
        } else if log.disputed > 0 {
            let failures = match log.disputed {
                1 => "1 looks like a failure and was not judged".to_owned(),
                some => format!("{some} look like failures and were not judged"),
            };
            format!(
                "{lines} that look like documentation about errors; {failures}. To have them judged, pass only what your programs printed"
            )
        } else if log.document {
            format!(
                "{lines} of a text about errors, not of a program: they were not judged. If they are from your programs, pass only those lines"
            )
        } else if log.is_binary() {
            format!("not a log: {} of its {lines} have binary data", log.binary)
        } else {
            format!("no line of a known or suspected RDMA failure in {lines}")
        };
        labelled(out, "log", &text, style, Ansi::new())?;
    }
    let ran_local = log.nodes == Some(1)
        && symptoms
            .iter()
            .any(|symptom| symptom.grade == Grade::Note && symptom.kind != SymptomKind::NoProvider);
    if ran_local {
        let text = "the job ran within one node, where NCCL does not use the network";
        labelled(out, "note", text, style, Ansi::new())?;
    }
    if let Some(bytes) = log.cut_after {
        let text = format!("the log is too long: only its first {} were read", size(bytes));
        labelled(out, "note", &text, style, Ansi::new().bold())?;
    }
    origin(out, report, log, style)
}

/// Where the log was written, if not on this node.
fn origin(out: &mut impl Write, report: &Report<'_>, log: &LogSummary, style: Style) -> std::io::Result<()> {
    let own = report.node.host.hostname.known();
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let foreign = own.is_some_and(|own| !log.hosts.iter().any(|host| short(host) == short(own)));
    if let Some(why) = &log.elsewhere {
        let hosts: Vec<_> = log.hosts.iter().take(4).map(String::as_str).collect();
        let from = match hosts.as_slice() {
            [] => "another node".to_owned(),
            hosts => hosts.join(", "),
        };
        let text = format!(
            "the log is taken to be from {from}: {why}. The facts of this node do not apply to it: run rdma-health check there"
        );
        return labelled(out, "note", &text, style, Ansi::new().bold());
    }
    if foreign && !log.hosts.is_empty() {
        let hosts: Vec<_> = log.hosts.iter().take(4).map(String::as_str).collect();
        let more = if log.hosts.len() > 4 { ", …" } else { "" };
        let text = format!(
            "the errors come from {}{more}, but this is {}: run rdma-health check there, unless these are pods of this node",
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
        .filter(|device| !report.node.network.netdevs.contains_key(*device))
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
    let weight = match symptom.grade {
        Grade::Note if matches!(symptom.kind, SymptomKind::RdmaDisabled) => " (information)",
        Grade::Note if !symptom.kind.is_of_other() => " (without consequence)",
        _ => "",
    };
    format!(
        "{}{times}: {}{weight}{device}: {}",
        symptom.source,
        symptom.kind,
        excerpt(&symptom.text)
    )
}
