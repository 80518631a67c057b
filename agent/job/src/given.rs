//! The devices that a pod was given, from what each allocator leaves in the pod.
//!
//! - sriov-network-device-plugin: `PCIDEVICE_RESOURCE=ADDRESS,…`, and `PCIDEVICE_RESOURCE_INFO` with a JSON object
//!   `{"ADDRESS": {"rdma": {"rdma_dev": "mlx5_6", …}}}`; versions before March 2025 have no `rdma_dev`.
//! - dra-driver-sriov: `SRIOVNETWORK_PCI_ADDRESSES=ADDRESS,…` and `SRIOVNETWORK_DEVICE_RDMA_DEVICE=mlx5_6`.
//! - Device metadata of DRA drivers (KEP-5304): JSON documents with attributes, several versions in one file.
//! - Multus: the network status annotation, if the pod mounts it.
//!
//! The plugin for shared RDMA devices leaves nothing but device nodes.

use std::collections::BTreeMap;

use serde_json::{Deserializer, Map, Value};

/// Maximum number of devices that are used; NCCL uses at most 32 ports.
const MAX_GRANTS: usize = 256;

/// One device that the pod was given; at least one of the names is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Its PCI address.
    pub pci_address: Option<String>,
    /// Its RDMA device (`mlx5_6`).
    pub device: Option<String>,
    /// Its network device in the pod.
    pub netdev: Option<String>,
    /// The variable or file that names it.
    pub source: String,
}

/// What the pod was given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// The devices, in the order of their sources; each once.
    pub grants: Vec<Grant>,
    /// What could not be understood: the source, what is wrong, and what was expected.
    pub problems: Vec<String>,
}

impl Given {
    /// What environment variables name.
    pub fn in_environment(variables: &BTreeMap<String, String>) -> Self {
        let mut given = Self::default();
        for (name, value) in variables {
            if name.starts_with("PCIDEVICE_") {
                match name.strip_suffix("_INFO") {
                    Some(_) if value.trim_start().starts_with('{') => given.plugin_information(name, value),
                    _ => given.addresses(name, value),
                }
            } else if name == "SRIOVNETWORK_PCI_ADDRESSES" {
                given.addresses(name, value);
            } else if name.starts_with("SRIOVNETWORK_") && name.ends_with("_RDMA_DEVICE") {
                given.add(Grant {
                    device: Some(value.trim().to_owned()),
                    source: name.clone(),
                    ..Grant::default()
                });
            }
        }
        given
    }

    /// Adds the devices of a DRA driver's metadata file.
    pub fn add_metadata(&mut self, file: &str, text: &str) {
        // Several versions of the same document may follow each other: the first one that is JSON has all devices.
        match Deserializer::from_str(text).into_iter::<Value>().next() {
            Some(Ok(document)) => {
                let before = self.grants.len();
                self.attributes(file, &document, 0);
                if self.grants.len() == before {
                    self.problem(
                        file,
                        "has no device with an attribute for its PCI address or network device",
                    );
                }
            }
            Some(Err(error)) => self.problem(file, &format!("is not JSON: {error}")),
            None => self.problem(file, "is empty"),
        }
    }

    /// Adds the devices of the annotation `k8s.v1.cni.cncf.io/network-status`.
    pub fn add_network_status(&mut self, file: &str, text: &str) {
        let networks = match serde_json::from_str::<Value>(text) {
            Ok(Value::Array(networks)) => networks,
            Ok(_) => return self.problem(file, "is not a list of networks"),
            Err(error) => return self.problem(file, &format!("is not JSON: {error}")),
        };
        for network in &networks {
            let pci = &network["device-info"]["pci"];
            let Some(address) = pci["pci-address"].as_str() else {
                continue;
            };
            let netdev = network["interface"].as_str().map(str::to_owned);
            // Several RDMA devices are separated by commas.
            let devices = pci["rdma-device"].as_str().unwrap_or_default();
            for device in devices.split(',').map(str::trim) {
                self.add(Grant {
                    pci_address: Some(address.to_owned()),
                    device: Some(device.to_owned()).filter(|device| !device.is_empty()),
                    netdev: netdev.clone(),
                    source: file.to_owned(),
                });
            }
        }
    }

