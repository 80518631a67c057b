//! Runs the readers so that a kernel that does not respond blocks nothing else.
//!
//! A separate job in the [`crate::pool`] reads each source (the host, the IOMMU, each RDMA device, …). A refresh waits
//! for its jobs until a deadline. A source whose job has not ended by then keeps its last facts, marked stale, and is not
//! started again before the job ends. So each stuck read costs one thread and one source. `pass` defines the order.

mod pass;

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_time::now;

use crate::{
    fact::{Fact, Unread, UnreadKind},
    facts::{DEVICES, Facts, LastRead, SourceStatus},
    infiniband::{Hca, HcaReader},
    pattern,
    pool::Pool,
    root::{Miss, Root, Scope},
    source::{After, Known, Store},
};
pub use pass::Pass;

/// What a refresh reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// Everything.
    All,
    /// The list of RDMA devices, and their states, rates and counters.
    Ports,
}

/// Reads a node repeatedly.
#[derive(Debug)]
pub struct Collector {
    root: Arc<Root>,
    exclude: Arc<[String]>,
    pool: Pool<Outcome>,
    /// By the names of sources, which each refresh shares and does not copy.
    slots: BTreeMap<Arc<str>, Slot>,
    read: LastRead,
    /// The names of the RDMA devices; `None` before they were read.
    names: Option<Fact<Vec<String>>>,
    hcas: BTreeMap<Arc<str>, Arc<Hca>>,
    readers: BTreeMap<String, Box<HcaReader>>,
    errors: BTreeMap<(String, UnreadKind), u64>,
    /// See [`Collector::revision`].
    revision: u64,
}

#[derive(Debug, Default)]
struct Slot {
    status: Option<Arc<SourceStatus>>,
    /// Since when a job for it has been running.
    started: Option<Instant>,
    /// Whether the last refresh that wanted it ended without it.
    stale: bool,
    /// In a recording: for how many seconds it did not respond.
    hung: u64,
}

/// The result of a job.
struct Outcome {
    source: Arc<str>,
    part: Part,
    misses: Vec<Miss>,
    took: Duration,
}

/// The facts that a job has read.
enum Part {
    /// One of [`LastRead::SOURCES`].
    Facts(Store),
    /// The names of the RDMA devices.
    Names(Fact<Vec<String>>),
    /// One RDMA device, and its reader for the next time.
    Hca(Box<HcaReader>, Arc<Hca>),
    /// The reader panicked: a bug of this program, reported like any other failure.
    Panicked,
}

impl Collector {
    /// Prepares to read `root`. Devices whose name matches a pattern in `exclude` (`*` matches any characters) are never
    /// accessed.
    pub fn new(root: Root, exclude: Vec<String>) -> Self {
        Self {
            root: Arc::new(root),
            exclude: exclude.into(),
            pool: Pool::new(),
            slots: BTreeMap::new(),
            read: LastRead::default(),
            names: None,
            hcas: BTreeMap::new(),
            readers: BTreeMap::new(),
            errors: BTreeMap::new(),
            revision: 0,
        }
    }

    /// Sets the excluded devices, from the next refresh on.
    pub fn exclude(&mut self, exclude: Vec<String>) {
        self.exclude = exclude.into();
        let exclude = &self.exclude;
        self.readers.retain(|name, _| !excluded(exclude, name));
    }

    /// Increases whenever a refresh changes anything but counters. While it stays the same, rules that do not use
    /// counters have the same result.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The last facts.
    pub fn facts(&self) -> Facts {
        let mut facts = self.read.facts(now(), self.root.is_live());
        if let Some(names) = &self.names {
            facts.hcas = names.as_ref().map(|_| self.hcas.clone());
        }
        let slots = self.slots.iter();
        facts.sources = slots
            .map(|(name, slot)| (Arc::clone(name), slot.status(name)))
            .collect();
        facts
    }

    /// Number of failed reads, by source (`infiniband` for all devices together) and kind.
    pub fn errors(&self) -> impl Iterator<Item = (&str, &UnreadKind, u64)> {
        self.errors
            .iter()
            .map(|((source, kind), count)| (source.as_str(), kind, *count))
    }

