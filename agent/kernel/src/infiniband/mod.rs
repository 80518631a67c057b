//! RDMA devices and their ports.
//!
//! Source: `/sys/class/infiniband/DEVICE` (`Documentation/ABI/stable/sysfs-class-infiniband`).

mod attribute;
mod counters;
mod gid;
mod netdev;
mod port;
mod state;

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

pub use counters::Counter;
pub(crate) use gid::table;
pub use netdev::Netdev;
pub use port::Port;
pub use rdma_health_protocol::LinkLayer;
pub use state::{PortCode, Rate};

use crate::{
    fact::{Fact, Unread},
    pci::{address_in, numa_node},
    root::Scope,
};
use port::PortReader;

/// The kernel's list of RDMA devices.
pub const CLASS: &str = "/sys/class/infiniband";

/// One RDMA device: an HCA, an SR-IOV virtual function of an HCA, or a software device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hca {
    /// Its current name. Systemd may rename it, so the name does not identify it across reboots.
    pub name: String,
    /// The PCI function that transfers its data; for a software device, the function of its network device.
    pub pci_address: Fact<String>,
    /// The network device of a software device (`rdma_rxe`); absent for all others.
    pub parent_netdev: Fact<String>,
    /// The driver, from the `device/driver` link, not from the name.
    pub driver: Fact<String>,
    /// Firmware version.
    pub firmware: Fact<String>,
    /// Board id, the PSID on Mellanox devices.
    pub board_id: Fact<String>,
    /// Hardware type as the driver reports it (`MT4129`).
    pub hca_type: Fact<String>,
    /// Node GUID.
    pub node_guid: Fact<Guid>,
    /// GUID of the whole adapter, the same for all its functions.
    pub system_image_guid: Fact<Guid>,
    /// The type of the device (`1: CA`, `4: RNIC`).
    pub node_type: Fact<String>,
    /// Its NUMA node; absent if the firmware reports none.
    pub numa_node: Fact<u32>,
    /// For a virtual function, the PCI address of the physical function; absent for all others.
    pub physical_function: Fact<String>,
    /// Ports by number, from 1. Boxed, because the map allocates room for eleven and a device has one or two.
    pub ports: BTreeMap<u8, Box<Port>>,
}

/// A 64-bit globally unique identifier in the kernel's format: `5054:00ff:fe12:3456`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Guid(pub u64);

impl Guid {
    fn parse(text: &str) -> Option<Self> {
        let mut value = 0_u64;
        let mut parts = 0;
        for part in text.split(':') {
            if part.len() != 4 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            value = value << 16 | u64::from(u16::from_str_radix(part, 16).ok()?);
            parts += 1;
        }
        (parts == 4).then_some(Self(value))
    }
}

impl std::fmt::Display for Guid {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (self.0 >> shift) & 0xffff);
        write!(out, "{a:04x}:{b:04x}:{c:04x}:{d:04x}")
    }
}

impl From<Guid> for String {
    fn from(guid: Guid) -> Self {
        guid.to_string()
    }
}

impl TryFrom<String> for Guid {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
            .ok_or_else(|| format!("expected a GUID like 5054:00ff:fe12:3456, found \"{text}\""))
    }
}

impl Hca {
    /// Whether it is a software device: `rdma_rxe` or `siw`.
    pub fn is_software(&self) -> bool {
        self.driver
            .known()
            .is_some_and(|driver| matches!(driver.as_str(), "rdma_rxe" | "siw"))
    }

    /// Whether it is an SR-IOV virtual function.
    pub fn is_virtual(&self) -> bool {
        self.physical_function.known().is_some()
    }

    /// Whether it differs from `other` in counters only.
    pub(crate) fn differs_in_counters_only(&self, other: &Self) -> bool {
        // All fields are listed, so that the compiler reports a new one.
        let Self {
            name,
            pci_address,
            parent_netdev,
            driver,
            firmware,
            board_id,
            hca_type,
            node_guid,
            system_image_guid,
            node_type,
            numa_node,
            physical_function,
            ports,
        } = self;
        let same_ports = || {
            let mut pairs = ports.iter().zip(&other.ports);
            ports.len() == other.ports.len()
                && pairs.all(|((number, port), (other_number, other))| {
                    number == other_number && port.differs_in_counters_only(other)
                })
        };
        *name == other.name
            && *pci_address == other.pci_address
            && *parent_netdev == other.parent_netdev
            && *driver == other.driver
            && *firmware == other.firmware
            && *board_id == other.board_id
            && *hca_type == other.hca_type
            && *node_guid == other.node_guid
            && *system_image_guid == other.system_image_guid
            && *node_type == other.node_type
            && *numa_node == other.numa_node
            && *physical_function == other.physical_function
            && same_ports()
    }

    /// An identity that does not change when the device is renamed: its PCI address, otherwise its network device,
    /// otherwise its name.
    pub fn identity(&self) -> &str {
        // Two software devices never share a network device; several may share one PCI function.
        self.parent_netdev
            .known()
            .or(self.pci_address.known())
            .unwrap_or(&self.name)
    }

    /// The identity of its adapter: for a virtual function, that of the physical function.
    pub fn adapter(&self) -> &str {
        let physical = self.physical_function.known().map(String::as_str);
        physical.unwrap_or_else(|| self.identity())
    }
}

