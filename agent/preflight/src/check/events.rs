//! Explains events: pods that were refused, and pods whose network could not be set up.

use rdma_health_rules::Severity;

use super::{controller, pending::still_waits, security};
use crate::{
    cluster::{Cluster, Listed},
    report::{Finding, Report},
    workload::Workload,
};

/// A part of a message, the problem that it shows, and what to do; `NAMESPACE` is replaced.
const MESSAGES: &[(&str, &str, &str, &str)] = &[
    (
        "violates PodSecurity",
        "refused-by-pod-security",
        "PodSecurity of the namespace refuses the pod",
        "kubectl label namespace NAMESPACE pod-security.kubernetes.io/enforce=privileged --overwrite; on OpenShift first \
         security.openshift.io/scc.podSecurityLabelSync=false",
    ),
    (
        "exceeded quota",
        "refused-by-quota",
        "a quota of the namespace refuses the pod",
        "use fewer pods or devices, stop others, or ask the administrator to raise the quota",
    ),
    (
        "must specify",
        "refused-by-quota",
        "a quota of the namespace requires values that the pod does not set",
        "set the resources that the message names",
    ),
    (
        "error looking up service account",
        "service-account-missing",
        "the service account of the pod does not exist",
        "create it; deploy/workload creates one",
    ),
    (
        "cannot find a network-attachment-definition",
        "attachment-missing",
        "Multus does not find a network attachment of the pod",
        "create it in the namespace that the message names; deploy/workload creates one for each rail",
    ),
    (
        "VF pci addr is required",
        "attachment-without-resource",
        "the CNI plugin got no device: the network attachment names no resource, or the pod does not request it",
        "set k8s.v1.cni.cncf.io/resourceName on the network attachment, and request the resource in the pod",
    ),
    (
        "failed to find plugin \"sriov\"",
        "cni-plugin-missing",
        "the SR-IOV CNI plugin is not installed on the node",
        "install sriov-cni on the node (on OpenShift: the SR-IOV network operator)",
    ),
    (
        "requested number of devices unavailable",
        "device-plugin-failed",
        "the device plugin could not give the pod its devices",
        "look at the device plugin's pod on the node; run rdma-health check there",
    ),
];

pub(super) fn check(cluster: &Cluster, workloads: &[Workload], report: &mut Report) {
    if let Listed::NotRead(why) = &cluster.events {
        return report.not_checked("events of the namespace", why);
    }
    for event in cluster.events.items() {
        let object = &event["involvedObject"];
        let message = event["message"].as_str().unwrap_or_default();
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let Some(workload) = controller(workloads, text("kind"), text("name")) else {
            continue;
        };
        if !workload.uses_rdma(cluster) || !still_waits(workload) {
            continue;
        }
        let subject = format!("{} {}/{}", text("kind"), cluster.namespace, text("name"));
        // Other parts of the message, such as the name of the next pod, differ each time.
        let said = vec![format!(
            "event {}: {}",
            event["reason"].as_str().unwrap_or_default(),
            shorten(message)
        )];
        let finding = |rule, summary: String, remedy: String| Finding {
            rule,
            severity: Severity::Critical,
            subject: subject.clone(),
            summary,
            evidence: said.clone(),
            remedy,
        };
        let found = if message.contains("unable to validate against any security context constraint") {
            Some(refused_by_scc(cluster, workload, message, &finding))
        } else {
            MESSAGES
                .iter()
                .find(|(part, ..)| message.contains(part))
                .map(|(_, rule, summary, remedy)| {
                    finding(
                        rule,
                        (*summary).into(),
                        remedy.replace("NAMESPACE", &cluster.namespace),
                    )
                })
        };
        let Some(found) = found else { continue };
        let known = |one: &Finding| one.rule == found.rule && one.subject == found.subject;
        if !report.findings.iter().any(known) {
            report.add(found);
        }
    }
}

fn refused_by_scc(
    cluster: &Cluster,
    workload: &Workload,
    message: &str,
    finding: &impl Fn(&'static str, String, String) -> Finding,
) -> Finding {
    let mut capabilities: Vec<&str> = message
        .split("Invalid value: \"")
        .skip(1)
        .filter_map(|part| {
            part.split_once('"')
                .filter(|(_, rest)| rest.starts_with(": capability may not be added"))
        })
        .map(|(name, _)| name)
        .collect();
    capabilities.sort_unstable();
    capabilities.dedup();
    let what = if capabilities.is_empty() {
        "what the pod asks for".to_owned()
    } else {
        format!("the capability {}", capabilities.join(", "))
    };
    let account = workload.account();
    finding(
        "refused-by-scc",
        format!("OpenShift refuses the pod: no SCC that service account {account} may use allows {what}"),
        security::grant(cluster, workload),
    )
}

/// The beginning of a message. That of an SCC lists every SCC of the cluster.
fn shorten(message: &str) -> String {
    const MOST: usize = 600;
    let mut text: String = message.chars().take(MOST).collect();
    if text.len() < message.len() {
        text.push('…');
    }
    text
}
