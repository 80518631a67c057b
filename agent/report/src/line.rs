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
    // Break a path that is longer than a line; the terminal would break it worse. An address that is broken cannot be opened.
    let options = textwrap::Options::new(style.room())
        .break_words(!text.contains("://"))
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
    let prose = if style.verbose {
        prose.to_owned()
    } else {
        shortened(&printable(prose), style)
    };
    labelled(out, label, &prose, style, paint)?;
    for command in lines {
        writeln!(out, "    {}", printable(command))?;
    }
    Ok(())
}

/// What to do in at most [`LINES_IN_SHORT`] lines, as far as whole sentences permit: half a command is of no use. Sentences without a
/// command go first, and the first sentence stays. What is to be done first stays, too: what follows it is of no use alone.
fn shortened(prose: &str, style: Style) -> String {
    const MORE: &str = " (--verbose shows the rest)";
    let mut sentences = sentences(prose);
    let fits = |text: &str| textwrap::wrap(text, style.room()).len() <= LINES_IN_SHORT;
    let mut text = prose.to_owned();
    while !fits(&text) && sentences.len() > 1 {
        // The first sentence goes last, unless what to do first would go instead.
        let is_first = |sentence: &&str| sentence.starts_with("First ");
        let can_go = |keeps_commands: bool| {
            let mut rest = sentences.iter().skip(1);
            rest.rposition(|sentence| !(is_first(sentence) || keeps_commands && has_command(sentence)))
        };
        let at = can_go(true).or_else(|| can_go(false)).map_or(0, |at| at + 1);
        sentences.remove(at);
        text = format!("{}{MORE}", sentences.join(" "));
    }
    text
}

/// The sentences of a text: each ends with a full stop before a capital letter.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(at) = rest[from..].find(". ").map(|at| from + at + 1) {
        let (sentence, next) = rest.split_at(at);
        if next[1..].starts_with(|c: char| c.is_ascii_uppercase()) {
            found.push(sentence);
            rest = &next[1..];
            from = 0;
        } else {
            from = at;
        }
    }
    if !rest.is_empty() {
        found.push(rest);
    }
    found
}

/// Whether a sentence contains a command to paste: it has an option, a path, a pipe or a setting.
fn has_command(sentence: &str) -> bool {
    let mut words = sentence.split(' ');
    words.any(|word| word.starts_with(['-', '/']) && word.len() > 1 || word == "|" || word.contains('='))
}

/// The source of a line of the kernel log with the begin and the end of the line: the one says what it is about, the other what happened.
fn cut_log(text: &str, room: usize) -> Option<String> {
    const SOURCE: &str = "/dev/kmsg";
    let (source, line) = text
        .split_once(": ")
        .filter(|(source, _)| source.starts_with(SOURCE))?;
    let (length, left) = (
        line.chars().count(),
        room.checked_sub(source.chars().count() + 4)?,
    );
    // One of the columns is that of the dots.
    let (begin, end) = (left.div_ceil(2), left / 2);
    let first: String = line.chars().take(begin).collect();
    let last: String = line.chars().skip(length.saturating_sub(end)).collect();
    (length > left).then(|| format!("{source}: {first}…{last}"))
}

/// The start of a text, with `…` if it is longer than `room` columns.
pub(super) fn cut(text: &str, room: usize) -> String {
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

/// How many of several texts are not among the first; the last one may stand for more (`and more: 94`).
fn hidden(texts: &[String], first: usize) -> usize {
    let rest = texts.len().saturating_sub(first);
    let last = texts.last().filter(|_| rest > 0);
    let stands_for = last.and_then(|text| text.strip_prefix("and more: ")?.parse::<usize>().ok());
    rest + stands_for.map_or(0, |number| number.saturating_sub(1))
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
        let more = hidden(texts, SHOWN_IN_SHORT);
        for (n, text) in texts.iter().take(SHOWN_IN_SHORT).enumerate() {
            let is_last = n + 1 == SHOWN_IN_SHORT && more > 0;
            let suffix = if is_last {
                format!(" (and {more} more)")
            } else {
                String::new()
            };
            let (text, room) = (printable(text), style.room().saturating_sub(suffix.len()));
            let text = cut_log(&text, room).unwrap_or_else(|| cut(&text, room));
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
            &format!("and {} more", hidden(texts, SHOWN)),
            style,
            paint,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_stands_for_others_counts_as_them() {
        let texts: Vec<String> = ["a", "b", "c", "and more: 94"].map(str::to_owned).into();
        assert_eq!(hidden(&texts, 2), 95);
        assert_eq!(hidden(&texts, 4), 0);
        assert_eq!(hidden(&texts[..3], 2), 1);
    }

    #[test]
    fn of_a_line_of_the_kernel_log_the_begin_and_the_end_are_shown() {
        let line = "/dev/kmsg at 9 s: mlx5_core 0000:14:00.0: Port module event[error]: module 0, Cable error, High Temperature";
        let shown = cut_log(line, 60).unwrap();
        assert!(
            shown.starts_with("/dev/kmsg at 9 s: mlx5_core 0000:14")
                && shown.ends_with("…or, High Temperature"),
            "{shown}"
        );
        assert!(shown.chars().count() <= 60, "{shown}");
        assert_eq!(cut_log("/dev/kmsg: short", 60), None);
        assert_eq!(cut_log(&line.replace("/dev", "/sys"), 60), None);
    }

    #[test]
    fn a_command_is_never_cut() {
        let text = "Check the switch port first, because most links that are down are down there. Clean and reseat both ends of the \
            cable. Compare the port with its neighbours. If the cable is known to be good, replace the module, and then the adapter. \
            Read the link: mlxlink -d 0000:18:00.0 --port_type NETWORK -m. Read the messages: journalctl -k -b | grep 0000:18:00.0. \
            Then drain the node and open a case with the vendor, including both outputs.";
        for width in [80, 100, 120] {
            let style = Style {
                width,
                verbose: false,
            };
            let shown = shortened(text, style);
            for command in [
                "mlxlink -d 0000:18:00.0 --port_type NETWORK -m",
                "journalctl -k -b | grep 0000:18:00.0.",
            ] {
                assert!(shown.contains(command), "{width}: {shown}");
            }
            let room = style.room();
            assert!(
                width < 80 || textwrap::wrap(&shown, room).len() <= LINES_IN_SHORT,
                "{width}: {shown}"
            );
            assert!(!shown.contains('…'), "{width}: {shown}");
        }
        let steps = "The firmware refused it, and the reason is not in its message, which has a number only that no one outside of the vendor can \
            read. First unset what the job sets of service levels and traffic classes, which are of one kind of network only and are refused \
            on the other one, whatever the adapter. Then compare the versions: ethtool -i eth0, ibv_devinfo | grep fw_ver, ofed_info -s.";
        let style = Style {
            width: 80,
            verbose: false,
        };
        assert!(shortened(steps, style).contains("First unset"));
        let one = "Run a command that is long ".repeat(40);
        assert_eq!(
            shortened(
                &one,
                Style {
                    width: 80,
                    verbose: false
                }
            ),
            one
        );
    }
}
