//! Whether nodes have the devices that a pod requests.

use std::collections::BTreeMap;

use rdma_health_rules::Severity;
use serde_json::Value;

use super::{attachments::implied, list};
use crate::{
    cluster::{Cluster, Listed, allocatable},
    pod,
    report::{Finding, Report},
    workload::Workload,
};

/// How alike two names are from 0 to 1 for one to be suggested in place of the other.
const ALIKE: f64 = 0.8;

pub(super) fn check(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    let mut wanted = pod::devices(&workload.spec);
    for (resource, number) in implied(cluster, workload) {
        let known = wanted.entry(resource).or_default();
        *known = number.max(*known);
    }
    wanted.retain(|_, number| *number > 0);
    if wanted.is_empty() {
        return;
    }
    if let Listed::NotRead(why) = &cluster.nodes {
        return report.not_checked("resources of nodes", why);
    }
    let critical = |rule, summary, evidence, remedy| Finding {
        rule,
        severity: Severity::Critical,
        subject: workload.subject(),
        summary,
        evidence,
        remedy,
    };
    let mut every_known = true;
    for (resource, number) in &wanted {
        let most = cluster.allocatable(resource).map(|(_, number)| number).max();
        let (summary, evidence, remedy) = match most {
            Some(most) if most >= *number => continue,
            Some(most) if most > 0 => (
                format!("a pod requests {number} of {resource}, but no node has more than {most}"),
                vec![on_nodes(cluster, resource)],
                format!("request at most {most}, or configure more virtual functions on the nodes"),
            ),
            _ => unavailable(cluster, resource),
        };
        every_known = false;
        let rule = match most {
            None => "resource-unknown",
            Some(0) => "resource-empty",
            Some(_) => "resource-too-many",
        };
        report.add(critical(rule, summary, evidence, remedy));
    }
    // A pod that has a node needs none.
    if every_known && workload.spec["nodeName"].as_str().is_none() {
        together(cluster, workload, &wanted, report);
    }
}

/// Why a resource is on no node, or on nodes that have none of it: summary, evidence and remedy.
pub(super) fn unavailable(cluster: &Cluster, resource: &str) -> (String, Vec<String>, String) {
    if cluster.allocatable(resource).next().is_some() {
        return (
            format!("the nodes that have {resource} have 0 of it"),
            vec![on_nodes(cluster, resource)],
            "look at the device plugin's pod on these nodes: it found no healthy device. Run rdma-health check on the node: virtual \
             functions may be missing or bound to another driver"
                .into(),
        );
    }
    let known = cluster.known_resources();
    let nearest = known
        .iter()
        .map(|name| (strsim::jaro_winkler(name, resource), *name))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let has = if known.is_empty() {
        "none".into()
    } else {
        list(&known)
    };
    let remedy = match nearest {
        Some((_, name)) => format!("did you mean {name}? Correct the name, also in the annotation of the network attachment"),
        None => "correct the name, or configure the device plugin (on OpenShift: SriovNetworkNodePolicy) to offer this resource".into(),
    };
    (
        format!("no node has the resource {resource}"),
        vec![format!("device resources of all nodes: {has}")],
        remedy,
    )
}

/// `gpu-01 has 4, gpu-02 has 0`.
fn on_nodes(cluster: &Cluster, resource: &str) -> String {
    list(
        cluster
            .allocatable(resource)
            .map(|(node, number)| format!("{} has {number}", name(node))),
    )
}

fn name(node: &Value) -> &str {
    node["metadata"]["name"].as_str().unwrap_or("?")
}

