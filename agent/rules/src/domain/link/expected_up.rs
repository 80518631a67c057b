//! Why a port is expected to be ACTIVE: it is in use, it is listed, or its equals are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rdma_health_node::{
    Node, Port,
    infiniband::PortCode,
    peers::{Peers, exceptions},
};

use super::subnet_manager::awaits_subnet_manager;
use crate::{Expectations, Subject, domain::rails::usual_link_layer};

/// Why a port is expected to be ACTIVE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why<'a> {
    /// It is DOWN with its link up, which only the host of a virtual machine can cause.
    HeldDown,
    /// It is DOWN with its link up, and its network device is set up: a virtual function below an ACTIVE port.
    BelowActive,
    /// The configuration names it.
    Listed,
    /// Its network device has had a carrier since boot.
    HadCarrier,
    /// Its counters of traffic are not zero.
    CarriedTraffic,
    /// Its network device is up and has an address, so someone set it up to be used.
    HasAddress,
    /// It is InfiniBand, which a virtual machine has only if it was given to it, and no InfiniBand port of the machine is ACTIVE.
    GivenToGuest,
    /// So many of the equal ports are ACTIVE.
    EqualsActive(&'a str),
    /// It serves GPUs, and no port of the node is ACTIVE.
    ServesGpus,
    /// It is InfiniBand, which has no use without RDMA, and no port of the node is ACTIVE.
    OnlyInfiniband,
    /// It is the port of a software device, and no port of the node is ACTIVE.
    OfSoftware,
    /// Its adapter is made for InfiniBand, too, and no port of the node is ACTIVE.
    OfBothKinds,
    /// No port of the node is ACTIVE, and it is an Ethernet port, which may be unused.
    NoneActive,
}

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeldDown => "its link is up, so the host holds the port of this virtual function down",
            Self::BelowActive => {
                "its physical function is ACTIVE and its network device is up, so its own state or GUID holds this virtual function down"
            }
            Self::Listed => "it is listed in expect.ports_up",
            Self::HadCarrier => "its network device has had a carrier since boot",
            Self::CarriedTraffic => "it has carried traffic since boot",
            Self::HasAddress => "its network device is up and has an address",
            Self::GivenToGuest => {
                "it was given to this virtual machine, of which no InfiniBand port is ACTIVE"
            }
            Self::EqualsActive(share) => return write!(f, "{share} equal ports are ACTIVE"),
            Self::ServesGpus => "it serves GPUs, and no port of the node is ACTIVE",
            Self::OnlyInfiniband | Self::NoneActive => "no RDMA port of the node is ACTIVE",
            Self::OfBothKinds => {
                "its adapter is for InfiniBand and Ethernet, and no RDMA port of the node is ACTIVE"
            }
            Self::OfSoftware => "it is the port of a software device, and no port of the node is ACTIVE",
        })
    }
}

/// What shows which ports of a node are expected to be ACTIVE.
pub(super) struct ExpectedUp<'a> {
    node: &'a Node,
    expectations: &'a Expectations,
    /// Ports that are not ACTIVE although most equal ports are, with the share that is.
    behind: BTreeMap<Subject, String>,
    /// The ports that serve GPUs, if no port of the node is ACTIVE.
    of_gpus_all_down: BTreeSet<Subject>,
    none_active: bool,
    /// Whether an `InfiniBand` port has a link and no subnet manager configured it.
    awaits_subnet_manager: bool,
    no_infiniband_active: bool,
}

impl<'a> ExpectedUp<'a> {
    pub(super) fn of(node: &'a Node, expectations: &'a Expectations) -> Self {
        let none_active = node.ports().all(|port| port.is_active() == Some(false));
        Self {
            node,
            expectations,
            behind: behind_peers(node),
            of_gpus_all_down: if none_active {
                ports_of_gpus(node)
            } else {
                BTreeSet::new()
            },
            none_active,
            awaits_subnet_manager: node.ports().any(|port| awaits_subnet_manager(&port)),
            no_infiniband_active: node
                .ports()
                .filter(Port::is_infiniband)
                .all(|port| port.is_active() == Some(false)),
        }
    }

