//! Decides when the conditions of one node are written, and what of them. Pure: its caller holds the clock.
//!
//! What gets worse is written at once. What gets better is too, unless it got better before within the hour: then it must
//! stay so for a while first, so that a flapping port becomes a condition that stays true. A token bucket bounds all
//! writes beside the heartbeat; what waits for a token is written with the first that comes, so that the last word is
//! always written. Every write is a heartbeat, and carries all conditions.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use super::{
    bucket::Bucket,
    condition::{Condition, Status},
    jitter::Jitter,
};

/// How often conditions are written although nothing changed, up to a tenth more or less.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(300);
/// Changes that come together are written together.
const SETTLE: Duration = Duration::from_millis(250);
/// How long a condition must stay better before it is said, by how often it got better within [`MEMORY`].
const HOLDS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(900),
];
const MEMORY: Duration = Duration::from_secs(3600);
/// Writes that may follow each other at once, and how soon another may follow.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(120);
/// Tokens that a change of wording leaves to changes of status, and how often it takes one.
const SPARE: u32 = 5;
const WORDING: Duration = Duration::from_secs(300);
/// The most writes of one node within an hour: the burst, what is refilled, and the heartbeats.
#[cfg(test)]
pub(super) const MOST_PER_HOUR: usize = 10 + 30 + 14;
/// How long a condition that somebody else manages is left to them before it is tried again.
const CONTESTED: Duration = Duration::from_secs(3600);

/// How an attempt failed, in what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setback {
    /// Nobody is there, or a proxy said at once that nobody is: cheap to try again.
    Away,
    /// Somebody may be there and not keep up: a connection broke, or nothing came for so long. To try again soon would be
    /// what keeps the server from recovering.
    Struggling(Duration),
    /// The server is there and asks to be left alone, for so long where it says.
    Throttled(Option<Duration>),
    /// The server understood and refused; only a person can change that.
    Refused,
}

/// The longest pause before a change is tried again where nobody is there. With the time that a connection may take it
/// stays below the five seconds in which conditions must be right after the server's return.
const AWAY: Duration = Duration::from_millis(2500);
/// The least time that an attempt at a server that struggles is taken to have cost, and the longest pause after one. Five
/// thousand nodes with a change ask fewer than a hundred times a second then.
const STRUGGLING: Duration = Duration::from_millis(500);
const LONGEST_STRUGGLE: Duration = Duration::from_secs(60);
/// How many refusals in a row may be those of a server that is starting.
pub(super) const AT_FIRST: u32 = 3;
const THROTTLED: Duration = Duration::from_secs(60);
/// No answer of a server puts us off for longer.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Write this now, then say how it went.
    Write(Write),
    /// Nothing before then, unless something new is observed.
    Wait(Instant),
}

/// One write: every condition that is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    /// Conditions in order of type.
    pub(super) conditions: Vec<Stated>,
    paid: bool,
}

/// A condition and since when it has its status, as the API writes times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stated {
    /// The condition.
    pub(super) condition: Condition,
    /// `lastTransitionTime`.
    pub(super) since: String,
}

/// A change of status that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transition {
    /// What the condition said before; `None` where there was none.
    pub(super) before: Option<Status>,
    /// The condition.
    pub(super) now: Condition,
}

/// How many attempts failed since the last answer, in each way: a server that was away for long is met without prejudice.
#[derive(Debug, Default)]
struct Failures {
    away: u32,
    struggling: u32,
    throttled: u32,
    /// Those that came one after the other.
    refused: u32,
}

impl Failures {
    fn count(&mut self, setback: Setback) {
        if setback != Setback::Refused {
            self.refused = 0;
        }
        let count = match setback {
            Setback::Away => &mut self.away,
            Setback::Struggling(_) => &mut self.struggling,
            Setback::Throttled(_) => &mut self.throttled,
            Setback::Refused => &mut self.refused,
        };
        *count = count.saturating_add(1);
    }
}

/// Decides for one node.
#[derive(Debug)]
pub(super) struct Schedule {
    tracks: BTreeMap<&'static str, Track>,
    bucket: Bucket,
    jitter: Jitter,
    heartbeat: Instant,
    /// Since when there is something urgent.
    changed: Option<Instant>,
    failures: Failures,
    /// Not before then: urgent writes, others.
    pause: Option<(Instant, Instant)>,
    contested: BTreeMap<&'static str, Instant>,
}

#[derive(Debug, Default)]
struct Track {
    stated: Option<Stated>,
    wanted: Option<Condition>,
    /// Since when the wanted status is what it is.
    wanted_since: Option<Instant>,
    recoveries: VecDeque<Instant>,
    reworded: Option<Instant>,
}

/// What a track asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Nothing,
    Wording,
    Change,
}

impl Track {
    fn hold(&self, now: Instant) -> Duration {
        let recent = |at: &&Instant| now.saturating_duration_since(**at) < MEMORY;
        let recoveries = self.recoveries.iter().filter(recent).count();
        HOLDS[recoveries.min(HOLDS.len() - 1)]
    }

