//! One end of a connection: what is asked of the helper that has it, and the address that the other end needs.
//!
//! Both ends are offered, each by the helper of its own node; the agents exchange the addresses, since a helper never listens
//! on a network. Then each end is connected to the other's address, and both are asked to measure: first the one that
//! responds, then the one that writes.

use std::{net::Ipv6Addr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{GidType, MAX_QUEUE_PAIRS, ProbeRequest, bounded};

/// The most ends that a helper holds open at a time for one connection.
pub const MAX_ENDS: usize = 4;

/// How long an end that was offered waits for the next question. It is closed then.
pub const END_IDLE: Duration = Duration::from_secs(10);

/// Queue pair numbers and packet sequence numbers have 24 bits.
const MAX_24_BITS: u32 = (1 << 24) - 1;

/// What one end does in a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Writes, and measures.
    Write,
    /// Is written to: verifies what arrives and answers small writes.
    Respond,
}

/// Opens one end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferRequest {
    /// What the end does.
    pub role: Role,
    /// What is to be measured. The sizes, the byte budget and the number of samples must be the same for both ends. Opening,
    /// connecting and measuring may each take the time budget; that of the end that responds starts first and should be the
    /// longer one.
    #[serde(flatten)]
    pub probe: ProbeRequest,
}

/// An end that is open and waits to be connected, for [`END_IDLE`] at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedEnd {
    /// Chosen by the helper; names the end in further questions on the same connection.
    pub end: u64,
    /// For the other end.
    pub address: EndAddress,
}

/// Connects an end to the other one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectRequest {
    /// [`OfferedEnd::end`].
    pub end: u64,
    /// Address of the other end.
    pub to: EndAddress,
}

/// Where one end is: what the other end needs to connect to it and to write to its memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndAddress {
    /// Its queue pairs, of which each is connected to the one at the same place of the other end. At least one; small messages
    /// travel over the first.
    #[serde(deserialize_with = "bounded::list::<_, _, MAX_QUEUE_PAIRS>")]
    pub queue_pairs: Vec<QueuePairAddress>,
    /// LID of its port; 0 on Ethernet.
    pub lid: u16,
    /// Its GID; `None` on InfiniBand where a LID is enough.
    pub gid: Option<EndGid>,
    /// Active path MTU of its port in bytes (256 to 4096).
    pub mtu: u32,
    /// The memory that the other end may write to.
    pub region: RegionAddress,
    /// Seed of the bytes that it writes, by which the other end knows them.
    pub pattern: u64,
}

/// One queue pair of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePairAddress {
    /// Its number, below 2^24.
    pub number: u32,
    /// Sequence number of the first packet that it sends (PSN), below 2^24.
    pub psn: u32,
}

/// The GID of an end as the other end needs it; the index differs from table to table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndGid {
    /// The GID, which has the form of an IPv6 address.
    pub gid: Ipv6Addr,
    /// Its type, which must be the same at both ends.
    pub kind: GidType,
}

/// A memory region as the other end of a connection sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionAddress {
    /// Its first byte, in the process at that end.
    pub address: u64,
    /// `ibv_mr.rkey`.
    pub key: u32,
    /// Its length in bytes.
    pub length: u64,
}

impl EndAddress {
    /// Whether the numbers are such as an end can have. What came from another node may hold anything.
    pub fn is_sane(&self) -> bool {
        let is_sane = |pair: &QueuePairAddress| pair.number <= MAX_24_BITS && pair.psn <= MAX_24_BITS;
        (1..=MAX_QUEUE_PAIRS).contains(&self.queue_pairs.len())
            && self.queue_pairs.iter().all(is_sane)
            && matches!(self.mtu, 256 | 512 | 1024 | 2048 | 4096)
            && self.region.address.checked_add(self.region.length).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: QueuePairAddress = QueuePairAddress {
        number: MAX_24_BITS,
        psn: MAX_24_BITS,
    };

    fn address() -> EndAddress {
        EndAddress {
            queue_pairs: vec![PAIR; MAX_QUEUE_PAIRS],
            lid: 7,
            gid: None,
            mtu: 4096,
            region: RegionAddress {
                address: u64::MAX - 64,
                key: u32::MAX,
                length: 64,
            },
            pattern: u64::MAX,
        }
    }

    #[test]
    fn numbers_that_no_end_has_are_refused() {
        assert!(address().is_sane());
        let refused: [fn(&mut EndAddress); 7] = [
            |a| a.queue_pairs[0].number = MAX_24_BITS + 1,
            |a| a.queue_pairs[MAX_QUEUE_PAIRS - 1].psn = MAX_24_BITS + 1,
            |a| a.queue_pairs.clear(),
            |a| a.queue_pairs.push(PAIR),
            |a| a.mtu = 0,
            |a| a.mtu = 1500,
            |a| a.region.length = 65,
        ];
        for (at, change) in refused.iter().enumerate() {
            let mut address = address();
            change(&mut address);
            assert!(!address.is_sane(), "{at}");
        }
    }

    #[test]
    fn an_address_survives_the_wire() {
        let text = serde_json::to_string(&address()).unwrap();
        assert_eq!(serde_json::from_str::<EndAddress>(&text).unwrap(), address());
    }
}
