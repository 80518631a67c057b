//! Connections that a library tries again and again. It informs about each attempt, and reports a failure only after the last one, which a log may not
//! have: the job was ended, or still waits.

use super::{
    line::{Lower, after, number},
    recognise::failure,
};
use crate::symptom::{Grade, Symptom, SymptomKind as K};

/// The fewest attempts without a connection that are more than a start of processes one after the other.
const FEWEST: u64 = 10;

/// What the attempts since the last connection show.
#[derive(Debug, Default)]
pub(super) struct Retries {
    /// The lines.
    lines: u64,
    /// The attempts, of which the library may print the number.
    count: u64,
    last: Option<(String, u64)>,
}

/// Words of lines that matter here, in lower case.
pub(super) const ANCHORS: &[&str] = &[", retrying", "connected all", "init complete"];

/// What refused an attempt, in a line in lower case: `Call to connect returned Connection refused, retrying`, `socketPollConnect: connect to
/// 10.0.0.1<50012> returned Connection refused, retrying (13/34)`.
fn attempt(lower: &str) -> Option<K> {
    let (before, rest) = lower.split_once(" returned ")?;
    let (reason, rest) = rest.split_once(", retrying")?;
    if !before.contains("connect") || rest.starts_with(" with") {
        return None;
    }
    match reason {
        "connection refused" => Some(K::ConnectRefused),
        "connection timed out" => Some(K::ConnectTimedOut),
        "no route to host" | "network is unreachable" => Some(K::ConnectUnreachable),
        _ => None,
    }
}

/// The number of the attempt in a line in lower case, where the library prints it: `retrying (13/34)`.
fn counted(lower: &str) -> u64 {
    let number = after(lower, ", retrying (").and_then(number);
    // A number of thousands is none of attempts.
    number.filter(|count| *count < 1000).unwrap_or(0)
}

/// Whether a line in lower case shows that connections were set up.
fn is_connected(lower: &str) -> bool {
    const WORDS: [&str; 6] = [
        "connected all",
        "init complete",
        "] via net/",
        " via p2p",
        "channel 00",
        "launch mode",
    ];
    WORDS.iter().any(|words| lower.contains(words))
}

impl Retries {
    /// Adds a line.
    pub(super) fn add(&mut self, line: &Lower<'_>, number: u64) {
        if attempt(&line.lower).is_some() {
            self.lines += 1;
            self.count = (self.count + 1).max(counted(&line.lower));
            self.last = Some((line.text.to_owned(), number));
        } else if self.count > 0 && is_connected(&line.lower) {
            *self = Self::default();
        }
    }

    /// The last of so many attempts that the log ends with them.
    pub(super) fn unconnected(&self) -> Option<Symptom> {
        let (text, number) = self
            .last
            .as_ref()
            .filter(|_| self.count >= FEWEST && self.lines > 1)?;
        let line = Lower::of(text);
        let mut found = failure(&line, attempt(&line.lower)?, *number);
        found.grade = Grade::Degraded;
        found.count = self.count;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(lines: &[&str]) -> Option<(K, u64)> {
        let mut retries = Retries::default();
        for (line, number) in lines.iter().zip(1..) {
            retries.add(&Lower::of(line), number);
        }
        retries.unconnected().map(|found| (found.kind, found.count))
    }

    #[test]
    fn attempts_count_until_there_is_a_connection() {
        const REFUSED: &str = "a:1:9 [0] NCCL INFO Call to connect returned Connection refused, retrying";
        const LATER: &str = "a:1:9 [0] NCCL INFO socketPollConnect: connect to 10.0.0.1<5001> returned Connection refused, retrying (13/34) after sleep for 1300 msec";
        const CONNECTED: &str = "a:1:9 [0] NCCL INFO Connected all rings";
        assert_eq!(attempts(&[REFUSED; 12]), Some((K::ConnectRefused, 12)));
        assert_eq!(attempts(&[LATER; 10]), Some((K::ConnectRefused, 22)));
        assert_eq!(attempts(&[REFUSED; 3]), None);
        // The library counts itself: a part of its lines is enough.
        assert_eq!(attempts(&[LATER; 2]), Some((K::ConnectRefused, 14)));
        assert_eq!(attempts(&[LATER]), None);
        assert_eq!(attempts(&[&[REFUSED; 12][..], &[CONNECTED]].concat()), None);
        let again = [&[REFUSED; 12][..], &[CONNECTED], &[REFUSED; 11]].concat();
        assert_eq!(attempts(&again), Some((K::ConnectRefused, 11)));
    }
}
