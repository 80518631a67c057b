//! One refresh, step by step, for those who block until it ends and those who must not.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Collector, Part, Refresh, excluded, source};
use crate::{
    fact::Fact, host::Host, infiniband::CLASS, iommu::Iommu, kmsg, limits::Limits, modules::Modules,
    network::Network, pci::Pci,
};

/// Where jobs take longer than this one may be stuck, and another worker is added.
const STUCK_AFTER: Duration = Duration::from_millis(50);

/// A refresh under way. Dropped before its end, what it started goes on and counts for the next.
#[derive(Debug)]
pub struct Pass {
    what: Refresh,
    wanted: BTreeSet<String>,
    stage: Stage,
    began: Instant,
    deadline: Instant,
    /// When a worker may be stuck, if nothing comes before.
    stuck: Instant,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The list of devices, those known from before, and all that needs no device.
    Known,
    /// Devices that have appeared.
    New,
    /// What is read of the devices' functions and network devices.
    Dependent,
}

impl Pass {
    /// What can only begin after something else has time left even where that does not end.
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
    /// Reads, and returns at the deadline at the latest; what did not end by then is stale. What was stale before is not
    /// waited for.
    pub fn refresh(&mut self, what: Refresh, deadline: Instant) {
        let mut pass = self.begin(what, deadline);
        while let Some(until) = self.advance(&mut pass) {
            self.pool.wait(until);
        }
    }

    /// Has `told` called whenever [`Collector::advance`] may find something. Only the first that is given is called.
    pub fn on_progress(&self, told: impl Fn() + Send + Sync + 'static) {
        self.pool.on_dry(told);
    }

    /// Begins a refresh, for [`Collector::advance`] to go on with. Does not block.
    pub fn begin(&mut self, what: Refresh, deadline: Instant) -> Pass {
        let now = Instant::now();
        self.accept_outcomes();
        let mut wanted = BTreeSet::new();
        if what == Refresh::All {
            self.start(&mut wanted, source::HOST, |scope| Part::Host(Host::read(scope)));
            self.start(&mut wanted, source::IOMMU, |scope| {
                Part::Iommu(Iommu::read(scope))
            });
            self.start(&mut wanted, source::MODULES, |scope| {
                Part::Modules(Modules::read(scope))
            });
            self.start(&mut wanted, source::LIMITS, |scope| {
                Part::Limits(Limits::read(scope))
            });
            self.start(&mut wanted, source::KERNEL_LOG, |scope| {
                Part::KernelLog(kmsg::read(scope))
            });
        }
        let exclude = Arc::clone(&self.exclude);
        self.start(&mut wanted, source::NAMES, move |scope| {
            Part::Names(scope.entries(CLASS).map(|mut names| {
                names.retain(|name| !excluded(&exclude, name));
                names
            }))
        });
        // Devices seldom come and go: those known are read without waiting for the list.
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

    /// Goes on as far as it can without blocking. Returns when to go on at the latest, which is no later than the pass's
    /// deadline; `None` once it has ended.
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

    fn ended(&self, wanted: &BTreeSet<String>) -> bool {
        wanted.iter().all(|source| {
            self.slots
                .get(source)
                .is_none_or(|slot| slot.started.is_none() || slot.stale)
        })
    }

    fn start_new(&mut self, pass: &mut Pass) {
        let names = self.facts.names.as_ref().and_then(Fact::known);
        let names = names.cloned().unwrap_or_default();
        self.forget_others(&names);
        for name in names {
            if !pass.wanted.contains(&format!("{}{name}", source::DEVICE)) {
                self.start_device(&mut pass.wanted, name, pass.what);
            }
        }
    }

    fn start_dependent(&mut self, pass: &mut Pass) {
        if pass.what != Refresh::All {
            return;
        }
        let hcas = || self.facts.hcas.values();
        let rdma = hcas()
            .filter_map(|hca| hca.pci_address.known().cloned())
            .collect();
        let netdevs = hcas()
            .flat_map(|hca| hca.ports.values())
            .filter_map(|port| Some(port.netdev.known()?.name.clone()))
            .collect();
        self.start(&mut pass.wanted, source::PCI, move |scope| {
            Part::Pci(Pci::read(scope, &rdma))
        });
        self.start(&mut pass.wanted, source::NETWORK, move |scope| {
            Part::Network(Network::read(scope, &netdevs))
        });
    }

    /// Marks what did not end.
    fn settle(&mut self, pass: &Pass) {
        for (name, slot) in &mut self.slots {
            if pass.wanted.contains(name) {
                slot.stale = slot.started.is_some();
            }
            // For how long it has not answered is a fact that changes.
            self.revision += u64::from(slot.stale);
        }
    }
}
