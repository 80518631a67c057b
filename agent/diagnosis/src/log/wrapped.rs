//! Messages that a program wraps over several lines: Open MPI prints its help texts in a frame of dashes.

use super::{families, line::Lower};
use crate::symptom::SymptomKind;

/// The dashes of a frame: Open MPI prints 74. Tables have other lengths.
const DASHES: std::ops::RangeInclusive<usize> = 70..=80;
/// The most lines in a frame; after them it is not one.
const LINES: u8 = 40;
/// The most bytes of a line that are kept for the next one.
const KEPT: usize = 200;

/// The frame that the last lines are in.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// The line before, and how many lines the frame may still have; `None` outside a frame.
    open: Option<(String, u8)>,
}

impl Frame {
    /// Adds a line. Returns the text of the line before and of this one, if this one continues a message.
    pub(super) fn add(&mut self, text: &str) -> Option<String> {
        let trimmed = text.trim();
        if DASHES.contains(&trimmed.len()) && trimmed.bytes().all(|byte| byte == b'-') {
            // Two frames in a row have a line each: the second one opens again.
            let is_closing = self.open.as_ref().is_some_and(|(before, _)| !before.is_empty());
            self.open = (!is_closing).then(|| (String::new(), LINES));
            return None;
        }
        let (before, left) = self.open.as_mut()?;
        let joined = (!before.is_empty() && !trimmed.is_empty() && !is_value(before) && !is_value(trimmed))
            .then(|| format!("{before} {trimmed}"));
        *left -= 1;
        if *left == 0 {
            self.open = None;
        } else if trimmed.is_empty() {
            // A blank line separates the text from the values below it, not two messages.
        } else {
            let mut end = trimmed.len().min(KEPT);
            while !trimmed.is_char_boundary(end) {
                end -= 1;
            }
            trimmed[..end].clone_into(before);
        }
        joined
    }
}

/// Whether a line has a name and its value: `Local host: n1`. `WARNING: …` begins a sentence.
fn is_value(line: &str) -> bool {
    const WORDS: usize = 3;
    line.split_once(':').is_some_and(|(name, _)| {
        name.split_whitespace().count() <= WORDS && name.bytes().any(|byte| byte.is_ascii_lowercase())
    })
}

/// What a message that begins in the line before shows, if neither line shows it alone.
pub(super) fn find(joined: &Lower<'_>, line: &str) -> Option<(SymptomKind, usize)> {
    let line = line.trim().to_ascii_lowercase();
    let before = joined.lower.strip_suffix(&line)?;
    let found = families::find(&joined.lower)?;
    (families::find(&line).is_none() && families::find(before).is_none()).then_some(found)
}
