//! Since when the problems of a node have been observed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use serde::{Deserialize, Serialize};

use super::{History, MAX_KEY, short};

/// Maximum number of problems.
pub(super) const MAX_PROBLEMS: usize = 1024;
/// A pause between two readings of at most this time, in seconds, hides no short fault that matters.
pub(super) const GAP: u64 = 600;

/// No version of this program observed anything before this time (November 2023), in seconds since 1970. An earlier one was recorded
/// with a clock that was not set.
pub(super) const EARLIEST: u64 = 1_700_000_000;

/// The problems that the last reading showed, and the period in which the node was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Time of the first reading, in seconds since 1970.
    pub first: u64,
    /// Time of the last reading.
    pub last: u64,
    /// The problems by key.
    #[serde(default)]
    pub problems: BTreeMap<String, Since>,
}

/// Since when every reading has shown a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    /// Time of the first of these readings, in seconds since 1970.
    pub time: u64,
    /// Whether a reading shortly before did not show it. Otherwise the problem may be older.
    pub exact: bool,
}

/// The key of what a rule found of a subject: the same for as long as one problem lasts, however its severity changes.
pub fn problem_key(rule: &str, subject: impl Display) -> String {
    format!("{rule} {subject}")
}

/// How to treat problems that a reading does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing<'a> {
    /// They are over.
    Over,
    /// The agent has just started, and not everything was read or probed: what it remembers may still be there. Those with one of these
    /// keys are over, because it has seen them since.
    NotJudgedYet(&'a BTreeSet<String>),
}

impl Missing<'_> {
    /// Whether a problem with this key, which a reading does not show, is over.
    pub fn is_over(self, key: &str) -> bool {
        match self {
            Missing::Over => true,
            Missing::NotJudgedYet(seen) => seen.iter().any(|seen| key_of(seen) == key_of(key)),
        }
    }
}

impl History {
    /// Takes the problems that a reading at `now` shows, by key. Returns whether anything changed.
    pub fn observe(&mut self, shown: &BTreeSet<String>, missing: Missing<'_>, now: u64) -> bool {
        let before = self.observed.clone();
        let observed = self.observed.get_or_insert_with(|| Observed {
            first: now,
            last: now,
            problems: BTreeMap::new(),
        });
        observed
            .problems
            .retain(|key, _| shown.iter().any(|shown| key_of(shown) == key) || !missing.is_over(key));
        observed.problems.retain(|_, since| is_possible(since.time, now));
        // Nothing is known about the time before the first reading of all, and of an agent that has just started.
        let is_read_on = before
            .as_ref()
            .is_some_and(|before| now.saturating_sub(before.last) <= GAP);
        for key in shown.iter().map(|key| key_of(key)) {
            if observed.problems.len() < MAX_PROBLEMS && !observed.problems.contains_key(key) {
                let exact = is_read_on && missing.is_over(key);
                let since = Since { time: now, exact };
                observed.problems.insert(key.to_owned(), since);
            }
        }
        before.as_ref() != Some(observed)
    }

    /// Since when every reading has shown the problem with this key; `None` if the last reading did not show it, or none was
    /// recorded. Never after `now` nor before the first reading: the clock may have been wrong.
    pub fn since(&self, key: &str, now: u64) -> Option<Since> {
        let observed = self.observed.as_ref()?;
        let since = *observed.problems.get(key_of(key))?;
        is_possible(since.time, now).then(|| Since {
            time: since.time.max(observed.first).min(now),
            ..since
        })
    }
}

/// Whether something can have been observed at `time`, unless the clock is not set now either.
fn is_possible(time: u64, now: u64) -> bool {
    time >= EARLIEST || now < EARLIEST
}

impl Observed {
    /// Applies `change` to every time.
    pub(super) fn times(&mut self, change: &mut impl FnMut(&mut u64)) {
        change(&mut self.first);
        change(&mut self.last);
        self.problems
            .values_mut()
            .for_each(|since| change(&mut since.time));
    }

    /// Whether it is within the limits that [`History::observe`] keeps.
    pub(super) fn check(&self) -> Result<(), String> {
        super::bounds::most("problems", self.problems.len(), MAX_PROBLEMS)?;
        let mut keys = self.problems.keys();
        keys.try_for_each(|key| super::bounds::most("bytes in a problem's name", key.len(), MAX_KEY))
    }
}

