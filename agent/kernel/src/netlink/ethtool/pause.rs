//! Pause frames.
//!
//! Source: `ETHTOOL_MSG_PAUSE_GET`.

use serde::{Deserialize, Serialize};

use super::{
    super::{Netlink, given, only, wire::Kind},
    Command, FLAG_STATS, NOT_SUPPORTED, question,
};
use crate::fact::Fact;

/// Link-level flow control (IEEE 802.3x). Priority flow control is counted elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Whether received pause frames stop the sender.
    pub rx: bool,
    /// Whether pause frames are sent.
    pub tx: bool,
    /// Number of received pause frames; `None` if the driver does not count.
    pub rx_frames: Option<u64>,
    /// Number of sent pause frames.
    pub tx_frames: Option<u64>,
}

impl Pause {
    pub(super) fn read(netlink: &Netlink<'_, '_>, netdev: &str) -> Fact<Self> {
        let question = || question(netdev, &PAUSE, FLAG_STATS);
        let found: Fact<Vec<PauseMessage>> = netlink.ask("pause-get", netdev, &NOT_SUPPORTED, question);
        found.and_then(only).map(Self::from)
    }
}

const PAUSE: Command = Command {
    commands: (21, 22),
    schema: &[
        (3, "rx", Kind::Number),
        (4, "tx", Kind::Number),
        (
            5,
            "stats",
            Kind::Nest(&[(2, "tx-frames", Kind::Number), (3, "rx-frames", Kind::Number)]),
        ),
    ],
};

#[derive(Debug, Deserialize)]
struct PauseMessage {
    #[serde(default)]
    rx: u64,
    #[serde(default)]
    tx: u64,
    #[serde(default)]
    stats: PauseStats,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct PauseStats {
    tx_frames: Option<u64>,
    rx_frames: Option<u64>,
}

impl From<PauseMessage> for Pause {
    fn from(message: PauseMessage) -> Self {
        Self {
            rx: message.rx != 0,
            tx: message.tx != 0,
            rx_frames: message.stats.rx_frames.and_then(given),
            tx_frames: message.stats.tx_frames.and_then(given),
        }
    }
}
