//! Why a node, a log or a process could not be judged.

use rdma_health_diagnosis::{
    LogSummary,
    symptom::{Grade, Symptom},
};
use rdma_health_node::words::{count_of, size};
use rdma_health_rules::Status;

use super::Report;

impl Report<'_> {
    /// Why the node could not be judged; if that is not the reason of an unknown status, why the log or the process could not.
    pub(crate) fn unknown_because(&self) -> Option<String> {
        let of_node = self.verdict.unknown_because.clone();
        of_node.or_else(|| (self.status() == Status::Unknown).then(|| self.why_of_log())?)
    }

    /// Why what was given besides the node could not be judged.
    fn why_of_log(&self) -> Option<String> {
        let log = self.diagnosis.log.as_ref();
        let mut symptoms = self.diagnosis.symptoms.iter();
        let doubt = || {
            symptoms
                .find(|symptom| is_doubt(symptom))
                .map(|doubt| doubt.kind.to_string())
        };
        let cut = || {
            let read = log?.cut_after?;
            Some(format!(
                "the log is too long: only its first {} were read",
                size(read)
            ))
        };
        let of_lines = log.and_then(|log| why_unreadable(log).or_else(|| unrecognised(log)));
        of_lines.or_else(doubt).or_else(cut)
    }
}

/// Whether a symptom keeps the status from "ok" without being a failure of RDMA: a collective operation that timed out.
pub(crate) fn is_doubt(symptom: &Symptom) -> bool {
    symptom.line.is_some() && symptom.grade > Grade::Note
}

/// The number of lines of a log that look like failures and are not recognised.
pub(crate) fn unrecognised(log: &LogSummary) -> Option<String> {
    let lines = log.unrecognised;
    (lines > 0).then(|| format!("{} of the log not recognised", count_of(lines, "suspicious line")))
}

/// Why a log proves nothing where it shows no failure.
pub(crate) fn why_unreadable(log: &LogSummary) -> Option<String> {
    if let Some(format) = log.packed {
        Some(format!("the log is packed ({format}): unpack it first"))
    } else if log.readable == 0 {
        Some("the log is empty".into())
    } else if log.is_binary() {
        Some("the log is not text".into())
    } else if log.disputed > 0 {
        Some("the log reads like a page about errors and like a report of one".into())
    } else {
        None
    }
}
