//! The type of an entry in the table of known causes.

use rdma_health_rules::{Finding, FindingCase, Rule};

use crate::{
    symptom::SymptomKind,
    weigh::{Case, Scales},
};

/// How often a cause is behind a symptom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// One of the rarer causes of the symptom.
    Sometimes,
    /// One of the usual causes of the symptom.
    Often,
}

impl Link {
    pub(crate) fn points(self) -> i32 {
        match self {
            Self::Sometimes => 1,
            Self::Often => 2,
        }
    }
}

/// One known cause.
#[derive(Debug)]
pub struct KnownCause {
    /// Its id.
    pub id: &'static str,
    /// What is wrong, in one line.
    pub title: &'static str,
    /// Why it leads to its symptoms.
    pub explanation: &'static str,
    /// The next step if no finding has a more specific remedy.
    pub next_step: &'static str,
    /// The rules whose findings show it; first the one whose remedy is the most fundamental.
    pub rules: &'static [&'static Rule],
    /// For a rule that distinguishes several cases: the cases that show this cause.
    pub cases: &'static [FindingCase],
    /// The symptoms that it usually explains.
    pub often: &'static [SymptomKind],
    /// The symptoms that it sometimes explains.
    pub sometimes: &'static [SymptomKind],
    /// Adds the facts for and against it to the scales.
    pub(crate) weigh: fn(&Case<'_>, &mut Scales),
}

impl KnownCause {
    /// The findings that show it, in the order of its rules.
    pub(crate) fn shown_by<'a>(&self, findings: &'a [Finding]) -> Vec<&'a Finding> {
        let is_of_its_cases = |finding: &&Finding| finding.case.is_none_or(|case| self.cases.contains(&case));
        self.rules
            .iter()
            .flat_map(|rule| findings.iter().filter(move |finding| finding.rule == *rule))
            .filter(is_of_its_cases)
            .collect()
    }

    /// Its link to a symptom, if it explains the symptom at all.
    pub fn link(&self, kind: SymptomKind) -> Option<Link> {
        if self.often.contains(&kind) {
            Some(Link::Often)
        } else {
            self.sometimes.contains(&kind).then_some(Link::Sometimes)
        }
    }
}
