//! The verdict as text: what is wrong first, why, and what to do; then what is fine, in one line per domain.

use std::{collections::BTreeSet, io::Write};

use anstyle::{AnsiColor, Style as Ansi};
use rdma_health_node::Node;
use rdma_health_protocol::{ProbeReport, Stage};
use rdma_health_rules::{Domain, Finding, Severity, Status, Verdict, failure_in_words};

use super::{count, gigabits, printable, seconds, summary};

/// The most messages or pieces of evidence that one paragraph shows.
const SHOWN: usize = 8;
/// Columns before the text of a labelled line.
const INDENT: usize = 12;

/// How to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Columns to use.
    pub(crate) width: usize,
}

impl Style {
    /// The terminal's width, or 100 columns where the output is none.
    pub(crate) fn of_terminal() -> Self {
        let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col);
        // A very wide terminal is no reason for very long lines.
        Self {
            width: if columns == 0 {
                100
            } else {
                usize::from(columns).clamp(40, 120)
            },
        }
    }
}

fn colour(severity: Severity) -> Ansi {
    let colour = match severity {
        Severity::Critical => AnsiColor::Red,
        Severity::Warning => AnsiColor::Yellow,
        Severity::Info => AnsiColor::Cyan,
    };
    colour.on_default().bold()
}

fn status_colour(status: Status) -> Ansi {
    match status {
        Status::Ok => AnsiColor::Green.on_default().bold(),
        Status::Warning => colour(Severity::Warning),
        Status::Critical => colour(Severity::Critical),
        Status::Unknown => AnsiColor::Magenta.on_default().bold(),
    }
}

/// Writes the whole report. Escape sequences are the stream's to strip where it is no terminal.
///
/// # Errors
/// The system's.
pub(crate) fn write(
    out: &mut impl Write,
    node: &Node,
    verdict: &Verdict,
    style: Style,
) -> std::io::Result<()> {
    headline(out, node, verdict)?;
    let mut rest = verdict.findings.as_slice();
    while let Some(first) = rest.first() {
        // Findings of one rule and severity stand together: the catalogue's order is theirs.
        let same = rest
            .iter()
            .take_while(|f| f.rule == first.rule && f.severity == first.severity)
            .count();
        let (group, others) = rest.split_at(same);
        writeln!(out)?;
        paragraph(out, group, style)?;
        rest = others;
    }
    let troubled: BTreeSet<Domain> = verdict
        .findings
        .iter()
        .filter(|finding| finding.severity > Severity::Info)
        .map(|finding| finding.domain)
        .collect();
    writeln!(out)?;
    for domain in Domain::ALL
        .into_iter()
        .filter(|domain| !troubled.contains(domain))
    {
        let line = printable(&summary::of(domain, node));
        labelled(out, domain.name(), &line, style, Ansi::new().dimmed())?;
    }
    Ok(())
}

fn headline(out: &mut impl Write, node: &Node, verdict: &Verdict) -> std::io::Result<()> {
    let paint = status_colour(verdict.status);
    let host = node.host.hostname.known().map_or("this node", String::as_str);
    let kernel = node
        .host
        .kernel
        .known()
        .map(|kernel| format!(" (Linux {kernel})"))
        .unwrap_or_default();
    write!(
        out,
        "{paint}{}{paint:#}  {}{}: ",
        verdict.status.name().to_uppercase(),
        printable(host),
        printable(&kernel)
    )?;
    let number = |severity| {
        verdict
            .findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let (critical, warning) = (number(Severity::Critical), number(Severity::Warning));
    match (&verdict.unknown_because, critical, warning) {
        (Some(why), 0, _) => writeln!(out, "{}", printable(why)),
        (_, 0, 0) => writeln!(out, "nothing wrong found"),
        (_, 0, _) => writeln!(out, "{}", count(warning, "warning")),
        (_, _, 0) => writeln!(out, "{}", count(critical, "critical finding")),
        _ => writeln!(
            out,
            "{}, {}",
            count(critical, "critical finding"),
            count(warning, "warning")
        ),
    }
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
    for finding in group.iter().take(SHOWN) {
        labelled(out, "", &printable(&finding.message), style, Ansi::new())?;
    }
    if group.len() > SHOWN {
        labelled(
            out,
            "",
            &format!("and {} more", group.len() - SHOWN),
            style,
            Ansi::new(),
        )?;
    }
    let mut seen = BTreeSet::new();
    let evidence = group.iter().flat_map(|finding| &finding.evidence);
    let evidence: Vec<_> = evidence.filter(|e| seen.insert((&e.source, &e.value))).collect();
    for (n, piece) in evidence.iter().take(SHOWN).enumerate() {
        let line = printable(&format!("{}: {}", piece.source, piece.value));
        labelled(
            out,
            if n == 0 { "evidence" } else { "" },
            &line,
            style,
            Ansi::new().dimmed(),
        )?;
    }
    if evidence.len() > SHOWN {
        labelled(
            out,
            "",
            &format!("and {} more", evidence.len() - SHOWN),
            style,
            Ansi::new().dimmed(),
        )?;
    }
    labelled(out, "remedy", &first.remedy, style, Ansi::new().bold())
}

/// A label, then text wrapped beside it.
fn labelled(out: &mut impl Write, label: &str, text: &str, style: Style, paint: Ansi) -> std::io::Result<()> {
    let indent = " ".repeat(INDENT);
    let options = textwrap::Options::new(style.width.saturating_sub(INDENT).max(20)).break_words(false);
    for (n, line) in textwrap::wrap(text, options).iter().enumerate() {
        if n == 0 {
            writeln!(out, "  {paint}{label:<width$}{paint:#}{line}", width = INDENT - 2)?;
        } else {
            writeln!(out, "{indent}{line}")?;
        }
    }
    Ok(())
}

/// Writes what came of one probe, in one line.
///
/// # Errors
/// The system's.
pub(crate) fn probe(out: &mut impl Write, report: &ProbeReport) -> std::io::Result<()> {
    let port = printable(&format!("{}:{}", report.device, report.port));
    if let Some(failure) = &report.failure {
        let paint = colour(Severity::Critical);
        let stage = report.stage.name();
        return writeln!(
            out,
            "{port}  {paint}failed{paint:#} at {stage}: {}",
            printable(&failure_in_words(failure))
        );
    }
    debug_assert_eq!(report.stage, Stage::Done);
    let paint = status_colour(Status::Ok);
    write!(out, "{port}  {paint}passed{paint:#}")?;
    if let Some(bandwidth) = &report.bandwidth {
        write!(
            out,
            "  {} ({} of {} bytes in {})",
            gigabits(bandwidth.bytes_per_second),
            bandwidth.bytes / u64::from(bandwidth.message_size.max(1)),
            bandwidth.message_size,
            seconds(bandwidth.seconds),
        )?;
    }
    if let Some(latency) = &report.latency {
        let (min, median, p99) = (
            seconds(latency.min),
            seconds(latency.median),
            seconds(latency.p99),
        );
        write!(out, "  latency min {min}, median {median}, p99 {p99}")?;
    }
    if let Some(gid) = &report.gid {
        write!(
            out,
            "  GID {} at index {} ({})",
            gid.gid,
            gid.index,
            gid.kind.name()
        )?;
    }
    writeln!(out)
}
