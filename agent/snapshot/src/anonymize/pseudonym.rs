//! Pseudonyms for addresses that keep what rules ask about them.
//!
//! - The same address becomes the same pseudonym, two different ones never the same; zero stays zero.
//! - Of MAC addresses and GUIDs the manufacturer's part stays and the last three bytes are shuffled, in the same way in
//!   every form of address, so that a GUID, a link-local GID and a MAC that belong together still do.
//! - IPv4 addresses and global IPv6 prefixes keep common prefixes: two addresses of one subnet stay in one subnet,
//!   whatever its size (as Crypto-PAn does). The first byte stays, and all of the part that makes an address private,
//!   link-local or IPv4-mapped.
//!
//! The key is random and kept nowhere.

use std::{
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, Ipv6Addr},
};

/// What turns addresses into pseudonyms.
#[derive(Debug, Default)]
pub(super) struct Pseudonyms {
    key: RandomState,
}

impl Pseudonyms {
    fn hash(&self, what: &str, value: impl std::hash::Hash) -> u64 {
        self.key.hash_one((what, value))
    }

    /// A word for a name, the same for the same name.
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
            // What zero would have become goes to the one that became zero.
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
        // Broadcast, and addresses of multicast groups (the lowest bit of the first byte), name nobody.
        if mac >> 40 & 1 == 1 {
            mac
        } else {
            self.last_three(mac)
        }
    }

    /// The leading `width` bits of `value`, those after the first `kept` replaced bit by bit: each flips as all before
    /// it say, so that common prefixes stay common.
    fn prefix(&self, value: u64, width: u32, kept: u32) -> u64 {
        (kept..width).fold(value, |found, bit| {
            let before = value >> (width - bit);
            let flip = self.hash("prefix", (width, bit, before)) & 1;
            found ^ flip << (width - 1 - bit)
        })
    }

    pub(super) fn ipv4(&self, address: Ipv4Addr) -> Ipv4Addr {
        // By the first byte alone: neighbours that keep different lengths could meet.
        let kept = match address.octets()[0] {
            0 | 127 | 224..=255 => 32,
            172 => 12,
            169 | 192 => 16,
            _ => 8,
        };
        let found = self.prefix(u64::from(address.to_bits()), 32, kept);
        // No bit above the 32nd is touched.
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
        // What was made from a MAC address stays recognisable as that, and nothing else becomes it.
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

/// The network's and the interface's half of an address.
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

/// An address of its halves.
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
        fn no_small_guid_becomes_zero(key in 0..64_u8, guid in 1_u64..4096) {
            let _ = key;
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
        fn a_mac_and_what_is_made_from_it_still_belong_together(mac in 0_u64..1 << 48) {
            let mac = mac & !(1 << 40);
            let pseudonyms = Pseudonyms::default();
            let link_local = |mac| Ipv6Addr::from_bits(0xfe80_u128 << 112 | u128::from(eui64(mac)));
            prop_assert_eq!(pseudonyms.guid(eui64(mac)), eui64(pseudonyms.mac(mac)));
            prop_assert_eq!(pseudonyms.gid(link_local(mac)), link_local(pseudonyms.mac(mac)));
        }
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
