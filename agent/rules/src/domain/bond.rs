//! Bonds below RDMA devices.

use std::collections::BTreeSet;

use rdma_health_node::{
    Node, Port,
    bond::{NoTraffic, Silent},
    network::BondMember,
    words::{gigabits, listed},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    policy::Exception,
};

/// `bond-degraded`.
pub static BOND_DEGRADED: Rule = Rule {
    id: "bond-degraded",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)).except(&[&SILENT]),
    title: "A member of the bond below an RDMA port carries no traffic, or is slow",
    explanation: "The RDMA device of a bond (RoCE LAG) uses several physical ports and stays ACTIVE while one of them has a \
        link, or while LACP leaves one out: its switch port is not in the same port channel, or the negotiation stopped before both ends collect and \
        distribute. A bond that does not monitor its links (miimon 0) counts a member without a carrier as up and loses what it sends there. Without the other, half of the bandwidth and the redundancy are gone, and no state of the RDMA device shows it. Nor does it show a member whose link is slower than that of the others. If no member carries \
        traffic, the port may stay ACTIVE all the same: without miimon the bond keeps its carrier, and with LACP it keeps it while min_links is 0.",
    remedy: Remedy {
        any: "Check cable, transceiver and switch port of the member, and the LACP settings of the switch.",
        host: "cat /proc/net/bonding/BOND; ip link show NETDEV; ethtool NETDEV; ip link set NETDEV up",
        ..Remedy::all("")
    },
    false_alarms: "Only bonds of RDMA ports are judged. If no member has a link and the port is not ACTIVE, port-down reports the port. A switch without LACP \
        leaves one member in use, which is not reported, nor is the speed of a backup.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Fabric],
    judge: bond_degraded,
};

static SILENT: Exception = Exception {
    condition: "if no member carries traffic although the port is ACTIVE",
    severities: Severities::CRITICAL.tcp_only(Severity::Info),
};

fn bond_degraded(node: &Node, _: &Expectations) -> Vec<Draft> {
    let silent = silent_bonds(node);
    let bonds: BTreeSet<_> = silent.iter().map(|(_, silent)| silent.bond).collect();
    let of_members = without_link(node).chain(left_out(node)).chain(slower(node));
    let of_members = of_members.filter(|(bond, _)| !bonds.contains(bond));
    let of_members: Vec<_> = of_members.map(|(_, finding)| finding).collect();
    let all = silent
        .iter()
        .map(|(port, silent)| none_carries(node, port, silent));
    all.chain(of_members).collect()
}

/// The bonds none of whose members carries traffic, each with its first port.
fn silent_bonds(node: &Node) -> Vec<(Port<'_>, Silent<'_>)> {
    let mut seen = BTreeSet::new();
    let active = node.active_ports();
    let silent = active.filter_map(|port| Some((port, node.silent_bond(port.kernel)?)));
    silent.filter(|(_, silent)| seen.insert(silent.bond)).collect()
}

fn none_carries(node: &Node, port: &Port<'_>, silent: &Silent<'_>) -> Draft {
    let reason = |name: &str| node.link_of_netdev(name)?.down_reason.known();
    let words = silent.members.iter().map(|member| {
        let why = match member.why {
            NoTraffic::Unnoticed => "no carrier, and the bond counts it as up",
            NoTraffic::NoLink => "no link",
            NoTraffic::Lacp => "has a link, and LACP does not use it",
            NoTraffic::Backup => "has a link, and is a backup",
        };
        match reason(member.name).filter(|_| matches!(member.why, NoTraffic::Unnoticed | NoTraffic::NoLink)) {
            Some(reason) => format!("{} ({why}: {reason})", member.name),
            None => format!("{} ({why})", member.name),
        }
    });
    let words: Vec<_> = words.collect();
    let subject = Subject::of_port(port);
    let message = format!(
        "no member of {}, the bond of {subject}, carries traffic although the port is ACTIVE: {}",
        silent.bond,
        listed(words.iter().map(String::as_str))
    );
    let has = |why: NoTraffic| silent.members.iter().any(|member| member.why == why);
    let mut finding = Draft::new(&BOND_DEGRADED, subject, message)
        .exception(&SILENT)
        .fill("BOND", silent.bond);
    if has(NoTraffic::Lacp) {
        finding = finding.remedy(LEFT_OUT);
    } else if has(NoTraffic::Unnoticed) {
        finding = finding.remedy(UNNOTICED);
    }
    if let Some(first) = silent.members.first() {
        finding = finding.fill("NETDEV", first.name);
    }
    for member in &silent.members {
        for (source, value) in &member.shown {
            finding = finding.evidence(source, value);
        }
        if let Some(reason) = reason(member.name) {
            finding = finding.evidence(format!("ethtool {}, why the link is down", member.name), reason);
        }
    }
    finding
}

