//! Pods that the kubelet refused: they have failed, and no container of them was ever started.

use rdma_health_rules::Severity;
use serde_json::Value;

use super::{controller, events::shorten, messages, pending::still_waits};
use crate::{
    cluster::Cluster,
    report::{Finding, Report},
    workload::Workload,
};

/// Reasons of a pod's status with which only the kubelet ends a pod, before it starts.
const REASONS: [&str; 2] = ["UnexpectedAdmissionError", "TopologyAffinityError"];

pub(super) fn check(cluster: &Cluster, workloads: &[Workload], report: &mut Report) {
    for object in cluster.pods.items() {
        let status = &object["status"];
        let is_refused = REASONS.iter().any(|reason| status["reason"] == *reason);
        if is_refused && status["phase"] == "Failed" {
            for pod in Workload::in_object(object, &cluster.namespace, true) {
                if pod.uses_rdma(cluster) {
                    explain(workloads, &pod, status, report);
                }
            }
        }
    }
}

fn explain(workloads: &[Workload], pod: &Workload, status: &Value, report: &mut Report) {
    let owner = pod.owner.as_ref();
    let above = owner.and_then(|(kind, name)| controller(workloads, kind, name));
    // A controller that has all its pods by now has replaced it.
    if above.is_some_and(|above| !still_waits(above)) {
        return;
    }
    if above.is_none() {
        report.add_workload(pod.subject());
    }
    let message = status["message"].as_str().unwrap_or_default();
    let reason = status["reason"].as_str().unwrap_or_default();
    let known = messages::explained(message);
    let (rule, summary) = known.map_or(
        ("pod-refused-by-kubelet", "the kubelet refused the pod"),
        |known| (known.rule, known.summary),
    );
    let (subject, severity) = match above {
        Some(above) => (above.subject(), Severity::Critical),
        // It stays as it is, also if another one was created since.
        None => (pod.subject(), Severity::Warning),
    };
    let is_known = |one: &Finding| one.rule == rule && one.subject == subject;
    if report.findings.iter().any(is_known) {
        return;
    }
    let first = known.map_or("look at the kubelet's log on the node", |known| known.remedy);
    report.add(Finding {
        rule,
        severity,
        subject,
        summary: summary.into(),
        evidence: vec![format!("pod {}: {reason}: {}", pod.name, shorten(message, 600))],
        remedy: format!("{first}; then delete the failed pod: the kubelet does not try again"),
    });
}
