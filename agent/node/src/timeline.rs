//! What happened on the node, in the order of time: messages of the kernel about adapters, link downs, boots, and findings that came
//! and went.

use serde::Serialize;

use crate::{Node, history::fair};

/// Maximum number of entries; the oldest of what has most of them are dropped.
const MAX_ENTRIES: usize = 256;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Happened {
    /// When, in seconds since 1970; of several equal messages the last. `None` if it is not known.
    pub time: Option<u64>,
    /// What: the kind of a message of the kernel log (`link-down`), `port-down`, `boot`, or what happened to a finding (`found`,
    /// `severity-changed`, `resolved`).
    pub kind: &'static str,
    /// The rule of the finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// How severe the finding is, or was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// The device or port, or the id of the boot; of several findings the first.
    pub subject: String,
    /// What all of them are about, if one rule found the same of several at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// The number of equal messages, or of findings.
    pub count: u64,
    /// The text of the last message or of the finding, or the kernel release of a boot.
    pub message: String,
    /// Where it is known from.
    pub source: &'static str,
}

impl Node {
    /// What is known to have happened, oldest first.
    pub fn timeline(&self) -> Vec<Happened> {
        // Seconds since boot become seconds since 1970.
        let booted = self
            .host
            .uptime
            .known()
            .filter(|_| self.live)
            .map(|uptime| self.time.saturating_sub(*uptime));
        let mut all: Vec<Happened> = self
            .device_events()
            .into_iter()
            .map(|found| Happened {
                time: booted
                    .zip(found.event.last)
                    .map(|(booted, last)| booted.saturating_add(last)),
                kind: found.event.kind.name(),
                rule: None,
                severity: None,
                subject: found.subject(),
                subjects: Vec::new(),
                count: found.event.count,
                message: found.event.message.clone(),
                source: "/dev/kmsg",
            })
            .collect();
        for port in self.ports() {
            let downs = self.past(&port).map_or(&[][..], |past| &past.downs);
            all.extend(downs.iter().map(|time| Happened {
                time: Some(*time),
                kind: "port-down",
                rule: None,
                severity: None,
                subject: port.to_string(),
                subjects: Vec::new(),
                count: 1,
                message: format!("{port} went down"),
                source: "history",
            }));
        }
        let changes = self
            .history
            .as_ref()
            .map_or(&[][..], |history| &history.changes.events);
        all.extend(changes.iter().map(|event| Happened {
            time: Some(event.time),
            kind: event.change.name(),
            rule: Some(event.rule.clone()),
            severity: Some(event.severity.clone()),
            subject: event.subject.clone(),
            subjects: Vec::new(),
            count: 1,
            message: event.message.clone(),
            source: "history",
        }));
        let boots = self.history.as_ref().map_or(&[][..], |history| &history.boots);
        for (n, boot) in boots.iter().enumerate() {
            // The first reading comes soon after a boot, except in the boot in which the agent was installed.
            let time = match n {
                _ if n + 1 == boots.len() && booted.is_some() => booted,
                0 => None,
                _ => Some(boot.first),
            };
            all.push(Happened {
                time,
                kind: "boot",
                rule: None,
                severity: None,
                subject: boot.id.clone(),
                subjects: Vec::new(),
                count: 1,
                message: boot.kernel.clone().unwrap_or_default(),
                source: "history",
            });
        }
        // Stable: findings of one reading stay in order.
        all.sort_by_key(|one| one.time);
        let mut all = together(all);
        fair::bound(&mut all, MAX_ENTRIES, |one| {
            (one.kind, one.rule.clone(), one.subject.clone())
        });
        all
    }
}

/// The entries with one for all findings of a rule that came, changed or went at once: they have one cause.
fn together(all: Vec<Happened>) -> Vec<Happened> {
    let mut joined: Vec<Happened> = Vec::with_capacity(all.len());
    for one in all {
        let is_same = |before: &&mut Happened| {
            let of = |happened: &Happened| (happened.kind, happened.rule.clone(), happened.severity.clone());
            one.rule.is_some() && of(before) == of(&one)
        };
        let mut of_this_time = joined
            .iter_mut()
            .rev()
            .take_while(|before| before.time == one.time);
        match of_this_time.find(is_same) {
            Some(first) => {
                if first.subjects.is_empty() {
                    first.subjects.push(first.subject.clone());
                }
                first.subjects.push(one.subject);
                first.count += 1;
            }
            None => joined.push(one),
        }
    }
    for one in &mut joined {
        let others = one.subjects.len().saturating_sub(1);
        if others > 0 && !one.message.is_empty() {
            one.message = format!("{} (the same for {others} more)", one.message);
        }
    }
    joined
}
