//! Puts the node together from what was read, what the helper says and what the probes found, and judges it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdma_health_diagnosis::{Cause, Diagnosis, diagnose};
use rdma_health_helper::Failure;
use rdma_health_node::{
    Fact, Node,
    history::{
        History, Missing,
        changes::{Current, Open},
    },
    limits::Runtime,
    node::{Probe, VerbsDevice},
};
use rdma_health_protocol::{Device, HelperError, Path, PortKey, ProbeReport, RuntimeLimits};
use rdma_health_rules::{Expectations, Finding, Severity, Verdict, is_judged_at_once, judge, rule};
use rdma_health_time::now;
use rdma_health_view::View;
use tokio::sync::watch;
use tracing::{info, warn};

use super::reader::Reading;
use crate::helper::{runtimes_fact, verbs_fact};

/// How long after its start an agent at most waits for everything that the one before it read and probed.
const SETTLING: Duration = Duration::from_secs(600);
/// How many readings a new agent needs once everything else is there: what changes over time is judged from the second on.
const READINGS: u8 = 2;

/// What comes later than the first reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// All answers of the helper.
    Helper,
    /// A probe of each active port.
    Probes,
}

/// What a new agent has not got yet, and so does not know to be over.
#[derive(Debug)]
struct Awaited {
    late: Vec<Late>,
    readings: u8,
    since: Instant,
}

impl Awaited {
    fn from_now() -> Self {
        Self {
            late: vec![Late::Helper, Late::Probes],
            readings: READINGS,
            since: Instant::now(),
        }
    }

    fn take_reading(&mut self) {
        if self.late.is_empty() {
            self.readings = self.readings.saturating_sub(1);
        }
    }

    fn is_over(&self) -> bool {
        self.readings == 0 || self.since.elapsed() >= SETTLING
    }
}

/// What publishers show, and the parts it is made of.
#[derive(Debug)]
pub(crate) struct State {
    parts: Mutex<Parts>,
    view: watch::Sender<Option<Arc<View>>>,
}

#[derive(Debug)]
struct Parts {
    verbs: Fact<Arc<BTreeMap<String, VerbsDevice>>>,
    /// What the helper says of runtimes; `None` if the agent reads them itself.
    runtimes: Option<Fact<Vec<Runtime>>>,
    probes: BTreeMap<Path, Arc<Probe>>,
    history: Arc<History>,
    expectations: Expectations,
    /// [`View::generation`] of the next view.
    generation: u64,
    awaited: Awaited,
    /// The problems that this agent has seen while something was awaited, or knows to be over, by key.
    seen: BTreeSet<String>,
    /// The problems that were recorded last, and whether the agent had settled.
    observed: Option<(BTreeSet<String>, bool)>,
}

impl State {
    pub(crate) fn new(expectations: Expectations, history: History) -> Self {
        let parts = Parts {
            verbs: Fact::Absent,
            runtimes: None,
            probes: BTreeMap::new(),
            history: Arc::new(history),
            expectations,
            generation: 0,
            awaited: Awaited::from_now(),
            seen: BTreeSet::new(),
            observed: None,
        };
        Self {
            parts: Mutex::new(parts),
            view: watch::Sender::new(None),
        }
    }

    /// Leaves it to the helper, if there is one, what runtimes the node has: until its first answer there are none, and not the reading of a
    /// container, which does not see the processes of the node.
    pub(crate) fn runtimes_by_helper(mut self, has_helper: bool) -> Self {
        let parts = self.parts.get_mut().unwrap_or_else(PoisonError::into_inner);
        parts.runtimes = has_helper.then(|| Fact::Known(Vec::new()));
        self
    }

    /// What publishers show; `None` before the first reading.
    pub(crate) fn view(&self) -> Option<Arc<View>> {
        self.view.borrow().clone()
    }

