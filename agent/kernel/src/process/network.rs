//! The network namespace of a process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rdma_health_protocol::text::excerpt;

use super::{MAX_NAMES, MAX_TEXT};
use crate::{fact::Fact, root::Scope};

/// Maximum number of addresses that are kept.
const MAX_ADDRESSES: usize = 4096;

/// Whether the process is in the network namespace of process 1 of the node.
pub(super) fn is_of_host(scope: &Scope<'_>, pid: u32) -> Fact<bool> {
    let of = |pid: u32| scope.link(&format!("/proc/{pid}/ns/net"));
    let host = of(1);
    of(pid).and_then(|own| host.map(|host| host == own))
}

/// The network devices: `/proc/PID/net/dev` has two lines of headings, then `eth0: …`.
pub(super) fn devices(scope: &Scope<'_>, pid: u32) -> Fact<Vec<String>> {
    scope.optional_file(&format!("/proc/{pid}/net/dev")).map(|text| {
        let names = text.lines().skip(2).filter_map(|line| line.split_once(':'));
        let names = names.map(|(name, _)| excerpt(name.trim(), MAX_TEXT));
        names.take(MAX_NAMES).collect()
    })
}

/// The IP addresses. A kernel without IPv6 has no `if_inet6`.
pub(super) fn addresses(scope: &Scope<'_>, pid: u32) -> Fact<Vec<IpAddr>> {
    let six = scope.optional_file(&format!("/proc/{pid}/net/if_inet6"));
    let trie = scope.optional_file(&format!("/proc/{pid}/net/fib_trie"));
    trie.and_then(|trie| {
        let mut found = of_trie(&trie);
        match six {
            Fact::Unread { unread } => return Fact::Unread { unread },
            Fact::Known(six) => found.extend(of_inet6(&six)),
            Fact::Absent => {}
        }
        found.sort_unstable();
        found.dedup();
        found.truncate(MAX_ADDRESSES);
        Fact::Known(found)
    })
}

/// The local addresses in a routing trie: `|-- 10.0.0.5`, then `/32 host LOCAL`.
fn of_trie(trie: &str) -> Vec<IpAddr> {
    let mut last = None;
    let mut found = Vec::new();
    for line in trie.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last.map(IpAddr::V4));
        }
    }
    found
}

/// `fe800000000000005054fffffe000001 02 40 20 80 eth0`.
fn of_inet6(text: &str) -> Vec<IpAddr> {
    let addresses = text.lines().filter_map(|line| {
        let digits = line
            .split_whitespace()
            .next()
            .filter(|digits| digits.len() == 32)?;
        let bits = u128::from_str_radix(digits, 16).ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(bits)))
    });
    addresses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_both_tables() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\nLocal:\n     +-- 10.1.0.0/24 2 0 2\n        |-- 10.1.0.7\n           /32 host LOCAL\n        |-- 10.1.0.255\n           /32 link BROADCAST\n";
        assert_eq!(of_trie(trie), ["10.1.0.7".parse::<IpAddr>().unwrap()]);
        assert_eq!(
            of_inet6("fe800000000000005054fffffe000001 02 40 20 80     eth0\nbad\n"),
            ["fe80::5054:ffff:fe00:1".parse::<IpAddr>().unwrap()]
        );
    }
}
