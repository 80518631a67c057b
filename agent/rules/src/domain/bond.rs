//! Bonds below RDMA devices.

use std::collections::BTreeSet;

use rdma_health_node::{Node, words::listed};

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
    without_link(node).chain(outside(node)).collect()
}

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
        let subject = Subject::of_port(&port);
        let message = format!(
            "{} of {}, the bond of {subject}, has a link but carries no traffic: LACP put it into another aggregator",
            listed(outside.iter().map(|member| member.name.as_str())),
            netdev.name,
        );
        let finding = Draft::new(&BOND_DEGRADED, subject, message)
            .fill("BOND", &netdev.name)
            .fill("NETDEV", &first.name);
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
