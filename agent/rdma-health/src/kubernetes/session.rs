//! One node's conversation with the API server: what the schedule asks for is done, and how it went is told once.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

use tracing::{error, info, warn};

use super::{
    api::{Api, Node},
    condition::{Condition, kinds},
    events::{Events, Telling},
    failure::Failure,
    jitter::Jitter,
    labels::{TAINT, Wish},
    schedule::{AT_FIRST, Schedule, Setback, Step, Write},
};

/// Between two changes of the taint, and before it is tried again.
const TAINT_PAUSE: Duration = Duration::from_secs(60);
/// The same after a refusal, which lasts until somebody grants the permission.
const TAINT_REFUSED: Duration = Duration::from_secs(300);

/// What of a node's state is published beside its conditions.
#[derive(Debug, Clone, Default)]
pub(super) struct Extras {
    /// Labels to set, `None` for one that stays as it is; empty where they are switched off.
    pub(super) labels: BTreeMap<&'static str, Option<String>>,
    /// What is wanted of the taint; `None` where taints are switched off.
    pub(super) taint: Option<Wish>,
}

/// How a session behaves.
#[derive(Debug, Clone)]
pub(super) struct Manner {
    /// The Node's name.
    pub(super) node: String,
    /// Whether Events are sent.
    pub(super) events: bool,
    /// Whether conditions that somebody else manages are taken over.
    pub(super) force: bool,
}

/// The conversation.
#[derive(Debug)]
pub(super) struct Session {
    api: Api,
    manner: Manner,
    schedule: Schedule,
    events: Events,
    extras: Extras,
    /// What the server said of the Node last; `None` before it was asked, and after the Node was gone.
    known: Option<Known>,
    /// What the last attempt ended in.
    trouble: Option<Trouble>,
    events_trouble: Option<String>,
    taint_done: Option<Wish>,
    taint_pause: Option<Instant>,
    taint_trouble: Option<String>,
}

#[derive(Debug)]
struct Trouble {
    code: String,
    attempts: u32,
    told: bool,
}

#[derive(Debug)]
struct Known {
    uid: String,
    labels: BTreeMap<String, String>,
    /// Whether it has our taint.
    tainted: bool,
}

impl Session {
    pub(super) fn new(api: Api, manner: Manner, now: Instant) -> Self {
        Self {
            api,
            manner,
            schedule: Schedule::new(now, Jitter::new()),
            events: Events::new(now),
            extras: Extras::default(),
            known: None,
            trouble: None,
            events_trouble: None,
            taint_done: None,
            taint_pause: None,
            taint_trouble: None,
        }
    }

    /// Takes what is to be said.
    pub(super) fn observe(&mut self, conditions: Vec<Condition>, extras: Extras, now: Instant) {
        self.schedule.observe(conditions, now);
        self.extras = extras;
    }

