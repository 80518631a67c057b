//! Puts the node together from what was read, what the helper says and what the probes found, and judges it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use rdma_health_node::{
    Fact, Node, Unread,
    history::History,
    node::{Probe, VerbsDevice},
};
use rdma_health_protocol::{Device, HelperError, ProbeReport};
use rdma_health_rules::{Expectations, Finding, Verdict, judge};
use tokio::sync::watch;
use tracing::{info, warn};

use super::reader::Reading;
use crate::{helper::Failure, view::View};

/// What publishers show, and the parts it is made of.
#[derive(Debug)]
pub(crate) struct State {
    parts: Mutex<Parts>,
    view: watch::Sender<Option<Arc<View>>>,
}

#[derive(Debug)]
struct Parts {
    verbs: Fact<Arc<BTreeMap<String, VerbsDevice>>>,
    probes: BTreeMap<(String, u8), Arc<Probe>>,
    history: Arc<History>,
    expectations: Expectations,
}

impl State {
    pub(crate) fn new(expectations: Expectations, history: History) -> Self {
        let parts = Parts {
            verbs: Fact::Absent,
            probes: BTreeMap::new(),
            history: Arc::new(history),
            expectations,
        };
        Self {
            parts: Mutex::new(parts),
            view: watch::Sender::new(None),
        }
    }

    /// What publishers show; `None` before the first reading.
    pub(crate) fn view(&self) -> Option<Arc<View>> {
        self.view.borrow().clone()
    }

    /// What publishers show; its receivers hear of every new verdict, and not of counters alone.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<View>>> {
        self.view.subscribe()
    }

    /// Takes a reading of the node. Where nothing but counters changed since the last one its verdict stays; what counters
    /// tell is judged at the next [`State::remember`].
    pub(crate) fn read(&self, reading: Reading) -> Option<Arc<View>> {
        self.change(Some(reading), Judge::Changes, |_| {})
    }

    /// Takes a reading of the node, judges it, and remembers what it is like, for later ones to be compared with.
    pub(crate) fn remember(&self, reading: Reading) {
        if let Some(view) = self.change(Some(reading), Judge::Anyway, |_| {}) {
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::make_mut(&mut parts.history).record(&view.node, now());
        }
    }

    /// What is remembered.
    pub(crate) fn history(&self) -> Arc<History> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&parts.history)
    }

    /// Takes the helper's answer about all devices.
    pub(crate) fn verbs(&self, answer: Result<Vec<Result<Device, HelperError>>, Failure>) {
        self.change(None, Judge::Anyway, |parts| parts.verbs = verbs_fact(answer));
    }

    /// Takes the outcome of a probe.
    pub(crate) fn probe(&self, report: ProbeReport) {
        let key = (report.device.clone(), report.port);
        let probe = Arc::new(Probe { time: now(), report });
        self.change(None, Judge::Anyway, |parts| drop(parts.probes.insert(key, probe)));
    }

    /// Takes new expectations.
    pub(crate) fn expect(&self, expectations: Expectations) {
        self.change(None, Judge::Anyway, |parts| parts.expectations = expectations);
    }

    /// Changes a part, and shows the node as read now or else as it was.
    fn change(
        &self,
        reading: Option<Reading>,
        judge: Judge,
        change: impl FnOnce(&mut Parts),
    ) -> Option<Arc<View>> {
        // A panic while the lock is held leaves whole parts behind.
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut parts);
        let shown = self.view();
        let (reading, forgot) = match reading {
            Some(reading) => {
                let forgot = parts.forget_gone(&reading.node);
                (reading, forgot)
            }
            None => (shown.as_ref()?.reading(), false),
        };
        let verdict = shown
            .as_ref()
            .filter(|view| judge == Judge::Changes && !forgot && view.revision == reading.revision)
            .map(|view| Arc::clone(&view.verdict));
        let judged = verdict.is_none();
        let view = Arc::new(parts.view(reading, verdict));
        self.view.send_if_modified(|shown| {
            *shown = Some(Arc::clone(&view));
            judged
        });
        drop(parts);
        if judged {
            tell_changes(shown.as_ref().map(|view| &*view.verdict), &view.verdict);
        }
        Some(view)
    }
}

/// When a node is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judge {
    /// In any case.
    Anyway,
    /// Where anything but counters changed.
    Changes,
}

impl Parts {
    /// Drops what was measured on a device or port that is gone, or down: it says nothing of what is there now. Whether
    /// there was such a thing.
    fn forget_gone(&mut self, node: &Node) -> bool {
        let Some(hcas) = node.hcas.known() else {
            return false;
        };
        let before = self.probes.len();
        self.probes.retain(|(device, port), _| {
            let port = hcas.get(device).and_then(|hca| hca.ports.get(port));
            port.is_some_and(|port| port.is_active() != Some(false))
        });
        self.probes.len() < before
    }

    fn view(&self, reading: Reading, verdict: Option<Arc<Verdict>>) -> View {
        let mut node = reading.node;
        node.verbs = self.verbs.clone();
        node.probes = self.probes.values().cloned().collect();
        node.history = Some(Arc::clone(&self.history));
        View {
            verdict: verdict.unwrap_or_else(|| Arc::new(judge(&node, &self.expectations))),
            node,
            read_errors: reading.errors,
            reader_threads: reading.threads,
            revision: reading.revision,
        }
    }
}

impl View {
    /// The reading that it shows.
    fn reading(&self) -> Reading {
        Reading {
            node: self.node.clone(),
            errors: self.read_errors.clone(),
            threads: self.reader_threads,
            revision: self.revision,
        }
    }
}

/// The helper's answer as a fact.
pub(crate) fn verbs_fact(
    answer: Result<Vec<Result<Device, HelperError>>, Failure>,
) -> Fact<Arc<BTreeMap<String, VerbsDevice>>> {
    match answer {
        Ok(devices) => {
            let entry = |device: Result<Device, HelperError>| match device {
                Ok(device) => (device.name.clone(), VerbsDevice::Device(device)),
                Err(error) => (
                    error.device.clone().unwrap_or_default(),
                    VerbsDevice::Error(error),
                ),
            };
            Fact::Known(Arc::new(devices.into_iter().map(entry).collect()))
        }
        Err(failure) => Unread {
            source: "rdma-health-verbs".into(),
            kind: format!("helper_{}", failure.reason()),
            detail: failure.to_string(),
        }
        .into(),
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Logs findings that came and went. One that stays is not repeated.
fn tell_changes(before: Option<&Verdict>, after: &Verdict) {
    let same =
        |a: &Finding, b: &Finding| a.rule == b.rule && a.subject == b.subject && a.severity == b.severity;
    let earlier = before.map_or(&[][..], |verdict| &verdict.findings);
    for finding in after
        .findings
        .iter()
        .filter(|new| !earlier.iter().any(|old| same(old, new)))
    {
        warn!(rule = finding.rule.id, severity = finding.severity.name(), subject = %finding.subject, "{}", finding.message);
    }
    for finding in earlier
        .iter()
        .filter(|old| !after.findings.iter().any(|new| same(old, new)))
    {
        info!(rule = finding.rule.id, subject = %finding.subject, "no longer found: {}", finding.message);
    }
}
