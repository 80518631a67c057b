//! Reads a job's log (NCCL, UCX, `PyTorch`, perftest, the kernel) and finds the lines that show RDMA errors.
//!
//! Pure parsing: the caller passes bytes in pieces of any size. The log is untrusted: any encoding, binary data, escape
//! sequences and endless lines use bounded memory and cause no error.

mod attach;
mod backtrace;
mod chosen;
mod cluster;
mod codes;
mod collect;
mod compile;
mod complaint;
mod components;
mod connection;
mod consequence;
mod crash;
mod cufile;
mod decoration;
mod dkms;
mod document;
mod driver;
mod ended;
mod entity;
mod errors;
mod events;
mod fabric;
mod families;
mod foreign;
mod gid;
mod given_up;
mod gpu;
mod grade;
mod grammar;
mod install;
mod interfaces;
mod journal;
mod kernel;
mod launch;
mod line;
mod listing;
mod loader;
mod marks;
mod memory;
mod needless;
mod nvme;
mod operation;
mod operator;
mod origin;
mod others;
mod owners;
mod packages;
mod passthrough;
mod perftest;
mod phrases;
mod pieces;
mod pods;
mod provider;
mod ranks;
mod recognise;
mod registration;
mod removal;
mod renamed;
mod reports;
mod retries;
mod scripts;
pub(crate) mod services;
mod settings;
mod shown;
mod source;
mod status;
mod success;
mod tables;
mod trace;
mod ucx;
mod understated;
mod unwarned;
mod vfio;
mod waiting;
mod whole;
mod wrapped;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::symptom::{Family, Gpu, Grade, Software, Symptom, SymptomKind};
pub use marks::Marks;
use operation::Operation;
pub use perftest::Measured;
use recognise::{Found, Recogniser};
use settings::Fact;
pub use shown::{PrintedLimit, ZeroGuid};

/// The C library's names and texts of error numbers.
pub(crate) mod strerror {
    pub(crate) use super::errors::{named, of_text, text};
}
pub(crate) use backtrace::is_frame;
pub(crate) use cluster::refuses_limit;
pub(crate) use compile::is_of_build;
pub(crate) use consequence::is_without_transport;
pub(crate) use entity::is_named_by_driver;
pub(crate) use events::{efa_status, efa_words, event_in_words, event_named};
pub(crate) use fabric::is_of_tools;
pub(crate) use foreign::{LINK_LOCAL, is_of_gpu_memory, names_no_address};
pub(crate) use gid::is_of_mac;
pub(crate) use grammar::{exceeds_maximum, is_of_socket, is_ucx_check};
pub(crate) use interfaces::leads_nowhere;
pub(crate) use kernel::ethernet_driver;
pub(crate) use line::row;
pub(crate) use operation::failed_operations;
pub(crate) use recognise::failure_in;
pub(crate) use renamed::{is_without as is_without_psm2, with_name as with_renamed};
pub(crate) use status::{status_in, vendor_error};
pub(crate) use trace::call;

/// Maximum number of bytes of a line that are searched at once; a longer line is searched in parts that overlap.
pub const MAX_LINE: usize = 8 << 10;
/// How far the parts of a long line overlap, in bytes: more than one message of any program.
const OVERLAP: usize = 1 << 10;
/// Maximum number of different symptoms that are kept.
pub const MAX_SYMPTOMS: usize = 64;
/// Maximum number of characters of a line that are kept from where it shows the symptom.
pub const MAX_TEXT: usize = 300;
/// Maximum number of characters that are kept of the end of a longer line.
const MAX_END: usize = 200;
/// Maximum number of host names, and of settings, that are kept.
const MAX_NAMES: usize = 16;
/// Maximum number of different lines that are kept of those that are not recognised.
const MAX_UNRECOGNISED: usize = 3;
/// Number of lines after a failed operation in which its error number may follow.
const ERROR_WITHIN: u8 = 8;
/// Number of lines before or after a failed registration in which the kind of memory may stand.
const GPU_WITHIN: u64 = 4;

