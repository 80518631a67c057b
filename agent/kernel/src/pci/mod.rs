//! PCI functions that are relevant to RDMA: those of RDMA devices, GPUs, and the bridges above them.
//!
//! Source: `/sys/bus/pci/devices/ADDRESS` (`Documentation/ABI/testing/sysfs-bus-pci`).

mod aer;
mod capable;
mod config;
mod slot;
mod sriov;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use aer::{Aer, AerCount};
pub use config::{Acs, Capabilities, PortType};
pub use sriov::{Sriov, VirtualFunction};

use crate::{
    fact::{Errno, Fact, Unread, UnreadKind},
    nvidia::NvidiaDriver,
    root::Scope,
    source::{After, Known, Source},
};

const DEVICES: &str = "/sys/bus/pci/devices";

/// The PCI side of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pci {
    /// RDMA functions, functions that support RDMA, GPUs, and the bridges above them, by PCI address.
    pub functions: Fact<BTreeMap<String, Function>>,
    /// Functions with an excluded RDMA device; no other facts of them are read.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Addresses of all other functions, of which nothing is read.
    #[serde(default)]
    pub others: BTreeSet<String>,
    /// The NVIDIA driver; absent if none is loaded.
    pub nvidia_driver: Fact<NvidiaDriver>,
}

/// One PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its role for RDMA.
    pub role: Role,
    /// Vendor id.
    pub vendor: Fact<u16>,
    /// Device id.
    pub device: Fact<u16>,
    /// Class code: base class, subclass and programming interface.
    pub class: Fact<u32>,
    /// The bound driver; absent if there is none.
    pub driver: Fact<String>,
    /// Its NUMA node; absent if the firmware reports none (`-1`).
    pub numa_node: Fact<u32>,
    /// Addresses of the bridges above it, from the root port down.
    pub bridges: Vec<String>,
    /// Link speed and width; absent for functions without their own link.
    pub link: Link,
    /// The facts in its configuration space.
    pub capabilities: Fact<Capabilities>,
    /// Virtual functions; absent without SR-IOV.
    pub sriov: Fact<Sriov>,
    /// For a virtual function, the physical function; absent for all others.
    pub physical_function: Fact<String>,
    /// Errors that the function reported since boot; absent without AER, or if the kernel does not handle it.
    #[serde(default)]
    pub aer: Fact<Aer>,
    /// The name of its slot, as printed on the machine; absent if the firmware names none.
    #[serde(default)]
    pub slot: Fact<String>,
    /// Size of its largest memory region in bytes: of a GPU, as much of its memory as others can reach at once (BAR1 of NVIDIA's);
    /// absent for all that are not GPUs.
    #[serde(default)]
    pub aperture: Fact<u64>,
}

/// The role of a PCI function for RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// An RDMA device, or the network device of a software RDMA device.
    Rdma,
    /// A GPU or another accelerator.
    Gpu,
    /// A bridge above one of them.
    Bridge,
    /// A network function whose hardware supports RDMA, but without an RDMA device.
    Capable,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Rdma, Self::Gpu, Self::Bridge, Self::Capable];

    /// The names of [`Role::ALL`].
    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name();
            at += 1;
        }
        names
    };

    /// Its name in JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rdma => "rdma",
            Self::Gpu => "gpu",
            Self::Bridge => "bridge",
            Self::Capable => "capable",
        }
    }
}

/// Speed and width of a PCIe link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Current speed in megatransfers per second and lane; absent if the kernel reports `Unknown`.
    pub speed: Fact<u32>,
    /// Maximum speed of the device.
    pub max_speed: Fact<u32>,
    /// Current number of lanes.
    pub width: Fact<u32>,
    /// Maximum number of lanes of the device.
    pub max_width: Fact<u32>,
}

impl Eq for Link {}

impl Source for Pci {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        let mut left_out = Vec::new();
        let mut others = BTreeSet::new();
        let functions = scope.entries(DEVICES).map(|addresses| {
            let mut found = BTreeMap::new();
            for address in addresses.iter().filter(|address| is_address(address)) {
                let role = if known.functions.contains(address) {
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
                        None => {
                            others.insert(address.clone());
                            continue;
                        }
                    }
                };
                found.insert(address.clone(), Function::read(scope, address, role));
            }
            let bridges: BTreeSet<String> = found
                .values()
                .flat_map(|f: &Function| f.bridges.clone())
                .collect();
            for address in bridges {
                others.remove(&address);
                found
                    .entry(address.clone())
                    .or_insert_with(|| Function::read(scope, &address, Role::Bridge));
            }
            slot::name(scope, &mut found);
            found
        });
        Self {
            functions,
            left_out,
            others,
            nvidia_driver: NvidiaDriver::read(scope),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            functions: why.clone().into(),
            left_out: Vec::new(),
            others: BTreeSet::new(),
            nvidia_driver: why.clone().into(),
        }
    }
}

