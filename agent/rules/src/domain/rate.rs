//! What links negotiated: rate, width, MTU.

use std::collections::BTreeMap;

use rdma_health_node::{
    Node, Port,
    words::{count, gigabits},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Subject, Writer, draft::Draft, policy::Exception,
};

/// The values of active ports of each kind. Rails of GPUs and ports for storage are of two kinds, even on one board: they lead into different
/// networks.
fn by_kind<T>(node: &Node, value: impl Fn(&Port<'_>) -> Option<T>) -> Vec<Vec<(Port<'_>, T)>> {
    let rails = node.adapters_beside_gpus();
    let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for port in node.active_ports().filter(|port| !port.is_representor()) {
        if let (Some(kind), Some(value)) = (port.kind(), value(&port)) {
            let address = port.hca.pci_address.known();
            let is_rail = address.is_some_and(|address| rails.contains(address.as_str()));
            kinds.entry((kind, is_rail)).or_default().push((port, value));
        }
    }
    kinds.into_values().collect()
}

/// The value that most ports of the kind have or exceed, if this one is below it. Of two ports that differ, neither is
/// known to be the wrong one. Among four or more, half of them is enough: equal ports that split evenly are a fault, even if
/// it is not known of which half.
fn below_most<T: Copy + Ord>(group: &[(Port<'_>, T)], value: T) -> Option<T> {
    const FEWEST_TO_SPLIT: usize = 4;
    let mut above: Vec<T> = group
        .iter()
        .map(|(_, other)| *other)
        .filter(|other| *other > value)
        .collect();
    above.sort_unstable();
    let is_enough =
        above.len() * 2 > group.len() || (group.len() >= FEWEST_TO_SPLIT && above.len() * 2 == group.len());
    is_enough.then(|| above[0])
}

/// How many ports of a group have or exceed a value: `most ports of its kind`, or `half of`, with the number.
fn share<T: Copy + Ord>(group: &[(Port<'_>, T)], value: T) -> String {
    let with = group.iter().filter(|(_, other)| *other >= value).count();
    format!("{with} of {} ports of its kind", group.len())
}

/// `rate-low`.
pub static RATE_LOW: Rule = Rule {
    id: "rate-low",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING),
    title: "The rate of a port is lower than expected or than that of equal ports",
    explanation: "The port is ACTIVE at a lower rate than the configuration expects (expect.rate_gbps), or than most \
        ACTIVE ports of the same board. A job over several ports runs at the pace of the slowest.",
    remedy: Remedy {
        any: "Check the cable (its type and length limit the rate), the configuration of the switch port, and the \
            speeds enabled on the adapter.",
        host: "Show the negotiated rate: ethtool NETDEV (InfiniBand: ibstat DEVICE); show what the cable supports: mlxlink -d DEVICE -c",
        ..Remedy::all("")
    },
    false_alarms: "Virtual functions, ports of different boards, and ports that share PCIe switches with GPUs and others that do not, are not \
        compared. If only a minority of ports is \
        faster, or one of two, it is unclear which rate is right, and the rule is silent without an expectation. Missing lanes are \
        reported by width-degraded.",
    inputs: &[Writer::Hardware, Writer::Fabric, Writer::Configuration],
    judge: rate_low,
};

fn rate_low(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let narrow = narrow_ports(node);
    let is_narrow = |port: &Port<'_>| narrow.iter().any(|(other, ..)| other.is(port));
    let expected = expectations
        .rate_gbps
        .map(|gigabits| u64::from(gigabits) * 1_000_000_000);
    let mut findings = Vec::new();
    for group in by_kind(node, physical_rate) {
        for (port, rate) in group.iter().filter(|(port, _)| !is_narrow(port)) {
            let why = match expected {
                Some(expected) => (*rate < expected).then(|| format!(", expected {}", gigabits(expected))),
                None => below_most(&group, *rate)
                    .map(|most| format!("; {} run at {} or more", share(&group, most), gigabits(most))),
            };
            let usual = group
                .iter()
                .filter(|(_, other)| other > rate)
                .find_map(|(port, _)| lanes(port));
            findings.extend(why.map(|why| slow_port(port, *rate, &why, usual)));
        }
    }
    findings
}

/// The rate in bits per second of a port in hardware.
fn physical_rate(port: &Port<'_>) -> Option<u64> {
    let rate = port.rate.known()?.bits_per_second;
    (!port.hca.is_virtual() && !port.hca.is_software()).then_some(rate)
}

fn lanes(port: &Port<'_>) -> Option<u32> {
    port.rate.known()?.lanes
}

/// A port below its equals, of which one has `usual` lanes.
fn slow_port(port: &Port<'_>, rate: u64, why: &str, usual: Option<u32>) -> Draft {
    let subject = Subject::of_port(port);
    let rate = gigabits(rate);
    let own = lanes(port);
    let fewer = own.zip(usual).filter(|(own, usual)| own < usual);
    let lanes = match (fewer, own) {
        (Some((own, usual)), _) => format!(" ({}, equal ports have {usual})", count(own as usize, "lane")),
        (None, Some(own)) => format!(" ({})", count(own as usize, "lane")),
        (None, None) => String::new(),
    };
    let remedy = match (port.is_infiniband(), fewer) {
        (true, _) => OF_INFINIBAND,
        (false, Some(_)) => WITH_FEWER_LANES,
        (false, None) => OF_ETHERNET,
    };
    Draft::new(
        &RATE_LOW,
        subject.clone(),
        format!("{subject} runs at {rate}{why}"),
    )
    .remedy(remedy)
    .evidence(port.file("rate"), format!("{rate}{lanes}"))
}

const OF_INFINIBAND: Remedy = Remedy {
    host: "Show the rate: ibstat DEVICE; show what the cable supports: mlxlink -d DEVICE -c",
    ..RATE_LOW.remedy
};

const OF_ETHERNET: Remedy = Remedy {
    host: "Show the negotiated rate: ethtool NETDEV; show what the cable supports: mlxlink -d DEVICE -c",
    ..RATE_LOW.remedy
};

/// What to do about an Ethernet port with fewer lanes than its equals.
const WITH_FEWER_LANES: Remedy = Remedy {
    any: "Check the profile of the switch port: it may be split (breakout) into ports with fewer lanes. Then check the cable, which may be made for \
        such a split, and the speeds enabled on the adapter.",
    ..OF_ETHERNET
};

/// `width-degraded`.
pub static WIDTH_DEGRADED: Rule = Rule {
    id: "width-degraded",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING),
    title: "An InfiniBand link has lost lanes",
    explanation: "The link came up with fewer lanes than most ACTIVE ports of the same board, or with one. Lanes of the cable or \
        transceiver failed, and the port runs at that fraction of its rate.",
    remedy: Remedy {
        any: "Reseat or replace the cable or transceiver, clean optical connectors, and try another switch port.",
        host: "Show power and errors of each lane: mlxlink -d DEVICE -m -c",
        ..Remedy::all("")
    },
    false_alarms: "On Ethernet, the number of lanes follows from the rate and is not judged. Split cables (2X NDR) \
        and the planes of XDR, which have one lane each, are only compared with ports of the same board.",
    inputs: &[Writer::Hardware, Writer::Fabric, Writer::Configuration],
    judge: width_degraded,
};

/// The lanes of an InfiniBand cable. A split cable has two for each end, and none leads to an adapter with one.
const LANES: u32 = 4;

/// Whether one lane is all that a port has: with XDR (200 Gb/s a lane), each lane of a cable can be a plane with a port.
fn is_plane(port: &Port<'_>) -> bool {
    const XDR_LANE: u64 = 200_000_000_000;
    let rate = port.rate.known();
    rate.is_none_or(|rate| rate.bits_per_second >= XDR_LANE)
}

fn narrow_ports(node: &Node) -> Vec<(Port<'_>, u32, u32)> {
    let of_infiniband = |port: &Port<'_>| lanes(port).filter(|_| port.is_infiniband());
    let mut found = Vec::new();
    for group in by_kind(node, of_infiniband) {
        for (port, lanes) in &group {
            if let Some(most) = below_most(&group, *lanes) {
                found.push((*port, *lanes, most));
            } else if *lanes == 1 && !port.is_lent() && !is_plane(port) {
                found.push((*port, *lanes, LANES));
            }
        }
    }
    found
}

fn width_degraded(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = narrow_ports(node).into_iter().map(|(port, lanes, most)| {
        let subject = Subject::of_port(&port);
        let message = format!("{subject} runs with {lanes} of {most} lanes");
        let rate = port.rate.known().map_or(0, |rate| rate.bits_per_second);
        Draft::new(&WIDTH_DEGRADED, subject, message).evidence(
            port.file("rate"),
            format!("{} ({})", gigabits(rate), count(lanes as usize, "lane")),
        )
    });
    found.collect()
}

/// `mtu-low`.
pub static MTU_LOW: Rule = Rule {
    id: "mtu-low",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING).except(&[&USUAL_NETDEV_MTU]),
    title: "The path MTU of a port is lower than it could be",
    explanation: "The active path MTU (256 to 4096 bytes) is the payload of a packet. It is below what the \
        configuration expects (expect.mtu), below most ports of the same kind, or below what the network device \
        allows. On RoCE it is the largest value that fits into the MTU of the network device: 4096 needs about 4200 \
        bytes, an MTU of 1500 leaves 1024. Small packets cost bandwidth and packet rate, and two ends with different \
        MTUs drop each other's packets.",
    remedy: Remedy {
        any: "Set the MTU of the network device to 4200 or more (9000 is common), on the switch too and on every \
            node of the cluster. On InfiniBand, set the mtu of the partition in the subnet manager.",
        openshift: "Set mtu in the NodeNetworkConfigurationPolicy; for virtual functions, in the \
            SriovNetworkNodePolicy.",
        kubernetes: "Set mtu in the SriovNetworkNodePolicy or in the definition of the network.",
        host: "ip link set NETDEV mtu 9000; then set it in the configuration of the network manager, so that it \
            survives a reboot.",
    },
    false_alarms: "Ports of different boards are not compared. An MTU of 1500 is the default everywhere, and RoCE \
        works with it.",
    inputs: &[
        Writer::HostRoot,
        Writer::Fabric,
        Writer::Configuration,
        Writer::Job,
    ],
    judge: mtu_low,
};

/// What to do about a port for InfiniBand.
const OF_PARTITION: Remedy = Remedy::all(
    "Set the mtu of the partition in the subnet manager (opensm: mtu=5 in partitions.conf is 4096 bytes), and restart it. Show what the port \
    supports and uses: ibv_devinfo -d DEVICE | grep mtu",
);

/// What to do about a port for Ethernet.
const OF_NETDEV: Remedy = Remedy {
    any: "Set the MTU of the network device to 4200 or more (9000 is common), on the switch too and on every node of the cluster.",
    ..MTU_LOW.remedy
};

static USUAL_NETDEV_MTU: Exception = Exception {
    condition: "if only the MTU of the network device, usually 1500, limits a port of 100 Gb/s or more",
    severities: Severities::INFO,
};

/// From this MTU of the network device on, 4096 bytes fit with the headers of every driver.
const FITS_4096: u32 = 4300;

fn mtu_low(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let mut findings = BTreeMap::new();
    for group in by_kind(node, active_mtu) {
        for (port, mtu) in &group {
            let low = path_mtu_low(port, *mtu, &group, expectations.mtu);
            findings.extend(low.map(|finding| (Subject::of_port(port), finding)));
        }
    }
    if expectations.mtu.is_none() {
        // Without libibverbs the MTU of the network device still shows which port differs.
        for group in by_kind(node, netdev_mtu) {
            for (port, mtu) in group.iter().filter(|(port, _)| active_mtu(port).is_none()) {
                let low = netdev_mtu_low(port, *mtu, &group);
                findings.extend(low.map(|finding| (Subject::of_port(port), finding)));
            }
        }
    }
    findings.into_values().collect()
}

/// The path MTU in bytes, as libibverbs reports it.
fn active_mtu(port: &Port<'_>) -> Option<u32> {
    port.verbs.map(|port| port.active_mtu).filter(|mtu| *mtu > 0)
}

/// The MTU of a RoCE port's network device in bytes.
fn netdev_mtu(port: &Port<'_>) -> Option<u32> {
    let netdev = port.netdev.known().filter(|_| port.is_ethernet())?;
    netdev.mtu.known().copied()
}

fn path_mtu_low(
    port: &Port<'_>,
    mtu: u32,
    group: &[(Port<'_>, u32)],
    expected: Option<u32>,
) -> Option<Draft> {
    let max = port.verbs.map_or(0, |port| port.max_mtu);
    let netdev = netdev_mtu(port);
    let (exception, why) = match expected {
        Some(expected) => (None, (mtu < expected).then(|| format!(", expected {expected}"))?),
        None => lower_than_possible(port, mtu, group)?,
    };
    let subject = Subject::of_port(port);
    let message = format!("the path MTU of {subject} is {mtu} bytes{why}");
    let mut finding = Draft::new(&MTU_LOW, subject, message)
        .exception(exception)
        .remedy(if port.is_infiniband() {
            OF_PARTITION
        } else {
            OF_NETDEV
        })
        .evidence("ibv_query_port", format!("active_mtu {mtu}, max_mtu {max}"));
    if let (Some(mtu), Some(netdev)) = (netdev, port.netdev.known()) {
        finding = finding.evidence(format!("/sys/class/net/{}/mtu", netdev.name), mtu);
    }
    Some(finding)
}

/// Why the path MTU could be larger, with the exception that applies if only the MTU of the network device limits it.
fn lower_than_possible(
    port: &Port<'_>,
    mtu: u32,
    group: &[(Port<'_>, u32)],
) -> Option<(Option<&'static Exception>, String)> {
    if let Some(most) = below_most(group, mtu) {
        return Some((None, format!("; most ports of its kind have {most}")));
    }
    let possible = port.verbs?.max_mtu.min(4096);
    let netdev = netdev_mtu(port).filter(|_| mtu < possible)?;
    if netdev >= FITS_4096 {
        return Some((None, format!("; its network device allows {possible}")));
    }
    is_fast(port)?.then(|| {
        let why = "; the MTU of its network device allows no more".into();
        (Some(&USUAL_NETDEV_MTU), why)
    })
}

/// Whether a port is so fast that an MTU of 1500 costs much of it.
fn is_fast(port: &Port<'_>) -> Option<bool> {
    Some(port.rate.known()?.bits_per_second >= 100_000_000_000)
}

fn netdev_mtu_low(port: &Port<'_>, mtu: u32, group: &[(Port<'_>, u32)]) -> Option<Draft> {
    let netdev = &port.netdev.known()?.name;
    let (exception, why) = if let Some(most) = below_most(group, mtu) {
        (None, format!("; most network devices of its kind have {most}"))
    } else if is_fast(port)? && mtu <= 1500 {
        (Some(&USUAL_NETDEV_MTU), String::new())
    } else {
        return None;
    };
    let subject = Subject::of_port(port);
    let message = format!("{netdev} of {subject} has an MTU of {mtu} bytes{why}");
    let finding = Draft::new(&MTU_LOW, subject, message)
        .exception(exception)
        .remedy(OF_NETDEV);
    Some(finding.evidence(format!("/sys/class/net/{netdev}/mtu"), mtu))
}
