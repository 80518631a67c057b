//! Recognises what a line shows: a symptom, a setting of the job, or a fact about it.
//!
//! What a line means follows, in this order, from the status of a completion, an event, a message of a known program
//! ([`families`](super::families)), a verbs operation with its error number, and an error number alone. A line about RDMA that
//! looks like a failure and has none of these is kept as not recognised.

use std::cell::LazyCell;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use rdma_health_kernel_log::{Device, EventKind, Judgement};
use rdma_health_protocol::{Errno, WcStatus};

use super::{
    GPU_WITHIN, cluster, codes, ended,
    entity::{is_rdma_name, named},
    errors::errno,
    events::{Event, event},
    fabric, families,
    grade::{Grade, Level, failures},
    grammar,
    kernel::{User, is_of_interest, is_of_kernel, kernel, of_event, user_of},
    line::{Lower, excerpt, host, row},
    loader,
    marks::{self, Marks},
    memory,
    needless::{assigned, is_needless, only_lacks_a_feature},
    operation::{Operation, operation},
    settings::{self, Fact},
    status::{names_status, status},
    trace::{self, Report},
    wrapped::{self, Frame},
};
use crate::symptom::{self, Gpu, Software, Symptom, SymptomKind, Transition, completion::of_syndrome};

/// The content of a recognised line.
#[derive(Debug)]
pub(super) enum Found {
    Symptom(Box<Symptom>),
    /// A symptom without an error number, which one of the next lines may have: `Error: Cannot allocate memory`.
    Incomplete(Operation, Box<Symptom>),
    Fact(Fact),
    /// The kernel reports that the link of this device is up.
    Recovered(Device),
}

/// Other words of lines that matter, in lower case.
const OTHER_ANCHORS: &[&str] = &[
    "completion",
    "completed",
    "dump error cqe",
    "async event",
    "event",
    "synd",
    "status",
    "retry",
    "flushed",
    "vendor err",
    // The kernel's messages.
    "port module",
    "link down",
    "link up",
    "link is",
    "offline",
    "temp",
    "aer:",
    "dpc:",
    "health",
    "heartbeat",
    "stall",
    "assert_",
    "abnormal",
    "fault",
    "io_page",
    "f_trans",
    "slot",
    "inaccessible",
    "containment",
    "insufficient",
    "firmware",
    // Codes and names.
    "(-",
    "[-",
    ": -",
    "=-",
    "= -",
    "returned -",
    "_down",
    "disconnect",
    "nccl warn",
    "arm-smmu",
    "ae qpid",
    "qp event",
];

/// Recognises lines, and keeps track of the rows of a dumped completion queue entry.
#[derive(Debug)]
pub(super) struct Recogniser {
    /// Finds a line that is worth parsing. Never `None` with these words; if it were, no line would be recognised.
    anchors: Option<AhoCorasick>,
    dump: Option<DumpRows>,
    frame: Frame,
    /// A report of the kernel whose call trace may follow.
    report: Option<Report>,
    /// The last line that shows GPU memory, and whose.
    gpu: Option<(u64, Gpu)>,
    /// What the lines so far show of the place where the job runs.
    marks: Marks,
}

/// The rows of a completion queue entry read so far.
#[derive(Debug)]
struct DumpRows {
    line: u64,
    text: String,
    rows: u8,
    /// How many other lines may still come in between.
    patience: u8,
}

impl Default for Recogniser {
    fn default() -> Self {
        let of_families = families::ROWS
            .iter()
            .flat_map(|rows| rows.iter().filter_map(|(phrases, _)| phrases.first().copied()));
        let words = OTHER_ANCHORS
            .iter()
            .copied()
            .chain(failures())
            .chain(
                settings::ANCHORS
                    .iter()
                    .chain(grammar::ANCHORS)
                    .chain(codes::ANCHORS)
                    .chain(cluster::ANCHORS)
                    .copied(),
            )
            .chain(fabric::ANCHORS.iter().copied())
            .chain(memory::neighbours())
            .chain(marks::anchors())
            .chain(loader::ANCHORS.iter().copied())
            .chain(ended::anchors())
            .chain([ended::LABEL])
            .chain(trace::anchors())
            .chain(of_families);
        let anchors = AhoCorasickBuilder::new()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .build(words)
            .ok();
        Self {
            anchors,
            dump: None,
            frame: Frame::default(),
            report: None,
            gpu: None,
            marks: Marks::default(),
        }
    }
}

