//! Error counters that are high without an earlier reading: above those of equal ports, or above what a healthy link counts since boot.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{Node, Port, words::duration};

use crate::{FindingCase, Remedy, Subject, draft::Draft, expectations::Thresholds};

use super::{COUNTER_ERRORS, HOUR, WITHOUT_EQUALS, counter, far_above};

/// Counters of packets that were lost on the way or damaged, and of bad signals, with the least that is reported. One failed job counts
/// fewer lost packets. The InfiniBand Architecture Specification (16.1.3.5) gives 16 bits to `symbol_error` and `port_rcv_errors` and 8 bits
/// to `link_error_recovery`, and some adapters stop there.
///
/// The first are those of mlx5 and InfiniBand; then `bnxt_re`, irdma (TCP of iWARP), mana, ionic and efa, by their sources in the kernel.
const OF_LOSS: [(&str, u64); 20] = [
    ("local_ack_timeout_err", 100_000),
    ("packet_seq_err", 100_000),
    ("out_of_sequence", 100_000),
    ("port_rcv_errors", 65_535),
    ("symbol_error", 10_000),
    ("link_error_recovery", 50),
    ("rx_icrc_encapsulated", 100_000),
    ("to_retransmits", 100_000),
    ("seq_err_naks_rcvd", 100_000),
    ("oos_drop_count", 100_000),
    ("missing_resp", 100_000),
    ("rx_roce_discards", 100_000),
    ("tcpRetransSegs", 100_000),
    ("requester_timeout", 100_000),
    ("requester_oos_nak", 100_000),
    ("responder_oos", 100_000),
    ("tx_rdma_ack_timeout", 100_000),
    ("req_rx_pkt_seq_err", 100_000),
    ("resp_rx_outof_seq", 100_000),
    ("retrans_timeout_events", 100_000),
];

/// Those of [`OF_LOSS`] that a bad signal raises.
const OF_SIGNAL: [&str; 3] = ["symbol_error", "link_error_recovery", "port_rcv_errors"];

/// What to do about a bad signal.
const SIGNAL: Remedy = Remedy {
    any: "The signal of the link is bad. Reseat or replace its cable and transceiver, clean the connectors, and try another switch port. Let the agent \
        watch the counters for an hour: they may be old.",
    ..COUNTER_ERRORS.remedy
};

/// What to do about lost packets.
const LOSS: Remedy = Remedy {
    any: "Packets of this port are lost on the way: compare its flow control (PFC, ECN, priorities) and that of its switch port with the equal \
        ports, and read the drop and error counters of the switch port. The counters may be old: let the agent watch them for an hour.",
    host: "ethtool -S NETDEV | grep -i -e discard -e pause -e err; mlnx_qos -i NETDEV, or dcb pfc show dev NETDEV",
    ..Remedy::all("")
};

/// So many equal ports are compared with each other.
const COMPARED: usize = 4;

/// What the totals of counters say about ports without an earlier reading.
pub(super) fn findings(node: &Node, thresholds: &Thresholds) -> Vec<Draft> {
    if node.history.is_some() {
        return Vec::new();
    }
    let mut findings = above_equals(node);
    let peers = node.peers();
    for port in node.active_ports() {
        let subject = Subject::of_port(&port);
        let is_compared = peers
            .iter()
            .any(|peers| peers.ports.len() >= COMPARED && peers.ports.iter().any(|member| member.is(&port)));
        if is_compared || findings.contains_key(&subject) {
            continue;
        }
        let found = above_limit(node, &port, thresholds).or_else(|| lost_alone(&port));
        if let Some(finding) = found {
            findings.insert(subject, finding);
        }
    }
    findings.into_values().collect()
}

