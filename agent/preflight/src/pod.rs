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

/// What one container asks for of devices: for a device, the limit is the request.
pub(crate) type Devices = BTreeMap<String, u64>;

/// Whether an init container runs as long as the others (a sidecar).
fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn add(sum: &mut Devices, more: Devices) {
    for (name, number) in more {
        let entry = sum.entry(name).or_default();
        *entry = entry.saturating_add(number);
    }
}

/// The devices for which the scheduler looks: resources with a domain in their name. Init containers run one after the other and
/// before the others, together with the sidecars that started earlier, so the largest number counts.
pub(crate) fn devices(spec: &Value) -> Devices {
    let mut sidecars = Devices::new();
    let mut most = Devices::new();
    let mut at_least = |needed: &Devices| {
        for (name, number) in needed {
            let entry = most.entry(name.clone()).or_default();
            *entry = (*number).max(*entry);
        }
    };
    for container in list(&spec["initContainers"]) {
        let mut now = sidecars.clone();
        add(&mut now, of_container(container));
        at_least(&now);
        if is_sidecar(container) {
            sidecars = now;
        }
    }
    at_least(&running_devices(spec));
    most
}

/// The devices of the containers that run together: without those that only init containers get.
pub(crate) fn running_devices(spec: &Value) -> Devices {
    let mut sum = Devices::new();
    let sidecars = list(&spec["initContainers"]).filter(|one| is_sidecar(one));
    for container in sidecars.chain(containers(spec)) {
        add(&mut sum, of_container(container));
    }
    sum
}

/// The devices of one container. A missing request is equal to the limit.
pub(crate) fn of_container(container: &Value) -> Devices {
    let mut found = Devices::new();
    for kind in ["limits", "requests"] {
        for (name, number) in container["resources"][kind].as_object().into_iter().flatten() {
            if let Some(number) = quantity::whole(number).filter(|_| is_device(name)) {
                found.insert(name.clone(), number);
            }
        }
    }
    found
}

/// Whether a resource is one that the API server calls extended.
fn is_device(resource: &str) -> bool {
    resource.contains('/') && !resource.starts_with("requests.")
}

/// Device resources with values that the API server refuses: the container, the resource, and what is wrong.
pub(crate) fn refused_values(spec: &Value) -> Vec<(&str, &str, &'static str)> {
    let mut found = Vec::new();
    for container in all_containers(spec) {
        let name = container["name"].as_str().unwrap_or("?");
        let of = |kind: &str| container["resources"][kind].as_object();
        let (limits, requests) = (of("limits"), of("requests"));
        for (resource, number) in limits.into_iter().chain(requests).flatten() {
            if !is_device(resource) {
                continue;
            }
            let limit = limits.and_then(|all| all.get(resource));
            let request = requests.and_then(|all| all.get(resource));
            let wrong = if quantity::whole(number).is_none() {
                "with a value that is not a whole number"
            } else if limit.is_none() {
                "in requests but not in limits"
            } else if request
                .is_some_and(|request| quantity::whole(request) != limit.and_then(quantity::whole))
            {
                "with different values in requests and limits"
            } else {
                continue;
            };
            if !found
                .iter()
                .any(|(known, of, _)| (*known, *of) == (name, resource.as_str()))
            {
                found.push((name, resource.as_str(), wrong));
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

/// Whether a container sees the RDMA device files of the node through a hostPath volume.
pub(crate) fn mounts_devices(spec: &Value, container: &Value) -> bool {
    let has_devices = |volume: &Value| {
        let path = volume["hostPath"]["path"].as_str().unwrap_or_default();
        let path = path.trim_end_matches('/');
        path == "/dev" || path == "/dev/infiniband" || path.starts_with("/dev/infiniband/")
    };
    list(&container["volumeMounts"]).any(|mount| {
        let name = &mount["name"];
        name.is_string()
            && list(&spec["volumes"]).any(|volume| volume["name"] == *name && has_devices(volume))
    })
}

/// Whether some container does.
pub(crate) fn has_device_files(spec: &Value) -> bool {
    all_containers(spec).any(|container| mounts_devices(spec, container))
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
