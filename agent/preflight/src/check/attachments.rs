//! Network attachments, and the resources that they imply.

use std::collections::BTreeMap;

use rdma_health_rules::Severity;
use serde_json::Value;

use super::{count, list};
use crate::{
    cluster::{Cluster, Listed, RESOURCE_NAME},
    pod::{self, NETWORKS},
    report::{Finding, Report},
    workload::{Workload, is_rdma},
};

/// CNI plugins that move a device of a device plugin into the pod.
const NEED_DEVICE: &[&str] = &["sriov", "ib-sriov", "accelerated-bridge"];

/// The resources that a pod's networks imply, with how many of each.
pub(super) fn implied(cluster: &Cluster, workload: &Workload) -> BTreeMap<String, u64> {
    let mut implied = BTreeMap::new();
    for network in workload.networks().unwrap_or_default() {
        let listed = cluster.attachments.get(&network.namespace);
        let resource = listed
            .and_then(|listed| listed.named(&network.name))
            .and_then(|attachment| attachment["metadata"]["annotations"][RESOURCE_NAME].as_str());
        if let Some(resource) = resource {
            *implied.entry(resource.to_owned()).or_default() += 1;
        }
    }
    implied
}

pub(super) fn check(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    let critical = |rule, summary, evidence, remedy| Finding {
        rule,
        severity: Severity::Critical,
        subject: workload.subject(),
        summary,
        evidence,
        remedy,
    };
    let networks = match workload.networks() {
        Ok(networks) => networks,
        Err(why) => {
            return report.add(critical(
                "networks-invalid",
                format!("the annotation {NETWORKS} is not valid: {why}"),
                Vec::new(),
                "write NAME,NAME or a JSON list of objects with name and namespace".into(),
            ));
        }
    };
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for network in &networks {
        let (namespace, name) = (&network.namespace, &network.name);
        let shown = format!("{namespace}/{name}");
        match cluster.attachments.get(namespace).unwrap_or(&Listed::default()) {
            Listed::NotRead(why) => report.not_checked(&format!("network attachments of namespace {namespace}"), why),
            Listed::NotInstalled => report.add(critical(
                "multus-missing",
                "the cluster does not know NetworkAttachmentDefinition, so the pod gets no further network".into(),
                vec![format!("annotation {NETWORKS} names {shown}")],
                "install Multus, or use RDMA without further networks (host network or a shared device plugin)".into(),
            )),
            listed @ Listed::Read(_) => match listed.named(name) {
                Some(attachment) => check_attachment(attachment, &shown, &critical, report),
                None => missing.entry(namespace).or_default().push(name),
            },
        }
    }
    for (namespace, mut names) in missing {
        names.sort_unstable();
        names.dedup();
        let items = cluster.attachments.get(namespace).map_or(&[][..], Listed::items);
        let known = list(items.iter().filter_map(|one| one["metadata"]["name"].as_str()));
        let has = if known.is_empty() { "none".into() } else { known };
        let shown = list(names.iter().map(|name| format!("{namespace}/{name}")));
        let (does_not, it) = match names.len() {
            1 => (
                format!("the network attachment {shown} does not exist"),
                "the name",
            ),
            _ => (
                format!("the network attachments {shown} do not exist"),
                "the names",
            ),
        };
        report.add(critical(
            "attachment-missing",
            does_not,
            vec![
                format!("annotation {NETWORKS}"),
                format!("namespace {namespace} has: {has}"),
            ],
            format!(
                "create NetworkAttachmentDefinition {} in namespace {namespace}, or correct {it}",
                list(names)
            ),
        ));
    }
    check_requests(cluster, workload, &critical, report);
}

