//! Decides when to write which conditions of one node. Pure: the caller supplies the time.
//!
//! A deterioration is written at once. An improvement is also written at once, unless the condition already improved
//! within the last hour: then the improvement must last for a while first, so that the condition of a flapping port stays
//! true. A token bucket limits all writes except heartbeats. Changes that wait for a token are written with the next one,
//! so the final state always reaches the API server. Every write contains all conditions and counts as a heartbeat.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use rdma_health_time::Jitter;

use super::{
    bucket::Bucket,
    condition::{Condition, Status},
    kind::ConditionType,
};

/// Interval of writes without a change, plus or minus a tenth.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(300);
/// Changes within this time are written together.
const SETTLE: Duration = Duration::from_millis(250);
/// How long an improvement must last before it is written, by the number of improvements within [`MEMORY`].
const HOLDS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(900),
];
const MEMORY: Duration = Duration::from_secs(3600);
/// The number of writes in a burst, and the time until another may follow.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(120);
/// The number of tokens reserved for status changes, and the minimum time between writes that only change a message.
const SPARE: u32 = 5;
const WORDING: Duration = Duration::from_secs(300);
/// Maximum number of writes of one node per hour: the burst, refilled tokens, and heartbeats.
#[cfg(test)]
pub(super) const MOST_PER_HOUR: usize = 10 + 30 + 14;
/// How long a condition or label that another controller manages is not written.
pub(super) const CONTESTED: Duration = Duration::from_secs(3600);

/// How to back off after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backoff {
    /// No server is running, or a proxy reports so at once: retrying is cheap.
    Away,
    /// The server may be overloaded: a connection broke, or there was no response for this time. Retrying soon could keep it
    /// from recovering.
    Struggling(Duration),
    /// The server is running and requests a pause, of this length if it states one.
    Throttled(Option<Duration>),
    /// The server rejected the request; an administrator must change something.
    Refused,
}

/// Maximum pause before a change is retried if no server is running. Together with the connection timeout it is less than
/// five seconds, within which conditions must be correct after the server is back.
const AWAY: Duration = Duration::from_millis(2500);
/// Minimum assumed duration of an attempt at an overloaded server, and the maximum pause after one. With them, five thousand
/// nodes with a change send fewer than a hundred requests per second.
const STRUGGLING: Duration = Duration::from_millis(500);
const LONGEST_STRUGGLE: Duration = Duration::from_secs(60);
/// Number of consecutive refusals that a starting server may cause.
pub(super) const AT_FIRST: u32 = 3;
const THROTTLED: Duration = Duration::from_secs(60);
/// Maximum pause that a server can request.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The next step of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Write this now, then report the result.
    Write(Write),
    /// Wait until then, unless new conditions are observed.
    Wait(Instant),
}

/// One write: all of the agent's conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    /// Conditions in order of type.
    pub(super) conditions: Vec<Published>,
    paid: bool,
}

/// A condition and the time of its last transition, in the API's format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Published {
    /// The condition.
    pub(super) condition: Condition,
    /// `lastTransitionTime`.
    pub(super) since: String,
}

/// A change of status that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transition {
    /// The previous status; `None` if there was no condition.
    pub(super) before: Option<Status>,
    /// The condition.
    pub(super) now: Condition,
}

/// Failed attempts since the last response. Each kind of failure has its own count, so that a long outage does not
/// prolong the pauses after other failures.
#[derive(Debug, Default)]
struct Failures {
    away: u32,
    struggling: u32,
    throttled: u32,
    /// Consecutive refusals.
    refused: u32,
}

impl Failures {
    fn count(&mut self, backoff: Backoff) {
        if backoff != Backoff::Refused {
            self.refused = 0;
        }
        let count = match backoff {
            Backoff::Away => &mut self.away,
            Backoff::Struggling(_) => &mut self.struggling,
            Backoff::Throttled(_) => &mut self.throttled,
            Backoff::Refused => &mut self.refused,
        };
        *count = count.saturating_add(1);
    }
}

/// The schedule of one node.
#[derive(Debug)]
pub(super) struct Schedule {
    tracks: BTreeMap<ConditionType, Track>,
    bucket: Bucket,
    jitter: Jitter,
    heartbeat: Instant,
    /// Since when an urgent change is pending.
    changed: Option<Instant>,
    failures: Failures,
    /// The earliest times of the next urgent write and of other writes.
    pause: Option<(Instant, Instant)>,
    contested: BTreeMap<ConditionType, Instant>,
}

