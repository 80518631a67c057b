//! Which pod was given which RDMA function.
//!
//! The kubelet knows devices by the names that their plugin chose. The SR-IOV device plugin uses PCI addresses, drivers of dynamic
//! resource allocation make a DNS label of the address (`0000-41-00-2`) or use the network device, EFA's plugin uses the RDMA
//! device. The RDMA shared device plugin uses numbers: its pods may use any device of the resource.

use std::collections::BTreeMap;

use rdma_health_kernel::pci::Role;
use serde::Serialize;

use crate::Node;

/// The prefix of resources of the RDMA shared device plugin, unless it is configured otherwise.
const SHARED: &str = "rdma/";

/// A container of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Container<'a> {
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub pod: &'a str,
    /// Name of the container.
    pub container: &'a str,
}

/// An RDMA function that a container was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Allocation<'a> {
    /// PCI address of the function.
    pub address: &'a str,
    /// Its RDMA device; `None` if that is in the pod's network namespace, or if the function has none.
    pub device: Option<&'a str>,
    /// The physical function of a virtual function.
    pub physical_function: Option<&'a str>,
    /// The resource of the device plugin (`openshift.io/eno5np0rdma`), or the DRA driver.
    pub resource: &'a str,
    /// Who has it.
    #[serde(flatten)]
    pub container: Container<'a>,
}

/// A container that may use any device of a shared resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SharedUse<'a> {
    /// `rdma/hca_shared_devices_a`.
    pub resource: &'a str,
    /// Who uses it.
    #[serde(flatten)]
    pub container: Container<'a>,
}

/// Virtual functions of a physical function that pods have or can get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered<'a> {
    /// PCI address of the physical function.
    pub address: &'a str,
    /// Number of virtual functions that containers may be given, used or not.
    pub allocatable: usize,
    /// Number of virtual functions that containers have.
    pub allocated: usize,
    /// The resources that offer them.
    pub resources: Vec<&'a str>,
}

/// An RDMA function that names stand for.
#[derive(Debug, Clone, Copy)]
struct Known<'a> {
    address: &'a str,
    device: Option<&'a str>,
    physical_function: Option<&'a str>,
}

/// The RDMA functions of a node by the names that plugins use.
struct Names<'a>(BTreeMap<String, Known<'a>>);

impl<'a> Names<'a> {
    fn of(node: &'a Node) -> Self {
        let mut functions: BTreeMap<&str, Known<'a>> = BTreeMap::new();
        for function in node.functions() {
            if !matches!(function.role, Role::Rdma | Role::Capable) {
                continue;
            }
            let address = function.address;
            let known = functions.entry(address).or_insert(Known {
                address,
                device: None,
                physical_function: None,
            });
            known.device = function.names.first().copied();
            let Some(pci) = function.pci else { continue };
            known.physical_function = pci.physical_function.known().map(String::as_str);
            // Those that a pod or a virtual machine has may show no device here.
            for virtual_function in pci.sriov.known().into_iter().flat_map(|sriov| &sriov.functions) {
                functions
                    .entry(&virtual_function.address)
                    .or_insert(Known {
                        address: &virtual_function.address,
                        device: None,
                        physical_function: None,
                    })
                    .physical_function = Some(address);
            }
        }
        let mut names = BTreeMap::new();
        // In reverse order of precedence.
        for port in node.ports().filter(|port| !port.hca.is_software()) {
            let address = port.hca.pci_address.known();
            if let Some(known) = address.and_then(|address| functions.get(address.as_str())) {
                let netdev = port.kernel.netdev.known().map(|netdev| netdev.name.clone());
                names.extend(netdev.map(|name| (name, *known)));
                names.insert(port.hca.name.clone(), *known);
            }
        }
        for (address, known) in functions {
            names.insert(address.replace([':', '.'], "-"), known);
            names.insert(address.to_owned(), known);
        }
        Self(names)
    }

    fn find(&self, id: &str) -> Option<Known<'a>> {
        // NVIDIA's and others' plugins add a number to a device that several containers share.
        let id = id.split("::").next().unwrap_or(id);
        let found = self.0.get(id).or_else(|| self.0.get(id.strip_prefix("pci-")?));
        found.copied()
    }
}