    /// What publishers show; its receivers hear of every new verdict, and not of counters alone.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<View>>> {
        self.view.subscribe()
    }

    /// Takes a reading of the node. If only counters changed since the last one, its verdict stays; counters are judged at
    /// the next [`State::remember`].
    pub(crate) fn read(&self, reading: Reading) -> Option<Arc<View>> {
        self.change(Some(reading), Judge::Changes, |_| {})
    }

    /// Takes a reading of the node, judges it, and remembers what it is like, for later ones to be compared with.
    pub(crate) fn remember(&self, reading: Reading) {
        let took = |parts: &mut Parts| parts.awaited.take_reading();
        if let Some(view) = self.change(Some(reading), Judge::Anyway, took) {
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::make_mut(&mut parts.history).record(&view.node, now());
            parts.generation += 1;
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

    /// Whether the helper did not answer the last question about all devices.
    pub(crate) fn helper_failed(&self) -> bool {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.verbs.unread().is_some()
    }

    /// Takes note that something which comes late has come, or never will.
    pub(crate) fn has_come(&self, what: Late) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.awaited.late.retain(|late| *late != what);
    }

    /// Takes the helper's answer about runtimes.
    pub(crate) fn runtimes(&self, answer: Result<Option<Vec<RuntimeLimits>>, Failure>) {
        self.change(None, Judge::Anyway, |parts| {
            parts.runtimes = runtimes_fact(answer);
        });
    }

    /// Takes the outcome of a probe.
    pub(crate) fn probe(&self, report: ProbeReport) {
        let key = report.path.clone();
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
                parts.follow_clock(&reading.node);
                let forgot = parts.forget_gone(&reading.node);
                (reading, forgot)
            }
            None => (Reading::from(&**shown.as_ref()?), false),
        };
        let judged = shown
            .as_ref()
            .filter(|view| judge == Judge::Changes && !forgot && view.revision == reading.revision)
            .map(|view| (Arc::clone(&view.verdict), Arc::clone(&view.diagnosis)));
        let is_new = judged.is_none();
        let before = shown.as_ref().map(|view| &*view.verdict);
        let view = Arc::new(parts.view(reading, judged, before));
        self.view.send_if_modified(|shown| {
            *shown = Some(Arc::clone(&view));
            is_new
        });
        drop(parts);
        if is_new {
            log_changes(before, &view.verdict);
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
    /// Moves what was recorded in this boot if the clock was set since the last reading: before the node is judged, so that what is compared by its age
    /// is as old as before.
    fn follow_clock(&mut self, node: &Node) {
        let Some(step) = self.history.step(&node.facts, node.time) else {
            return;
        };
        Arc::make_mut(&mut self.history).align(&node.facts, node.time);
        for probe in self.probes.values_mut() {
            step.apply(&mut Arc::make_mut(probe).time);
        }
    }

    /// Drops what was measured on a device or port that is gone, or down: it says nothing of what is there now. Whether
    /// there was such a thing.
    fn forget_gone(&mut self, node: &Node) -> bool {
        let Some(hcas) = node.hcas.known() else {
            return false;
        };
        let before = self.probes.len();
        self.probes.retain(|path, _| {
            let PortKey { device, port } = &path.from;
            let port = hcas.get(device.as_str()).and_then(|hca| hca.ports.get(port));
            port.is_some_and(|port| port.is_active() != Some(false))
        });
        self.probes.len() < before
    }

    /// The view of a reading, with what was judged of it, if that is still valid. The findings of the verdict `before`, or of the agent before
    /// this one, stay while it is not known whether they are over.
    fn view(
        &mut self,
        reading: Reading,
        judged: Option<(Arc<Verdict>, Arc<Diagnosis>)>,
        before: Option<&Verdict>,
    ) -> View {
        let mut node = reading.node;
        node.verbs = self.verbs.clone();
        if let Some(runtimes) = &self.runtimes {
            node.see_runtimes(runtimes.clone());
        }
        node.probes = self.probes.values().cloned().collect();
        node.see_history(Arc::clone(&self.history));
        let (verdict, diagnosis) = judged.unwrap_or_else(|| {
            let mut verdict = judge(&node, &self.expectations);
            match before {
                Some(before) => verdict.keep_unjudged(before, &node, &self.expectations),
                None => verdict.keep_remembered(&self.history, &node, &self.expectations),
            }
            let diagnosis = diagnose(&node, &verdict.findings, None);
            self.note(&verdict, &diagnosis, &node);
            self.generation += 1;
            node.history = Some(Arc::clone(&self.history));
            (Arc::new(verdict), Arc::new(diagnosis))
        });
        View {
            verdict,
            diagnosis,
            node,
            read_errors: reading.read_errors,
            reader_threads: reading.reader_threads,
            revision: reading.revision,
            generation: self.generation,
        }
    }
}

impl Parts {
    /// Remembers since when there have been which problems, and which came and went.
    fn note(&mut self, verdict: &Verdict, diagnosis: &Diagnosis, node: &Node) {
        let is_settled = self.awaited.is_over();
        let findings = verdict.findings.iter().map(Finding::key);
        let keys: BTreeSet<String> = findings.chain(diagnosis.causes.iter().map(Cause::key)).collect();
        let current: Vec<_> = verdict.findings.iter().map(current).collect();
        let missing = if is_settled {
            Missing::Over
        } else {
            self.seen.extend(keys.iter().cloned());
            let open = self.history.changes.open.iter();
            let is_known = |open: &&Open| {
                rule(&open.rule).is_some_and(|rule| is_judged_at_once(node, rule, &open.subject))
            };
            self.seen.extend(open.filter(is_known).map(Open::key));
            Missing::NotJudgedYet(&self.seen)
        };
        let observed = Some((keys, is_settled));
        // The history is shared with what is shown, so that each change copies it.
        if self.observed != observed {
            if let Some((keys, _)) = &observed {
                Arc::make_mut(&mut self.history).observe(keys, missing, now());
            }
            self.observed = observed;
        }
        let status = verdict.status.name();
        if self.history.changes.differs(status, &current) {
            let history = Arc::make_mut(&mut self.history);
            let is_undecided = |open: &Open| !missing.is_over(&open.key());
            history.changes.see(status, &current, now(), is_undecided);
        }
    }
}

