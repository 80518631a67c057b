//! What libibverbs reports about a device and its ports.

use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use crate::bounded;

/// The most ports of one device: they are numbered from 1 in a byte.
pub const MAX_PORTS: usize = 255;
/// The most entries in use of one port's GID table, far beyond any hardware.
pub const MAX_GIDS: usize = 1 << 16;

/// One RDMA device as `ibv_query_device` and `ibv_query_port` see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The device's name, as in `/sys/class/infiniband`.
    pub name: String,
    /// Node GUID in host byte order (`ibv_get_device_guid`).
    pub node_guid: u64,
    /// Firmware version as the driver words it; empty where it has none.
    pub firmware: String,
    /// PCI vendor id as the driver reports it (`ibv_device_attr.vendor_id`).
    pub vendor_id: u32,
    /// Vendor's part id (`ibv_device_attr.vendor_part_id`).
    pub vendor_part_id: u32,
    /// Largest memory region in bytes (`max_mr_size`).
    pub max_mr_size: u64,
    /// Every port, in ascending order of number.
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_PORTS>")]
    pub ports: Vec<Port>,
}

/// One port as `ibv_query_port` sees it, with its whole GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Port number, from 1.
    pub number: u8,
    /// `ibv_port_state`: 1 DOWN, 2 INIT, 3 ARMED, 4 ACTIVE, 5 `ACTIVE_DEFER`.
    pub state: u8,
    /// Physical state of the InfiniBand specification: 5 is LinkUp.
    pub phys_state: u8,
    /// `ibv_port_attr.link_layer`: 1 InfiniBand, 2 Ethernet, 0 unspecified; see [`Port::link_layer`].
    pub link_layer: u8,
    /// Active path MTU in bytes (256 to 4096); 0 where the driver's code is unknown.
    pub active_mtu: u32,
    /// Largest path MTU in bytes; 0 where the driver's code is unknown.
    pub max_mtu: u32,
    /// Base LID; 0 on Ethernet.
    pub lid: u16,
    /// LID of the subnet manager; 0 on Ethernet.
    pub sm_lid: u16,
    /// How many entries the GID table has room for.
    pub gid_table_len: u32,
    /// The entries in use, in ascending order of index.
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_GIDS>")]
    pub gids: Vec<Gid>,
}

impl Port {
    /// The link layer; `None` where the driver leaves it unspecified.
    pub fn link_layer(&self) -> Option<LinkLayer> {
        match self.link_layer {
            1 => Some(LinkLayer::InfiniBand),
            2 => Some(LinkLayer::Ethernet),
            _ => None,
        }
    }
}

/// What carries a port's packets. In JSON it is the kernel's word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE or iWARP.
    Ethernet,
    /// A word that the kernel writes for neither.
    Other(Box<str>),
}

impl LinkLayer {
    /// The word that the kernel writes (`/sys/class/infiniband/DEVICE/ports/N/link_layer`).
    pub fn name(&self) -> &str {
        match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for LinkLayer {
    fn from(word: String) -> Self {
        match word.as_str() {
            "InfiniBand" => Self::InfiniBand,
            "Ethernet" => Self::Ethernet,
            _ => Self::Other(word.into()),
        }
    }
}

impl From<LinkLayer> for String {
    fn from(layer: LinkLayer) -> Self {
        layer.name().to_owned()
    }
}

/// One entry of a port's GID table in use (`_ibv_query_gid_table`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gid {
    /// Index in the table; what `NCCL_IB_GID_INDEX` names.
    pub index: u32,
    /// The GID, which has the form of an IPv6 address.
    pub gid: Ipv6Addr,
    /// What kind of address it is.
    pub kind: GidType,
    /// Index of the network device it belongs to; `None` on InfiniBand, and where sysfs was read.
    pub netdev_index: Option<u32>,
    /// Name of the network device it belongs to (`gid_attrs/ndevs`); `None` on InfiniBand, and where libibverbs was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netdev: Option<String>,
}

impl Gid {
    /// Whether the GID is an IPv4 address in IPv6 form (`::ffff:a.b.c.d`).
    pub fn is_ipv4_mapped(&self) -> bool {
        self.gid.to_ipv4_mapped().is_some()
    }

    /// Whether it is a RoCE v2 GID of an IPv4 address, which routed networks and NCCL's defaults need.
    pub fn is_routable(&self) -> bool {
        self.kind == GidType::RoceV2 && self.is_ipv4_mapped()
    }

    /// Whether it is a RoCE v2 GID of an address that is more than link-local, IPv4 or IPv6: peers in other subnets reach it.
    pub fn is_global(&self) -> bool {
        self.kind == GidType::RoceV2 && !self.gid.is_unicast_link_local()
    }

    /// Whether it is a RoCE v2 GID of an IPv6 address that is more than link-local.
    pub fn is_ipv6(&self) -> bool {
        self.is_global() && !self.is_ipv4_mapped() && !self.gid.is_unspecified()
    }
}

/// The kind of a GID (`ibv_gid_entry.gid_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GidType {
    /// InfiniBand.
    #[serde(rename = "IB")]
    Ib,
    /// RoCE v1: Ethertype 0x8915, not routable.
    #[serde(rename = "RoCE v1")]
    RoceV1,
    /// RoCE v2: UDP port 4791.
    #[serde(rename = "RoCE v2")]
    RoceV2,
}

impl GidType {
    /// The name the kernel gives it in `gid_attrs/types`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ib => "IB",
            Self::RoceV1 => "RoCE v1",
            Self::RoceV2 => "RoCE v2",
        }
    }
}
