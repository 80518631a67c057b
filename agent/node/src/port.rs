//! Ports of RDMA devices, with the facts of the kernel and of libibverbs.

use std::{collections::BTreeSet, fmt, ops::Deref};

use rdma_health_kernel::{
    fact::Unread,
    infiniband::{self, CLASS, Hca},
    netlink::ethtool::Link,
    pci,
};
use rdma_health_protocol::{Device, Gid, LinkLayer, Port as VerbsPort, best_gid};

use crate::{Node, history::PortHistory, node::VerbsDevice};

/// One port of an RDMA device.
///
/// It dereferences to the kernel's facts. For facts that both the kernel and libibverbs report there is a method here, so
/// that all users get the same value.
#[derive(Debug, Clone, Copy)]
pub struct Port<'a> {
    /// The device.
    pub hca: &'a Hca,
    /// The port's number, from 1.
    pub number: u8,
    /// The facts in `/sys/class/infiniband/DEVICE/ports/NUMBER`.
    pub kernel: &'a infiniband::Port,
    /// The facts of libibverbs, if they are known.
    pub verbs: Option<&'a VerbsPort>,
    /// The PCI function of a device whose driver does not name its board.
    unnamed: Option<&'a pci::Function>,
}

impl Deref for Port<'_> {
    type Target = infiniband::Port;

    fn deref(&self) -> &infiniband::Port {
        self.kernel
    }
}

/// `mlx5_0:1`, the format of NCCL.
impl fmt::Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.hca.name, self.number)
    }
}

/// What equal boards have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Board<'a> {
    /// The name that the driver gives it; empty for software devices, for which the driver is enough.
    Named(&'a str),
    /// The ids of its PCI function, and of its board if they are known.
    Ids((u16, u16), Option<(u16, u16)>),
}

/// The name that the driver gives the board of a device: `board_id`, otherwise `hca_type`. That of ionic is the description of the device, and
/// `rdma-ndd` sets it to the name of the host and of the device, which is not a board.
fn named_board(hca: &Hca) -> Option<&str> {
    let hca_type = || {
        let name = hca.hca_type.known()?;
        (!name.contains(&hca.name)).then_some(name)
    };
    hca.board_id.known().or_else(hca_type).map(String::as_str)
}

/// The properties that comparable ports share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind<'a> {
    driver: &'a str,
    board: Board<'a>,
    link_layer: &'a LinkLayer,
    is_virtual: bool,
}

impl<'a> Port<'a> {
    /// The path of one of the port's files, for evidence.
    pub fn file(&self, name: &str) -> String {
        format!("{CLASS}/{}/ports/{}/{name}", self.hca.name, self.number)
    }

    /// Whether its link layer is Ethernet: RoCE or iWARP.
    pub fn is_ethernet(&self) -> bool {
        self.link_layer.known() == Some(&LinkLayer::Ethernet)
    }

    /// Whether its link layer is InfiniBand.
    pub fn is_infiniband(&self) -> bool {
        self.link_layer.known() == Some(&LinkLayer::InfiniBand)
    }

    /// Whether it is iWARP, which needs no GID with an IPv4 address (`node_type` is `4: RNIC`).
    pub fn is_iwarp(&self) -> bool {
        let node_type = self.hca.node_type.known();
        node_type.is_some_and(|node_type| node_type.starts_with("4:"))
    }

    /// Whether its connections need a GID of RoCE v2. Those of the ports of Gaudi are set up without `rdma_cm`, by addresses that its library
    /// exchanges.
    pub fn needs_routed_gid(&self) -> bool {
        let driver = self.hca.driver.known();
        let is_gaudi = driver.is_some_and(|driver| driver.starts_with("habanalabs"));
        !self.is_iwarp() && !is_gaudi
    }

    /// Whether the driver reports the state of the link. `efa` reports every port as ACTIVE
    /// (`drivers/infiniband/hw/efa/efa_verbs.c`, `efa_query_port`).
    pub fn reports_link_state(&self) -> bool {
        self.hca.driver.known().is_none_or(|driver| driver != "efa")
    }

    /// Whether it represents a virtual function in the adapter's switch (switchdev). It goes up and down with the user of
    /// that function and carries no RDMA itself. Other mlx5 devices have one Ethernet port.
    pub fn is_representor(&self) -> bool {
        let mlx5 = self
            .hca
            .driver
            .known()
            .is_some_and(|driver| driver == "mlx5_core");
        self.number > 1 && self.is_ethernet() && mlx5
    }

    /// Whether a pod or virtual machine controls its state and addresses: the network device of a virtual function moves
    /// into a pod and returns disabled when the pod ends.
    pub fn is_lent(&self) -> bool {
        self.hca.is_virtual() || self.is_representor()
    }

    /// Whether it is the same port of the same device.
    pub fn is(&self, other: &Port<'_>) -> bool {
        self.hca.name == other.hca.name && self.number == other.number
    }

