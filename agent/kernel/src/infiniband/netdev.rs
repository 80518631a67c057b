//! The network device of a port.
//!
//! Source: `/sys/class/net/NETDEV` (`Documentation/ABI/testing/sysfs-class-net`).

use rdma_health_protocol::Gid;
use serde::{Deserialize, Serialize};

use super::{
    CLASS, Hca,
    attribute::{Attribute, parsed},
};
use crate::{fact::Fact, pci::hexadecimal, root::Scope};

/// The network device of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Netdev {
    /// Its name.
    pub name: String,
    /// Interface index.
    pub index: Fact<u32>,
    /// MTU in bytes.
    pub mtu: Fact<u32>,
    /// Operational state (`up`, `down`, `dormant`, `unknown`), RFC 2863.
    pub operstate: Fact<String>,
    /// Whether the administrator has enabled it (`IFF_UP`).
    pub admin_up: Fact<bool>,
    /// Number of carrier gains since it was created (`carrier_up_count`).
    pub carrier_ups: Fact<u64>,
    /// Number of carrier losses since it was created (`carrier_down_count`).
    #[serde(default)]
    pub carrier_downs: Fact<u64>,
    /// Its hardware address (`aa:bb:cc:dd:ee:ff`; 20 bytes on InfiniBand).
    #[serde(default)]
    pub address: Fact<String>,
    /// The bond, team or bridge of which it is a member, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,
}

/// Reads a port's network device repeatedly.
#[derive(Debug)]
pub(super) struct NetdevReader {
    name: String,
    index: Fact<u32>,
    mtu: Attribute,
    operstate: Attribute,
    flags: Attribute,
    carrier_ups: Attribute,
    carrier_downs: Attribute,
    address: Fact<String>,
    master: Option<String>,
}

impl NetdevReader {
    pub(super) fn new(scope: &Scope<'_>, name: String) -> Self {
        let file = |attribute: &str| format!("/sys/class/net/{name}/{attribute}");
        Self {
            index: scope.number(&file("ifindex")),
            mtu: Attribute::new(file("mtu")),
            operstate: Attribute::new(file("operstate")),
            flags: Attribute::new(file("flags")),
            carrier_ups: Attribute::new(file("carrier_up_count")),
            carrier_downs: Attribute::new(file("carrier_down_count")),
            address: scope.parsed(&file("address"), "a hardware address", hardware_address),
            master: scope.collected_link_name(&file("master")),
            name,
        }
    }

    pub(super) fn read(&mut self, scope: &Scope<'_>, buffer: &mut Vec<u8>) -> Netdev {
        let word = |text: &str| {
            (text.len() <= 32 && text.chars().all(|c| c.is_ascii_graphic())).then(|| text.to_owned())
        };
        Netdev {
            name: self.name.clone(),
            index: self.index.clone(),
            mtu: parsed(scope, &mut self.mtu, buffer, "an MTU in bytes", |text| {
                text.parse().ok()
            }),
            operstate: parsed(scope, &mut self.operstate, buffer, "an operational state", word),
            admin_up: parsed(scope, &mut self.flags, buffer, "interface flags", |text| {
                Some(hexadecimal::<u32>(text)? & IFF_UP != 0)
            }),
            carrier_ups: parsed(scope, &mut self.carrier_ups, buffer, "a number", |text| {
                text.parse().ok()
            }),
            carrier_downs: parsed(scope, &mut self.carrier_downs, buffer, "a number", |text| {
                text.parse().ok()
            }),
            address: self.address.clone(),
            master: self.master.clone(),
        }
    }
}

/// Enabled by the administrator (`include/uapi/linux/if.h`).
const IFF_UP: u32 = 1;

/// Hexadecimal bytes separated by colons.
fn hardware_address(text: &str) -> Option<String> {
    let pair = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
    (text.len() <= 60 && text.split(':').all(pair)).then(|| text.to_ascii_lowercase())
}

/// The name of a port's network device: the kernel's entry for GID 0, which is also right for bonds; if that is empty, that of another default
/// GID, which are the first; else the PCI function's network device for this port.
pub(super) fn netdev_of(scope: &Scope<'_>, hca: &Hca, number: u8, port: &str, gids: &[Gid]) -> Fact<String> {
    /// A default GID of each type for each of two addresses.
    const DEFAULT_GIDS: u32 = 4;
    if let Some(parent) = hca.parent_netdev.known() {
        return Fact::Known(parent.clone());
    }
    // An empty entry of the table fails with EINVAL, which is not a failure of the node, so use a separate scope.
    let aside = Scope::new(scope.root());
    if let Some(name) = aside
        .optional(&format!("{port}/gid_attrs/ndevs/0"))
        .known()
        .filter(|name| !name.is_empty())
    {
        return Fact::Known(name.clone());
    }
    let mut defaults = gids.iter().filter(|gid| gid.index < DEFAULT_GIDS);
    if let Some(name) = defaults.find_map(|gid| gid.netdev.as_ref()) {
        return Fact::Known(name.clone());
    }
    let directory = format!("{CLASS}/{}/device/net", hca.name);
    scope.entries(&directory).and_then(|names| {
        // dev_port counts from 0; before Linux 3.15, dev_id did. Representors of virtual functions (`pf0vf3`) share the directory.
        let is_ours = |name: &&String| {
            let file = |attribute: &str| format!("/sys/class/net/{name}/{attribute}");
            let representor = aside
                .optional(&file("phys_port_name"))
                .known()
                .is_some_and(|name| name.contains("vf"));
            let dev_port = aside.number::<u32>(&file("dev_port")).known().copied();
            let dev_id = || {
                let id = aside.parsed(&file("dev_id"), "a number", hexadecimal::<u32>);
                id.known().copied()
            };
            let dev_port = dev_port.or_else(dev_id);
            !representor && dev_port.is_none_or(|port| port.checked_add(1) == Some(u32::from(number)))
        };
        match names.as_slice() {
            // Only the ports of ConnectX-3 and those after the first share a function, so that its device may be that of another port.
            [only] if number == 1 && !is_mlx4(hca) => Fact::Known(only.clone()),
            several => Fact::from(several.iter().find(is_ours).cloned()),
        }
    })
}

/// Whether each port of the device has a network device of its own below one function.
fn is_mlx4(hca: &Hca) -> bool {
    hca.driver.known().is_some_and(|driver| driver == "mlx4_core")
}
