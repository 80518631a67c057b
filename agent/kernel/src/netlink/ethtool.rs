//! The links of network devices: why one is down, forward error correction, pause frames.
//!
//! Source: the generic netlink family `ethtool` (`Documentation/networking/ethtool-netlink.rst`,
//! `Documentation/netlink/specs/ethtool.yaml`), Linux 5.6 and later. Reading needs no privilege.

use std::{collections::BTreeMap, fmt};

use netlink_packet_core::DefaultNla;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Call, Netlink, Question, ask_each, is_for_all, only,
    wire::{Kind, Schema, flag, nest, number, text},
};
use crate::{
    fact::{Errno, Fact, Unread},
    root::Scope,
    source::{After, Known, Source},
};

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
    /// Number of received frames and symbols with an error, by the names in [`ERRORS`]; absent before Linux 5.13, and if the driver
    /// counts none.
    #[serde(default)]
    pub errors: Fact<BTreeMap<String, u64>>,
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
        Self {
            netdevs: ask_each(scope, known, FAMILY, |netlink, netdev| {
                let state = state(netlink, netdev);
                match state.unread().filter(|unread| is_for_all(unread)) {
                    Some(unread) => unread.clone().into(),
                    None => Fact::Known(Link::read(netlink, netdev, state)),
                }
            }),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            netdevs: why.clone().into(),
        }
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
            errors: errors(netlink, netdev),
        }
    }
}

/// The state of a link.
pub(super) fn state<T: DeserializeOwned>(netlink: &Netlink<'_, '_>, netdev: &str) -> Fact<Vec<T>> {
    netlink.ask("linkstate-get", netdev, &NOT_SUPPORTED, || {
        question(netdev, &LINKSTATE, 0)
    })
}

/// A command: the numbers of the request and of its reply, and what is used of it.
struct Command {
    commands: (u8, u8),
    schema: Schema,
}

/// The attribute with the header in most requests.
const HEADER: u16 = 1;

/// The header of a request: the network device, and what is wanted.
fn header(number_of_header: u16, netdev: &str, flags: u32) -> DefaultNla {
    const DEV_NAME: u16 = 2;
    const FLAGS: u16 = 3;
    nest(number_of_header, &[text(DEV_NAME, netdev), number(FLAGS, flags)])
}

fn question(netdev: &str, command: &Command, flags: u32) -> Question {
    Question {
        family: FAMILY,
        call: Call::Generic(command.commands.0, command.commands.1),
        dump: false,
        attributes: vec![header(HEADER, netdev, flags)],
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

/// Errors that IEEE 802.3 (clause 30) and RMON (RFC 2819) define: group, number in the group, name.
pub const ERRORS: [(u64, u64, &str); 10] = [
    (0, 0, "symbol"),
    (1, 4, "fcs"),
    (1, 5, "alignment"),
    (1, 19, "in_range_length"),
    (1, 20, "out_of_range_length"),
    (1, 21, "too_long"),
    (3, 0, "undersize"),
    (3, 1, "oversize"),
    (3, 2, "fragment"),
    (3, 3, "jabber"),
];

fn errors(netlink: &Netlink<'_, '_>, netdev: &str) -> Fact<BTreeMap<String, u64>> {
    const STATS_HEADER: u16 = 2;
    const GROUPS: u16 = 3;
    // A bit set without a mask (`ETHTOOL_A_BITSET_*`): size, and the groups phy, mac and rmon.
    let groups = || nest(GROUPS, &[flag(1), number(2, 4), number(4, 0b1011)]);
    let found: Fact<Vec<Statistics>> = netlink.ask("stats-get", netdev, &NOT_SUPPORTED, || Question {
        family: FAMILY,
        call: Call::Generic(32, 33),
        dump: false,
        attributes: vec![header(STATS_HEADER, netdev, 0), groups()],
        schema: STATISTICS,
    });
    found.and_then(only).and_then(|statistics| {
        let counted = statistics.counted();
        (!counted.is_empty()).then_some(counted).into()
    })
}

const STATISTICS: Schema = &[(
    4,
    "grp",
    Kind::List(&[(2, "id", Kind::Number), (4, "stat", Kind::Counts)]),
)];

#[derive(Debug, Deserialize)]
struct Statistics {
    #[serde(default)]
    grp: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    id: u64,
    /// By number in the group.
    #[serde(default)]
    stat: BTreeMap<u64, u64>,
}

impl Statistics {
    fn counted(&self) -> BTreeMap<String, u64> {
        let errors = ERRORS.iter().filter_map(|(group, number, name)| {
            let group = self.grp.iter().find(|found| found.id == *group)?;
            Some(((*name).to_owned(), *group.stat.get(number)?))
        });
        errors.collect()
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

    /// As the documents of `mlx5_core` look: the physical layer, frames, and RMON.
    #[test]
    fn errors_have_the_names_of_the_standards() {
        let message =
            json!({"grp": [{"id": 0, "stat": {"0": 7}}, {"id": 1, "stat": {"0": 99, "4": 2}}, {"id": 3}]});
        let statistics: Statistics = serde_json::from_value(message).unwrap();
        let expected = [("fcs".to_owned(), 2), ("symbol".to_owned(), 7)];
        assert_eq!(statistics.counted(), BTreeMap::from(expected));
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
