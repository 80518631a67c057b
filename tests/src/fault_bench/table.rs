//! The bench's table: for a terminal, and as a page of the documentation.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::coverage::NOT_INJECTED;
use super::{Outcome, Score};

/// What all outcomes come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Outcomes with at least one fault to be named.
    pub broken: usize,
    /// Of these: every cause named and one of them first.
    pub first: usize,
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
            if outcome.faults.iter().all(|fault| fault.causes.is_empty()) {
                totals.healthy += 1;
            } else {
                totals.broken += 1;
                match outcome.score {
                    Score::First => totals.first += 1,
                    Score::Named => totals.named += 1,
                    Score::Missed => totals.missed += 1,
                }
            }
            totals.false_alarms += usize::from(!outcome.false_alarms.is_empty());
        }
        totals
    }

    /// In one line.
    pub fn line(&self) -> String {
        format!(
            "{} broken nodes: right cause first {}, named {}, missed {}; {} healthy nodes; false alarms on {}",
            self.broken, self.first, self.named, self.missed, self.healthy, self.false_alarms
        )
    }
}

/// One outcome as a line of the terminal.
pub fn line(outcome: &Outcome) -> String {
    let mut line = format!(
        "{:7} {:10} {:44} {}",
        outcome.score.name(),
        outcome.place,
        outcome.name(),
        outcome.answer.first().unwrap_or("-")
    );
    if outcome.score != Score::First {
        let expected: Vec<_> = outcome
            .faults
            .iter()
            .map(|fault| fault.causes.join("|"))
            .collect();
        let _ = write!(line, " (expected {})", expected.join(" and "));
    }
    for (rule, message) in &outcome.false_alarms {
        let _ = write!(line, "\n        FALSE ALARM {rule}: {message}");
    }
    line
}

/// The rows of a table in Markdown.
pub fn markdown(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "| node | fault | how | what is done | expected cause | first guess | score |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for outcome in outcomes {
        let join = |words: Vec<&str>, between: &str| words.join(between);
        let each =
            |part: fn(&super::Fault) -> &'static str| outcome.faults.iter().map(part).collect::<Vec<_>>();
        let mut how = each(|fault| fault.how.name());
        how.dedup();
        let causes: Vec<_> = outcome
            .faults
            .iter()
            .filter(|fault| !fault.causes.is_empty())
            .map(|fault| code(&fault.causes.join(" or ")))
            .collect();
        let alarms: Vec<_> = outcome
            .false_alarms
            .iter()
            .map(|(rule, _)| rule.as_str())
            .collect();
        let mut score = match (
            outcome.faults.iter().any(|fault| !fault.causes.is_empty()),
            outcome.score,
        ) {
            (true, score) => score.name().to_owned(),
            (false, _) => "silent".to_owned(),
        };
        if !alarms.is_empty() {
            score = format!("{score}, FALSE ALARM {}", alarms.join(", "));
        }
        let mut what = each(|fault| fault.what);
        what.dedup();
        let what = if outcome.faults.is_empty() {
            "nothing".into()
        } else {
            join(what, "; ")
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {score} |",
            outcome.place,
            outcome.name(),
            join(how, ", "),
            what,
            if causes.is_empty() {
                "none".into()
            } else {
                causes.join(" and ")
            },
            outcome.answer.first().map_or_else(|| "none".into(), code),
        );
    }
    text
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

fn code(words: &str) -> String {
    words
        .split(" or ")
        .map(|word| format!("`{word}`"))
        .collect::<Vec<_>>()
        .join(" or ")
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
pub fn write(page: &Path, outcomes: &[Outcome]) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("reading {}", page.display()))?;
    let (before, rest) = text
        .split_once(MARKS[0])
        .context("the page has no mark for the begin of the table")?;
    let (_, after) = rest
        .split_once(MARKS[1])
        .context("the page has no mark for the end of the table")?;
    let totals = Totals::of(outcomes).line();
    let text = format!(
        "{before}{}\n\n{totals}.\n\n{}\n{}\n{}{after}",
        MARKS[0],
        markdown(outcomes),
        left_out(),
        MARKS[1]
    );
    fs::write(page, text).with_context(|| format!("writing {}", page.display()))
}
