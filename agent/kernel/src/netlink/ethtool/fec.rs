//! Forward error correction: its mode, and what it corrected.
//!
//! Source: `ETHTOOL_MSG_FEC_GET`.

use serde::{Deserialize, Serialize};

use super::{
    super::{Netlink, given, only, wire::Kind},
    Command, FLAG_STATS, NOT_SUPPORTED, question,
};
use crate::fact::Fact;

/// Forward error correction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fec {
    /// The active mode: `RS`, `BaseR`, `LLRS`, `off`; `None` while the link is down.
    pub mode: Option<String>,
    /// Number of blocks that were corrected; `None` if the driver does not count.
    pub corrected: Option<u64>,
    /// Number of blocks that could not be corrected, and are lost.
    pub uncorrectable: Option<u64>,
    /// Number of bits that were corrected.
    pub corrected_bits: Option<u64>,
}

impl Fec {
    pub(super) fn read(netlink: &Netlink<'_, '_>, netdev: &str) -> Fact<Self> {
        let question = || question(netdev, &FEC, FLAG_STATS);
        let found: Fact<Vec<FecMessage>> = netlink.ask("fec-get", netdev, &NOT_SUPPORTED, question);
        found.and_then(only).map(Self::from)
    }
}

const FEC: Command = Command {
    commands: (29, 30),
    schema: &[
        (4, "active", Kind::Number),
        (
            5,
            "stats",
            Kind::Nest(&[
                (2, "corrected", Kind::Numbers),
                (3, "uncorr", Kind::Numbers),
                (4, "corr-bits", Kind::Numbers),
            ]),
        ),
    ],
};

#[derive(Debug, Deserialize)]
struct FecMessage {
    active: Option<u64>,
    #[serde(default)]
    stats: FecStats,
}

/// Each first for the port as a whole, then for each lane.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct FecStats {
    corrected: Vec<u64>,
    uncorr: Vec<u64>,
    corr_bits: Vec<u64>,
}

impl From<FecMessage> for Fec {
    fn from(message: FecMessage) -> Self {
        // Bits of `enum ethtool_link_mode_bit_indices`.
        let mode = |bit| match bit {
            49 => "off".to_owned(),
            50 => "RS".to_owned(),
            51 => "BaseR".to_owned(),
            74 => "LLRS".to_owned(),
            other => format!("mode {other}"),
        };
        let stats = message.stats;
        let total = |counts: &[u64]| given(*counts.first()?);
        Self {
            mode: message.active.map(mode),
            corrected: total(&stats.corrected),
            uncorrectable: total(&stats.uncorr),
            corrected_bits: total(&stats.corr_bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn statistics_count_the_port_and_not_its_lanes() {
        let message =
            json!({"active": 50, "stats": {"corrected": [9, 4, 5], "uncorr": [1, 0, 1], "corr-bits": []}});
        let fec = Fec::from(serde_json::from_value::<FecMessage>(message).unwrap());
        let expected = Fec {
            mode: Some("RS".into()),
            corrected: Some(9),
            uncorrectable: Some(1),
            corrected_bits: None,
        };
        assert_eq!(fec, expected);
        let not_counted = json!({"active": 50, "stats": {"corrected": [9], "uncorr": [u64::MAX]}});
        let fec = Fec::from(serde_json::from_value::<FecMessage>(not_counted).unwrap());
        assert_eq!((fec.corrected, fec.uncorrectable), (Some(9), None));
    }
}
