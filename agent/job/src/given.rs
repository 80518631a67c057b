//! The devices that a pod was given, from what each allocator leaves in the pod.
//!
//! - sriov-network-device-plugin: `PCIDEVICE_RESOURCE=ADDRESS,…`, and `PCIDEVICE_RESOURCE_INFO` with a JSON object
//!   `{"ADDRESS": {"rdma": {"rdma_dev": "mlx5_6", …}}}`; versions before March 2025 have no `rdma_dev`. A resource without
//!   `isRdma` has no `rdma` at all.
//! - dra-driver-sriov: `SRIOVNETWORK_PCI_ADDRESSES=ADDRESS,…` and `SRIOVNETWORK_DEVICE_RDMA_DEVICE=mlx5_6`.
//! - Device metadata of DRA drivers (KEP-5304): JSON documents with attributes, several versions in one file.
//! - Multus: the network status annotation, if the pod mounts it.
//!
//! The plugin for shared RDMA devices leaves nothing but device nodes.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_protocol::text::excerpt;
use serde_json::{Deserializer, Map, Value};

/// Maximum number of devices that are used; NCCL uses at most 32 ports.
const MAX_GRANTS: usize = 256;
/// Number of characters of a value that a message quotes.
const QUOTED: usize = 64;

/// One device that the pod was given; at least one of the names is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Its PCI address.
    pub pci_address: Option<String>,
    /// Its RDMA device (`mlx5_6`).
    pub device: Option<String>,
    /// Its network device in the pod.
    pub netdev: Option<String>,
    /// Whether its resource is one for RDMA, if the source shows it.
    pub for_rdma: Option<bool>,
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
    /// Whether some device of this pod is not in `grants` because what names it could not be understood.
    pub incomplete: bool,
}

