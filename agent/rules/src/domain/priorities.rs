//! Priorities of RoCE traffic, and the neighbour tables that it needs.

use rdma_health_node::{Node, Port, dcb::Bridging, peers::exceptions};
use rdma_health_protocol::Gid;

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
        DSCP), although flow control looks configured. The same holds for one port without flow control whose equals have it, and for the traffic \
        class of the job that check --pid was given, if another priority has flow control.",
    remedy: Remedy {
        any: "Map the DSCP of RoCE to the lossless priority, or enable flow control on the priority that it maps to, as on the switch.",
        host: "dcb app show dev NETDEV; dcb pfc show dev NETDEV; dcb app add dev NETDEV dscp-prio 26:3; dcb pfc set dev NETDEV prio-pfc all:off 3:on",
        ..Remedy::all("")
    },
    false_alarms: "Only ACTIVE RoCE ports are judged whose driver reports both tables, with DSCP values mapped, and with flow control on some \
        priority of this port or of most of its equals. An adapter that sorts by VLAN priority (trust pcp) maps no DSCP values.",
    inputs: &[Writer::HostRoot, Writer::Fabric, Writer::Job],
    judge: pfc_unreachable,
};

static DIFFERS: Exception = Exception {
    condition: "if a DSCP leads to a priority with flow control, but other DSCP values than on the equal ports",
    severities: Severities::INFO,
};

/// The DSCP values that lead to a priority with flow control; `None` if the adapter does not sort by DSCP, or does not say.
fn lossless(bridging: &Bridging) -> Option<Vec<u8>> {
    let on = &bridging.pfc.as_ref()?.on;
    let values = bridging.dscp.iter().filter(|(_, priority)| on.contains(priority));
    (!bridging.dscp.is_empty()).then(|| values.map(|(value, _)| *value).collect())
}

fn has_flow_control(bridging: &Bridging) -> bool {
    bridging.pfc.as_ref().is_some_and(|pfc| !pfc.on.is_empty())
}

/// The variables by which a job sets its traffic class.
const CLASSES: [&str; 3] = ["NCCL_IB_TC", "NVSHMEM_IB_TRAFFIC_CLASS", "UCX_IB_TRAFFIC_CLASS"];

/// The DSCP of the job's RoCE packets, and the setting: the upper six bits of the traffic class.
fn job_dscp(node: &Node) -> Option<(u8, String)> {
    let environment = node.job.as_ref()?.environment.known()?;
    CLASSES.into_iter().find_map(|name| {
        let class: u8 = environment.get(name)?.trim().parse().ok()?;
        Some((class >> 2, format!("{name}={class}")))
    })
}

fn pfc_unreachable(node: &Node, _: &Expectations) -> Vec<Draft> {
    let settings = |port: &Port<'_>| {
        let is_judged = port.is_active() == Some(true) && port.is_ethernet() && !port.hca.is_software();
        let bridging = node.bridging(port.kernel).filter(|_| is_judged)?;
        Some((bridging, lossless(bridging)?))
    };
    let job = job_dscp(node);
    let mut found: Vec<_> = node
        .ports()
        .filter_map(|port| {
            let (bridging, values) = settings(&port)?;
            if !has_flow_control(bridging) {
                return None;
            }
            let on = numbers(bridging.pfc.as_ref().map_or(&[], |pfc| &pfc.on));
            let subject = Subject::of_port(&port);
            let message = match &job {
                _ if values.is_empty() => {
                    format!("no DSCP of {subject} leads to a priority with flow control ({on})")
                }
                Some((dscp, setting)) if !values.contains(dscp) => {
                    let priority = bridging.dscp.get(dscp).copied().unwrap_or_default();
                    format!(
                        "the job sends DSCP {dscp} ({setting}), which leads to priority {priority} on {subject}; flow control is on for {on}"
                    )
                }
                _ => return None,
            };
            Some(draft(&port, bridging, message))
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
                let own = if values.is_empty() {
                    "nothing".to_owned()
                } else {
                    format!("DSCP {}", numbers(&values))
                };
                let message = format!(
                    "{} sends {own} with flow control, {} equal ports DSCP {}",
                    Subject::of_port(port),
                    other.share(),
                    numbers(&usual)
                );
                // That flow control is on and leads nowhere is reported already.
                let is_reported = values.is_empty() && has_flow_control(bridging);
                let exception = (!values.is_empty()).then_some(&DIFFERS);
                (!is_reported).then(|| draft(port, bridging, message).exception(exception))
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
    explanation: "The ARP or IPv6 neighbour table holds 90 % or more of what it may hold (gc_thresh3, 1024 by default), or has no room for the \
        configuration's expect.fleet_nodes. An address that is not in it \
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

fn neighbour_table_full(node: &Node, expectations: &Expectations) -> Vec<Draft> {
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
    if found.is_empty() {
        found.extend(too_small(node, expectations));
    }
    found
}

/// A table without room for each node of the fleet on every rail.
fn too_small(node: &Node, expectations: &Expectations) -> Option<Draft> {
    let nodes = u64::from(expectations.fleet_nodes?);
    let name = "arp_cache";
    let table = node.neighbours.tables.known()?.get(name)?;
    let rails = node.active_ports().filter(Port::is_ethernet);
    let rails = rails.filter(|port| port.gids().is_some_and(|gids| gids.iter().any(Gid::is_routable)));
    let rails = u64::try_from(rails.count()).unwrap_or(u64::MAX);
    let needed = nodes.saturating_mul(rails);
    (table.limit > 0 && table.limit < needed).then(|| {
        let message = format!(
            "the neighbour table {name} may hold {} entries (gc_thresh3); {nodes} nodes on {rails} RoCE ports need {needed}",
            table.limit
        );
        Draft::new(&NEIGHBOUR_TABLE_FULL, Subject::node(), message)
            .written_remedy(raise_here(node, name))
            .evidence(format!("ip ntable show name {name}: thresh3"), table.limit)
            .evidence("expect.fleet_nodes", nodes)
    })
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
