//! The neighbour tables that RoCE needs.

use rdma_health_node::{Node, Port};
use rdma_health_protocol::Gid;

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Subject, Writer, draft::Draft, policy::Exception,
    remedy::sysctl,
};

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
        // With a limit of 0, no address can be added (`neigh_alloc`).
        let is_full = table.entries.saturating_mul(10) >= table.limit.saturating_mul(9);
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
    (table.limit < needed).then(|| {
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
