//! Labels and a taint that show the verdict to the scheduler. Both are off unless configured.

use std::collections::BTreeMap;

use rdma_health_config::Taint;
use rdma_health_node::{DmaMode, nvidia::PeerMemory};
use rdma_health_rules::{Severity, Status, unread_facts};
use rdma_health_view::View;
use serde_json::{Value, json};

use super::condition::{ConditionContext, awaits_probes};

/// The prefix of the keys. Labels with which an administrator sets expectations have a different prefix.
const PREFIX: &str = "state.rdma-health.io";
/// The key of the taint.
pub(super) const TAINT: &str = "state.rdma-health.io/critical";

/// The key of the label with the verdict.
const VERDICT: &str = "state.rdma-health.io/verdict";

/// Labels by key; `None` means that the Node keeps its current value. A value that is not known has no label.
pub(super) fn labels(view: &View, context: &ConditionContext) -> BTreeMap<&'static str, Option<String>> {
    let mut labels = BTreeMap::new();
    // A critical verdict is final: no probe can make it worse.
    let verdict = view.verdict.status;
    let settled = verdict == Status::Critical || !awaits_probes(view, context);
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

/// The IOMMU mode of RDMA functions and GPUs: `passthrough` only if all of them have it. `None` if it is not known.
fn iommu(view: &View) -> Option<&'static str> {
    Some(match view.node.dma_mode()? {
        DmaMode::NoIommu => "none",
        DmaMode::Passthrough => "passthrough",
        DmaMode::Translated => "translated",
        DmaMode::Other => "other",
    })
}

/// The change of the Node's taint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TaintChange {
    /// Keep the current state, because the verdict is not final yet.
    Keep,
    /// Remove the taint.
    Remove,
    /// Set this taint.
    Set(Value),
}

/// The change of the taint that the verdict requires.
pub(super) fn taint(view: &View, effect: Taint, context: &ConditionContext) -> TaintChange {
    let verdict = view.verdict.status;
    let critical = view
        .verdict
        .findings
        .iter()
        .find(|finding| finding.severity == Severity::Critical)
        .filter(|_| verdict == Status::Critical);
    match critical {
        Some(finding) => {
            TaintChange::Set(json!({"key": TAINT, "value": finding.rule.id, "effect": effect.name()}))
        }
        None if awaits_probes(view, context) => TaintChange::Keep,
        // What cannot be read may still be broken.
        None if verdict == Status::Unknown && unread_facts(&view.node).is_some() => TaintChange::Keep,
        None => TaintChange::Remove,
    }
}
