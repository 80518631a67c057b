//! How good an answer is.

use super::{Answer, Fault, joined};

/// How good an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Score {
    /// Every cause is named, and one of them first. Where nothing is wrong: nothing is said.
    First,
    /// The answer is wrong as the fault expects: it names the wrong answer and the reason.
    KnownMiss,
    /// The fault lists a known miss, but the answer is right: the known miss is outdated.
    Outdated,
    /// Every cause is named, but something else comes first.
    Named,
    /// A cause is not named.
    Missed,
}

impl Score {
    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::KnownMiss => "known miss",
            Self::Outdated => "OUTDATED",
            Self::Named => "NAMED",
            Self::Missed => "MISSED",
        }
    }
}

/// One row of the table: faults injected together, and what came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The machine or the tree.
    pub place: String,
    /// The faults; none on a node that is healthy, two in a pair.
    pub faults: Vec<Fault>,
    /// What the doctor said.
    pub answer: Answer,
    /// How good that is.
    pub score: Score,
    /// What it said that no fault explains: rule and message.
    pub false_alarms: Vec<(String, String)>,
}

impl Outcome {
    /// Scores `answer` for a node in which `faults` were injected.
    pub fn of(place: impl Into<String>, faults: &[&Fault], answer: Answer) -> Self {
        let explained = |rule: &str| {
            faults
                .iter()
                .flat_map(|fault| fault.expected.iter().chain(fault.explains))
                .any(|id| *id == rule)
        };
        let false_alarms = answer
            .findings
            .iter()
            .filter(|(rule, _)| !explained(rule))
            .cloned()
            .collect();
        Self {
            place: place.into(),
            faults: faults.iter().map(|fault| **fault).collect(),
            score: score(faults, &answer),
            answer,
            false_alarms,
        }
    }

    /// What was injected, by name.
    pub fn name(&self) -> String {
        if self.faults.is_empty() {
            "healthy".into()
        } else {
            joined(self.faults.iter().map(|fault| fault.id))
        }
    }

    /// Whether anything that was injected must be named.
    pub fn is_broken(&self) -> bool {
        self.faults.iter().any(|fault| fault.expected.is_some())
    }

    /// Why a wrong answer is accepted; nothing unless one was.
    pub fn reasons(&self) -> Vec<&'static str> {
        let accepted = self.score == Score::KnownMiss;
        self.faults
            .iter()
            .filter_map(|fault| fault.known_miss.filter(|_| accepted))
            .map(|miss| miss.reason)
            .collect()
    }

    /// Whether the doctor passed: the right cause first, or a miss that is known, and no false alarm.
    pub fn passed(&self) -> bool {
        matches!(self.score, Score::First | Score::KnownMiss) && self.false_alarms.is_empty()
    }
}

fn score(faults: &[&Fault], answer: &Answer) -> Score {
    let broken: Vec<_> = faults.iter().filter(|fault| fault.expected.is_some()).collect();
    let Some(first) = answer.guesses.first() else {
        let excused = |fault: &&&Fault| fault.known_miss.is_some_and(|miss| miss.answer.is_none());
        return match broken.as_slice() {
            [] => Score::First,
            broken if broken.iter().all(excused) => Score::KnownMiss,
            _ => Score::Missed,
        };
    };
    let is_named = |fault: &&&Fault| answer.guesses.iter().any(|guess| guess.names(fault));
    let unnamed: Vec<_> = broken.iter().filter(|fault| !is_named(fault)).collect();
    if unnamed.iter().any(|fault| fault.known_miss.is_none()) {
        return Score::Missed;
    }
    let is_known = |fault: &&&Fault| {
        fault
            .known_miss
            .is_some_and(|miss| miss.answer == Some(first.name.as_str()))
    };
    if broken.iter().any(is_known) {
        return Score::KnownMiss;
    }
    match broken.as_slice() {
        broken if !broken.iter().any(|fault| first.names(fault)) => Score::Named,
        // Two faults compete for the first place, so only a fault on its own shows that its known miss is outdated.
        [only] if only.known_miss.is_some() => Score::Outdated,
        _ if unnamed.is_empty() => Score::First,
        _ => Score::KnownMiss,
    }
}
