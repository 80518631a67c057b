//! The verdict: all findings of a node, and its status.

use rdma_health_node::{Node, infiniband::LinkLayer, words::printable};
use serde::Serialize;

use crate::{
    CATALOGUE, Domain, Expectations, Finding, Profile, Severity, domain::iommu, finding::MAX_PODS,
    remedy::resolve::Resolver, required,
};

/// The state of a node, in the words of monitoring plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing of warning or above.
    Ok,
    /// At least one warning.
    Warning,
    /// At least one critical finding.
    Critical,
    /// No problem found, but the node could not be judged.
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

/// All findings of a node, and its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The status that follows from the findings.
    pub status: Status,
    /// Why the node could not be judged completely, if so; there may be findings nevertheless.
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

    /// Sets the status that follows from the findings.
    pub(crate) fn settle(&mut self) {
        let is_judged = self.unknown_because.is_none();
        let worst = self
            .findings
            .iter()
            // With an obstacle, unread facts are to be expected.
            .filter(|finding| is_judged || finding.domain != Domain::Reading)
            .map(|finding| finding.severity)
            .max();
        self.status = match worst {
            Some(Severity::Critical) => Status::Critical,
            Some(Severity::Warning) => Status::Warning,
            _ if !is_judged => Status::Unknown,
            _ => Status::Ok,
        };
    }
}

/// Judges `node` by every rule.
///
/// Findings decide the status. That something could not be judged decides it only if there are no findings:
///
/// | the worst finding | all was judged | an obstacle: no RDMA device, a foreign tree, … |
/// | --- | --- | --- |
/// | critical | critical | critical |
/// | warning | warning | warning |
/// | a warning of domain `reading` | warning | unknown |
/// | info, or none | ok | unknown |
///
/// So a node without an RDMA device is a warning if the module of its adapter is missing, and an empty directory, of which
/// nothing can be read, is unknown.
pub fn judge(node: &Node, expectations: &Expectations) -> Verdict {
    let resolver = Resolver::new(node);
    let mut findings: Vec<Finding> = CATALOGUE
        .iter()
        .flat_map(|rule| (rule.judge)(node, expectations))
        .filter_map(|draft| draft.judged(expectations.profile, &resolver))
        .collect();
    let allocations = node.allocations();
    if !allocations.is_empty() {
        for finding in &mut findings {
            if let Some(device) = &finding.subject.device {
                finding.pods = node.affected_pods(&allocations, device);
                finding.pods.truncate(MAX_PODS);
            }
        }
    }
    // Stable: within a severity the catalogue's order stays.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut verdict = Verdict {
        status: Status::Ok,
        unknown_because: obstacle(node, expectations),
        findings,
    };
    verdict.settle();
    verdict
}

/// A port whose link layer the kernel reports with a word that is not known.
fn words_not_recognised(node: &Node) -> Option<String> {
    // What the kernel writes for EFA, which is neither (`link_layer_show` in drivers/infiniband/core/sysfs.c), and what ibv_devinfo does.
    const NEITHER: [&str; 2] = ["Unknown", "Unspecified"];
    node.ports().find_map(|port| match port.link_layer.known()? {
        LinkLayer::InfiniBand | LinkLayer::Ethernet => None,
        LinkLayer::Other(word) if NEITHER.contains(&&**word) => None,
        LinkLayer::Other(word) => Some(format!(
            "the link layer of {port} is \"{}\", which rdma-health does not know",
            printable(word)
        )),
    })
}

/// Why the node cannot be judged: an empty directory, a foreign tree, a kernel that does not answer, a node without RDMA
/// devices or without an ACTIVE port, which has nothing to judge, an expectation or a domain for which facts are missing, or a kernel that
/// does not report IOMMU modes.
fn obstacle(node: &Node, expectations: &Expectations) -> Option<String> {
    if let Some(unread) = required::devices(node) {
        return Some(unread);
    }
    if let Some(unread) = node.host.kernel.unread() {
        return Some(format!("this is not the tree of a running node: {unread}"));
    }
    if expectations.profile == Profile::TcpOnly {
        return None;
    }
    if node.hcas().next().is_none() {
        return Some("there is no RDMA device to judge".into());
    }
    let states = node
        .hcas()
        .flat_map(|hca| hca.ports.values())
        .filter(|port| port.is_active().is_some())
        .count();
    if states == 0 {
        return Some("the state of no port could be read".into());
    }
    if node.active_ports().next().is_none() {
        return Some("no port is ACTIVE, so whether RDMA works cannot be judged".into());
    }
    expectations
        .not_judged(node)
        .or_else(|| required::unread(node))
        .or_else(|| iommu::type_not_reported(node))
        .or_else(|| iommu::mode_not_recognised(node))
        .or_else(|| words_not_recognised(node))
}
