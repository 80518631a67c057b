//! Recognises what a line shows: a symptom, a setting of the job, or a fact about it.
//!
//! What a line means follows, in this order, from the status of a completion, an event, a message of a known program
//! ([`families`](super::families)), a verbs operation with its error number, and an error number alone. A line about RDMA that
//! looks like a failure and has none of these is kept as not recognised.

mod anchors;
mod dump;
mod judged;
mod nearby;
mod previous;
mod reading;
mod wording;

use std::borrow::Cow;

use rdma_health_kernel_log::{Device, is_rdma_module};
use rdma_health_protocol::Errno;

pub(crate) use self::dump::failure_in;
pub(super) use self::reading::by_transition;
use self::{
    anchors::ANCHORS,
    dump::Dump,
    judged::{Judged, judged, reading_of},
    nearby::Nearby,
    previous::Previous,
    reading::{Reading, symptom},
    wording::read,
};
use super::{
    attach,
    backtrace::Backtrace,
    cluster::{self, Parts},
    connection,
    crash::Crash,
    dkms::Build,
    ended::PythonTrace,
    errors::{self, errno},
    families,
    given_up::GivenUp,
    grade::is_klog_error,
    interfaces::Interfaces,
    kernel::kernel,
    line::Lower,
    listing::Listing,
    marks::Marks,
    needless::assigned,
    nvme::Target,
    operation::{Operation, operation},
    operator::Policy,
    others::{self, Others},
    perftest::{Measured, Results},
    provider::Providers,
    ranks::Ranks,
    registration,
    removal::Removals,
    renamed::Renamed,
    reports::Reports,
    retries::Retries,
    scripts::Containers,
    settings::{self, Fact},
    shown::{Shown, has_ample_memlock},
    success::Successes,
    tables::{self, Tables},
    trace::{self, Below, Report},
    ucx::Opened,
    understated::Understated,
    unwarned::{Part, Unwarned},
    waiting,
    wrapped::{self, Frame},
};
use crate::symptom::{self, Family, Gpu, Software, Symptom, SymptomKind};

/// The content of a recognised line.
#[derive(Debug)]
pub(super) enum Found {
    Symptom(Box<Symptom>),
    /// A symptom without an error number, which one of the next lines may have: `Error: Cannot allocate memory`.
    Incomplete(Operation, Box<Symptom>),
    Fact(Fact),
    /// The kernel reports that the link of this device is up.
    Recovered(Device),
    /// A connection to this peer, or of this controller, is there again; for Lustre also the client that has it.
    Reconnected(String, Option<String>),
}

/// A failure of this kind, in a text that says of several lines what they show together.
pub(super) fn failure(text: &Lower<'_>, kind: SymptomKind, number: u64) -> Symptom {
    symptom(text, Reading::of(kind, 0), number)
}

/// What a line shows by itself, if it reports a failure.
pub(super) fn reported(line: &Lower<'_>, number: u64) -> Option<Symptom> {
    Some(symptom(line, read(line, false)?, number))
}

