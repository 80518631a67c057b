//! What was read from the API server.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{quantity, workload::Workload};

/// The annotation of an attachment that names the resource of its devices.
pub(crate) const RESOURCE_NAME: &str = "k8s.v1.cni.cncf.io/resourceName";

/// A list of objects.
#[derive(Debug, Clone, PartialEq)]
pub enum Listed {
    /// The server's answer.
    Read(Vec<Value>),
    /// The server does not know this kind of object.
    NotInstalled,
    /// It could not be read, and why.
    NotRead(String),
}

impl Default for Listed {
    fn default() -> Self {
        Self::NotRead("it was not requested".into())
    }
}

impl Listed {
    /// The objects; none if they could not be read.
    pub fn items(&self) -> &[Value] {
        match self {
            Self::Read(items) => items,
            Self::NotInstalled | Self::NotRead(_) => &[],
        }
    }

    /// The object with this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Value> {
        self.items()
            .iter()
            .find(|object| object["metadata"]["name"] == name)
    }
}

/// The devices that running pods hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    holders: Vec<Holder>,
}

/// A pod that holds devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Kind and name of its controller.
    pub(crate) owner: Option<(String, String)>,
    pub(crate) node: String,
    pub(crate) devices: BTreeMap<String, u64>,
}

impl Holder {
    /// NAMESPACE/NAME.
    pub(crate) fn shown(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl Usage {
    /// Adds a pod that was assigned to a node and has not ended.
    pub fn add(&mut self, pod: &Value) {
        let Some(node) = pod["spec"]["nodeName"].as_str() else {
            return;
        };
        if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
            return;
        }
        let devices = crate::pod::devices(&pod["spec"]);
        if devices.is_empty() {
            return;
        }
        let metadata = &pod["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners.into_iter().find(|owner| owner["controller"] == true);
        self.holders.push(Holder {
            namespace: text(&metadata["namespace"]),
            name: text(&metadata["name"]),
            owner: owner.map(|owner| (text(&owner["kind"]), text(&owner["name"]))),
            node: node.to_owned(),
            devices,
        });
    }

    /// How many of each resource are held, by node.
    pub(crate) fn by_node(&self) -> BTreeMap<&str, BTreeMap<&str, u64>> {
        let mut nodes: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        for holder in &self.holders {
            let of_node = nodes.entry(&holder.node).or_default();
            for (resource, number) in &holder.devices {
                let sum = of_node.entry(resource).or_default();
                *sum = sum.saturating_add(*number);
            }
        }
        nodes
    }

    pub(crate) fn all(&self) -> &[Holder] {
        &self.holders
    }

    /// The pods that hold this resource.
    pub(crate) fn holders<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = &'a Holder> {
        self.holders
            .iter()
            .filter(move |one| one.devices.get(resource).is_some_and(|number| *number > 0))
    }
}

/// What is known about the cluster.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    /// The namespace to check.
    pub namespace: String,
    /// The object of the namespace: one or none.
    pub namespace_object: Listed,
    /// Pods of the namespace.
    pub pods: Listed,
    /// Controllers of the namespace that create pods, by plural name.
    pub controllers: BTreeMap<String, Listed>,
    /// Network attachments by namespace.
    pub attachments: BTreeMap<String, Listed>,
    /// Nodes.
    pub nodes: Listed,
    /// Quotas of the namespace.
    pub quotas: Listed,
    /// Limit ranges of the namespace.
    pub limit_ranges: Listed,
    /// Events of the namespace of type Warning.
    pub events: Listed,
    /// Service accounts of the namespace.
    pub service_accounts: Listed,
    /// `SecurityContextConstraints`; not installed outside of OpenShift.
    pub sccs: Listed,
    /// Whether RBAC lets a service account use an SCC, by account and SCC, or why that is unknown.
    pub scc_use: BTreeMap<(String, String), Result<bool, String>>,
    /// `MutatingWebhookConfigurations`.
    pub webhooks: Listed,
    /// Devices in use, or why that is unknown.
    pub usage: Option<Result<Usage, String>>,
    /// Objects of manifests that may create pods and were not understood, and why.
    pub not_understood: Vec<(String, String)>,
}

