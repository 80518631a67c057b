//! How an explanation is laid out: a headline, then labelled texts.

use std::io::{self, Write};

use anstyle::Style as Ansi;
use rdma_health_report::{Style, labelled};

pub(super) fn headline(out: &mut impl Write, kind: &str, id: &str, title: &str) -> io::Result<()> {
    let paint = Ansi::new().bold();
    writeln!(out, "{paint}{kind}{paint:#}  {id}: {title}")
}

pub(super) fn plain(out: &mut impl Write, label: &str, text: &str, style: Style) -> io::Result<()> {
    labelled(out, label, text, style, Ansi::new())
}

pub(super) fn bold(out: &mut impl Write, label: &str, text: &str, style: Style) -> io::Result<()> {
    labelled(out, label, text, style, Ansi::new().bold())
}

/// Several texts under one label, after an empty line.
pub(super) fn list(
    out: &mut impl Write,
    label: &str,
    texts: impl IntoIterator<Item = String>,
    style: Style,
) -> io::Result<()> {
    for (n, text) in texts.into_iter().enumerate() {
        if n == 0 {
            writeln!(out)?;
        }
        plain(out, if n == 0 { label } else { "" }, &text, style)?;
    }
    Ok(())
}

/// A meaning as a sentence: with a capital letter and a full stop.
pub(super) fn sentence(meaning: &str) -> String {
    let mut letters = meaning.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if meaning.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}
