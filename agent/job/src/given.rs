//! The devices that a pod was given, from what each allocator leaves in the pod.
//!
//! - sriov-network-device-plugin: `PCIDEVICE_RESOURCE=ADDRESS,…`, and `PCIDEVICE_RESOURCE_INFO` with a JSON object
//!   `{"ADDRESS": {"rdma": {"rdma_dev": "mlx5_6", …}}}`; versions before March 2025 have no `rdma_dev`. A resource without
//!   `isRdma` has no `rdma` at all.
//! - dra-driver-sriov: `SRIOVNETWORK_VF_DEVICE_DEVICE=ADDRESS`, `SRIOVNETWORK_DEVICE_RDMA_DEVICE=mlx5_6` and others.
//! - Device metadata of DRA drivers (KEP-5304): JSON documents with attributes, several versions in one file.
//! - Multus: the network status annotation, if the pod mounts it.
//!
//! The plugin for shared RDMA devices leaves nothing but device nodes.

mod metadata;
pub(crate) mod sriov_driver;

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_protocol::text::excerpt;
use serde_json::{Map, Value};

/// Maximum number of devices that are used; NCCL uses at most 32 ports.
const MAX_GRANTS: usize = 256;
/// Number of characters of a value that a message quotes.
pub(crate) const QUOTED: usize = 64;

/// One device that the pod was given; at least one of the names is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// Its PCI address.
    pub pci_address: Option<String>,
    /// Its RDMA device (`mlx5_6`).
    pub device: Option<String>,
    /// The name of its device node (`uverbs6`).
    pub uverbs: Option<String>,
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
    /// What could not be understood.
    pub problems: Vec<Problem>,
}

/// Something that names devices and could not be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The source, what is wrong, and what was expected.
    pub text: String,
    /// What follows from it.
    pub effect: Effect,
}

/// What follows from a problem with a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: the devices are known from another source.
    Nothing,
    /// The source is still to be written. What it will name is also named by others, if there are any.
    NotWritten,
    /// Some device of this pod is not in [`Given::grants`].
    Incomplete(Prospect),
}

/// Whether something that cannot be used now can be used later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prospect {
    /// It can: a link comes up, an address is assigned, a driver is loaded, a file is written.
    Later,
    /// Not in this container.
    Never,
    /// It is not meant for RDMA traffic of this job, so the job does not need it.
    NotNeeded,
}

