//! Events about status changes: few, aggregated, and linked to the Node by its UID.
//!
//! They are core/v1 Events, not events.k8s.io/v1: API servers before 1.21 wrongly reject the latter for a Node in the
//! namespace `default`, while all servers treat the former alike.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write,
    time::{Duration, Instant, SystemTime},
};

use rdma_health_time::since_1970;
use serde_json::{Value, json};

use super::{
    bucket::Bucket,
    condition::{Condition, Status},
    kind::ConditionType,
    schedule::Transition,
};

/// The number of Events in a burst, and the time until another may follow: at most sixteen per hour.
const BURST: u32 = 10;
const REFILL: Duration = Duration::from_secs(600);
/// An Event with the same content within this time increases a count and is not repeated.
const AGGREGATED: Duration = Duration::from_secs(3600);
/// Maximum number of pending Events; the oldest is dropped first.
const WAITING: usize = 16;
/// Maximum length of the Node's name within an Event's name, which also needs a unique suffix.
const NAME: usize = 220;

/// Identifies an Event's content: type, status and reason of the condition.
type Key = (ConditionType, Status, String);

/// The Events of one node.
#[derive(Debug)]
pub(super) struct Events {
    bucket: Bucket,
    sent: BTreeMap<Key, Sent>,
    waiting: VecDeque<Condition>,
    /// Number of status changes that got no Event because no token was left.
    skipped: u32,
}

#[derive(Debug)]
struct Sent {
    name: String,
    count: u32,
    at: Instant,
}

/// A pending request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EventWrite {
    /// Create this Event.
    Create(Value),
    /// Patch the Event with this name.
    Patch(String, Value),
}

impl Events {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            bucket: Bucket::new(BURST, REFILL, now),
            sent: BTreeMap::new(),
            waiting: VecDeque::new(),
            skipped: 0,
        }
    }

    /// Adds status changes. Only the start and the end of a problem become Events; `Unknown` shows in the condition only, and
    /// the aggregate condition and its aliases repeat what others reported.
    pub(super) fn take(&mut self, transitions: Vec<Transition>) {
        for Transition { before, now } in transitions {
            let own = matches!(now.kind, ConditionType::Problem(_));
            let reported = own
                && (now.status == Status::True
                    || (now.status == Status::False && before == Some(Status::True)));
            if reported {
                if self.waiting.len() == WAITING {
                    self.waiting.pop_front();
                    self.skipped += 1;
                }
                self.waiting.push_back(now);
            }
        }
    }

    /// The next pending request, if the token bucket allows it.
    pub(super) fn next(
        &mut self,
        node: &str,
        uid: &str,
        now: Instant,
        wall: SystemTime,
    ) -> Option<EventWrite> {
        let condition = self.waiting.pop_front()?;
        if !self.bucket.take(0, now) {
            self.skipped += 1 + u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
            self.waiting.clear();
            return None;
        }
        self.sent
            .retain(|_, sent| now.saturating_duration_since(sent.at) < AGGREGATED);
        let mut message = format!("{}: {}", condition.kind, condition.message);
        if self.skipped > 0 {
            let _ = write!(message, " ({} earlier changes were not reported)", self.skipped);
            self.skipped = 0;
        }
        let time = humantime::format_rfc3339_seconds(wall).to_string();
        let key = (condition.kind.clone(), condition.status, condition.reason.clone());
        if let Some(sent) = self.sent.get_mut(&key) {
            sent.count += 1;
            let change = json!({"count": sent.count, "lastTimestamp": time, "message": message});
            return Some(EventWrite::Patch(sent.name.clone(), change));
        }
        let nanos = since_1970(wall).as_nanos();
        // Every Kubernetes component makes the names of its Events unique in this way.
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
        Some(EventWrite::Create(json!({
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

    /// Forgets an Event that no longer exists, as all do after an hour: the next one is created instead of patched.
    pub(super) fn forget(&mut self, name: &str) {
        self.sent.retain(|_, sent| sent.name != name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::ConditionKind;

    fn transition(before: Status, now: Status) -> Transition {
        Transition {
            before: Some(before),
            now: Condition {
                kind: ConditionKind::Link.into(),
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
    fn repeated_events_are_counted_and_all_are_bounded() {
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
                Some(EventWrite::Create(event)) => {
                    created += 1;
                    assert_eq!(event["involvedObject"]["uid"], "u");
                    assert_eq!(event["type"], if minute % 2 == 0 { "Warning" } else { "Normal" });
                }
                Some(EventWrite::Patch(_, change)) => {
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
    fn an_unknown_status_sends_no_event() {
        let now = Instant::now();
        let mut events = Events::new(now);
        events.take(vec![
            transition(Status::False, Status::Unknown),
            transition(Status::Unknown, Status::False),
        ]);
        assert_eq!(events.next("n", "u", now, SystemTime::UNIX_EPOCH), None);
    }
}