impl Recogniser {
    /// The GPU whose memory one of the lines up to `line` shows, at most `within` lines before.
    pub(super) fn gpu_memory(&self, line: u64, within: u64) -> Option<Gpu> {
        let (at, gpu) = self.gpu?;
        (at + within >= line).then_some(gpu)
    }

    /// What the lines so far show of the place where the job runs.
    pub(super) fn marks(&self) -> Marks {
        self.marks
    }

    /// What a line shows.
    pub(super) fn recognise(&mut self, bytes: &[u8], number: u64) -> Option<Found> {
        if let Some(found) = self.dump_row(bytes).or_else(|| self.traced(bytes, number)) {
            return Some(found);
        }
        let text = String::from_utf8_lossy(bytes);
        if let Some(found) = self.wrapped(&text, number) {
            return Some(found);
        }
        if !self.anchors.as_ref()?.is_match(bytes) {
            return None;
        }
        let line = Lower::of(&text);
        self.marks.add(&line.lower);
        if let Some(report) = Report::begin(&text, &line.lower, number) {
            self.report = Some(report);
            return None;
        }
        if let Some(gpu) = memory::of_neighbour(&line.lower) {
            self.gpu = Some((number, gpu));
        }
        // PyTorch ends its message about a failure with the version of NCCL.
        let is_message = |fact: &Fact| matches!(fact, Fact::Nccl(_)) && read(&line, false).is_some();
        if let Some(fact) = settings::fact(&line).filter(|fact| !is_message(fact)) {
            return Some(match fact {
                Fact::Setting("NCCL_IB_DISABLE", value) if value == "1" => {
                    let at = line.lower.find("nccl_ib_disable").unwrap_or_default();
                    let reading = Reading::of(SymptomKind::RdmaDisabled, at);
                    Found::Symptom(Box::new(symptom(&line, reading, number)))
                }
                fact => Found::Fact(fact),
            });
        }
        if self.begins_dump(&line, number) {
            return None;
        }
        if let Some(function) = assigned(&line) {
            return Some(Found::Recovered(Device::Pci(function)));
        }
        let kernel = kernel(&line);
        let is_root = families::find(&line.lower).is_some_and(|(kind, _)| families::outranks_events(kind));
        match kernel {
            _ if is_root => {}
            Some(Judgement::Harmless) => return None,
            Some(Judgement::Event(ref report)) => match report.kind {
                EventKind::LinkUp | EventKind::ModulePlugged => {
                    return Some(Found::Recovered(report.device.clone()));
                }
                EventKind::Started => return None,
                kind => {
                    if let Some((kind, grade)) = of_event(kind)
                        && is_of_interest(&line, &report.driver)
                    {
                        let mut found = symptom(&line, Reading::of(kind, 0), number);
                        found.grade = grade.unwrap_or(found.grade);
                        found.software = Some(Software::Kernel);
                        if found.kind == SymptomKind::AdapterNotStarted {
                            found.named.errno = errno(&line);
                        }
                        match &report.device {
                            Device::Pci(address) => found.named.function = Some(address.clone()),
                            Device::Named(name) if found.named.device.is_none() && is_rdma_name(name) => {
                                found.named.device = Some(name.clone());
                            }
                            _ => {}
                        }
                        if report.kind == EventKind::IommuFault {
                            match user_of(&report.driver) {
                                User::Rdma => {}
                                // The device decides.
                                User::Unknown => found.known = false,
                                User::Other => found.grade = symptom::Grade::Note,
                            }
                        }
                        return Some(Found::Symptom(Box::new(found)));
                    }
                }
            },
            _ => {}
        }
        let of_driver = kernel
            .as_ref()
            .is_some_and(|judgement| *judgement != Judgement::Unknown)
            // DPDK says the same of its own drivers.
            || line.lower.contains(": probe of ") && !line.lower.contains(": probe of pci device");
        let reading = match read(&line, of_driver) {
            // The kernel ends a process: the name of the process may be one of RDMA.
            _ if line.lower.contains("out of memory: killed process") => {
                Reading::of(SymptomKind::RankFailed, 0)
            }
            Some(reading) if reading.kind != SymptomKind::Unrecognised => reading,
            _ if ended::find(&line.lower).is_some() => {
                let at = ended::find(&line.lower).unwrap_or_default();
                Reading::of(SymptomKind::RankFailed, at)
            }
            // Drivers say of many features that a device does not have them.
            Some(_) if of_driver && only_lacks_a_feature(&line.lower) => return None,
            Some(reading) => reading,
            // An error of a driver that the table does not know.
            None if matches!(kernel, Some(Judgement::Event(ref report)) if report.kind == EventKind::DriverError) => {
                Reading {
                    known: false,
                    ..Reading::of(SymptomKind::Unrecognised, 0)
                }
            }
            None => return None,
        };
        let operation = reading.operation;
        let mut symptom = Box::new(symptom(&line, reading, number));
        if matches!(
            symptom.kind,
            SymptomKind::RegMrFailed | SymptomKind::RegMrNoMemory
        ) {
            let near = self.gpu_memory(number, GPU_WITHIN);
            symptom.named.gpu = memory::of_registration(&line.lower).or(near);
        }
        Some(match operation.filter(|_| symptom.named.errno.is_none()) {
            Some(operation) => Found::Incomplete(operation, symptom),
            None => Found::Symptom(symptom),
        })
    }

