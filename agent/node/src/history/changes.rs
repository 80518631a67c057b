//! Which findings came and went, and since when the node has its status: for people. No rule reads it.
//!
//! It knows findings only by the names that they are published with, because rules are above this crate.

use serde::{Deserialize, Serialize};

use super::{fair, problem_key, short};

/// Maximum number of findings at a time.
const MAX_OPEN: usize = 512;
/// Maximum number of events; the oldest of what has most of them are dropped.
pub const MAX_EVENTS: usize = 64;

/// Findings that exist, and those that came and went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The status of the node and since when it has it; `None` before the first verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Since>,
    /// The findings that exist, in order of the verdict that had them first.
    #[serde(default)]
    pub open: Vec<Open>,
    /// What changed, oldest first.
    #[serde(default)]
    pub events: Vec<Event>,
}

/// A status and its first time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    /// `critical`.
    pub status: String,
    /// Seconds since 1970.
    pub since: u64,
}

/// A finding that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The rule's id.
    pub rule: String,
    /// What it is about: `mlx5_0:1`.
    pub subject: String,
    /// How severe it is.
    pub severity: String,
}

/// A finding that came, went or changed its severity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// In seconds since 1970.
    pub time: u64,
    /// Whether it came or went.
    pub change: Change,
    /// The rule's id.
    pub rule: String,
    /// What it is about.
    pub subject: String,
    /// How severe it is, or was.
    pub severity: String,
    /// The message; of a finding that went, what it said before.
    pub message: String,
}

/// What happened to a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is new.
    Found,
    /// It is more or less severe than before.
    Severity,
    /// It no longer exists.
    Resolved,
}

impl Change {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Severity => "severity-changed",
            Self::Resolved => "resolved",
        }
    }
}

/// A finding of the current verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current<'a> {
    /// The rule's id.
    pub rule: &'a str,
    /// What it is about.
    pub subject: String,
    /// How severe it is.
    pub severity: &'a str,
    /// The message.
    pub message: &'a str,
}

impl Open {
    /// Its key among problems.
    pub fn key(&self) -> String {
        problem_key(&self.rule, &self.subject)
    }

    /// What was last said of it, if one of the events has it.
    pub fn message<'a>(&self, events: &'a [Event]) -> Option<&'a str> {
        let mut newest = events.iter().rev();
        let said = newest.find(|event| {
            let is_of_it = event.rule == self.rule && event.subject == self.subject;
            is_of_it && event.change != Change::Resolved && !event.message.is_empty()
        })?;
        Some(&said.message)
    }

    /// The message of the event that it is over.
    fn over(&self, events: &[Event]) -> String {
        match self.message(events) {
            Some(message) => format!("resolved: {message}"),
            None => format!("resolved: {} of {}", self.rule, self.subject),
        }
    }
}

impl Current<'_> {
    fn is(&self, open: &Open) -> bool {
        open.rule == self.rule && open.subject == short(&self.subject)
    }
}

impl Changes {
    /// Whether [`Changes::see`] would change anything.
    pub fn differs(&self, status: &str, current: &[Current<'_>]) -> bool {
        let same = |found: &Current<'_>| {
            let known = self.open.iter().find(|open| found.is(open));
            known.is_some_and(|open| open.severity == found.severity)
        };
        let gone = |open: &Open| !current.iter().any(|found| found.is(open));
        self.status.as_ref().is_none_or(|known| known.status != status)
            || !current.iter().take(MAX_OPEN).all(same)
            || self.open.iter().any(gone)
    }

