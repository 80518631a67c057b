//! Counters of EFA, the adapter of AWS, whose ports report neither link state nor signal.

use rdma_health_node::{Node, Port};

use super::compared::{TIMES, compared, per_second};
use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
};

/// A counter, how much it may rise per second, and what it counts.
type Limit = (&'static str, f64, &'static str);

/// The limits of the EKS node monitoring agent.
const LIMITS: [Limit; 8] = [
    (
        "unresponsive_remote_events",
        100.0,
        "a remote end did not respond",
    ),
    (
        "impaired_remote_conn_events",
        100.0,
        "a connection was limited because it is impaired",
    ),
    (
        "retrans_timeout_events",
        100.0,
        "packets timed out and took another path",
    ),
    ("rdma_read_wr_err", 100.0, "a read failed"),
    ("rdma_write_wr_err", 100.0, "a write failed"),
    ("rx_drops", 100.0, "a received packet was dropped"),
    ("retrans_pkts", 1e3, "a packet was sent again"),
    ("retrans_bytes", 1e6, "a byte was sent again"),
];

/// `efa-remote-impaired`.
pub static EFA_REMOTE_IMPAIRED: Rule = Rule {
    id: "efa-remote-impaired",
    domain: Domain::Link,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)),
    title: "An EFA device loses contact with remote ends",
    explanation: "Counters of the EFA device rise faster than the limits of the EKS node monitoring agent: 100 per second of \
        unresponsive_remote_events, impaired_remote_conn_events, retrans_timeout_events, rdma_read_wr_err, rdma_write_wr_err and rx_drops, \
        1000 per second of retrans_pkts, 1000000 per second of retrans_bytes. The link of an EFA device is always reported as up, so these \
        are the only sign of a path or remote end that does not work. Jobs slow down or end with a timeout.",
    remedy: Remedy::all(
        "If one device has ten times the rate of its equal ports, stop and start the instance, which moves it to another host. If all have the \
        same, look at the nodes that the job talks to: the one with the fault sees few such events itself.",
    ),
    false_alarms: "A job that ends while others still send to it raises unresponsive_remote_events for a moment, so rates are \
        means of at least five minutes. Silent without an earlier reading.",
    inputs: &[Writer::Hardware, Writer::Fabric, Writer::Agent, Writer::Job],
    judge: efa_remote_impaired,
};

fn efa_remote_impaired(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = LIMITS.into_iter().flat_map(|(counter, limit, words)| {
        let rates = compared(node, |cable| {
            let port = (!cable.is_member).then_some(&cable.port)?;
            per_second(node, port, counter, total(port, counter)?)
        });
        rates.into_values().filter_map(move |of| {
            if of.value <= limit {
                return None;
            }
            let port = &of.cable.port;
            let subject = Subject::of_port(port);
            let equals = match of.usual {
                Some(usual) if of.value > TIMES * usual => format!("; median of equal ports {usual:.0}"),
                Some(usual) => format!("; its equal ports do the same (median {usual:.0})"),
                None => String::new(),
            };
            let message = format!(
                "{subject} counts {:.0} times per second that {words} ({counter}, limit {limit:.0}){equals}",
                of.value
            );
            let file = port.file(&format!("hw_counters/{counter}"));
            Some(Draft::new(&EFA_REMOTE_IMPAIRED, subject, message).evidence(file, total(port, counter)?))
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