impl Pci {
    /// Whether the node has a function with this address; `None` if its functions could not be read.
    pub fn has(&self, address: &str) -> Option<bool> {
        let functions = self.functions.known()?;
        let is_left_out = || self.left_out.iter().any(|other| other == address);
        Some(functions.contains_key(address) || self.others.contains(address) || is_left_out())
    }

    /// The best link that both a function and the port above it support: speed in MT/s and width in lanes. A Gen5 device
    /// in a Gen4 slot can only run at Gen4.
    pub fn best_link(&self, function: &Function) -> (Option<u32>, Option<u32>) {
        let above = function
            .bridges
            .last()
            .and_then(|bridge| self.functions.known()?.get(bridge))
            .map(|bridge| (bridge.link.max_speed.known(), bridge.link.max_width.known()));
        let least = |own: Option<&u32>, upstream: Option<Option<&u32>>| match (own, upstream) {
            (Some(own), None) => Some(*own),
            (Some(own), Some(Some(upstream))) => Some(*own.min(upstream)),
            // One end is unknown, so the best link is unknown.
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
        let physical_function = scope.link_name(&file("physfn"));
        let capabilities = scope
            .binary(&config_path)
            .and_then(|bytes| match Capabilities::parse(&bytes) {
                // A virtual function has none of these capabilities that matters.
                Some(cut) if !cut.complete && physical_function.is_absent() => scope.fail(Unread {
                    source: config_path.clone(),
                    kind: UnreadKind::Errno(Errno::PERM),
                    detail: "only root may read more than its first 64 bytes".into(),
                }),
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
            physical_function,
            aer: Aer::read(scope, &path),
            slot: Fact::Absent,
            aperture: match role {
                Role::Gpu => scope
                    .parsed(&file("resource"), "the regions of a function", largest_region)
                    .and_then(Fact::from),
                Role::Rdma | Role::Bridge | Role::Capable => Fact::Absent,
            },
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

/// `16.0 GT/s PCIe` in MT/s; absent if the kernel reports `Unknown` (or `Unknown speed`).
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

/// The size of the largest memory region in a file `resource`, which has a line with start, end and flags for each region; `None` in it
/// if there is none.
#[allow(clippy::option_option)] // the outer one is for a malformed line
fn largest_region(text: &str) -> Option<Option<u64>> {
    const MEMORY: u64 = 0x200;
    let mut largest = None;
    for line in text.lines() {
        let mut numbers = line
            .split_whitespace()
            .map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        let (start, end, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
        // An unused region is all zeroes.
        if flags & MEMORY != 0 && end > start {
            largest = largest.max(Some((end - start).saturating_add(1)));
        }
    }
    Some(largest)
}

fn hexadecimal<T: TryFrom<u32>>(text: &str) -> Option<T> {
    T::try_from(u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?).ok()
}

pub use rdma_health_kernel_log::is_address;

/// The NUMA node of a device; `-1` means none.
pub(crate) fn numa_node(scope: &Scope<'_>, device: &str) -> Fact<u32> {
    scope
        .number::<i32>(&format!("{device}/numa_node"))
        .and_then(|node| u32::try_from(node).map_or(Fact::Absent, Fact::Known))
}

/// The address of the function whose configuration space the file at `path` is.
pub(crate) fn of_config(path: &str) -> Option<&str> {
    let address = path
        .strip_prefix(DEVICES)?
        .strip_prefix('/')?
        .strip_suffix("/config")?;
    is_address(address).then_some(address)
}

/// Excerpts of the configuration spaces of the functions and bridges that may be relevant to RDMA, at most `most`, for a process
/// that may not read them. Virtual functions are left out: these have no capability of their own that matters.
pub fn spaces(scope: &Scope<'_>, most: usize) -> Fact<Vec<(String, Vec<u8>)>> {
    const BRIDGE: u32 = 0x0604;
    let matters = |address: &&String| {
        let path = format!("{DEVICES}/{address}");
        let class = scope.parsed(
            &format!("{path}/class"),
            "a hexadecimal class",
            hexadecimal::<u32>,
        );
        let class = class.known().copied().unwrap_or_default();
        let matters = matches!(class >> 16, 0x02 | 0x03 | 0x12) || class >> 8 == BRIDGE;
        matters && scope.link(&format!("{path}/physfn")).known().is_none()
    };
    scope.entries(DEVICES).map(|addresses| {
        let addresses = addresses
            .iter()
            .filter(|address| is_address(address))
            .filter(matters);
        let found = addresses.filter_map(|address| {
            let space = scope.binary(&format!("{DEVICES}/{address}/config"));
            Some((address.clone(), config::excerpt(space.known()?)?))
        });
        found.take(most).collect()
    })
}

/// The last PCI address in a real path: the function of a device below it.
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

/// GPUs and accelerators: NVIDIA display and 3D controllers, AMD Instinct, and the processing-accelerator class, but not
/// the display adapter of a server's management controller.
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
    fn roles_have_one_name_in_json_and_metrics() {
        for role in Role::ALL {
            assert_eq!(serde_json::to_value(role).unwrap(), role.name());
        }
    }

    #[test]
    fn speeds_have_the_kernels_format() {
        assert_eq!(parse_speed("16.0 GT/s PCIe"), Some(Fact::Known(16_000)));
        assert_eq!(parse_speed("2.5 GT/s"), Some(Fact::Known(2_500)));
        assert_eq!(parse_speed("8 GT/s"), Some(Fact::Known(8_000)));
        assert_eq!(parse_speed("Unknown"), Some(Fact::Absent));
        assert_eq!(parse_speed("Unknown speed"), Some(Fact::Absent));
        assert_eq!(parse_speed("fast"), None);
    }

    #[test]
    fn the_aperture_of_a_gpu_is_its_largest_memory_region() {
        // An H100: registers, 128 GiB of memory, NVLink, and an unused region.
        let h100 = "0x00000000a3000000 0x00000000a3ffffff 0x0000000000040200\n\
            0x0000236000000000 0x0000237fffffffff 0x000000000014220c\n\
            0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
            0x0000238040000000 0x0000238041ffffff 0x000000000014220c\n\
            0x0000000000003000 0x000000000000307f 0x0000000000040101\n";
        assert_eq!(largest_region(h100), Some(Some(128 << 30)));
        assert_eq!(largest_region(""), Some(None));
        assert_eq!(
            largest_region("0x0 0xffffffffffffffff 0x200"),
            Some(Some(u64::MAX))
        );
        assert_eq!(largest_region("0x5 0x1 0x200"), Some(None));
        for malformed in ["0x0 0x1", "a b c", "0x0 0x1 0x10000000000000000"] {
            assert_eq!(largest_region(malformed), None, "{malformed}");
        }
    }

    #[test]
    fn addresses_differ_from_other_path_components() {
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
        fn a_speed_is_read_as_the_kernel_writes_it(whole in 0..1000_u32, tenth in 0..10_u32, after in "( PCIe)?") {
            let read = parse_speed(&format!("{whole}.{tenth} GT/s{after}"));
            prop_assert_eq!(read, Some(Fact::Known(whole * 1000 + tenth * 100)));
        }

        #[test]
        fn an_id_of_more_than_16_bits_is_refused(number: u32) {
            prop_assert_eq!(hexadecimal::<u16>(&format!("{number:#06x}")), u16::try_from(number).ok());
        }

        /// Every function of a path is an address, and only the last is not above the device.
        #[test]
        fn the_bridges_above_a_device_are_those_of_its_path(
            functions in proptest::collection::vec((0..=0xffff_u32, 0..=0xff_u8, 0..32_u8, 0..8_u8), 1..6),
            between in "(net|virtio[0-9]|[0-9a-f:.]{0,6}|\\PC{0,9})",
        ) {
            let addresses: Vec<_> = functions
                .iter()
                .map(|(domain, bus, slot, function)| format!("{domain:04x}:{bus:02x}:{slot:02x}.{function}"))
                .collect();
            prop_assume!(!between.contains('/'));
            let path = format!("/sys/devices/pci0000:40/{}/{between}", addresses.join("/"));
            prop_assert_eq!(address_in(&path), addresses.last().map(String::as_str));
            prop_assert_eq!(bridges_above(&path), &addresses[..addresses.len() - 1]);
        }
    }
}
