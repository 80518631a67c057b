//! The network devices with a cable: those of ports, and the members of bonds, which have none of their own.

use std::{collections::BTreeSet, fmt};

use rdma_health_kernel::{
    drivers, infiniband,
    netlink::{ethtool::Link, transceiver::Module},
    network::BondMember,
};

use crate::{Node, Port};

/// Maximum number of members of a bond that are judged. A bond of RDMA ports has two members, rarely four.
pub(crate) const MAX_MEMBERS: usize = 4;

/// A port's network device, or a member of the bond that is the port's network device.
#[derive(Debug, Clone, Copy)]
pub struct Cable<'a> {
    /// The port.
    pub port: Port<'a>,
    /// The network device; `None` for a port without one.
    pub netdev: Option<&'a str>,
    /// Whether the network device is a member of a bond.
    pub is_member: bool,
}

impl<'a> Cable<'a> {
    /// Its network device, if that is a member of a bond.
    pub fn member(&self) -> Option<&'a str> {
        self.netdev.filter(|_| self.is_member)
    }
}

/// `mlx5_0:1`, or for a member of a bond `ens9f1np1 of mlx5_bond_0:1`.
impl fmt::Display for Cable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member() {
            Some(member) => write!(f, "{member} of {}", self.port),
            None => self.port.fmt(f),
        }
    }
}

/// The cable of a port's own network device.
fn own(port: Port<'_>) -> Cable<'_> {
    Cable {
        port,
        netdev: port.kernel.netdev.known().map(|netdev| netdev.name.as_str()),
        is_member: false,
    }
}

/// The rate of a cable, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CableRate {
    /// Bits per second in each direction.
    pub bits_per_second: u64,
    /// The number of lanes; `None` if no one knows it for sure.
    pub lanes: Option<u32>,
}

impl Node {
    /// The rate of a cable with a link: as the driver of the network device reports it, otherwise that of the RDMA device. In drivers for Ethernet
    /// except mlx5, the kernel guesses the lanes of the RDMA device from the speed, and in older kernels the rate, too (`ib_get_eth_speed`).
    pub fn rate_of_cable(&self, cable: &Cable<'_>) -> Option<CableRate> {
        let port = &cable.port;
        let is_measured = || {
            port.is_infiniband()
                || port
                    .hca
                    .driver
                    .known()
                    .is_some_and(|driver| driver == "mlx5_core")
        };
        let of_rdma = port.rate.known().map(|rate| CableRate {
            bits_per_second: rate.bits_per_second,
            lanes: rate.lanes.filter(|lanes| *lanes > 0 && is_measured()),
        });
        let speed = cable
            .netdev
            .and_then(|netdev| self.link_of_netdev(netdev)?.speed.known());
        let Some(speed) = speed else {
            return of_rdma;
        };
        let same = of_rdma.filter(|rate| !cable.is_member && rate.bits_per_second == speed.bits_per_second);
        Some(CableRate {
            bits_per_second: speed.bits_per_second,
            lanes: speed.lanes.or_else(|| same?.lanes),
        })
    }

    /// Every cable: of each port in order of device and number that of its own network device, then those of the members of its bond. Both
    /// functions of an adapter may show one bond; its members are those of the first one.
    pub fn cables(&self) -> Vec<Cable<'_>> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for port in self.ports() {
            found.push(own(port));
            for member in self.members(port.kernel) {
                if seen.insert(member) {
                    found.push(Cable {
                        port,
                        netdev: Some(member),
                        is_member: true,
                    });
                }
            }
        }
        found
    }

    /// The cables of one port among [`Node::cables`].
    pub fn cables_of<'a>(&'a self, port: &Port<'a>) -> Vec<Cable<'a>> {
        // A node may have thousands of ports, and few bonds.
        if self.members(port.kernel).is_empty() {
            return vec![own(*port)];
        }
        let mut cables = self.cables();
        cables.retain(|cable| cable.port.is(port));
        cables
    }

    /// The members of the bond that is the network device of a port, without those that are the network device of a port themselves.
    pub fn members(&self, port: &infiniband::Port) -> Vec<&str> {
        let Some(netdev) = port.netdev.known() else {
            return Vec::new();
        };
        let settings = self.network.netdevs.get(&netdev.name);
        let of_sysfs = settings.and_then(|settings| settings.bond.known());
        let members: Vec<&str> = if let Some(members) = of_sysfs {
            members.iter().map(|member| member.name.as_str()).collect()
        } else {
            let bond = self.interface(port).and_then(|interface| interface.bond.known());
            let members = bond.into_iter().flat_map(|bond| &bond.members);
            members.map(|member| member.name.as_str()).collect()
        };
        if members.is_empty() {
            return members;
        }
        let is_port = |name: &&str| {
            let mut ports = self.hcas().flat_map(|hca| hca.ports.values());
            ports.any(|port| port.netdev.known().is_some_and(|own| own.name == **name))
        };
        members
            .into_iter()
            .filter(|name| !is_port(name))
            .take(MAX_MEMBERS)
            .collect()
    }

    /// What sysfs has of a member of the bond that is the network device of a port.
    pub fn bond_member(&self, port: &infiniband::Port, member: &str) -> Option<&BondMember> {
        let bond = &port.netdev.known()?.name;
        let mut members = self.network.netdevs.get(bond)?.bond.known()?.iter();
        members.find(|one| one.name == member)
    }

    /// Whether a member of a bond has a link, as its carrier and the bond show it; `None` if it is not known.
    pub fn member_is_up(&self, port: &infiniband::Port, member: &str) -> Option<bool> {
        let of_sysfs = || self.bond_member(port, member)?.is_up();
        let of_netlink = || {
            let mut members = self.interface(port)?.bond.known()?.members.iter();
            Some(members.find(|one| one.name == member)?.link_up)
        };
        of_sysfs().or_else(of_netlink)
    }

    /// What ethtool reports of the link of a network device, if it is known.
    pub fn link_of_netdev(&self, netdev: &str) -> Option<&Link> {
        self.links.netdevs.known()?.get(netdev)
    }

    /// The transceiver of a network device, if it has one that could be read.
    pub fn module_of_netdev(&self, netdev: &str) -> Option<&Module> {
        self.transceivers.netdevs.known()?.get(netdev)
    }

    /// What the driver of a network device counts by this name of its own.
    pub(crate) fn statistic_of_netdev(&self, netdev: &str, name: &str) -> Option<u64> {
        debug_assert!(drivers::is_used(name));
        self.drivers.netdevs.known()?.get(netdev)?.get(name).copied()
    }
}