/// Recognises lines, and keeps track of the rows of a dumped completion queue entry.
#[derive(Debug, Default)]
pub(super) struct Recogniser {
    dump: Dump,
    frame: Frame,
    /// A report of the kernel whose call trace may follow.
    report: Option<Report>,
    /// The last line that began a report.
    reported: Option<u64>,
    /// The line in which a check of the kernel failed, if that is the last report.
    warned: Option<u64>,
    /// A crash outside RDMA whose callers may follow.
    below: Option<Below>,
    /// The first crash whose place the log does not show.
    unplaced: Option<Symptom>,
    /// What asks for other firmware, and where.
    asks_firmware: Option<(String, u64)>,
    /// GUIDs and GPUs that the lines so far name.
    shown: Shown,
    /// A trace of Python whose exception may follow.
    python: PythonTrace,
    /// What lines before show that the next failure may depend on.
    nearby: Nearby,
    /// The last lines, of which this one may be the end.
    previous: Previous,
    /// What the lines so far show of the place where the job runs.
    marks: Marks,
    /// What the lines so far show to have worked.
    successes: Successes,
    /// What the lines so far show of a cluster that runs the job.
    cluster: Parts,
    ranks: Ranks,
    /// See [`Recogniser::mixes_layers`].
    mixed: bool,
    /// What UCX opened.
    opened: Opened,
    /// The first container that loads the module for memory of GPUs and ended.
    ended: Option<Symptom>,
    /// The containers that `kubectl describe pod` lists.
    containers: Containers,
    /// The status of an operator's policy.
    policy: Policy,
    /// Lists of devices that tools print.
    listing: Listing,
    /// Properties that tools print below the name of what has them.
    tables: Tables,
    /// The module that DKMS builds.
    build: Build,
    /// Adapters whose names PSM2 does not know.
    renamed: Renamed,
    /// What the host connects to.
    target: Target,
    /// Peers that a program gave up.
    given_up: GivenUp,
    /// Interfaces that lead to no other host.
    interfaces: Interfaces,
    /// Adapters that were taken away.
    removals: Removals,
    retries: Retries,
    /// Providers that have nothing for the program.
    providers: Providers,
    /// What perftest measured.
    results: Results,
    /// Failures that name nothing of RDMA.
    others: Others,
    /// Failures at a level of information.
    understated: Understated,
    /// How NCCL left its functions.
    unwarned: Unwarned,
    /// Traces of programs that crashed.
    backtrace: Backtrace,
    /// A process that the system ended.
    crash: Crash,
    /// What tools report in several lines.
    reports: Reports,
    /// Whether a command loads a module of RDMA.
    loads: bool,
    /// Settings in this line besides what else it shows.
    set: Vec<Fact>,
}

impl Recogniser {
    /// The GPU whose memory one of the lines up to `line` shows, at most `within` lines before.
    pub(super) fn gpu_memory(&self, line: u64, within: u64) -> Option<Gpu> {
        self.nearby.gpu_memory(line, within)
    }

    /// What the lines so far show of the place where the job runs.
    pub(super) fn marks(&self) -> Marks {
        self.marks
    }

    /// Whether NCCL uses ports of InfiniBand and of RoCE on one host: it may connect one of the first to one of the second.
    pub(super) fn mixes_layers(&self) -> bool {
        self.mixed
    }

    /// What the lines show of GUIDs, GIDs and GPUs.
    pub(super) fn shown(&mut self) -> Shown {
        std::mem::take(&mut self.shown)
    }

    /// Whether the lines show that a pod that Kubernetes refused in words for any pod is one that uses RDMA.
    pub(super) fn is_of_rdma(&self, symptom: &Symptom) -> bool {
        let is_of_network =
            || self.cluster.network && attach::is_of_sandbox(&symptom.text.to_ascii_lowercase());
        cluster::is_of_any_pod(symptom.kind, &symptom.text) && (self.cluster.request || is_of_network())
    }

    /// Whether the refusal of a storage target is one of a connection over TCP, as far as the log shows.
    pub(super) fn is_refusal_over_tcp(&self, symptom: &Symptom) -> bool {
        let is_of_nvme = ["nvme", "CQ transport", "mnan"]
            .iter()
            .any(|name| symptom.text.contains(name))
            && symptom.named.device.is_none();
        symptom.kind == SymptomKind::StorageRefused && self.target.is_refusal_over_tcp(&symptom.text)
            || is_of_nvme && self.target.is_only_tcp()
    }

    /// Whether the kernel's NVMe host did not reach its controller, over a network that no line names: NVMe over TCP says the same.
    pub(super) fn is_of_any_network(&self, symptom: &Symptom) -> bool {
        symptom.kind == SymptomKind::PeerUnreachable
            && symptom.text.contains("nvme nvme")
            && ["keep_alive", "keep-alive", "keep alive"]
                .iter()
                .any(|words| symptom.text.contains(words))
            && !self.target.has_rdma()
            && !symptom.text.to_ascii_lowercase().contains("rdma")
    }

