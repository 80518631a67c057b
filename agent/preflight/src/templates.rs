//! Where the pods of an object stand in it: the pod templates of any kind, and how many pods each makes.

use serde_json::Value;

/// The most templates of one object; a `RayCluster` has a dozen.
const MOST: usize = 100;
/// How deep a template may be; that of a `JobSet` inside an `AppWrapper` is below ten others.
const DEEPEST: usize = 24;

/// A pod template, and the number of its pods.
pub(crate) struct Template<'a> {
    /// `metadata` and `spec`.
    pub(crate) pod: &'a Value,
    pub(crate) pods: u64,
}

/// Every pod template below the specification of an object.
///
/// Kinds differ in where they keep them, and agree in what they are: an object with a `spec` that has containers. On the way down,
/// `replicas` and `parallelism` multiply: of a `Job`, of the groups of a `JobSet`, of Kubeflow's replica specs, of Ray's groups.
pub(crate) fn templates(spec: &Value) -> Vec<Template<'_>> {
    let mut found = Vec::new();
    search(spec, 1, 0, &mut found);
    found
}

fn search<'a>(value: &'a Value, pods: u64, depth: usize, found: &mut Vec<Template<'a>>) {
    if depth > DEEPEST || found.len() >= MOST {
        return;
    }
    match value {
        Value::Array(all) => {
            for one in all {
                search(one, pods, depth + 1, found);
            }
        }
        Value::Object(all) => {
            if all.get("spec").is_some_and(|spec| spec["containers"].is_array()) {
                found.push(Template { pod: value, pods });
                return;
            }
            let pods = pods.saturating_mul(own_pods(value));
            for (key, below) in all {
                search(below, pods.saturating_mul(share(value, key)), depth + 1, found);
            }
        }
        _ => {}
    }
}

/// How many pods of each template below it an object asks for.
fn own_pods(object: &Value) -> u64 {
    let number = |field: &str| object[field].as_u64();
    // Of a Job with three completions, a fourth pod does not start.
    let parallel =
        number("parallelism").map(|parallel| number("completions").map_or(parallel, |all| parallel.min(all)));
    let replicas = number("replicas").unwrap_or(1);
    replicas
        .saturating_mul(parallel.unwrap_or(1))
        .saturating_mul(number("numOfHosts").unwrap_or(1))
}

/// How many pods of the template `key` one group has: a group of a `LeaderWorkerSet` has `size` pods, and one of them is the leader.
fn share(object: &Value, key: &str) -> u64 {
    let size = object["size"].as_u64().unwrap_or(1);
    match key {
        "workerTemplate" if object["leaderTemplate"].is_object() => size.saturating_sub(1),
        "workerTemplate" => size,
        _ => 1,
    }
}

/// Groups of the API whose objects create no pods, in addition to the groups of Kubernetes.
const INERT_GROUPS: &[&str] = &[
    "k8s.cni.cncf.io",
    "sriovnetwork.openshift.io",
    "security.openshift.io",
    "project.openshift.io",
    "route.openshift.io",
    "machineconfiguration.openshift.io",
    "monitoring.coreos.com",
    "cert-manager.io",
    "kueue.x-k8s.io",
    "gateway.networking.k8s.io",
    "snapshot.storage.k8s.io",
];
/// Groups of Kubernetes itself, whose kinds are all known.
const OWN_GROUPS: &[&str] = &[
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];
/// Kinds of Kubernetes that run pods.
const RUNNING: &[&str] = &[
    "Pod",
    "ReplicationController",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "Job",
    "CronJob",
];

/// Why an object in which no template was found is not checked; `None` if it certainly creates no pods.
pub(crate) fn not_understood(object: &Value) -> Option<&'static str> {
    let Some(kind) = object["kind"].as_str() else {
        return Some("it has no kind");
    };
    if RUNNING.contains(&kind) {
        return Some("it has no containers");
    }
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let is_inert = group.is_empty() || OWN_GROUPS.contains(&group) || INERT_GROUPS.contains(&group);
    (!is_inert).then_some(
        "no pod template was found in this kind of object; if it creates pods, run preflight again when they exist",
    )
}