/// An InfiniBand port that counted more symbol errors on average since boot than a healthy link does in an hour. Its counters start at zero with
/// the adapter.
fn above_limit(node: &Node, port: &Port<'_>, thresholds: &Thresholds) -> Option<Draft> {
    const LEAST: u64 = 10_000;
    if !port.is_infiniband() || port.is_lent() || port.hca.is_software() {
        return None;
    }
    let (errors, uptime) = (counter(port, "symbol_error")?, *node.host.uptime.known()?);
    let allowed = u64::from(thresholds.symbol_errors_per_hour).saturating_mul(uptime.max(HOUR)) / HOUR;
    if errors < LEAST || errors <= allowed {
        return None;
    }
    let others = ["link_error_recovery", "port_rcv_errors"].into_iter();
    let others: Vec<_> = others
        .filter_map(|name| Some((name, counter(port, name).filter(|value| *value > 0)?)))
        .collect();
    let words: Vec<_> = others
        .iter()
        .map(|(name, value)| format!(", {name} {value}"))
        .collect();
    let subject = Subject::of_port(port);
    let message = format!(
        "{subject} counted symbol_error {errors} in {} (limit {allowed}){}",
        duration(uptime),
        words.concat()
    );
    let finding = Draft::new(&COUNTER_ERRORS, subject, message)
        .case(FindingCase::LinkErrors)
        .remedy(SIGNAL)
        .evidence(port.file("counters/symbol_error"), errors);
    Some(others.into_iter().fold(finding, |finding, (name, value)| {
        finding.evidence(port.file(&format!("counters/{name}")), value)
    }))
}

/// A RoCE port that lost packets, without an equal port to compare it with. The counters do not say when.
fn lost_alone(port: &Port<'_>) -> Option<Draft> {
    const LEAST: u64 = 1000;
    const LOST: [&str; 3] = ["packet_seq_err", "out_of_sequence", "local_ack_timeout_err"];
    if !port.is_ethernet() || port.is_lent() || port.hca.is_software() || port.hca.is_virtual() {
        return None;
    }
    let lost: Vec<_> = LOST
        .into_iter()
        .filter_map(|name| Some((name, counter(port, name).filter(|value| *value >= LEAST)?)))
        .collect();
    if lost.is_empty() {
        return None;
    }
    let words: Vec<_> = lost
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let subject = Subject::of_port(port);
    let message = format!(
        "{subject} lost packets since its driver started: {}",
        words.join(", ")
    );
    let finding = Draft::new(&COUNTER_ERRORS, subject, message)
        .case(FindingCase::LinkErrors)
        .exception(Some(&WITHOUT_EQUALS))
        .remedy(LOSS);
    Some(lost.iter().fold(finding, |finding, (name, value)| {
        finding.evidence(port.file(&format!("hw_counters/{name}")), value)
    }))
}

/// Ports that counted far more lost packets than each of their equals.
fn above_equals(node: &Node) -> BTreeMap<Subject, Draft> {
    let mut findings = BTreeMap::new();
    for peers in node.peers() {
        for (name, least) in OF_LOSS {
            let all: Vec<_> = peers
                .ports
                .iter()
                .filter(|port| !port.hca.is_virtual() && !port.hca.is_software() && !port.is_lent())
                .filter_map(|port| Some((port, counter(port, name)?)))
                .collect();
            let Some((port, value)) = all.iter().max_by_key(|(_, value)| *value) else {
                continue;
            };
            let others = all.iter().filter(|(other, _)| !other.is(port));
            let Some(most) = far_above(*value, others.map(|(_, other)| *other)).filter(|_| *value >= least)
            else {
                continue;
            };
            let is_standard = port.counters.iter().any(|counter| &*counter.name == name);
            let directory = if is_standard { "counters" } else { "hw_counters" };
            let subject = Subject::of_port(port);
            let words = format!("{name} {value} (equal ports at most {most})");
            let file = port.file(&format!("{directory}/{name}"));
            let known = findings.remove(&subject);
            let is_signal = OF_SIGNAL.contains(&name);
            let mut kinds = BTreeSet::from([is_signal]);
            let finding = if let Some((mut known, earlier)) = known {
                kinds.extend(earlier);
                Draft::extend_message(&mut known, &format!(", {words}"));
                known
            } else {
                let message = format!("{subject} counted far more errors than equal ports: {words}");
                Draft::new(&COUNTER_ERRORS, subject.clone(), message).case(FindingCase::LinkErrors)
            };
            let remedy = match (kinds.len(), is_signal) {
                (1, true) => SIGNAL,
                (1, false) => LOSS,
                _ => COUNTER_ERRORS.remedy,
            };
            let finding = finding.remedy(remedy).evidence(file, value);
            findings.insert(subject, (finding, kinds));
        }
    }
    findings
        .into_iter()
        .map(|(subject, (finding, _))| (subject, finding))
        .collect()
}
