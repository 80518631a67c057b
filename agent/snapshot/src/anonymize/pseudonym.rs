//! Pseudonyms for addresses that keep the properties which rules check.
//!
//! - Equal addresses get equal pseudonyms, different addresses get different ones; zero stays zero.
//! - MAC addresses and GUIDs keep the manufacturer's part, and their last three bytes are shuffled. The shuffle is the
//!   same for every form of address, so that a MAC, its GUID and its link-local GID still match.
//! - IPv4 addresses and global IPv6 prefixes keep common prefixes: addresses of one subnet stay in one subnet of the same
//!   size (like Crypto-PAn). The first byte stays, and the whole part that makes an address private, link-local or
//!   IPv4-mapped. The addresses of ports keep their order, which shows that two of them were swapped.
//!
//! The key is random and not stored.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, Ipv6Addr},
};

/// Converts addresses to pseudonyms.
#[derive(Debug, Default)]
pub(super) struct Pseudonyms {
    key: RandomState,
    /// The host's name, as it is and without its domain, in lower case, longest first.
    host: Vec<String>,
    /// Whether a name of the host stays, because it is a word that others use.
    pub(super) host_stays: bool,
    /// What [`Pseudonyms::prefix`] replaces of addresses whose order stays, by its width.
    ordered: BTreeSet<(u32, u64)>,
}

impl Pseudonyms {
    /// Pseudonyms that also replace the name of the host in any text. A name that is a usual word, or one of `taken`, stays:
    /// it identifies nothing, and replacing it would change what the text says.
    pub(super) fn of_host(name: &str, taken: impl Fn(&str) -> bool) -> Self {
        const USUAL: [&str; 6] = ["localhost", "host", "node", "linux", "server", "none"];
        let name = name.trim().trim_end_matches('.').to_ascii_lowercase();
        let short = name.split('.').next().unwrap_or_default();
        let is_telling = |name: &&str| name.len() >= 3 && !USUAL.contains(name);
        let mut names: Vec<_> = [name.as_str(), short].into_iter().filter(is_telling).collect();
        names.dedup();
        let (taken, host): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| taken(name));
        Self {
            host: host.into_iter().map(str::to_owned).collect(),
            host_stays: !taken.is_empty(),
            ..Self::default()
        }
    }

    /// The text with the name of the host replaced where it is a whole word, together with a domain after it.
    pub(super) fn without_host<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for name in &self.host {
            let lower = text.to_ascii_lowercase();
            let mut out = String::new();
            let mut from = 0;
            for at in places(&lower, name) {
                if at < from {
                    continue;
                }
                let end = at + name.len();
                out.push_str(&text[from..at]);
                out.push_str(&self.name("node", name));
                from = end + domain(&lower[end..]);
            }
            if from > 0 {
                out.push_str(&text[from..]);
                text = Cow::Owned(out);
            }
        }
        text
    }

    fn hash(&self, what: &str, value: impl std::hash::Hash) -> u64 {
        self.key.hash_one((what, value))
    }

    /// A pseudonym for a name; equal names get equal pseudonyms.
    pub(super) fn name(&self, kind: &str, name: &str) -> String {
        format!("{kind}-{:08x}", self.hash("name", name) >> 32)
    }

    /// Shuffles the numbers below `1 << (2 * half)`, zero excepted: a Feistel network.
    fn shuffled(&self, half: u32, value: u64) -> u64 {
        let mask = (1 << half) - 1;
        let network = |value: u64| {
            let (mut left, mut right) = (value >> half, value & mask);
            for round in 0..6_u8 {
                (left, right) = (right, left ^ (self.hash("round", (half, round, right)) & mask));
            }
            left << half | right
        };
        match (value, network(value)) {
            (0, _) => 0,
            // The value that would become zero gets the value that zero would become.
            (_, 0) => network(0),
            (_, shuffled) => shuffled,
        }
    }

    fn last_three(&self, value: u64) -> u64 {
        (value & !0xff_ffff) | self.shuffled(12, value & 0xff_ffff)
    }

    /// A GUID or EUI-64.
    pub(super) fn guid(&self, guid: u64) -> u64 {
        if guid == u64::MAX {
            guid
        } else {
            self.last_three(guid)
        }
    }

    /// A MAC address in the lower 48 bits.
    pub(super) fn mac(&self, mac: u64) -> u64 {
        // Broadcast and multicast addresses (the lowest bit of the first byte) identify no host.
        if mac >> 40 & 1 == 1 {
            mac
        } else {
            self.last_three(mac)
        }
    }

    /// Makes the pseudonyms of these addresses keep their order.
    pub(super) fn keep_order(&mut self, addresses: impl Iterator<Item = Ipv6Addr>) {
        let ordered = addresses.map(|address| match address.to_ipv4_mapped() {
            Some(mapped) => (32, u64::from(mapped.to_bits())),
            None => (64, halves(address).0),
        });
        self.ordered.extend(ordered);
    }

    /// The leading `width` bits of `value`, with the bits after the first `kept` replaced: whether a bit flips depends on
    /// all bits before it, so that common prefixes stay common. A bit that decides the order of two known addresses stays.
    fn prefix(&self, value: u64, width: u32, kept: u32) -> u64 {
        (kept..width).fold(value, |found, bit| {
            let place = width - 1 - bit;
            let (before, own) = (value >> place >> 1, 1 << place);
            let lowest = (before << 1) << place;
            let is_known = |from: u64| {
                let range = (width, from)..=(width, from | (own - 1));
                self.ordered.range(range).next().is_some()
            };
            if is_known(lowest) && is_known(lowest | own) {
                return found;
            }
            let flip = self.hash("prefix", (width, bit, before)) & 1;
            found ^ flip << place
        })
    }

    pub(super) fn ipv4(&self, address: Ipv4Addr) -> Ipv4Addr {
        // The length depends only on the first byte; otherwise different addresses could get the same pseudonym.
        let kept = match address.octets()[0] {
            0 | 127 | 224..=255 => 32,
            172 => 12,
            169 | 192 => 16,
            _ => 8,
        };
        let found = self.prefix(u64::from(address.to_bits()), 32, kept);
        // Bits above the 32nd do not change.
        u32::try_from(found).map_or(address, Ipv4Addr::from_bits)
    }

    /// A GID, which has the form of an IPv6 address.
    pub(super) fn gid(&self, address: Ipv6Addr) -> Ipv6Addr {
        if let Some(mapped) = address.to_ipv4_mapped() {
            return self.ipv4(mapped).to_ipv6_mapped();
        }
        if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
            return address;
        }
        let (high, low) = halves(address);
        let global = !address.is_unicast_link_local();
        let high = if global { self.prefix(high, 64, 16) } else { high };
        // An identifier derived from a MAC address stays recognisable, and no other becomes one.
        let made_from_mac = |low: u64| low >> 24 & 0xffff == 0xfffe;
        let low = if global && !made_from_mac(low) {
            let mut shuffled = self.shuffled(32, low);
            while made_from_mac(shuffled) {
                shuffled = self.shuffled(32, shuffled);
            }
            shuffled
        } else {
            self.guid(low)
        };
        joined(high, low)
    }
}

