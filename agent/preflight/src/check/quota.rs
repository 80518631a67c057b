//! Quotas of the namespace.

use rdma_health_rules::Severity;
use serde_json::Value;

use super::count;
use crate::{
    cluster::{Cluster, Listed},
    pod, quantity,
    report::{Finding, Report},
    workload::Workload,
};

pub(super) fn check(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    if workload.exists {
        return;
    }
    if let Listed::NotRead(why) = &cluster.quotas {
        return report.not_checked("quotas of the namespace", why);
    }
    // Pods that exist are in `used` already.
    let existing = workload.status["replicas"]
        .as_u64()
        .or_else(|| workload.status["active"].as_u64());
    let new = workload.pods.saturating_sub(existing.unwrap_or(0));
    if new == 0 {
        return;
    }
    for quota in cluster.quotas.items() {
        // A quota with a scope counts only some pods.
        if !quota["spec"]["scopes"].is_null() || !quota["spec"]["scopeSelector"].is_null() {
            continue;
        }
        let name = quota["metadata"]["name"].as_str().unwrap_or("?");
        for (resource, hard) in quota["spec"]["hard"].as_object().into_iter().flatten() {
            let Some(hard) = quantity::value(hard) else {
                continue;
            };
            let used = quantity::value(&quota["status"]["used"][resource]).unwrap_or(0.0);
            let each = match of_pod(workload, resource) {
                Need::Nothing => continue,
                Need::Amount(each) => each,
                Need::Unset => {
                    report.add(Finding {
                        rule: "quota-needs-value",
                        severity: Severity::Critical,
                        subject: workload.subject(),
                        summary: format!("quota {name} limits {resource}, but a container does not set it: pods are refused"),
                        evidence: vec![format!("ResourceQuota {name}: {resource}")],
                        remedy: format!("set {resource} of every container, or add a LimitRange with a default"),
                    });
                    continue;
                }
            };
            #[allow(clippy::cast_precision_loss)] // no one has that many pods
            let needed = each * new as f64;
            if used + needed > hard {
                report.add(Finding {
                    rule: "quota-exceeded",
                    severity: Severity::Critical,
                    subject: workload.subject(),
                    summary: format!("quota {name} does not have enough {resource}: {} {} {needed}", count(new, "more pod"), if new == 1 { "needs" } else { "need" }),
                    evidence: vec![format!("ResourceQuota {name}: {used} of {hard} used")],
                    remedy: "ask the administrator to raise the quota, use fewer pods, or stop others in this namespace".into(),
                });
            }
        }
    }
}

enum Need {
    Nothing,
    Amount(f64),
    /// The quota makes a value mandatory, and it is missing.
    Unset,
}

/// What one pod takes from a quota.
fn of_pod(workload: &Workload, resource: &str) -> Need {
    let spec: &Value = &workload.spec;
    if matches!(resource, "pods" | "count/pods") {
        return Need::Amount(1.0);
    }
    let (kind, name) = match resource {
        "cpu" | "memory" => ("requests", resource),
        _ => match resource.split_once('.') {
            Some((kind @ ("requests" | "limits"), name)) => (kind, name),
            _ => return Need::Nothing,
        },
    };
    if name.contains('/') {
        #[allow(clippy::cast_precision_loss)] // no one has that many devices
        return match pod::devices(spec).get(name) {
            Some(number) => Need::Amount(*number as f64),
            None => Need::Nothing,
        };
    }
    if !matches!(name, "cpu" | "memory") {
        return Need::Nothing;
    }
    pod::sum(spec, kind, name).map_or(Need::Unset, Need::Amount)
}
