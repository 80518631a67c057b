//! Labelled lines, wrapped to the width of the terminal, and colours.

use std::io::Write;

use anstyle::{AnsiColor, Style as Ansi};
use rdma_health_diagnosis::Confidence;
use rdma_health_node::words::printable;
use rdma_health_rules::{Severity, Status};

/// Columns before the text of a labelled line.
const INDENT: usize = 14;
/// Maximum number of texts under one label, in the full and in the short report.
const SHOWN: usize = 8;
const SHOWN_IN_SHORT: usize = 2;
/// Maximum number of lines of a wrapped text in the short report.
const LINES_IN_SHORT: usize = 4;

/// The layout of the output.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Width in columns.
    pub width: usize,
    /// Whether all evidence is shown.
    pub verbose: bool,
}

impl Style {
    /// The terminal's width; if the output is not a terminal, `COLUMNS`, otherwise 100 columns.
    pub fn of_terminal() -> Self {
        let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col);
        let variable = || std::env::var("COLUMNS").ok()?.parse().ok();
        let columns = Some(usize::from(terminal)).filter(|columns| *columns > 0);
        // Very long lines are hard to read, even on a wide terminal.
        let width = columns
            .or_else(variable)
            .map_or(100, |columns: usize| columns.clamp(40, 120));
        Self {
            width,
            verbose: false,
        }
    }

    /// The same with or without all evidence.
    #[must_use]
    pub fn verbose(self, verbose: bool) -> Self {
        Self { verbose, ..self }
    }

    /// Columns for the text of a labelled line.
    fn room(self) -> usize {
        self.width.saturating_sub(INDENT).max(20)
    }
}

/// The colour of a severity.
pub fn colour(severity: Severity) -> Ansi {
    let colour = match severity {
        Severity::Critical => AnsiColor::Red,
        Severity::Warning => AnsiColor::Yellow,
        Severity::Info => AnsiColor::Cyan,
    };
    colour.on_default().bold()
}

/// The colour of a status.
pub fn status_colour(status: Status) -> Ansi {
    match status {
        Status::Ok => AnsiColor::Green.on_default().bold(),
        Status::Warning => colour(Severity::Warning),
        Status::Critical => colour(Severity::Critical),
        Status::Unknown => AnsiColor::Magenta.on_default().bold(),
    }
}

/// The colour of a cause: that of its severity if it is likely.
pub(super) fn cause_colour(confidence: Confidence, severity: Severity) -> Ansi {
    match confidence {
        Confidence::Likely => colour(severity),
        Confidence::Possible => Ansi::new().bold(),
        Confidence::Unlikely => Ansi::new().dimmed(),
    }
}

/// A label, followed by wrapped text. The text is untrusted.
///
/// # Errors
/// If writing fails.
pub fn labelled(
    out: &mut impl Write,
    label: &str,
    text: &str,
    style: Style,
    paint: Ansi,
) -> std::io::Result<()> {
    let indent = " ".repeat(INDENT);
    let text = printable(text);
    // Break a path that is longer than a line; the terminal would break it worse.
    let options = textwrap::Options::new(style.room())
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

/// What to do: a wrapped text whose further lines are commands. A command is not wrapped, so that it can be pasted.
pub(super) fn instructions(
    out: &mut impl Write,
    label: &str,
    text: &str,
    style: Style,
    paint: Ansi,
) -> std::io::Result<()> {
    let mut lines = text.lines();
    let prose = lines.next().unwrap_or_default();
    let room = style.room() * LINES_IN_SHORT;
    let prose = if style.verbose {
        prose.to_owned()
    } else {
        cut(prose, room - style.room() / 4)
    };
    labelled(out, label, &prose, style, paint)?;
    for command in lines {
        writeln!(out, "    {}", printable(command))?;
    }
    Ok(())
}

/// The start of a text, with `…` if it is longer than `room` columns.
fn cut(text: &str, room: usize) -> String {
    if text.char_indices().nth(room).is_none() {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// The same where the first text is the point: it has two lines in the short report.
pub(super) fn list_wrapped(
    out: &mut impl Write,
    label: &str,
    texts: &[String],
    style: Style,
) -> std::io::Result<()> {
    match texts.split_first() {
        Some((first, others)) if !style.verbose => {
            let room = style.room();
            labelled(
                out,
                label,
                &cut(&printable(first), 2 * room - room / 8),
                style,
                Ansi::new(),
            )?;
            list(out, "", &others[..others.len().min(1)], style, Ansi::new())
        }
        _ => list(out, label, texts, style, Ansi::new()),
    }
}

/// The first few of several texts under one label. In the short report each has one line.
pub(super) fn list(
    out: &mut impl Write,
    label: &str,
    texts: &[String],
    style: Style,
    paint: Ansi,
) -> std::io::Result<()> {
    if !style.verbose {
        let more = texts.len().saturating_sub(SHOWN_IN_SHORT);
        for (n, text) in texts.iter().take(SHOWN_IN_SHORT).enumerate() {
            let is_last = n + 1 == SHOWN_IN_SHORT && more > 0;
            let suffix = if is_last {
                format!(" (and {more} more)")
            } else {
                String::new()
            };
            let text = cut(&printable(text), style.room().saturating_sub(suffix.len()));
            let label = if n == 0 { label } else { "" };
            labelled(out, label, &format!("{text}{suffix}"), style, paint)?;
        }
        return Ok(());
    }
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