/// Where the name is a whole word of the text.
pub(super) fn places<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| c.is_alphanumeric();
    let places = text.match_indices(name).map(|(at, _)| at);
    places.filter(move |at| !text[..*at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

/// The length of the domain at the start of the text: `.example.org`. The ending of a file (`10-gpu-17.conf`) is not one.
fn domain(text: &str) -> usize {
    const ENDINGS: [&str; 9] = [
        ".conf", ".d", ".json", ".scope", ".service", ".slice", ".toml", ".yaml", ".yml",
    ];
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut length = 0;
    while let Some(rest) = text[length..].strip_prefix('.')
        && rest.starts_with(|c: char| c.is_ascii_alphanumeric())
    {
        length += 1 + rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    }
    let ending = ENDINGS.iter().find(|ending| text[..length].ends_with(**ending));
    length - ending.map_or(0, |ending| ending.len())
}

/// The network half and the interface half of an address.
pub(super) fn halves(address: Ipv6Addr) -> (u64, u64) {
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let octets = address.octets();
    let (high, low) = octets.split_at(8);
    (number(high), number(low))
}

/// The address with these halves.
pub(super) fn joined(high: u64, low: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn eui64(mac: u64) -> u64 {
        (mac >> 24 ^ 0x02_0000) << 40 | 0xfffe << 24 | mac & 0xff_ffff
    }

    proptest! {
        #[test]
        fn different_addresses_stay_different_and_zero_stays_zero(a: u64, b: u64, near in 0_u64..4) {
            let pseudonyms = Pseudonyms::default();
            for other in [b, a ^ near, a.wrapping_add(near)] {
                prop_assert_eq!(pseudonyms.guid(a) == pseudonyms.guid(other), a == other);
                let (x, y) = (a & 0xffff_ffff_ffff, other & 0xffff_ffff_ffff);
                prop_assert_eq!(pseudonyms.mac(x) == pseudonyms.mac(y), x == y);
                let (x, y) = (Ipv6Addr::from_bits(u128::from(a)), Ipv6Addr::from_bits(u128::from(other)));
                prop_assert_eq!(pseudonyms.gid(x) == pseudonyms.gid(y), x == y);
            }
            prop_assert_eq!(pseudonyms.guid(a) == 0, a == 0);
            prop_assert_eq!((pseudonyms.guid(0), pseudonyms.mac(0)), (0, 0));
        }

        #[test]
        fn no_small_guid_becomes_zero(guid in 1_u64..4096) {
            prop_assert_ne!(Pseudonyms::default().guid(guid), 0);
        }

        #[test]
        fn addresses_share_as_long_a_prefix_as_before(a: u32, b: u32, bits in 0..32_u32) {
            let pseudonyms = Pseudonyms::default();
            let near = a ^ (1 << bits);
            for b in [b, near, a & 0xff00_ffff] {
                let mapped = [a, b].map(|bits| pseudonyms.ipv4(Ipv4Addr::from_bits(bits)).to_bits());
                let class = |bits: u32| Ipv4Addr::from_bits(bits);
                prop_assert_eq!(class(a).is_private(), class(mapped[0]).is_private());
                prop_assert_eq!(class(a).is_link_local(), class(mapped[0]).is_link_local());
                prop_assert_eq!(class(a).is_unspecified(), class(mapped[0]).is_unspecified());
                prop_assert_eq!((a ^ b).leading_zeros(), (mapped[0] ^ mapped[1]).leading_zeros());
            }
        }

        #[test]
        fn known_addresses_keep_their_order_and_their_common_prefixes(known: Vec<u32>, a: u32, b: u32) {
            let mut pseudonyms = Pseudonyms::default();
            let mapped = |bits: u32| Ipv4Addr::from_bits(bits).to_ipv6_mapped();
            let global = |bits: u32| Ipv6Addr::from_bits(0xfd00_u128 << 112 | u128::from(bits) << 72);
            let near = |bits: u32| [bits, bits ^ 1, bits ^ 0x300, bits.wrapping_add(1)];
            let known: Vec<_> = known.into_iter().flat_map(near).collect();
            for of in [mapped, global] {
                pseudonyms.keep_order(known.iter().map(|bits| of(*bits)));
                for pair in known.windows(2) {
                    let found = [pair[0], pair[1]].map(|bits| pseudonyms.gid(of(bits)));
                    prop_assert_eq!(found[0].cmp(&found[1]), pair[0].cmp(&pair[1]));
                }
                let found = [a, b].map(|bits| pseudonyms.gid(of(bits)).to_bits());
                let common = (of(a).to_bits() ^ of(b).to_bits()).leading_zeros();
                prop_assert_eq!(common, (found[0] ^ found[1]).leading_zeros());
            }
        }

        #[test]
        fn a_mac_and_what_is_made_from_it_still_belong_together(mac in 0_u64..1 << 48) {
            let mac = mac & !(1 << 40);
            let pseudonyms = Pseudonyms::default();
            let link_local = |mac| Ipv6Addr::from_bits(0xfe80_u128 << 112 | u128::from(eui64(mac)));
            prop_assert_eq!(pseudonyms.guid(eui64(mac)), eui64(pseudonyms.mac(mac)));
            prop_assert_eq!(pseudonyms.gid(link_local(mac)), link_local(pseudonyms.mac(mac)));
        }
    }

    #[test]
    fn the_name_of_the_host_is_replaced_as_a_word_with_its_domain() {
        let pseudonyms = Pseudonyms::of_host("GPU-17.example.org\n", |_| false);
        for (text, shown) in [
            ("peer gpu-17 lost", "peer NODE lost"),
            ("peer Gpu-17.Example.ORG: lost", "peer NODE: lost"),
            ("gpu-17.other.test,gpu-17", "NODE,NODE"),
            ("ö gpu-17 HCA-1", "ö NODE HCA-1"),
            ("gpu-171 agpu-17 gpu-1", "gpu-171 agpu-17 gpu-1"),
            ("10-gpu-17.conf", "10-NODE.conf"),
            ("gpu-17.example.org.conf", "NODE.conf"),
        ] {
            let found = pseudonyms.without_host(text).into_owned();
            let shown = ["gpu-17.example.org", "gpu-17"]
                .map(|name| shown.replace("NODE", &pseudonyms.name("node", name)));
            assert!(shown.contains(&found), "{found}");
        }
        let usual = Pseudonyms::of_host("localhost.localdomain", |name| name.contains('.'));
        assert_eq!(usual.without_host("localhost"), "localhost");
    }

    #[test]
    fn a_mapped_address_stays_one_and_belongs_to_its_interface() {
        let pseudonyms = Pseudonyms::default();
        let address = Ipv4Addr::new(10, 1, 2, 3);
        assert_eq!(
            pseudonyms.gid(address.to_ipv6_mapped()).to_ipv4_mapped(),
            Some(pseudonyms.ipv4(address))
        );
    }
}
