//! Equal ports that differ: link type, partition keys, addresses.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use rdma_health_node::{
    Node, Port,
    infiniband::{LinkLayer, PortCode},
    peers::{Peers, exceptions},
};
use rdma_health_protocol::GidType;

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    policy::Exception,
};

mod configured_type;
mod partition_device;

/// `link-type-differs`.
pub static LINK_TYPE_DIFFERS: Rule = Rule {
    id: "link-type-differs",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical)),
    title: "A port has another link type than equal ports, or than configured",
    explanation: "Adapters with ports for both InfiniBand and Ethernet (VPI) keep the link type in their firmware settings \
        (LINK_TYPE_P1). A reset of these settings, a firmware update or a replaced card changes it. ConnectX-3 takes it from a configuration \
        of its driver, too (/etc/rdma/mlx4.conf), if that is read when the driver is loaded. The link of a port with \
        the wrong type does not come up.",
    remedy: Remedy {
        any: "Set the link type of the port to that of the others, then reset the adapter or reboot. 1 is InfiniBand, 2 is \
            Ethernet.",
        host: "mlxconfig -d ADDRESS query LINK_TYPE_P1; mlxconfig -d ADDRESS set LINK_TYPE_P1=TYPE; mlxfwreset -d ADDRESS reset",
        ..Remedy::all("")
    },
    false_alarms: "Only equal ports are compared: same driver, board and function number, attached alike. At least three \
        quarters of them must have one type. Where they do not serve GPUs, only a port whose state is known not to be ACTIVE is \
        reported, because storage often uses the other type. The configuration of mlx4_core counts only for a port that is not ACTIVE.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: link_type_differs,
};

/// The link layer of most ports of a group.
pub(super) fn usual_link_layer<'a>(peers: &Peers<'a>) -> Option<&'a LinkLayer> {
    let mut layers: BTreeMap<&LinkLayer, usize> = BTreeMap::new();
    for port in &peers.ports {
        if let Some(layer) = port.kernel.link_layer.known() {
            *layers.entry(layer).or_default() += 1;
        }
    }
    layers
        .into_iter()
        .max_by_key(|(_, number)| *number)
        .map(|(layer, _)| layer)
}

fn link_type_differs(node: &Node, _: &Expectations) -> Vec<Draft> {
    let mut findings = Vec::new();
    for peers in node.peers() {
        let Some(usual) = usual_link_layer(&peers) else {
            continue;
        };
        let is_usual = |port: Port<'_>| Some(port.link_layer.known()? == usual);
        let Some(exceptions) = exceptions(&peers.ports, is_usual) else {
            continue;
        };
        let share = exceptions.share();
        let without = exceptions.without.into_iter();
        let judged = without.filter(|port| peers.serve_gpus || port.is_active() == Some(false));
        findings.extend(judged.map(|port| other_link_type(&port, usual, &share)));
    }
    findings.extend(configured_type::differs(node));
    findings
}

/// A port with another link type than `share` of its equals, which have `usual`.
fn other_link_type(port: &Port<'_>, usual: &LinkLayer, share: &str) -> Draft {
    let subject = Subject::of_port(port);
    let layer = port.link_layer.known().map_or("", LinkLayer::name);
    let value = match usual {
        LinkLayer::InfiniBand => "1",
        LinkLayer::Ethernet | LinkLayer::Other(_) => "2",
    };
    let usual = usual.name();
    let mut message = format!("{subject} has link type {layer}; {share} equal ports have {usual}");
    let phys = port.phys_state.known();
    if port.is_infiniband() && phys.is_some_and(|phys| phys.code == PortCode::LINK_UP) {
        message.push_str("; its link is up, so the other end of its cable is InfiniBand, too");
    }
    Draft::new(&LINK_TYPE_DIFFERS, subject, message)
        .fill("TYPE", value)
        .evidence(port.file("link_layer"), layer)
        .evidence("link type of equal ports", format!("{share} have {usual}"))
}