    /// What a message shows that began in the line before, within the frame of a help text.
    fn wrapped(&mut self, text: &str, number: u64) -> Option<Found> {
        let joined = self.frame.add(text)?;
        let line = Lower::of(&joined);
        let (kind, at) = wrapped::find(&line, text)?;
        let grade = Grade::of(&line);
        if grade.quoted || grade.harmless {
            return None;
        }
        Some(Found::Symptom(Box::new(symptom(
            &line,
            Reading::of(kind, at),
            number,
        ))))
    }

    /// The error number that an earlier line announced: `Error: Cannot allocate memory`.
    pub(super) fn announced_error(bytes: &[u8], of: Operation) -> Option<Errno> {
        let text = std::str::from_utf8(bytes).ok()?;
        let line = Lower::of(text);
        let label = ["error:", "errno:", "reason:", "error message:", "strerror:"];
        let trimmed = line.lower.trim_start();
        let announces = label.iter().any(|label| trimmed.starts_with(label));
        // The same in the program's own words: `Failed to open device: Permission denied`.
        let repeats = || operation(&line.lower).is_some_and(|(operation, _)| operation == of);
        (announces || repeats()).then(|| errno(&line))?
    }

    /// Whether a dump of a completion queue entry begins: libmlx5's line, which ends in `got completion with error:`, or the kernel's.
    fn begins_dump(&mut self, line: &Lower<'_>, number: u64) -> bool {
        let lower = line.lower.trim_end();
        let ends = lower.ends_with("got completion with error:");
        if !ends && !lower.contains("dump error cqe") {
            return false;
        }
        self.dump = Some(DumpRows {
            line: number,
            text: excerpt(line.text, 0),
            rows: 0,
            patience: 8,
        });
        true
    }

    /// A line of a call trace shows that a report of the kernel is about RDMA.
    fn traced(&mut self, bytes: &[u8], number: u64) -> Option<Found> {
        let report = self.report.as_ref()?;
        if report.has_ended(number) {
            self.report = None;
            return None;
        }
        if !report.concerns_rdma(bytes) {
            return None;
        }
        let report = self.report.take()?;
        let line = Lower::of(&report.text);
        let mut found = symptom(&line, Reading::of(report.kind, 0), report.line);
        found.software = Some(Software::Kernel);
        Some(Found::Symptom(Box::new(found)))
    }

    /// The fourth row of a completion queue entry holds the syndrome: `00000000 00008914 10000132 000045d2`.
    fn dump_row(&mut self, bytes: &[u8]) -> Option<Found> {
        let dump = self.dump.as_mut()?;
        let row = std::str::from_utf8(bytes).ok().and_then(row);
        match row {
            Some(_) => dump.rows += 1,
            None => dump.patience -= 1,
        }
        if dump.patience == 0 {
            self.dump = None;
            return None;
        }
        let (4, Some(row)) = (dump.rows, row) else {
            return None;
        };
        let dump = self.dump.take()?;
        let status = of_syndrome(u64::from(row[7]))?;
        let line = Lower::of(&dump.text);
        let mut found = symptom(&line, Reading::of(SymptomKind::Completion(status), 0), dump.line);
        found.named.vendor_error = Some(row[6].into());
        found.hosts.clear();
        Some(Found::Symptom(Box::new(found)))
    }
}

/// What a line shows, and where in the line.
#[derive(Debug, Clone, Copy)]
struct Reading {
    kind: SymptomKind,
    at: usize,
    errno: Option<Errno>,
    /// The message is known.
    known: bool,
    /// The operation that failed without an error number in this line.
    operation: Option<Operation>,
}