fn check_attachment(
    attachment: &Value,
    shown: &str,
    critical: &impl Fn(&'static str, String, Vec<String>, String) -> Finding,
    report: &mut Report,
) {
    let text = attachment["spec"]["config"].as_str().unwrap_or_default();
    let config: Value = match serde_json::from_str(text) {
        Ok(config) => config,
        // Without a configuration, Multus reads one from the node's disk.
        Err(_) if text.trim().is_empty() => return,
        Err(error) => {
            return report.add(critical(
                "attachment-invalid",
                format!("the configuration of network attachment {shown} is not JSON: {error}"),
                vec!["spec.config".into()],
                format!("correct spec.config of NetworkAttachmentDefinition {shown}"),
            ));
        }
    };
    let first = std::iter::once(&config["type"]);
    let chained = config["plugins"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| &one["type"]);
    let device = first
        .chain(chained)
        .filter_map(Value::as_str)
        .find(|kind| NEED_DEVICE.contains(kind));
    let resource = &attachment["metadata"]["annotations"][RESOURCE_NAME];
    if let Some(kind) = device.filter(|_| resource.as_str().is_none_or(str::is_empty)) {
        report.add(critical(
            "attachment-without-resource",
            format!("the network attachment {shown} names no resource, so its CNI plugin {kind} gets no device"),
            vec![format!("annotation {RESOURCE_NAME} is missing"), format!("spec.config: type {kind}")],
            format!(
                "kubectl -n {} annotate network-attachment-definition {} {RESOURCE_NAME}=openshift.io/RESOURCE, with the resource of \
                 kubectl get node NODE -o jsonpath='{{.status.allocatable}}'",
                shown.split('/').next().unwrap_or_default(),
                shown.split('/').nth(1).unwrap_or_default(),
            ),
        ));
    }
}

/// Compares what the attachments imply with what the containers request.
fn check_requests(
    cluster: &Cluster,
    workload: &Workload,
    critical: &impl Fn(&'static str, String, Vec<String>, String) -> Finding,
    report: &mut Report,
) {
    let implied = implied(cluster, workload);
    let running = pod::running_devices(&workload.spec);
    let requested = pod::devices(&workload.spec);
    // Rails with the same fault are one finding.
    let mut short_of: BTreeMap<(u64, u64, bool), Vec<&str>> = BTreeMap::new();
    for (resource, number) in &implied {
        let has = running.get(resource).copied().unwrap_or(0);
        // A resource that no node has is a mistake in the attachment: requesting it would not help.
        let unknown =
            matches!(cluster.nodes, Listed::Read(_)) && cluster.allocatable(resource).next().is_none();
        if has < *number && !unknown {
            let of_init = requested.get(resource).is_some_and(|all| *all > has);
            short_of
                .entry((*number, has, of_init))
                .or_default()
                .push(resource);
        }
    }
    for ((number, has, of_init), resources) in short_of {
        let names = list(&resources);
        let each = if resources.len() == 1 { "of" } else { "of each of" };
        let mut finding = critical(
            "resource-not-requested",
            format!("the networks need {number} {each} {names}, but the containers request {has}"),
            vec![format!(
                "annotation {NETWORKS}: {} {each} {names}",
                count(number, "attachment")
            )],
            format!(
                "add {} to requests and limits of the container that uses RDMA",
                list(
                    resources
                        .iter()
                        .map(|resource| format!("{resource}: \"{number}\""))
                )
            ),
        );
        if of_init {
            finding.evidence.push(
                "an init container requests more, but its devices are not in the containers that run after it".into(),
            );
        }
        // The webhook changes pods, not templates.
        if cluster.injects_resources() && !workload.exists {
            finding.severity = Severity::Info;
            finding
                .evidence
                .push("the webhook network-resources-injector adds it to new pods".into());
        } else if let (Listed::NotRead(why), false) = (&cluster.webhooks, workload.exists) {
            finding.severity = Severity::Warning;
            finding.evidence.push(format!(
                "a webhook may add it to new pods; webhooks could not be read: {why}"
            ));
        }
        report.add(finding);
    }
    check_devices(cluster, workload, &implied, critical, report);
}

/// Devices of one fault: the resources, and the attachments that would fit.
type Unattached<'a> = (Vec<&'a str>, Vec<&'a str>);

/// Finds devices that no network attaches, and those that only init containers get.
fn check_devices(
    cluster: &Cluster,
    workload: &Workload,
    implied: &BTreeMap<String, u64>,
    critical: &impl Fn(&'static str, String, Vec<String>, String) -> Finding,
    report: &mut Report,
) {
    let running = pod::running_devices(&workload.spec);
    let requested = pod::devices(&workload.spec);
    let own = cluster
        .attachments
        .get(&workload.namespace)
        .map_or(&[][..], Listed::items);
    let mut unattached: BTreeMap<(u64, u64), Unattached<'_>> = BTreeMap::new();
    let mut only_init = Vec::new();
    for (resource, number) in &requested {
        let used = implied.get(resource).copied().unwrap_or(0);
        let fitting: Vec<_> = own
            .iter()
            .filter(|one| one["metadata"]["annotations"][RESOURCE_NAME] == *resource)
            .filter_map(|one| one["metadata"]["name"].as_str())
            .collect();
        let is_running = running.contains_key(resource);
        if used < *number && !fitting.is_empty() && is_running {
            let (resources, attachments) = unattached.entry((*number, used)).or_default();
            resources.push(resource);
            attachments.extend(fitting);
        }
        let rdma = is_rdma(resource) || cluster.is_of_an_attachment(resource);
        if rdma && !is_running && used == 0 && *number > 0 {
            only_init.push(resource);
        }
    }
    for ((number, used), (resources, attachments)) in unattached {
        let (names, fitting) = (list(&resources), list(attachments));
        let each = if resources.len() == 1 { "of" } else { "of each of" };
        report.add(Finding {
            severity: Severity::Warning,
            ..critical(
                "resource-not-attached",
                format!(
                    "the containers request {number} {each} {names}, but the networks attach {used}: the other devices get no \
                     interface and no GID in the pod"
                ),
                vec![format!("network attachments of {names}: {fitting}")],
                format!("add {fitting} to the annotation {NETWORKS}, once for each device"),
            )
        });
    }
    if !only_init.is_empty() {
        report.add(critical(
            "resource-only-in-init-container",
            format!(
                "only init containers request {}: the containers that run after them get no RDMA device",
                list(&only_init)
            ),
            vec!["resources of initContainers".into()],
            format!(
                "add {} to requests and limits of the container that uses RDMA; the init container then gets the same device",
                list(&only_init)
            ),
        ));
    }
}
