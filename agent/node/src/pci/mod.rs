//! PCI functions that matter to RDMA: the functions behind RDMA devices, GPUs, and the bridges above them.
//!
//! Source: `/sys/bus/pci/devices/ADDRESS` (`Documentation/ABI/testing/sysfs-bus-pci`).

mod aer;
mod capable;
mod config;
mod sriov;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use aer::{Aer, AerCount};
pub use config::{Acs, Capabilities, PortType};
pub use sriov::{Sriov, VirtualFunction};

use crate::{
    fact::Fact,
    nvidia::NvidiaDriver,
    root::{MAX_ATTRIBUTE, Scope},
};

const DEVICES: &str = "/sys/bus/pci/devices";

/// The PCI side of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pci {
    /// RDMA functions, functions that could be, GPUs, and the bridges above them, by PCI address.
    pub functions: Fact<BTreeMap<String, Function>>,
    /// Functions with an RDMA device that was not asked for: nothing else of them is read.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// The NVIDIA driver; absent where none is loaded.
    pub nvidia_driver: Fact<NvidiaDriver>,
}

/// One PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// What it is to RDMA.
    pub role: Role,
    /// Vendor id.
    pub vendor: Fact<u16>,
    /// Device id.
    pub device: Fact<u16>,
    /// Class code: base class, subclass and programming interface.
    pub class: Fact<u32>,
    /// The driver that holds it; absent where none does.
    pub driver: Fact<String>,
    /// Its NUMA node; absent where the firmware names none (`-1`).
    pub numa_node: Fact<u32>,
    /// Addresses of the bridges above it, from the root port down.
    pub bridges: Vec<String>,
    /// Link speed and width; absent for functions without a link of their own.
    pub link: Link,
    /// What its configuration space tells.
    pub capabilities: Fact<Capabilities>,
    /// Virtual functions; absent where it has no SR-IOV.
    pub sriov: Fact<Sriov>,
    /// The physical function of a virtual function; absent for all others.
    pub physical_function: Fact<String>,
    /// Errors that the function reported since boot; absent where it reports none (no AER, or not handled by the kernel).
    #[serde(default)]
    pub aer: Fact<Aer>,
}

/// What a PCI function is to RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// An RDMA device, or the network device below a software one.
    Rdma,
    /// A GPU or another accelerator.
    Gpu,
    /// A bridge above one of them.
    Bridge,
    /// A network function whose hardware can do RDMA, and that has no RDMA device.
    Capable,
}

/// Speed and width of a PCIe link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Speed now, in megatransfers per second and lane; absent where the kernel says `Unknown`.
    pub speed: Fact<u32>,
    /// The best speed the device can do.
    pub max_speed: Fact<u32>,
    /// Lanes now.
    pub width: Fact<u32>,
    /// The most lanes the device can use.
    pub max_width: Fact<u32>,
}

impl Eq for Link {}

impl Pci {
    /// Reads the GPUs, the given RDMA functions, and every bridge above them.
    pub fn read(scope: &Scope<'_>, rdma: &BTreeSet<String>) -> Self {
        let mut left_out = Vec::new();
        let functions = scope.entries(DEVICES).map(|addresses| {
            let mut found = BTreeMap::new();
            for address in addresses.iter().filter(|address| is_address(address)) {
                let role = if rdma.contains(address) {
                    Role::Rdma
                } else if is_gpu(scope, address) {
                    Role::Gpu
                } else {
                    match capable::has_device(scope, address) {
                        Some(false) => Role::Capable,
                        Some(true) => {
                            left_out.push(address.clone());
                            continue;
                        }
                        None => continue,
                    }
                };
                found.insert(address.clone(), Function::read(scope, address, role));
            }
            let bridges: BTreeSet<String> = found
                .values()
                .flat_map(|f: &Function| f.bridges.clone())
                .collect();
            for address in bridges {
                found
                    .entry(address.clone())
                    .or_insert_with(|| Function::read(scope, &address, Role::Bridge));
            }
            found
        });
        Self {
            functions,
            left_out,
            nvidia_driver: NvidiaDriver::read(scope),
        }
    }

