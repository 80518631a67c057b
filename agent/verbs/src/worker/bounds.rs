//! What a peer may ask for that is neither root nor the user of this program: on a node, the agent, which has a network listener.
//!
//! It may load a port for a bounded time, a busy port with a bounded amount, and it may connect ends only to the networks that the
//! administrator names.

use std::net::{IpAddr, Ipv6Addr};

use rdma_health_protocol::{EndAddress, ProbeRequest};

/// The most bytes of one probe, and its longest time: those of the agent's configuration.
const MOST_BYTES: u64 = 1 << 40;
const LONGEST_MS: u64 = 60_000;
/// The same on a port that may carry traffic.
const MOST_BYTES_IF_BUSY: u64 = 256 << 20;
const LONGEST_IF_BUSY_MS: u64 = 10_000;
/// Traffic in bytes per second from which on a port is busy, at most: that of the agent's configuration.
const MOST_BUSY: u64 = 1 << 40;

/// The bounds of one peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    peers: Peers,
}

/// To which addresses ends may be connected.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Peers {
    Any,
    /// To these networks, and by LID within the own InfiniBand subnet.
    Only(Vec<Network>),
    None,
}

/// An address as a GID has it, and how many of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network(u128, u32);

impl Bounds {
    /// `any`, `none`, or networks such as `10.0.0.0/8,2001:db8::/32`.
    pub fn parse(text: &str) -> Option<Self> {
        let peers = match text {
            "any" => Peers::Any,
            "none" => Peers::None,
            _ => Peers::Only(text.split(',').map(Network::parse).collect::<Option<_>>()?),
        };
        Some(Self { peers })
    }

    /// Whether a bounded peer may make this measurement.
    pub(super) fn allow(request: &ProbeRequest) -> bool {
        let ignores_traffic = request.even_if_busy || request.busy_bytes_per_second > MOST_BUSY;
        let (bytes, time) = if ignores_traffic {
            (MOST_BYTES_IF_BUSY, LONGEST_IF_BUSY_MS)
        } else {
            (MOST_BYTES, LONGEST_MS)
        };
        request.byte_budget <= bytes && request.time_budget_ms <= time
    }

    /// Whether it may open an end for another node.
    pub(super) fn allow_ends(&self) -> bool {
        self.peers != Peers::None
    }

    /// Whether it may connect an end to this address.
    pub(super) fn reach(&self, to: &EndAddress) -> bool {
        match (&self.peers, to.gid) {
            (Peers::None, _) => false,
            (Peers::Any, _) | (Peers::Only(_), None) => true,
            (Peers::Only(networks), Some(gid)) => networks.iter().any(|network| network.contains(gid.gid)),
        }
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let bits: u32 = bits.parse().ok()?;
        match address.parse().ok()? {
            IpAddr::V4(address) => (bits <= 32).then(|| Self(address.to_ipv6_mapped().into(), 96 + bits)),
            IpAddr::V6(address) => (bits <= 128).then(|| Self(address.into(), bits)),
        }
    }

    fn contains(self, gid: Ipv6Addr) -> bool {
        (u128::from(gid) ^ self.0).leading_zeros() >= self.1
    }
}

#[cfg(test)]
mod tests {
    use rdma_health_protocol::{EndGid, GidType, QueuePairAddress, RegionAddress};

    use super::*;
    use crate::probe::sane;

    fn address(gid: Option<&str>) -> EndAddress {
        EndAddress {
            queue_pairs: vec![QueuePairAddress { number: 1, psn: 1 }],
            lid: 1,
            gid: gid.map(|gid| EndGid {
                gid: gid.parse().unwrap(),
                kind: GidType::RoceV2,
            }),
            mtu: 4096,
            region: RegionAddress {
                address: 4096,
                key: 1,
                length: 4096,
            },
            pattern: 1,
        }
    }

    #[test]
    fn an_unprivileged_peer_loads_a_port_for_a_bounded_time_and_a_busy_one_with_little() {
        assert!(Bounds::allow(&sane()));
        let refused: [fn(&mut ProbeRequest); 5] = [
            |r| r.byte_budget = u64::MAX,
            |r| r.time_budget_ms = 600_000,
            |r| (r.even_if_busy, r.byte_budget) = (true, 1 << 30),
            |r| (r.even_if_busy, r.time_budget_ms) = (true, 60_000),
            |r| (r.busy_bytes_per_second, r.byte_budget) = (u64::MAX, 1 << 30),
        ];
        for (at, change) in refused.iter().enumerate() {
            let mut request = sane();
            change(&mut request);
            assert!(!Bounds::allow(&request), "{at}");
        }
    }

    #[test]
    fn ends_are_connected_to_the_networks_of_the_peers_only() {
        let bounds = Bounds::parse("10.0.0.0/8,2001:db8::/32").unwrap();
        for (gid, reached) in [
            ("::ffff:10.1.2.3", true),
            ("::ffff:11.1.2.3", false),
            ("2001:db8::1", true),
            ("2001:db9::1", false),
            ("fe80::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(bounds.reach(&address(Some(gid))), reached, "{gid}");
            assert!(Bounds::parse("any").unwrap().reach(&address(Some(gid))));
            assert!(!Bounds::parse("none").unwrap().reach(&address(Some(gid))));
        }
        assert!(bounds.reach(&address(None)) && bounds.allow_ends());
        assert!(!Bounds::parse("none").unwrap().allow_ends());
        for wrong in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "any,none",
            "10.0.0.0/8,",
            "x/8",
        ] {
            assert_eq!(Bounds::parse(wrong), None, "{wrong}");
        }
    }
}
