//! Error counters that are high without an earlier reading: above those of equal ports, or above what a healthy link counts since boot.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{
    Cable, Node, Port,
    history::{BROKEN_CONNECTIONS, LOST_PACKETS},
    netdev::{
        counters::{FCS_ERRORS, FEC_UNCORRECTABLE, SYMBOL_ERRORS},
        name_in_history,
    },
    words::duration,
};

use crate::{FindingCase, Remedy, Subject, draft::Draft, expectations::Thresholds};

use super::{
    super::compared::link_total,
    COUNTER_ERRORS, HOUR, OF_THE_LINK, WITHOUT_EQUALS, counter,
    damaged::{ALLOWED, file_of},
    downs_of, far_above, packets,
};

/// Counters of packets that were lost on the way or damaged, and of bad signals, with the least that is reported, in addition to [`LOST_PACKETS`]. One failed
/// job counts fewer lost packets. The InfiniBand Architecture Specification (16.1.3.5) gives 16 bits to `symbol_error` and `port_rcv_errors` and 8 bits
/// to `link_error_recovery`, and some adapters stop there. Discards (`port_xmit_discards`, 16 bits there, too) are packets that were lost, and slow restarts
/// follow lost ones.
const OF_LOSS: [(&str, u64); 10] = [
    ("local_ack_timeout_err", packets::LEAST),
    ("port_rcv_errors", 65_535),
    ("port_xmit_discards", 65_535),
    ("roce_slow_restart", packets::LEAST),
    ("symbol_error", 10_000),
    ("link_error_recovery", 50),
    ("rx_icrc_encapsulated", packets::LEAST),
    // efa
    ("retrans_timeout_events", packets::LEAST),
    ("impaired_remote_conn_events", LIMITED),
    ("unresponsive_remote_events", LIMITED),
];

/// Connections of an EFA device that were limited, or whose other end did not respond. A job that ends leaves some.
const LIMITED: u64 = 5000;

/// Counters of a network device that no file holds, of a bad signal, with the least that is reported.
const OF_CABLE: [(&str, u64); 3] = [
    (FEC_UNCORRECTABLE, 100_000),
    (FCS_ERRORS, 100_000),
    (SYMBOL_ERRORS, 100_000),
];

/// Connections that a port lost since its driver started, without a time: jobs that failed long ago count, too.
const BROKEN: u64 = 1000;

/// Those of [`OF_LOSS`] and [`OF_CABLE`] that a bad signal raises.
const OF_SIGNAL: [&str; 6] = [
    "symbol_error",
    "link_error_recovery",
    "port_rcv_errors",
    FEC_UNCORRECTABLE,
    FCS_ERRORS,
    SYMBOL_ERRORS,
];

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
        let found = above_limit(node, &port, thresholds).or_else(|| lost_alone(node, &port));
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
fn lost_alone(node: &Node, port: &Port<'_>) -> Option<Draft> {
    const LEAST: u64 = 1000;
    const LOST: [&str; 4] = [
        "packet_seq_err",
        "out_of_sequence",
        "local_ack_timeout_err",
        "rx_icrc_encapsulated",
    ];
    if !port.is_ethernet() || port.is_lent() || port.hca.is_software() || port.hca.is_virtual() {
        return None;
    }
    let mut lost = Vec::new();
    let mut of_signal = false;
    for cable in node.cables_of(port) {
        let signal = explained(node, &cable);
        let of_cable = OF_CABLE.iter().filter_map(|(name, least)| {
            let least = signal.map(|signal| signal.max(*least))?;
            Some((*name, least))
        });
        for (name, least) in LOST.map(|name| (name, LEAST)).into_iter().chain(of_cable) {
            if let Some((value, file)) = total(node, &cable, name).filter(|(value, _)| *value >= least) {
                of_signal |= OF_SIGNAL.contains(&name);
                let shown = name_in_history(name, cable.member());
                lost.push((format!("{shown} {value}"), file, value));
            }
        }
    }
    if lost.is_empty() {
        return None;
    }
    let words: Vec<_> = lost.iter().map(|(words, ..)| words.as_str()).collect();
    let subject = Subject::of_port(port);
    let message = format!(
        "{subject} lost packets since its driver started: {}",
        words.join(", ")
    );
    let finding = Draft::new(&COUNTER_ERRORS, subject, message)
        .case(FindingCase::LinkErrors)
        .exception(Some(&WITHOUT_EQUALS))
        .remedy(if of_signal { SIGNAL } else { LOSS });
    Some(
        lost.into_iter()
            .fold(finding, |finding, (_, file, value)| finding.evidence(file, value)),
    )
}

