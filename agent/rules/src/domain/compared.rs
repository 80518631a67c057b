//! Rates of ports and of the members of their bonds, compared with those of the equal ports of the node.

use std::collections::BTreeMap;

use rdma_health_node::{Cable, Node, Port};

/// A rate is measured over so many seconds at least, and at most.
const WINDOW: (u64, u64) = (300, 3900);
/// A rate is unusual if it is so many times the median of the equal ports.
pub(super) const TIMES: f64 = 10.0;

/// A counter of a cable that no file holds, by [`rdma_health_node::netdev::counters`].
pub(super) fn link_total(node: &Node, cable: &Cable<'_>, counter: &str) -> Option<u64> {
    let counters = node.link_counters(cable.netdev?);
    counters
        .into_iter()
        .find(|(name, _)| *name == counter)
        .map(|(_, value)| value)
}

/// How much such a counter rises per second.
pub(super) fn per_second_of_link(node: &Node, cable: &Cable<'_>, counter: &str) -> Option<f64> {
    let total = link_total(node, cable, counter)?;
    let member = cable.netdev.filter(|_| cable.is_member);
    node.rise(&cable.port, member, counter, total, WINDOW).map(rate)
}

/// How much a counter rises per second, which is `value` now.
pub(super) fn per_second(node: &Node, port: &Port<'_>, counter: &str, value: u64) -> Option<f64> {
    node.rise(port, None, counter, value, WINDOW).map(rate)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of two large numbers")]
fn rate((rise, seconds): (u64, u64)) -> f64 {
    rise as f64 / seconds.max(1) as f64
}

/// A rate of a cable, and the median of that of the equal ones if there are at least two of them with a rate.
pub(super) struct Compared<'a> {
    pub(super) cable: Cable<'a>,
    pub(super) value: f64,
    pub(super) usual: Option<f64>,
}

/// A cable: its device, its port, and for the member of a bond its network device.
type Key<'a> = (&'a str, u8, Option<&'a str>);

fn key<'a>(cable: &Cable<'a>) -> Key<'a> {
    let member = cable.netdev.filter(|_| cable.is_member);
    (cable.port.hca.name.as_str(), cable.port.number, member)
}

/// The rates of all cables, in order of device, number and member. Those of equal ports are equal.
pub(super) fn compared<'a>(
    node: &'a Node,
    rate: impl Fn(&Cable<'a>) -> Option<f64>,
) -> BTreeMap<Key<'a>, Compared<'a>> {
    let mut all: BTreeMap<_, _> = node
        .cables()
        .into_iter()
        .filter(|cable| !cable.port.hca.is_software() && !cable.port.is_lent())
        .filter_map(|cable| {
            let value = rate(&cable)?;
            Some((
                key(&cable),
                Compared {
                    cable,
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
        let is_peer = |(device, number, _): &Key<'a>| {
            let mut ports = peers.ports.iter();
            ports.any(|port| port.hca.name == *device && port.number == *number)
        };
        let rates: Vec<_> = all.iter().filter(|(key, _)| is_peer(key)).collect();
        let rates: Vec<(Key<'a>, f64)> = rates.into_iter().map(|(key, of)| (*key, of.value)).collect();
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
