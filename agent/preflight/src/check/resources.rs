//! Whether nodes have the devices that a pod requests.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_rules::Severity;

use super::{Scope, attachments::implied, list, room};
use crate::{
    cluster::{Cluster, Listed},
    pod,
    report::{Finding, Report},
    workload::{Workload, is_rdma},
};

/// Why a resource is unavailable, and what to do about it. Resources with the same answer are one finding.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Unavailable {
    rule: &'static str,
    pub(super) evidence: Vec<String>,
    pub(super) remedy: String,
}

pub(super) fn check(scope: &Scope<'_>, workload: &Workload, report: &mut Report) {
    let cluster = scope.cluster;
    values(workload, report);
    let wanted = wanted(cluster, workload);
    if wanted.is_empty() {
        return;
    }
    if let Listed::NotRead(why) = &cluster.nodes {
        return report.not_checked("resources of nodes", why);
    }
    let mut short_of: BTreeMap<Unavailable, Vec<&str>> = BTreeMap::new();
    let mut every_known = true;
    for (resource, number) in &wanted {
        let most = cluster.allocatable(resource).map(|(_, number)| number).max();
        match most {
            Some(most) if most >= *number => continue,
            Some(most) if most > 0 => report.add(Finding {
                rule: "resource-too-many",
                severity: Severity::Critical,
                subject: workload.subject(),
                summary: format!("a pod requests {number} of {resource}, but no node has more than {most}"),
                evidence: vec![on_nodes(cluster, resource)],
                remedy: too_many(cluster, resource, most),
            }),
            _ => short_of
                .entry(unavailable(cluster, workload, resource))
                .or_default()
                .push(resource),
        }
        every_known = false;
    }
    for (why, resources) in short_of {
        report.add(Finding {
            rule: why.rule,
            severity: Severity::Critical,
            subject: workload.subject(),
            summary: why.in_words(&resources),
            evidence: why.evidence,
            remedy: why.remedy,
        });
    }
    // A pod that has a node needs none.
    if every_known && workload.spec["nodeName"].as_str().is_none() {
        room::check(scope, workload, &wanted, report);
    }
}

/// The devices that a pod takes: what its containers request, and what its networks need.
pub(super) fn wanted(cluster: &Cluster, workload: &Workload) -> BTreeMap<String, u64> {
    let mut wanted = pod::devices(&workload.spec);
    for (resource, number) in implied(cluster, workload) {
        let known = wanted.entry(resource).or_default();
        *known = number.max(*known);
    }
    wanted.retain(|_, number| *number > 0);
    wanted
}

/// Values that the API server refuses. It has checked those of a pod that exists.
fn values(workload: &Workload, report: &mut Report) {
    if workload.exists {
        return;
    }
    let mut same: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (container, resource, wrong) in pod::refused_values(&workload.spec) {
        same.entry((wrong, container)).or_default().push(resource);
    }
    for ((wrong, container), resources) in same {
        report.add(Finding {
            rule: "resource-invalid",
            severity: Severity::Critical,
            subject: workload.subject(),
            summary: format!(
                "container {container} has {} {wrong}: the API server refuses the pod",
                list(&resources)
            ),
            evidence: vec![format!("resources of container {container}")],
            remedy: format!(
                "write the same whole number for {} in requests and in limits: a device cannot be shared or overcommitted",
                list(&resources)
            ),
        });
    }
}

/// What to do if no node has as many. Virtual functions can be added; GPUs cannot.
fn too_many(cluster: &Cluster, resource: &str, most: u64) -> String {
    let more = if is_rdma(resource) || cluster.is_of_an_attachment(resource) {
        ", or configure more virtual functions on the nodes"
    } else {
        " in each pod, and use more pods"
    };
    format!("request at most {most}{more}")
}

impl Unavailable {
    /// The summary for resources of which this is true.
    pub(super) fn in_words(&self, resources: &[&str]) -> String {
        let names = list(resources);
        match (self.rule, resources.len()) {
            ("resource-empty", 1) => format!("the nodes that have {names} have 0 of it"),
            ("resource-empty", _) => format!("the nodes that have the resources {names} have 0 of each"),
            (_, 1) => format!("no node has the resource {names}"),
            _ => format!("no node has the resources {names}"),
        }
    }
}