    /// Takes a verdict of `now`, in seconds since 1970. A finding that is not in it is resolved, unless `is_undecided`: after a
    /// start, not everything was read and probed. As long as one is, the node does not get another status.
    pub fn see(
        &mut self,
        status: &str,
        current: &[Current<'_>],
        now: u64,
        is_undecided: impl Fn(&Open) -> bool,
    ) {
        let mut events = Vec::new();
        let mut undecided = false;
        let known = std::mem::take(&mut self.events);
        self.open.retain(|open| {
            let found = current.iter().any(|found| found.is(open));
            let stays = found || is_undecided(open);
            undecided |= stays && !found;
            if !stays {
                events.push(Event {
                    time: now,
                    change: Change::Resolved,
                    rule: open.rule.clone(),
                    subject: open.subject.clone(),
                    severity: open.severity.clone(),
                    message: short(&open.over(&known)).to_owned(),
                });
            }
            stays
        });
        self.events = known;
        let known = self.status.as_ref();
        if known.is_none_or(|known| known.status != status && !undecided) {
            self.status = Some(Since {
                status: short(status).to_owned(),
                since: now,
            });
        }
        for found in current {
            let is_full = self.open.len() >= MAX_OPEN;
            let known = self.open.iter_mut().find(|open| found.is(open));
            let change = match known {
                Some(open) if open.severity == found.severity => continue,
                Some(open) => {
                    short(found.severity).clone_into(&mut open.severity);
                    Change::Severity
                }
                None if is_full => continue,
                None => {
                    self.open.push(Open {
                        rule: short(found.rule).to_owned(),
                        subject: short(&found.subject).to_owned(),
                        severity: short(found.severity).to_owned(),
                    });
                    Change::Found
                }
            };
            events.push(Event {
                time: now,
                change,
                rule: short(found.rule).to_owned(),
                subject: short(&found.subject).to_owned(),
                severity: short(found.severity).to_owned(),
                message: short(found.message).to_owned(),
            });
        }
        self.events.append(&mut events);
        fair::bound(&mut self.events, MAX_EVENTS, |event| {
            (event.rule.clone(), event.subject.clone())
        });
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies `change` to every time.
    pub(super) fn times(&mut self, mut change: impl FnMut(&mut u64)) {
        self.status.iter_mut().for_each(|known| change(&mut known.since));
        self.events.iter_mut().for_each(|event| change(&mut event.time));
        self.events.sort_by_key(|event| event.time);
    }

    /// Checks the limits, because the content of a file is untrusted.
    pub(super) fn check(&self) -> Result<(), String> {
        for (what, number, limit) in [
            ("open findings", self.open.len(), MAX_OPEN),
            ("events", self.events.len(), MAX_EVENTS),
        ] {
            if number > limit {
                return Err(format!("it has {number} {what}, at most {limit} are allowed"));
            }
        }
        let status = self.status.iter().map(|known| &known.status);
        let open = self
            .open
            .iter()
            .flat_map(|open| [&open.rule, &open.subject, &open.severity]);
        let events = self
            .events
            .iter()
            .flat_map(|event| [&event.rule, &event.subject, &event.severity, &event.message]);
        match status
            .chain(open)
            .chain(events)
            .find(|text| short(text) != **text)
        {
            Some(text) => Err(format!("a text of the changes has {} bytes", text.len())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(rule: &'a str, severity: &'a str) -> Current<'a> {
        Current {
            rule,
            subject: "mlx5_0:1".into(),
            severity,
            message: "it is down",
        }
    }

    fn times(changes: &Changes) -> Vec<(u64, Change)> {
        let events = changes.events.iter();
        events.map(|event| (event.time, event.change)).collect()
    }

    #[test]
    fn each_change_of_a_finding_is_an_event() {
        let mut changes = Changes::default();
        let down = [found("port-down", "warning")];
        assert!(changes.differs("warning", &down));
        changes.see("warning", &down, 100, |_| false);
        changes.see("warning", &down, 160, |_| false);
        assert!(!changes.differs("warning", &down));
        changes.see("critical", &[found("port-down", "critical")], 220, |_| false);
        assert_eq!(changes.status.as_ref().unwrap().since, 220);
        assert!(changes.differs("ok", &[]));
        changes.see("ok", &[], 280, |_| true);
        assert_eq!(changes.open.len(), 1, "not judged yet");
        assert_eq!(changes.status.as_ref().unwrap().since, 220);
        changes.see("ok", &[], 340, |_| false);
        assert_eq!(changes.open, []);
        assert_eq!(
            times(&changes),
            [
                (100, Change::Found),
                (220, Change::Severity),
                (340, Change::Resolved)
            ]
        );
    }

    #[test]
    fn the_end_of_a_finding_says_what_is_over() {
        let mut changes = Changes::default();
        changes.see("warning", &[found("port-down", "warning")], 100, |_| false);
        changes.see("ok", &[], 160, |_| false);
        assert_eq!(changes.events[1].message, "resolved: it is down");
        changes.see("warning", &[found("port-down", "warning")], 200, |_| false);
        changes.events.clear();
        changes.see("ok", &[], 260, |_| false);
        assert_eq!(changes.events[0].message, "resolved: port-down of mlx5_0:1");
    }

    #[test]
    fn a_finding_that_comes_and_goes_evicts_no_other() {
        let mut changes = Changes::default();
        let other = Current {
            subject: "mlx5_3:1".into(),
            ..found("rate-low", "warning")
        };
        for time in 0..1000 {
            let down = found("port-down", "critical");
            let current = [other.clone(), down];
            changes.see("critical", &current[..=usize::from(time % 2 == 0)], time, |_| {
                false
            });
        }
        assert_eq!(changes.events.len(), MAX_EVENTS);
        assert_eq!(changes.events[0].rule, "rate-low");
        assert_eq!(changes.events[0].change, Change::Found);
    }

    #[test]
    fn it_stays_within_its_limits() {
        let mut changes = Changes::default();
        let long = "x".repeat(1000);
        for time in 0..1000 {
            let many: Vec<_> = (0..600)
                .map(|n| Current {
                    subject: format!("{n}{long}"),
                    message: &long,
                    ..found("port-down", "warning")
                })
                .collect();
            changes.see(
                "warning",
                if time % 2 == 0 { &[] } else { &many[..] },
                time,
                |_| false,
            );
        }
        assert_eq!(changes.check(), Ok(()));
        assert_eq!(changes.events.len(), MAX_EVENTS);
        changes.events.push(changes.events[0].clone());
        assert!(changes.check().is_err());
    }
}
