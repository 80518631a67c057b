//! The pods of a namespace or manifest, and what creates pods.

use serde_json::Value;

use crate::{
    cluster::Cluster,
    pod::{self, NETWORKS, Network},
};

/// Parts of names by which device plugins call RDMA devices.
const RDMA_WORDS: &[&str] = &["rdma", "hca", "roce", "infiniband", "sriov", "mlnx", "vf"];
/// The resource of AWS.
const EFA: &str = "vpc.amazonaws.com/efa";

/// A pod, or the pods that a controller creates.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// How many pods it creates.
    pub(crate) pods: u64,
    pub(crate) annotations: Value,
    pub(crate) spec: Value,
    /// Whether the pod exists, so that admission has changed what it wanted to.
    pub(crate) exists: bool,
    /// Status of the object.
    pub(crate) status: Value,
    /// Kind and name of its controller.
    pub(crate) owner: Option<(String, String)>,
}

impl Workload {
    /// The pods in an object of any kind. `exists` is false for a manifest. `namespace` is used for an object without one.
    pub fn in_object(object: &Value, namespace: &str, exists: bool) -> Vec<Self> {
        let kind = object["kind"].as_str().unwrap_or_default();
        if let Some(items) = object["items"].as_array().filter(|_| kind.ends_with("List")) {
            let all = items
                .iter()
                .flat_map(|item| Self::in_object(item, namespace, exists));
            return all.collect();
        }
        let spec = &object["spec"];
        let new = |template: &Value, pods: u64| {
            template["spec"]["containers"].is_array().then(|| {
                let text = |value: &Value| value.as_str().map(str::to_owned);
                let metadata = &object["metadata"];
                let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
                let owner = owners.into_iter().find(|owner| owner["controller"] == true);
                Self {
                    kind: kind.to_owned(),
                    namespace: text(&metadata["namespace"]).unwrap_or_else(|| namespace.to_owned()),
                    name: text(&metadata["name"])
                        .or_else(|| text(&metadata["generateName"]))
                        .unwrap_or_else(|| "?".into()),
                    pods,
                    annotations: template["metadata"]["annotations"].clone(),
                    spec: template["spec"].clone(),
                    exists: exists && kind == "Pod",
                    status: object["status"].clone(),
                    owner: owner.and_then(|owner| Some((text(&owner["kind"])?, text(&owner["name"])?))),
                }
            })
        };
        let number = |value: &Value| value.as_u64().unwrap_or(1);
        match kind {
            "Pod" => new(object, 1).into_iter().collect(),
            "Job" => new(&spec["template"], number(&spec["parallelism"]))
                .into_iter()
                .collect(),
            "CronJob" => {
                let job = &spec["jobTemplate"]["spec"];
                new(&job["template"], number(&job["parallelism"]))
                    .into_iter()
                    .collect()
            }
            "JobSet" => {
                let jobs = spec["replicatedJobs"].as_array().into_iter().flatten();
                jobs.filter_map(|job| {
                    let of_job = &job["template"]["spec"];
                    let pods = number(&job["replicas"]).saturating_mul(number(&of_job["parallelism"]));
                    new(&of_job["template"], pods)
                })
                .collect()
            }
            _ => {
                // Kubeflow's kinds: PyTorchJob, MPIJob, …
                let groups = spec.as_object().into_iter().flatten();
                let replicas = groups
                    .filter(|(name, _)| name.ends_with("ReplicaSpecs"))
                    .filter_map(|(_, group)| group.as_object())
                    .flat_map(|group| group.values())
                    .filter_map(|replica| new(&replica["template"], number(&replica["replicas"])));
                let own = new(&spec["template"], number(&spec["replicas"]));
                replicas.chain(own).collect()
            }
        }
    }

    /// Whether its pods have ended, and no further ones will start.
    pub(crate) fn has_ended(&self) -> bool {
        let conditions = self.status["conditions"].as_array().into_iter().flatten();
        matches!(self.status["phase"].as_str(), Some("Succeeded" | "Failed"))
            || conditions.into_iter().any(|one| {
                let kind = one["type"].as_str().unwrap_or_default();
                one["status"] == "True" && matches!(kind, "Complete" | "Completed" | "Succeeded" | "Failed")
            })
    }

    /// `StatefulSet team-a/train`.
    pub(crate) fn subject(&self) -> String {
        format!("{} {}/{}", self.kind, self.namespace, self.name)
    }

    /// The service account of its pods.
    pub(crate) fn account(&self) -> &str {
        let name = self.spec["serviceAccountName"].as_str();
        name.filter(|name| !name.is_empty()).unwrap_or("default")
    }

    /// The namespaces of its network attachments.
    pub fn attachment_namespaces(&self) -> Vec<String> {
        let networks = self.networks().unwrap_or_default();
        networks.into_iter().map(|network| network.namespace).collect()
    }

    /// Its networks, or why the annotation is not valid.
    pub(crate) fn networks(&self) -> Result<Vec<Network>, String> {
        match self.annotations[NETWORKS].as_str() {
            Some(text) => pod::networks(text, &self.namespace),
            None => Ok(Vec::new()),
        }
    }

    /// Whether it asks for anything that RDMA needs.
    pub(crate) fn uses_rdma(&self, cluster: &Cluster) -> bool {
        !self.networks().is_ok_and(|networks| networks.is_empty())
            || pod::devices(&self.spec)
                .keys()
                .any(|name| is_rdma(name) || cluster.is_of_an_attachment(name))
            || pod::added_capabilities(&self.spec).contains(&"IPC_LOCK")
    }
}

/// Whether a resource is an RDMA device, by its name.
pub(crate) fn is_rdma(resource: &str) -> bool {
    let name = resource.to_ascii_lowercase();
    resource == EFA
        || name.starts_with("rdma/")
        || name
            .split('/')
            .nth(1)
            .is_some_and(|name| RDMA_WORDS.iter().any(|word| name.contains(word)))
}
