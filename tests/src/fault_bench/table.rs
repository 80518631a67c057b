//! The bench's table: for a terminal, and as a page of the documentation.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::coverage::NOT_INJECTED;
use super::field_cases::{self, FieldOutcome};
use super::{Fault, Outcome, Score};

/// What all outcomes come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Outcomes with at least one fault to be named.
    pub broken: usize,
    /// Of these: every cause named and one of them first.
    pub first: usize,
    /// Of these: the answer is wrong in a way that the fault names and explains.
    pub known_misses: usize,
    /// Of these: every cause named, something else first.
    pub named: usize,
    /// Of these: a cause not named.
    pub missed: usize,
    /// Nodes without a fault.
    pub healthy: usize,
    /// Outcomes with a finding of warning or above that nothing explains.
    pub false_alarms: usize,
}

impl Totals {
    /// Counts.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let mut totals = Self::default();
        for outcome in outcomes {
            if outcome.is_broken() {
                totals.broken += 1;
                match outcome.score {
                    Score::First | Score::Outdated => totals.first += 1,
                    Score::KnownMiss => totals.known_misses += 1,
                    Score::Named => totals.named += 1,
                    Score::Missed => totals.missed += 1,
                }
            } else {
                totals.healthy += 1;
            }
            totals.false_alarms += usize::from(!outcome.false_alarms.is_empty());
        }
        totals
    }

    /// In one line.
    pub fn line(&self) -> String {
        format!(
            "{} broken nodes: right cause first {}, known misses {}, not first {}, missed {}; {} healthy nodes; false \
             alarms on {}",
            self.broken,
            self.first,
            self.known_misses,
            self.named,
            self.missed,
            self.healthy,
            self.false_alarms
        )
    }
}

/// One outcome as a line of the terminal.
pub fn line(outcome: &Outcome) -> String {
    let mut line = format!(
        "{:10} {:10} {:44} {}",
        outcome.score.name(),
        outcome.place,
        outcome.name(),
        outcome.answer.first().unwrap_or("-")
    );
    if outcome.score != Score::First {
        let expected: Vec<_> = expected(outcome).collect();
        let _ = write!(line, " (expected {})", expected.join(" and "));
    }
    for reason in outcome.reasons() {
        let _ = write!(line, "\n           {reason}");
    }
    for (rule, message) in &outcome.false_alarms {
        let _ = write!(line, "\n           FALSE ALARM {rule}: {message}");
    }
    line
}

fn expected(outcome: &Outcome) -> impl Iterator<Item = &'static str> {
    outcome.faults.iter().filter_map(|fault| fault.expected)
}

/// The rows of a table in Markdown.
pub fn markdown(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "| node | fault | how | what is done | expected cause | first guess | score |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for outcome in outcomes {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            outcome.place,
            outcome.name(),
            each(outcome, |fault| fault.how.name()).join(", "),
            or("nothing", &each(outcome, |fault| fault.what).join("; ")),
            or(
                "none",
                &expected(outcome).map(code).collect::<Vec<_>>().join(" and ")
            ),
            or("none", &outcome.answer.first().map_or_else(String::new, code)),
            score(outcome),
        );
    }
    text
}

/// What is so of the faults, each thing once where it follows itself.
fn each(outcome: &Outcome, part: fn(&Fault) -> &'static str) -> Vec<&'static str> {
    let mut parts: Vec<_> = outcome.faults.iter().map(part).collect();
    parts.dedup();
    parts
}

fn or<'a>(nothing: &'a str, text: &'a str) -> &'a str {
    if text.is_empty() { nothing } else { text }
}

/// The score, with the reasons of a known miss, and false alarms.
fn score(outcome: &Outcome) -> String {
    let mut words = match (outcome.is_broken(), outcome.score) {
        (false, Score::First) => "silent".to_owned(),
        (_, score) => score.name().to_owned(),
    };
    for reason in outcome.reasons() {
        let _ = write!(words, ": {reason}");
    }
    for (rule, _) in &outcome.false_alarms {
        let _ = write!(words, ", FALSE ALARM {rule}");
    }
    words
}

fn code(word: &str) -> String {
    format!("`{word}`")
}

/// The rules that no fault must be named by.
fn left_out() -> String {
    let mut text = String::from(
        "Every rule of the catalogue is what at least one of these faults must be named by, but for:\n\n",
    );
    for (rule, why) in NOT_INJECTED {
        let _ = writeln!(text, "- `{rule}`: {why}.");
    }
    text
}

/// The field cases that are not answered as expected, after their totals.
fn of_the_field(outcomes: &[FieldOutcome]) -> String {
    let mut text = format!("## Field cases\n\n{}.\n\n", field_cases::totals(outcomes));
    for outcome in outcomes.iter().filter(|outcome| !outcome.passed()) {
        let _ = writeln!(
            text,
            "- `{}`: {}, first guess {}",
            outcome.case.name,
            outcome.score.name().to_lowercase(),
            outcome.first.as_deref().map_or_else(|| "none".to_owned(), code)
        );
    }
    text
}

/// The lines of the page between which the table stands.
const MARKS: [&str; 2] = [
    "<!-- table: begin (make fault-bench writes it) -->",
    "<!-- table: end -->",
];

/// Puts the table and the totals between the marks of a page.
///
/// # Errors
/// Where the page cannot be read or written, or has no marks.
pub fn write(page: &Path, outcomes: &[Outcome], field: &[FieldOutcome]) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("reading {}", page.display()))?;
    let (before, rest) = text
        .split_once(MARKS[0])
        .context("the page has no mark for the begin of the table")?;
    let (_, after) = rest
        .split_once(MARKS[1])
        .context("the page has no mark for the end of the table")?;
    let totals = Totals::of(outcomes).line();
    let text = format!(
        "{before}{}\n\n{totals}.\n\n{}\n{}\n{}\n{}{after}",
        MARKS[0],
        markdown(outcomes),
        left_out(),
        of_the_field(field),
        MARKS[1]
    );
    fs::write(page, text).with_context(|| format!("writing {}", page.display()))
}
