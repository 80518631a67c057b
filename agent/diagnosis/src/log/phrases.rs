//! Searches a line for many phrases in one pass.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder};

use super::line::is_word;

/// Phrases, which may occur in letters of either case. A line is searched once, however many they are.
#[derive(Debug)]
pub(super) struct Phrases {
    /// Never `None` with the phrases of this crate; if it were, nothing would be found.
    automaton: Option<AhoCorasick>,
}

/// One occurrence of a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occurrence {
    /// The place of the phrase in the list.
    pub(super) index: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Phrases {
    pub(super) fn new(phrases: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            automaton: AhoCorasickBuilder::new()
                .ascii_case_insensitive(true)
                .build(phrases)
                .ok(),
        }
    }

    /// Every occurrence in a text, overlapping ones too.
    pub(super) fn find<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Occurrence> + 'a {
        let found = self
            .automaton
            .iter()
            .flat_map(move |automaton| automaton.find_overlapping_iter(text));
        found.map(|found| Occurrence {
            index: found.pattern().as_usize(),
            start: found.start(),
            end: found.end(),
        })
    }

    /// Whether one of them occurs.
    pub(super) fn occur(&self, lower: &str) -> bool {
        self.find(lower).next().is_some()
    }

    /// The occurrence that is first in the text; of several at one place, the first of the list.
    pub(super) fn first_in_text(&self, lower: &str) -> Option<Occurrence> {
        self.find(lower).min_by_key(|found| (found.start, found.index))
    }

    /// The first occurrence in the text of the phrase that is first in the list.
    pub(super) fn first_in_list(&self, lower: &str) -> Option<Occurrence> {
        self.find(lower).min_by_key(|found| (found.index, found.start))
    }
}

impl Occurrence {
    /// Whether it begins a word.
    pub(super) fn begins(self, lower: &str) -> bool {
        self.start == 0
            || lower
                .as_bytes()
                .get(self.start - 1)
                .is_none_or(|byte| !is_word(*byte))
    }

    /// Whether it ends a word.
    pub(super) fn ends(self, lower: &str) -> bool {
        lower.as_bytes().get(self.end).is_none_or(|byte| !is_word(*byte))
    }
}
