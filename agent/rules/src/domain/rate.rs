//! What links agreed on: rate, width, MTU.

use std::collections::BTreeMap;

use rdma_health_node::Node;
use rdma_health_node::node::PortOf;

use super::common::{
    gigabits, is_ethernet, is_infiniband, is_representor, is_virtual, kind, port_file, severity,
};
use crate::{Domain, Expectations, Finding, Remedy, Rule, Severity, Subject};

/// The values of active ports of each kind.
fn by_kind<T>(node: &Node, value: impl Fn(&PortOf<'_>) -> Option<T>) -> Vec<Vec<(PortOf<'_>, T)>> {
    let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for port in node.active_ports().filter(|port| !is_representor(port)) {
        if let (Some(kind), Some(value)) = (kind(&port), value(&port)) {
            kinds.entry(kind).or_default().push((port, value));
        }
    }
    kinds.into_values().collect()
}

/// The ports whose value is below that of most of their kind, with the value that most have or exceed: a single one of
/// two that differ cannot be told to be the wrong one.
fn below_most<T: Copy + Ord>(group: &[(PortOf<'_>, T)], value: T) -> Option<T> {
    let mut above: Vec<T> = group
        .iter()
        .map(|(_, other)| *other)
        .filter(|other| *other > value)
        .collect();
    above.sort_unstable();
    (above.len() * 2 > group.len()).then(|| above[0])
}

/// `rate-low`.
pub(crate) static RATE_LOW: Rule = Rule {
    id: "rate-low",
    domain: Domain::Link,
    severity: Severity::Warning,
    title: "An active port runs at a lower rate than expected, or than others of its kind",
    explanation: "The port is active but agreed on a lower rate than the configuration expects (expect.rate_gbps), or than most \
        active ports of the same board do. A job over several ports runs at the pace of the slowest.",
    remedy: Remedy {
        any: "Look at the cable (its type and length limit the rate), at the switch port's configuration, and at the speeds that \
            the adapter is allowed to use.",
        host: "mlxlink -d DEVICE -c shows what was agreed on and what the cable can do; ethtool NETDEV the same for Ethernet.",
        ..Remedy::all("")
    },
    false_alarms: "Ports of different boards, and virtual functions, are not compared with each other. Where only a minority is \
        faster nobody knows which is right: then it is silent without an expectation. Fewer lanes are width-degraded.",
    judge: rate_low,
};

fn rate_low(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(severity) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let rate = |(hca, _, port): &PortOf<'_>| {
        let judged = !is_virtual(hca) && !hca.is_software();
        port.rate
            .known()
            .filter(|_| judged)
            .map(|rate| rate.bits_per_second)
    };
    let narrow: Vec<_> = narrow_ports(node)
        .into_iter()
        .map(|((hca, number, _), ..)| (hca, number))
        .collect();
    let mut findings = Vec::new();
    for group in by_kind(node, rate) {
        for ((hca, number, port), rate) in &group {
            let expected = expectations
                .rate_gbps
                .map(|gigabits| u64::from(gigabits) * 1_000_000_000);
            let (wanted, who) = match expected {
                Some(expected) if *rate < expected => (expected, "expected is"),
                Some(_) => continue,
                None => match below_most(&group, *rate) {
                    Some(most) => (most, "most of its kind run at"),
                    None => continue,
                },
            };
            if narrow
                .iter()
                .any(|(other, n)| other.name == hca.name && n == number)
            {
                continue;
            }
            let subject = Subject::port(&hca.name, *number);
            let message = format!(
                "{subject} runs at {}, {who} {}",
                gigabits(*rate),
                gigabits(wanted)
            );
            let words = port.rate.known().map(|rate| {
                format!(
                    "{}{}",
                    gigabits(rate.bits_per_second),
                    rate.lanes
                        .map(|lanes| format!(" ({lanes} lanes)"))
                        .unwrap_or_default()
                )
            });
            findings.push(
                Finding::new(&RATE_LOW, subject, message)
                    .severity(severity)
                    .evidence(port_file(hca, *number, "rate"), words.unwrap_or_default()),
            );
        }
    }
    findings
}

/// `width-degraded`.
pub(crate) static WIDTH_DEGRADED: Rule = Rule {
    id: "width-degraded",
    domain: Domain::Link,
    severity: Severity::Warning,
    title: "An InfiniBand link uses fewer lanes than others of its kind",
    explanation: "The link came up with fewer lanes than most active ports of the same board have: lanes of the cable or \
        transceiver failed, and the port runs at that fraction of its rate.",
    remedy: Remedy {
        any: "Reseat or replace the cable or transceiver; clean optical connectors; try another switch port.",
        host: "mlxlink -d DEVICE -m -c shows each lane's power and errors.",
        ..Remedy::all("")
    },
    false_alarms: "The lanes that the kernel names on Ethernet follow from the rate and are not judged. Split cables (2X NDR) are \
        compared with others of the same board only.",
    judge: width_degraded,
};

fn narrow_ports(node: &Node) -> Vec<(PortOf<'_>, u32, u32)> {
    let lanes = |(_, _, port): &PortOf<'_>| port.rate.known().filter(|_| is_infiniband(port))?.lanes;
    let mut found = Vec::new();
    for group in by_kind(node, lanes) {
        for (port, lanes) in &group {
            if let Some(most) = below_most(&group, *lanes) {
                found.push((*port, *lanes, most));
            }
        }
    }
    found
}

fn width_degraded(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(severity) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let found = narrow_ports(node)
        .into_iter()
        .map(|((hca, number, port), lanes, most)| {
            let subject = Subject::port(&hca.name, number);
            let message = format!("{subject} uses {lanes} of {most} lanes");
            let rate = port.rate.known().map_or(0, |rate| rate.bits_per_second);
            Finding::new(&WIDTH_DEGRADED, subject, message)
                .severity(severity)
                .evidence(
                    port_file(hca, number, "rate"),
                    format!("{} ({lanes} lanes)", gigabits(rate)),
                )
        });
    found.collect()
}

/// `mtu-low`.
pub(crate) static MTU_LOW: Rule = Rule {
    id: "mtu-low",
    domain: Domain::Link,
    severity: Severity::Warning,
    title: "A port's path MTU is below what both ends allow",
    explanation: "The active path MTU (256 to 4096 bytes) is what a packet carries. On RoCE it is the largest that fits into the \
        network device's MTU: 4096 needs about 4200 bytes, an MTU of 1500 leaves 1024. Small packets cost bandwidth and packet \
        rate, and two ends whose MTUs differ drop each other's packets. A warning where it is below what the configuration \
        expects (expect.mtu) or below most ports of the same kind, or where the network device's MTU allows more; for \
        information where only the usual 1500 limits a port of 100 Gb/s or more.",
    remedy: Remedy {
        any: "Set the network device's MTU to 4200 or more (9000 is usual), on the switch as well, on every node of the cluster. \
            On InfiniBand the subnet manager decides: its partition's mtu.",
        openshift: "In the NodeNetworkConfigurationPolicy; for virtual functions the mtu of the SriovNetworkNodePolicy.",
        kubernetes: "The mtu of the SriovNetworkNodePolicy or of the network's definition.",
        host: "ip link set NETDEV mtu 9000, and in the network manager's configuration.",
    },
    false_alarms: "Ports of different boards are not compared. 1500 is the default everywhere and works; it is for information.",
    judge: mtu_low,
};

/// From this MTU of the network device on 4096 bytes fit, with room for every driver's headers.
const FITS_4096: u32 = 4300;

fn mtu_low(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(warning) = severity(expectations, Severity::Warning, Severity::Warning) else {
        return Vec::new();
    };
    let active = |(hca, number, _): &PortOf<'_>| {
        let port = node.verbs_port(&hca.name, *number)?;
        (port.active_mtu > 0).then_some(port.active_mtu)
    };
    let netdev_mtu = |(_, _, port): &PortOf<'_>| {
        let netdev = port.netdev.known().filter(|_| is_ethernet(port))?;
        netdev.mtu.known().copied()
    };
    let mut findings: BTreeMap<(String, u8), Finding> = BTreeMap::new();
    for group in by_kind(node, active) {
        for (found, mtu) in &group {
            let (hca, number, port) = found;
            let subject = Subject::port(&hca.name, *number);
            let max = node.verbs_port(&hca.name, *number).map_or(0, |port| port.max_mtu);
            let netdev = netdev_mtu(found);
            let fast = port
                .rate
                .known()
                .is_some_and(|rate| rate.bits_per_second >= 100_000_000_000);
            let (severity, why) = if let Some(expected) = expectations.mtu.filter(|expected| mtu < expected) {
                (warning, format!("expected is {expected}"))
            } else if expectations.mtu.is_some() {
                continue;
            } else if let Some(most) = below_most(&group, *mtu) {
                (warning, format!("most ports of its kind have {most}"))
            } else if netdev.is_some_and(|netdev| netdev >= FITS_4096) && *mtu < max.min(4096) {
                (warning, format!("its network device allows {}", max.min(4096)))
            } else if netdev.is_some_and(|netdev| netdev < FITS_4096) && fast && *mtu < max.min(4096) {
                (Severity::Info, "its network device's MTU allows no more".into())
            } else {
                continue;
            };
            let message = format!("the path MTU of {subject} is {mtu} bytes; {why}");
            let mut finding = Finding::new(&MTU_LOW, subject, message)
                .severity(severity)
                .evidence("ibv_query_port", format!("active_mtu {mtu}, max_mtu {max}"));
            if let (Some(mtu), Some(netdev)) = (netdev, port.netdev.known()) {
                finding = finding.evidence(format!("/sys/class/net/{}/mtu", netdev.name), mtu);
            }
            findings.insert((hca.name.clone(), *number), finding);
        }
    }
    // Without libibverbs the network device's MTU still tells which port differs.
    for group in by_kind(node, netdev_mtu) {
        for (found, mtu) in &group {
            let (hca, number, port) = found;
            let asked = expectations.mtu.is_some() || active(found).is_some();
            let (Some(most), Some(netdev), false) = (below_most(&group, *mtu), port.netdev.known(), asked)
            else {
                continue;
            };
            let subject = Subject::port(&hca.name, *number);
            let message = format!(
                "{} of {subject} has an MTU of {mtu} bytes; most of its kind have {most}",
                netdev.name
            );
            let finding = Finding::new(&MTU_LOW, subject, message)
                .severity(warning)
                .evidence(format!("/sys/class/net/{}/mtu", netdev.name), mtu);
            findings.entry((hca.name.clone(), *number)).or_insert(finding);
        }
    }
    findings.into_values().collect()
}