    /// A list of PCI addresses, or of auxiliary devices (`mlx5_core.sf.4`).
    fn addresses(&mut self, name: &str, value: &str) {
        for item in value.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            if is_pci_address(item) {
                self.add(Grant {
                    pci_address: Some(item.to_ascii_lowercase()),
                    source: name.to_owned(),
                    ..Grant::default()
                });
            } else if !is_auxiliary(item) {
                self.problem(
                    name,
                    &format!("has \"{item}\", expected a PCI address like 0000:41:00.2"),
                );
            }
        }
    }

    fn plugin_information(&mut self, name: &str, value: &str) {
        let devices: Map<String, Value> = match serde_json::from_str(value) {
            Ok(devices) => devices,
            Err(error) => return self.problem(name, &format!("is not a JSON object of devices: {error}")),
        };
        for (id, providers) in &devices {
            let device = providers["rdma"]["rdma_dev"].as_str().map(str::to_owned);
            let pci_address = is_pci_address(id).then(|| id.to_ascii_lowercase());
            if device.is_some() || pci_address.is_some() {
                self.add(Grant {
                    pci_address,
                    device,
                    netdev: None,
                    source: name.to_owned(),
                });
            }
        }
    }

    /// Every object of the document with attributes of a device. `depth` bounds what a hostile document costs.
    fn attributes(&mut self, file: &str, value: &Value, depth: usize) {
        const DEEPEST: usize = 16;
        match value {
            Value::Object(object) if depth < DEEPEST => {
                if let Some(Value::Object(attributes)) = object.get("attributes") {
                    let named = |names: &[&str]| names.iter().find_map(|name| text(attributes.get(*name)?));
                    let grant = Grant {
                        pci_address: named(&[
                            "resource.kubernetes.io/pciBusID",
                            "dra.net/pciAddress",
                            "pciAddress",
                        ])
                        .map(|address| address.to_ascii_lowercase()),
                        device: named(&["dra.net/rdmaDevice", "rdmaDevice"]),
                        netdev: named(&["dra.net/ifName", "interfaceName"]),
                        source: file.to_owned(),
                    };
                    if grant.pci_address.is_some() || grant.device.is_some() || grant.netdev.is_some() {
                        self.add(grant);
                    }
                }
                for value in object.values() {
                    self.attributes(file, value, depth + 1);
                }
            }
            Value::Array(values) if depth < DEEPEST => {
                for value in values {
                    self.attributes(file, value, depth + 1);
                }
            }
            _ => {}
        }
    }

    /// Adds a device, or completes one that another source named by the same address or RDMA device.
    fn add(&mut self, grant: Grant) {
        let same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
        let known = self.grants.iter().position(|known| {
            same(&known.device, &grant.device)
                || same(&known.pci_address, &grant.pci_address)
                    && (known.device.is_none() || grant.device.is_none())
        });
        if let Some(known) = known.and_then(|known| self.grants.get_mut(known)) {
            known.pci_address = known.pci_address.take().or(grant.pci_address);
            known.device = known.device.take().or(grant.device);
            known.netdev = known.netdev.take().or(grant.netdev);
        } else if self.grants.len() < MAX_GRANTS {
            self.grants.push(grant);
        } else {
            let rest = format!("names more than {MAX_GRANTS} devices; the rest is ignored");
            self.problem(&grant.source, &rest);
        }
    }

    fn problem(&mut self, source: &str, what: &str) {
        let problem = format!("{source} {what}");
        if !self.problems.contains(&problem) && self.problems.len() < MAX_GRANTS {
            self.problems.push(problem);
        }
    }
}

/// The text of an attribute: `{"string": "…"}`, or a plain string.
fn text(attribute: &Value) -> Option<String> {
    let text = attribute.as_str().or_else(|| attribute.get("string")?.as_str())?;
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// `0000:41:00.2`.
fn is_pci_address(text: &str) -> bool {
    let hexadecimal =
        |part: &str, digits: usize| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
    let mut parts = text.split([':', '.']);
    let (domain, bus, slot, function) = (parts.next(), parts.next(), parts.next(), parts.next());
    parts.next().is_none()
        && domain.is_some_and(|part| (4..=8).contains(&part.len()) && hexadecimal(part, part.len()))
        && bus.is_some_and(|part| hexadecimal(part, 2))
        && slot.is_some_and(|part| hexadecimal(part, 2))
        && function.is_some_and(|part| hexadecimal(part, 1))
}

/// The name of a subfunction on the auxiliary bus. Its RDMA device is in the `_INFO` variable.
fn is_auxiliary(text: &str) -> bool {
    let mut parts = text.split('.');
    let driver = parts.next().unwrap_or_default();
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain(driver) && parts.clone().count() == 2 && parts.all(plain)
}

#[cfg(test)]
#[path = "given_tests.rs"]
mod tests;
