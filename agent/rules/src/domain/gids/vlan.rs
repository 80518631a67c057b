//! Ports whose equals have their address on a VLAN.

use std::collections::BTreeMap;

use rdma_health_node::{Node, Port, peers::exceptions};
use rdma_health_protocol::{Gid, GidType};

use crate::{Remedy, Subject, draft::Draft};

use super::{GID_MISSING, has_ipv6, table};

/// The VLAN that a port should have, as its equals do.
#[derive(Debug, Clone)]
pub(super) struct Vlan {
    /// The network device that is missing, named like those of the equal ports: `eth0.100`.
    netdev: String,
    /// Its number.
    number: String,
    /// The share of the equal ports that have one.
    share: String,
}

impl Vlan {
    /// Fills in the names in the commands of [`CREATE`].
    pub(super) fn fill(&self, finding: Draft) -> Draft {
        finding
            .fill("VLAN_DEVICE", &self.netdev)
            .fill("VLAN_ID", &self.number)
    }
}

/// What to do about a port without the VLAN that its equals have.
pub(super) const CREATE: Remedy = Remedy {
    any: "Create the VLAN device VLAN_DEVICE on NETDEV and give it the address: the equal ports have theirs on a VLAN, and an address of NETDEV itself \
        is outside of it. If the device exists, give it an address and set it up. Allow the VLAN on the switch port, too.",
    openshift: "Add the VLAN interface to the NodeNetworkConfigurationPolicy of the node.",
    host: "ip link add link NETDEV name VLAN_DEVICE type vlan id VLAN_ID; ip addr add IP_ADDRESS/PREFIX_LENGTH dev VLAN_DEVICE; ip link set \
        VLAN_DEVICE up; then set it in the configuration of the network manager.",
    ..Remedy::all("")
};

/// Active Ethernet ports without a RoCE v2 GID on a VLAN although most equal ports have one.
pub(super) fn of_equal_ports(node: &Node) -> BTreeMap<Subject, Vlan> {
    let behind = behind(node).into_iter();
    behind
        .map(|(port, vlan)| (Subject::of_port(&port), vlan))
        .collect()
}

/// Those that have another address. A port without any is reported for that.
pub(super) fn without(node: &Node) -> Vec<Draft> {
    let mut findings = Vec::new();
    for (port, vlan) in behind(node) {
        let gids = port.gids().unwrap_or_default();
        if port.routable_gid().is_none() && !has_ipv6(gids) {
            continue;
        }
        let share = &vlan.share;
        let message = format!("{port} has no RoCE v2 GID on a VLAN; {share} equal ports have one");
        let finding = Draft::new(&GID_MISSING, Subject::of_port(&port), message)
            .remedy(CREATE)
            .evidence(port.file("gids"), table(gids))
            .evidence("GIDs of equal ports", format!("{share} have one on a VLAN"));
        findings.push(vlan.fill(finding));
    }
    findings
}

fn behind(node: &Node) -> Vec<(Port<'_>, Vlan)> {
    let mut found = Vec::new();
    for peers in node.peers() {
        let all: Vec<_> = peers.ports.iter().collect();
        let Some(exceptions) = exceptions(&all, |port: &Port<'_>| Some(number(port)?.is_some())) else {
            continue;
        };
        let share = exceptions.share();
        let Some(number) = all.iter().find_map(|port| number(port)?) else {
            continue;
        };
        let without: Vec<_> = exceptions
            .without
            .iter()
            .map(|port| Subject::of_port(port))
            .collect();
        for port in peers.ports {
            let is_without = without.contains(&Subject::of_port(&port));
            let Some(netdev) = port.kernel.netdev.known().filter(|_| is_without) else {
                continue;
            };
            let vlan = Vlan {
                netdev: format!("{}.{number}", netdev.name),
                number: number.clone(),
                share: share.clone(),
            };
            found.push((port, vlan));
        }
    }
    found
}

/// The number of the VLAN on which a port has a RoCE v2 GID, if it has one; `None` of a port that is not judged.
#[expect(
    clippy::option_option,
    reason = "not judged, without a VLAN, or with this one"
)]
fn number(port: &Port<'_>) -> Option<Option<String>> {
    let is_judged = port.is_active() == Some(true) && port.is_ethernet();
    let gids = port.gids().filter(|_| is_judged)?;
    let own = &port.kernel.netdev.known()?.name;
    let of_v2 = gids.iter().filter(|gid| gid.kind == GidType::RoceV2);
    let mut numbers = of_v2.filter_map(|gid: &Gid| vlan_of(port.netdev_of(gid)?, own));
    Some(numbers.next().map(str::to_owned))
}

/// The number of a VLAN, if a network device is one by its usual name: `eth0.100`, `vlan100`. Those of pods (macvlan, ipvlan) come and go.
fn vlan_of<'a>(netdev: &'a str, own: &str) -> Option<&'a str> {
    let suffix = netdev.strip_prefix(own).and_then(|rest| rest.strip_prefix('.'));
    let number = suffix.or_else(|| netdev.strip_prefix("vlan"))?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(number)
}
