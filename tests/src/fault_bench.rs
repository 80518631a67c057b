//! The fault bench: breaks a node in one known way, or in two, asks the doctor, and scores its answer.
//!
//! A [`Fault`] says what is broken, which cause must be named, and which findings follow from it. Faults are injected for
//! real into virtual nodes ([`scenes`]) or, where no emulated machine has the hardware, into trees modelled on the field
//! ([`trees`]). Before each injection the node must be healthy in the doctor's eyes. The answer afterwards gets a
//! [`Score`]; see [`Outcome`] for how.

pub mod coverage;
mod doctor;
pub mod field_cases;
pub mod live;
mod outcome;
pub mod scenes;
pub mod table;
pub mod trees;

pub use doctor::{Answer, Guess};
pub use outcome::{Outcome, Score};

/// How a fault comes into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A running kernel is in this state.
    Real,
    /// A running kernel, with one line written where the kernel would write it.
    Written,
    /// A changed copy of a tree.
    Tree,
}

impl How {
    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Written => "written",
            Self::Tree => "tree",
        }
    }
}

/// One thing that can be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Its name, for the table and for the command line.
    pub id: &'static str,
    /// What is done, in one line.
    pub what: &'static str,
    /// How it comes into being.
    pub how: How,
    /// The one right answer: a cause of the diagnosis, or a rule. A cause that holds a finding of that rule is right, too.
    /// `None`: nothing is wrong, and nothing may be reported.
    pub expected: Option<&'static str>,
    /// Rules whose findings follow from it. They may be reported, but they are not the answer.
    pub explains: &'static [&'static str],
    /// The wrong answer that is known, if there is one.
    pub known_miss: Option<KnownMiss>,
}

/// A wrong answer that is known, with the reason, which the table prints. It is accepted until the answer is right: then it
/// must be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownMiss {
    /// The first guess; `None` if nothing is reported.
    pub answer: Option<&'static str>,
    /// Why the answer is wrong, as a part of a sentence.
    pub reason: &'static str,
}

impl Fault {
    /// A fault, the one answer that is right, and the rules that may fire with it.
    pub const fn new(
        how: How,
        id: &'static str,
        what: &'static str,
        expected: &'static str,
        explains: &'static [&'static str],
    ) -> Self {
        Self {
            id,
            what,
            how,
            expected: Some(expected),
            explains,
            known_miss: None,
        }
    }

    /// A state that looks like a fault and is none.
    pub const fn harmless(how: How, id: &'static str, what: &'static str) -> Self {
        Self {
            id,
            what,
            how,
            expected: None,
            explains: &[],
            known_miss: None,
        }
    }

    /// The same fault with a known wrong answer.
    #[must_use]
    pub const fn known_miss(mut self, answer: Option<&'static str>, reason: &'static str) -> Self {
        self.known_miss = Some(KnownMiss { answer, reason });
        self
    }
}

/// The names of what is injected together, such as `link-down + gid-missing`.
fn joined(ids: impl IntoIterator<Item = &'static str>) -> String {
    ids.into_iter().collect::<Vec<_>>().join(" + ")
}

/// Which faults to inject.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only what has one of these words in its name or in that of its place; all where there is none.
    pub only: Vec<String>,
}

impl Selection {
    /// Whether `name` at `place` is selected.
    pub fn wants(&self, place: &str, name: &str) -> bool {
        self.only.is_empty()
            || self
                .only
                .iter()
                .any(|word| name.contains(word.as_str()) || place.contains(word.as_str()))
    }
}

#[cfg(test)]
mod tests;