    /// When a status that got better may be said; `None` where nothing is held back.
    fn held_until(&self, now: Instant) -> Option<Instant> {
        let (stated, wanted, since) = (self.stated.as_ref()?, self.wanted.as_ref()?, self.wanted_since?);
        let until = since + self.hold(now);
        (wanted.status < stated.condition.status && until > now).then_some(until)
    }

    /// What is to be said now.
    fn effective(&self, now: Instant) -> Option<&Condition> {
        if self.held_until(now).is_some() {
            return self.stated.as_ref().map(|stated| &stated.condition);
        }
        self.wanted
            .as_ref()
            .or(self.stated.as_ref().map(|stated| &stated.condition))
    }

    fn need(&self, now: Instant) -> Need {
        match (&self.stated, self.effective(now)) {
            (_, None) => Need::Nothing,
            (None, Some(_)) => Need::Change,
            (Some(stated), Some(new)) => {
                let old = &stated.condition;
                if old.status != new.status || old.reason != new.reason {
                    Need::Change
                } else if old.message != new.message {
                    Need::Wording
                } else {
                    Need::Nothing
                }
            }
        }
    }
}

impl Schedule {
    /// Nothing is known and nothing is due but a heartbeat.
    pub(super) fn new(now: Instant, mut jitter: Jitter) -> Self {
        let heartbeat = now + jitter.between(Duration::ZERO, HEARTBEAT);
        Self {
            tracks: BTreeMap::new(),
            bucket: Bucket::new(BURST, REFILL, now),
            jitter,
            heartbeat,
            changed: None,
            failures: Failures::default(),
            pause: None,
            contested: BTreeMap::new(),
        }
    }

    /// Takes over what the Node says, as after a start: nothing of it is written again before its time. `age` is that of
    /// the last heartbeat; clocks that disagree make it nonsense, which costs no more than one heartbeat.
    pub(super) fn adopt(&mut self, existing: Vec<Stated>, age: Option<Duration>, now: Instant) {
        for track in self.tracks.values_mut() {
            track.stated = None;
        }
        for stated in existing {
            let track = self.tracks.entry(stated.condition.kind).or_default();
            track.stated = Some(stated);
        }
        self.heartbeat = now
            + match age.map_or(HEARTBEAT, |age| HEARTBEAT.saturating_sub(age)) {
                // Those of a whole cluster are spread where they are overdue.
                Duration::ZERO => self.jitter.between(Duration::ZERO, HEARTBEAT / 2),
                left => left,
            };
        self.note_change(now);
    }

    /// Takes what is to be said.
    pub(super) fn observe(&mut self, conditions: Vec<Condition>, now: Instant) {
        for condition in conditions {
            let track = self.tracks.entry(condition.kind).or_default();
            let before = track.wanted.as_ref().map(|wanted| wanted.status);
            if before < Some(condition.status)
                && track.held_until(now).is_some()
                && let Some(last) = track.recoveries.back_mut()
            {
                // A recovery that did not last counts as long as they go on, though it was not said.
                *last = now;
            }
            if before != Some(condition.status) {
                track.wanted_since = Some(now);
            }
            track.wanted = Some(condition);
        }
        self.note_change(now);
    }

