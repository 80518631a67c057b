//! Events about transitions: few, aggregated, and told of the Node by its UID.
//!
//! They are of core/v1 and not of events.k8s.io/v1: the latter, about a Node and in the namespace `default`, is wrongly
//! refused by servers before 1.21, while the former means the same to every server.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write,
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Value, json};

use super::{
    bucket::Bucket,
    condition::{Condition, Status},
    schedule::Transition,
};

/// Events that may be sent at once, and how soon another may follow: sixteen an hour at most.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(600);
/// Within this an event that says the same is counted, not repeated.
const AGGREGATED: Duration = Duration::from_secs(3600);
/// What waits to be sent; more is dropped, oldest first.
const WAITING: usize = 16;
/// The longest name of a Node that fits into that of an Event together with what makes it unique.
const NAME: usize = 220;

/// What an event is the same as: of which condition, and what it says.
type Key = (&'static str, Status, String);

/// The events of one node.
#[derive(Debug)]
pub(super) struct Events {
    bucket: Bucket,
    sent: BTreeMap<Key, Sent>,
    waiting: VecDeque<Condition>,
    /// Transitions that were not told for want of tokens.
    untold: u32,
}

#[derive(Debug)]
struct Sent {
    name: String,
    count: u32,
    at: Instant,
}

/// A request to be made.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Telling {
    /// Create this Event.
    Create(Value),
    /// Change the Event of this name.
    Patch(String, Value),
}

impl Events {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            bucket: Bucket::new(BURST, REFILL, now),
            sent: BTreeMap::new(),
            waiting: VecDeque::new(),
            untold: 0,
        }
    }

    /// Takes what changed. That a problem begins or ends is told; that nobody knows is what the condition is for.
    pub(super) fn take(&mut self, transitions: Vec<Transition>) {
        for Transition { before, now } in transitions {
            let tells =
                now.status == Status::True || (now.status == Status::False && before == Some(Status::True));
            if tells {
                if self.waiting.len() == WAITING {
                    self.waiting.pop_front();
                    self.untold += 1;
                }
                self.waiting.push_back(now);
            }
        }
    }

    /// The next request, where one waits and the budget allows it.
    pub(super) fn next(&mut self, node: &str, uid: &str, now: Instant, wall: SystemTime) -> Option<Telling> {
        let condition = self.waiting.pop_front()?;
        if !self.bucket.take(0, now) {
            self.untold += 1 + u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
            self.waiting.clear();
            return None;
        }
        self.sent
            .retain(|_, sent| now.saturating_duration_since(sent.at) < AGGREGATED);
        let mut message = format!("{}: {}", condition.kind, condition.message);
        if self.untold > 0 {
            let _ = write!(message, " ({} earlier changes were not told)", self.untold);
            self.untold = 0;
        }
        let time = humantime::format_rfc3339_seconds(wall).to_string();
        let key = (condition.kind, condition.status, condition.reason.clone());
        if let Some(sent) = self.sent.get_mut(&key) {
            sent.count += 1;
            let change = json!({"count": sent.count, "lastTimestamp": time, "message": message});
            return Some(Telling::Patch(sent.name.clone(), change));
        }
        let nanos = wall
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        // Names of Events are made unique in this way by every component.
        let name = format!(
            "{}.{nanos:x}",
            &node[..node.len().min(NAME)].trim_end_matches(['.', '-'])
        );
        let sent = Sent {
            name: name.clone(),
            count: 1,
            at: now,
        };
        self.sent.insert(key, sent);
        Some(Telling::Create(json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid},
            "type": if condition.status == Status::True { "Warning" } else { "Normal" },
            "reason": condition.reason,
            "message": message,
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "source": {"component": "rdma-health", "host": node},
        })))
    }

    /// An Event that was to be changed is gone, as they all are after an hour: the next one is created.
    pub(super) fn forget(&mut self, name: &str) {
        self.sent.retain(|_, sent| sent.name != name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transition(before: Status, now: Status) -> Transition {
        Transition {
            before: Some(before),
            now: Condition {
                kind: "RDMALinkProblem",
                status: now,
                reason: if now == Status::True {
                    "PortDown"
                } else {
                    "NoLinkProblem"
                }
                .into(),
                message: "mlx5_0:1".into(),
            },
        }
    }

    #[test]
    fn the_same_again_is_counted_and_all_are_bounded() {
        let start = Instant::now();
        let mut events = Events::new(start);
        let (mut created, mut patched) = (0, 0);
        for minute in 0..60 {
            let now = start + Duration::from_secs(minute * 60);
            let (before, after) = if minute % 2 == 0 {
                (Status::False, Status::True)
            } else {
                (Status::True, Status::False)
            };
            events.take(vec![transition(before, after)]);
            match events.next(
                "node-1",
                "u",
                now,
                SystemTime::UNIX_EPOCH + Duration::from_secs(minute),
            ) {
                Some(Telling::Create(event)) => {
                    created += 1;
                    assert_eq!(event["involvedObject"]["uid"], "u");
                    assert_eq!(event["type"], if minute % 2 == 0 { "Warning" } else { "Normal" });
                }
                Some(Telling::Patch(_, change)) => {
                    patched += 1;
                    assert!(change["count"].as_u64().unwrap() > 1);
                }
                None => {}
            }
        }
        assert_eq!(created, 2);
        assert!((8..=16).contains(&(created + patched)), "{created} {patched}");
    }

    #[test]
    fn that_nobody_knows_is_no_event() {
        let now = Instant::now();
        let mut events = Events::new(now);
        events.take(vec![
            transition(Status::False, Status::Unknown),
            transition(Status::Unknown, Status::False),
        ]);
        assert_eq!(events.next("n", "u", now, SystemTime::UNIX_EPOCH), None);
    }
}
