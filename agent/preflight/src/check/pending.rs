//! Why an existing pod does not run.

use super::{
    list,
    resources::{Unavailable, unavailable},
    scheduling,
};
use crate::{
    cluster::{Cluster, Holder, Listed},
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
    if scheduled.is_some_and(|one| one["reason"] == "SchedulingGated") {
        return gated(workload, report);
    }
    let Some(message) = scheduled.and_then(|one| one["message"].as_str()) else {
        return;
    };
    let mut add = |summary: String, more: Vec<String>, remedy: String| {
        report.add(Finding {
            rule: "pod-pending",
            severity: Severity::Critical,
            subject: workload.subject(),
            summary,
            evidence: [vec![format!("scheduler: {message}")], more].concat(),
            remedy,
        });
    };
    let missing = insufficient(message);
    if missing.is_empty() {
        let found = scheduling::explained(message);
        if found.is_empty() {
            return add(
                "the pod waits: the scheduler found no node for it".into(),
                Vec::new(),
                format!("kubectl -n {} describe pod {}", workload.namespace, workload.name),
            );
        }
        let (whats, remedies): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let summary = format!("the pod waits: {}", whats.join("; "));
        return add(summary, Vec::new(), remedies.join("; "));
    }
    // Rails that are missing for the same reason are one finding.
    let mut reasons: Vec<(Reason, Vec<&str>)> = Vec::new();
    for resource in &missing {
        let reason = reason(cluster, workload, resource);
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, resources)) => resources.push(resource),
            None => reasons.push((reason, vec![resource])),
        }
    }
    for (reason, resources) in reasons {
        add(reason.what.in_words(&resources), reason.evidence, reason.remedy);
    }
    if let Listed::NotRead(why) = &cluster.nodes {
        report.not_checked("resources of nodes", why);
    }
    if let Some(Err(why)) = &cluster.usage {
        report.not_checked("whether devices are free", why);
    }
}

/// The pod is held until something removes its gates; the scheduler has not looked at it.
fn gated(workload: &Workload, report: &mut Report) {
    let gates = workload.spec["schedulingGates"].as_array().into_iter().flatten();
    let gates: Vec<_> = gates.filter_map(|gate| gate["name"].as_str()).collect();
    let namespace = &workload.namespace;
    let of_kueue = gates.iter().any(|gate| gate.starts_with("kueue.x-k8s.io/"));
    let (summary, remedy) = if of_kueue {
        (
            "the pod waits until Kueue admits it: the scheduler has not looked at it",
            format!(
                "kubectl -n {namespace} get workloads.kueue.x-k8s.io: the conditions of its Workload give the reason, for example a used \
                 quota of the ClusterQueue"
            ),
        )
    } else {
        (
            "the pod waits until its scheduling gates are removed: the scheduler has not looked at it",
            format!("look at the controller that the gate names; kubectl -n {namespace} get events"),
        )
    };
    report.add(Finding {
        rule: "pod-gated",
        severity: Severity::Warning,
        subject: workload.subject(),
        summary: summary.into(),
        evidence: vec![format!("schedulingGates: {}", list(gates))],
        remedy,
    });
}

/// Why the scheduler does not find enough of a resource.
#[derive(PartialEq)]
struct Reason {
    what: What,
    evidence: Vec<String>,
    remedy: String,
}

#[derive(PartialEq)]
enum What {
    NotEnough,
    Taken,
    Unavailable(Unavailable),
}

impl What {
    fn in_words(&self, resources: &[&str]) -> String {
        let names = list(resources);
        match self {
            Self::NotEnough => format!("the pod waits: nodes do not have enough free {names}"),
            Self::Taken => format!("the pod waits: every {names} that it could use is taken"),
            Self::Unavailable(why) => format!("the pod waits for {names}: {}", why.in_words(resources)),
        }
    }
}

fn reason(cluster: &Cluster, workload: &Workload, resource: &str) -> Reason {
    // `cpu` and `memory` have no domain.
    if !resource.contains('/') {
        return Reason {
            what: What::NotEnough,
            evidence: Vec::new(),
            remedy: "request less of it, or free some".into(),
        };
    }
    if matches!(cluster.nodes, Listed::NotRead(_)) {
        return Reason {
            what: What::NotEnough,
            evidence: Vec::new(),
            remedy: format!(
                "ask an administrator for: kubectl get nodes -o custom-columns='NODE:.metadata.name,N:.status.allocatable.{}'",
                resource.replace('.', "\\.")
            ),
        };
    }
    if cluster.allocatable(resource).all(|(_, number)| number == 0) {
        let why = unavailable(cluster, workload, resource);
        let (evidence, remedy) = (why.evidence.clone(), why.remedy.clone());
        return Reason {
            what: What::Unavailable(why),
            evidence,
            remedy,
        };
    }
    let usage = cluster.usage.as_ref().and_then(|usage| usage.as_ref().ok());
    let holders = usage.map(|usage| list(usage.holders(resource).map(Holder::shown)));
    let remedy = if holders.as_ref().is_some_and(String::is_empty) {
        "no pod holds one now: the scheduler tries again by itself; if the pod still waits, compare its nodeSelector, affinity and \
         tolerations with the nodes that have the resource"
    } else {
        "wait until a pod that holds one ends, or stop it"
    };
    Reason {
        what: What::Taken,
        evidence: holders
            .filter(|holders| !holders.is_empty())
            .map(|holders| format!("held by: {holders}"))
            .into_iter()
            .collect(),
        remedy: remedy.into(),
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