impl Reading {
    fn of(kind: SymptomKind, at: usize) -> Self {
        Self {
            kind,
            at,
            errno: None,
            known: true,
            operation: None,
        }
    }
}

/// Reads a line. `None`: it is not about RDMA, shows no failure, or quotes one. An error number in a line of a driver of the
/// kernel is not that of a call of the job.
fn read(line: &Lower<'_>, of_driver: bool) -> Option<Reading> {
    let lower = line.lower.as_str();
    let grade = Grade::of(line);
    if grade.quoted {
        return None;
    }
    // What NCCL says of a plugin that does not load begins with the same words as what it says of one that is not there.
    // libfabric tries all of its providers, and informs about those that it cannot load.
    let tries = lower.contains("libfabric:") && grade.level == Some(Level::Info);
    let is_shown = !tries && (!grade.harmless || lower.contains("/plugin"));
    if let Some((kind, at)) = loader::find(lower).filter(|_| is_shown) {
        return Some(Reading::of(kind, at));
    }
    // What a module or its loader reports says what it is about.
    let row = families::find(lower)
        .filter(|(kind, _)| grade.about_rdma || of_driver || !families::needs_topic(*kind));
    if !(grade.about_rdma || row.is_some()) || grade.harmless {
        return None;
    }
    // A driver crashed in one of its functions, which is not an operation of the job.
    if lower.contains("rip: 0010:") {
        return Some(Reading {
            known: false,
            ..Reading::of(SymptomKind::DriverCrashed, 0)
        });
    }
    if let Some(offer) = offer(lower) {
        return offer.map(|kind| Reading::of(kind, 0));
    }
    let informs = grade.level == Some(Level::Info);
    let number = if of_driver { None } else { errno(line) };
    // The status of a completion says more than that something failed.
    let completed = LazyCell::new(|| {
        status(line).filter(|status| {
            !informs || grade.failing && *status != WcStatus::WrFlushErr && names_status(lower)
        })
    });
    let called = LazyCell::new(|| operation(lower));
    if let Some((kind, at)) = row
        .filter(|(_, at)| !informs || families::is_of_information(lower, *at))
        .filter(|(kind, _)| families::is_decisive(*kind) || completed.is_none())
    {
        // A row of a program that names the error in the same line gives way to the operation with its error.
        let names_operation =
            || number.is_some() && called.is_some_and(|(operation, _)| operation != Operation::Call);
        if families::is_decisive(kind) || !names_operation() {
            return Some(Reading {
                errno: number,
                ..Reading::of(refined(kind, number), at)
            });
        }
    }
    match event(line) {
        Some(Event::Harmless) => return None,
        Some(Event::Symptom(kind)) if !informs => {
            return Some(Reading {
                errno: number,
                ..Reading::of(refined(kind, number), 0)
            });
        }
        _ => {}
    }
    if let Some(status) = *completed {
        return Some(Reading::of(SymptomKind::Completion(status), place(lower)));
    }
    if !grade.is_failure() {
        return None;
    }
    if let Some(kind) = grammar::of_others(lower) {
        return Some(Reading::of(kind, 0));
    }
    if let Some((operation, at)) = called.filter(|_| !of_driver) {
        let mut kind = operation.failed(number)?;
        // These programs create their queues with plain attributes: what is missing is locked memory.
        let plain = matches!(Software::of(lower), Some(Software::Nccl | Software::Mpi))
            || lower.contains("warn call to ibv_");
        if kind == SymptomKind::CreateUnexplained && plain {
            kind = SymptomKind::CreateFailed;
        }
        if kind == SymptomKind::Unrecognised {
            return Some(Reading {
                errno: number,
                known: false,
                ..Reading::of(kind, at)
            });
        }
        let awaits = number.is_none() && operation != Operation::Call;
        return Some(Reading {
            kind,
            at,
            errno: number,
            known: operation != Operation::Call || number.is_some(),
            operation: awaits.then_some(operation),
        });
    }
    let (kind, known) = match number {
        Some(errno) => (SymptomKind::of_call(errno), false),
        None => (SymptomKind::Unrecognised, false),
    };
    Some(Reading {
        errno: number,
        known,
        ..Reading::of(kind, 0)
    })
}

/// The kind of a refused connection by the transition that failed: each sets other attributes.
pub(super) fn by_transition(kind: SymptomKind, transition: Option<Transition>) -> SymptomKind {
    match (kind, transition) {
        (SymptomKind::ConnectInvalid, Some(Transition::Init)) => SymptomKind::InitRefused,
        (SymptomKind::ConnectInvalid, Some(Transition::Rts)) => SymptomKind::RtsRefused,
        (kind, _) => kind,
    }
}

