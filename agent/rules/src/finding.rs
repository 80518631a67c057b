//! A finding: one rule that fired, on one subject, with its evidence.

use serde::{Serialize, Serializer};

use crate::{Domain, Remedy, Rule};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing to do.
    Info,
    /// RDMA works but is slower or less certain than it should be.
    Warning,
    /// RDMA does not work as expected.
    Critical,
}

impl Severity {
    /// Every severity, mildest first.
    pub const ALL: [Self; 3] = [Self::Info, Self::Warning, Self::Critical];

    /// Its name in messages, labels and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// What a finding is about. All empty: the node itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Subject {
    /// RDMA device by name, or a PCI address, or a process.
    pub device: Option<String>,
    /// Port of the device.
    pub port: Option<u8>,
}

impl Subject {
    /// The node itself.
    pub fn node() -> Self {
        Self::default()
    }

    /// A device.
    pub fn device(name: impl Into<String>) -> Self {
        Self {
            device: Some(name.into()),
            port: None,
        }
    }

    /// A port of a device.
    pub fn port(name: impl Into<String>, port: u8) -> Self {
        Self {
            device: Some(name.into()),
            port: Some(port),
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.device, self.port) {
            (Some(device), Some(port)) => write!(f, "{device}:{port}"),
            (Some(device), None) => f.write_str(device),
            (None, _) => f.write_str("node"),
        }
    }
}

/// One thing that was read and supports a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The file, or what else was asked.
    pub source: String,
    /// What it said.
    pub value: String,
}

/// One rule that fired, on one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule; its id in JSON.
    #[serde(serialize_with = "rule_id")]
    pub rule: &'static Rule,
    /// How bad it is here.
    pub severity: Severity,
    /// What part of RDMA it concerns.
    pub domain: Domain,
    /// What it is about.
    pub subject: Subject,
    /// What is wrong, in one sentence that names the subject.
    pub message: String,
    /// What was read that shows it.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub remedy: String,
    /// The same by place: the rule's, unless what was found asks for something else.
    #[serde(skip)]
    pub places: Remedy,
}

// serde's `serialize_with` hands over a reference to the field, which is a reference itself.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn rule_id<S: Serializer>(rule: &&'static Rule, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(rule.id)
}

impl Finding {
    /// A finding of `rule` with the severity and remedy that the catalogue names.
    pub(crate) fn new(rule: &'static Rule, subject: Subject, message: impl Into<String>) -> Self {
        Self {
            rule,
            severity: rule.severity,
            domain: rule.domain,
            subject,
            message: message.into(),
            evidence: Vec::new(),
            remedy: rule.remedy.to_string(),
            places: rule.remedy,
        }
    }

    /// Changes the remedy from the catalogue's.
    pub(crate) fn remedy(mut self, remedy: Remedy) -> Self {
        self.remedy = remedy.to_string();
        self.places = remedy;
        self
    }

    /// Adds what was read.
    #[allow(clippy::needless_pass_by_value)] // callers hand over numbers and texts they no longer need
    pub(crate) fn evidence(mut self, source: impl Into<String>, value: impl std::fmt::Display) -> Self {
        self.evidence.push(Evidence {
            source: source.into(),
            value: value.to_string(),
        });
        self
    }

    /// Changes the severity from the catalogue's.
    pub(crate) fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }
}
