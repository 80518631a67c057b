//! One node's communication with the API server: performs the steps of the schedule, and logs each trouble once.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant, SystemTime},
};

use rdma_health_time::Jitter;
use tracing::{error, info, warn};

use super::{
    api::{Api, Node},
    condition::Condition,
    events::{EventWrite, Events},
    failure::Failure,
    kind::ConditionType,
    labels::{TAINT, TaintChange},
    schedule::{Backoff, CONTESTED, Schedule, Step, Write},
    trouble::Trouble,
};

/// Minimum time between two changes of the taint, and before a retry.
const TAINT_PAUSE: Duration = Duration::from_secs(60);
/// The same after a refusal, which lasts until an administrator grants the permission.
const TAINT_REFUSED: Duration = Duration::from_secs(300);

/// The labels and the taint to publish in addition to the conditions.
#[derive(Debug, Clone, Default)]
pub(super) struct LabelsAndTaint {
    /// Labels to set; `None` keeps the Node's value. Empty if labels are disabled.
    pub(super) labels: BTreeMap<&'static str, Option<String>>,
    /// The change of the taint; `None` if taints are disabled.
    pub(super) taint: Option<TaintChange>,
}

/// Settings of a session.
#[derive(Debug, Clone)]
pub(super) struct SessionConfig {
    /// The Node's name.
    pub(super) node: String,
    /// Whether Events are sent.
    pub(super) events: bool,
    /// Whether to take over conditions that another controller manages.
    pub(super) force: bool,
    /// The types of the conditions.
    pub(super) types: Vec<ConditionType>,
}

/// The communication of one node with the API server.
#[derive(Debug)]
pub(super) struct Session {
    api: Api,
    config: SessionConfig,
    schedule: Schedule,
    events: Events,
    labels_and_taint: LabelsAndTaint,
    /// The Node in the server's last response; `None` before the first response, and if the Node no longer exists.
    known: Option<Known>,
    trouble: Trouble,
    events_trouble: Option<String>,
    taint_done: Option<TaintChange>,
    taint_pause: Option<Instant>,
    taint_trouble: Option<String>,
    /// Conditions whose refusal was logged.
    refused: BTreeSet<ConditionType>,
    /// Labels that another controller manages, and until when they are not written.
    foreign_labels: BTreeMap<&'static str, Instant>,
}

#[derive(Debug)]
struct Known {
    uid: String,
    labels: BTreeMap<String, String>,
    /// Whether it has the agent's taint.
    tainted: bool,
}

impl Session {
    pub(super) fn new(api: Api, config: SessionConfig, now: Instant) -> Self {
        Self {
            api,
            config,
            schedule: Schedule::new(now, Jitter::default()),
            events: Events::new(now),
            labels_and_taint: LabelsAndTaint::default(),
            known: None,
            trouble: Trouble::default(),
            events_trouble: None,
            taint_done: None,
            taint_pause: None,
            taint_trouble: None,
            refused: BTreeSet::new(),
            foreign_labels: BTreeMap::new(),
        }
    }

    /// Takes the conditions, labels and taint to publish.
    pub(super) fn observe(
        &mut self,
        conditions: Vec<Condition>,
        labels_and_taint: LabelsAndTaint,
        now: Instant,
    ) {
        self.schedule.observe(conditions, now);
        self.labels_and_taint = labels_and_taint;
    }

