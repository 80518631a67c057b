//! Why an existing pod does not run.

use super::{list, resources::unavailable};
use crate::{
    cluster::{Cluster, Listed},
    report::{Finding, Report},
    workload::Workload,
};
use rdma_health_rules::Severity;

pub(super) fn check(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    if workload.status["phase"] != "Pending" {
        return;
    }
    let conditions = workload.status["conditions"].as_array().into_iter().flatten();
    let scheduled = conditions
        .into_iter()
        .find(|one| one["type"] == "PodScheduled" && one["status"] == "False");
    let Some(message) = scheduled.and_then(|one| one["message"].as_str()) else {
        return;
    };
    let add = |report: &mut Report, summary, mut evidence: Vec<String>, remedy| {
        evidence.insert(0, format!("scheduler: {message}"));
        report.add(Finding {
            rule: "pod-pending",
            severity: Severity::Critical,
            subject: workload.subject(),
            summary,
            evidence,
            remedy,
        });
    };
    let missing = insufficient(message);
    for resource in &missing {
        // `cpu` and `memory` have no domain.
        if !resource.contains('/') {
            let summary = format!("the pod waits: nodes do not have enough free {resource}");
            add(
                report,
                summary,
                Vec::new(),
                format!("request less {resource}, or free some"),
            );
            continue;
        }
        match &cluster.nodes {
            Listed::NotRead(why) => {
                report.not_checked("resources of nodes", why);
                let remedy = format!(
                    "ask an administrator for: kubectl get nodes -o custom-columns='NODE:.metadata.name,N:.status.allocatable.{}'",
                    resource.replace('.', "\\.")
                );
                add(
                    report,
                    format!("the pod waits: nodes do not have enough {resource}"),
                    Vec::new(),
                    remedy,
                );
            }
            _ if cluster.allocatable(resource).any(|(_, number)| number > 0) => {
                let evidence = match &cluster.usage {
                    Some(Ok(usage)) => vec![format!("held by: {}", list(usage.holders(resource)))],
                    Some(Err(why)) => {
                        report.not_checked("whether devices are free", why);
                        Vec::new()
                    }
                    None => Vec::new(),
                };
                let summary = format!("the pod waits: every {resource} that it could use is taken");
                add(
                    report,
                    summary,
                    evidence,
                    "wait until a pod that holds one ends, or stop it".into(),
                );
            }
            _ => {
                let (why, evidence, remedy) = unavailable(cluster, resource);
                add(
                    report,
                    format!("the pod waits for {resource}: {why}"),
                    evidence,
                    remedy,
                );
            }
        }
    }
    if missing.is_empty() {
        let remedy = format!("kubectl -n {} describe pod {}", workload.namespace, workload.name);
        add(
            report,
            "the pod waits: the scheduler found no node for it".into(),
            Vec::new(),
            remedy,
        );
    }
}

/// The resources in `0/5 nodes are available: 2 Insufficient openshift.io/x, 3 node(s) had taint …`.
fn insufficient(message: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for part in message.split("Insufficient ").skip(1) {
        let name = part
            .split([',', ' '])
            .next()
            .unwrap_or_default()
            .trim_end_matches('.');
        if !name.is_empty() && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// Whether pods of a workload are still missing or waiting, so that an earlier event about it matters.
pub(super) fn still_waits(workload: &Workload) -> bool {
    if workload.exists {
        return workload.status["phase"] == "Pending";
    }
    let present = ["replicas", "active", "currentNumberScheduled"];
    let present = present.iter().find_map(|field| workload.status[*field].as_u64());
    present.unwrap_or(0) < workload.pods
}
