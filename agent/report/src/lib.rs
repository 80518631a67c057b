//! Reports a verdict as text, as JSON, and as a page for a browser.

#![forbid(unsafe_code)]

mod cause;
pub mod devices;
mod excerpt;
mod inventory;
mod job;
mod json;
mod junit;
mod line;
mod markup;
mod nagios;
mod npd;
mod page;
mod probe;
mod summary;
pub mod table;
mod text;
pub mod topology;
mod unjudged;

use rdma_health_diagnosis::{Diagnosis, problems};
use rdma_health_node::{Node, words::count};
use rdma_health_rules::{Severity, Status, Verdict, unread_in_short};

pub use json::{JSON_SCHEMA, Part, SCHEMA, part as json_part, write as json};
pub use junit::{failed as junit_failed, write as junit};
pub use line::{Style, colour, labelled, status_colour};
pub use nagios::{failed as nagios_failed, write as nagios};
pub use npd::{exit_code as npd_exit_code, failed as npd_failed, write as npd};
pub use page::{LIVE, PageOptions, SNAPSHOT, explanation, render as page};
pub use probe::write as probe_text;
pub use text::{quiet, quiet_failed, write as text};

/// A report: a node, its findings, and their causes.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The node.
    pub node: &'a Node,
    /// The findings.
    pub verdict: &'a Verdict,
    /// The causes.
    pub diagnosis: &'a Diagnosis,
    /// The name of the Node in Kubernetes, which need not be that of the host; `None` outside of it.
    pub kubernetes_node: Option<&'a str>,
}

/// The name of the host; `None` if it could not be read or is empty.
pub(crate) fn host_of(node: &Node) -> Option<&str> {
    let name = node.host.hostname.known().map(String::as_str);
    name.filter(|name| !name.trim().is_empty())
}

impl Report<'_> {
    /// The combined status of the node and of the log, if there is one.
    pub fn status(&self) -> Status {
        self.diagnosis.status(self.verdict.status)
    }

    /// The numbers of critical problems and of warnings: a problem is one fault, as in JSON and in the alerts.
    pub(crate) fn problems(&self) -> (usize, usize) {
        let problems = problems(self.node, &self.verdict.findings, self.diagnosis);
        let of = |severity| {
            problems
                .iter()
                .filter(|problem| problem.severity == severity)
                .count()
        };
        (of(Severity::Critical), of(Severity::Warning))
    }

    /// The number of symptoms of this severity that the log and the job's process show.
    pub(crate) fn symptoms_of_job(&self, severity: Severity) -> usize {
        let symptoms = self.diagnosis.symptoms.iter();
        symptoms
            .filter(|symptom| symptom.severity_of_job() == Some(severity))
            .count()
    }

    /// The port or device of the cause to look at first, and how many more have it; `None` if it concerns the node.
    pub(crate) fn first_subject(&self) -> Option<String> {
        let first = self.diagnosis.first()?.id;
        let problems = problems(self.node, &self.verdict.findings, self.diagnosis);
        let mut of_devices = problems
            .iter()
            .filter(|problem| problem.cause == first && problem.device.is_some());
        let subject = of_devices.next()?.subject();
        Some(match of_devices.count() {
            0 => subject,
            more => format!("{subject} and {more} more"),
        })
    }

    /// How many facts could not be read, for a line that reports no problem.
    pub(crate) fn unread(&self) -> Option<String> {
        let (number, hint) = unread_in_short(self.node)?;
        Some(format!("{} could not be read{hint}", count(number, "fact")))
    }

    /// The rules with findings of severity `info`, if they are the reason of this status: what fails is chosen.
    pub(crate) fn information(&self, status: Status) -> Option<String> {
        let mut rules: Vec<_> = self
            .verdict
            .findings
            .iter()
            .map(|finding| finding.rule.id)
            .collect();
        rules.dedup();
        (self.status() == Status::Ok && status != Status::Ok).then(|| rules.join(", "))
    }
}

#[cfg(test)]
mod tests;