    /// Leaves conditions to whoever manages them, for a while.
    pub(super) fn yield_to_others(&mut self, kinds: &[&'static str], now: Instant) {
        self.contested
            .extend(kinds.iter().map(|kind| (*kind, now + CONTESTED)));
        self.note_change(now);
    }

    /// What is to be done now. `wall` is the time as the API writes it.
    pub(super) fn step(&mut self, now: Instant, wall: &str) -> Step {
        self.contested.retain(|_, until| *until > now);
        self.note_change(now);
        let (urgent_pause, routine_pause) = self.pause.unwrap_or((now, now));
        let mut due = self.heartbeat.max(routine_pause);
        if due <= now {
            return self
                .write(false, now, wall)
                .unwrap_or(Step::Wait(now + HEARTBEAT));
        }
        let mut consider = |at: Instant, paid_from: Option<u32>, bucket: &mut Bucket| {
            if at <= now && paid_from.is_some_and(|spare| bucket.take(spare, now)) {
                return true;
            }
            due = due.min(at.max(paid_from.map_or(at, |spare| bucket.ready(spare, now))));
            false
        };
        if let Some(changed) = self.changed {
            let at = (changed + SETTLE).max(urgent_pause);
            if consider(at, Some(0), &mut self.bucket) {
                return self.write(true, now, wall).unwrap_or(Step::Wait(now + HEARTBEAT));
            }
        }
        let tracks = self
            .tracks
            .iter()
            .filter(|(kind, _)| !self.contested.contains_key(*kind));
        let mut wording = None;
        for (_, track) in tracks {
            if track.need(now) == Need::Wording {
                let at = track.reworded.map_or(now, |at| at + WORDING).max(routine_pause);
                wording = Some(wording.map_or(at, |other: Instant| other.min(at)));
            }
            if let Some(at) = track.held_until(now) {
                consider(at, None, &mut self.bucket);
            }
        }
        if let Some(at) = wording
            && consider(at, Some(SPARE), &mut self.bucket)
        {
            return self.write(true, now, wall).unwrap_or(Step::Wait(now + HEARTBEAT));
        }
        Step::Wait(due)
    }

    /// The write arrived. Returns what changed by it.
    pub(super) fn written(&mut self, write: Write, now: Instant) -> Vec<Transition> {
        let mut transitions = Vec::new();
        for stated in write.conditions {
            let track = self.tracks.entry(stated.condition.kind).or_default();
            let before = track.stated.as_ref().map(|before| &before.condition);
            let status = before.map(|before| before.status);
            if before.is_some_and(|before| before.message != stated.condition.message) {
                track.reworded = Some(now);
            }
            if status.is_some_and(|before| stated.condition.status < before) {
                track.recoveries.push_back(now);
                if track.recoveries.len() > HOLDS.len() {
                    track.recoveries.pop_front();
                }
            }
            if status != Some(stated.condition.status) {
                transitions.push(Transition {
                    before: status,
                    now: stated.condition.clone(),
                });
            }
            track.stated = Some(stated);
        }
        self.reached();
        self.changed = None;
        self.heartbeat = now
            + self
                .jitter
                .between(HEARTBEAT.mul_f64(0.9), HEARTBEAT.mul_f64(1.1));
        self.note_change(now);
        transitions
    }

    /// The server answered: what failed before counts no more.
    pub(super) fn reached(&mut self) {
        self.failures = Failures::default();
        self.pause = None;
    }

    /// The write was not made.
    pub(super) fn give_back(&mut self, write: Option<Write>) {
        if write.is_some_and(|write| write.paid) {
            self.bucket.give_back();
        }
    }

    /// The write, if there was one, did not arrive.
    pub(super) fn failed(&mut self, write: Option<Write>, setback: Setback, now: Instant) {
        self.give_back(write);
        self.failures.count(setback);
        let failures = &self.failures;
        let seconds = Duration::from_secs;
        let doubled = |from: Duration, times: u32, most: Duration| {
            from.saturating_mul(2_u32.pow(times.min(16))).min(most)
        };
        let urgent = match setback {
            // Full jitter: agents that lost the server at one moment do not come back at one.
            Setback::Away => {
                let most = doubled(Duration::from_millis(125), failures.away, AWAY);
                self.jitter.between(Duration::ZERO, most)
            }
            // In proportion to what the attempt cost, and never at once.
            Setback::Struggling(took) => {
                let most = doubled(took.max(STRUGGLING), failures.struggling, LONGEST_STRUGGLE);
                self.jitter.between(most / 2, most)
            }
            Setback::Throttled(after) => {
                let most = doubled(Duration::from_millis(500), failures.throttled, THROTTLED);
                after.unwrap_or_default().min(LONGEST_RETRY_AFTER) + self.jitter.between(Duration::ZERO, most)
            }
            // A server that has just started refuses for a moment what it allows later.
            Setback::Refused if failures.refused <= AT_FIRST => self.jitter.between(seconds(1), seconds(3)),
            Setback::Refused => self.jitter.between(seconds(30), seconds(60)),
        };
        // Where nothing changed the server is right as it is, and nobody needs to be the first.
        let routine = urgent.max(match setback {
            Setback::Refused => urgent,
            _ => self.jitter.between(seconds(30), HEARTBEAT),
        });
        self.pause = Some((now + urgent, now + routine));
    }

    /// Whether any condition was written as true.
    #[cfg(test)]
    pub(super) fn says(&self) -> Option<bool> {
        let mut stated = self
            .tracks
            .values()
            .filter_map(|track| track.stated.as_ref())
            .peekable();
        stated.peek()?;
        Some(stated.any(|stated| stated.condition.status == Status::True))
    }

    /// Not before then is anything tried: changes, if `urgent`.
    pub(super) fn paused_until(&self, urgent: bool) -> Option<Instant> {
        self.pause
            .map(|(first, second)| if urgent { first } else { second })
    }

    fn note_change(&mut self, now: Instant) {
        let mut ours = self
            .tracks
            .iter()
            .filter(|(kind, _)| !self.contested.contains_key(*kind));
        if ours.any(|(_, track)| track.need(now) == Need::Change) {
            self.changed.get_or_insert(now);
        } else {
            self.changed = None;
        }
    }

    fn write(&mut self, paid: bool, now: Instant, wall: &str) -> Option<Step> {
        let ours = self
            .tracks
            .iter()
            .filter(|(kind, _)| !self.contested.contains_key(*kind));
        let stated = ours.filter_map(|(_, track)| {
            let condition = track.effective(now)?.clone();
            let before = track
                .stated
                .as_ref()
                .filter(|before| before.condition.status == condition.status);
            let since = before.map_or_else(|| wall.to_owned(), |before| before.since.clone());
            Some(Stated { condition, since })
        });
        let conditions: Vec<_> = stated.collect();
        if conditions.is_empty() {
            if paid {
                self.bucket.give_back();
            }
            self.heartbeat = now + HEARTBEAT;
            return None;
        }
        Some(Step::Write(Write { conditions, paid }))
    }
}

#[cfg(test)]
mod tests;