    /// The Node's labels, if they are known.
    pub(super) fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.known.as_ref().map(|known| &known.labels)
    }

    /// The labels to write. Server-side apply removes those that a write leaves out, so a label to keep is written with the
    /// Node's own value.
    fn labels_to_set(&self, now: Instant) -> BTreeMap<&'static str, String> {
        let there = |key| self.labels()?.get(key).cloned();
        let is_foreign = |key| self.foreign_labels.get(key).is_some_and(|until| *until > now);
        let all = self.labels_and_taint.labels.iter();
        all.filter(|(key, _)| !is_foreign(**key))
            .filter_map(|(key, value)| Some((*key, value.clone().or_else(|| there(*key))?)))
            .collect()
    }

    /// Each condition's type, and whether it is not written because another controller manages it.
    pub(super) fn contested(&self) -> impl Iterator<Item = (&str, bool)> {
        let contested: BTreeSet<_> = self.schedule.contested().collect();
        let all = self.config.types.iter();
        all.map(move |kind| (kind.name(), contested.contains(kind)))
    }

    /// Whether the conditions on the server are up to date.
    pub(super) fn is_well(&self) -> bool {
        self.known.is_some() && !self.trouble.is_some()
    }

    /// Whether the last write reported a problem; `None` before the first write.
    #[cfg(test)]
    pub(super) fn reported_problem(&self) -> Option<bool> {
        self.schedule.reported_problem()
    }

    /// Performs the next step, with at most one request in addition to those for Events. Returns when to call it again.
    pub(super) async fn drive(&mut self) -> Instant {
        let now = Instant::now();
        if self.known.is_none() {
            if let Some(until) = self.schedule.paused_until(true).filter(|until| *until > now) {
                return until;
            }
            match self.api.node(&self.config.node).await {
                Ok(node) => self.adopt(&node),
                Err(failure) => self.failed(None, &failure, now),
            }
            return Instant::now();
        }
        let wall = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        match self.schedule.step(now, &wall) {
            Step::Write(write) => {
                let SessionConfig { node, force, .. } = &self.config;
                let labels = self.labels_to_set(now);
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
            Step::Wait(until) => self.update_taint(now).await.map_or(until, |at| at.min(until)),
        }
    }

    /// After a start, or if the Node was recreated: takes over its existing conditions.
    fn adopt(&mut self, node: &Node) {
        let (existing, heartbeat) = node.conditions(&self.config.types);
        let age = heartbeat.and_then(|text| {
            let heartbeat = humantime::parse_rfc3339(text).ok()?;
            // A heartbeat in the future, if clocks differ, counts as a heartbeat now.
            Some(SystemTime::now().duration_since(heartbeat).unwrap_or_default())
        });
        self.schedule.adopt(existing, age, Instant::now());
        self.schedule.reached();
        // A Node that can be read is not one that can be written.
        if !self.schedule.has_change() {
            self.recovered();
        }
        self.remember(node);
    }

    fn remember(&mut self, node: &Node) {
        self.known = Some(Known {
            uid: node.metadata.uid.clone(),
            labels: node.labels(),
            tainted: node.is_tainted(TAINT),
        });
    }

    async fn written(&mut self, write: Write, node: &Node) {
        for published in &write.conditions {
            self.refused.remove(&published.condition.kind);
        }
        let transitions = self.schedule.written(write, Instant::now());
        self.recovered();
        self.remember(node);
        if self.config.events {
            self.events.take(transitions);
            self.send_events().await;
        }
    }

    /// Sends pending Events. An Event that cannot be sent is dropped, because the condition has the same content.
    async fn send_events(&mut self) {
        let Some(Known { uid, .. }) = &self.known else {
            return;
        };
        let uid = uid.clone();
        let node = self.config.node.clone();
        while let Some(write) = self.events.next(&node, &uid, Instant::now(), SystemTime::now()) {
            let result = match &write {
                EventWrite::Create(event) => self.api.create_event(event).await,
                EventWrite::Patch(name, change) => self.api.patch_event(name, change).await,
            };
            match (result, write) {
                (Ok(()), _) => self.events_trouble = None,
                (Err(failure), write) => {
                    match &write {
                        EventWrite::Patch(name, _) => self.events.forget(name),
                        EventWrite::Create(event) => {
                            self.events
                                .forget(event["metadata"]["name"].as_str().unwrap_or_default());
                        }
                    }
                    let code = failure.code();
                    if self.events_trouble.as_ref() != Some(&code) {
                        warn!(%failure, "cannot send an Event, it is dropped; conditions are not affected");
                        self.events_trouble = Some(code);
                    }
                    return;
                }
            }
        }
    }

    /// Updates the taint if needed. Returns when to retry.
    async fn update_taint(&mut self, now: Instant) -> Option<Instant> {
        let known = self.known.as_mut()?;
        let wanted = match &self.labels_and_taint.taint {
            Some(TaintChange::Keep) => return None,
            Some(wanted) => wanted.clone(),
            // Taints were disabled, now or while the agent did not run.
            None if known.tainted => TaintChange::Remove,
            None => return None,
        };
        // Compare with the Node's last state, because others may add or remove the taint.
        let there = known.tainted == matches!(wanted, TaintChange::Set(_));
        if there && self.taint_done.as_ref() == Some(&wanted) {
            return None;
        }
        if let Some(until) = self.taint_pause.filter(|until| *until > now) {
            return Some(until);
        }
        match self.api.taint(&self.config.node, TAINT, &wanted).await {
            Ok(()) => {
                known.tainted = matches!(wanted, TaintChange::Set(_));
                self.taint_done = Some(wanted);
                self.taint_trouble = None;
                self.taint_pause = Some(now + TAINT_PAUSE);
                None
            }
            Err(failure) => {
                let code = failure.code();
                if self.taint_trouble.as_ref() != Some(&code) {
                    warn!(%failure, "cannot change the Node's taint, will retry");
                    self.taint_trouble = Some(code);
                }
                let refused =
                    failure.backoff(now.elapsed()) == Backoff::Refused && failure.status() != Some(409);
                let pause = if refused { TAINT_REFUSED } else { TAINT_PAUSE };
                let until = Instant::now() + pause;
                self.taint_pause = Some(until);
                Some(until)
            }
        }
    }

    fn recovered(&mut self) {
        if self.trouble.over() {
            info!("the Node's conditions are written again");
        }
    }

    /// Records the failure of an attempt that began at `begun`.
    fn failed(&mut self, write: Option<Write>, failure: &Failure, begun: Instant) {
        let now = Instant::now();
        let backoff = failure.backoff(now.saturating_duration_since(begun));
        if let Failure::Refused(refusal) = failure
            && refusal.code == 409
            && write.is_some()
        {
            let contested: Vec<_> = self
                .config
                .types
                .iter()
                // One that was left out already cannot be the reason: then the write is retried later and later, like any other.
                .filter(|kind| !self.schedule.contested().any(|other| other == *kind))
                .filter(|kind| {
                    // `.status.conditions[type="RDMALinkProblem"].reason`; the form depends on the server.
                    let quoted = format!("\"{kind}\"");
                    refusal.fields.iter().any(|field| field.contains(&quoted))
                })
                .cloned()
                .collect();
            let labels: Vec<_> = self
                .labels_to_set(begun)
                .into_keys()
                // `.metadata.labels.state.rdma-health.io/verdict`
                .filter(|key| refusal.fields.iter().any(|field| field.ends_with(*key)))
                .collect();
            if !labels.is_empty() {
                error!(%failure, labels = labels.join(", "), "not writing labels that another controller manages");
                let until = now + CONTESTED;
                self.foreign_labels.extend(labels.iter().map(|key| (*key, until)));
            }
            if !contested.is_empty() {
                let refused = contested.iter().filter(|kind| !self.refused.contains(kind));
                if refused.count() > 0 {
                    // The failure names the other manager.
                    error!(%failure, conditions = join(&contested), "not writing conditions that another controller manages");
                }
                self.refused.extend(contested.iter().cloned());
                self.schedule.yield_to_others(&contested, now);
            }
            if !contested.is_empty() || !labels.is_empty() {
                self.schedule.give_back(write);
                return;
            }
        }
        if failure.status() == Some(404) {
            // A recreated Node has a new UID and no conditions.
            self.known = None;
        }
        self.schedule.failed(write, backoff, now);
        if self.trouble.failed(failure.code(), backoff) {
            error!(%failure, "cannot write the Node's conditions; the agent keeps measuring and will retry");
        }
    }
}

fn join(kinds: &[ConditionType]) -> String {
    kinds
        .iter()
        .map(ConditionType::name)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests;
