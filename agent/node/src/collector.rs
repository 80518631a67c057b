//! Runs the readers so that nothing waits for a kernel that does not answer.
//!
//! Each source (the host, the IOMMU, each RDMA device, …) is read by a job of its own in the [`crate::pool`]. A refresh
//! waits for its jobs until a deadline; what has not ended by then keeps its last facts, marked stale, and is not started
//! again before it ends. So each stuck read holds one thread and loses one source. In which order that is, `pass` knows.

mod pass;

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    fact::{Fact, Unread},
    host::Host,
    infiniband::{Hca, HcaReader},
    iommu::Iommu,
    limits::Limits,
    modules::Modules,
    network::Network,
    node::{Node, SCHEMA, SourceStatus},
    pattern,
    pci::Pci,
    pool::Pool,
    root::{Miss, Root, Scope},
};
pub use pass::Pass;

/// What a refresh reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// Everything.
    All,
    /// Which RDMA devices there are, and their states, rates and counters.
    Ports,
}

/// Reads a node again and again.
#[derive(Debug)]
pub struct Collector {
    root: Arc<Root>,
    exclude: Arc<[String]>,
    pool: Pool<Outcome>,
    slots: BTreeMap<String, Slot>,
    facts: Facts,
    readers: BTreeMap<String, Box<HcaReader>>,
    errors: BTreeMap<(String, String), u64>,
    /// See [`Collector::revision`].
    revision: u64,
}

/// What was read last, part by part; `None` where a part never was.
#[derive(Debug, Default)]
struct Facts {
    host: Option<Arc<Host>>,
    iommu: Option<Arc<Iommu>>,
    modules: Option<Arc<Modules>>,
    limits: Option<Arc<Limits>>,
    kernel_log: Option<Arc<Fact<Vec<String>>>>,
    pci: Option<Arc<Pci>>,
    network: Option<Arc<Network>>,
    names: Option<Fact<Vec<String>>>,
    hcas: BTreeMap<String, Arc<Hca>>,
}

#[derive(Debug, Default)]
struct Slot {
    status: Option<Arc<SourceStatus>>,
    /// Since when a job for it has been under way.
    started: Option<Instant>,
    /// Whether the last refresh that wanted it ended without it.
    stale: bool,
    /// In a recording: for how many seconds it did not answer then.
    hung: u64,
}

/// What a job brings back.
struct Outcome {
    source: String,
    part: Part,
    misses: Vec<Miss>,
    took: Duration,
}

enum Part {
    Host(Host),
    Iommu(Iommu),
    Modules(Modules),
    Limits(Limits),
    KernelLog(Fact<Vec<String>>),
    Pci(Pci),
    Network(Network),
    Names(Fact<Vec<String>>),
    Hca(Box<HcaReader>, Arc<Hca>),
    /// The reader broke; a defect of ours, told like any other failure.
    Panicked,
}

/// The sources whose names are not those of devices.
mod source {
    pub(super) const HOST: &str = "host";
    pub(super) const IOMMU: &str = "iommu";
    pub(super) const MODULES: &str = "modules";
    pub(super) const LIMITS: &str = "limits";
    pub(super) const KERNEL_LOG: &str = "kernel_log";
    pub(super) const PCI: &str = "pci";
    pub(super) const NETWORK: &str = "network";
    pub(super) const NAMES: &str = "infiniband";
    /// Followed by the device's name.
    pub(super) const DEVICE: &str = "infiniband/";
}

impl Collector {
    /// Prepares to read `root`. Devices whose name matches a pattern in `exclude` (`*` stands for any characters) are not
    /// touched at all.
    pub fn new(root: Root, exclude: Vec<String>) -> Self {
        Self {
            root: Arc::new(root),
            exclude: exclude.into(),
            pool: Pool::new(),
            slots: BTreeMap::new(),
            facts: Facts::default(),
            readers: BTreeMap::new(),
            errors: BTreeMap::new(),
            revision: 0,
        }
    }

    /// Changes which devices are left out, from the next refresh on.
    pub fn exclude(&mut self, exclude: Vec<String>) {
        self.exclude = exclude.into();
        let exclude = &self.exclude;
        self.readers.retain(|name, _| !excluded(exclude, name));
    }