impl Given {
    /// What environment variables name.
    pub fn in_environment(variables: &BTreeMap<String, String>) -> Self {
        let mut given = Self::default();
        let mut subfunctions = Subfunctions::default();
        for (name, value) in variables {
            if name.starts_with("PCIDEVICE_") {
                let base = name.strip_suffix("_INFO");
                // The name of a resource can itself end in "_INFO".
                let information = base
                    .is_some_and(|base| value.trim_start().starts_with('{') || variables.contains_key(base));
                if information {
                    given.plugin_information(name, value, &mut subfunctions);
                } else {
                    given.addresses(name, value, &mut subfunctions);
                }
            } else if name == "SRIOVNETWORK_PCI_ADDRESSES" {
                given.addresses(name, value, &mut subfunctions);
            } else if name.starts_with("SRIOVNETWORK_") && name.ends_with("_RDMA_DEVICE") {
                given.rdma_devices(name, value);
            }
        }
        for (id, name) in subfunctions.named {
            if !subfunctions.resolved.contains(&id) {
                given.malformed(
                    &name,
                    &format!(
                        "names the subfunction {id}, but {name}_INFO does not name its RDMA device: update the device plugin"
                    ),
                );
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
            Some(Err(error)) => self.malformed(file, &format!("is not JSON: {error}")),
            None => self.malformed(file, "is empty"),
        }
    }

    /// Adds the devices of the annotation `k8s.v1.cni.cncf.io/network-status`.
    pub fn add_network_status(&mut self, file: &str, text: &str) {
        let networks = match serde_json::from_str::<Value>(text) {
            Ok(Value::Array(networks)) => networks,
            Ok(_) => return self.malformed(file, "is not a list of networks"),
            Err(error) => return self.malformed(file, &format!("is not JSON: {error}")),
        };
        for network in &networks {
            let pci = &network["device-info"]["pci"];
            let Some(address) = pci["pci-address"].as_str() else {
                continue;
            };
            if !is_pci_address(address) {
                self.not_an_address(file, address);
                continue;
            }
            let netdev = network["interface"].as_str().map(str::to_owned);
            // Several RDMA devices are separated by commas.
            let devices = pci["rdma-device"].as_str().unwrap_or_default();
            for device in devices.split(',').map(str::trim) {
                self.add(Grant {
                    pci_address: Some(address.to_ascii_lowercase()),
                    device: Some(device.to_owned()).filter(|device| !device.is_empty()),
                    netdev: netdev.clone(),
                    source: file.to_owned(),
                    ..Grant::default()
                });
            }
        }
    }

    /// A file or variable that names devices and could not be read.
    pub fn unread(&mut self, what: String) {
        self.incomplete = true;
        self.note(what);
    }

    /// A list of PCI addresses, or of auxiliary devices (`mlx5_core.sf.4`).
    fn addresses(&mut self, name: &str, value: &str, subfunctions: &mut Subfunctions) {
        let mut items = value
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .peekable();
        if items.peek().is_none() {
            return self.malformed(name, "is empty, expected a PCI address like 0000:41:00.2");
        }
        for item in items {
            if is_pci_address(item) {
                self.add(Grant {
                    pci_address: Some(item.to_ascii_lowercase()),
                    source: name.to_owned(),
                    ..Grant::default()
                });
            } else if is_auxiliary(item) && subfunctions.named.len() < MAX_GRANTS {
                subfunctions.named.insert(item.to_owned(), name.to_owned());
            } else {
                self.not_an_address(name, item);
            }
        }
    }

    /// Names of RDMA devices, separated by commas.
    fn rdma_devices(&mut self, name: &str, value: &str) {
        let mut devices = value
            .split(',')
            .map(str::trim)
            .filter(|device| !device.is_empty())
            .peekable();
        if devices.peek().is_none() {
            return self.malformed(name, "is empty, expected an RDMA device like mlx5_6");
        }
        for device in devices {
            self.add(Grant {
                device: Some(device.to_owned()),
                for_rdma: Some(true),
                source: name.to_owned(),
                ..Grant::default()
            });
        }
    }

    fn plugin_information(&mut self, name: &str, value: &str, subfunctions: &mut Subfunctions) {
        let devices: Map<String, Value> = match serde_json::from_str(value) {
            Ok(devices) => devices,
            Err(error) => return self.malformed(name, &format!("is not a JSON object of devices: {error}")),
        };
        for (id, providers) in &devices {
            let device = providers["rdma"]["rdma_dev"].as_str().map(str::to_owned);
            let pci_address = is_pci_address(id).then(|| id.to_ascii_lowercase());
            if is_auxiliary(id) && device.is_some() && subfunctions.resolved.len() < MAX_GRANTS {
                subfunctions.resolved.insert(id.clone());
            }
            if device.is_some() || pci_address.is_some() {
                self.add(Grant {
                    pci_address,
                    device,
                    for_rdma: Some(providers["rdma"].is_object()),
                    source: name.to_owned(),
                    ..Grant::default()
                });
            } else if !is_auxiliary(id) {
                self.not_an_address(name, id);
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
                        .map(|address| address.to_ascii_lowercase())
                        .filter(|address| is_pci_address(address)),
                        device: named(&["dra.net/rdmaDevice", "rdmaDevice"]),
                        netdev: network_name(object).or_else(|| named(&["dra.net/ifName", "interfaceName"])),
                        source: file.to_owned(),
                        ..Grant::default()
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
            known.for_rdma = known.for_rdma.or(grant.for_rdma);
        } else if self.grants.len() < MAX_GRANTS {
            self.grants.push(grant);
        } else {
            let rest = format!("names more than {MAX_GRANTS} devices; the rest is ignored");
            self.problem(&grant.source, &rest);
        }
    }

    fn not_an_address(&mut self, source: &str, found: &str) {
        let found = excerpt(found, QUOTED);
        self.malformed(
            source,
            &format!("has \"{found}\", expected a PCI address like 0000:41:00.2"),
        );
    }

    /// Something that names a device could not be understood.
    fn malformed(&mut self, source: &str, what: &str) {
        self.incomplete = true;
        self.problem(source, what);
    }

    fn problem(&mut self, source: &str, what: &str) {
        self.note(format!("{source} {what}"));
    }

    fn note(&mut self, problem: String) {
        if !self.problems.contains(&problem) && self.problems.len() < MAX_GRANTS {
            self.problems.push(problem);
        }
    }
}

/// Subfunctions have no PCI address: only the `_INFO` variable leads to their RDMA devices.
#[derive(Debug, Default)]
struct Subfunctions {
    /// Each that a variable names, with the variable.
    named: BTreeMap<String, String>,
    /// Those whose RDMA device is known.
    resolved: BTreeSet<String>,
}

/// The name of a device's interface in this pod: a driver may rename it, and `networkData` then has the new name.
fn network_name(device: &Map<String, Value>) -> Option<String> {
    let name = device.get("networkData")?.get("interfaceName")?.as_str()?;
    Some(name.to_owned()).filter(|name| !name.is_empty())
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
