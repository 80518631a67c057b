//! The pods of a namespace or manifest, and what creates pods.

use serde_json::Value;

use crate::{
    cluster::Cluster,
    pod::{self, NETWORKS, Network},
    templates::{self, Template, templates},
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
        let templates = if kind == "Pod" {
            let has_containers = object["spec"]["containers"].is_array();
            Vec::from_iter(has_containers.then_some(Template { pod: object, pods: 1 }))
        } else {
            templates(&object["spec"])
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let metadata = &object["metadata"];
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners.into_iter().find(|owner| owner["controller"] == true);
        let new = |template: Template<'_>| Self {
            kind: kind.to_owned(),
            namespace: text(&metadata["namespace"]).unwrap_or_else(|| namespace.to_owned()),
            name: text(&metadata["name"])
                .or_else(|| text(&metadata["generateName"]))
                .unwrap_or_else(|| "?".into()),
            pods: template.pods,
            annotations: template.pod["metadata"]["annotations"].clone(),
            spec: template.pod["spec"].clone(),
            exists: exists && kind == "Pod",
            status: object["status"].clone(),
            owner: owner.and_then(|owner| Some((text(&owner["kind"])?, text(&owner["name"])?))),
        };
        templates.into_iter().map(new).collect()
    }

    /// Why an object of a manifest is not checked although it may create pods, with its kind and name; none of the others.
    pub fn not_understood(object: &Value, namespace: &str) -> Vec<(String, String)> {
        let kind = object["kind"].as_str().unwrap_or_default();
        if let Some(items) = object["items"].as_array().filter(|_| kind.ends_with("List")) {
            let all = items
                .iter()
                .flat_map(|item| Self::not_understood(item, namespace));
            return all.collect();
        }
        if !Self::in_object(object, namespace, false).is_empty() {
            return Vec::new();
        }
        let name = object["metadata"]["name"].as_str().unwrap_or("?");
        let kind = if kind.is_empty() { "object" } else { kind };
        let why = templates::not_understood(object);
        Vec::from_iter(why.map(|why| (format!("{kind} {name}"), why.to_owned())))
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

    /// Whether its pods are those of this kind and name.
    pub(crate) fn is(&self, kind: &str, name: &str) -> bool {
        self.kind == kind && self.name == name
    }

    /// The service account of its pods.
    pub(crate) fn account(&self) -> &str {
        let name = self.spec["serviceAccountName"].as_str();
        name.filter(|name| !name.is_empty()).unwrap_or("default")
    }

    /// What of its pods is not evaluated although it may keep them from starting.
    pub(crate) fn not_evaluated(&self) -> Vec<&'static str> {
        let some = |value: &Value| value.as_array().is_some_and(|all| !all.is_empty());
        Vec::from_iter(some(&self.spec["resourceClaims"]).then_some("resource claims (DRA)"))
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
            || pod::has_device_files(&self.spec)
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
