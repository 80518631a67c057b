//! Containers that do not run although their pod has a node.

use std::collections::BTreeMap;

use rdma_health_rules::Severity;

use super::{events::shorten, list, messages};
use crate::{
    report::{Finding, Report},
    workload::Workload,
};

/// Reasons with which every container waits for a moment.
const NORMAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// A reason with which the kubelet or the container runtime keeps a container from running, and what to do; `NAMESPACE` and `POD` are to be
/// replaced.
const REMEDIES: [(&str, &str); 7] = [
    (
        "ImagePull",
        "correct the name of the image, or give the pod a secret for its registry (imagePullSecrets)",
    ),
    (
        "ErrImage",
        "correct the name of the image, or give the pod a secret for its registry (imagePullSecrets)",
    ),
    ("InvalidImageName", "correct the name of the image"),
    (
        "CreateContainerConfigError",
        "create the ConfigMap or Secret that the message names, or correct the name",
    ),
    (
        "CrashLoopBackOff",
        "kubectl -n NAMESPACE logs POD --previous; rdma-health check --log reads such a log",
    ),
    (
        "RunContainerError",
        "correct the command, the devices or the mounts that the message names",
    ),
    (
        "CreateContainerError",
        "correct the command, the devices or the mounts that the message names",
    ),
];

/// The container, the reason and the message with which it waits.
type Wait = (String, String, String);

/// The first pod, its message, and the names of all.
type Same<'a> = (&'a Workload, String, Vec<&'a str>);
/// The owner of the pod, the container and the reason.
type Key = (String, String, String);

/// Finds them in the pods of a namespace. Pods of one controller that wait for the same are one finding.
pub(super) fn check<'a>(pods: impl Iterator<Item = &'a Workload>, report: &mut Report) {
    let mut same: BTreeMap<Key, Same<'_>> = BTreeMap::new();
    for pod in pods {
        let of = pod
            .owner
            .as_ref()
            .map_or_else(|| pod.name.clone(), |(kind, name)| format!("{kind} {name}"));
        for (container, reason, message) in waits(pod) {
            let known = same.entry((of.clone(), container, reason));
            known
                .or_insert_with(|| (pod, message, Vec::new()))
                .2
                .push(&pod.name);
        }
    }
    for ((_, container, reason), (pod, message, names)) in same {
        let said = if message.is_empty() {
            reason.clone()
        } else {
            format!("{reason}: {}", shorten(&message, 600))
        };
        let mut evidence = vec![format!("container {container}: {said}")];
        if names.len() > 1 {
            evidence.push(format!("the same in pods {}", list(&names)));
        }
        let known = messages::explained(&message);
        let crashes = reason == "CrashLoopBackOff";
        let summary = match known {
            Some(known) => known.summary.to_owned(),
            None if crashes => {
                format!(
                    "the pod does not keep running: container {container} ends again and again; its log has the reason"
                )
            }
            None => format!(
                "the pod does not run: container {container} waits with {reason}, which is not a cause in RDMA that preflight knows"
            ),
        };
        let remedy = known.map(|known| known.remedy).or_else(|| {
            let of_reason = REMEDIES.iter().find(|(part, _)| reason.contains(part));
            of_reason.map(|(_, remedy)| *remedy)
        });
        let remedy = remedy.unwrap_or("kubectl -n NAMESPACE describe pod POD");
        report.add(Finding {
            rule: known.map_or("container-waiting", |known| known.rule),
            severity: if crashes {
                Severity::Warning
            } else {
                Severity::Critical
            },
            subject: pod.subject(),
            summary,
            evidence,
            remedy: remedy
                .replace("NAMESPACE", &pod.namespace)
                .replace("POD", &pod.name),
        });
    }
}

fn waits(pod: &Workload) -> Vec<Wait> {
    let of = |field: &str| pod.status[field].as_array().into_iter().flatten();
    let all = of("initContainerStatuses").chain(of("containerStatuses"));
    all.filter_map(|one| {
        let waiting = &one["state"]["waiting"];
        let reason = waiting["reason"]
            .as_str()
            .filter(|reason| !NORMAL.contains(reason))?;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        Some((text(&one["name"]), reason.to_owned(), text(&waiting["message"])))
    })
    .collect()
}