/// `partition-key-missing`.
pub static PARTITION_KEY_MISSING: Rule = Rule {
    id: "partition-key-missing",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical)),
    title: "An InfiniBand port is missing a partition key (P_Key)",
    explanation: "The subnet manager decides which partitions a port belongs to. Ports reach each other only in a common \
        partition in which at least one of them is a full member (highest bit of the key set). A port that has lost its key, \
        or has only 0x7fff, is ACTIVE and reaches only the subnet manager: connections fail with \
        IBV_WC_RETRY_EXC_ERR(12), or opening them fails with EINVAL.",
    remedy: Remedy {
        any: "Add the GUID of the port to its partition in the subnet manager (partitions.conf of opensm, or UFM), as for the \
            other ports. In a cloud, redeploy the instance or report it to the provider.",
        host: "Show the keys of the port: grep . /sys/class/infiniband/DEVICE/ports/1/pkeys/* | grep -v 0x0000",
        ..Remedy::all("")
    },
    false_alarms: "Only ACTIVE InfiniBand ports are judged. A key other than the default is expected only if at least three \
        quarters of the equal ports have it, or a network device for its partition (ib0.8001) is set up and has no carrier.",
    inputs: &[Writer::HostRoot, Writer::Fabric],
    judge: partition_key_missing,
};

/// The default partition, without the bit for full membership.
const DEFAULT_PARTITION: u16 = 0x7fff;

fn partition_key_missing(node: &Node, _: &Expectations) -> Vec<Draft> {
    let judged = |port: &Port<'_>| {
        port.is_infiniband() && port.is_active() == Some(true) && !port.is_lent() && !port.hca.is_software()
    };
    let mut findings = BTreeMap::new();
    for port in node.ports().filter(judged) {
        let Some(keys) = port.kernel.partition_keys.known() else {
            continue;
        };
        if keys.iter().any(|key| *key != DEFAULT_PARTITION) {
            let finding = partition_device::without_key(node, &port);
            findings.extend(finding.map(|finding| (Subject::of_port(&port), finding)));
            continue;
        }
        let has = if keys.is_empty() {
            "no partition key (P_Key)"
        } else {
            "only partition key (P_Key) 0x7fff"
        };
        let message = format!("{port} has {has}: it is not a full member of any partition");
        findings.insert(Subject::of_port(&port), with_keys(&port, keys, message));
    }
    for peers in node.peers() {
        let ports: Vec<_> = peers.ports.iter().filter(|port| judged(port)).collect();
        let keys_of = |port: &Port<'_>| port.partition_keys.known().cloned();
        let usual: BTreeSet<u16> = ports
            .iter()
            .filter_map(|port| keys_of(port))
            .flatten()
            .filter(|key| key & DEFAULT_PARTITION != DEFAULT_PARTITION)
            .take(MOST_KEYS)
            .collect();
        for key in usual {
            let has = |port: &Port<'_>| Some(port.partition_keys.known()?.contains(&key));
            let Some(found) = exceptions(&ports, has) else {
                continue;
            };
            let share = found.share();
            for port in found.without {
                let message =
                    format!("{port} has no partition key (P_Key) {key:#06x}; {share} equal ports have it");
                let keys = keys_of(port).unwrap_or_default();
                findings
                    .entry(Subject::of_port(port))
                    .and_modify(|draft: &mut Draft| {
                        draft.extend_message(&format!("; {share} equal ports have {key:#06x}"));
                    })
                    .or_insert_with(|| with_keys(port, &keys, message));
            }
        }
    }
    findings.into_values().collect()
}

/// The most keys of a group of ports that are compared.
const MOST_KEYS: usize = 64;

fn with_keys(port: &Port<'_>, keys: &[u16], message: String) -> Draft {
    let keys: Vec<_> = keys.iter().take(8).map(|key| format!("{key:#06x}")).collect();
    let keys = if keys.is_empty() {
        "none".into()
    } else {
        keys.join(", ")
    };
    Draft::new(&PARTITION_KEY_MISSING, Subject::of_port(port), message).evidence(port.file("pkeys/*"), keys)
}