    /// What the lines so far show of the ranks and nodes of the job.
    pub(super) fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// A list of devices that has none.
    pub(super) fn empty_list(&self) -> Option<Symptom> {
        let line = Lower::of("ibv_devices: no device below the header (device, node GUID)");
        let number = self.listing.empty()?;
        Some(symptom(&line, Reading::of(SymptomKind::NoDevice, 0), number))
    }

    /// A module that DKMS did not build for any kernel.
    pub(super) fn unbuilt(&self) -> Option<Symptom> {
        let (text, number) = self.build.skipped()?;
        Some(failure(&Lower::of(&text), SymptomKind::DriverNotBuilt, number))
    }

    /// A peer that a program reaches over RDMA and gave up.
    pub(super) fn given_up(&self) -> Option<Symptom> {
        let (text, number) = self.given_up.over_rdma()?;
        Some(failure(&Lower::of(text), SymptomKind::PeerUnreachable, number))
    }

    /// The provider of an adapter that does not offer what the program asks for, where no other one was selected.
    pub(super) fn unfit_provider(&self) -> Option<Symptom> {
        let (text, number, has_reason) = self.providers.unfit()?;
        if self.successes.went_on_after(number) {
            return None;
        }
        let kind = if has_reason {
            SymptomKind::UnsupportedAdapter
        } else {
            SymptomKind::NoDevice
        };
        let mut found = failure(&Lower::of(text), kind, number);
        found.software = Some(Software::Libfabric);
        found.grade = symptom::Grade::Degraded;
        // The program may go on without it.
        found.known = false;
        Some(found)
    }

    /// A container that loads the module for memory of GPUs and ended.
    pub(super) fn ended(&mut self) -> Option<Symptom> {
        self.ended.take()
    }

    /// A device that UCX did not open, where it opened none: an EFA is none that it can use without its module for it.
    pub(super) fn unopened(&self) -> Option<Symptom> {
        let (text, number, is_efa) = self.opened.none()?;
        if self.successes.went_on_after(number) {
            return None;
        }
        let reading = if is_efa {
            Reading::of(SymptomKind::UnsupportedAdapter, 0)
        } else {
            Reading::unrecognised()
        };
        let mut found = symptom(&Lower::of(text), reading, number);
        found.software = Some(Software::Ucx);
        found.grade = found.grade.min(symptom::Grade::Degraded);
        found.known = false;
        Some(found)
    }

    /// Whether a tool lists a provider of libfabric with a device.
    pub(super) fn lists_provider(&self) -> bool {
        self.providers.are_listed()
    }

    /// A failure of NCCL without a warning.
    pub(super) fn unwarned(&self) -> Option<Symptom> {
        let (part, text, number) = self.unwarned.failed()?;
        let reading = match part {
            Part::Sockets => Reading::of(SymptomKind::TcpError, 0),
            Part::Other => Reading::unrecognised(),
        };
        let mut found = symptom(&Lower::of(text), reading, number);
        found.known = false;
        Some(found)
    }

    /// A program that crashed in a library of RDMA.
    pub(super) fn crashed(&self) -> Option<Symptom> {
        let (text, number) = self.backtrace.found()?;
        Some(failure(&Lower::of(text), SymptomKind::BackendFailed, number))
    }

    /// A process that the system ended, and what this shows of its libraries.
    pub(super) fn ended_by_system(&self) -> Option<Symptom> {
        let (kind, text, number) = self.crash.shown()?;
        let mut found = failure(&Lower::of(text), kind, number);
        // It does not say where.
        found.known = false;
        Some(found)
    }

    /// What rows of tools show together.
    pub(super) fn reported(&self) -> Vec<Symptom> {
        let of = |(kind, text, number): (SymptomKind, &str, u64)| {
            let mut found = failure(&Lower::of(text), kind, number);
            found.grade = found.grade.min(symptom::Grade::Degraded);
            found
        };
        // IP over InfiniBand is not needed everywhere, and its interfaces show nothing of a port that a tool lists as active.
        let is_shown = |kind: SymptomKind| kind != SymptomKind::PortNotActive || !self.successes.active_port;
        let shown = self.reports.shown().filter(|(kind, ..)| is_shown(*kind));
        shown.map(of).collect()
    }