    /// Sources that have not responded in time, and for how many seconds.
    pub fn hung(&self) -> BTreeMap<String, u64> {
        let stale = self.slots.iter().filter(|(_, slot)| slot.stale);
        stale
            .map(|(name, slot)| {
                (
                    name.to_string(),
                    slot.started.map_or(0, |started| started.elapsed().as_secs()),
                )
            })
            .collect()
    }

    /// Number of reader threads, including stuck ones.
    pub fn workers(&self) -> usize {
        self.pool.workers()
    }

    /// Starts reading every source with this dependency.
    fn start_sources(&mut self, wanted: &mut BTreeSet<Arc<str>>, after: After, known: Known) {
        let known = Arc::new(known);
        for row in LastRead::SOURCES.iter().filter(|row| row.after == after) {
            let known = Arc::clone(&known);
            self.start(wanted, row.name, move |scope| {
                Part::Facts((row.read)(scope, &known))
            });
        }
    }

    /// Starts reading a device.
    fn start_device(&mut self, wanted: &mut BTreeSet<Arc<str>>, name: String, what: Refresh) {
        let source = device_source(&name);
        // Also `None` if a job is running: it has the reader, and no other job is started.
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

    /// Starts a job for a source unless one is running.
    fn start(
        &mut self,
        wanted: &mut BTreeSet<Arc<str>>,
        source: &str,
        read: impl FnOnce(&Scope<'_>) -> Part + Send + 'static,
    ) {
        let known = self.slots.get_key_value(source);
        let source = known.map_or_else(|| source.into(), |(source, _)| Arc::clone(source));
        let slot = self.slots.entry(Arc::clone(&source)).or_default();
        if let Some(hung) = self.root.hung(&source) {
            (slot.stale, slot.hung) = (true, hung);
            return;
        }
        wanted.insert(Arc::clone(&source));
        if slot.started.is_some() {
            return;
        }
        slot.started = Some(Instant::now());
        let root = Arc::clone(&self.root);
        self.pool.submit(move || {
            let began = Instant::now();
            let scope = Scope::new(&root);
            // The scope is append-only, so it is consistent after a panic.
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
            Part::Facts(store) => store(&mut self.read),
            Part::Names(names) => {
                changed = self.names.as_ref() != Some(&names);
                self.names = Some(names);
            }
            // Its job started before it was excluded; do not start another.
            Part::Hca(_, hca) if excluded(&self.exclude, &hca.name) => {}
            Part::Hca(reader, hca) => {
                self.readers.insert(hca.name.clone(), reader);
                match self.hcas.get_mut(&*hca.name) {
                    Some(before) => {
                        changed = !before.differs_in_counters_only(&hca);
                        *before = hca;
                    }
                    None => drop(self.hcas.insert(hca.name.as_str().into(), hca)),
                }
            }
            Part::Panicked => misses.push(Miss {
                unread: Unread {
                    source: source.to_string(),
                    kind: UnreadKind::Panic,
                    detail: "the reader failed; this is a bug of rdma-health".into(),
                },
                tried: true,
            }),
        }
        // Devices share one label, so that the number of series does not depend on the number of devices.
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
        // That it responds again is also a change.
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

    /// Drops devices that are no longer listed, in order of name. A device whose reading is stuck stays until it ends.
    fn forget_others(&mut self, names: &[String]) {
        let listed = |name: &str| names.binary_search_by(|listed| listed.as_str().cmp(name)).is_ok();
        self.readers.retain(|name, _| listed(name));
        self.hcas.retain(|name, _| listed(name));
        self.slots.retain(|source, slot| {
            let device = source
                .strip_prefix(DEVICES)
                .and_then(|rest| rest.strip_prefix('/'));
            device.is_none_or(|name| listed(name) || slot.started.is_some())
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
                    kind: UnreadKind::Hung,
                    detail: format!("reading it has not finished for {waiting} s"),
                });
                Arc::new(status)
            }
        }
    }
}

/// The name of a device's source.
fn device_source(name: &str) -> String {
    format!("{DEVICES}/{name}")
}

fn excluded(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern::matches(pattern, name))
}

#[cfg(test)]
mod tests;