/// What to do about a member without a carrier that the bond counts as up.
const UNNOTICED: Remedy = Remedy {
    any: "Let the bond monitor its links (miimon 100), in the configuration of the network manager: 0 is the kernel's default in all modes except 802.3ad. Then check cable, \
        transceiver and switch port of the member.",
    host: "grep . /sys/class/net/BOND/bonding/miimon /sys/class/net/NETDEV/carrier; ip link set BOND type bond miimon 100; ethtool NETDEV",
    ..Remedy::all("")
};

/// What to do about a member with a link that LACP leaves out.
const LEFT_OUT: Remedy = Remedy {
    any: "On the switch, put the port of NETDEV into the same port channel (LAG) as those of the other members, with LACP active; with two switches, they must \
        be one LACP system (MLAG, EVPN). Its link is up, so the cable is not the cause, unless it passes frames in one direction only.",
    host: "cat /proc/net/bonding/BOND; networkctl lldp NETDEV",
    ..Remedy::all("")
};

/// Bonds with a member that has a link, and that LACP leaves out.
fn left_out(node: &Node) -> impl Iterator<Item = (&str, Draft)> {
    let mut seen = BTreeSet::new();
    node.ports().filter_map(move |port| {
        let left_out = node.left_out(port.kernel)?;
        // Both functions of a card may show one bond.
        let first = left_out.members.first().filter(|_| seen.insert(left_out.bond))?;
        let subject = Subject::of_port(&port);
        let why = if left_out.members.iter().all(|member| member.is_elsewhere) {
            "LACP left it out of the aggregator that does"
        } else {
            "LACP does not use it, because one of its ends does not collect and distribute"
        };
        let message = format!(
            "{} of {}, the bond of {subject}, has a link but carries no traffic: {why}",
            listed(left_out.members.iter().map(|member| member.name)),
            left_out.bond
        );
        let finding = Draft::new(&BOND_DEGRADED, subject, message)
            .remedy(LEFT_OUT)
            .fill("BOND", left_out.bond)
            .fill("NETDEV", first.name);
        let of_members = left_out.members.iter().flat_map(|member| &member.shown);
        let evidence = of_members.chain(&left_out.aggregator);
        let finding = evidence.fold(finding, |finding, (source, value)| {
            finding.evidence(source, value)
        });
        Some((left_out.bond, finding))
    })
}

/// Each bond below RDMA ports, with the first of its ports and its members.
fn bonds(node: &Node) -> impl Iterator<Item = (Port<'_>, &str, &[BondMember])> {
    let mut seen = BTreeSet::new();
    node.ports().filter_map(move |port| {
        let netdev = port.kernel.netdev.known()?;
        let members = node.network.netdevs.get(&netdev.name)?.bond.known()?;
        // Both functions of a card may show one bond.
        let is_first = seen.insert(&netdev.name);
        is_first.then_some((port, netdev.name.as_str(), members.as_slice()))
    })
}