    /// Why a port that is not ACTIVE matters; `None` for a spare port.
    pub(super) fn why(&self, port: &Port<'_>) -> Option<Why<'_>> {
        if is_held_down(self.node, port) {
            return Some(Why::HeldDown);
        }
        if let Some(why) = why_in_use(self.expectations, port) {
            return Some(why);
        }
        if is_below_active(self.node, port) {
            return Some(Why::BelowActive);
        }
        if let Some(share) = self.share_of_equals(port) {
            return Some(Why::EqualsActive(share));
        }
        if !port.is_representor() && self.node.is_set_up(port) && !self.is_of_other_type(port) {
            return Some(Why::HasAddress);
        }
        if self.of_gpus_all_down.contains(&Subject::of_port(port)) {
            return Some(Why::ServesGpus);
        }
        // A board may use some of the ports that control its switches.
        if self.node.controls_nvswitch(port) {
            return None;
        }
        if self.no_infiniband_active
            && self.node.is_virtual_machine()
            && port.is_infiniband()
            && !port.is_lent()
        {
            return Some(Why::GivenToGuest);
        }
        if self.none_active
            && !self.awaits_subnet_manager
            && port.is_infiniband()
            && !port.is_lent()
            && !port.hca.is_software()
        {
            return Some(Why::OnlyInfiniband);
        }
        // That other ports are not ACTIVE has another reason: they wait for a subnet manager.
        if !self.none_active || port.is_lent() || self.awaits_subnet_manager {
            return None;
        }
        Some(match port.hca.is_software() {
            true => Why::OfSoftware,
            false if is_of_both_kinds(self.node, port) => Why::OfBothKinds,
            false => Why::NoneActive,
        })
    }

    /// Whether the port has another link type than its equals, which is reported separately: it cannot come up.
    fn is_of_other_type(&self, port: &Port<'_>) -> bool {
        self.node.peers().iter().any(|peers| {
            let usual = usual_link_layer(peers);
            let all: Vec<_> = peers.ports.iter().collect();
            let others = exceptions(&all, |port: &Port<'_>| Some(port.link_layer.known() == usual));
            others.is_some_and(|others| others.without.iter().any(|other| other.is(port)))
        })
    }

    /// The share of the equal ports that is ACTIVE, if that is most of them.
    pub(super) fn share_of_equals(&self, port: &Port<'_>) -> Option<&str> {
        self.behind.get(&Subject::of_port(port)).map(String::as_str)
    }
}

/// Whether the ports of the adapter are InfiniBand or Ethernet (ConnectX-3): its PCI class is neither, but that of network controllers of another
/// kind. What a virtual machine was given is one or the other.
fn is_of_both_kinds(node: &Node, port: &Port<'_>) -> bool {
    const OTHER: u32 = 0x0280;
    let class = node.link_of(port.hca).and_then(|(_, pci)| pci.class.known());
    class.is_some_and(|class| class >> 8 == OTHER) && !node.is_virtual_machine()
}

/// Whether the host of a virtual machine holds an InfiniBand port down. A port of hardware with a link is INIT at least (InfiniBand
/// Architecture Specification, 14.2.5.6); a virtual function has the link of its physical port and a separate state.
fn is_held_down(node: &Node, port: &Port<'_>) -> bool {
    node.is_virtual_machine() && !port.is_lent() && is_down_with_link(port)
}

/// Whether an InfiniBand port is DOWN although its link is up, which only a virtual function can be.
pub(super) fn is_down_with_link(port: &Port<'_>) -> bool {
    const DOWN: u8 = 1;
    let link_up = port
        .phys_state
        .known()
        .is_some_and(|phys| phys.code == PortCode::LINK_UP);
    let down = port.state.known().is_some_and(|state| state.code == DOWN);
    port.is_infiniband() && link_up && down
}

/// Whether the port is that of a virtual function in use which does not come up although its physical function is ACTIVE. One that no pod has is down by
/// design, and nothing sets its network device up; one with a GUID of zero is reported as such.
fn is_below_active(node: &Node, port: &Port<'_>) -> bool {
    let hca = port.hca;
    let is_up = || {
        let netdev = port.netdev.known();
        netdev.is_some_and(|netdev| netdev.admin_up.known() == Some(&true) && netdev.index.known().is_some())
    };
    let has_guid = || hca.node_guid.known().is_some_and(|guid| guid.0 != 0);
    let functions = || node.functions().into_iter();
    let own = hca.pci_address.known().map(String::as_str);
    let physical = || {
        let mut found = functions().filter(|function| Some(function.address) == own);
        found.find_map(|function| function.physical_function())
    };
    let is_active = |address: &str| {
        let mut active = node.active_ports();
        active.any(|active| {
            let own = active.hca.pci_address.known().map(String::as_str);
            active.is_infiniband() && own == Some(address)
        })
    };
    is_down_with_link(port) && hca.is_virtual() && is_up() && has_guid() && physical().is_some_and(is_active)
}

/// Counters that rise with traffic: of hardware, of `rdma_rxe`, of `mlx5` on functions without the first.
const TRAFFIC: [&str; 5] = [
    "port_rcv_data",
    "port_xmit_data",
    "rcvd_pkts",
    "sent_pkts",
    "rx_write_requests",
];

/// How the port shows that it is in use, or that it is listed.
fn why_in_use(expectations: &Expectations, port: &Port<'_>) -> Option<Why<'static>> {
    let device = &port.hca.name;
    let expected = |name: &String| name == device || *name == port.to_string();
    if expectations.ports_up.iter().any(expected) {
        return Some(Why::Listed);
    }
    // It is down between two pods by design.
    if port.is_lent() {
        return None;
    }
    let carrier_ups = port.netdev.known().and_then(|netdev| netdev.carrier_ups.known());
    if carrier_ups.is_some_and(|ups| *ups > 0) {
        return Some(Why::HadCarrier);
    }
    let carried = port.counters.iter().chain(&port.hw_counters).any(|counter| {
        TRAFFIC.contains(&&*counter.name) && counter.value.known().is_some_and(|value| *value > 0)
    });
    carried.then_some(Why::CarriedTraffic)
}

/// The ports that serve the GPUs of the node.
fn ports_of_gpus(node: &Node) -> BTreeSet<Subject> {
    let of_gpus = node.peers().into_iter().filter(|peers| peers.serve_gpus);
    of_gpus
        .flat_map(|peers| peers.ports)
        .map(|port| Subject::of_port(&port))
        .collect()
}

/// Ports that are not ACTIVE although most equal ports are, with the share that is.
fn behind_peers(node: &Node) -> BTreeMap<Subject, String> {
    let has_gpus = node.gpus().next().is_some();
    let mut found = BTreeMap::new();
    for peers in node.peers() {
        // Next to the rails of GPUs, other equal ports may be uncabled on purpose.
        if has_gpus && !peers.serve_gpus {
            continue;
        }
        let usual = usual_link_layer(&peers);
        // A port with another link type cannot come up; that is reported separately.
        let is_comparable = |port: &Port<'_>| port.link_layer.known() == usual;
        let all: Vec<_> = peers.ports.iter().collect();
        let is_active = |port: &Port<'_>| port.is_active().filter(|active| *active || is_comparable(port));
        let Some(exceptions) = exceptions(&all, is_active) else {
            continue;
        };
        if !has_gpus && !is_clear_without_gpus(&peers, &exceptions.without) {
            continue;
        }
        let share = exceptions.share();
        found.extend(
            exceptions
                .without
                .into_iter()
                .map(|port| (Subject::of_port(port), share.clone())),
        );
    }
    found
}

/// Whether a port is expected to be up on a node without GPUs, where a spare port is common: it is the only exception, and
/// no administrator switched it off.
fn is_clear_without_gpus(peers: &Peers<'_>, without: &[&Port<'_>]) -> bool {
    const FEWEST: usize = 4;
    let is_switched_off = |port: &Port<'_>| {
        let netdev = port.netdev.known();
        netdev.is_some_and(|netdev| netdev.admin_up.known() == Some(&false))
    };
    matches!(without, [only] if !is_switched_off(only)) && peers.ports.len() >= FEWEST
}
