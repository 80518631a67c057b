//! Lost packets that are sent again, and connections that break: each network has some, so a port is compared with its equals.

use rdma_health_node::{
    Node, Port,
    history::{BROKEN_CONNECTIONS, LOST_PACKETS},
    words::duration,
};

use super::{FEWEST, HOUR, Rise, TIMES, counter, median};

/// The least rise in about an hour that is reported. A sender tries again at most 7 times (InfiniBand Architecture Specification, 9.7.5), so one failed job
/// with thousands of queue pairs counts less.
pub(super) const LEAST: u64 = 100_000;
/// The same of connections that broke: each is one count. The end of a peer breaks those of all rails alike.
pub(super) const LEAST_BROKEN: u64 = 100;
/// In this period, in seconds, at least and at most.
const PERIOD: (u64, u64) = (60, HOUR + 300);

/// How much a counter of a port rose.
struct Risen<'a> {
    port: Port<'a>,
    counter: &'static str,
    /// The least rise that is reported.
    least: u64,
    value: u64,
    rise: u64,
    seconds: u64,
}

impl Risen<'_> {
    #[expect(clippy::cast_precision_loss, reason = "a ratio of two large numbers")]
    fn per_second(&self) -> f64 {
        self.rise as f64 / self.seconds.max(1) as f64
    }
}

/// Every counter with the least rise that is reported.
fn judged() -> Vec<(&'static str, u64)> {
    let lost = LOST_PACKETS.map(|name| (name, LEAST));
    let broken = BROKEN_CONNECTIONS.map(|name| (name, LEAST_BROKEN));
    lost.into_iter().chain(broken).collect()
}

/// The rises that equal ports do not have, and those of ports without equals, each with its port.
pub(super) fn rises(node: &Node) -> Vec<(Port<'_>, Rise)> {
    if node.history.is_none() {
        return Vec::new();
    }
    let is_judged = |port: &Port<'_>| !port.is_lent() && !port.hca.is_software();
    let all: Vec<Risen<'_>> = node
        .ports()
        .filter(is_judged)
        .flat_map(|port| {
            judged()
                .into_iter()
                .filter_map(move |(name, least)| risen(node, port, name, least))
        })
        .collect();
    let high = |risen: &&Risen<'_>| risen.rise >= risen.least;
    // Most nodes have none, and finding the equal ports is costly.
    if !all.iter().any(|risen| high(&risen)) {
        return Vec::new();
    }
    let peers = node.peers();
    let found = all.iter().filter(high).filter_map(|risen| {
        let group = peers
            .iter()
            .find(|peers| peers.ports.iter().any(|port| port.is(&risen.port)));
        let equals = all.iter().filter(|other| {
            let mut ports = group.into_iter().flat_map(|peers| &peers.ports);
            other.counter == risen.counter
                && !other.port.is(&risen.port)
                && ports.any(|port| port.is(&other.port))
        });
        let equals: Vec<f64> = equals.map(Risen::per_second).collect();
        let usual = median(equals.iter().copied()).filter(|_| equals.len() >= FEWEST);
        // A few of each million are the same as none.
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let is_usual = usual.is_some_and(|usual| risen.per_second() < usual * TIMES as f64);
        (!is_usual).then(|| (risen.port, rise(risen, usual)))
    });
    found.collect()
}

fn risen<'a>(node: &'a Node, port: Port<'a>, name: &'static str, least: u64) -> Option<Risen<'a>> {
    let value = counter(&port, name)?;
    let (rise, seconds) = node.rise(&port, None, name, value, PERIOD)?;
    Some(Risen {
        port,
        counter: name,
        least,
        value,
        rise,
        seconds,
    })
}

fn rise(risen: &Risen<'_>, usual: Option<f64>) -> Rise {
    let equals = match usual {
        Some(usual) => format!("median of equal ports {usual:.1} per second"),
        None => "too few equal ports to compare with".to_owned(),
    };
    Rise {
        counter: risen.counter,
        words: format!(
            "{} by {} in {} (limit {}; {equals})",
            risen.counter,
            risen.rise,
            duration(risen.seconds),
            risen.least
        ),
        file: risen.port.file(&format!("hw_counters/{}", risen.counter)),
        value: risen.value,
        is_alone: usual.is_none(),
    }
}
