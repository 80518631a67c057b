//! Rates of ports, compared with those of the equal ports of the node.

use std::collections::BTreeMap;

use rdma_health_node::{Node, Port};

/// A rate is measured over so many seconds at least, and at most.
const WINDOW: (u64, u64) = (300, 3900);
/// A rate is unusual if it is so many times the median of the equal ports.
pub(super) const TIMES: f64 = 10.0;

/// A counter of a port that no file holds, by [`rdma_health_node::netdev::counters`].
pub(super) fn link_total(node: &Node, port: &Port<'_>, counter: &str) -> Option<u64> {
    let counters = node.link_counters(port.kernel);
    counters
        .into_iter()
        .find(|(name, _)| *name == counter)
        .map(|(_, value)| value)
}

/// How much such a counter rises per second.
pub(super) fn per_second_of_link(node: &Node, port: &Port<'_>, counter: &str) -> Option<f64> {
    per_second(node, port, counter, link_total(node, port, counter)?)
}

/// How much a counter rises per second, which is `value` now.
pub(super) fn per_second(node: &Node, port: &Port<'_>, counter: &str, value: u64) -> Option<f64> {
    let (least, most) = WINDOW;
    let past = node.past(port)?;
    let (rise, seconds) = past.counters.rise(counter, value, node.time, least, most)?;
    #[expect(clippy::cast_precision_loss, reason = "a ratio of two large numbers")]
    let rate = rise as f64 / seconds.max(1) as f64;
    Some(rate)
}

/// A rate of a port, and the median of that of its equal ports if there are at least two of them with a rate.
pub(super) struct Compared<'a> {
    pub(super) port: Port<'a>,
    pub(super) value: f64,
    pub(super) usual: Option<f64>,
}

/// The rates of all ports, by device and number.
pub(super) fn compared<'a>(
    node: &'a Node,
    rate: impl Fn(&Port<'a>) -> Option<f64>,
) -> BTreeMap<(&'a str, u8), Compared<'a>> {
    let key = |port: &Port<'a>| (port.hca.name.as_str(), port.number);
    let mut all: BTreeMap<_, _> = node
        .ports()
        .filter(|port| !port.hca.is_software() && !port.is_lent())
        .filter_map(|port| {
            let value = rate(&port)?;
            Some((
                key(&port),
                Compared {
                    port,
                    value,
                    usual: None,
                },
            ))
        })
        .collect();
    // Most nodes report no such counter, and finding the equal ports is costly.
    if all.is_empty() {
        return all;
    }
    for peers in node.peers() {
        let value = |port: &Port<'a>| Some((key(port), all.get(&key(port))?.value));
        let rates: Vec<_> = peers.ports.iter().filter_map(value).collect();
        for (this, _) in &rates {
            let others = rates.iter().filter(|(other, _)| other != this);
            let mut others: Vec<f64> = others.map(|(_, value)| *value).collect();
            others.sort_by(f64::total_cmp);
            if others.len() >= 2
                && let Some(of) = all.get_mut(this)
            {
                of.usual = Some(others[others.len() / 2]);
            }
        }
    }
    all
}