impl Cluster {
    /// The allocatable number of a resource on each node that has it.
    pub(crate) fn allocatable<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = (&'a Value, u64)> {
        self.nodes
            .items()
            .iter()
            .filter_map(move |node| Some((node, allocatable(node, resource)?)))
    }

    /// Every device resource that a node advertises.
    pub(crate) fn known_resources(&self) -> std::collections::BTreeSet<&str> {
        let nodes = self.nodes.items().iter();
        nodes
            .filter_map(|node| node["status"]["allocatable"].as_object())
            .flat_map(|all| all.keys())
            .map(String::as_str)
            .filter(|name| name.contains('/'))
            .collect()
    }

    /// Whether some attachment names this resource.
    pub(crate) fn is_of_an_attachment(&self, resource: &str) -> bool {
        let mut all = self.attachments.values().flat_map(Listed::items);
        all.any(|attachment| attachment["metadata"]["annotations"][RESOURCE_NAME] == resource)
    }

    /// Whether a webhook adds the resources of attachments to pods, as that of the SR-IOV network operator does.
    pub(crate) fn injects_resources(&self) -> bool {
        let mut all = self.webhooks.items().iter();
        all.any(|one| {
            let name = one["metadata"]["name"].as_str().unwrap_or_default();
            name.contains("network-resources-injector")
        })
    }
}

/// The allocatable number of a resource of a node, if the node advertises it.
pub(crate) fn allocatable(node: &Value, resource: &str) -> Option<u64> {
    quantity::whole(&node["status"]["allocatable"][resource])
}

/// What manifests add.
impl Cluster {
    /// Adds the objects of manifests as if they existed: network attachments, service accounts, and roles that let an account use
    /// an SCC.
    pub fn add_manifests(&mut self, objects: &[Value]) {
        let own = self.namespace.clone();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        for object in objects {
            self.not_understood.extend(Workload::not_understood(object, &own));
            let namespace = text(&object["metadata"]["namespace"]).unwrap_or_else(|| own.clone());
            match object["kind"].as_str().unwrap_or_default() {
                "NetworkAttachmentDefinition" => {
                    if let Listed::Read(known) = self.attachments.entry(namespace).or_default() {
                        replace(known, object);
                    }
                }
                "ServiceAccount" if namespace == own => {
                    if let Listed::Read(known) = &mut self.service_accounts {
                        replace(known, object);
                    }
                }
                "RoleBinding" if namespace == own => self.add_binding(object, objects),
                _ => {}
            }
        }
    }

    fn add_binding(&mut self, binding: &Value, objects: &[Value]) {
        let role = objects.iter().find(|object| {
            object["kind"] == binding["roleRef"]["kind"]
                && object["metadata"]["name"] == binding["roleRef"]["name"]
        });
        let list = |value: &Value| -> Vec<String> {
            let all = value.as_array().into_iter().flatten();
            all.filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let rules = role
            .into_iter()
            .flat_map(|role| role["rules"].as_array().into_iter().flatten());
        let sccs: Vec<_> = rules
            .filter(|rule| {
                list(&rule["verbs"]).iter().any(|verb| verb == "use")
                    && list(&rule["resources"])
                        .iter()
                        .any(|name| name == "securitycontextconstraints")
            })
            .flat_map(|rule| list(&rule["resourceNames"]))
            .collect();
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let (Some("ServiceAccount"), Some(account)) =
                (subject["kind"].as_str(), subject["name"].as_str())
            else {
                continue;
            };
            for scc in &sccs {
                self.scc_use.insert((account.to_owned(), scc.clone()), Ok(true));
            }
        }
    }
}

/// Adds an object, in place of one with the same name.
fn replace(known: &mut Vec<Value>, object: &Value) {
    known.retain(|one| one["metadata"]["name"] != object["metadata"]["name"]);
    known.push(object.clone());
}