    /// What perftest measured with large messages.
    pub(super) fn measured(&self) -> Option<Measured> {
        self.results.best.clone()
    }

    /// Adapters that were taken away.
    pub(super) fn removals(&self) -> &Removals {
        &self.removals
    }

    /// Interfaces that lead to no other host.
    pub(super) fn interfaces(&mut self) -> Interfaces {
        std::mem::take(&mut self.interfaces)
    }

    /// What PSM2 reports that does not find an adapter: a failure if the log shows that its port is active, not known what it means if the log
    /// shows nothing else, and of no consequence on a node that has none.
    pub(super) fn renamed(&self) -> Option<Symptom> {
        if let Some((text, number)) = self.renamed.missed().filter(|_| self.successes.active_port) {
            return Some(failure(&Lower::of(&text), SymptomKind::BackendFailed, number));
        }
        let (text, number, is_alone) = self.renamed.without()?;
        if self.successes.went_on_after(number) {
            return None;
        }
        let mut found = failure(&Lower::of(text), SymptomKind::NoDevice, number);
        found.grade = if is_alone {
            symptom::Grade::Unrecognised
        } else {
            symptom::Grade::Note
        };
        Some(found)
    }

    /// What the lines show of failures that name nothing of RDMA.
    pub(super) fn others(&mut self) -> Others {
        std::mem::take(&mut self.others)
    }

    /// What the lines show of failures at a level of information.
    pub(super) fn understated(&mut self) -> Understated {
        std::mem::take(&mut self.understated)
    }

