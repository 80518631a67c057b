//! Priorities of RoCE traffic, and the neighbour tables that it needs.

use rdma_health_node::{Node, Port, dcb::Bridging, peers::exceptions};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Subject, Writer, draft::Draft, policy::Exception,
    remedy::sysctl,
};

/// `pfc-unreachable`.
pub static PFC_UNREACHABLE: Rule = Rule {
    id: "pfc-unreachable",
    domain: Domain::Network,
    policy: Policy::of(Severities::WARNING).except(&[&DIFFERS]),
    title: "Priority flow control is on a priority that no DSCP leads to",
    explanation: "The adapter sorts packets by DSCP (trust dscp), and no DSCP value maps to a priority with priority flow control. RoCE traffic \
        then travels on a priority that drops packets under congestion, whatever traffic class the job sets (NCCL_IB_TC is four times the \
        DSCP), although flow control looks configured.",
    remedy: Remedy {
        any: "Map the DSCP of RoCE to the lossless priority, or enable flow control on the priority that it maps to, as on the switch.",
        host: "dcb app show dev NETDEV; dcb pfc show dev NETDEV; dcb app add dev NETDEV dscp-prio 26:3; dcb pfc set dev NETDEV prio-pfc all:off 3:on",
        ..Remedy::all("")
    },
    false_alarms: "Only ACTIVE RoCE ports are judged whose driver reports both tables, with flow control on some priority and DSCP values \
        mapped. An adapter that sorts by VLAN priority (trust pcp) maps no DSCP values.",
    inputs: &[Writer::HostRoot, Writer::Fabric],
    judge: pfc_unreachable,
};

static DIFFERS: Exception = Exception {
    condition: "if a DSCP leads to a priority with flow control, but other DSCP values than on the equal ports",
    severities: Severities::INFO,
};

/// The DSCP values that lead to a priority with flow control; `None` if the settings do not say so.
fn lossless(bridging: &Bridging) -> Option<Vec<u8>> {
    let on = &bridging.pfc.as_ref()?.on;
    let values = || bridging.dscp.iter().filter(|(_, priority)| on.contains(priority));
    let decided = !on.is_empty() && !bridging.dscp.is_empty();
    decided.then(|| values().map(|(value, _)| *value).collect())
}

fn pfc_unreachable(node: &Node, _: &Expectations) -> Vec<Draft> {
    let settings = |port: &Port<'_>| {
        let is_judged = port.is_active() == Some(true) && port.is_ethernet() && !port.hca.is_software();
        let bridging = node.bridging(port.kernel).filter(|_| is_judged)?;
        Some((bridging, lossless(bridging)?))
    };
    let mut found: Vec<_> = node
        .ports()
        .filter_map(|port| {
            let (bridging, values) = settings(&port)?;
            values.is_empty().then(|| {
                let message = format!(
                    "no DSCP of {} leads to a priority with flow control ({})",
                    Subject::of_port(&port),
                    numbers(bridging.pfc.as_ref().map_or(&[], |pfc| &pfc.on))
                );
                draft(&port, bridging, message)
            })
        })
        .collect();
    // Finding the equal ports is costly, and most nodes have no such settings.
    if !node.ports().any(|port| settings(&port).is_some()) {
        return found;
    }
    for peers in node.peers() {
        let usual = peers.ports.iter().filter_map(|port| Some(settings(port)?.1));
        for usual in usual
            .filter(|usual| !usual.is_empty())
            .collect::<std::collections::BTreeSet<_>>()
        {
            let same = |port: Port<'_>| Some(settings(&port)?.1 == usual);
            let Some(other) = exceptions(&peers.ports, same) else {
                continue;
            };
            let differing = other.without.iter().filter_map(|port| {
                let (bridging, values) = settings(port)?;
                let message = format!(
                    "{} sends DSCP {} with flow control, {} equal ports DSCP {}",
                    Subject::of_port(port),
                    numbers(&values),
                    other.share(),
                    numbers(&usual)
                );
                (!values.is_empty()).then(|| draft(port, bridging, message).exception(Some(&DIFFERS)))
            });
            found.extend(differing);
        }
    }
    found
}

fn draft(port: &Port<'_>, bridging: &Bridging, message: String) -> Draft {
    let netdev = port
        .kernel
        .netdev
        .known()
        .map_or("", |netdev| netdev.name.as_str());
    let on = bridging.pfc.as_ref().map_or(&[][..], |pfc| &pfc.on);
    let map: Vec<_> = bridging
        .dscp
        .iter()
        .filter(|(_, priority)| **priority != 0)
        .collect();
    let map: Vec<_> = map
        .iter()
        .map(|(value, priority)| format!("{value}:{priority}"))
        .collect();
    let map = if map.is_empty() {
        "all to 0".to_owned()
    } else {
        map.join(" ")
    };
    Draft::new(&PFC_UNREACHABLE, Subject::of_port(port), message)
        .fill("NETDEV", netdev)
        .evidence(
            format!("dcb pfc show dev {netdev}"),
            format!("on for {}", numbers(on)),
        )
        .evidence(format!("dcb app show dev {netdev}: dscp-prio"), map)
}

