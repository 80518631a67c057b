//! One PCI function: its identity, place, link and capabilities.

use serde::{Deserialize, Serialize};

use super::{Aer, Capabilities, DEVICES, Link, Role, Sriov, address::bridges_above, hexadecimal};
use crate::{
    fact::{Errno, Fact, Unread, UnreadKind},
    root::Scope,
};

/// Maximum number of network devices of one function whose bonds are read: representors of virtual functions are members of bridges.
const MAX_NETDEVS: usize = 16;

/// One PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its role for RDMA.
    pub role: Role,
    /// Vendor id.
    pub vendor: Fact<u16>,
    /// Device id.
    pub device: Fact<u16>,
    /// Vendor and device id of the board that it is on, which differ between boards with one chip.
    #[serde(default)]
    pub subsystem: Fact<(u16, u16)>,
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
    /// The network devices of a function that supports RDMA and has no RDMA device; absent if it has none, and for all others.
    #[serde(default)]
    pub netdevs: Fact<Vec<String>>,
    /// The bonds, teams and bridges of which these network devices are members, as far as they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masters: Vec<String>,
}

impl Function {
    pub(super) fn read(scope: &Scope<'_>, address: &str, role: Role) -> Self {
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
        let netdevs = match role {
            Role::Capable => scope.entries(&file("net")),
            Role::Rdma | Role::Gpu | Role::Bridge => Fact::Absent,
        };
        let members = netdevs.known().into_iter().flatten().take(MAX_NETDEVS);
        let masters = members
            .filter_map(|netdev| scope.collected_link_name(&format!("/sys/class/net/{netdev}/master")))
            .collect();
        Self {
            role,
            vendor: scope.parsed(&file("vendor"), "a hexadecimal id", hexadecimal),
            device: scope.parsed(&file("device"), "a hexadecimal id", hexadecimal),
            subsystem: match role {
                Role::Rdma => subsystem(scope, &path),
                Role::Gpu | Role::Bridge | Role::Capable => Fact::Absent,
            },
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
            netdevs,
            masters,
        }
    }
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

/// Vendor and device id of a function's board; zeroes mean that it has none.
fn subsystem(scope: &Scope<'_>, path: &str) -> Fact<(u16, u16)> {
    let id = |name: &str| scope.parsed(&format!("{path}/{name}"), "a hexadecimal id", hexadecimal::<u16>);
    id("subsystem_vendor")
        .and_then(|vendor| id("subsystem_device").map(|device| (vendor, device)))
        .and_then(|ids| {
            if ids == (0, 0) {
                Fact::Absent
            } else {
                Fact::Known(ids)
            }
        })
}

/// The NUMA node of a device; `-1` means none.
pub(crate) fn numa_node(scope: &Scope<'_>, device: &str) -> Fact<u32> {
    scope
        .number::<i32>(&format!("{device}/numa_node"))
        .and_then(|node| u32::try_from(node).map_or(Fact::Absent, Fact::Known))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