/// `rail-addresses`.
pub static RAIL_ADDRESSES: Rule = Rule {
    id: "rail-addresses",
    domain: Domain::Gids,
    policy: Policy::of(Severities::WARNING).except(&[&SWAPPED]),
    title: "RDMA ports have duplicate or swapped addresses",
    explanation: "Each RoCE port needs its own IP address, in the subnet of the switch that it is connected to. If two ports \
        have one address, replies to one of them reach the other. If the addresses of two ports are exchanged, each of them is \
        in the subnet of the other's switch: connections time out, with IBV_WC_RETRY_EXC_ERR(12).",
    remedy: Remedy {
        any: "Compare the addresses with the cabling plan, and correct the configuration of both network devices. Check that \
            each port reaches its gateway or a peer on its own rail.",
        host: "ip -br addr show; ping -I NETDEV PEER. Show which switch port a device is connected to: lldptool get-tlv -n -i \
            NETDEV",
        ..Remedy::all("")
    },
    false_alarms: "Link-local addresses are not compared; neither are virtual functions, whose addresses belong to pods. \
        Addresses count as swapped only among six or more equal ports that serve GPUs, if they rise in the order of the ports \
        except for two of them.",
    inputs: &[Writer::HostRoot, Writer::Job],
    judge: rail_addresses,
};

/// What to do about two ports with one address.
const DUPLICATE: Remedy = Remedy {
    any: "Give one of the two network devices another address, that of its own rail, in the configuration of the network manager. Then check that each port \
        reaches its gateway or a peer on its own rail.",
    host: "ip -br addr show; ping -I NETDEV PEER",
    ..Remedy::all("")
};

/// What to do about ports that are in one bridge.
const BRIDGED: Remedy = Remedy {
    any: "The ports are members of one network device (a bridge), so the kernel gives each of them its address, and replies to one reach the other. Take the ports out of it, and give \
        each an address of its own rail, in the configuration of the network manager.",
    host: "bridge link show; ip -br addr show MASTER; ip link set NETDEV nomaster",
    ..Remedy::all("")
};

/// The network device, other than a bond, above all of these ports, if there is one: it has the address, and they show it.
fn shared<'a>(node: &Node, ports: &[Port<'a>], address: Ipv6Addr) -> Option<&'a str> {
    let above = |port: &Port<'a>| {
        let own = port.kernel.netdev.known()?;
        let gid = port.gids()?.iter().find(|gid| gid.gid == address)?;
        let of_gid = port.netdev_of(gid);
        own.master
            .as_deref()
            .or_else(|| of_gid.filter(|of_gid| *of_gid != own.name))
            .or_else(|| {
                // Where the first entry of the table is that of the address, the network device of the port is the one above.
                let several = ports.iter().filter(|other| {
                    let netdev = other.kernel.netdev.known();
                    netdev.is_some_and(|netdev| netdev.name == own.name)
                });
                (several.count() > 1).then_some(own.name.as_str())
            })
    };
    let name = above(ports.first()?)?;
    let is_bond = node
        .network
        .netdevs
        .get(name)
        .is_some_and(|settings| settings.bond.known().is_some());
    (!is_bond && ports.iter().all(|port| above(port) == Some(name))).then_some(name)
}

static SWAPPED: Exception = Exception {
    condition: "if two ports seem to have each other's address",
    severities: Severities::WARNING,
};

/// The routed addresses of a port in its GID table.
fn addresses<'a>(port: &Port<'a>) -> impl Iterator<Item = Ipv6Addr> + use<'a> {
    let gids = port.gids().unwrap_or_default().iter();
    gids.filter(|gid| gid.kind == GidType::RoceV2 && !gid.gid.is_unicast_link_local())
        .map(|gid| gid.gid)
}

