//! The result.

use rdma_health_rules::Severity;
use serde::Serialize;

/// Version of the JSON format. New fields do not change it.
const SCHEMA: u32 = 1;
/// The most findings that a report has. A namespace with thousands of equal pods has the same problem thousands of times.
const MOST: usize = 500;

/// The rule of a namespace that does not exist.
pub(crate) const NAMESPACE_MISSING: &str = "namespace-missing";

/// A problem of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The name of the problem, which never changes: `resource-unknown`.
    pub rule: &'static str,
    /// How severe it is. Critical: the pod does not start, or RDMA does not work in it.
    pub severity: Severity,
    /// The object: `StatefulSet team-a/train`.
    pub subject: String,
    /// What is wrong, in one sentence.
    pub summary: String,
    /// What shows it.
    pub evidence: Vec<String>,
    /// What to do.
    pub remedy: String,
}

/// Something that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NotChecked {
    /// What it was: `resources of nodes`.
    pub what: String,
    /// Why.
    pub why: String,
}

/// The result of a preflight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    schema: u32,
    /// The namespace.
    pub namespace: String,
    /// The pods and controllers that were checked: `StatefulSet team-a/train`.
    pub workloads: Vec<String>,
    /// The problems, most severe first.
    pub findings: Vec<Finding>,
    /// How many more problems there are.
    pub more: usize,
    /// What could not be checked.
    pub not_checked: Vec<NotChecked>,
}

/// Adds findings about one object.
pub(crate) struct About<'a> {
    report: &'a mut Report,
    subject: String,
}

impl About<'_> {
    pub(crate) fn add(
        &mut self,
        rule: &'static str,
        severity: Severity,
        summary: impl Into<String>,
        evidence: Vec<String>,
        remedy: &str,
    ) {
        self.report.add(Finding {
            rule,
            severity,
            subject: self.subject.clone(),
            summary: summary.into(),
            evidence,
            remedy: remedy.to_owned(),
        });
    }
}

impl Report {
    pub(crate) fn new(namespace: &str) -> Self {
        Self {
            schema: SCHEMA,
            namespace: namespace.to_owned(),
            workloads: Vec::new(),
            findings: Vec::new(),
            more: 0,
            not_checked: Vec::new(),
        }
    }

    /// The exit status: 0 nothing found, 1 a warning, 2 critical, 3 nothing found but something could not be checked.
    pub fn exit_status(&self) -> u8 {
        match self.findings.iter().map(|finding| finding.severity).max() {
            Some(Severity::Critical) => 2,
            Some(Severity::Warning) => 1,
            _ if !self.not_checked.is_empty() => 3,
            _ => 0,
        }
    }

    /// What was checked, to end a sentence. What could not be listed is not said to use no RDMA.
    pub fn checked(&self, from_manifests: bool) -> String {
        let is_missing = self.findings.iter().any(|one| one.rule == NAMESPACE_MISSING);
        match self.workloads.as_slice() {
            [] if from_manifests || is_missing => "checked nothing".to_owned(),
            [] if !self.not_checked.is_empty() => "nothing in it that could be read uses RDMA".to_owned(),
            [] => "nothing in it uses RDMA".to_owned(),
            [one] => format!("checked {one}"),
            all => format!("checked {} workloads", all.len()),
        }
    }

    /// For findings about an object.
    pub(crate) fn about(&mut self, subject: String) -> About<'_> {
        About {
            report: self,
            subject,
        }
    }

    pub(crate) fn add_workload(&mut self, subject: String) {
        // One may have several pod templates.
        if self.workloads.last() != Some(&subject) {
            self.workloads.push(subject);
        }
    }

    pub(crate) fn add(&mut self, finding: Finding) {
        if self.findings.contains(&finding) {
            return;
        }
        if self.findings.len() < MOST {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn not_checked(&mut self, what: &str, why: &str) {
        let entry = NotChecked {
            what: what.to_owned(),
            why: why.to_owned(),
        };
        if !self.not_checked.contains(&entry) {
            self.not_checked.push(entry);
        }
    }

    pub(crate) fn sort(&mut self) {
        self.findings.sort_by(|a, b| {
            b.severity
                .cmp(&a.severity)
                .then_with(|| a.subject.cmp(&b.subject))
                .then_with(|| a.rule.cmp(b.rule))
        });
        self.not_checked.sort();
    }
}