/// The contents of a log that matter for a diagnosis.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Log {
    /// Number of lines.
    pub lines: u64,
    /// If the log was too long: the number of bytes after which the caller stopped reading.
    pub cut_after: Option<u64>,
    /// What went wrong, in order of first appearance, each kind once per device.
    pub symptoms: Vec<Symptom>,
    /// Number of lines with further symptoms that were not kept.
    pub dropped: u64,
    /// Settings of the job that the log names (`NCCL_IB_HCA`); the last line wins.
    pub settings: BTreeMap<String, String>,
    /// The first few hosts that wrote it, as far as lines name them.
    pub hosts: BTreeSet<String>,
    /// The number of nodes of the largest communicator; 1 if all channels that the log shows are within one node.
    pub nodes: Option<u32>,
    /// The last GID index that a line names without a failure, and the line's number.
    pub gid_index: Option<(u64, u32)>,
    /// The first line that names a link-local GID of an Ethernet port, by its number, and the GID.
    #[serde(skip)]
    pub link_local: Option<(u64, String)>,
    /// The line and the index of the first RoCE v2 GID of an IPv4 address that `show_gids` lists.
    #[serde(skip)]
    pub listed_gid: Option<(u64, u32)>,
    /// The first GUID of zeros that a tool printed.
    #[serde(skip)]
    pub zero_guid: Option<ZeroGuid>,
    /// The limit of locked memory that a shell printed last.
    #[serde(skip)]
    pub memlock: Option<PrintedLimit>,
    /// The modules of RDMA that `modprobe` did not find.
    #[serde(skip)]
    pub missing_modules: BTreeSet<String>,
    /// Interfaces that lead to no other host and that a library uses, by their addresses.
    #[serde(skip)]
    pub local_interfaces: BTreeMap<String, String>,
    /// Whether a tool listed an active port.
    #[serde(skip)]
    pub active_port: bool,
    /// Whether a line names a GPU.
    #[serde(skip)]
    pub names_gpu: bool,
    /// Number of lines that have bytes of binary data. If these are many, it is not a log.
    pub binary: u64,
    /// Number of lines that are not empty.
    pub readable: u64,
    /// Its format by its first bytes, if it is compressed or packed.
    pub packed: Option<&'static str>,
    /// Whether it is a text about errors, such as a page of a manual. Its lines are not judged.
    pub document: bool,
    /// If it may be a report of errors as well: the number of its lines that look like failures.
    pub disputed: u64,
    /// The number of lines that look like failures and name nothing of RDMA, where the log shows no others.
    pub others: u64,
    /// The version of NCCL that the log names.
    pub nccl: Option<(u32, u32, u32)>,
    /// The setting of the job that selects TCP in place of RDMA.
    #[serde(skip)]
    pub over_tcp: Option<&'static str>,
    /// The bandwidth of large messages that perftest measured.
    #[serde(skip)]
    pub measured: Option<Measured>,
    /// Where the job runs, as far as its lines show.
    pub marks: Marks,
}

/// Reads a log in pieces.
#[derive(Debug, Default)]
pub struct LogReader {
    log: Log,
    /// The incomplete line, at most [`MAX_LINE`] bytes of it.
    begun: Vec<u8>,
    /// Whether the previous piece ended inside a line.
    inside: bool,
    recogniser: Recogniser,
    /// A failed operation whose error number may still follow, and for how many lines.
    awaiting: Option<(Operation, Box<Symptom>, u8)>,
    /// Whether a part of the line was searched already.
    parted: bool,
    /// The first bytes of the log.
    head: Vec<u8>,
    style: document::Style,
    source: source::Source,
    journal: journal::Journal,
    /// Whose the PCI functions are.
    owners: owners::Owners,
    /// Whether a channel within a node, or over the network, was seen.
    channels: (bool, bool),
}