    /// Settings in the line besides what else it shows.
    pub(super) fn set(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.set)
    }

    /// What the lines so far show to have worked.
    pub(super) fn successes(&mut self) -> &mut Successes {
        &mut self.successes
    }

    /// A line without what a launcher writes around each line of the frame that it is in.
    pub(super) fn within_frame<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let text = self.frame.is_open().then(|| String::from_utf8_lossy(bytes));
        match text {
            Some(Cow::Borrowed(text)) => Cow::Borrowed(self.frame.inner(text).as_bytes()),
            Some(Cow::Owned(text)) => Cow::Owned(self.frame.inner(&text).as_bytes().to_vec()),
            None => Cow::Borrowed(bytes),
        }
    }

    /// What a line shows.
    pub(super) fn recognise(&mut self, bytes: &[u8], number: u64) -> Option<Found> {
        if let Some(found) = self.dump.row(bytes).or_else(|| self.traced(bytes, number)) {
            return Some(found);
        }
        let text = String::from_utf8_lossy(bytes);
        let found = self.wrapped(&text, number).or_else(|| self.read(&text, number));
        let found = match found {
            Some(Found::Symptom(symptom)) if symptom.kind == SymptomKind::Unrecognised => {
                let whole = self.previous.completed(untagged(&text)).map(|(line, kind)| {
                    let line = Lower::of(&line);
                    Found::Symptom(Box::new(reading::symptom(&line, Reading::of(kind, 0), number)))
                });
                whole.or(Some(Found::Symptom(symptom)))
            }
            found => found,
        };
        self.previous.add(untagged(&text));
        found
    }

    /// Adds a line to what several lines show together.
    fn collect(&mut self, text: &str, number: u64) {
        self.others.went_on(text);
        self.understated.went_on(text);
        self.successes.add_prompt(text, number);
        self.opened.add(text, number);
        self.python.add(text, number);
        self.shown.add(text, number);
        self.listing.add(text, number);
        self.results.add(text, number);
        self.renamed.add(text, number);
        self.unwarned.add(text, number);
        self.backtrace.add(text, number);
        self.crash.add(text, number, others::works);
        self.reports.add(text, number);
        self.loads = self.loads || loads_module(text);
    }

    /// What a line shows that is not a part of a frame.
    fn read(&mut self, text: &str, number: u64) -> Option<Found> {
        if self.policy.add(text, number) {
            let reading = Reading::of(SymptomKind::DriverNotReady, 0);
            let line = Lower::of("state-OFED: notReady");
            return Some(Found::Symptom(Box::new(symptom(&line, reading, number))));
        }
        self.collect(text, number);
        if tables::is_of_other_interface(text) {
            return None;
        }
        if let Some(found) = self.of_tool(text, number) {
            return Some(found);
        }
        let anchors = ANCHORS.as_ref()?;
        let in_words = || wording::expanded(text).is_some_and(|text| anchors.is_match(text.as_bytes()));
        if !(anchors.is_match(text.as_bytes()) || is_klog_error(text) || in_words()) {
            return None;
        }
        let line = Lower::of(text);
        if self.python.ends_at(&line.lower, number) {
            let reading = Reading::of(SymptomKind::RankFailed, 0);
            return Some(Found::Symptom(Box::new(symptom(&line, reading, number))));
        }
        self.marks.add(&line.lower);
        self.successes.add(&line.lower, number);
        self.cluster.add(&line.lower);
        self.ranks.add(text, &line.lower);
        self.mixed |= settings::mixes_layers(&line.lower);
        self.note(&line, number);
        self.target.add(&line.lower);
        if self.target.is_of_tcp(&line.lower) || has_ample_memlock(&line.lower) {
            return None;
        }
        if let Some(said) = wrapped::counted(&line.lower).or_else(|| wrapped::said(&line.lower)) {
            self.frame.recognised();
            let reading = said.map(|(kind, at)| Reading::of(kind, at));
            return reading.map(|reading| Found::Symptom(Box::new(symptom(&line, reading, number))));
        }
        if let Some(reading) = self.of_cluster(&line.lower) {
            return Some(Found::Symptom(Box::new(symptom(&line, reading, number))));
        }
        if self.begins_report(text, &line.lower, number) {
            // It may name the module itself.
            return self.traced(text.as_bytes(), number);
        }
        self.nearby.add_memory(&line.lower, number);
        if let Some(found) = self.of_settings(&line, number) {
            return Some(found);
        }
        if self.dump.begins(&line, number) {
            return None;
        }
        if let Some(name) = connection::restored(&line.lower) {
            let client = connection::client(&line.lower);
            return Some(Found::Reconnected(name.to_owned(), client.map(str::to_owned)));
        }
        if self.nearby.add(&line.lower, number) {
            return None;
        }
        if let Some((kind, text)) = self.nearby.not_written(&line.lower, number) {
            let found = symptom(&Lower::of(&text), Reading::of(kind, 0), number);
            return Some(Found::Symptom(Box::new(found)));
        }
        if let Some(function) = assigned(&line) {
            return Some(Found::Recovered(Device::Pci(function)));
        }
        let judgement = kernel(&line);
        let is_root = || families::find(&line.lower).is_some_and(|(kind, _)| families::outranks_events(kind));
        if let Some(judgement) = judgement.as_ref().filter(|_| !is_root())
            && let Judged::Final(found) = judged(&line, judgement, number)
        {
            return found;
        }
        let reading = self
            .of_family(&line.lower)
            .or_else(|| reading_of(&line, judgement.as_ref()));
        let Some(reading) = reading else {
            if !self.frame.is_known() {
                self.others.add(&line, number);
            }
            return None;
        };
        // The place of a check that failed, which its heading named.
        let is_warned = || self.warned.is_some_and(|at| number <= at + trace::WITHIN);
        if reading.kind == SymptomKind::DriverCrashed && is_warned() {
            return None;
        }
        // The rest of a help text explains what it reported.
        if reading.kind == SymptomKind::Unrecognised && self.frame.is_known() {
            return None;
        }
        if reading.kind != SymptomKind::Unrecognised {
            self.frame.recognised();
        }
        let operation = reading.operation;
        let mut symptom = Box::new(symptom(&line, reading, number));
        self.nearby.complete(&mut symptom, &line.lower, number);
        self.grade_of_pod(&mut symptom, &line, number);
        Some(match operation.filter(|_| symptom.named.errno.is_none()) {
            Some(operation) => Found::Incomplete(operation, symptom),
            None => Found::Symptom(symptom),
        })
    }

    /// Whether a line begins the report of a crash or a hang, or the trace of one whose head is not in the log.
    fn begins_report(&mut self, text: &str, lower: &str, number: u64) -> bool {
        let is_reported = self.reported.is_some_and(|at| number <= at + trace::WITHIN);
        let headless = || Report::without_head(text, lower, number).filter(|_| !is_reported);
        let Some(report) = Report::begin(text, lower, number).or_else(headless) else {
            return false;
        };
        self.reported = Some(number);
        self.warned = report.is_warning().then_some(number);
        self.end_report();
        self.report = Some(report);
        true
    }

    /// Notes what matters only with other lines.
    fn note(&mut self, line: &Lower<'_>, number: u64) {
        self.given_up.add(line, number);
        self.understated.add(line, number);
        if line.lower.contains("upgrade to later fw") {
            self.asks_firmware
                .get_or_insert_with(|| (line.text.to_owned(), number));
        }
        self.interfaces.add(line, number);
        self.removals.add(line, number);
        self.retries.add(line, number);
        self.providers.add(line, number);
    }

    /// What a line shows of the settings. Those besides it are kept.
    fn of_settings(&mut self, line: &Lower, number: u64) -> Option<Found> {
        let found = of_setting(line, number)?;
        let Found::Fact(fact @ Fact::Setting(..)) = found else {
            return Some(found);
        };
        self.set.extend(settings::further(line.text));
        if is_refused(line) {
            self.set.push(fact);
            return None;
        }
        Some(Found::Fact(fact))
    }

    /// What a row of a tool shows that names its device or module in an earlier line.
    fn of_tool(&mut self, text: &str, number: u64) -> Option<Found> {
        if let Some((kind, text)) = self.containers.add(text) {
            let found = failure(&Lower::of(&text), kind, number);
            // Why it ended says more, wherever it stands.
            if kind == SymptomKind::GdrDisabled {
                self.ended.get_or_insert(found);
                return None;
            }
            return Some(Found::Symptom(Box::new(found)));
        }
        if let Some((kind, text)) = self.tables.add(untagged(text)) {
            let mut found = failure(&Lower::of(&text), kind, number);
            // Nothing has failed yet, unless a program reports it of itself.
            if kind != SymptomKind::BackendMissing {
                found.grade = found.grade.min(symptom::Grade::Degraded);
            }
            return Some(Found::Symptom(Box::new(found)));
        }
        let text = self.build.add(text, number)?;
        let found = failure(&Lower::of(&text), SymptomKind::DriverNotBuilt, number);
        Some(Found::Symptom(Box::new(found)))
    }

    /// Grades what Kubernetes refuses by whether RDMA is concerned.
    fn grade_of_pod(&mut self, symptom: &mut Symptom, line: &Lower<'_>, number: u64) {
        let lower = line.lower.as_str();
        // Kubernetes refuses other pods in the same words.
        if cluster::is_of_any_pod(symptom.kind, lower) && !cluster::concerns_rdma(lower) {
            symptom.grade = symptom::Grade::Note;
            self.others.keep(line, number);
        }
        // A plugin goes on without a function that has no driver, and may look at those of other adapters.
        if symptom.kind == SymptomKind::FunctionUnconfigured && lower.contains("/driver: ") {
            symptom.grade = symptom.grade.min(symptom::Grade::Degraded);
        }
        // Any container is refused in the same words.
        let is_of_limit = symptom.kind == SymptomKind::MemlockWarning && cluster::refuses_limit(lower);
        if self.cluster.request && is_of_limit {
            symptom.grade = symptom::Grade::Failure;
        }
    }

    /// What a line in lower case shows in the words of Kubernetes, as far as lines before it show that RDMA is concerned.
    fn of_cluster(&mut self, lower: &str) -> Option<Reading> {
        if let Some(at) = self.policy.package(lower) {
            return Some(Reading::of(SymptomKind::DriverNotBuilt, at));
        }
        if let Some(at) = waiting::for_driver(lower) {
            return Some(Reading::of(SymptomKind::DriverNotReady, at));
        }
        let names_them = self.cluster.request || lower.contains("infiniband");
        if let Some(at) = lower.find("not a device node").filter(|_| names_them) {
            return Some(Reading::of(SymptomKind::NoDevice, at));
        }
        if let Some(at) = registration::lost(lower) {
            return Some(Reading::of(SymptomKind::ResourceUnavailable, at));
        }
        if let Some(at) = self.cluster.emptied(lower) {
            return Some(Reading::of(SymptomKind::ResourceUnavailable, at));
        }
        let ours = self.cluster.plugin || self.cluster.request;
        // NCCL says of its own search: `NET/IB : No device found`.
        let offers_nothing =
            || registration::offers_nothing(lower).filter(|_| ours && !lower.contains("nccl"));
        let at = registration::failed(lower)
            .filter(|_| ours || self.marks.family == Some(Family::Efa))
            .or_else(offers_nothing)?;
        Some(Reading::of(SymptomKind::ResourceUnavailable, at))
    }

    /// What a line shows in the words of the tools of one family of adapters: `hccn_tool -link -g` prints only the state, and Gaudi's ports
    /// refuse a queue pair while they are down.
    fn of_family(&self, lower: &str) -> Option<Reading> {
        let at = match self.marks.family? {
            Family::Ascend => lower.find("link status: down")?,
            Family::Gaudi => lower
                .find("hbldv_modify_qp(")
                .filter(|_| lower.contains("failed: 22"))?,
            _ => return None,
        };
        Some(Reading::of(SymptomKind::PortNotActive, at))
    }

    /// What a sentence of a help text shows that began in a line before.
    fn wrapped(&mut self, text: &str, number: u64) -> Option<Found> {
        let joined = self.frame.add(text).or_else(|| {
            let outside = !self.frame.is_open();
            let joined = || {
                self.previous
                    .sentence(untagged(text))
                    .or_else(|| self.previous.checked(text))
            };
            outside.then(joined).flatten()
        })?;
        let line = Lower::of(&joined);
        self.successes.add(&line.lower, number);
        let known = match wrapped::said(&line.lower) {
            Some(None) => {
                self.frame.recognised();
                return None;
            }
            Some(Some((kind, at))) => Some(Reading::of(kind, at)),
            None => read(&line, false).filter(|reading| reading.kind != SymptomKind::Unrecognised),
        };
        let found = symptom(&line, known?, number);
        self.frame.recognised();
        Some(Found::Symptom(Box::new(found)))
    }

    /// The error number that an earlier line announced: `Error: Cannot allocate memory`, or `Caused by:` in the line before.
    pub(super) fn announced_error(bytes: &[u8], of: Operation) -> Option<Errno> {
        let text = std::str::from_utf8(bytes).ok()?;
        let line = Lower::of(text);
        let label = ["error:", "errno:", "reason:", "error message:", "strerror:"];
        let trimmed = line.lower.trim_start();
        let announces = label.iter().any(|label| trimmed.starts_with(label)) || errors::is_alone(trimmed);
        // The same in the program's own words: `Failed to open device: Permission denied`.
        let repeats = || operation(&line.lower).is_some_and(|(operation, _)| operation == of);
        (announces || repeats()).then(|| errno(&line))?
    }

    /// A report ends, or the log.
    fn end_report(&mut self) {
        let loads = self.loads;
        let is_one = |report: &Report| report.is_unplaced() || loads && report.is_in_core();
        let Some(report) = self.report.take().filter(is_one) else {
            return;
        };
        self.unplaced
            .get_or_insert_with(|| of_kernel(&report.text, report.line));
    }

    /// A crash whose place the log does not show, unless it shows that of another one.
    pub(super) fn unplaced(&mut self, has_crashed: bool) -> Option<Symptom> {
        self.end_report();
        self.unplaced.take().filter(|_| !has_crashed)
    }

    /// The attempts to connect with which the log ends.
    pub(super) fn unconnected(&self) -> Option<Symptom> {
        self.retries.unconnected()
    }

    /// The message of a driver that asks for newer firmware, which may be why a program finds no adapter.
    pub(super) fn asks_firmware(&self) -> Option<Symptom> {
        let (text, number) = self.asks_firmware.as_ref()?;
        Some(failure(&Lower::of(text), SymptomKind::FirmwareMismatch, *number))
    }

    /// A line of a call trace shows that a report of the kernel is about RDMA.
    fn traced(&mut self, bytes: &[u8], number: u64) -> Option<Found> {
        if let Some(below) = &self.below {
            let is_called = below.is_called(bytes, number);
            if is_called != Some(false) {
                let below = self.below.take()?;
                return is_called.map(|_| of_caller(&below));
            }
        }
        let report = self.report.as_mut()?;
        report.add(bytes);
        if report.has_ended(bytes, number) {
            let below = report.below(bytes);
            self.end_report();
            return match below {
                Some(below) if below.of_user => Some(of_caller(&below)),
                below => {
                    self.below = below;
                    None
                }
            };
        }
        if !report.concerns_rdma(bytes) {
            return None;
        }
        let report = self.report.take()?;
        let text = report.at(bytes);
        let line = Lower::of(&text);
        let mut found = symptom(&line, Reading::of(report.kind_at(bytes), 0), report.line);
        found.software = Some(Software::Kernel);
        Some(Found::Symptom(Box::new(found)))
    }
}