fn numbers(all: &[u8]) -> String {
    let words: Vec<_> = all.iter().map(u8::to_string).collect();
    words.join(", ")
}

/// `neighbour-table-full`.
pub static NEIGHBOUR_TABLE_FULL: Rule = Rule {
    id: "neighbour-table-full",
    domain: Domain::Network,
    policy: Policy::of(Severities::WARNING).except(&[&OVERFLOWED]),
    title: "The neighbour table has no room for another peer",
    explanation: "The ARP or IPv6 neighbour table holds 90 % or more of what it may hold (gc_thresh3, 1024 by default). An address that is not in it \
        cannot be resolved, and new RDMA connections to it fail or wait. Each peer needs an entry on each subnet of a rail, so a fleet needs \
        about the number of its nodes times the number of rails (OCI's guide for GPU clusters raises the limit for this reason).",
    remedy: Remedy {
        any: "Raise the three limits, for example: sysctl -w net.ipv4.neigh.default.gc_thresh1=8192 net.ipv4.neigh.default.gc_thresh2=32768 \
            net.ipv4.neigh.default.gc_thresh3=65536 (net.ipv6.neigh.default.* for ndisc_cache).",
        host: "Write the same sysctls to /etc/sysctl.d/90-rdma-neigh.conf, so that they survive a reboot.",
        ..Remedy::all("")
    },
    false_alarms: "The kernel counts the entries of all network namespaces together, as its limit does. Permanent entries count here, but not \
        for the limit.",
    inputs: &[Writer::HostRoot, Writer::Fabric, Writer::Process],
    judge: neighbour_table_full,
};

static OVERFLOWED: Exception = Exception {
    condition: "if it has room now and overflowed since boot",
    severities: Severities::INFO,
};

/// How to raise the limits of a table on this node; `None` if too little is known about it.
fn raise_here(node: &Node, table: &str) -> Option<String> {
    let family = if table.starts_with("nd") { "ipv6" } else { "ipv4" };
    let keys: Vec<_> = (1..=3)
        .map(|n| format!("net.{family}.neigh.default.gc_thresh{n}"))
        .collect();
    let values = ["8192", "32768", "65536"];
    let settings: Vec<_> = keys.iter().map(String::as_str).zip(values).collect();
    let commands = sysctl::commands(&format!("neigh-{family}"), &settings, node.platform())?;
    Some(format!(
        "Raise the three limits, to at least the number of peers times the number of rails.\n{commands}"
    ))
}

fn neighbour_table_full(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = node.neighbours.tables.known().into_iter().flatten().filter_map(|(name, table)| {
        let is_full = table.limit > 0 && table.entries.saturating_mul(10) >= table.limit.saturating_mul(9);
        let overflows = table.overflows.unwrap_or_default();
        if !is_full && overflows == 0 {
            return None;
        }
        let message = if is_full {
            format!("the neighbour table {name} has {} entries, at most {} (gc_thresh3)", table.entries, table.limit)
        } else {
            format!(
                "the neighbour table {name} overflowed {overflows} times since boot; it has {} of {} entries now",
                table.entries, table.limit
            )
        };
        Some(
            Draft::new(&NEIGHBOUR_TABLE_FULL, Subject::node(), message)
                .exception((!is_full).then_some(&OVERFLOWED))
                .written_remedy(raise_here(node, name))
                .evidence(format!("ip ntable show name {name}: thresh3"), table.limit)
                .evidence(format!("ip -stats ntable show name {name}: entries"), table.entries)
                .evidence(format!("ip -stats ntable show name {name}: table_fulls"), overflows),
        )
    });
    let mut found: Vec<Draft> = found.collect();
    found.extend(overflow_logged(node));
    found
}

/// What the kernel logged of an overflow, of a table whose entries are not known.
fn overflow_logged(node: &Node) -> Option<Draft> {
    let line = node.kernel_lines().iter().rfind(|line| {
        let lower = line.to_ascii_lowercase();
        lower.starts_with("neighbo") && lower.contains("table overflow")
    })?;
    let name = if line.contains("ndisc") {
        "ndisc_cache"
    } else {
        "arp_cache"
    };
    let tables = node.neighbours.tables.known();
    if tables.is_some_and(|tables| tables.contains_key(name)) {
        return None;
    }
    let message = format!("the kernel logged that the neighbour table {name} is full");
    let finding = Draft::new(&NEIGHBOUR_TABLE_FULL, Subject::node(), message)
        .written_remedy(raise_here(node, name))
        .evidence("/dev/kmsg", line);
    Some(finding)
}
