//! Programs that give up a peer in their own words: `Disconnecting host nqn.x from subsystem nqn.y due to keep alive timeout`, `Ping timed out for
//! OSD 2 (client 8), disconnecting peer`.
//!
//! Such a line has one of the two ends, what the program does to the connection, and why. Where it names nothing of RDMA, it counts if
//! another line shows that the connection with the same end uses RDMA: `Connected to OSD 2 using RDMA`.

use std::sync::LazyLock;

use super::{
    foreign,
    line::{Lower, is_word},
    phrases::Phrases,
};
use crate::symptom::SymptomKind as K;

/// Most lines of each kind that are kept.
const MOST: usize = 16;

/// The ends of a connection and what serves them, in lower case.
const ENDS: [&str; 16] = [
    "peer",
    "client",
    "server",
    "host",
    "subsystem",
    "osd",
    "node",
    "target",
    "initiator",
    "controller",
    "ctrl",
    "endpoint",
    "rank",
    "session",
    "connection",
    "qpair",
];
/// What a program does to a connection that it gives up.
const ACTS: [&str; 7] = [
    "disconnecting",
    "dropping",
    "closing",
    "terminating",
    "evicting",
    "tearing down",
    "giving up",
];
/// Why.
const REASONS: [&str; 10] = [
    "timed out",
    "timeout",
    "not respond",
    "no response",
    "keep alive expired",
    "unreachable",
    "presumed dead",
    "lost",
    "reset by",
    "operation failed",
];
/// What ends on purpose, or would end only.
const OTHERWISE: [&str; 9] = [
    "idle",
    "inactiv",
    "graceful",
    "shutting down",
    "shutdown",
    "timeout=",
    "timeout:",
    "will be",
    "if ",
];
/// How a program says that a connection uses RDMA.
const OVER_RDMA: [&str; 5] = [
    "using rdma",
    "over rdma",
    "via rdma",
    "rdma connection",
    "rdma transport",
];

/// Every line is searched for these first: most have none.
static WORTH: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(ACTS.into_iter().chain(OVER_RDMA)));

/// Whether a line in lower case reports that the program gave up an end of a connection.
pub(super) fn gives_up(lower: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    has(&ACTS) && has(&REASONS) && !has(&OTHERWISE) && ends(lower).next().is_some()
}

/// The ends of connections that a line in lower case names as separate words, and what follows each.
fn ends(lower: &str) -> impl Iterator<Item = (&'static str, &str)> {
    ENDS.iter().flat_map(move |end| {
        lower.match_indices(end).filter_map(move |(at, _)| {
            let begins = at == 0 || !is_word(lower.as_bytes()[at - 1]);
            let rest = &lower[at + end.len()..];
            let stops = rest.bytes().next().is_none_or(|byte| !is_word(byte));
            (begins && stops).then_some((*end, rest))
        })
    })
}

/// The ends that a line in lower case names by a number or an address: `("osd", "2")`.
fn named_ends(lower: &str) -> impl Iterator<Item = (&'static str, &str)> {
    ends(lower).filter_map(|(end, rest)| {
        let name = rest.strip_prefix([' ', '#', ':', '='])?.trim_start();
        let name = name
            .split([' ', ',', ';', ')', ']'])
            .next()?
            .trim_end_matches([':', '.']);
        name.bytes()
            .any(|byte| byte.is_ascii_digit())
            .then_some((end, name))
    })
}

/// What a line in lower case shows that names RDMA itself.
/// Some programs report at the level of information that they gave up a peer.
pub(super) fn find(lower: &str, informs: bool) -> Option<K> {
    let traces = || informs && ["debug", "trace"].iter().any(|level| lower.contains(level));
    (gives_up(lower) && !traces()).then_some(K::PeerUnreachable)
}

/// The peers that a program gave up, and those that it reaches over RDMA.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    lines: Vec<(String, u64)>,
    over_rdma: Vec<(&'static str, String)>,
}

impl GivenUp {
    /// Adds a line.
    pub(super) fn add(&mut self, line: &Lower<'_>, number: u64) {
        let lower = line.lower.as_str();
        if !WORTH.occur(lower) {
            return;
        }
        if OVER_RDMA.iter().any(|words| lower.contains(words)) && !lower.contains("not using") {
            let named = named_ends(lower).map(|(end, name)| (end, name.to_owned()));
            let room = MOST - self.over_rdma.len().min(MOST);
            self.over_rdma.extend(named.take(room));
        } else if self.lines.len() < MOST
            && gives_up(lower)
            && !line.grade().about_rdma
            && !line.grade().quoted
            && !foreign::is_other_connection(lower, K::PeerUnreachable)
        {
            self.lines.push((line.text.to_owned(), number));
        }
    }

    /// The first peer that was given up although its connection uses RDMA: the line and its number.
    pub(super) fn over_rdma(&self) -> Option<(&str, u64)> {
        let is_one = |text: &str| {
            let lower = text.to_ascii_lowercase();
            named_ends(&lower)
                .any(|(end, name)| self.over_rdma.iter().any(|(of, its)| *of == end && its == name))
        };
        let (text, number) = self.lines.iter().find(|(text, _)| is_one(text))?;
        Some((text, *number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogReader;

    #[test]
    fn a_peer_that_is_given_up_is_told_from_one_that_leaves() {
        for line in [
            "disconnecting host nqn.x from subsystem nqn.y due to keep alive timeout.",
            "rdma: no response from client 7, closing connection",
            "ping timed out for osd 2 (client 8), disconnecting peer",
            "primary_read operation failed on osd 2: retval=-32 (expected 0), dropping connection",
        ] {
            assert!(gives_up(line), "{line}");
        }
        for line in [
            "closing idle connection after timeout",
            "rdma: client 7: closing connection",
            "server: graceful stop, closing connection before timeout",
            "rdma server: keep alive timeout=30",
            "dropping 3 localhosts that timed out",
        ] {
            assert!(!gives_up(line), "{line}");
        }
    }

    #[test]
    fn a_peer_over_another_network_is_not_one_of_rdma() {
        const LOST: &str = "Ping timed out for OSD 2 (client 8), disconnecting peer\n";
        for (log, expected) in [
            (format!("{LOST}Connected to OSD 2 using RDMA\n"), Some(1)),
            (format!("Connected to OSD 2 using RDMA\n{LOST}"), Some(2)),
            (format!("{LOST}Connected to OSD 3 using RDMA\n"), None),
            (format!("{LOST}Connected to OSD 2\n"), None),
            (format!("{LOST}Connected to OSD 2, not using RDMA\n"), None),
        ] {
            let mut reader = LogReader::default();
            reader.feed(log.as_bytes());
            let symptoms = reader.finish().symptoms;
            let found = symptoms
                .iter()
                .find(|symptom| symptom.kind == K::PeerUnreachable)
                .and_then(|symptom| symptom.line);
            assert_eq!(found, expected, "{log}: {symptoms:?}");
        }
    }
}
