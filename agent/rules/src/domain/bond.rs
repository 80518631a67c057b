//! Bonds below RDMA devices.

use std::collections::BTreeSet;

use rdma_health_node::{Node, Port, words::listed};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
};

/// `bond-degraded`.
pub static BOND_DEGRADED: Rule = Rule {
    id: "bond-degraded",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)),
    title: "A member of the bond below an RDMA port carries no traffic",
    explanation: "The RDMA device of a bond (RoCE LAG) uses several physical ports and stays ACTIVE while one of them has a \
        link, or while LACP leaves one out because its switch port is not in the same port channel. Without the other, half of the bandwidth and the redundancy are gone, and no state of the RDMA device shows it.",
    remedy: Remedy {
        any: "Check cable, transceiver and switch port of the member, and the LACP settings of the switch.",
        host: "cat /proc/net/bonding/BOND; ip link show NETDEV; ethtool NETDEV; ip link set NETDEV up",
        ..Remedy::all("")
    },
    false_alarms: "Only bonds of RDMA ports are judged. If no member has a link, port-down reports the port.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Fabric],
    judge: bond_degraded,
};

fn bond_degraded(node: &Node, _: &Expectations) -> Vec<Draft> {
    let mut found: Vec<Draft> = without_link(node).chain(outside(node)).collect();
    // Netlink and sysfs report the same; a tree of files has sysfs only.
    let of_netlink: BTreeSet<Subject> = found.iter().map(|finding| finding.subject().clone()).collect();
    found.extend(left_out(node).filter(|finding| !of_netlink.contains(finding.subject())));
    found
}

/// The same as [`outside`], from sysfs.
fn left_out(node: &Node) -> impl Iterator<Item = Draft> {
    let mut seen = BTreeSet::new();
    node.ports().filter_map(move |port| {
        let netdev = port.kernel.netdev.known()?;
        let bond = node.network.netdevs.get(&netdev.name)?;
        let outside = bond.outside();
        let first = outside.first()?;
        if !seen.insert(&netdev.name) {
            return None;
        }
        let names = listed(outside.iter().map(|member| member.name.as_str()));
        let finding = idle(
            &port,
            &netdev.name,
            &names,
            "left it out of the aggregator that does",
        )
        .fill("NETDEV", &first.name);
        let finding = outside.iter().fold(finding, |finding, member| {
            let of = |file: &str| format!("/sys/class/net/{}/bonding_slave/{file}", member.name);
            let finding = match member.aggregator.known() {
                Some(aggregator) => finding.evidence(of("ad_aggregator_id"), aggregator),
                None => finding,
            };
            match member.partner_state.known() {
                Some(state) => finding.evidence(of("ad_partner_oper_port_state"), state),
                None => finding,
            }
        });
        let source = format!("/sys/class/net/{}/bonding/ad_aggregator", netdev.name);
        Some(match bond.aggregator.known() {
            Some(aggregator) => finding.evidence(source, aggregator),
            None => finding,
        })
    })
}

/// The finding about members with a link that carry no traffic, and what LACP did with them.
fn idle(port: &Port<'_>, bond: &str, members: &str, deed: &str) -> Draft {
    let subject = Subject::of_port(port);
    let message =
        format!("{members} of {bond}, the bond of {subject}, has a link but carries no traffic: LACP {deed}");
    Draft::new(&BOND_DEGRADED, subject, message)
        .remedy(LEFT_OUT)
        .fill("BOND", bond)
}

/// What to do about a member with a link that LACP leaves out.
const LEFT_OUT: Remedy = Remedy {
    any: "On the switch, put the port of NETDEV into the same port channel (LAG) as those of the other members, with LACP active; with two switches, they must \
        be one LACP system (MLAG, EVPN). Its link is up, so the cable is not the cause.",
    host: "cat /proc/net/bonding/BOND; networkctl lldp NETDEV",
    ..Remedy::all("")
};

/// Bonds with a member that has a link, and that LACP leaves out.
fn outside(node: &Node) -> impl Iterator<Item = Draft> {
    let mut seen = BTreeSet::new();
    node.ports().filter_map(move |port| {
        let netdev = port.kernel.netdev.known()?;
        let bond = node.interface(port.kernel)?.bond.known()?;
        if !seen.insert(&netdev.name) {
            return None;
        }
        let outside: Vec<_> = bond.outside().collect();
        let first = outside.first()?;
        let names = listed(outside.iter().map(|member| member.name.as_str()));
        let finding =
            idle(&port, &netdev.name, &names, "put it into another aggregator").fill("NETDEV", &first.name);
        let finding = outside.iter().fold(finding, |finding, member| {
            let source = format!("ip -d link show {}: ad_aggregator_id", member.name);
            finding.evidence(source, member.aggregator.unwrap_or_default())
        });
        let source = format!("ip -d link show {}: ad_aggregator", netdev.name);
        Some(finding.evidence(source, bond.aggregator.unwrap_or_default()))
    })
}

fn without_link(node: &Node) -> impl Iterator<Item = Draft> {
    let mut seen = BTreeSet::new();
    node.ports().filter_map(move |port| {
        let netdev = port.kernel.netdev.known()?;
        let members = node.network.netdevs.get(&netdev.name)?.bond.known()?;
        // Both functions of a card may show one bond.
        if !seen.insert(&netdev.name) {
            return None;
        }
        let with_link = |up: bool| {
            members
                .iter()
                .filter(move |member| member.link_up.known() == Some(&up))
        };
        let down: Vec<_> = with_link(false).collect();
        if down.is_empty() || with_link(true).next().is_none() {
            return None;
        }
        let subject = Subject::of_port(&port);
        let message = format!(
            "{} of {}, the bond of {subject}, has no link: {} of {} members are up",
            listed(down.iter().map(|member| member.name.as_str())),
            netdev.name,
            members.len() - down.len(),
            members.len()
        );
        let mut finding = Draft::new(&BOND_DEGRADED, subject, message).fill("BOND", &netdev.name);
        if let Some(member) = down.first() {
            finding = finding.fill("NETDEV", &member.name);
        }
        Some(down.iter().fold(finding, |finding, member| {
            finding.evidence(
                format!("/sys/class/net/{}/bonding_slave/mii_status", member.name),
                "down",
            )
        }))
    })
}
