//! Limit ranges of the namespace: the API server refuses a pod with a value outside of them.

use rdma_health_rules::Severity;
use serde_json::Value;

use crate::{
    cluster::{Cluster, Listed},
    pod, quantity,
    report::{Finding, Report},
    workload::Workload,
};

pub(super) fn check(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    // The API server has checked those of a pod that exists.
    if workload.exists {
        return;
    }
    if let Listed::NotRead(why) = &cluster.limit_ranges {
        return report.not_checked("limit ranges of the namespace", why);
    }
    for range in cluster.limit_ranges.items() {
        let name = range["metadata"]["name"].as_str().unwrap_or("?");
        for limit in range["spec"]["limits"].as_array().into_iter().flatten() {
            let kind = limit["type"].as_str().unwrap_or_default();
            for (bound, resource, wrong) in outside(limit, kind, &workload.spec) {
                report.add(Finding {
                    rule: "limit-range-exceeded",
                    severity: Severity::Critical,
                    subject: workload.subject(),
                    summary: format!(
                        "{wrong}, and LimitRange {name} has {bound} {}: the API server refuses the pod",
                        shown(&limit[bound][resource])
                    ),
                    evidence: vec![format!("LimitRange {name}: {kind} {bound}.{resource}")],
                    remedy: format!(
                        "request {resource} within the LimitRange, or ask the administrator to change it"
                    ),
                });
            }
        }
    }
}

/// The bound (`max`, `min`), the resource, and what is outside of it.
fn outside<'a>(limit: &'a Value, kind: &str, spec: &Value) -> Vec<(&'static str, &'a str, String)> {
    let mut found = Vec::new();
    for bound in ["max", "min"] {
        for (resource, bounded) in limit[bound].as_object().into_iter().flatten() {
            let Some(bounded) = quantity::value(bounded) else {
                continue;
            };
            let is_outside = |value: f64| {
                if bound == "max" {
                    value > bounded
                } else {
                    value < bounded
                }
            };
            // A missing limit or request becomes the default, which is within the range.
            let set =
                |container: &Value, field: &str| quantity::value(&container["resources"][field][resource]);
            // For the largest, the limit decides; for the smallest, the request, which is the limit if it is not set.
            let of = |container: &Value| match bound {
                "max" => set(container, "limits").or_else(|| set(container, "requests")),
                _ => set(container, "requests").or_else(|| set(container, "limits")),
            };
            match kind {
                "Container" => {
                    let names = pod::names_of(spec, |one| of(one).is_some_and(is_outside));
                    if let Some(first) = names.first() {
                        found.push((
                            bound,
                            resource.as_str(),
                            format!("container {first} asks for {resource} outside the range"),
                        ));
                    }
                }
                "Pod" => {
                    let sum: f64 = pod::containers(spec).filter_map(of).sum();
                    if sum > 0.0 && is_outside(sum) {
                        found.push((
                            bound,
                            resource.as_str(),
                            format!("the containers together ask for {resource} outside the range"),
                        ));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