    /// Ports of the same kind are comparable: same driver, board and link layer, and both or neither virtual functions.
    /// `None` for a device that does not report its kind.
    pub fn kind(&self) -> Option<Kind<'a>> {
        let hca = self.hca;
        let of_software = || hca.is_software().then_some(Board::Named(""));
        Some(Kind {
            driver: hca.driver.known()?,
            board: self.board().or_else(of_software)?,
            link_layer: self.kernel.link_layer.known()?,
            is_virtual: hca.is_virtual(),
        })
    }

    /// Its board, by which equal ports are found: as its driver names it, otherwise by the ids of its PCI function.
    pub(crate) fn board(&self) -> Option<Board<'a>> {
        let ids = || {
            let function = self.unnamed?;
            let ids = (*function.vendor.known()?, *function.device.known()?);
            Some(Board::Ids(ids, function.subsystem.known().copied()))
        };
        named_board(self.hca).map(Board::Named).or_else(ids)
    }

    /// The GID table entries in use, in order of index: from libibverbs, otherwise from sysfs. `None` if neither could be
    /// read.
    pub fn gids(&self) -> Option<&'a [Gid]> {
        let verbs = self.verbs.map(|port| port.gids.as_slice());
        verbs.or_else(|| self.kernel.gids.known().map(Vec::as_slice))
    }

    /// Why [`Port::gids`] is `None`.
    pub fn gids_unread(&self) -> Option<&'a Unread> {
        match self.gids() {
            Some(_) => None,
            None => self.kernel.gids.unread(),
        }
    }

    /// The GID that a RoCE connection over this port should use, and that the loopback probe uses. `None` on InfiniBand,
    /// and if the table is empty or unread.
    pub fn best_gid(&self) -> Option<&'a Gid> {
        best_gid(self.gids()?)
    }

    /// [`Port::best_gid`] if it is routable ([`Gid::is_routable`]).
    pub fn routable_gid(&self) -> Option<&'a Gid> {
        self.best_gid().filter(|gid| gid.is_routable())
    }

    /// The network device of one of [`Port::gids`]; `None` on InfiniBand, or if its name is not known.
    pub fn netdev_of(&self, gid: &'a Gid) -> Option<&'a str> {
        let listed = || {
            let mut gids = self.kernel.gids.known()?.iter();
            gids.find(|other| other.index == gid.index && other.gid == gid.gid)?
                .netdev
                .as_deref()
        };
        gid.netdev.as_deref().or_else(listed)
    }
}

impl Node {
    /// The history of a port, if there is one.
    pub fn past(&self, port: &Port<'_>) -> Option<&PortHistory> {
        self.history.as_ref()?.port(port.hca, port.number)
    }

    /// Every port, in order of device and number.
    pub fn ports(&self) -> impl Iterator<Item = Port<'_>> {
        self.hcas().flat_map(|hca| self.ports_of(hca))
    }

    /// The ports of one device, in order of number.
    pub fn ports_of<'a>(&'a self, hca: &'a Hca) -> impl Iterator<Item = Port<'a>> {
        let verbs = self.verbs_device(&hca.name);
        let function = || {
            let functions = self.pci.functions.known()?;
            functions.get(hca.pci_address.known()?)
        };
        let unnamed = if named_board(hca).is_none() {
            function()
        } else {
            None
        };
        hca.ports.iter().map(move |(number, kernel)| Port {
            unnamed,
            hca,
            number: *number,
            kernel,
            verbs: verbs.and_then(|device| device.ports.iter().find(|port| port.number == *number)),
        })
    }

    /// What ethtool reports of the link of a port with a network device, if it is known.
    pub fn ethernet_link(&self, port: &infiniband::Port) -> Option<&Link> {
        self.link_of_netdev(&port.netdev.known()?.name)
    }

    /// Whether a port's network device is up (`IFF_UP`), in the network of this node, and has an IPv4 address that a configuration gave it. An
    /// address of 169.254.0.0/16 is one that a host gives itself.
    pub fn is_set_up(&self, port: &infiniband::Port) -> bool {
        let Some(netdev) = port.netdev.known() else {
            return false;
        };
        let is_up = netdev.admin_up.known() == Some(&true) && netdev.index.known().is_some();
        let subnets = self.network.subnets.known().into_iter().flatten();
        let mut own = subnets.filter(|subnet| subnet.netdev == netdev.name);
        is_up && own.any(|subnet| !subnet.address.is_link_local())
    }

    /// Every port that is active.
    pub fn active_ports(&self) -> impl Iterator<Item = Port<'_>> {
        self.ports().filter(|port| port.is_active() == Some(true))
    }

    /// The kinds of RoCE ports that use IPv6: some of them have a RoCE v2 GID of a routed IPv6 address, and none has one of IPv4.
    pub fn ipv6_kinds(&self) -> BTreeSet<Kind<'_>> {
        let ports = || {
            self.active_ports()
                .filter(|port| port.is_ethernet() && !port.is_lent() && port.needs_routed_gid())
                .filter_map(|port| Some((port.kind()?, port.gids()?)))
        };
        let with_ipv4: BTreeSet<_> = ports()
            .filter(|(_, gids)| gids.iter().any(Gid::is_routable))
            .map(|(kind, _)| kind)
            .collect();
        ports()
            .filter(|(kind, gids)| !with_ipv4.contains(kind) && gids.iter().any(Gid::is_ipv6))
            .map(|(kind, _)| kind)
            .collect()
    }

    /// One port by name of its device and number.
    pub fn port(&self, device: &str, number: u8) -> Option<Port<'_>> {
        let hca = self.hcas.known()?.get(device)?;
        self.ports_of(hca).find(|port| port.number == number)
    }

    /// The facts of libibverbs about a device, if they are known.
    pub fn verbs_device(&self, name: &str) -> Option<&Device> {
        match self.verbs.known()?.get(name)? {
            VerbsDevice::Device(device) => Some(device),
            VerbsDevice::Error(_) => None,
        }
    }
}
