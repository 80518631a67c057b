//! PCI functions that are relevant to RDMA: those of RDMA devices, GPUs, and the bridges above them.
//!
//! Source: `/sys/bus/pci/devices/ADDRESS` (`Documentation/ABI/testing/sysfs-bus-pci`).

mod address;
mod aer;
mod capable;
mod config;
mod function;
mod link;
mod role;
mod slot;
mod sriov;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub(crate) use address::of_config;
pub use address::{address_in, is_address};
pub use aer::{Aer, AerCount};
pub use config::{Acs, Capabilities, PortType};
pub use function::Function;
pub(crate) use function::numa_node;
pub use link::Link;
pub use role::Role;
pub use sriov::{Sriov, VirtualFunction};

use crate::{
    fact::{Fact, Unread},
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

impl Source for Pci {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        let mut left_out = Vec::new();
        let mut others = BTreeSet::new();
        let listed = match (scope.entries(DEVICES), known.functions.first()) {
            (Fact::Known(listed), _) if !listed.is_empty() => Fact::Known(listed),
            (Fact::Known(_) | Fact::Absent, Some(address)) => scope.hidden(
                DEVICES,
                &format!("an RDMA device is of the PCI function {address}"),
            ),
            (listed, _) => listed,
        };
        let functions = listed.map(|addresses| {
            let mut found = BTreeMap::new();
            for address in addresses.iter().filter(|address| is_address(address)) {
                // An adapter below a device in software may have no RDMA device of its own.
                let is_bare = || {
                    known.software.contains(address)
                        && capable::has_device(scope, address) == Some(Fact::Known(false))
                };
                let role = if known.functions.contains(address) {
                    if is_bare() { Role::Capable } else { Role::Rdma }
                } else if role::is_gpu(scope, address) {
                    Role::Gpu
                } else {
                    match capable::has_device(scope, address) {
                        Some(Fact::Known(false)) => Role::Capable,
                        Some(Fact::Known(true)) => {
                            left_out.push(address.clone());
                            continue;
                        }
                        // What could not be read is among the facts that are missing.
                        Some(Fact::Absent | Fact::Unread { .. }) | None => {
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

/// A number as the kernel writes ids: `0x15b3`.
pub(crate) fn hexadecimal<T: TryFrom<u32>>(text: &str) -> Option<T> {
    T::try_from(u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?).ok()
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
        let matters =
            capable::is_network(class) || matches!(class >> 16, 0x03 | 0x12) || class >> 8 == BRIDGE;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_of_more_than_16_bits_is_refused(number: u32) {
            prop_assert_eq!(hexadecimal::<u16>(&format!("{number:#06x}")), u16::try_from(number).ok());
        }
    }
}