/// Whether a command loads a module of RDMA: `modprobe rpcrdma`.
fn loads_module(text: &str) -> bool {
    let mut words = text.split_whitespace();
    words.any(|word| word.ends_with("modprobe")) && words.next().is_some_and(is_rdma_module)
}

/// A crash of the kernel that is not known to be one of RDMA.
fn of_kernel(text: &str, number: u64) -> Symptom {
    let mut found = symptom(&Lower::of(text), Reading::unrecognised(), number);
    found.software = Some(Software::Kernel);
    found
}

/// A crash in another module, below a user of RDMA.
fn of_caller(below: &Below) -> Found {
    Found::Symptom(Box::new(of_kernel(&below.text, below.line)))
}

/// A line without the rank that a launcher writes before it: `[1,3]<stderr>:exceeded.`
fn untagged(text: &str) -> &str {
    /// The most bytes of it.
    const LONGEST: usize = 64;
    let is_tagged = text.trim_start().starts_with('[');
    let rest = ["<stderr>:", "<stdout>:"].iter().find_map(|tag| {
        let at = text.find(tag).filter(|at| is_tagged && *at < LONGEST)?;
        Some(&text[at + tag.len()..])
    });
    rest.unwrap_or(text)
}

/// Whether a line with a setting reports a failure: `NCCL_IB_HCA set to mlx5_9, but no matching IB device found`.
fn is_refused(line: &Lower) -> bool {
    // Most lines with a setting have none of these.
    const WORDS: [&str; 8] = [
        "fail", "error", "no ", "not ", "invalid", "unable", "cannot", "denied",
    ];
    if !WORDS.iter().any(|word| line.lower.contains(word)) {
        return false;
    }
    let known = || read(line, false).is_some_and(|reading| reading.kind != SymptomKind::Unrecognised);
    line.grade().is_failure() && known()
}

/// What a line shows of the settings.
fn of_setting(line: &Lower, number: u64) -> Option<Found> {
    // PyTorch ends its message about a failure with the version of NCCL.
    let is_message = |fact: &Fact| matches!(fact, Fact::Nccl(_)) && read(line, false).is_some();
    let fact = settings::fact(line).filter(|fact| !is_message(fact))?;
    Some(match fact {
        Fact::Setting("NCCL_IB_DISABLE", value) if value == "1" => {
            let at = line.lower.find("nccl_ib_disable").unwrap_or_default();
            let reading = Reading::of(SymptomKind::RdmaDisabled, at);
            Found::Symptom(Box::new(symptom(line, reading, number)))
        }
        fact => Found::Fact(fact),
    })
}