impl Node {
    /// The RDMA functions that containers were given, in order of address; empty if the kubelet could not be asked.
    pub fn allocations(&self) -> Vec<Allocation<'_>> {
        let mut found = Vec::new();
        if self.kubelet.pods.known().is_none_or(Vec::is_empty) {
            return found;
        }
        let names = Names::of(self);
        for (container, resource, id) in self.given() {
            if let Some(known) = names.find(id) {
                found.push(Allocation {
                    address: known.address,
                    device: known.device,
                    physical_function: known.physical_function,
                    resource,
                    container,
                });
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The containers that may use any device of a shared RDMA resource.
    pub fn shared_uses(&self) -> Vec<SharedUse<'_>> {
        let shared = self
            .given()
            .filter(|(_, resource, _)| resource.starts_with(SHARED));
        let mut shared: Vec<_> = shared.collect();
        if shared.is_empty() {
            return Vec::new();
        }
        let names = Names::of(self);
        shared.retain(|(_, _, id)| names.find(id).is_none());
        let mut uses: Vec<_> = shared
            .into_iter()
            .map(|(container, resource, _)| SharedUse { resource, container })
            .collect();
        uses.sort_unstable();
        uses.dedup();
        uses
    }

    /// The virtual functions that pods have or can get, by physical function.
    pub fn offered_functions(&self) -> Vec<Offered<'_>> {
        let allocatable = self.kubelet.allocatable.known().into_iter().flatten();
        let allocatable = allocatable.flat_map(|devices| {
            let resource = devices.resource_name.as_str();
            devices.device_ids.iter().map(move |id| (resource, id.as_str()))
        });
        let given = self.given().map(|(_, resource, id)| (resource, id));
        let mut all = allocatable
            .map(|offer| (offer, false))
            .chain(given.map(|offer| (offer, true)))
            .peekable();
        if all.peek().is_none() {
            return Vec::new();
        }
        let names = Names::of(self);
        // By physical function, and then each virtual function once: a device may be listed under several resources.
        let mut found: BTreeMap<&str, BTreeMap<(&str, bool), &str>> = BTreeMap::new();
        for ((resource, id), is_given) in all {
            let Some(known) = names.find(id) else { continue };
            let Some(physical) = known.physical_function else {
                continue;
            };
            found
                .entry(physical)
                .or_default()
                .insert((known.address, is_given), resource);
        }
        found
            .into_iter()
            .map(|(address, functions)| {
                let mut resources: Vec<_> = functions.values().copied().collect();
                resources.sort_unstable();
                resources.dedup();
                let number = |given: bool| {
                    functions
                        .keys()
                        .filter(|(_, is_given)| *is_given == given)
                        .count()
                };
                Offered {
                    address,
                    allocatable: number(false),
                    allocated: number(true),
                    resources,
                }
            })
            .collect()
    }

    /// Each device of each container, by the name of its plugin or driver.
    fn given(&self) -> impl Iterator<Item = (Container<'_>, &str, &str)> {
        let pods = self.kubelet.pods.known().into_iter().flatten();
        let containers = pods.flat_map(|pod| {
            pod.containers.iter().map(move |container| {
                let name = Container {
                    namespace: &pod.namespace,
                    pod: &pod.name,
                    container: &container.name,
                };
                (name, container)
            })
        });
        containers.flat_map(|(name, container)| {
            let plugins = container.devices.iter().flat_map(|devices| {
                let ids = devices.device_ids.iter();
                ids.map(|id| (devices.resource_name.as_str(), id.as_str()))
            });
            let claims = container
                .dynamic_resources
                .iter()
                .flat_map(|claim| &claim.claim_resources)
                .map(|device| (device.driver_name.as_str(), device.device_name.as_str()));
            plugins
                .chain(claims)
                .map(move |(resource, id)| (name, resource, id))
        })
    }
}

impl Node {
    /// The pods that are affected by a fault of `subject`, an RDMA device or a PCI address, as `NAMESPACE/POD`, each once: those that
    /// were given it, or a virtual function of it. `allocations` are [`Node::allocations`].
    pub fn affected_pods(&self, allocations: &[Allocation<'_>], subject: &str) -> Vec<String> {
        let hca = self.hcas().find(|hca| hca.name == subject);
        let address = hca
            .and_then(|hca| hca.pci_address.known())
            .map_or(subject, String::as_str);
        let mut pods: Vec<_> = allocations
            .iter()
            .filter(|one| one.address == address || one.physical_function == Some(address))
            .map(|one| format!("{}/{}", one.container.namespace, one.container.pod))
            .collect();
        pods.sort_unstable();
        pods.dedup();
        pods
    }
}
