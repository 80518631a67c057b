//! The verdict: all findings of a node, and what they come to.

use rdma_health_node::Node;
use serde::Serialize;

use crate::{CATALOGUE, Expectations, Finding, Severity};

/// What a node's findings come to, as monitoring plugins word it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing of warning or above.
    Ok,
    /// At least one warning.
    Warning,
    /// At least one critical finding.
    Critical,
    /// Nothing could be judged.
    Unknown,
}

impl Status {
    /// The exit status of a command that ends with this verdict.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }

    /// Its name in messages and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Unknown => "unknown",
        }
    }
}

/// All findings of a node, and what they come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// What they come to.
    pub status: Status,
    /// Worst first, then in order of the catalogue and of subjects.
    pub findings: Vec<Finding>,
}

/// Asks every rule about `node`.
pub fn judge(node: &Node, expectations: &Expectations) -> Verdict {
    let mut findings: Vec<Finding> = CATALOGUE
        .iter()
        .flat_map(|rule| (rule.judge)(node, expectations))
        .collect();
    // Stable: within a severity the catalogue's order stays.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let status = match findings.first().map(|finding| finding.severity) {
        Some(Severity::Critical) => Status::Critical,
        _ if !can_be_judged(node) => Status::Unknown,
        Some(Severity::Warning) => Status::Warning,
        _ => Status::Ok,
    };
    Verdict { status, findings }
}

/// Whether enough was read to say that nothing is wrong: the devices, and either the IOMMU groups or the host. An empty
/// directory, a foreign tree and a node whose kernel does not answer can not be judged.
fn can_be_judged(node: &Node) -> bool {
    node.hcas.unread().is_none() && node.host.kernel.known().is_some()
}