    /// Grows whenever a refresh found anything but counters changed: while it stays the same, so does what can be judged
    /// of the node without looking at counters.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The node as read last, without what the helper says.
    pub fn node(&self) -> Node {
        let never = |source: &str| Unread {
            source: source.into(),
            kind: "hung".into(),
            detail: "reading it has not ended yet".into(),
        };
        let facts = &self.facts;
        let part = |source| never(source);
        let mut node = Node {
            schema: SCHEMA,
            time: now(),
            live: self.root.is_live(),
            host: facts
                .host
                .clone()
                .unwrap_or_else(|| Arc::new(Host::unread(&part(source::HOST)))),
            iommu: facts.iommu.clone().unwrap_or_else(|| {
                let why = part(source::IOMMU);
                Arc::new(Iommu {
                    groups: why.clone().into(),
                    units: why.into(),
                })
            }),
            modules: facts.modules.clone().unwrap_or_else(|| {
                Arc::new(Modules {
                    loaded: part(source::MODULES).into(),
                    user_verbs: part(source::MODULES).into(),
                })
            }),
            pci: facts.pci.clone().unwrap_or_else(|| {
                let why = part(source::PCI);
                Arc::new(Pci {
                    functions: why.clone().into(),
                    left_out: Vec::new(),
                    nvidia_driver: why.into(),
                })
            }),
            network: facts.network.clone().unwrap_or_else(|| {
                Arc::new(Network {
                    subnets: part(source::NETWORK).into(),
                    ..Network::default()
                })
            }),
            history: None,
            peer_memory: Fact::Absent,
            limits: facts.limits.clone().unwrap_or_else(|| {
                let why = part(source::LIMITS);
                Arc::new(Limits {
                    own: why.clone().into(),
                    runtimes: why.into(),
                })
            }),
            kernel_log: facts
                .kernel_log
                .clone()
                .unwrap_or_else(|| Arc::new(part(source::KERNEL_LOG).into())),
            hcas: match &facts.names {
                None => part(source::NAMES).into(),
                Some(names) => names.as_ref().map(|_| facts.hcas.clone()),
            },
            verbs: Fact::Absent,
            probes: Vec::new(),
            sources: self
                .slots
                .iter()
                .map(|(name, slot)| (name.clone(), slot.status(name)))
                .collect(),
        };
        node.derive();
        node
    }

    /// Failing reads so far, by source (`infiniband` for all devices together) and kind.
    pub fn errors(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.errors
            .iter()
            .map(|((source, kind), count)| (source.as_str(), kind.as_str(), *count))
    }

    /// Sources that did not answer in time, and for how many seconds by now.
    pub fn hung(&self) -> BTreeMap<String, u64> {
        let stale = self.slots.iter().filter(|(_, slot)| slot.stale);
        stale
            .map(|(name, slot)| {
                (
                    name.clone(),
                    slot.started.map_or(0, |started| started.elapsed().as_secs()),
                )
            })
            .collect()
    }

    /// Reader threads alive, stuck ones included.
    pub fn workers(&self) -> usize {
        self.pool.workers()
    }

    /// Starts reading a device.
    fn start_device(&mut self, wanted: &mut BTreeSet<String>, name: String, what: Refresh) {
        let source = format!("{}{name}", source::DEVICE);
        // None, too, where a job is under way: it holds the reader, and no other is started.
        let reader = self.readers.remove(&name);
        self.start(wanted, &source, move |scope| {
            let mut reader = match reader {
                Some(mut reader) => {
                    if what == Refresh::All {
                        reader.identify(scope);
                    }
                    reader
                }
                None => Box::new(HcaReader::new(scope, &name)),
            };
            let hca = reader.read(scope);
            Part::Hca(reader, hca)
        });
    }