/// UCX's offer of other transports or devices than those that a setting names. `Some(None)`: RDMA is among them.
#[expect(
    clippy::option_option,
    reason = "no offer, an offer with RDMA, or one without"
)]
fn offer(lower: &str) -> Option<Option<SymptomKind>> {
    let (before, offered) = lower.split_once("one or more of")?;
    if !["is not available", "are not available"]
        .iter()
        .any(|words| before.contains(words))
    {
        return None;
    }
    // UCX was built without them, or its modules for GPUs are not installed.
    if before.contains("transport")
        && ["'cuda", "'rocm", "'gdr_copy", "'ze_"]
            .iter()
            .any(|name| before.contains(name))
    {
        return Some(Some(SymptomKind::BackendMissing));
    }
    let words = || offered.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    if before.contains("transport") {
        const TRANSPORTS: [&str; 4] = ["rc", "dc", "ud", "ib"];
        let is_rdma = |word: &str| {
            TRANSPORTS.iter().any(|name| {
                word == *name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'))
            })
        };
        return Some((!words().any(is_rdma)).then_some(SymptomKind::NoDevice));
    }
    let has_device = words().any(is_rdma_name);
    Some(Some(if has_device {
        SymptomKind::SettingUnmatched
    } else {
        SymptomKind::NoDevice
    }))
}

/// A kind that the error number makes more precise.
fn refined(kind: SymptomKind, errno: Option<Errno>) -> SymptomKind {
    match (kind, errno) {
        (SymptomKind::ConnectFailed, Some(errno)) => SymptomKind::of_connect(errno),
        // The connection manager of the peer knows no such service.
        (
            SymptomKind::CmFailed | SymptomKind::PeerClosed | SymptomKind::ConnectRefused,
            Some(Errno::ECONNREFUSED),
        ) => SymptomKind::NoListener,
        (SymptomKind::PeerClosed, Some(Errno::ETIMEDOUT)) => SymptomKind::PeerUnreachable,
        (
            SymptomKind::PeerClosed,
            Some(
                Errno::ENETDOWN
                | Errno::ENETUNREACH
                | Errno::EHOSTUNREACH
                | Errno::EADDRNOTAVAIL
                | Errno::EACCES
                | Errno::EPERM,
            ),
        ) => errno.map_or(kind, SymptomKind::of_connect),
        (SymptomKind::OpenFailed, Some(Errno::EPERM | Errno::EACCES)) => SymptomKind::NotPermitted,
        (SymptomKind::AddressUnresolved, Some(Errno::EADDRINUSE)) => SymptomKind::AddressInUse,
        (SymptomKind::CmFailed, Some(errno)) => match SymptomKind::of_connect(errno) {
            SymptomKind::ConnectFailed => kind,
            other => other,
        },
        (SymptomKind::RegMrFailed, Some(Errno::ENOMEM)) => SymptomKind::RegMrNoMemory,
        (kind, _) => kind,
    }
}

/// Where a long line about a completion becomes interesting.
fn place(lower: &str) -> usize {
    ["completion", "status", "retry", "error"]
        .iter()
        .filter_map(|word| lower.find(word))
        .min()
        .unwrap_or_default()
}

fn symptom(line: &Lower<'_>, reading: Reading, number: u64) -> Symptom {
    let mut named = named(line);
    named.errno = reading.errno;
    let kind = by_transition(reading.kind, named.transition);
    // A program that informs and continues: NCCL falls back to TCP.
    let goes_on = matches!(kind, SymptomKind::NoDevice | SymptomKind::BackendMissing)
        && line.lower.contains("nccl info ")
        || kind == SymptomKind::NoLibrary && line.lower.contains(" nccl ");
    Symptom {
        kind,
        grade: if goes_on || kind == SymptomKind::PortNotActive && fabric::lists_port_down(&line.lower) {
            symptom::Grade::Degraded
        } else if kind == SymptomKind::PciRoom && is_needless(&line.lower) {
            symptom::Grade::Note
        } else {
            kind.grade()
        },
        source: format!("log line {number}"),
        line: Some(number),
        count: 1,
        text: excerpt(line.text, reading.at),
        known: reading.known,
        named,
        software: Software::of(&line.lower).or_else(|| is_of_kernel(line.text).then_some(Software::Kernel)),
        hosts: host(line.text).into_iter().collect(),
    }
}