impl LogReader {
    /// Reads the next piece.
    pub fn feed(&mut self, mut piece: &[u8]) {
        if self.head.len() < document::MAGIC {
            let missing = document::MAGIC - self.head.len();
            self.head.extend_from_slice(&piece[..piece.len().min(missing)]);
        }
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (line, rest) = piece.split_at(end);
            let is_whole = self.begun.is_empty() && !self.parted && line.len() <= MAX_LINE;
            if is_whole && memchr::memchr(0, line).is_none() {
                self.line(line);
            } else {
                self.begin(line);
                self.end_line();
            }
            self.inside = false;
            piece = &rest[1..];
        }
        self.begin(piece);
        self.inside |= !piece.is_empty();
    }

    /// Ends the log.
    pub fn finish(mut self) -> Log {
        if self.inside {
            self.end_line();
        }
        self.journal.end();
        self.search_records();
        self.stop_awaiting();
        self.add_whole();
        self.log.measured = self.recogniser.measured();
        self.log.marks = self.recogniser.marks();
        let shown = self.recogniser.shown();
        if self.log.marks.family != Some(Family::Efa) {
            shown.settle(&mut self.log.symptoms);
        }
        shown.passthrough.settle(&mut self.log.symptoms);
        let zero = shown.without_guid().filter(|_| self.log.symptoms.is_empty());
        self.log.symptoms.extend(zero);
        self.log.names_gpu = shown.gpu;
        self.log.zero_guid = shown.zero;
        self.log.memlock = shown.memlock;
        self.log.missing_modules = shown.missing;
        self.log.link_local = shown.link_local;
        self.log.listed_gid = shown.listed;
        self.log.packed = document::packed(&self.head);
        for symptom in &mut self.log.symptoms {
            if self.recogniser.is_of_rdma(symptom) {
                symptom.grade = symptom.kind.grade();
            }
        }
        self.doubt_accounts();
        gpu::settle(&mut self.log.symptoms);
        gpu::doubt_manager(&mut self.log);
        gpu::doubt_memory(&mut self.log);
        self.owners.settle(&mut self.log.symptoms);
        for symptom in &mut self.log.symptoms {
            if self.recogniser.is_refusal_over_tcp(symptom) {
                symptom.grade = Grade::Note;
            } else if self.recogniser.is_of_any_network(symptom) {
                symptom.grade = symptom.grade.min(Grade::Unrecognised);
            }
        }
        self.join_layers();
        settings::settle(&mut self.log);
        let kind = self.style.kind();
        if self.source.is_source() {
            self.log.document = true;
            self.log.symptoms.clear();
        } else if kind != document::Kind::Log {
            self.log.document = true;
            let symptoms = std::mem::take(&mut self.log.symptoms);
            if kind == document::Kind::Unclear {
                let grave = symptoms.iter().filter(|symptom| symptom.grade > Grade::Note);
                self.log.disputed = grave.map(|symptom| symptom.count).sum();
            }
        }
        let counted = self.recogniser.ranks().nodes();
        if self.log.nodes.is_none() {
            let within = (self.channels == (true, false)).then_some(1);
            self.log.nodes = counted.or(within);
        }
        let ranks_within = self.ranks_within();
        let successes = self.recogniser.successes();
        successes.ranks_within = ranks_within;
        successes.one_node = self.log.nodes == Some(1);
        successes.one_host = chosen::shows_one_host(&self.log);
        self.log.active_port = successes.active_port;
        let marks = &mut self.log.marks;
        marks.went_on = successes.went_on.is_some();
        marks.shows_adapter =
            successes.active_port || marks.lists_adapter || marks.has_nodes || self.owners.has_ours();
        successes.excuse(&mut self.log.symptoms);
        successes.all_down(&mut self.log.symptoms);
        if !self.log.marks.layers.is_ethernet() {
            successes.unconfigured(&mut self.log.symptoms);
        }
        self.recogniser.removals().settle(&mut self.log);
        if let Some(symptom) = self.recogniser.asks_firmware() {
            whole::of_firmware(&mut self.log, symptom);
        }
        self.recogniser.interfaces().settle(&mut self.log);
        whole::of_other_provider(&mut self.log, self.recogniser.lists_provider());
        whole::settle(&mut self.log, self.recogniser.ranks());
        consequence::settle(&mut self.log.symptoms);
        let successes = self.recogniser.successes();
        successes.end_by_other(&mut self.log.symptoms);
        if !self.recogniser.ranks().names_network() && chosen::shows_one_host(&self.log) {
            ended::doubt_timeout(&mut self.log.symptoms);
        }
        chosen::settle(&mut self.log);
        chosen::settle_absent(&mut self.log);
        self.recogniser.others().settle(&mut self.log);
        self.recogniser.understated().settle(&mut self.log);
        self.log
    }

    /// Where NCCL lists devices of both link layers, a refused connection is one between the two.
    fn join_layers(&mut self) {
        if !self.recogniser.mixes_layers() {
            return;
        }
        for symptom in &mut self.log.symptoms {
            if symptom.kind == SymptomKind::ConnectInvalid && symptom.software == Some(Software::Nccl) {
                symptom.kind = SymptomKind::ConnectIncompatible;
            }
        }
    }

    /// Whether NCCL's ranks are on one host, which needs no RDMA, as far as the log shows.
    fn ranks_within(&self) -> bool {
        let asks_rdma = ["NCCL_IB_HCA", "NCCL_IB_GID_INDEX"]
            .iter()
            .any(|name| self.log.settings.contains_key(*name))
            || self
                .log
                .settings
                .get("NCCL_NET")
                .is_some_and(|net| net.eq_ignore_ascii_case("ib"));
        let is_local = |symptom: &Symptom| symptom.kind == SymptomKind::ComputeError;
        let has_local_failure = self.log.symptoms.iter().any(is_local);
        self.recogniser.ranks().are_within(has_local_failure)
            && !asks_rdma
            && searched_in_vain(&self.log.symptoms)
    }

    /// Adds what only the whole log shows.
    fn add_whole(&mut self) {
        let is_crash = |symptom: &Symptom| symptom.kind == SymptomKind::DriverCrashed;
        let has_crashed = self.log.symptoms.iter().any(is_crash);
        let whole = [
            self.recogniser.empty_list(),
            self.recogniser.renamed(),
            self.recogniser.unbuilt(),
            self.recogniser.given_up(),
            self.recogniser.unplaced(has_crashed),
            self.recogniser.unfit_provider(),
            self.recogniser.unconnected(),
            self.recogniser.unopened(),
            self.recogniser.ended(),
        ];
        let reported = self.recogniser.reported();
        for symptom in whole.into_iter().flatten().chain(reported) {
            self.add(symptom);
        }
        let is_end = |symptom: &Symptom| symptom.kind == SymptomKind::RankFailed;
        let has_reason = |symptom: &Symptom| symptom.grade == Grade::Failure && !is_end(symptom);
        if !self.log.symptoms.iter().any(has_reason)
            && let Some(symptom) = self.recogniser.crashed()
        {
            self.end_by(symptom, is_end);
        }
        self.add_crash();
        let says_more =
            |symptom: &Symptom| symptom.grade > Grade::Note && symptom.kind != SymptomKind::JobFailed;
        if !self.log.symptoms.iter().any(says_more)
            && let Some(symptom) = self.recogniser.unwarned()
        {
            self.add(symptom);
        }
    }

    /// A process that the system ended, if nothing else that failed may be the reason.
    fn add_crash(&mut self) {
        let is_end =
            |symptom: &Symptom| matches!(symptom.kind, SymptomKind::RankFailed | SymptomKind::JobFailed);
        let may_be_reason = |symptom: &Symptom| {
            symptom.grade > Grade::Note && !is_end(symptom) && symptom.kind != SymptomKind::Unrecognised
                || symptom.kind.is_of_other()
                || symptom.kind == SymptomKind::GpuError
        };
        if self.log.symptoms.iter().any(may_be_reason) {
            return;
        }
        if let Some(symptom) = self.recogniser.ended_by_system() {
            self.end_by(symptom, is_end);
        }
    }

    /// Adds the reason of the ends that the log shows.
    fn end_by(&mut self, reason: Symptom, is_end: impl Fn(&Symptom) -> bool) {
        let ends = self.log.symptoms.iter_mut().filter(|symptom| is_end(symptom));
        ends.for_each(Symptom::follows_another);
        self.add(reason);
    }

    /// What a person writes about a failure in general says less than the lines of programs next to it.
    fn doubt_accounts(&mut self) {
        let is_general = |symptom: &Symptom| {
            symptom.named.errno.is_none()
                && matches!(
                    symptom.kind,
                    SymptomKind::CmFailed
                        | SymptomKind::ConnectFailed
                        | SymptomKind::PeerUnreachable
                        | SymptomKind::OpenFailed
                        | SymptomKind::CreateUnexplained
                        | SymptomKind::RegMrFailed
                        | SymptomKind::Unrecognised
                )
        };
        let is_account = |symptom: &Symptom| is_general(symptom) && document::is_account(&symptom.text);
        let shows = |symptom: &Symptom| {
            symptom.grade == Grade::Failure && symptom.known && !document::is_account(&symptom.text)
        };
        if !self.log.symptoms.iter().any(shows) {
            return;
        }
        for symptom in self.log.symptoms.iter_mut().filter(|symptom| is_account(symptom)) {
            symptom.grade = Grade::Note;
        }
    }

    /// Adds a part to the line. The zero bytes of UTF-16, and of a file that was truncated while it was written, do not count.
    fn begin(&mut self, mut part: &[u8]) {
        while !part.is_empty() {
            let zeros = part.iter().take_while(|byte| **byte == 0).count();
            part = &part[zeros..];
            let room = MAX_LINE - self.begun.len().min(MAX_LINE);
            let end = memchr::memchr(0, part).unwrap_or(part.len()).min(room);
            self.begun.extend_from_slice(&part[..end]);
            part = &part[end..];
            if self.begun.len() >= MAX_LINE {
                self.search_part();
            }
        }
    }

    /// Searches what was read of a line that is too long to be searched at once.
    fn search_part(&mut self) {
        let mut begun = std::mem::take(&mut self.begun);
        let is_start = !std::mem::replace(&mut self.parted, true);
        if is_start {
            self.log.lines += 1;
            self.log.readable += 1;
        }
        let found = self.search(&begun, is_start);
        // What was found would be found again.
        let kept = if found { 0 } else { OVERLAP };
        begun.drain(..begun.len() - kept);
        self.begun = begun;
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.begun);
        if self.parted {
            self.search(&line, false);
        } else {
            self.line(&line);
        }
        self.parted = false;
        // Keep the allocation for the next line.
        self.begun = line;
        self.begun.clear();
    }

    /// A line that was not too long to be read at once. What is a field of a record counts with its record.
    fn line(&mut self, bytes: &[u8]) {
        let line = self.journal.add(bytes);
        self.search_records();
        if line == journal::Line::Plain {
            self.count_line(bytes);
        }
    }

    /// Searches the messages of the records that are complete.
    fn search_records(&mut self) {
        for line in self.journal.complete() {
            self.count_line(&line);
        }
    }

    fn count_line(&mut self, bytes: &[u8]) {
        self.log.lines += 1;
        self.log.readable += u64::from(bytes.iter().any(|byte| !byte.is_ascii_whitespace() && *byte != 0));
        self.search(bytes, true);
    }

    /// Searches a line, or a part of it. Returns whether it shows a symptom. The start of a line shows what kind of text it is.
    fn search(&mut self, bytes: &[u8], is_start: bool) -> bool {
        let bytes = line::strip_escapes(bytes);
        self.log.binary += u64::from(line::is_binary(&bytes));
        if is_start {
            self.style.add(&bytes);
            self.source.add(&bytes);
        }
        let mut found = false;
        for piece in pieces::pieces(&bytes) {
            found |= self.search_piece(piece);
        }
        found
    }

    /// Searches a line that is not several in one.
    fn search_piece(&mut self, bytes: &[u8]) -> bool {
        let bytes = self.recogniser.within_frame(bytes);
        let bytes = decoration::undecorated(bytes);
        if !self.log.symptoms.is_empty() && std::str::from_utf8(&bytes).is_ok_and(ended::is_handled) {
            self.forgive();
        }
        self.owners.add(&bytes);
        let may_go_on =
            |symptom: &Symptom| success::can_go_on(symptom.kind) || success::is_of_start(symptom.kind);
        if self.log.symptoms.iter().any(may_go_on) && foreign::goes_on(&bytes) {
            self.recogniser.successes().went_on = Some(self.log.lines);
        }
        let mut found = self.recogniser.recognise(&bytes, self.log.lines);
        for fact in self.recogniser.set() {
            self.learn(fact);
        }
        if let Some(gpu) = self.recogniser.gpu_memory(self.log.lines, 0) {
            self.registered_gpu_memory(gpu);
        }
        if self.awaiting.is_some() {
            found = self.await_error(&bytes, found);
        }
        if trace::is_check(&bytes) {
            self.only_warned();
        }
        let is_symptom = matches!(found, Some(Found::Symptom(_) | Found::Incomplete(..)));
        match found {
            Some(Found::Fact(fact)) => self.learn(fact),
            Some(Found::Symptom(symptom)) => self.add(*symptom),
            Some(Found::Incomplete(operation, symptom)) => {
                self.awaiting = Some((operation, symptom, ERROR_WITHIN));
            }
            Some(Found::Recovered(device)) => self.recover(&device),
            Some(Found::Reconnected(name, client)) => {
                self.reconnect(&name);
                if let Some(client) = client {
                    self.reconnect(&client);
                }
            }
            None => {}
        }
        is_symptom
    }

    /// The program handled the exception that the lines above report.
    fn forgive(&mut self) {
        /// Number of lines after an exception in which this follows.
        const WITHIN: u64 = 3;
        let now = self.log.lines;
        self.log.symptoms.retain(|symptom| {
            symptom.kind != SymptomKind::RankFailed
                || symptom.line.is_none_or(|line| line + WITHIN < now)
                || !ended::names_exception(&symptom.text.to_ascii_lowercase())
        });
    }

    /// The place of what the log shows without its heading is that of a check that failed.
    fn only_warned(&mut self) {
        /// Number of lines after the place in which the code follows.
        const WITHIN: u64 = 3;
        let now = self.log.lines;
        let is_one = |symptom: &&mut Symptom| {
            symptom.kind == SymptomKind::DriverCrashed
                && !symptom.known
                && symptom.line.is_some_and(|line| line + WITHIN >= now)
        };
        if let Some(symptom) = self.log.symptoms.iter_mut().find(is_one) {
            symptom.kind = SymptomKind::DriverWarned;
            symptom.grade = symptom.kind.grade();
        }
    }

    /// Completes the failed operation with the error number in this line, if it has one. Returns what the line shows besides: a
    /// function that reports the failure of another one says no more.
    fn await_error(&mut self, bytes: &[u8], found: Option<Found>) -> Option<Found> {
        let Some((operation, symptom, left)) = &mut self.awaiting else {
            return found;
        };
        if let Some(errno) = Recogniser::announced_error(bytes, *operation) {
            symptom.named.errno = Some(errno);
            symptom.kind = operation.failed(Some(errno)).unwrap_or(symptom.kind);
            symptom.kind = recognise::by_transition(symptom.kind, symptom.named.transition);
            symptom.grade = symptom.kind.grade();
            *left = 0;
        }
        *left = left.saturating_sub(1);
        let is_repeated = match &found {
            Some(Found::Incomplete(again, other)) => {
                again == operation && other.named.device == symptom.named.device
            }
            _ => false,
        };
        let is_other = match &found {
            None => false,
            Some(Found::Symptom(other)) => other.kind != SymptomKind::Unrecognised,
            Some(Found::Incomplete(..)) => !is_repeated,
            Some(Found::Fact(_) | Found::Recovered(_) | Found::Reconnected(..)) => true,
        };
        if is_repeated && *left > 0 {
            symptom.count += 1;
            return None;
        }
        if is_other || *left == 0 {
            self.stop_awaiting();
        }
        found
    }

    /// The line after a failed registration shows that the memory was a GPU's.
    fn registered_gpu_memory(&mut self, gpu: Gpu) {
        let line = self.log.lines;
        let awaiting = self.awaiting.as_mut().map(|(_, symptom, _)| &mut **symptom);
        let near = |symptom: &Symptom| {
            let is_registration = matches!(
                symptom.kind,
                SymptomKind::RegMrFailed | SymptomKind::RegMrNoMemory
            );
            is_registration && symptom.line.is_some_and(|at| at + GPU_WITHIN >= line)
        };
        let found = self.log.symptoms.iter_mut().chain(awaiting);
        for symptom in found.filter(|symptom| near(symptom)) {
            symptom.named.gpu.get_or_insert(gpu);
        }
    }

    fn stop_awaiting(&mut self) {
        if let Some((_, symptom, _)) = self.awaiting.take() {
            self.add(*symptom);
        }
    }
}

/// Whether the only reason why NCCL uses TCP is that it did not find libibverbs, which a host without an adapter does not have.
fn searched_in_vain(symptoms: &[Symptom]) -> bool {
    symptoms
        .iter()
        .any(|symptom| symptom.kind == SymptomKind::NoLibrary)
        && !symptoms.iter().any(|symptom| {
            matches!(
                symptom.kind,
                SymptomKind::NoDevice | SymptomKind::OpenFailed | SymptomKind::NoProvider
            )
        })
}

#[cfg(test)]
mod tests;
