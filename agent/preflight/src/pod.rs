//! What a pod's specification asks for.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::quantity;

/// The most containers that are looked at; a pod has a handful.
const MOST_CONTAINERS: usize = 200;
/// The annotation that lists a pod's networks.
pub(crate) const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// Its containers.
pub(crate) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    list(&spec["containers"])
}

/// Its init containers and containers.
pub(crate) fn all_containers(spec: &Value) -> impl Iterator<Item = &Value> {
    list(&spec["initContainers"]).chain(containers(spec))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(MOST_CONTAINERS)
}

/// The devices that it requests: resources with a domain in their name. Init containers run before the others, so the larger number
/// counts.
pub(crate) fn devices(spec: &Value) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for container in containers(spec) {
        for (name, number) in of_container(container) {
            let entry: &mut u64 = sum.entry(name).or_default();
            *entry = entry.saturating_add(number);
        }
    }
    for container in list(&spec["initContainers"]) {
        for (name, number) in of_container(container) {
            let entry = sum.entry(name).or_default();
            *entry = number.max(*entry);
        }
    }
    sum
}

/// The devices of one container. For a device, limits and requests are equal; one of them is enough.
fn of_container(container: &Value) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for kind in ["requests", "limits"] {
        for (name, number) in container["resources"][kind].as_object().into_iter().flatten() {
            if let Some(number) = quantity::whole(number).filter(|_| name.contains('/')) {
                found.insert(name.clone(), number);
            }
        }
    }
    found
}

/// The sum that quotas count for a resource such as `cpu`. `None` if a container does not set it.
pub(crate) fn sum(spec: &Value, kind: &str, resource: &str) -> Option<f64> {
    containers(spec)
        .map(|container| {
            let resources = &container["resources"];
            // A missing request is equal to the limit.
            let fallback = (kind == "requests").then(|| &resources["limits"][resource]);
            quantity::value(&resources[kind][resource]).or_else(|| quantity::value(fallback?))
        })
        .sum()
}

/// A network of the annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The name of its interface in the pod, if the annotation sets one. Multus otherwise names them `net1`, `net2`, …
    pub(crate) interface: Option<String>,
}

/// The networks of the annotation: a list as JSON, or `NAMESPACE/NAME@INTERFACE,…`.
pub(crate) fn networks(annotation: &str, namespace: &str) -> Result<Vec<Network>, String> {
    if annotation.trim_start().starts_with('[') {
        let list: Vec<Value> = serde_json::from_str(annotation).map_err(|error| error.to_string())?;
        return list
            .iter()
            .map(|entry| {
                let name = entry["name"].as_str().ok_or("an entry has no name")?;
                Ok(Network {
                    namespace: entry["namespace"].as_str().unwrap_or(namespace).to_owned(),
                    name: name.to_owned(),
                    interface: entry["interface"].as_str().map(str::to_owned),
                })
            })
            .collect();
    }
    let items = annotation
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    Ok(items
        .map(|item| {
            let (item, interface) = match item.split_once('@') {
                Some((item, interface)) => (item, Some(interface.to_owned())),
                None => (item, None),
            };
            let (namespace, name) = item.split_once('/').unwrap_or((namespace, item));
            Network {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                interface,
            }
        })
        .collect())
}

/// The capabilities that its containers add, each once.
pub(crate) fn added_capabilities(spec: &Value) -> Vec<&str> {
    let mut all: Vec<_> = all_containers(spec)
        .flat_map(|container| list(&container["securityContext"]["capabilities"]["add"]))
        .filter_map(|name| Some(name.as_str()?.trim_start_matches("CAP_")))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The containers in which some condition holds, by name.
pub(crate) fn names_of(spec: &Value, holds: impl Fn(&Value) -> bool) -> Vec<&str> {
    all_containers(spec)
        .filter(|container| holds(container))
        .map(|container| container["name"].as_str().unwrap_or("?"))
        .collect()
}

/// A field of a container's security context, or else of the pod's.
pub(crate) fn security<'a>(spec: &'a Value, container: &'a Value, field: &str) -> &'a Value {
    let own = &container["securityContext"][field];
    if own.is_null() {
        &spec["securityContext"][field]
    } else {
        own
    }
}
