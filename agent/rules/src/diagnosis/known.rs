//! What is known of a cause.

use super::{
    symptom::SymptomKind,
    weigh::{Case, Scales},
};

/// How firmly a cause is tied to a symptom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// It is among the rarer causes of the symptom.
    Sometimes,
    /// It is among the usual causes of the symptom.
    Often,
}

impl Link {
    pub(super) fn points(self) -> i32 {
        match self {
            Self::Sometimes => 1,
            Self::Often => 2,
        }
    }
}

/// One cause that is known to the field.
#[derive(Debug)]
pub struct KnownCause {
    /// Its name.
    pub id: &'static str,
    /// What is wrong, in one line.
    pub title: &'static str,
    /// Why it leads to its symptoms.
    pub explanation: &'static str,
    /// What to do next where no finding of a rule says it better.
    pub next_step: &'static str,
    /// Ids of the rules whose findings show it; the one whose remedy goes deepest first.
    pub rules: &'static [&'static str],
    /// The symptoms that it usually explains.
    pub often: &'static [SymptomKind],
    /// The symptoms that it sometimes explains.
    pub sometimes: &'static [SymptomKind],
    /// Puts the facts that speak for and against it on the scales.
    pub(super) weigh: fn(&Case<'_>, &mut Scales),
}

impl KnownCause {
    /// How firmly it is tied to a symptom.
    pub fn link(&self, kind: SymptomKind) -> Option<Link> {
        if self.often.contains(&kind) {
            Some(Link::Often)
        } else {
            self.sometimes.contains(&kind).then_some(Link::Sometimes)
        }
    }
}

pub use super::table::CAUSES;

/// The cause with this id.
pub fn cause(id: &str) -> Option<&'static KnownCause> {
    CAUSES.iter().copied().find(|cause| cause.id == id)
}
