//! One refresh, step by step, for callers that block and callers that must not block.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Collector, Part, Refresh, device_source, excluded};
use crate::{
    fact::{Fact, Unread, UnreadKind},
    facts::DEVICES,
    infiniband::CLASS,
    root::Scope,
    source::{After, Known},
};

/// If jobs take longer than this, a worker may be stuck, and another one is added.
const STUCK_AFTER: Duration = Duration::from_millis(50);

/// A running refresh. If it is dropped, its jobs continue and count for the next refresh.
#[derive(Debug)]
pub struct Pass {
    what: Refresh,
    wanted: BTreeSet<Arc<str>>,
    stage: Stage,
    began: Instant,
    deadline: Instant,
    /// When to assume that a worker is stuck, unless an outcome arrives earlier.
    stuck: Instant,
}

/// The jobs to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The list of devices, known devices, and all sources that do not depend on devices.
    Known,
    /// New devices.
    New,
    /// Sources that depend on the devices' functions and network devices.
    Dependent,
}

impl Pass {
    /// The deadline of a stage, which leaves time for the stages after it even if this one hangs.
    fn end_of_stage(&self) -> Instant {
        let quarter = self.deadline.saturating_duration_since(self.began) / 4;
        match self.stage {
            Stage::Known => self.began + 2 * quarter,
            Stage::New => self.began + 3 * quarter,
            Stage::Dependent => self.deadline,
        }
    }
}

impl Collector {
    /// Reads until the deadline at the latest. Sources that have not finished by then are stale. It does not wait for
    /// sources that were already stale.
    pub fn refresh(&mut self, what: Refresh, deadline: Instant) {
        let mut pass = self.begin(what, deadline);
        while let Some(until) = self.advance(&mut pass) {
            self.pool.wait(until);
        }
    }

    /// Calls `notify` whenever [`Collector::advance`] may make progress. Only the first callback is used.
    pub fn on_progress(&self, notify: impl Fn() + Send + Sync + 'static) {
        self.pool.on_dry(notify);
    }

    /// Starts a refresh, which [`Collector::advance`] continues. Does not block.
    pub fn begin(&mut self, what: Refresh, deadline: Instant) -> Pass {
        let now = Instant::now();
        self.accept_outcomes();
        let mut wanted = BTreeSet::new();
        if what == Refresh::All {
            self.start_sources(&mut wanted, After::Nothing, Known::default());
        }
        let exclude = Arc::clone(&self.exclude);
        self.start(&mut wanted, DEVICES, move |scope| {
            Part::Names(listed(scope).map(|mut names| {
                names.retain(|name| !excluded(&exclude, name));
                // A recording may have them in any order.
                names.sort_unstable();
                names
            }))
        });
        // The list of devices rarely changes, so known devices are read without waiting for it.
        let known: Vec<String> = self.readers.keys().cloned().collect();
        for name in known {
            self.start_device(&mut wanted, name, what);
        }
        self.pool.start();
        Pass {
            what,
            wanted,
            stage: Stage::Known,
            began: now,
            deadline,
            stuck: now + STUCK_AFTER,
        }
    }

    /// Continues as far as possible without blocking. Returns when to continue at the latest, which is not after the
    /// pass's deadline; `None` when the refresh has ended.
    pub fn advance(&mut self, pass: &mut Pass) -> Option<Instant> {
        loop {
            self.accept_outcomes();
            let (now, end) = (Instant::now(), pass.end_of_stage());
            if now < end && !self.ended(&pass.wanted) {
                if now >= pass.stuck {
                    self.pool.relieve();
                    pass.stuck = now + STUCK_AFTER;
                }
                return Some(end.min(pass.stuck));
            }
            pass.stage = match pass.stage {
                Stage::Known => {
                    self.start_new(pass);
                    Stage::New
                }
                Stage::New => {
                    self.start_dependent(pass);
                    Stage::Dependent
                }
                Stage::Dependent => {
                    self.settle(pass);
                    return None;
                }
            };
            self.pool.start();
            pass.stuck = now + STUCK_AFTER;
        }
    }

    fn accept_outcomes(&mut self) {
        for outcome in self.pool.outcomes() {
            self.accept(outcome);
        }
    }

    fn ended(&self, wanted: &BTreeSet<Arc<str>>) -> bool {
        // Few slots are looked up, because most have ended when this is asked.
        !self
            .slots
            .iter()
            .any(|(source, slot)| slot.started.is_some() && !slot.stale && wanted.contains(source))
    }

    fn start_new(&mut self, pass: &mut Pass) {
        let names = self.names.as_ref().and_then(Fact::known);
        let names = names.cloned().unwrap_or_default();
        self.forget_others(&names);
        for name in names {
            if !pass.wanted.contains(&*device_source(&name)) {
                self.start_device(&mut pass.wanted, name, pass.what);
            }
        }
    }

    fn start_dependent(&mut self, pass: &mut Pass) {
        if pass.what != Refresh::All {
            return;
        }
        let hcas = || self.hcas.values();
        let functions = hcas().filter_map(|hca| hca.pci_address.known().cloned());
        let hardware: BTreeSet<&String> = hcas()
            .filter(|hca| !hca.is_software())
            .filter_map(|hca| hca.pci_address.known())
            .collect();
        let software = hcas().filter_map(|hca| hca.pci_address.known().filter(|own| !hardware.contains(own)));
        let ports = hcas().flat_map(|hca| hca.ports.values());
        let netdevs = ports.filter_map(|port| Some(port.netdev.known()?.name.clone()));
        let known = Known {
            functions: functions.collect(),
            software: software.cloned().collect(),
            netdevs: netdevs.collect(),
        };
        self.start_sources(&mut pass.wanted, After::Devices, known);
    }

    /// Marks sources that did not finish.
    fn settle(&mut self, pass: &Pass) {
        for (name, slot) in &mut self.slots {
            let is_running = slot.started.is_some();
            if slot.stale != is_running && pass.wanted.contains(name) {
                slot.stale = is_running;
            }
            // The time without a response is a fact that changes.
            self.revision += u64::from(slot.stale);
        }
    }
}

/// The names of the RDMA devices.
fn listed(scope: &Scope<'_>) -> Fact<Vec<String>> {
    const OF_SYSFS: [&str; 3] = ["/sys/class", "/sys/bus", "/sys/kernel"];
    match scope.entries(CLASS) {
        Fact::Absent if scope.root().is_live() && OF_SYSFS.iter().all(|path| scope.is_hidden(path)) => {
            scope.fail(Unread {
                source: "/sys".into(),
                kind: UnreadKind::Missing,
                detail: "no sysfs is mounted here; in a container, mount that of the node (docker run -v /sys:/sys:ro, or a hostPath /sys)".into(),
            })
        }
        names => names,
    }
}