/// Why a resource is on no node, or on nodes that have none of it.
pub(super) fn unavailable(cluster: &Cluster, workload: &Workload, resource: &str) -> Unavailable {
    if cluster.allocatable(resource).next().is_some() {
        return Unavailable {
            rule: "resource-empty",
            evidence: vec![on_nodes(cluster, resource)],
            remedy: "look at the device plugin's pod on these nodes: it found no healthy device. Run rdma-health check on the node: \
                     virtual functions may be missing or bound to another driver"
                .into(),
        };
    }
    let known = cluster.known_resources();
    let has = if known.is_empty() {
        "none".into()
    } else {
        list(&known)
    };
    let others = others(cluster, workload, resource);
    let remedy = match meant(resource, &known, &others) {
        Some(name) => {
            format!("did you mean {name}? Correct the name, also in the annotation of the network attachment")
        }
        None if resource.starts_with("rdma/") => {
            "correct the name, or configure the plugin for shared RDMA devices to offer this resource (resourceName in the ConfigMap of \
             k8s-rdma-shared-dev-plugin, or rdmaSharedDevicePlugin in the NicClusterPolicy of NVIDIA's network operator)"
                .into()
        }
        None if is_rdma(resource) || cluster.is_of_an_attachment(resource) => {
            "correct the name, or configure the device plugin (on OpenShift: SriovNetworkNodePolicy) to offer this resource"
                .into()
        }
        None => "correct the name, or install the device plugin that offers this resource".into(),
    };
    Unavailable {
        rule: "resource-unknown",
        evidence: vec![format!("device resources of all nodes: {has}")],
        remedy,
    }
}

/// The resources that are other devices than this one: what the containers request, if a container requests it, and what the networks
/// need, if a network needs it. One of them may name wrongly what the other names rightly.
fn others(cluster: &Cluster, workload: &Workload, resource: &str) -> BTreeSet<String> {
    let requested = pod::devices(&workload.spec);
    let implied = implied(cluster, workload);
    let (by_container, by_network) = (requested.contains_key(resource), implied.contains_key(resource));
    let of_containers = requested.into_keys().filter(|_| by_container || !by_network);
    let of_networks = implied.into_keys().filter(|_| by_network || !by_container);
    of_containers.chain(of_networks).collect()
}

/// The resource that was probably meant. One that the pod requests as well is another device, and so is one with another number.
fn meant<'a>(wrong: &str, known: &BTreeSet<&'a str>, others: &BTreeSet<String>) -> Option<&'a str> {
    let distance = |name: &str| {
        let ((domain, local), (other_domain, other)) = (wrong.split_once('/')?, name.split_once('/')?);
        if numbers(local) != numbers(other) {
            return None;
        }
        let (local, other) = (local.to_ascii_lowercase(), other.to_ascii_lowercase());
        let edits = strsim::osa_distance(&local, &other);
        let shorter = local.len().min(other.len());
        let contains = shorter >= 4 && (local.contains(&other) || other.contains(&local));
        let is_near = edits <= shorter / 4 || contains;
        // Of two vendors, equal names of devices say nothing: nvidia.com/gpu, amd.com/gpu.
        let of_domain = strsim::osa_distance(domain, other_domain);
        (is_near && (of_domain <= 2 || shorter >= 4 && edits == 0)).then_some(edits + of_domain)
    };
    let free = known.iter().filter(|name| !others.contains(**name));
    let near = free.filter_map(|name| Some((distance(name)?, *name)));
    near.min().map(|(_, name)| name)
}

/// The numbers in a name, which distinguish rails: 5 and 0 of `eno5np0rdma`.
fn numbers(name: &str) -> Vec<&str> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .collect()
}

/// `gpu-01 has 4, gpu-02 has 0`.
pub(super) fn on_nodes(cluster: &Cluster, resource: &str) -> String {
    list(
        cluster
            .allocatable(resource)
            .map(|(node, number)| format!("{} has {number}", room::name(node))),
    )
}
