//! The links of network devices: why one is down, forward error correction, pause frames.
//!
//! Source: the generic netlink family `ethtool` (`Documentation/networking/ethtool-netlink.rst`,
//! `Documentation/netlink/specs/ethtool.yaml`), Linux 5.6 and later. Reading needs no privilege.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Netlink, Question, obstacle,
    wire::{Kind, Schema, nest, number, text},
};
use crate::{
    fact::{Errno, Fact, Unread, UnreadKind},
    root::Scope,
    source::{After, Known, Source},
};

/// Maximum number of network devices that are asked about.
const MAX_NETDEVS: usize = 256;

const FAMILY: &str = "ethtool";
/// What the kernel answers for a driver that does not support a question.
const NOT_SUPPORTED: [Errno; 1] = [Errno::OPNOTSUPP];
/// `ETHTOOL_FLAG_STATS`: the reply has statistics.
const FLAG_STATS: u32 = 1 << 2;

/// Links by network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    /// The network devices of RDMA ports; absent in a tree of files.
    pub netdevs: Fact<BTreeMap<String, Link>>,
}

/// The link of one network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Why it is down; absent if it is up, or if the driver does not know.
    pub down_reason: Fact<DownReason>,
    /// How often the physical link went down; absent if the driver does not count.
    pub downs: Fact<u64>,
    /// Forward error correction; absent if the driver does not report it.
    pub fec: Fact<Fec>,
    /// Pause frames; absent if the driver does not report them.
    pub pause: Fact<Pause>,
}

/// Why a link is down (`enum ethtool_link_ext_state`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownReason {
    /// The reason, in the words of the program ethtool.
    pub reason: String,
    /// More about it, if the driver knows more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => write!(f, "{}, {detail}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

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

impl Source for Links {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        if let Some(obstacle) = obstacle(scope, known) {
            return Self {
                netdevs: obstacle.map(|()| BTreeMap::new()),
            };
        }
        if known.netdevs.len() > MAX_NETDEVS {
            let _: Fact<()> = scope.fail(Unread {
                source: "netlink ethtool".into(),
                kind: UnreadKind::TooLong,
                detail: format!("only the first {MAX_NETDEVS} network devices are asked about"),
            });
        }
        let netlink = Netlink::new(scope);
        let mut netdevs = BTreeMap::new();
        for netdev in known.netdevs.iter().take(MAX_NETDEVS) {
            let state = state(&netlink, netdev);
            if let Some(unread) = state.unread()
                && netdevs.is_empty()
                && is_for_all(unread)
            {
                return Self {
                    netdevs: unread.clone().into(),
                };
            }
            netdevs.insert(netdev.clone(), Link::read(&netlink, netdev, state));
        }
        Self {
            netdevs: Fact::Known(netdevs),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            netdevs: why.clone().into(),
        }
    }
}

/// Whether a failure is not about one device: the kernel has no such family, the socket is refused, or nothing was recorded.
fn is_for_all(unread: &Unread) -> bool {
    match &unread.kind {
        UnreadKind::NotCollected => true,
        UnreadKind::Errno(errno) => [
            Errno::OPNOTSUPP,
            Errno::PERM,
            Errno::ACCESS,
            Errno::PROTONOSUPPORT,
            Errno::AFNOSUPPORT,
        ]
        .contains(errno),
        _ => false,
    }
}

impl Link {
    fn read(netlink: &Netlink<'_, '_>, netdev: &str, state: Fact<Vec<State>>) -> Self {
        let fec = || question(netdev, &FEC, FLAG_STATS);
        let fec: Fact<Vec<FecMessage>> = netlink.ask("fec-get", netdev, &NOT_SUPPORTED, fec);
        let pause = || question(netdev, &PAUSE, FLAG_STATS);
        let pause: Fact<Vec<PauseMessage>> = netlink.ask("pause-get", netdev, &NOT_SUPPORTED, pause);
        let state = state.and_then(only);
        Self {
            down_reason: state.as_ref().and_then(|state| state.reason().into()),
            downs: state.and_then(|state| state.downs.into()),
            fec: fec.and_then(only).map(Fec::from),
            pause: pause.and_then(only).map(Pause::from),
        }
    }
}

/// The state of a link.
pub(super) fn state<T: DeserializeOwned>(netlink: &Netlink<'_, '_>, netdev: &str) -> Fact<Vec<T>> {
    netlink.ask("linkstate-get", netdev, &NOT_SUPPORTED, || {
        question(netdev, &LINKSTATE, 0)
    })
}

/// The one message of a reply; absent if there is none.
fn only<T>(messages: Vec<T>) -> Fact<T> {
    messages.into_iter().next().into()
}

