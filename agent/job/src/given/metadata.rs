//! The metadata files of DRA drivers (KEP-5304).

use rdma_health_protocol::text::excerpt;
use serde_json::{Deserializer, Map, Value};

use super::{Given, Grant, QUOTED, is_pci_address};

/// Maximum number of versions of one document that are read.
const MAX_VERSIONS: usize = 16;
/// Attributes with the PCI address, and with the RDMA device.
const ADDRESS: [&str; 3] = [
    "resource.kubernetes.io/pciBusID",
    "dra.net/pciAddress",
    "pciAddress",
];
const DEVICE: [&str; 2] = ["dra.net/rdmaDevice", "rdmaDevice"];
/// Attributes that say whether a device is for RDMA: of dranet and of the SR-IOV driver. A driver's own attributes need no domain.
const FOR_RDMA: [&str; 4] = [
    "dra.net/rdma",
    "rdma",
    "sriovnetwork.k8snetworkplumbingwg.io/rdmaCapable",
    "rdmaCapable",
];

impl Given {
    /// Adds the devices of a DRA driver's metadata file.
    pub fn add_metadata(&mut self, file: &str, text: &str) {
        // Versions of the same document follow each other; readers take the first one that they know. Each is complete.
        let mut describes_devices = false;
        for document in Deserializer::from_str(text)
            .into_iter::<Value>()
            .take(MAX_VERSIONS)
        {
            let document = match document {
                Ok(document) => document,
                Err(_) if describes_devices => return,
                Err(error) => return self.file(file, &format!("is not JSON: {error}")),
            };
            let before = self.grants.len();
            describes_devices |= self.attributes(file, &document, 0);
            if self.grants.len() > before {
                return;
            }
        }
        if text.trim().is_empty() {
            self.file(file, "is empty");
        } else if describes_devices {
            // Devices of another kind, such as CPUs.
            self.note(format!(
                "{file} has no device with an attribute for its PCI address, RDMA device or network device"
            ));
        } else {
            self.file(
                file,
                "has no version of the document that is known here: no device in it has attributes",
            );
        }
    }

    /// Every object of the document with attributes of a device. Returns whether there is one. `depth` bounds what a hostile document costs.
    fn attributes(&mut self, file: &str, value: &Value, depth: usize) -> bool {
        const DEEPEST: usize = 16;
        let mut found = false;
        match value {
            Value::Object(object) if depth < DEEPEST => {
                if let Some(Value::Object(attributes)) = object.get("attributes") {
                    found = true;
                    let named = |names: &[&str]| names.iter().find_map(|name| text(attributes.get(*name)?));
                    let pci_address = named(&ADDRESS).map(|address| address.to_ascii_lowercase());
                    let of_other_type = ADDRESS.iter().chain(&DEVICE).find(|name| {
                        let attribute = attributes.get(**name);
                        attribute.is_some_and(|attribute| plain_text(attribute).is_none())
                    });
                    if let Some(name) = of_other_type {
                        self.file(file, &format!("has an attribute {name} that is not text"));
                    }
                    if let Some(wrong) = pci_address.as_ref().filter(|address| !is_pci_address(address)) {
                        let wrong = excerpt(wrong, QUOTED);
                        self.file(
                            file,
                            &format!("has \"{wrong}\", expected a PCI address like 0000:41:00.2"),
                        );
                    }
                    let grant = Grant {
                        pci_address: pci_address.filter(|address| is_pci_address(address)),
                        device: named(&DEVICE),
                        netdev: network_name(object).or_else(|| named(&["dra.net/ifName", "interfaceName"])),
                        for_rdma: FOR_RDMA.iter().find_map(|name| boolean(attributes.get(*name)?)),
                        source: file.to_owned(),
                        ..Grant::default()
                    };
                    if grant.pci_address.is_some() || grant.device.is_some() || grant.netdev.is_some() {
                        self.add(grant);
                    }
                }
                for value in object.values() {
                    found |= self.attributes(file, value, depth + 1);
                }
            }
            Value::Array(values) if depth < DEEPEST => {
                for value in values {
                    found |= self.attributes(file, value, depth + 1);
                }
            }
            _ => {}
        }
        found
    }
}

/// The name of a device's interface in this pod: a driver may rename it, and `networkData` then has the new name.
fn network_name(device: &Map<String, Value>) -> Option<String> {
    let name = device.get("networkData")?.get("interfaceName")?.as_str()?;
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// The truth value of an attribute: `{"bool": true}`, or a plain one.
fn boolean(attribute: &Value) -> Option<bool> {
    attribute.as_bool().or_else(|| attribute.get("bool")?.as_bool())
}

/// The text of an attribute: `{"string": "…"}`, or a plain string.
fn text(attribute: &Value) -> Option<String> {
    let text = plain_text(attribute)?;
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn plain_text(attribute: &Value) -> Option<&str> {
    attribute.as_str().or_else(|| attribute.get("string")?.as_str())
}
