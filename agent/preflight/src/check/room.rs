//! Whether the nodes have room for all pods of a workload, in general and now.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_rules::Severity;
use serde_json::Value;

use super::{Scope, affinity::excluded, count, list, resources::on_nodes};
use crate::{
    cluster::{Usage, allocatable},
    pod,
    report::Report,
    workload::Workload,
};

/// The most nodes that an evidence lists.
const MOST_NODES: usize = 8;

pub(super) fn name(node: &Value) -> &str {
    node["metadata"]["name"].as_str().unwrap_or("?")
}

/// Whether one node has everything, and the nodes have room for all pods, and enough of it is free.
#[allow(clippy::too_many_lines)] // one question after the other, each with its finding
pub(super) fn check(
    scope: &Scope<'_>,
    workload: &Workload,
    wanted: &BTreeMap<String, u64>,
    report: &mut Report,
) {
    let cluster = scope.cluster;
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
    let mut found = report.about(workload.subject());
    if complete.is_empty() {
        let each = wanted
            .keys()
            .map(|resource| format!("{resource}: {}", on_nodes(cluster, resource)));
        return found.add(
            "resources-on-different-nodes",
            Severity::Critical,
            format!("each resource exists, but no node has all of: {asks}"),
            each.collect(),
            "use rails that are on the same nodes as the GPUs, or configure the missing ones there",
        );
    }
    let (mut open, mut closed) = (Vec::new(), Vec::new());
    for node in complete {
        match excluded(workload, node) {
            Some(why) => closed.push(format!("{}: {why}", name(node))),
            None => open.push(node),
        }
    }
    closed.truncate(MOST_NODES);
    if open.is_empty() {
        return found.add(
            "nodes-excluded",
            Severity::Critical,
            format!("no node that has all of the resources accepts the pod ({asks})"),
            closed,
            "correct nodeSelector or nodeAffinity, add the toleration, or uncordon a node",
        );
    }
    let pods = pods(scope, workload);
    let one_each = one_per_node(&workload.spec);
    if one_each && pods > open.len() as u64 {
        return found.add(
            "nodes-too-few",
            Severity::Critical,
            format!(
                "{pods} pods must be on different nodes, but {} have all of: {asks}",
                open.len()
            ),
            closed,
            "use fewer nodes in the job, or add nodes",
        );
    }
    let none = BTreeMap::new();
    // How many pods a node takes in addition to what is in use.
    let on_node = |node: &Value, used: &BTreeMap<&str, u64>| {
        let each = wanted.iter().map(|(resource, number)| {
            let used = used.get(resource.as_str()).copied().unwrap_or(0);
            allocatable(node, resource).unwrap_or(0).saturating_sub(used) / (*number).max(1)
        });
        each.min().unwrap_or(0).min(if one_each { 1 } else { u64::MAX })
    };
    let by_node = |used: &dyn Fn(&Value) -> u64| -> (u64, Vec<String>) {
        let each: Vec<_> = open.iter().map(|node| (name(node), used(node))).collect();
        let sum = each
            .iter()
            .fold(0_u64, |sum, (_, room)| sum.saturating_add(*room));
        let shown = each.iter().take(MOST_NODES);
        (
            sum,
            shown
                .map(|(node, room)| format!("{node} has room for {}", count(*room, "pod")))
                .collect(),
        )
    };
    let (room, evidence) = by_node(&|node| on_node(node, &none));
    if pods > room {
        return found.add(
            "nodes-too-small",
            Severity::Critical,
            format!("all nodes together have room for {room} of {pods} pods; each requests: {asks}"),
            [evidence, closed].concat(),
            "use fewer pods, request less in each, or add nodes",
        );
    }
    if workload.exists {
        // A pending pod has its own explanation.
        return;
    }
    match &cluster.usage {
        Some(Ok(usage)) => {
            let used = usage.by_node();
            let own = usage.all().iter().filter(|holder| scope.is_own(workload, holder));
            let own: BTreeSet<_> = own.map(|holder| holder.node.as_str()).collect();
            let (room, evidence) = by_node(&|node| {
                if one_each && own.contains(name(node)) {
                    return 0;
                }
                on_node(node, used.get(name(node)).unwrap_or(&none))
            });
            let missing = pods.saturating_sub(present(scope, workload, usage, wanted));
            if missing <= room {
                return;
            }
            let holders = wanted.keys().filter_map(|resource| {
                let others = usage.holders(resource).filter(|one| !scope.is_own(workload, one));
                let others = list(others.map(super::Holder::shown));
                (!others.is_empty()).then(|| format!("{resource} is held by: {others}"))
            });
            let summary = if room == 0 {
                format!("no node has all of the resources free now: {asks}")
            } else {
                format!(
                    "the nodes have {asks} free for {} now, but {} to start",
                    count(room, "pod"),
                    if missing == 1 {
                        "1 has".to_owned()
                    } else {
                        format!("{missing} have")
                    }
                )
            };
            let evidence = holders.chain(evidence).collect();
            found.add(
                "resources-in-use",
                Severity::Warning,
                summary,
                evidence,
                "wait until pods that hold them end, or stop some",
            );
        }
        Some(Err(why)) => report.not_checked("whether devices are free", why),
        None => {}
    }
}

/// The pods of a workload that ask for the same: a `PyTorchJob` has a master and workers.
fn pods(scope: &Scope<'_>, workload: &Workload) -> u64 {
    let same = scope.all.iter().filter(|other| {
        other.subject() == workload.subject() && pod::devices(&other.spec) == pod::devices(&workload.spec)
    });
    same.fold(0_u64, |sum, one| sum.saturating_add(one.pods))
}

/// How many of its pods hold their devices already.
fn present(scope: &Scope<'_>, workload: &Workload, usage: &Usage, wanted: &BTreeMap<String, u64>) -> u64 {
    let own = usage.all().iter().filter(|holder| {
        scope.is_own(workload, holder)
            && wanted
                .keys()
                .any(|resource| holder.devices.contains_key(resource))
    });
    own.count() as u64
}

/// Whether the pods exclude each other from a node.
fn one_per_node(spec: &Value) -> bool {
    let terms = &spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let mut terms = terms.as_array().into_iter().flatten();
    terms.any(|term| term["topologyKey"] == "kubernetes.io/hostname")
}