    /// Functions of one role, in order of address.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = (&String, &Function)> {
        self.functions
            .known()
            .into_iter()
            .flatten()
            .filter(move |(_, function)| function.role == role)
    }

    /// The best link that a function and the port above it can do together: speed in MT/s and width in lanes. A Gen5
    /// device in a Gen4 slot is at its best at Gen4.
    pub fn best_link(&self, function: &Function) -> (Option<u32>, Option<u32>) {
        let above = function
            .bridges
            .last()
            .and_then(|bridge| self.functions.known()?.get(bridge))
            .map(|bridge| (bridge.link.max_speed.known(), bridge.link.max_width.known()));
        let least = |own: Option<&u32>, upstream: Option<Option<&u32>>| match (own, upstream) {
            (Some(own), None) => Some(*own),
            (Some(own), Some(Some(upstream))) => Some(*own.min(upstream)),
            // One end does not tell: no claim.
            _ => None,
        };
        (
            least(function.link.max_speed.known(), above.map(|(speed, _)| speed)),
            least(function.link.max_width.known(), above.map(|(_, width)| width)),
        )
    }
}

impl Function {
    fn read(scope: &Scope<'_>, address: &str, role: Role) -> Self {
        let path = format!("{DEVICES}/{address}");
        let file = |name: &str| format!("{path}/{name}");
        let config_path = file("config");
        let capabilities = scope
            .binary(&config_path)
            .and_then(|bytes| match Capabilities::parse(&bytes) {
                Some(capabilities) => Fact::Known(capabilities),
                None => scope.malformed(
                    &config_path,
                    &format!("{} bytes", bytes.len()),
                    "a PCI configuration space",
                ),
            });
        Self {
            role,
            vendor: scope.parsed(&file("vendor"), "a hexadecimal id", hexadecimal),
            device: scope.parsed(&file("device"), "a hexadecimal id", hexadecimal),
            class: scope.parsed(&file("class"), "a hexadecimal class", hexadecimal),
            driver: scope.link_name(&file("driver")),
            numa_node: numa_node(scope, &path),
            bridges: scope
                .real_path(&path)
                .known()
                .map(|real| bridges_above(real))
                .unwrap_or_default(),
            link: Link::read(scope, &path),
            capabilities,
            sriov: Sriov::read(scope, &path),
            physical_function: scope.link_name(&file("physfn")),
            aer: Aer::read(scope, &path),
        }
    }
}

impl Link {
    fn read(scope: &Scope<'_>, path: &str) -> Self {
        let speed = |name: &str| {
            scope
                .parsed(&format!("{path}/{name}"), "a link speed in GT/s", parse_speed)
                .and_then(|speed| speed)
        };
        // Width 0: the link is down or the port has none. 255 is the kernel's "unknown".
        let width = |name: &str| {
            scope.number::<u32>(&format!("{path}/{name}")).and_then(|lanes| {
                if matches!(lanes, 0 | 255) {
                    Fact::Absent
                } else {
                    Fact::Known(lanes)
                }
            })
        };
        Self {
            speed: speed("current_link_speed"),
            max_speed: speed("max_link_speed"),
            width: width("current_link_width"),
            max_width: width("max_link_width"),
        }
    }
}

/// `16.0 GT/s PCIe` in MT/s; absent where the kernel writes `Unknown` (or `Unknown speed`).
fn parse_speed(text: &str) -> Option<Fact<u32>> {
    if text.starts_with("Unknown") {
        return Some(Fact::Absent);
    }
    let (number, _) = text.split_once(" GT/s")?;
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u32 = whole.parse().ok()?;
    let tenth: u32 = if tenth.len() == 1 {
        tenth.parse().ok()?
    } else {
        return None;
    };
    Some(Fact::Known(whole.checked_mul(1000)?.checked_add(tenth * 100)?))
}

