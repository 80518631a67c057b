//! Rates of ports and of the members of their bonds, compared with those of the equal ports of the node.

use std::collections::BTreeMap;

use rdma_health_node::{Cable, Node, Port, words::duration};

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
    let member = cable.member();
    node.rise(&cable.port, member, counter, total, WINDOW).map(rate)
}

/// How much a counter rises per second, which is `value` now.
pub(super) fn per_second(node: &Node, port: &Port<'_>, counter: &str, value: u64) -> Option<f64> {
    node.rise(port, None, counter, value, WINDOW).map(rate)
}

/// The newest of the samples, which are taken every five minutes: so old they are at least, and at most.
const NEWEST: (u64, u64) = (240, 660);

/// Over which time a counter of a cable rose, and its rate in the last minutes if that is another one: `on average over the last 29 min, none in the last
/// 5 min`. `words` shows a rate per second.
pub(super) fn period(node: &Node, cable: &Cable<'_>, counter: &str, words: impl Fn(f64) -> String) -> String {
    let Some(total) = link_total(node, cable, counter) else {
        return String::new();
    };
    let member = cable.member();
    let Some((all, seconds)) = node.rise(&cable.port, member, counter, total, WINDOW) else {
        return String::new();
    };
    let average = rate((all, seconds));
    let now = match lately(node, &cable.port, member, counter, total, seconds) {
        Some((0, lately)) => format!(", none in the last {}", duration(lately)),
        Some(newest) if !(average / 2.0..=average * 2.0).contains(&rate(newest)) => {
            format!(", {} in the last {}", words(rate(newest)), duration(newest.1))
        }
        Some(_) | None => String::new(),
    };
    format!("on average over the last {}{now}", duration(seconds))
}

/// The rise of a counter in the last minutes, and their number of seconds, if that is clearly less than the `seconds` of the whole period.
pub(super) fn lately(
    node: &Node,
    port: &Port<'_>,
    member: Option<&str>,
    counter: &str,
    value: u64,
    seconds: u64,
) -> Option<(u64, u64)> {
    let newest = node.rise(port, member, counter, value, NEWEST)?;
    (newest.1 * 2 <= seconds).then_some(newest)
}

#[expect(clippy::cast_precision_loss, reason = "a ratio of two large numbers")]
fn rate((rise, seconds): (u64, u64)) -> f64 {
    rise as f64 / seconds.max(1) as f64
}

/// A share of the time in percent. A counter that rises faster than the time passes shows no more than all of it.
pub(super) fn percent(share: f64) -> f64 {
    (share * 100.0).clamp(0.0, 100.0)
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
    let member = cable.member();
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
