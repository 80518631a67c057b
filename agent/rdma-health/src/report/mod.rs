//! A verdict for a person or a program to read.

mod cause;
mod json;
mod line;
mod probe;
mod summary;
mod text;

use rdma_health_node::Node;
use rdma_health_rules::{Diagnosis, Status, Verdict};

pub(crate) use cause::{how_sure, in_full, told as told_by_causes};
pub(crate) use json::write as json;
pub(crate) use line::Style;
pub(crate) use probe::write as probe_text;
pub(crate) use text::{headline, outcome, write as text};

/// What is reported: a node, what was found wrong with it, and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report<'a> {
    pub(crate) node: &'a Node,
    pub(crate) verdict: &'a Verdict,
    pub(crate) diagnosis: &'a Diagnosis,
}

impl Report<'_> {
    /// What the node and the log, where one was given, come to.
    pub(crate) fn status(&self) -> Status {
        self.diagnosis.status(self.verdict.status)
    }
}

/// Seconds as a person reads them: `3.2 µs`.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}

/// Bandwidth as the field says it: in Gb/s.
pub(crate) fn gigabits(bytes_per_second: f64) -> String {
    format!("{:.2} Gb/s", bytes_per_second * 8e-9)
}

/// Text from the kernel or a snapshot, fit for a terminal: no control characters.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() {
            c.escape_default().collect()
        } else {
            c.to_string()
        }
    };
    text.chars().map(shown).collect()
}

/// [`count`] of a number that may exceed an address space.
pub(crate) fn count_of(number: u64, noun: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), noun)
}

/// `1 port`, `2 ports`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests;