/// Bonds with members in use whose links have different speeds: each gets the same share of the flows.
fn slower(node: &Node) -> impl Iterator<Item = (&str, Draft)> {
    bonds(node).filter_map(|(port, bond, members)| {
        // A backup may be a slower network on purpose.
        let in_use = members
            .iter()
            .filter(|member| member.is_up() == Some(true) && member.is_active.known() != Some(&false));
        let speeds = in_use.filter_map(|member| {
            let speed = node.link_of_netdev(&member.name)?.speed.known()?;
            Some((speed.bits_per_second, member.name.as_str()))
        });
        let speeds: Vec<_> = speeds.collect();
        let (fastest, equal) = speeds.iter().max_by_key(|(speed, _)| speed)?;
        let slower = speeds.iter().filter(|(speed, _)| speed < fastest);
        let slower: Vec<_> = slower.collect();
        let (slow, first) = slower.first()?;
        let subject = Subject::of_port(&port);
        let message = format!(
            "{} of {}, the bond of {subject}, runs at {}, and {equal} at {}",
            listed(slower.iter().map(|(_, name)| *name)),
            bond,
            gigabits(*slow),
            gigabits(*fastest),
        );
        let finding = Draft::new(&BOND_DEGRADED, subject, message)
            .remedy(SLOWER)
            .fill("BOND", bond)
            .fill("NETDEV", *first);
        let finding = speeds.iter().fold(finding, |finding, (speed, name)| {
            finding.evidence(format!("ethtool {name}, speed"), gigabits(*speed))
        });
        Some((bond, finding))
    })
}

/// What to do about a member that is slower than the others.
const SLOWER: Remedy = Remedy {
    any: "Find why the link of NETDEV is slower: its cable or transceiver, lanes that did not come up, or the speed that its switch port or this end is set to. The bond gives each \
        member the same share of the traffic, so the slow one limits jobs.",
    host: "ethtool NETDEV; ethtool -m NETDEV; cat /proc/net/bonding/BOND",
    ..Remedy::all("")
};

fn without_link(node: &Node) -> impl Iterator<Item = (&str, Draft)> {
    bonds(node).filter_map(|(port, bond, members)| {
        let with_link = |up: bool| {
            members
                .iter()
                .filter(move |member| member.is_up() == Some(up))
        };
        let down: Vec<_> = with_link(false).collect();
        if down.is_empty() || with_link(true).next().is_none() {
            return None;
        }
        let subject = Subject::of_port(&port);
        let reason = |name: &str| node.link_of_netdev(name)?.down_reason.known();
        let named: Vec<_> = down
            .iter()
            .map(|member| match reason(&member.name) {
                Some(reason) => format!("{} ({reason})", member.name),
                None => member.name.clone(),
            })
            .collect();
        // The bond may count a member as down whose link is up: it waits (updelay), or its ARP monitor gets no answers. Some drivers report the speed
        // that is set although there is no carrier.
        let has_link = |member: &BondMember| {
            let is_fast = || node.link_of_netdev(&member.name).is_some_and(|link| link.speed.known().is_some());
            let carrier = member.has_carrier.known().copied();
            reason(&member.name).is_none() && carrier.unwrap_or_else(is_fast)
        };
        let is_unnoticed = down.iter().any(|member| member.is_unnoticed());
        let why = if is_unnoticed {
            "has no carrier, and the bond counts it as up and sends into nothing: it does not look at the carrier (miimon 0, use_carrier 0, or only the ARP monitor)"
        } else if down.iter().all(|member| has_link(member)) {
            "is down for the bond, although its link is up (updelay, or no answers to the ARP monitor)"
        } else {
            "has no link"
        };
        let message = format!(
            "{} of {}, the bond of {subject}, {why}: {} of {} members are up",
            listed(named.iter().map(String::as_str)),
            bond,
            members.len() - down.len(),
            members.len()
        );
        let mut finding = Draft::new(&BOND_DEGRADED, subject, message).fill("BOND", bond);
        if is_unnoticed {
            finding = finding.remedy(UNNOTICED);
        }
        if let Some(member) = down.first() {
            finding = finding.fill("NETDEV", &member.name);
        }
        let finding = down.iter().fold(finding, |finding, member| {
            let (file, value) = if member.link_up.known() == Some(&false) {
                ("bonding_slave/mii_status", "down")
            } else {
                ("carrier", "0")
            };
            let finding = finding.evidence(format!("/sys/class/net/{}/{file}", member.name), value);
            match reason(&member.name) {
                Some(reason) => {
                    finding.evidence(format!("ethtool {}, why the link is down", member.name), reason)
                }
                None => finding,
            }
        });
        Some((bond, finding))
    })
}