#[derive(Debug, Default)]
struct Track {
    published: Option<Published>,
    wanted: Option<Condition>,
    /// Since when the wanted condition has its status.
    wanted_since: Option<Instant>,
    recoveries: VecDeque<Instant>,
    reworded: Option<Instant>,
}

/// The kind of write that a track needs.
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

    /// When an improved status may be written; `None` if none is held back.
    fn held_until(&self, now: Instant) -> Option<Instant> {
        let (published, wanted, since) = (
            self.published.as_ref()?,
            self.wanted.as_ref()?,
            self.wanted_since?,
        );
        let until = since + self.hold(now);
        (wanted.badness() < published.condition.badness() && until > now).then_some(until)
    }

    /// The condition to write now.
    fn effective(&self, now: Instant) -> Option<&Condition> {
        if self.held_until(now).is_some() {
            return self.published.as_ref().map(|published| &published.condition);
        }
        self.wanted
            .as_ref()
            .or(self.published.as_ref().map(|published| &published.condition))
    }

    fn need(&self, now: Instant) -> Need {
        match (&self.published, self.effective(now)) {
            (_, None) => Need::Nothing,
            (None, Some(_)) => Need::Change,
            (Some(published), Some(new)) => {
                let old = &published.condition;
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
    /// A schedule without conditions; only a heartbeat is due.
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

    /// Takes over the Node's existing conditions, as after a start: they are not written again before the next heartbeat.
    /// `age` is the age of the last heartbeat; if clocks differ it is wrong, which costs at most one heartbeat.
    pub(super) fn adopt(&mut self, existing: Vec<Published>, age: Option<Duration>, now: Instant) {
        for track in self.tracks.values_mut() {
            track.published = None;
        }
        for published in existing {
            let track = self.tracks.entry(published.condition.kind.clone()).or_default();
            track.published = Some(published);
        }
        self.heartbeat = now
            + match age.map_or(HEARTBEAT, |age| HEARTBEAT.saturating_sub(age)) {
                // Spread overdue heartbeats of a whole cluster.
                Duration::ZERO => self.jitter.between(Duration::ZERO, HEARTBEAT / 2),
                left => left,
            };
        self.note_change(now);
    }

    /// Takes the conditions to publish.
    pub(super) fn observe(&mut self, conditions: Vec<Condition>, now: Instant) {
        for condition in conditions {
            let track = self.tracks.entry(condition.kind.clone()).or_default();
            let before = track.wanted.as_ref().map(Condition::badness);
            if before < Some(condition.badness())
                && track.held_until(now).is_some()
                && let Some(last) = track.recoveries.back_mut()
            {
                // A recovery that did not last counts too, although it was not written.
                *last = now;
            }
            if before != Some(condition.badness()) {
                track.wanted_since = Some(now);
            }
            track.wanted = Some(condition);
        }
        self.note_change(now);
    }

    /// Stops writing these conditions for a while, because another controller manages them.
    pub(super) fn yield_to_others(&mut self, kinds: &[ConditionType], now: Instant) {
        self.contested
            .extend(kinds.iter().map(|kind| (kind.clone(), now + CONTESTED)));
        self.note_change(now);
    }

    /// The next step. `wall` is the current time in the API's format.
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
            .filter(|(kind, _)| !self.contested.contains_key(kind));
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

    /// Records a successful write. Returns the status changes in it.
    pub(super) fn written(&mut self, write: Write, now: Instant) -> Vec<Transition> {
        let mut transitions = Vec::new();
        for published in write.conditions {
            let track = self.tracks.entry(published.condition.kind.clone()).or_default();
            let before = track.published.as_ref().map(|before| &before.condition);
            let status = before.map(|before| before.status);
            if before.is_some_and(|before| before.message != published.condition.message) {
                track.reworded = Some(now);
            }
            if before.is_some_and(|before| published.condition.badness() < before.badness()) {
                track.recoveries.push_back(now);
                if track.recoveries.len() > HOLDS.len() {
                    track.recoveries.pop_front();
                }
            }
            if status != Some(published.condition.status) {
                transitions.push(Transition {
                    before: status,
                    now: published.condition.clone(),
                });
            }
            track.published = Some(published);
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

    /// Records a response of the server, which resets the counts of failures.
    pub(super) fn reached(&mut self) {
        self.failures = Failures::default();
        self.pause = None;
    }

    /// Whether the Node has another status or reason than it should have.
    pub(super) fn has_change(&self) -> bool {
        self.changed.is_some()
    }

    /// The types that are not written now, because another controller manages them.
    pub(super) fn contested(&self) -> impl Iterator<Item = &ConditionType> {
        self.contested.keys()
    }

    /// Returns a write that was not attempted.
    pub(super) fn give_back(&mut self, write: Option<Write>) {
        if write.is_some_and(|write| write.paid) {
            self.bucket.give_back();
        }
    }

    /// Records a failed attempt, with its write if there was one.
    pub(super) fn failed(&mut self, write: Option<Write>, backoff: Backoff, now: Instant) {
        self.give_back(write);
        self.failures.count(backoff);
        let failures = &self.failures;
        let seconds = Duration::from_secs;
        let doubled = |from: Duration, times: u32, most: Duration| {
            from.saturating_mul(2_u32.pow(times.min(16))).min(most)
        };
        let urgent = match backoff {
            // Full jitter: agents that lost the server at the same moment do not return at the same moment.
            Backoff::Away => {
                let most = doubled(Duration::from_millis(125), failures.away, AWAY);
                self.jitter.between(Duration::ZERO, most)
            }
            // In proportion to the duration of the attempt, and never at once.
            Backoff::Struggling(took) => {
                let most = doubled(took.max(STRUGGLING), failures.struggling, LONGEST_STRUGGLE);
                self.jitter.between(most / 2, most)
            }
            Backoff::Throttled(after) => {
                let most = doubled(Duration::from_millis(500), failures.throttled, THROTTLED);
                after.unwrap_or_default().min(LONGEST_RETRY_AFTER) + self.jitter.between(Duration::ZERO, most)
            }
            // A server that has just started rejects for a moment what it allows later.
            Backoff::Refused if failures.refused <= AT_FIRST => self.jitter.between(seconds(1), seconds(3)),
            Backoff::Refused => self.jitter.between(seconds(30), seconds(60)),
        };
        // Without a change the server's state is correct, so the retry is not urgent.
        let routine = urgent.max(match backoff {
            Backoff::Refused => urgent,
            _ => self.jitter.between(seconds(30), HEARTBEAT),
        });
        self.pause = Some((now + urgent, now + routine));
    }

    /// Whether the last write had a condition that is true; `None` before the first write.
    #[cfg(test)]
    pub(super) fn reported_problem(&self) -> Option<bool> {
        let mut published = self
            .tracks
            .values()
            .filter_map(|track| track.published.as_ref())
            .peekable();
        published.peek()?;
        Some(published.any(|published| published.condition.badness() == 2))
    }

    /// The earliest time of the next attempt; if `urgent`, of an urgent one.
    pub(super) fn paused_until(&self, urgent: bool) -> Option<Instant> {
        self.pause
            .map(|(first, second)| if urgent { first } else { second })
    }

    fn note_change(&mut self, now: Instant) {
        let mut writable = self
            .tracks
            .iter()
            .filter(|(kind, _)| !self.contested.contains_key(kind));
        if writable.any(|(_, track)| track.need(now) == Need::Change) {
            self.changed.get_or_insert(now);
        } else {
            self.changed = None;
        }
    }

    fn write(&mut self, paid: bool, now: Instant, wall: &str) -> Option<Step> {
        let writable = self
            .tracks
            .iter()
            .filter(|(kind, _)| !self.contested.contains_key(kind));
        let published = writable.filter_map(|(_, track)| {
            let condition = track.effective(now)?.clone();
            let before = track
                .published
                .as_ref()
                .filter(|before| before.condition.status == condition.status);
            // The clock may have been ahead at that time. Times in this format are in order of their text.
            let since = before.map_or(wall, |before| wall.min(&before.since)).to_owned();
            Some(Published { condition, since })
        });
        let conditions: Vec<_> = published.collect();
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
