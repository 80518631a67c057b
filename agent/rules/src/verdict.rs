//! The verdict: all findings of a node, and what they come to.

use rdma_health_node::Node;
use serde::Serialize;

use crate::{CATALOGUE, Domain, Expectations, Finding, Profile, Severity};

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
    /// Nothing was found, and it cannot be said that nothing is wrong.
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
    /// Why it could not be said that nothing is wrong, where that is so; beside findings, too.
    pub unknown_because: Option<String>,
    /// Worst first, then in order of the catalogue and of subjects.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// The findings of one rule and severity together, in order.
    pub fn groups(&self) -> impl Iterator<Item = &[Finding]> {
        self.findings
            .chunk_by(|a, b| a.rule == b.rule && a.severity == b.severity)
    }
}

/// Asks every rule about `node`.
///
/// What was found decides the status; that something could not be judged decides only where nothing was found:
///
/// | the worst finding | all was judged | an obstacle: no RDMA device, a foreign tree, … |
/// | --- | --- | --- |
/// | critical | critical | critical |
/// | warning | warning | warning |
/// | a warning that only tells what was not read or asked | warning | unknown |
/// | info, or none | ok | unknown |
///
/// So an adapter whose module is missing is a warning, although the node has no RDMA device; and an empty directory, of
/// which no more is known than that it cannot be read, stays unknown.
pub fn judge(node: &Node, expectations: &Expectations) -> Verdict {
    let mut findings: Vec<Finding> = CATALOGUE
        .iter()
        .flat_map(|rule| (rule.judge)(node, expectations))
        .collect();
    // Stable: within a severity the catalogue's order stays.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let unknown_because = obstacle(node, expectations);
    let worst = findings
        .iter()
        // Beside an obstacle, that something was not read is no news.
        .filter(|finding| unknown_because.is_none() || finding.domain != Domain::Reading)
        .map(|finding| finding.severity)
        .max();
    let status = match worst {
        Some(Severity::Critical) => Status::Critical,
        Some(Severity::Warning) => Status::Warning,
        _ if unknown_because.is_some() => Status::Unknown,
        _ => Status::Ok,
    };
    Verdict {
        status,
        unknown_because,
        findings,
    }
}

/// Why it cannot be said that nothing is wrong: an empty directory, a foreign tree, a kernel that does not answer, or a
/// node without RDMA devices, where there is nothing to judge.
fn obstacle(node: &Node, expectations: &Expectations) -> Option<String> {
    if let Some(unread) = node.hcas.unread() {
        return Some(format!("the RDMA devices could not be read: {unread}"));
    }
    if let Some(unread) = node.host.kernel.unread() {
        return Some(format!("this is not the tree of a running node: {unread}"));
    }
    if expectations.profile == Profile::TcpOnly {
        return None;
    }
    if node.hcas().next().is_none() {
        return Some("there is no RDMA device: nothing to judge".into());
    }
    let states = node
        .hcas()
        .flat_map(|hca| hca.ports.values())
        .filter(|port| port.is_active().is_some())
        .count();
    (states == 0).then(|| "no port's state could be read".into())
}