    /// The Node's labels as far as they are known.
    pub(super) fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.known.as_ref().map(|known| &known.labels)
    }

    /// What is left out of a write is taken off the Node, so one that stays is written again as the Node has it.
    fn labels_to_set(&self) -> BTreeMap<&'static str, String> {
        let there = |key| self.labels()?.get(key).cloned();
        let all = self.extras.labels.iter();
        all.filter_map(|(key, value)| Some((*key, value.clone().or_else(|| there(*key))?)))
            .collect()
    }

    /// When conditions were last written, or heard to be right.
    pub(super) fn is_well(&self) -> bool {
        self.known.is_some() && self.trouble.is_none()
    }

    /// Whether the server was told of a problem last; `None` where it was told nothing.
    #[cfg(test)]
    pub(super) fn says(&self) -> Option<bool> {
        self.schedule.says()
    }

    /// Does what is due, with one request at most beside those for Events. Returns when to be called again.
    pub(super) async fn drive(&mut self) -> Instant {
        let now = Instant::now();
        if self.known.is_none() {
            if let Some(until) = self.schedule.paused_until(true).filter(|until| *until > now) {
                return until;
            }
            match self.api.node(&self.manner.node).await {
                Ok(node) => self.meet(&node),
                Err(failure) => self.failed(None, &failure, now),
            }
            return Instant::now();
        }
        let wall = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        match self.schedule.step(now, &wall) {
            Step::Write(write) => {
                let Manner { node, force, .. } = &self.manner;
                let labels = self.labels_to_set();
                match self
                    .api
                    .apply(node, &write.conditions, &labels, &wall, *force)
                    .await
                {
                    Ok(node) => self.written(write, &node).await,
                    Err(failure) => self.failed(Some(write), &failure, now),
                }
                Instant::now()
            }
            Step::Wait(until) => self.taint(now).await.map_or(until, |at| at.min(until)),
        }
    }

    /// After a start, or after the Node came back: takes over what it says of us.
    fn meet(&mut self, node: &Node) {
        let (ours, heartbeat) = node.ours();
        let age = heartbeat.and_then(|text| {
            let heartbeat = humantime::parse_rfc3339(text).ok()?;
            // One from the future, where clocks disagree, has only just been.
            Some(SystemTime::now().duration_since(heartbeat).unwrap_or_default())
        });
        self.schedule.adopt(ours, age, Instant::now());
        self.schedule.reached();
        self.recovered();
        self.learn(node);
    }

    fn learn(&mut self, node: &Node) {
        self.known = Some(Known {
            uid: node.metadata.uid.clone(),
            labels: node.labels(),
            tainted: node.is_tainted(TAINT),
        });
    }

    async fn written(&mut self, write: Write, node: &Node) {
        let transitions = self.schedule.written(write, Instant::now());
        self.recovered();
        self.learn(node);
        if self.manner.events {
            self.events.take(transitions);
            self.send_events().await;
        }
    }

    /// Sends what waits. An Event that cannot be sent is lost: the condition says the same.
    async fn send_events(&mut self) {
        let Some(Known { uid, .. }) = &self.known else {
            return;
        };
        let uid = uid.clone();
        let node = self.manner.node.clone();
        while let Some(telling) = self.events.next(&node, &uid, Instant::now(), SystemTime::now()) {
            let result = match &telling {
                Telling::Create(event) => self.api.create_event(event).await,
                Telling::Patch(name, change) => self.api.patch_event(name, change).await,
            };
            match (result, telling) {
                (Ok(()), _) => self.events_trouble = None,
                (Err(failure), telling) => {
                    match &telling {
                        Telling::Patch(name, _) => self.events.forget(name),
                        Telling::Create(event) => {
                            self.events
                                .forget(event["metadata"]["name"].as_str().unwrap_or_default());
                        }
                    }
                    let code = failure.code();
                    if self.events_trouble.as_ref() != Some(&code) {
                        warn!(%failure, "an Event is lost; conditions are not affected");
                        self.events_trouble = Some(code);
                    }
                    return;
                }
            }
        }
    }

    /// Sees to the taint. Returns when to try again.
    async fn taint(&mut self, now: Instant) -> Option<Instant> {
        let known = self.known.as_mut()?;
        let wanted = match &self.extras.taint {
            Some(Wish::Keep) => return None,
            Some(wanted) => wanted.clone(),
            // Taints were switched off, now or while we did not run.
            None if known.tainted => Wish::Without,
            None => return None,
        };
        // As the Node was seen last: somebody may have taken it off, or put it there.
        let there = known.tainted == matches!(wanted, Wish::With(_));
        if there && self.taint_done.as_ref() == Some(&wanted) {
            return None;
        }
        if let Some(until) = self.taint_pause.filter(|until| *until > now) {
            return Some(until);
        }
        match self.api.taint(&self.manner.node, TAINT, &wanted).await {
            Ok(()) => {
                known.tainted = matches!(wanted, Wish::With(_));
                self.taint_done = Some(wanted);
                self.taint_trouble = None;
                self.taint_pause = Some(now + TAINT_PAUSE);
                None
            }
            Err(failure) => {
                let code = failure.code();
                if self.taint_trouble.as_ref() != Some(&code) {
                    warn!(%failure, "the Node's taint is not changed");
                    self.taint_trouble = Some(code);
                }
                let refused =
                    failure.setback(now.elapsed()) == Setback::Refused && failure.status() != Some(409);
                let pause = if refused { TAINT_REFUSED } else { TAINT_PAUSE };
                let until = Instant::now() + pause;
                self.taint_pause = Some(until);
                Some(until)
            }
        }
    }

    fn recovered(&mut self) {
        if self.trouble.take().is_some_and(|trouble| trouble.told) {
            info!("the API server takes this node's conditions again");
        }
    }

    /// Takes note of an attempt that began at `begun`.
    fn failed(&mut self, write: Option<Write>, failure: &Failure, begun: Instant) {
        let now = Instant::now();
        let setback = failure.setback(now.saturating_duration_since(begun));
        if let Failure::Refused(refusal) = failure
            && refusal.code == 409
            && write.is_some()
        {
            let contested: Vec<_> = kinds()
                .filter(|kind| {
                    // `.status.conditions[type="RDMALinkProblem"].reason`, in whatever form the server writes it.
                    let quoted = format!("\"{kind}\"");
                    refusal.fields.iter().any(|field| field.contains(&quoted))
                })
                .collect();
            if !contested.is_empty() {
                error!(%failure, conditions = contested.join(", "), "not ours to write");
                self.schedule.give_back(write);
                self.schedule.yield_to_others(&contested, now);
                return;
            }
        }
        if failure.status() == Some(404) {
            // A Node that comes back is another, with another UID and no conditions.
            self.known = None;
        }
        self.schedule.failed(write, setback, now);
        let code = failure.code();
        let mut trouble = match self.trouble.take() {
            Some(trouble) if trouble.code == code => trouble,
            _ => Trouble {
                code,
                attempts: 0,
                told: false,
            },
        };
        trouble.attempts += 1;
        // A server that has just started, or a rolling change of its rules, refuses for a moment: told is what lasts.
        let lasts = trouble.attempts > AT_FIRST || matches!(setback, Setback::Away | Setback::Struggling(_));
        if lasts && !trouble.told {
            error!(%failure, "the Node's conditions are not written; the agent measures on and tries again");
            trouble.told = true;
        }
        self.trouble = Some(trouble);
    }
}

#[cfg(test)]
mod tests;