fn key_of(key: &str) -> &str {
    short(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&str]) -> BTreeSet<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn a_problem_keeps_its_time_as_long_as_every_reading_shows_it() {
        let mut history = History::default();
        assert!(history.observe(&keys(&["a"]), Missing::Over, 1000));
        assert!(
            !history.observe(&keys(&["a"]), Missing::Over, 1060),
            "nothing new"
        );
        let since = history.since("a", 1060).unwrap();
        assert_eq!(
            (since.time, since.exact),
            (1000, false),
            "it may be older than the agent"
        );
        assert!(history.observe(&keys(&["a", "b"]), Missing::Over, 1120));
        let since = history.since("b", 1120).unwrap();
        assert_eq!((since.time, since.exact), (1120, true));
        history.observe(&keys(&["b"]), Missing::Over, 1180);
        assert_eq!(history.since("a", 1180), None);
        history.observe(&keys(&["a", "b"]), Missing::Over, 1240);
        assert_eq!(history.since("a", 1240).unwrap().time, 1240, "it came back");
    }

    #[test]
    fn a_restart_neither_resets_a_problem_nor_dates_one_that_began_meanwhile() {
        let mut history = History::default();
        history.observe(&keys(&["a"]), Missing::Over, 1000);
        let saved = serde_json::to_string(&history).unwrap();
        let mut history: History = serde_json::from_str(&saved).unwrap();
        // The first readings after a start have no probes yet.
        let starting = Missing::NotJudgedYet(&BTreeSet::new());
        history.observe(&keys(&[]), starting, 90_000);
        history.observe(&keys(&["a", "b"]), starting, 90_060);
        assert_eq!(history.since("a", 90_060).unwrap().time, 1000);
        let new = history.since("b", 90_060).unwrap();
        assert_eq!(
            (new.time, new.exact),
            (90_060, false),
            "the node was not read for a day"
        );
    }

    #[test]
    fn a_problem_that_a_starting_agent_has_seen_ends_when_it_is_gone() {
        let mut history = History::default();
        history.observe(&keys(&["a", "b"]), Missing::Over, 1000);
        let seen = keys(&["a"]);
        let starting = Missing::NotJudgedYet(&seen);
        history.observe(&keys(&["a"]), starting, 1060);
        history.observe(&keys(&[]), starting, 1120);
        assert_eq!(history.since("a", 1120), None);
        assert_eq!(
            history.since("b", 1120).unwrap().time,
            1000,
            "it may still be there"
        );
        history.observe(&keys(&["a"]), starting, 1180);
        let again = history.since("a", 1180).unwrap();
        assert_eq!((again.time, again.exact), (1180, true));
    }

    #[test]
    fn a_time_that_no_clock_can_have_shown_is_not_used() {
        let now = EARLIEST + 1000;
        let mut history = History::default();
        history.observe(&keys(&["a"]), Missing::Over, now - 50 * 365 * 86_400);
        assert_eq!(history.since("a", now), None);
        history.observe(&keys(&["a"]), Missing::NotJudgedYet(&BTreeSet::new()), now);
        let since = history.since("a", now).unwrap();
        assert_eq!((since.time, since.exact), (now, false));
        history.observed.as_mut().unwrap().first = now;
        history.observed.as_mut().unwrap().problems.insert(
            "a".into(),
            Since {
                time: now - 500,
                exact: true,
            },
        );
        assert_eq!(
            history.since("a", now).unwrap().time,
            now,
            "nothing was read before"
        );
    }

    #[test]
    fn problems_are_bounded_and_never_in_the_future() {
        let mut history = History::default();
        let many: BTreeSet<String> = (0..5000).map(|n| format!("{n}{}", "ä".repeat(400))).collect();
        history.observe(&many, Missing::Over, 1000);
        assert_eq!(history.observed.as_ref().unwrap().problems.len(), MAX_PROBLEMS);
        assert_eq!(history.check(), Ok(()));
        let first = many.first().unwrap();
        assert_eq!(history.since(first, 500).unwrap().time, 500);
    }
}
