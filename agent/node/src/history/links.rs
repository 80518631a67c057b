//! Since when a link has been up without a break: what a port counts while its link goes down or comes up is not an error of the link that
//! runs.

use std::collections::BTreeMap;

use rdma_health_kernel::infiniband;
use serde::{Deserialize, Serialize};

use super::{BROKEN_CONNECTIONS, LOST_PACKETS, PortHistory, add_downs};
use crate::{
    Node, Port,
    netdev::counters::{FCS_ERRORS, FEC_CORRECTED_BITS, FEC_UNCORRECTABLE, SYMBOL_ERRORS},
};

/// Maximum number of links of a port: its own, and those of the members of its bond.
pub(super) const MAX_LINKS: usize = 1 + crate::cable::MAX_MEMBERS;
/// Counters of one moment are read within this time, in seconds: those of netlink once a minute, others more often.
const SETTLES: u64 = 90;

/// Counters that also rise because a link goes down or comes up: errors of the signal, and packets that are lost meanwhile, as
/// [`LOST_PACKETS`] are, and connections that break ([`BROKEN_CONNECTIONS`]).
const OF_THE_LINK: [&str; 11] = [
    FCS_ERRORS,
    FEC_CORRECTED_BITS,
    FEC_UNCORRECTABLE,
    SYMBOL_ERRORS,
    "link_error_recovery",
    "local_ack_timeout_err",
    "local_link_integrity_errors",
    "port_rcv_errors",
    "port_xmit_discards",
    "roce_slow_restart",
    "symbol_error",
];

/// A link as it was last seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenLink {
    /// When it was last seen down, or seen to have been down since the reading before, in seconds since 1970; 0 if never.
    #[serde(default)]
    pub(super) broken: u64,
    /// How often it went down, as the network device, the RDMA device (of a member: the bond) and the driver count it.
    #[serde(default)]
    downs: [Option<u64>; 3],
}

impl SeenLink {
    /// How often a link went down since it was last seen, by the counter that rose most.
    fn fell(&self, link: &LinkNow) -> u64 {
        let both = self.downs.iter().zip(&link.downs);
        let times = both.filter_map(|(before, now)| Some((*now)?.saturating_sub((*before)?)));
        times.max().unwrap_or(0)
    }
}

/// A link as it is now.
struct LinkNow {
    is_up: bool,
    downs: [Option<u64>; 3],
}

impl SeenLink {
    /// Whether a link that is up has been up since it was last seen.
    fn is_unbroken(&self, link: &LinkNow) -> bool {
        // A count that cannot be read for a while says nothing.
        let mut both = self.downs.iter().zip(&link.downs);
        link.is_up && both.all(|(before, now)| before.is_none() || now.is_none() || before == now)
    }
}

impl PortHistory {
    /// Records that the link of a member of the bond went down so often since the last reading.
    fn member_went_down(&mut self, name: &str, times: u64, now: u64) {
        if times == 0 {
            return;
        }
        let downs = self
            .member_downs
            .entry(super::short(name).to_owned())
            .or_default();
        add_downs(downs, times, now);
    }

    /// Records the links of a port. Call it before the time of the last reading is set.
    pub(super) fn see_links(&mut self, node: &Node, port: &infiniband::Port, booting: bool, now: u64) {
        let is_new = self.last == 0;
        let mut seen = std::mem::take(&mut self.links);
        for (name, link) in links(node, port) {
            let before = seen.remove(name);
            let is_unbroken = match &before {
                Some(before) => before.is_unbroken(&link),
                // Nothing is known about it before the first reading, and no counter of that time is compared.
                None => is_new && link.is_up,
            };
            let before = before.unwrap_or_default();
            if !name.is_empty() && !booting {
                self.member_went_down(name, before.fell(&link), now);
            }
            let link = SeenLink {
                broken: if is_unbroken { before.broken } else { now },
                downs: std::array::from_fn(|source| link.downs[source].or(before.downs[source])),
            };
            self.links.insert(super::short(name).to_owned(), link);
        }
        // A member that left the bond.
        let links = &self.links;
        self.member_downs.retain(|name, _| links.contains_key(name));
    }
}

impl Node {
    /// The rise of a counter of a port, or of the member of its bond, as [`super::Series::rise`] has it. Of a counter that a link raises
    /// as it goes down or comes up, only what it counted since it is up.
    pub fn rise(
        &self,
        port: &Port<'_>,
        member: Option<&str>,
        counter: &str,
        value: u64,
        (least, window): (u64, u64),
    ) -> Option<(u64, u64)> {
        let past = self.past(port)?;
        let mut from = 0;
        let of_the_link = [&OF_THE_LINK[..], &LOST_PACKETS, &BROKEN_CONNECTIONS];
        if of_the_link.iter().any(|names| names.contains(&counter)) {
            let links = links(self, port.kernel).into_iter();
            for (name, link) in links.filter(|(name, _)| member.is_none_or(|member| member == *name)) {
                let seen = past.links.get(super::short(name))?;
                if !seen.is_unbroken(&link) {
                    return None;
                }
                if seen.broken > 0 {
                    from = from.max(seen.broken.saturating_add(SETTLES));
                }
            }
        }
        let name = crate::netdev::name_in_history(counter, member);
        past.counters
            .rise_from(from, &name, value, self.time, least, window)
    }
}

/// The links of a port: its own, without a name, and those of the members of its bond.
fn links<'a>(node: &'a Node, port: &'a infiniband::Port) -> BTreeMap<&'a str, LinkNow> {
    let of_driver = |netdev: &str| node.link_of_netdev(netdev)?.downs.known().copied();
    let netdev = port.netdev.known();
    let mut counters = port.counters.iter();
    let own = LinkNow {
        is_up: port.is_active() != Some(false),
        downs: [
            netdev.and_then(|netdev| netdev.carrier_downs.known().copied()),
            counters
                .find(|counter| &*counter.name == "link_downed")
                .and_then(|counter| counter.value.known().copied()),
            netdev.and_then(|netdev| of_driver(&netdev.name)),
        ],
    };
    let members = node.members(port).into_iter().map(|member| {
        let of_sysfs = node.bond_member(port, member);
        let link = LinkNow {
            is_up: node.member_is_up(port, member) != Some(false),
            downs: [
                of_sysfs.and_then(|member| member.carrier_downs.known().copied()),
                of_sysfs.and_then(|member| member.link_failures.known().copied()),
                of_driver(member),
            ],
        };
        (member, link)
    });
    std::iter::once(("", own)).chain(members).collect()
}