/// How many errors of its signal a port may count since boot without a fault: those that IEEE 802.3 allows in that time, and those of a link that
/// goes down or comes up. `None` if rate, time or number of times are not known.
fn explained(node: &Node, cable: &Cable<'_>) -> Option<u64> {
    /// Each time that a link goes down or comes up, it may lose all blocks in a tenth of a second: 5440 bits each with RS(544,514).
    const BITS_PER_LOST_BLOCK: f64 = 5440.0 / 0.1;
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let (bits, uptime, times) = (
        node.rate_of_cable(cable)?.bits_per_second as f64,
        *node.host.uptime.known()? as f64,
        1.0 + downs_of(&cable.port)? as f64,
    );
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive estimate; a float that is too large becomes the largest number"
    )]
    Some((ALLOWED * bits * uptime + bits / BITS_PER_LOST_BLOCK * times) as u64)
}

/// The total of a counter of a cable, and what to show as its source.
fn total(node: &Node, cable: &Cable<'_>, name: &'static str) -> Option<(u64, String)> {
    if OF_CABLE.iter().any(|(of_cable, _)| *of_cable == name) {
        // A port that is down counts while it tries to come up.
        let is_judged = cable.port.is_ethernet() && cable.port.is_active() == Some(true);
        let value = link_total(node, cable, name).filter(|_| is_judged)?;
        return Some((value, file_of(cable.netdev?, name)));
    }
    let port = cable.port;
    let value = counter(&port, name).filter(|_| !cable.is_member)?;
    let is_standard = port.counters.iter().any(|counter| &*counter.name == name);
    let directory = if is_standard { "counters" } else { "hw_counters" };
    Some((value, port.file(&format!("{directory}/{name}"))))
}

/// The counters of one port that are far above those of its equals.
#[derive(Debug, Default)]
struct FarAbove {
    words: Vec<String>,
    evidence: Vec<(String, u64)>,
    of_signal: BTreeSet<bool>,
    /// Whether links that go down or come up may have caused some of them, or others cannot have.
    is_explained: BTreeSet<bool>,
}

impl FarAbove {
    fn finding(self, subject: Subject) -> Draft {
        let message = format!(
            "{subject} counted far more errors than equal ports: {}",
            self.words.join(", ")
        );
        let remedy = if self.of_signal == BTreeSet::from([true]) {
            SIGNAL
        } else if self.of_signal == BTreeSet::from([false]) {
            LOSS
        } else {
            COUNTER_ERRORS.remedy
        };
        let is_explained = !self.is_explained.contains(&false);
        let finding = Draft::new(&COUNTER_ERRORS, subject, message)
            .case(FindingCase::LinkErrors)
            .exception(is_explained.then_some(&OF_THE_LINK))
            .remedy(remedy);
        let evidence = self.evidence.into_iter();
        evidence.fold(finding, |finding, (file, value)| finding.evidence(file, value))
    }
}

/// Ports that counted far more errors and lost packets than most of their equals.
fn above_equals(node: &Node) -> BTreeMap<Subject, Draft> {
    let mut found: BTreeMap<Subject, FarAbove> = BTreeMap::new();
    for peers in node.peers() {
        let cables: Vec<_> = peers
            .ports
            .iter()
            .filter(|port| !port.hca.is_virtual() && !port.hca.is_software() && !port.is_lent())
            .flat_map(|port| node.cables_of(port))
            .collect();
        let of_packets = LOST_PACKETS.map(|name| (name, packets::LEAST));
        let of_connections = BROKEN_CONNECTIONS.map(|name| (name, BROKEN));
        let of_packets = of_packets.into_iter().chain(of_connections);
        for (name, least) in of_packets.chain(OF_LOSS).chain(OF_CABLE) {
            let all: Vec<_> = cables
                .iter()
                .filter_map(|cable| Some((cable, total(node, cable, name)?)))
                .collect();
            for (place, (cable, (value, file))) in all.iter().enumerate() {
                let others = all.iter().enumerate().filter(|(other, _)| *other != place);
                let others = others.map(|(_, (_, (value, _)))| *value);
                let Some(usual) = far_above(*value, others).filter(|_| *value >= least) else {
                    continue;
                };
                let shown = name_in_history(name, cable.member());
                let is_of_cable = OF_CABLE.iter().any(|(of_cable, _)| *of_cable == name);
                let port = found.entry(Subject::of_port(&cable.port)).or_default();
                port.words
                    .push(format!("{shown} {value} (median of equal ports {usual})"));
                port.evidence.push((file.clone(), *value));
                port.of_signal.insert(OF_SIGNAL.contains(&name));
                port.is_explained
                    .insert(is_of_cable && explained(node, cable).is_none_or(|allowed| *value <= allowed));
            }
        }
    }
    let findings = found.into_iter();
    findings
        .map(|(subject, found)| (subject.clone(), found.finding(subject)))
        .collect()
}