    /// Starts a job for a source unless one is under way.
    fn start(
        &mut self,
        wanted: &mut BTreeSet<String>,
        source: &str,
        read: impl FnOnce(&Scope<'_>) -> Part + Send + 'static,
    ) {
        let slot = self.slots.entry(source.to_owned()).or_default();
        if let Some(hung) = self.root.hung(source) {
            (slot.stale, slot.hung) = (true, hung);
            return;
        }
        wanted.insert(source.to_owned());
        if slot.started.is_some() {
            return;
        }
        slot.started = Some(Instant::now());
        let (root, source) = (Arc::clone(&self.root), source.to_owned());
        self.pool.submit(move || {
            let began = Instant::now();
            let scope = Scope::new(&root);
            // The scope is only appended to, so it is whole after a panic.
            let part = catch_unwind(AssertUnwindSafe(|| read(&scope))).unwrap_or(Part::Panicked);
            let misses = scope.finish();
            Outcome {
                source,
                part,
                misses,
                took: began.elapsed(),
            }
        });
    }

    fn accept(&mut self, outcome: Outcome) {
        let Outcome {
            source,
            part,
            mut misses,
            took,
        } = outcome;
        let mut changed = true;
        match part {
            Part::Host(host) => self.facts.host = Some(Arc::new(host)),
            Part::Iommu(iommu) => self.facts.iommu = Some(Arc::new(iommu)),
            Part::Modules(modules) => self.facts.modules = Some(Arc::new(modules)),
            Part::Limits(limits) => self.facts.limits = Some(Arc::new(limits)),
            Part::KernelLog(log) => self.facts.kernel_log = Some(Arc::new(log)),
            Part::Pci(pci) => self.facts.pci = Some(Arc::new(pci)),
            Part::Network(network) => self.facts.network = Some(Arc::new(network)),
            Part::Names(names) => {
                changed = self.facts.names.as_ref() != Some(&names);
                self.facts.names = Some(names);
            }
            // Its job began before it was excluded; another must not.
            Part::Hca(_, hca) if excluded(&self.exclude, &hca.name) => {}
            Part::Hca(reader, hca) => {
                let before = self.facts.hcas.get(&hca.name);
                changed = before.is_none_or(|before| !before.differs_in_counters_only(&hca));
                self.readers.insert(hca.name.clone(), reader);
                self.facts.hcas.insert(hca.name.clone(), hca);
            }
            Part::Panicked => misses.push(Miss {
                unread: Unread {
                    source: source.clone(),
                    kind: "panic".into(),
                    detail: "the reader failed; this is a defect of rdma-health".into(),
                },
                tried: true,
            }),
        }
        // Devices share one label, so that their number does not multiply the series.
        let family = source.split('/').next().unwrap_or_default();
        for miss in misses.iter().filter(|miss| miss.tried) {
            *self
                .errors
                .entry((family.to_owned(), miss.unread.kind.clone()))
                .or_default() += 1;
        }
        let unread: Vec<_> = misses.into_iter().map(|miss| miss.unread).collect();
        let slot = self.slots.entry(source).or_default();
        let failed_alike = |status: &Arc<SourceStatus>| status.unread == unread;
        // That it answers again is a change, too.
        changed |= slot.stale || !slot.status.as_ref().is_some_and(failed_alike);
        self.revision += u64::from(changed);
        slot.started = None;
        slot.stale = false;
        slot.status = Some(Arc::new(SourceStatus {
            time: Some(now()),
            seconds: took.as_secs_f64(),
            stale: false,
            unread,
        }));
    }

    /// Drops devices that are no longer listed. One whose reading is stuck stays until it ends.
    fn forget_others(&mut self, names: &[String]) {
        let listed = |name: &str| names.iter().any(|listed| listed == name);
        self.readers.retain(|name, _| listed(name));
        self.facts.hcas.retain(|name, _| listed(name));
        self.slots.retain(|source, slot| {
            source
                .strip_prefix(source::DEVICE)
                .is_none_or(|name| listed(name) || slot.started.is_some())
        });
    }
}

impl Slot {
    fn status(&self, name: &str) -> Arc<SourceStatus> {
        match &self.status {
            Some(status) if !self.stale => Arc::clone(status),
            other => {
                let mut status = other.as_deref().cloned().unwrap_or(SourceStatus {
                    time: None,
                    seconds: 0.0,
                    stale: true,
                    unread: Vec::new(),
                });
                status.stale = true;
                let waiting = self
                    .started
                    .map_or(self.hung, |started| started.elapsed().as_secs());
                status.unread.push(Unread {
                    source: name.to_owned(),
                    kind: "hung".into(),
                    detail: format!("reading it has not ended for {waiting} s"),
                });
                Arc::new(status)
            }
        }
    }
}

fn excluded(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern::matches(pattern, name))
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