fn rail_addresses(node: &Node, _: &Expectations) -> Vec<Draft> {
    let mut owners: BTreeMap<Ipv6Addr, Vec<Port<'_>>> = BTreeMap::new();
    let ports = node
        .active_ports()
        .filter(|port| port.is_ethernet() && !port.is_lent() && !port.hca.is_software());
    for port in ports {
        for address in addresses(&port) {
            owners.entry(address).or_default().push(port);
        }
    }
    let duplicates = owners.into_iter().filter_map(|(address, ports)| {
        let functions: BTreeSet<_> = ports.iter().map(|port| port.hca.identity()).collect();
        let ([first, ..], true) = (ports.as_slice(), functions.len() > 1) else {
            return None;
        };
        let names: Vec<_> = ports.iter().map(ToString::to_string).collect();
        let master = shared(node, &ports, address);
        let address = address
            .to_ipv4_mapped()
            .map_or_else(|| address.to_string(), |v4| v4.to_string());
        let names = names.join(" and ");
        let shown = format!("{address} on {names}");
        let (message, remedy) = match master {
            Some(master) => (
                format!(
                    "{names} are both below {master}, and have its address {address} instead of one each"
                ),
                BRIDGED,
            ),
            None => (format!("{names} have the same address {address}"), DUPLICATE),
        };
        Some(
            Draft::new(&RAIL_ADDRESSES, Subject::of_port(first), message)
                .remedy(remedy)
                .fill("MASTER", master.unwrap_or_default())
                .evidence("/sys/class/infiniband/*/ports/*/gids/*", shown),
        )
    });
    let mut findings: Vec<_> = duplicates.collect();
    findings.extend(
        node.peers()
            .iter()
            .filter(|peers| peers.serve_gpus)
            .filter_map(swapped),
    );
    findings
}

/// Two ports of a group whose addresses are exchanged, if all others are in order.
fn swapped(peers: &Peers<'_>) -> Option<Draft> {
    const FEWEST: usize = 6;
    let mut rails: Vec<_> = peers
        .ports
        .iter()
        .filter_map(|port| Some((port, place(port.routable_gid()?.gid))))
        .collect();
    if rails.len() < FEWEST || rails.len() < peers.ports.len() {
        return None;
    }
    // By name: mlx5_2 before mlx5_10.
    rails.sort_by_key(|(port, _)| (port.hca.name.len(), &port.hca.name, port.number));
    let by_name = exchanged(&rails)?;
    rails.sort_by_key(|(port, _)| (port.hca.pci_address.known(), port.number));
    let [(one, its), (other, others)] = exchanged(&rails)?;
    let same = |port: &Port<'_>| by_name.iter().any(|(named, _)| named.hca.name == port.hca.name);
    if !same(one) || !same(other) {
        return None;
    }
    let shown = |gid: Ipv6Addr| {
        gid.to_ipv4_mapped()
            .map_or_else(|| format!("{gid}/64"), |v4| v4.to_string())
    };
    let message = format!(
        "{one} has {} and {other} has {}: they seem to be swapped; the addresses of {} equal ports rise in the order of the ports",
        shown(its),
        shown(others),
        rails.len() - 2
    );
    Some(
        Draft::new(&RAIL_ADDRESSES, Subject::of_port(one), message)
            .exception(&SWAPPED)
            .evidence(one.file("gids"), shown(its))
            .evidence(other.file("gids"), shown(others)),
    )
}

/// The part of an address that shows the rail: the second half of an IPv6 address is often made from the MAC address.
fn place(address: Ipv6Addr) -> Ipv6Addr {
    match address.to_ipv4_mapped() {
        Some(_) => address,
        None => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64),
    }
}

/// The only two entries that are not in rising order, if exchanging them makes it so.
fn exchanged<T: Copy>(rails: &[(T, Ipv6Addr)]) -> Option<[(T, Ipv6Addr); 2]> {
    let mut sorted: Vec<_> = rails.iter().map(|(_, address)| *address).collect();
    sorted.sort_unstable();
    let mut wrong = rails
        .iter()
        .zip(&sorted)
        .filter(|((_, address), right)| address != *right);
    let (first, second) = (wrong.next()?, wrong.next()?);
    wrong.next().is_none().then_some([*first.0, *second.0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_exchange_is_recognised_and_another_order_is_a_design() {
        let order = |numbers: [u16; 6]| {
            let rails: Vec<_> = (0..)
                .zip(numbers.map(|n| Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, n)))
                .collect();
            exchanged(&rails).map(|[(a, _), (b, _)]| (a, b))
        };
        assert_eq!(order([1, 2, 3, 4, 5, 6]), None);
        assert_eq!(order([1, 2, 5, 4, 3, 6]), Some((2, 4)));
        assert_eq!(order([4, 5, 6, 1, 2, 3]), None, "the other socket first");
        assert_eq!(order([2, 1, 4, 3, 6, 5]), None, "pairs");
    }
}
