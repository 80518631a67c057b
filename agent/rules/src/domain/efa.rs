//! Counters of EFA, the adapter of AWS, whose ports report neither link state nor signal.

use rdma_health_node::{Node, Port, words::duration};

use super::compared::{TIMES, compared, per_second};
use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
};

/// A counter, how much it may rise at once, and what it counts.
type Limit = (&'static str, u64, &'static str);

/// The limits of the EKS node monitoring agent (`monitors/networking/efa/efa.go`): once a minute it takes what a counter rose by from a bucket of
/// this size, which fills at [`REFILL`], and reports a rise that is not left in it.
const LIMITS: [Limit; 8] = [
    ("unresponsive_remote_events", 100, "a remote end did not respond"),
    (
        "impaired_remote_conn_events",
        100,
        "a connection was limited because it is impaired",
    ),
    (
        "retrans_timeout_events",
        100,
        "packets timed out and took another path",
    ),
    ("rdma_read_wr_err", 100, "a read failed"),
    ("rdma_write_wr_err", 100, "a write failed"),
    ("rx_drops", 100, "a received packet was dropped"),
    ("retrans_pkts", 1000, "a packet was sent again"),
    ("retrans_bytes", 1_000_000, "a byte was sent again"),
];
/// How much more a counter may rise in each second.
const REFILL: u64 = 1;
/// The periods that are judged, in seconds, at least and at most: that of a burst, and that of a rise that goes on.
const PERIODS: [(u64, u64); 2] = [(60, 180), (300, 3900)];

/// `efa-remote-impaired`.
pub static EFA_REMOTE_IMPAIRED: Rule = Rule {
    id: "efa-remote-impaired",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)),
    title: "An EFA device loses contact with remote ends",
    explanation: "Counters of the EFA device rise faster than the limits of the EKS node monitoring agent: by more than 100 at once, or 1 per \
        second for longer, of \
        unresponsive_remote_events, impaired_remote_conn_events, retrans_timeout_events, rdma_read_wr_err, rdma_write_wr_err and rx_drops; \
        1000 instead of 100 of retrans_pkts, 1000000 of retrans_bytes. The link of an EFA device is always reported as up, so these \
        are the only sign of a path or remote end that does not work. Jobs slow down or end with a timeout.",
    remedy: Remedy::all(
        "If one device has ten times the rate of its equal ports, stop and start the instance, which moves it to another host. If all have the \
        same, look at the nodes that the job talks to: the one with the fault sees few such events itself.",
    ),
    false_alarms: "A job that ends while others still send to it raises unresponsive_remote_events for a moment; such a finding is over after three \
        minutes. Silent without an earlier reading.",
    inputs: &[Writer::Hardware, Writer::Fabric, Writer::Agent, Writer::Job],
    judge: efa_remote_impaired,
};

/// How much a counter rose in a period, above what it may.
struct Rise {
    by: u64,
    seconds: u64,
    allowed: u64,
}

/// The rise of a counter in the period in which it exceeds its limit most, if it does in any.
fn excess(node: &Node, port: &Port<'_>, (counter, at_once, _): Limit) -> Option<Rise> {
    let past = node.past(port)?;
    let value = total(port, counter)?;
    let rises = PERIODS.into_iter().filter_map(|(least, most)| {
        let (rise, seconds) = past.counters.rise(counter, value, node.time, least, most)?;
        let allowed = at_once.saturating_add(REFILL.saturating_mul(seconds));
        (rise > allowed).then_some(Rise {
            by: rise,
            seconds,
            allowed,
        })
    });
    rises.max_by_key(|rise| rise.by / rise.allowed)
}

fn efa_remote_impaired(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = LIMITS.into_iter().flat_map(|limit| {
        let (counter, _, words) = limit;
        let rates = compared(node, |cable| {
            let port = (!cable.is_member).then_some(&cable.port)?;
            per_second(node, port, counter, total(port, counter)?)
        });
        node.ports().filter_map(move |port| {
            let rise = excess(node, &port, limit)?;
            let subject = Subject::of_port(&port);
            let of = rates.values().find(|of| of.cable.port.is(&port));
            let equals = match of.and_then(|of| Some((of.value, of.usual?))) {
                Some((value, usual)) if value > TIMES * usual => {
                    format!("; median of equal ports {usual:.1} per second")
                }
                Some((_, usual)) => format!("; its equal ports do the same (median {usual:.1} per second)"),
                None => String::new(),
            };
            let message = format!(
                "{subject} counted {} times in {} that {words} ({counter}, limit {}){equals}",
                rise.by,
                duration(rise.seconds),
                rise.allowed
            );
            let file = port.file(&format!("hw_counters/{counter}"));
            Some(Draft::new(&EFA_REMOTE_IMPAIRED, subject, message).evidence(file, total(&port, counter)?))
        })
    });
    found.collect()
}

/// A counter of an EFA device. Other drivers have some of the names for other things.
fn total(port: &Port<'_>, name: &str) -> Option<u64> {
    if port.hca.driver.known()? != "efa" {
        return None;
    }
    let counter = port.hw_counters.iter().find(|counter| &*counter.name == name)?;
    counter.value.known().copied()
}