impl Given {
    /// Whether some device of this pod is not in `grants`.
    pub fn is_incomplete(&self) -> bool {
        let incomplete = |problem: &Problem| matches!(problem.effect, Effect::Incomplete(_));
        self.problems.iter().any(incomplete)
    }

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
                    let list = base.and_then(|base| variables.get(base));
                    given.plugin_information(name, value, list, &mut subfunctions);
                } else {
                    given.addresses(name, value, &mut subfunctions);
                }
            }
        }
        given.sriov_driver(variables, &mut subfunctions);
        for (id, name) in subfunctions.named {
            if !subfunctions.resolved.contains(&id) {
                let what = format!(
                    "names the subfunction {id}, but {name}_INFO names neither its RDMA device nor its device node: set isRdma for \
                     its resource in the device plugin's configuration, or update the plugin"
                );
                given.malformed(&name, &what);
            }
        }
        given
    }

    /// Adds the devices of the annotation `k8s.v1.cni.cncf.io/network-status`.
    pub fn add_network_status(&mut self, file: &str, text: &str) {
        if text.trim().is_empty() {
            // The kubelet mounts the file before Multus sets the annotation, and writes it again about a minute later.
            return self.not_written(
                file,
                "is empty: Multus has not set the annotation yet, or this pod has no networks of Multus",
            );
        }
        let networks = match serde_json::from_str::<Value>(text) {
            Ok(Value::Array(networks)) => networks,
            Ok(_) => return self.file(file, "is not a list of networks"),
            Err(error) => return self.file(file, &format!("is not JSON: {error}")),
        };
        for network in &networks {
            if !network.is_object() {
                self.file(file, "has an item that is not a network");
                continue;
            }
            let pci = &network["device-info"]["pci"];
            let Some(address) = pci["pci-address"].as_str() else {
                continue;
            };
            if !is_pci_address(address) {
                let found = excerpt(address, QUOTED);
                self.file(
                    file,
                    &format!("has \"{found}\", expected a PCI address like 0000:41:00.2"),
                );
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

    /// A file that names devices and could not be read.
    pub fn unread(&mut self, what: String) {
        self.problem(what, Effect::Incomplete(Prospect::Later));
    }

    /// A file that will name devices that others name, too, and that is not written yet.
    pub fn not_written(&mut self, file: &str, what: &str) {
        self.problem(format!("{file} {what}"), Effect::NotWritten);
    }

    /// Something that is wrong, although no device is missing for it.
    pub fn note(&mut self, what: String) {
        self.problem(what, Effect::Nothing);
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

    /// `value` is a JSON object of devices. `list` has the same devices in the other variable, if there is one: it decides
    /// which devices these are.
    fn plugin_information(
        &mut self,
        name: &str,
        value: &str,
        list: Option<&String>,
        subfunctions: &mut Subfunctions,
    ) {
        let list: Option<Vec<&str>> = list.map(|list| list.split(',').map(str::trim).collect());
        let devices: Map<String, Value> = match serde_json::from_str(value) {
            Ok(devices) => devices,
            Err(error) => {
                let what = format!("is not a JSON object of devices: {error}");
                let known = list.is_some_and(|list| list.iter().all(|item| is_pci_address(item)));
                if known {
                    return self.note(format!(
                        "{name} {what}; the PCI addresses of the other variable are used"
                    ));
                }
                return self.malformed(name, &what);
            }
        };
        for (id, providers) in &devices {
            let is_other = |list: &Vec<&str>| !list.iter().any(|item| item.eq_ignore_ascii_case(id));
            if list.as_ref().is_some_and(is_other) {
                let id = excerpt(id, QUOTED);
                let list = name.strip_suffix("_INFO").unwrap_or_default();
                self.note(format!(
                    "{name} names \"{id}\", which {list} does not: it is not used"
                ));
                continue;
            }
            let rdma = &providers["rdma"];
            // Several RDMA devices of one function are separated by commas.
            let names = rdma["rdma_dev"]
                .as_str()
                .unwrap_or_default()
                .split(',')
                .map(str::trim);
            let mut rdma_devices: Vec<_> = names.filter(|name| !name.is_empty()).map(Some).collect();
            let uverbs = rdma["uverbs"].as_str();
            let uverbs = uverbs.and_then(|path| Some(path.rsplit_once('/')?.1.to_owned()));
            let pci_address = is_pci_address(id).then(|| id.to_ascii_lowercase());
            let names_device = !rdma_devices.is_empty() || uverbs.is_some();
            if is_auxiliary(id) && names_device && subfunctions.resolved.len() < MAX_GRANTS {
                subfunctions.resolved.insert(id.clone());
            }
            if names_device || pci_address.is_some() {
                if rdma_devices.is_empty() {
                    rdma_devices.push(None);
                }
                for device in rdma_devices {
                    self.add(Grant {
                        pci_address: pci_address.clone(),
                        device: device.map(str::to_owned),
                        uverbs: uverbs.clone(),
                        for_rdma: Some(rdma.is_object()),
                        source: name.to_owned(),
                        ..Grant::default()
                    });
                }
            } else if !is_auxiliary(id) {
                self.not_an_address(name, id);
            }
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
            known.uverbs = known.uverbs.take().or(grant.uverbs);
            known.netdev = known.netdev.take().or(grant.netdev);
            known.for_rdma = known.for_rdma.or(grant.for_rdma);
        } else if self.grants.len() < MAX_GRANTS {
            self.grants.push(grant);
        } else {
            let rest = format!("names more than {MAX_GRANTS} devices; the rest is ignored");
            self.note(format!("{} {rest}", grant.source));
        }
    }

    fn not_an_address(&mut self, source: &str, found: &str) {
        let found = excerpt(found, QUOTED);
        self.malformed(
            source,
            &format!("has \"{found}\", expected a PCI address like 0000:41:00.2"),
        );
    }

    /// A variable that names a device could not be understood. It stays as it is.
    fn malformed(&mut self, source: &str, what: &str) {
        self.problem(format!("{source} {what}"), Effect::Incomplete(Prospect::Never));
    }

    /// A file that names a device could not be understood. It can be written again.
    fn file(&mut self, file: &str, what: &str) {
        self.problem(format!("{file} {what}"), Effect::Incomplete(Prospect::Later));
    }

    fn problem(&mut self, text: String, effect: Effect) {
        let problem = Problem { text, effect };
        if !self.problems.contains(&problem) && self.problems.len() < MAX_GRANTS {
            self.problems.push(problem);
        }
    }
}

/// Subfunctions have no PCI address: only the `_INFO` variable leads to their RDMA devices, by name or by device node.
#[derive(Debug, Default)]
struct Subfunctions {
    /// Each that a variable names, with the variable.
    named: BTreeMap<String, String>,
    /// Those whose RDMA device is known.
    resolved: BTreeSet<String>,
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
