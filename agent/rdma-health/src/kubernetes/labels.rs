//! Labels and a taint that tell the scheduler what the conditions tell people. Both off unless configured.

use std::collections::BTreeMap;

use rdma_health_node::{iommu::DomainType, nvidia::PeerMemory};
use rdma_health_rules::{Severity, Status};
use serde_json::{Value, json};

use super::condition::{Circumstances, awaits_probes};
use crate::{config::Taint, view::View};

/// What the keys begin with; what an administrator expects of a node is told by labels with another prefix.
const PREFIX: &str = "state.rdma-health.io";
/// The key of the taint.
pub(super) const TAINT: &str = "state.rdma-health.io/critical";

/// The key of the label that tells the verdict.
const VERDICT: &str = "state.rdma-health.io/verdict";

/// Labels by key; `None` is for one that stays as the Node has it. What is not known has no label.
pub(super) fn labels(view: &View, around: &Circumstances) -> BTreeMap<&'static str, Option<String>> {
    let mut labels = BTreeMap::new();
    // A probe can make it no worse than critical.
    let verdict = view.verdict.status;
    let settled = verdict == Status::Critical || !awaits_probes(view, around);
    labels.insert(VERDICT, settled.then(|| verdict.name().to_owned()));
    if let Some(iommu) = iommu(view) {
        labels.insert("state.rdma-health.io/iommu", Some(iommu.to_owned()));
    }
    let path = match view.node.peer_memory.known() {
        None => None,
        Some(PeerMemory::None) => Some("none"),
        Some(_) => Some("present"),
    };
    if let Some(path) = path {
        labels.insert("state.rdma-health.io/peer-memory", Some(path.to_owned()));
    }
    debug_assert!(labels.keys().all(|key| key.starts_with(PREFIX)));
    labels
}

/// How DMA of the RDMA functions is handled: `passthrough` only where it is so for each. `None` where that is not known.
fn iommu(view: &View) -> Option<&'static str> {
    let iommu = &view.node.iommu;
    if iommu.groups.known()?.is_empty() {
        return Some("none");
    }
    let mut passthrough = None;
    for address in view.node.hcas().filter_map(|hca| hca.pci_address.known()) {
        let (_, group) = iommu.group_of(address)?;
        let identity = *group.domain.known()? == DomainType::Identity;
        passthrough = Some(passthrough.unwrap_or(true) && identity);
    }
    passthrough.map(|all| if all { "passthrough" } else { "translated" })
}

/// What is wanted of the Node's taint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    /// It stays as it is, whatever that is: nobody knows yet.
    Keep,
    /// There must be none.
    Without,
    /// There must be this one.
    With(Value),
}

/// The taint that the verdict asks for.
pub(super) fn taint(view: &View, effect: Taint, around: &Circumstances) -> Wish {
    let critical = view
        .verdict
        .findings
        .iter()
        .find(|finding| finding.severity == Severity::Critical)
        .filter(|_| view.verdict.status == Status::Critical);
    match critical {
        Some(finding) => Wish::With(json!({"key": TAINT, "value": finding.rule.id, "effect": effect.name()})),
        None if awaits_probes(view, around) => Wish::Keep,
        None => Wish::Without,
    }
}