fn hexadecimal<T: TryFrom<u32>>(text: &str) -> Option<T> {
    T::try_from(u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?).ok()
}

/// The NUMA node that a device names; `-1` means none.
pub(crate) fn numa_node(scope: &Scope<'_>, device: &str) -> Fact<u32> {
    scope
        .number::<i32>(&format!("{device}/numa_node"))
        .and_then(|node| u32::try_from(node).map_or(Fact::Absent, Fact::Known))
}

/// Whether a name is a PCI address: `0000:41:00.0`.
pub fn is_address(name: &str) -> bool {
    let hex = |part: &str, length: std::ops::RangeInclusive<usize>| {
        length.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let mut parts = name.split([':', '.']);
    let shape = (
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
    );
    let (Some(domain), Some(bus), Some(slot), Some(function), None) = shape else {
        return false;
    };
    // Virtual hosts number domains with up to eight digits.
    hex(domain, 4..=8)
        && hex(bus, 2..=2)
        && hex(slot, 2..=2)
        && hex(function, 1..=1)
        && name.is_ascii()
        && name.len() <= MAX_ATTRIBUTE
}

/// The last PCI address in a real path: the function that a device below it belongs to.
pub fn address_in(path: &str) -> Option<&str> {
    path.rsplit('/').find(|part| is_address(part))
}

fn bridges_above(real_path: &str) -> Vec<String> {
    let mut addresses: Vec<_> = real_path
        .split('/')
        .filter(|part| is_address(part))
        .map(str::to_owned)
        .collect();
    addresses.pop();
    addresses
}

/// GPUs and accelerators: NVIDIA display and 3D controllers, AMD Instinct, and the processing-accelerator class. The
/// display adapter of a server's management controller is none.
fn is_gpu(scope: &Scope<'_>, address: &str) -> bool {
    const NVIDIA: u32 = 0x10de;
    const AMD: u32 = 0x1002;
    let read = |name: &str| {
        let path = format!("{DEVICES}/{address}/{name}");
        scope
            .parsed(&path, "a hexadecimal id", hexadecimal::<u32>)
            .known()
            .copied()
    };
    let (Some(class), Some(vendor)) = (read("class"), read("vendor")) else {
        return false;
    };
    match (class >> 16, (class >> 8) & 0xff) {
        (0x03, _) => vendor == NVIDIA || (vendor == AMD && matches!(class >> 8, 0x0302 | 0x0380)),
        (0x12, _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn speeds_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_speed("16.0 GT/s PCIe"), Some(Fact::Known(16_000)));
        assert_eq!(parse_speed("2.5 GT/s"), Some(Fact::Known(2_500)));
        assert_eq!(parse_speed("8 GT/s"), Some(Fact::Known(8_000)));
        assert_eq!(parse_speed("Unknown"), Some(Fact::Absent));
        assert_eq!(parse_speed("Unknown speed"), Some(Fact::Absent));
        assert_eq!(parse_speed("fast"), None);
    }

    #[test]
    fn addresses_are_told_from_other_path_components() {
        assert!(is_address("0000:41:00.0") && is_address("10000:e1:00.1"));
        for other in [
            "pci0000:40",
            "virtio0",
            "0000:41:00",
            "0000:41:00.0:pcie004",
            "",
            "0000:41:00.x",
        ] {
            assert!(!is_address(other), "{other}");
        }
        let path = "/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0/virtio1/net/eth0";
        assert_eq!(address_in(path), Some("0000:41:00.0"));
        assert_eq!(
            bridges_above("/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0"),
            ["0000:40:01.0"]
        );
        assert_eq!(address_in("/sys/devices/virtual/net/lo"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,64}") {
            let _ = parse_speed(&text);
            let _ = hexadecimal::<u16>(&text);
            let _ = is_address(&text);
            let _ = bridges_above(&text);
        }
    }
}
