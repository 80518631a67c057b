//! Labelled lines, wrapped to the width at hand, and colours.

use std::io::Write;

use anstyle::{AnsiColor, Style as Ansi};
use rdma_health_rules::{Severity, Status, diagnosis::Confidence};

use super::printable;

/// Columns before the text of a labelled line.
const INDENT: usize = 14;
/// The most lines of one kind that one paragraph shows.
pub(super) const SHOWN: usize = 8;

/// How to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Columns to use.
    pub(crate) width: usize,
}

impl Style {
    /// The terminal's width; where the output is none, what COLUMNS says, or 100 columns.
    pub(crate) fn of_terminal() -> Self {
        let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col);
        let told = || std::env::var("COLUMNS").ok()?.parse().ok();
        let columns = Some(usize::from(terminal)).filter(|columns| *columns > 0);
        // A very wide terminal is no reason for very long lines.
        let width = columns
            .or_else(told)
            .map_or(100, |columns: usize| columns.clamp(40, 120));
        Self { width }
    }
}

pub(super) fn colour(severity: Severity) -> Ansi {
    let colour = match severity {
        Severity::Critical => AnsiColor::Red,
        Severity::Warning => AnsiColor::Yellow,
        Severity::Info => AnsiColor::Cyan,
    };
    colour.on_default().bold()
}

pub(super) fn status_colour(status: Status) -> Ansi {
    match status {
        Status::Ok => AnsiColor::Green.on_default().bold(),
        Status::Warning => colour(Severity::Warning),
        Status::Critical => colour(Severity::Critical),
        Status::Unknown => AnsiColor::Magenta.on_default().bold(),
    }
}

/// The colour of a cause: as its severity where it is likely.
pub(super) fn cause_colour(confidence: Confidence, severity: Severity) -> Ansi {
    match confidence {
        Confidence::Likely => colour(severity),
        Confidence::Possible => Ansi::new().bold(),
        Confidence::Unlikely => Ansi::new().dimmed(),
    }
}

/// A label, then text wrapped beside it. The text may be anything.
pub(super) fn labelled(
    out: &mut impl Write,
    label: &str,
    text: &str,
    style: Style,
    paint: Ansi,
) -> std::io::Result<()> {
    let indent = " ".repeat(INDENT);
    let text = printable(text);
    // A path that does not fit a line is broken: what runs over the edge of a terminal is broken worse.
    let options = textwrap::Options::new(style.width.saturating_sub(INDENT).max(20))
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    for (n, line) in textwrap::wrap(&text, options).iter().enumerate() {
        if n == 0 {
            writeln!(out, "  {paint}{label:<width$}{paint:#}{line}", width = INDENT - 2)?;
        } else {
            writeln!(out, "{indent}{line}")?;
        }
    }
    Ok(())
}

/// Several texts under one label, the first few of them.
pub(super) fn list(
    out: &mut impl Write,
    label: &str,
    texts: &[String],
    style: Style,
    paint: Ansi,
) -> std::io::Result<()> {
    for (n, text) in texts.iter().take(SHOWN).enumerate() {
        labelled(out, if n == 0 { label } else { "" }, text, style, paint)?;
    }
    if texts.len() > SHOWN {
        labelled(
            out,
            "",
            &format!("and {} more", texts.len() - SHOWN),
            style,
            paint,
        )?;
    }
    Ok(())
}
