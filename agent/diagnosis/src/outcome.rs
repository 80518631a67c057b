//! What a diagnosis says: causes with their evidence, symptoms, and a summary of the log.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{Node, history::Since};
use rdma_health_rules::{Evidence, Severity, Status, Subject};
use serde::Serialize;

use crate::{
    log::Log,
    symptom::{Grade, Symptom, SymptomKind},
};

/// Confidence in a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The evidence contradicts it.
    Unlikely,
    /// It would explain the symptoms, but there is too little evidence for or against it.
    Possible,
    /// The evidence shows it.
    Likely,
}

impl Confidence {
    /// Its name in messages and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unlikely => "unlikely",
            Self::Possible => "possible",
            Self::Likely => "likely",
        }
    }
}

/// One cause, with the evidence for and against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Its id, such as `iommu-translation`; for a finding that no known cause claims, the rule's id.
    pub id: &'static str,
    /// What is wrong, in one line.
    pub title: &'static str,
    /// Confidence in it.
    pub confidence: Confidence,
    /// Whether it has nothing to do with the failure in the log: what failed is another device, or not of RDMA.
    #[serde(skip)]
    pub aside: bool,
    /// The highest severity of its findings; if it has none, of its symptoms.
    pub severity: Severity,
    /// Points; see the module's table.
    pub score: i32,
    /// The symptoms that it would explain.
    pub explains: Vec<SymptomKind>,
    /// Evidence for it.
    pub supports: Vec<Evidence>,
    /// Evidence against it.
    pub contradicts: Vec<Evidence>,
    /// Evidence that would be decisive but was not available.
    pub unseen: Vec<String>,
    /// The one thing to do next.
    pub next_step: String,
    /// Ids of the rules whose findings belong to it; first the one whose remedy is the next step.
    pub findings: Vec<&'static str>,
    /// What those findings are about.
    pub subjects: Vec<Subject>,
}

impl Cause {
    /// Its key in the history.
    pub fn key(&self) -> String {
        format!("cause {}", self.id)
    }

    /// Since when every reading has suggested it; `None` without a history that has it.
    pub fn since(&self, node: &Node) -> Option<Since> {
        node.history.as_ref()?.since(&self.key(), node.time)
    }
}

/// What is wrong, as far as the evidence shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The next step of the first cause.
    pub next_step: Option<String>,
    /// Causes in the order in which to check them; unlikely causes are last.
    pub causes: Vec<Cause>,
    /// The failures that probes and the log show.
    pub symptoms: Vec<Symptom>,
    /// Summary of the log, without its symptoms; `None` if no log was read.
    pub log: Option<LogSummary>,
}

/// A log in a few numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LogSummary {
    /// Number of lines.
    pub lines: u64,
    /// If the log was too long: the number of bytes that were read. The rest was not searched.
    pub cut_after: Option<u64>,
    /// Number of lines with symptoms that were not kept.
    pub dropped: u64,
    /// Settings of the job that the log names.
    pub settings: BTreeMap<String, String>,
    /// The hosts that wrote it, as far as lines name them.
    pub hosts: BTreeSet<String>,
    /// The number of nodes on which the job runs, if the log shows it.
    pub nodes: Option<u32>,
    /// Number of lines that look like RDMA failures and are not recognised.
    pub unrecognised: u64,
    /// Number of lines with binary data.
    pub binary: u64,
    /// Number of lines that are not empty.
    pub readable: u64,
    /// The format of a log that is compressed or packed.
    pub packed: Option<&'static str>,
    /// Whether it is a text about errors, whose lines are not judged.
    pub document: bool,
    /// If this text may be a report of errors as well: the number of its lines that look like failures, which were not judged.
    pub disputed: u64,
    /// The number of lines that look like failures and name nothing of RDMA, where the log shows no others.
    pub others: u64,
    /// Why it is taken to be from another node, so that the facts of this one say nothing about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<String>,
}

impl LogSummary {
    /// Whether most of it is not text.
    pub fn is_binary(&self) -> bool {
        self.binary > 0 && self.binary * 4 > self.lines
    }

    /// Whether nothing, or not all of it, could be read or judged, so that the absence of a failure proves nothing.
    pub fn is_unreadable(&self) -> bool {
        self.packed.is_some()
            || self.readable == 0
            || self.cut_after.is_some()
            || self.is_binary()
            || self.disputed > 0
    }
}

impl From<&Log> for LogSummary {
    fn from(log: &Log) -> Self {
        Self {
            lines: log.lines,
            cut_after: log.cut_after,
            dropped: log.dropped,
            settings: log.settings.clone(),
            hosts: log.hosts.clone(),
            nodes: log.nodes,
            unrecognised: log
                .symptoms
                .iter()
                .filter(|symptom| symptom.kind == SymptomKind::Unrecognised)
                .map(|symptom| symptom.count)
                .sum(),
            binary: log.binary,
            readable: log.readable,
            packed: log.packed,
            document: log.document,
            disputed: log.disputed,
            others: log.others,
            elsewhere: None,
        }
    }
}

impl Diagnosis {
    /// The combined status of the node and the log. A failure in the log is critical and a degradation in the log is a
    /// warning, whatever the node's own facts show, because a job failed or ran slowly. A line that looks like a failure and is not
    /// recognised makes it unknown, because a job may have failed. `Unknown` applies only if neither the node nor the log has a problem.
    pub fn status(&self, of_the_node: Status) -> Status {
        let worst = self
            .symptoms
            .iter()
            .filter(|symptom| symptom.line.is_some())
            .map(|symptom| symptom.grade)
            .max();
        match (worst, of_the_node) {
            (Some(Grade::Failure), _) => Status::Critical,
            (Some(Grade::Degraded | Grade::Secondary), Status::Ok | Status::Unknown) => Status::Warning,
            (Some(Grade::Unrecognised), Status::Ok) => Status::Unknown,
            // Nothing can be said about a log that was not readable as one.
            (None | Some(Grade::Note), Status::Ok)
                if self.log.as_ref().is_some_and(LogSummary::is_unreadable) =>
            {
                Status::Unknown
            }
            (_, status) => status,
        }
    }

    /// The cause to check first, unless it is unlikely.
    pub fn first(&self) -> Option<&Cause> {
        self.causes
            .first()
            .filter(|cause| cause.confidence > Confidence::Unlikely)
    }
}