fn current(finding: &Finding) -> Current<'_> {
    Current {
        rule: finding.rule.id,
        subject: finding.subject.to_string(),
        severity: finding.severity.name(),
        message: &finding.message,
    }
}

/// The reading that a view shows.
impl From<&View> for Reading {
    fn from(view: &View) -> Self {
        Self {
            node: view.node.clone(),
            read_errors: view.read_errors.clone(),
            reader_threads: view.reader_threads,
            revision: view.revision,
        }
    }
}

/// Logs findings that are new or resolved. One that stays is not repeated.
fn log_changes(before: Option<&Verdict>, after: &Verdict) {
    let same =
        |a: &Finding, b: &Finding| a.rule == b.rule && a.subject == b.subject && a.severity == b.severity;
    let earlier = before.map_or(&[][..], |verdict| &verdict.findings);
    for finding in after
        .findings
        .iter()
        .filter(|new| !earlier.iter().any(|old| same(old, new)))
    {
        let (rule, severity) = (finding.rule.id, finding.severity.name());
        if finding.severity > Severity::Info {
            warn!(rule, severity, subject = %finding.subject, "{}", finding.message);
        } else {
            info!(rule, severity, subject = %finding.subject, "{}", finding.message);
        }
    }
    // One whose severity changed is above.
    let is_left = |old: &&Finding| {
        let mut found = after.findings.iter();
        found.any(|new| old.rule == new.rule && old.subject == new.subject)
    };
    for finding in earlier.iter().filter(|old| !is_left(old)) {
        info!(rule = finding.rule.id, subject = %finding.subject, "resolved: {}", finding.message);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use rdma_health_kernel::{
        Root,
        collector::{Collector, Refresh},
    };
    use rdma_health_tests::tree::{Entry, Tree};

    use super::*;

    fn reading_of(node: Node) -> Reading {
        Reading {
            node,
            read_errors: Vec::new(),
            reader_threads: 1,
            revision: 1,
        }
    }

    fn node(change: impl FnOnce(&mut Tree)) -> Node {
        let mut archive = Tree::fixture("h100-connectx7").unwrap();
        change(&mut archive);
        let tree = archive.unpack().unwrap();
        let mut collector = Collector::new(Root::open(tree.path()).unwrap(), Vec::new());
        collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
        Node::new(collector.facts())
    }

    const XID: &str = "4,1,100,-;NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.\n";

    /// The findings and events of an agent that has read these nodes, and of a new one with its history that reads the last node.
    fn after_restart(nodes: &[Node], last: Node) -> (Vec<String>, Vec<String>) {
        let first = State::new(Expectations::default(), History::default());
        for node in nodes {
            first.remember(reading_of(node.clone()));
        }
        let second = State::new(Expectations::default(), History::clone(&first.history()));
        second.remember(reading_of(last));
        let view = second.view().unwrap();
        let found = view
            .verdict
            .findings
            .iter()
            .map(|finding| finding.rule.id.to_owned());
        let events = second.history().changes.events.clone().into_iter();
        let events = events.map(|event| format!("{} {} {}", event.change.name(), event.rule, event.subject));
        (found.collect(), events.collect())
    }

    #[test]
    fn what_ended_while_the_agent_was_down_is_resolved_at_its_start() {
        let slow = node(|tree| {
            let rate = tree.path("/mlx5_3/ports/1/rate");
            tree.write(&rate, "200 Gb/sec (4X HDR)\n").unwrap();
        });
        let (found, events) = after_restart(&[slow], node(|_| {}));
        assert!(!found.contains(&"rate-low".to_owned()), "{found:?}");
        let last = events.iter().rfind(|event| event.contains("rate-low"));
        assert_eq!(last.unwrap(), "resolved rate-low mlx5_3:1", "{events:?}");
    }

    #[test]
    fn what_needs_the_helper_or_probes_is_over_once_they_have_come() {
        let without = node(|tree| {
            let Some(Entry::File { content, .. }) = tree.get("proc/modules") else {
                panic!("no modules");
            };
            let modules = String::from_utf8(content.clone()).unwrap();
            let others = modules.lines().filter(|line| !line.starts_with("nvidia_peermem"));
            tree.write("proc/modules", others.collect::<Vec<_>>().join("\n"))
                .unwrap();
        });
        let first = State::new(Expectations::default(), History::default());
        first.remember(reading_of(without));
        let key = |state: &State| {
            let history = state.history();
            let mut open = history.changes.open.iter();
            open.find(|open| open.rule == "peer-memory-missing")
                .map(Open::key)
        };
        assert!(key(&first).is_some(), "{:?}", first.history().changes.open);
        let second = State::new(Expectations::default(), History::clone(&first.history()));
        let sound = || reading_of(node(|_| {}));
        second.remember(sound());
        second.has_come(Late::Probes);
        second.remember(sound());
        second.remember(sound());
        assert!(key(&second).is_some(), "the helper may still find it");
        second.has_come(Late::Helper);
        second.remember(sound());
        assert!(key(&second).is_some(), "some rules need two readings");
        second.remember(sound());
        assert_eq!(key(&second), None);
    }

    #[test]
    fn a_fault_of_this_boot_outlives_the_kernels_memory_and_the_agent() {
        let failed = node(|tree| tree.write("dev/kmsg", XID).unwrap());
        let empty = |boot: Option<&str>| {
            node(|tree| {
                tree.write("dev/kmsg", "6,900,200,-;something else\n").unwrap();
                if let Some(boot) = boot {
                    tree.write("proc/sys/kernel/random/boot_id", format!("{boot}\n"))
                        .unwrap();
                }
            })
        };
        let has = |(found, _): &(Vec<String>, Vec<String>)| found.contains(&"gpu-failed".to_owned());
        let same = after_restart(&[failed.clone(), empty(None)], empty(None));
        assert!(has(&same), "{same:?}");
        let rebooted = after_restart(&[failed], empty(Some("9c1e7f6e-2222-4222-8333-444455556666")));
        assert!(!has(&rebooted), "{rebooted:?}");
        let last = rebooted.1.iter().rfind(|event| event.contains("gpu-failed"));
        assert!(last.unwrap().starts_with("resolved"), "{rebooted:?}");
    }

    #[test]
    fn a_step_of_the_clock_ends_no_finding() {
        let at = |time: u64, uptime: u64, downs: u64| {
            let mut node = node(|tree| {
                let count = tree.path("/mlx5_3/ports/1/counters/link_downed");
                tree.write(&count, format!("{downs}\n")).unwrap();
            });
            (node.live, node.facts.time) = (true, time);
            node.facts.sources.clear();
            let host = Arc::make_mut(&mut node.facts.host);
            host.uptime = Fact::Known(uptime);
            node
        };
        let now = now();
        let mut history = History::default();
        let ahead = now + 7200;
        for n in 0..4 {
            let mut node = at(ahead - 400 + n * 60, 100_000 + n * 60, n);
            if let Fact::Known(hcas) = &mut node.facts.hcas {
                for hca in hcas.values_mut() {
                    for port in Arc::make_mut(hca).ports.values_mut() {
                        if let Fact::Known(netdev) = &mut port.netdev {
                            netdev.carrier_downs = Fact::Absent;
                        }
                    }
                }
            }
            history.record(&node, node.time);
        }
        let downs = |history: &History| {
            let mut ports = history.ports.values();
            ports
                .find(|port| !port.downs.is_empty())
                .map(|port| port.downs.clone())
        };
        assert_eq!(downs(&history).unwrap().len(), 3);
        let state = State::new(Expectations::default(), history);
        state.remember(reading_of(at(now, 100_400, 3)));
        let judged = state.view().unwrap();
        let seen = judged.node.history.as_ref().unwrap();
        let times = downs(seen).unwrap();
        assert!(times.iter().all(|time| *time <= now), "{times:?}");
        let found: Vec<_> = judged
            .verdict
            .findings
            .iter()
            .map(|finding| finding.rule.id)
            .collect();
        assert!(found.contains(&"port-flapping"), "{found:?}");
    }

    #[test]
    fn a_view_has_a_generation_of_its_own_unless_only_counters_changed() {
        let reading = |revision| Reading {
            node: Node::unknown(),
            read_errors: Vec::new(),
            reader_threads: 1,
            revision,
        };
        let state = State::new(Expectations::default(), History::default());
        let generation = || state.view().unwrap().generation;
        let mut seen = BTreeSet::new();
        state.read(reading(1));
        assert!(seen.insert(generation()));
        state.read(reading(1));
        assert!(!seen.insert(generation()));
        state.read(reading(2));
        assert!(seen.insert(generation()), "something else was read");
        state.expect(Expectations::default());
        assert!(seen.insert(generation()), "it was judged again");
        state.remember(reading(2));
        assert!(seen.insert(generation()), "it was judged again");
        state.read(reading(2));
        assert!(
            seen.insert(generation()),
            "the history remembers the reading before"
        );
        state.read(reading(2));
        assert!(!seen.insert(generation()));
    }
}