/// Whether one node has everything, and enough nodes do, and enough of it is free.
fn together(cluster: &Cluster, workload: &Workload, wanted: &BTreeMap<String, u64>, report: &mut Report) {
    let has_all = |node: &&Value| {
        let mut all = wanted.iter();
        all.all(|(resource, number)| allocatable(node, resource).is_some_and(|has| has >= *number))
    };
    let complete: Vec<_> = cluster.nodes.items().iter().filter(has_all).collect();
    let asks = list(
        wanted
            .iter()
            .map(|(resource, number)| format!("{number} {resource}")),
    );
    let mut add = |rule, severity, summary, evidence, remedy: &str| {
        report.add(Finding {
            rule,
            severity,
            subject: workload.subject(),
            summary,
            evidence,
            remedy: remedy.to_owned(),
        });
    };
    if complete.is_empty() {
        let each = wanted
            .keys()
            .map(|resource| format!("{resource}: {}", on_nodes(cluster, resource)));
        return add(
            "resources-on-different-nodes",
            Severity::Critical,
            format!("each resource exists, but no node has all of: {asks}"),
            each.collect(),
            "use rails that are on the same nodes as the GPUs, or configure the missing ones there",
        );
    }
    let closed: Vec<_> = complete
        .iter()
        .filter_map(|node| Some((name(node), excluded(workload, node)?)))
        .collect();
    let open = complete.len() - closed.len();
    if open == 0 {
        return add(
            "nodes-excluded",
            Severity::Critical,
            format!("no node that has all of the resources accepts the pod ({asks})"),
            closed
                .iter()
                .take(8)
                .map(|(node, why)| format!("{node}: {why}"))
                .collect(),
            "correct nodeSelector, add the toleration, or uncordon a node",
        );
    }
    if workload.pods > open as u64 && one_per_node(&workload.spec) {
        return add(
            "nodes-too-few",
            Severity::Critical,
            format!(
                "{} pods must be on different nodes, but {open} have all of: {asks}",
                workload.pods
            ),
            closed
                .iter()
                .take(8)
                .map(|(node, why)| format!("{node}: {why}"))
                .collect(),
            "use fewer nodes in the job, or add nodes",
        );
    }
    if workload.exists {
        // A pending pod has its own explanation.
        return;
    }
    match &cluster.usage {
        Some(Ok(usage)) => {
            let is_free = |node: &&&Value| {
                excluded(workload, node).is_none()
                    && wanted.iter().all(|(resource, number)| {
                        let has = allocatable(node, resource).unwrap_or(0);
                        has.saturating_sub(usage.used(name(node), resource)) >= *number
                    })
            };
            let free = complete.iter().filter(is_free).count() as u64;
            // Pods of the controller that run hold devices themselves.
            let missing = workload
                .pods
                .saturating_sub(workload.status["replicas"].as_u64().unwrap_or(0));
            if free == 0 && missing > 0 {
                let holders = wanted
                    .keys()
                    .map(|resource| format!("{resource} is held by: {}", list(usage.holders(resource))));
                add(
                    "resources-in-use",
                    Severity::Warning,
                    format!("no node has all of the resources free now: {asks}"),
                    holders.collect(),
                    "wait until these pods end, or stop one of them",
                );
            }
        }
        Some(Err(why)) => report.not_checked("whether devices are free", why),
        None => {}
    }
}

/// Why the scheduler does not use a node for a pod; `None` if nothing is known against it. Affinity is not evaluated.
fn excluded(workload: &Workload, node: &Value) -> Option<String> {
    for (key, value) in workload.spec["nodeSelector"].as_object().into_iter().flatten() {
        if node["metadata"]["labels"][key] != *value {
            return Some(format!(
                "nodeSelector {key}={}",
                value.as_str().unwrap_or_default()
            ));
        }
    }
    let tolerations = workload.spec["tolerations"].as_array();
    let tolerated = |taint: &Value| {
        tolerations.into_iter().flatten().any(|one| {
            let same =
                |field: &str| one[field].as_str().is_none_or(str::is_empty) || one[field] == taint[field];
            let exists = one["operator"] == "Exists" || one["value"] == taint["value"];
            same("key") && same("effect") && exists
        })
    };
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let mut strict = taints.filter(|taint| taint["effect"] != "PreferNoSchedule");
    if let Some(taint) = strict.find(|taint| !tolerated(taint)) {
        return Some(format!("taint {}", taint["key"].as_str().unwrap_or_default()));
    }
    let cordon = serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    (node["spec"]["unschedulable"] == true && !tolerated(&cordon)).then(|| "cordoned".into())
}

/// Whether the pods exclude each other from a node.
fn one_per_node(spec: &Value) -> bool {
    let terms = &spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let mut terms = terms.as_array().into_iter().flatten();
    terms.any(|term| term["topologyKey"] == "kubernetes.io/hostname")
}
