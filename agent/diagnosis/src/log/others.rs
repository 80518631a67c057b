//! Failures that name nothing of RDMA. Where a log shows no other, they are reported as not recognised: the program failed, and it is not
//! known of what.

mod scheduler;

use std::sync::LazyLock;

use rdma_health_kernel_log::Service;

use super::{
    Log, attach, cluster,
    entity::named,
    foreign::{is_of_other_layer, without_names},
    grade::{Grade, Level},
    kernel::{is_of_kernel, of_service},
    line::Lower,
    phrases::{Occurrence, Phrases},
    recognise,
};
use crate::symptom::{self, Symptom, SymptomKind};

/// Number of lines that are shown.
const MOST: usize = 3;

/// Words of work that goes on, in lower case: rates, steps, results and states.
const PROGRESS: [&str; 28] = [
    "it/s",
    "b/s",
    "gbps",
    "tokens/s",
    "samples/s",
    "throughput",
    "bandwidth",
    "loss",
    "epoch",
    "iteration",
    "passed",
    "success",
    "complete",
    "finished",
    " done",
    "ready",
    "running",
    "started",
    "starting",
    "listening",
    "established",
    "connected",
    "active",
    "falling back",
    "continuing",
    "retrying",
    "ignor",
    "skip",
];

static WORKS: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(PROGRESS));

/// Words before a word of success that do not report it: `instead of "Success"`, `rc == PMIX_SUCCESS`, `not ready`.
const DENIALS: [&str; 9] = [
    "instead of",
    "==",
    "!=",
    "not",
    "never",
    "without",
    "expected",
    "error:",
    "failed",
];

/// Whether a text shows that work goes on. A part of another word (`inactive`, `unsuccessful`), a name of a program's source (`PMIX_SUCCESS`) and
/// a condition of it (`PMIX_SUCCESS == rc`) show nothing.
pub(super) fn works(text: &str) -> bool {
    let is_denied = |before: &str| {
        let words = before
            .trim_end_matches(['"', '\'', '`', ' ', '('])
            .to_ascii_lowercase();
        DENIALS.iter().any(|denial| {
            let rest = words.strip_suffix(denial);
            rest.is_some_and(|rest| !rest.ends_with(|c: char| c.is_ascii_alphanumeric()))
        })
    };
    let is_shown = |found: Occurrence| {
        // A rate follows a prefix or a slash, and a loss the name of its data.
        if !PROGRESS.get(found.index).is_some_and(|word| is_of_state(word)) {
            return true;
        }
        let rest = &text[found.end..];
        let is_condition = rest.trim_start().starts_with(['=', '!']) && rest.contains("= ");
        // `Timed out waiting 30s for recv operation to complete`.
        let is_aim = PROGRESS.get(found.index) == Some(&"complete") && text[..found.start].ends_with("to ");
        found.begins(text) && !is_condition && !is_aim && !is_denied(&text[..found.start])
    };
    WORKS.find(text).any(is_shown)
}

/// Whether a word of work that goes on is one for a state or a result, and not for a rate or a measure.
fn is_of_state(word: &str) -> bool {
    !word.contains('/') && !word.starts_with(' ') && !matches!(word, "loss" | "gbps" | "epoch" | "iteration")
}

/// The failures since the last line that shows that work goes on.
#[derive(Debug, Default)]
pub(super) struct Others {
    count: u64,
    first: Vec<Symptom>,
    /// The number of those in which the scheduler reports that it ends the job.
    of_end: u64,
    /// Whether one of its lines says why.
    ended: bool,
}

impl Others {
    /// Adds a line that nothing recognised.
    pub(super) fn add(&mut self, line: &Lower<'_>, number: u64) {
        let grade = line.grade();
        // What is about RDMA, and not only by its names, was judged to be no failure.
        let is_named = || {
            let rest = without_names(&line.lower);
            rest != line.lower && !Grade::of(&Lower::of(&rest)).about_rdma
        };
        let of_program = grade.level == Some(Level::Error) && !is_of_kernel(line.text);
        let is_one = (!grade.about_rdma || of_program && is_named())
            && grade.is_failure()
            && grade.level != Some(Level::Warning)
            && !is_of_other_layer(&line.lower)
            && !attach::is_of_first_network(&line.lower)
            && !cluster::lacks_other(&line.lower)
            // The kernel complains of many parts of a computer that have nothing to do with a job.
            && (!is_of_kernel(line.text) || of_service(line.text) == Some(Service::Mostly))
            && (of_program || named(line).function.is_none());
        if !is_one || works(&line.lower) || scheduler::is_harmless(&line.lower) {
            return;
        }
        self.of_end += u64::from(scheduler::is_of_end(&line.lower));
        self.keep(line, number);
    }

    /// Adds a line that refuses a pod, and does not show that the pod uses RDMA.
    pub(super) fn keep(&mut self, line: &Lower<'_>, number: u64) {
        self.count += 1;
        if self.first.len() < MOST {
            self.first
                .push(recognise::failure(line, SymptomKind::Unrecognised, number));
        }
    }

    /// Forgets what came before a line in lower case that shows that work goes on.
    pub(super) fn went_on(&mut self, text: &str) {
        self.ended |= scheduler::names_reason(text);
        if self.count > 0 && works(text) {
            *self = Self {
                ended: self.ended,
                ..Self::default()
            };
        }
    }

    /// Reports them if the log shows no other failure.
    pub(super) fn settle(self, log: &mut Log) {
        let is_other = |symptom: &Symptom| symptom.grade > symptom::Grade::Note || symptom.kind.is_of_other();
        let is_explained = self.ended && self.of_end == self.count;
        if self.count == 0 || is_explained || log.document || log.symptoms.iter().any(is_other) {
            return;
        }
        log.symptoms
            .retain(|symptom| !cluster::is_of_any_pod(symptom.kind, &symptom.text));
        let shown = u64::try_from(self.first.len()).unwrap_or(u64::MAX);
        log.others = self.count;
        log.symptoms.extend(self.first);
        if let Some(last) = log.symptoms.last_mut() {
            last.count += self.count.saturating_sub(shown);
        }
    }
}