/// Reads one device repeatedly. The files of its ports stay open between readings.
#[derive(Debug)]
pub(crate) struct HcaReader {
    /// The device without its ports.
    identity: Hca,
    ports: BTreeMap<u8, Box<PortReader>>,
    /// What could not be read of all that rarely changes, until it is read again.
    unread: Vec<Unread>,
    /// The last two readings since the identity was read. The older one is usually no longer in use, so its memory is
    /// reused: allocating a new list of counters for each port and scrape would cost as much as many reads.
    last: Option<Arc<Hca>>,
    spare: Option<Arc<Hca>>,
}

impl HcaReader {
    /// Reads everything about the device `name`.
    pub(crate) fn new(scope: &Scope<'_>, name: &str) -> Self {
        let mut reader = Self {
            identity: identity(scope, name),
            ports: BTreeMap::new(),
            unread: Vec::new(),
            last: None,
            spare: None,
        };
        reader.list_ports(scope);
        reader.unread = scope.unread();
        reader
    }

    /// Rereads facts that rarely change. Counters that failed permanently are not read again.
    pub(crate) fn identify(&mut self, scope: &Scope<'_>) {
        self.identity = identity(scope, &self.identity.name);
        self.list_ports(scope);
        self.unread = scope.unread();
        (self.last, self.spare) = (None, None);
    }

    fn list_ports(&mut self, scope: &Scope<'_>) {
        let entries = scope.entries(&format!("{CLASS}/{}/ports", self.identity.name));
        let numbers: BTreeSet<u8> = entries
            .known()
            .into_iter()
            .flatten()
            .filter_map(|number| number.parse().ok())
            .collect();
        self.ports.retain(|number, _| numbers.contains(number));
        for number in numbers {
            match self.ports.entry(number) {
                Entry::Occupied(port) => port.into_mut().identify(scope, &self.identity, number),
                Entry::Vacant(place) => {
                    place.insert(Box::new(PortReader::new(scope, &self.identity, number)));
                }
            }
        }
    }

    /// Reads facts that change often: state, rate and counters of every port.
    pub(crate) fn read(&mut self, scope: &Scope<'_>) -> Arc<Hca> {
        // The first reading is in the same pass as that of the rest.
        if self.last.is_some() {
            for unread in &self.unread {
                let _: Fact<()> = scope.remembered(unread.clone());
            }
        }
        let mut hca = self
            .spare
            .take()
            .unwrap_or_else(|| Arc::new(self.identity.clone()));
        // Copies the device if it is still in use.
        let ports = &mut Arc::make_mut(&mut hca).ports;
        for (number, reader) in &mut self.ports {
            let port = ports.entry(*number).or_insert_with(|| Box::new(reader.blank()));
            reader.read(scope, port);
        }
        self.spare = self.last.replace(Arc::clone(&hca));
        hca
    }
}

fn identity(scope: &Scope<'_>, name: &str) -> Hca {
    let path = format!("{CLASS}/{name}");
    let file = |attribute: &str| format!("{path}/{attribute}");
    let text = |attribute: &str| {
        scope
            .optional(&file(attribute))
            .and_then(|text| match text.trim() {
                "" => Fact::Absent,
                text => Fact::Known(text.to_owned()),
            })
    };
    let guid = |attribute: &str| scope.parsed(&file(attribute), "a GUID", Guid::parse);
    let (board_id, hca_type) = (text("board_id"), text("hca_type"));
    // The drivers of the kernel for hardware have no such attribute, but name the hardware (drivers/infiniband/sw/rxe/rxe_verbs.c).
    let parent_netdev = match (&board_id, &hca_type) {
        (Fact::Known(_), _) | (_, Fact::Known(_)) => Fact::Absent,
        _ => text("parent"),
    };
    let below = match parent_netdev.known() {
        Some(netdev) => format!("/sys/class/net/{netdev}/device"),
        None => file("device"),
    };
    let real = scope.real_path(&below);
    let pci_address = real
        .clone()
        .and_then(|real| Fact::from(address_in(&real).map(str::to_owned)));
    let function = pci_address
        .known()
        .map(|address| format!("/sys/bus/pci/devices/{address}"));
    let driver = match (parent_netdev.known(), real) {
        (Some(_), _) => Fact::Known("rdma_rxe".to_owned()),
        // The parent may be an auxiliary device of the PCI function (irdma); both have a driver link.
        (None, Fact::Known(_)) => scope.link_name(&file("device/driver")),
        (None, other) => other.and_then(|_| Fact::Absent),
    };
    Hca {
        name: name.to_owned(),
        pci_address,
        parent_netdev,
        driver,
        firmware: text("fw_ver"),
        board_id,
        hca_type,
        node_guid: guid("node_guid"),
        system_image_guid: guid("sys_image_guid"),
        node_type: text("node_type"),
        numa_node: function
            .as_ref()
            .map_or(Fact::Absent, |function| numa_node(scope, function)),
        physical_function: function.as_ref().map_or(Fact::Absent, |function| {
            scope.link_name(&format!("{function}/physfn"))
        }),
        ports: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_have_the_kernels_format() {
        let guid = Guid::parse("5054:00ff:fe12:3456").unwrap();
        assert_eq!(guid, Guid(0x5054_00ff_fe12_3456));
        assert_eq!(guid.to_string(), "5054:00ff:fe12:3456");
        for other in [
            "",
            "5054",
            "5054:00ff:fe12",
            "5054:00ff:fe12:3456:0",
            "5054:00ff:fe12:345g",
            "+054:00ff:fe12:3456",
        ] {
            assert_eq!(Guid::parse(other), None, "{other}");
        }
    }
}