/// A command: the numbers of the request and of its reply, and what is used of it.
struct Command {
    commands: (u8, u8),
    schema: Schema,
}

fn question(netdev: &str, command: &Command, flags: u32) -> Question {
    const HEADER: u16 = 1;
    const DEV_NAME: u16 = 2;
    const FLAGS: u16 = 3;
    Question {
        family: FAMILY,
        commands: command.commands,
        dump: false,
        attributes: vec![nest(HEADER, &[text(DEV_NAME, netdev), number(FLAGS, flags)])],
        schema: command.schema,
    }
}

const LINKSTATE: Command = Command {
    commands: (6, 6),
    schema: &[
        (2, "link", Kind::Number),
        (5, "ext-state", Kind::Number),
        (6, "ext-substate", Kind::Number),
        (7, "ext-down-cnt", Kind::Number),
    ],
};

#[derive(Debug, Deserialize)]
struct State {
    #[serde(rename = "ext-state")]
    reason: Option<u64>,
    #[serde(rename = "ext-substate")]
    detail: Option<u64>,
    #[serde(rename = "ext-down-cnt")]
    downs: Option<u64>,
}

impl State {
    /// The kernel reports it only while there is no link.
    fn reason(&self) -> Option<DownReason> {
        let state = self.reason?;
        let substate = self.detail.unwrap_or_default();
        let known = usize::try_from(state).ok().and_then(|state| REASONS.get(state));
        let Some((reason, details)) = known else {
            return Some(DownReason {
                reason: format!("reason {state} of a later kernel"),
                detail: None,
            });
        };
        // The numbers begin with 1.
        let detail = usize::try_from(substate)
            .ok()
            .and_then(|number| details.get(number.checked_sub(1)?));
        Some(DownReason {
            reason: (*reason).to_owned(),
            detail: detail.map(|detail| (*detail).to_owned()),
        })
    }
}

/// Why a link is down, and details of each reason (`include/uapi/linux/ethtool.h`), in the words of the program ethtool.
const REASONS: [(&str, &[&str]); 11] = [
    (
        "Autoneg",
        &[
            "No partner detected",
            "Ack not received",
            "Next page exchange failed",
            "No partner detected during force mode",
            "FEC mismatch during override",
            "No HCD",
        ],
    ),
    (
        "Link training failure",
        &[
            "KR frame lock not acquired",
            "KR link inhibit timeout",
            "KR Link partner did not set receiver ready",
            "Remote side is not ready yet",
        ],
    ),
    (
        "Logical mismatch",
        &[
            "PCS did not acquire block lock",
            "PCS did not acquire AM lock",
            "PCS did not get align_status",
            "FC FEC is not locked",
            "RS FEC is not locked",
        ],
    ),
    (
        "Bad signal integrity",
        &[
            "Large number of physical errors",
            "Unsupported rate",
            "Serdes reference clock lost",
            "Serdes ALOS",
        ],
    ),
    ("No cable", &[]),
    ("Cable issue", &["Unsupported cable", "Cable test failure"]),
    ("EEPROM issue", &[]),
    ("Calibration failure", &[]),
    ("Power budget exceeded", &[]),
    ("Overheat", &[]),
    ("Module", &["CMIS module is not in ModuleReady state"]),
];

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
        Self {
            mode: message.active.map(mode),
            corrected: stats.corrected.first().copied(),
            uncorrectable: stats.uncorr.first().copied(),
            corrected_bits: stats.corr_bits.first().copied(),
        }
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
            rx_frames: message.stats.rx_frames,
            tx_frames: message.stats.tx_frames,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(message: serde_json::Value) -> Option<String> {
        let state: State = serde_json::from_value(message).unwrap();
        state.reason().map(|reason| reason.to_string())
    }

    #[test]
    fn reasons_have_the_words_of_ethtool() {
        assert_eq!(reason(json!({"link": 1})), None);
        assert_eq!(
            reason(json!({"link": 0, "ext-state": 4})).as_deref(),
            Some("No cable")
        );
        let training = json!({"link": 0, "ext-state": 1, "ext-substate": 4});
        assert_eq!(
            reason(training).as_deref(),
            Some("Link training failure, Remote side is not ready yet")
        );
        for (state, substate) in [(0, 0), (0, 200), (4, 1)] {
            let found = reason(json!({"ext-state": state, "ext-substate": substate})).unwrap();
            assert!(["Autoneg", "No cable"].contains(&found.as_str()), "{found}");
        }
        assert_eq!(
            reason(json!({"ext-state": 77})).as_deref(),
            Some("reason 77 of a later kernel")
        );
    }

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
    }
}
