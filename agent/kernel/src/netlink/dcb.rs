//! Data center bridging: priority flow control, bandwidth of traffic classes, and the priorities of applications and DSCP values.
//!
//! Source: rtnetlink, `RTM_GETDCB` with `DCB_CMD_IEEE_GET` (`include/uapi/linux/dcbnl.h`, IEEE 802.1Qaz and 802.1Qbb). Reading needs no
//! privilege. The files below `/sys/class/net/NETDEV/qos` are MLNX_OFED's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Asked, Call, Netlink, Question, Route, ask_each, only,
    wire::{Field, Kind, Layout, Schema, text},
};
use crate::{
    fact::{Errno, Fact, Unread},
    root::Scope,
    source::{After, Known, Source},
};

const FAMILY: &str = "dcb";
const RTM_GETDCB: u16 = 78;
const IEEE_GET: u8 = 21;
/// The selector of an entry that is about a DSCP value (`IEEE_8021QAZ_APP_SEL_DSCP`).
const DSCP: u64 = 5;
/// A kernel without `CONFIG_DCB` answers the same as a driver that does not support it.
const NOT_SUPPORTED: [Errno; 1] = [Errno::OPNOTSUPP];

/// What data center bridging shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dcb {
    /// The network devices of RDMA ports, and the members of bonds among them, whose driver supports it; absent in a tree of files.
    pub netdevs: Fact<BTreeMap<String, Bridging>>,
}

/// The settings of one network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bridging {
    /// Priority flow control; `None` if the driver does not report it.
    pub pfc: Option<Pfc>,
    /// Traffic classes; `None` likewise.
    pub ets: Option<Ets>,
    /// The priority of each DSCP value that has one. If there is any, the adapter sorts what it receives by DSCP (trust dscp), and
    /// otherwise by the priority in the VLAN tag (trust pcp).
    pub dscp: BTreeMap<u8, u8>,
    /// Priorities of protocols and ports.
    pub applications: Vec<Application>,
    /// What the adapter uses to give a packet its priority, the first that applies first (`dcb apptrust`): `dscp`, `pcp`. Empty if
    /// the driver does not report it, and before Linux 6.3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trust: Vec<String>,
    /// Buffers for what is received; `None` if the driver does not report them.
    pub buffers: Option<Buffers>,
}

/// Priority flow control.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pfc {
    /// The priorities for which it is on.
    pub on: Vec<u8>,
    /// Number of pause frames that were sent, by priority. A driver that does not count reports zeros.
    pub sent: Vec<u64>,
    /// Number of pause frames that were received, by priority.
    pub received: Vec<u64>,
}

/// Enhanced transmission selection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ets {
    /// The traffic class of each priority.
    pub classes: Vec<u8>,
    /// The share of each traffic class in percent; of those with `ets` as algorithm.
    pub percent: Vec<u8>,
    /// How each traffic class is served: `strict`, `cbs`, `ets`, `vendor`.
    pub algorithms: Vec<String>,
}

/// The priority of a protocol or port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// What `protocol` is: `ethertype`, `stream-port`, `dgram-port`, `port`.
    pub selector: String,
    /// The protocol or port; an Ethernet type of 0 stands for everything else.
    pub protocol: u16,
    /// The priority.
    pub priority: u8,
}

/// Buffers for what is received.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffers {
    /// The buffer of each priority.
    pub of_priority: Vec<u8>,
    /// The size of each buffer in bytes.
    pub bytes: Vec<u64>,
}

impl Source for Dcb {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        Self {
            netdevs: ask_each(scope, known, FAMILY, Asked::Cables, |netlink, netdev| {
                ask(netlink, netdev).map(Bridging::from)
            }),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            netdevs: why.clone().into(),
        }
    }
}

fn ask(netlink: &Netlink<'_, '_>, netdev: &str) -> Fact<Message> {
    const IFNAME: u16 = 1;
    let found: Fact<Vec<Message>> = netlink.ask("ieee-get", netdev, &NOT_SUPPORTED, || Question {
        family: FAMILY,
        call: Call::Route(Route {
            kinds: (RTM_GETDCB, RTM_GETDCB),
            // `struct dcbmsg`: family, command, padding
            header: vec![0, IEEE_GET, 0, 0],
            command: Some((1, IEEE_GET)),
            layout: &[],
            only_with: None,
        }),
        dump: false,
        attributes: vec![text(IFNAME, netdev)],
        schema: IEEE,
    });
    found.and_then(only)
}

const EIGHT: Field = Field::Numbers(8, 1);
const APPLICATION: Layout = &[
    ("selector", 0, Field::Number(1)),
    ("priority", 1, Field::Number(1)),
    ("protocol", 2, Field::Number(2)),
];
const IEEE: Schema = &[(
    13,
    "ieee",
    Kind::Nest(&[
        (
            1,
            "ets",
            Kind::Struct(&[
                ("tc-tx-bw", 3, EIGHT),
                ("tc-tsa", 19, EIGHT),
                ("prio-tc", 27, EIGHT),
            ]),
        ),
        (
            2,
            "pfc",
            Kind::Struct(&[
                ("pfc-en", 1, Field::Number(1)),
                ("requests", 8, Field::Numbers(8, 8)),
                ("indications", 72, Field::Numbers(8, 8)),
            ]),
        ),
        (
            3,
            "app-table",
            Kind::Nest(&[(1, "app", Kind::Structs(APPLICATION))]),
        ),
        (
            10,
            "buffer",
            Kind::Struct(&[
                ("prio2buffer", 0, EIGHT),
                ("buffer-size", 8, Field::Numbers(8, 4)),
            ]),
        ),
        (
            11,
            "trust-table",
            // `DCB_ATTR_IEEE_APP` and `DCB_ATTR_DCB_APP`: the order of both together counts.
            Kind::Nest(&[(1, "selector", Kind::Each), (2, "selector", Kind::Each)]),
        ),
    ]),
)];

#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    ieee: Ieee,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Ieee {
    ets: Option<EtsMessage>,
    pfc: Option<PfcMessage>,
    app_table: AppTable,
    buffer: Option<BufferMessage>,
    trust_table: TrustTable,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct EtsMessage {
    tc_tx_bw: Vec<u8>,
    tc_tsa: Vec<u8>,
    prio_tc: Vec<u8>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PfcMessage {
    pfc_en: u8,
    #[serde(default)]
    requests: Vec<u64>,
    #[serde(default)]
    indications: Vec<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AppTable {
    app: Vec<AppMessage>,
}

#[derive(Debug, Deserialize)]
struct AppMessage {
    selector: u64,
    priority: u8,
    protocol: u16,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TrustTable {
    selector: Vec<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct BufferMessage {
    prio2buffer: Vec<u8>,
    buffer_size: Vec<u64>,
}

impl From<Message> for Bridging {
    fn from(Message { ieee }: Message) -> Self {
        /// More entries than DSCP values and the ports of a usual application table.
        const MAX_APPLICATIONS: usize = 64;
        /// More than there are selectors.
        const MAX_SELECTORS: usize = 8;
        let table = ieee.app_table.app;
        let dscp = table.iter().filter(|entry| entry.selector == DSCP);
        let applications = table.iter().filter_map(AppMessage::application);
        Self {
            pfc: ieee.pfc.map(|pfc| Pfc {
                on: (0..8)
                    .filter(|priority| pfc.pfc_en >> priority & 1 == 1)
                    .collect(),
                sent: pfc.requests,
                received: pfc.indications,
            }),
            ets: ieee.ets.map(|ets| Ets {
                classes: ets.prio_tc,
                percent: ets.tc_tx_bw,
                algorithms: ets.tc_tsa.into_iter().map(algorithm).collect(),
            }),
            dscp: dscp
                .filter_map(|entry| {
                    let value = u8::try_from(entry.protocol).ok().filter(|value| *value < 64)?;
                    Some((value, entry.priority))
                })
                .collect(),
            applications: applications.take(MAX_APPLICATIONS).collect(),
            trust: ieee
                .trust_table
                .selector
                .into_iter()
                .take(MAX_SELECTORS)
                .map(trusted)
                .collect(),
            buffers: ieee.buffer.map(|buffer| Buffers {
                of_priority: buffer.prio2buffer,
                bytes: buffer.buffer_size,
            }),
        }
    }
}

/// The words of the program `dcb` (`IEEE_8021QAZ_TSA_*`).
fn algorithm(number: u8) -> String {
    match number {
        0 => "strict".into(),
        1 => "cbs".into(),
        2 => "ets".into(),
        255 => "vendor".into(),
        other => format!("algorithm {other}"),
    }
}

/// The name of a selector (`IEEE_8021QAZ_APP_SEL_*`, `DCB_APP_SEL_PCP`).
fn selector(number: u64) -> Option<&'static str> {
    Some(match number {
        1 => "ethertype",
        2 => "stream-port",
        3 => "dgram-port",
        4 => "port",
        DSCP => "dscp",
        255 => "pcp",
        _ => return None,
    })
}

fn trusted(number: u64) -> String {
    selector(number).map_or_else(|| format!("selector {number}"), str::to_owned)
}

impl AppMessage {
    fn application(&self) -> Option<Application> {
        Some(Application {
            selector: selector(self.selector)
                .filter(|_| (1..=4).contains(&self.selector))?
                .to_owned(),
            protocol: self.protocol,
            priority: self.priority,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bits_and_tables_of_a_reply_are_priorities() {
        let message = json!({"ieee": {
            "pfc": {"pfc-en": 0b1000, "requests": [0, 0, 0, 7, 0, 0, 0, 0], "indications": [0, 0, 0, 9, 0, 0, 0, 0]},
            "ets": {"tc-tx-bw": [0, 0, 0, 100, 0, 0, 0, 0], "tc-tsa": [0, 0, 0, 2, 0, 0, 255, 9], "prio-tc": [0, 1, 2, 3, 4, 5, 6, 7]},
            "app-table": {"app": [
                {"selector": 5, "priority": 3, "protocol": 26},
                {"selector": 5, "priority": 3, "protocol": 64},
                {"selector": 3, "priority": 3, "protocol": 4791},
            ]},
            "trust-table": {"selector": [5, 255, 77]},
        }});
        let found = Bridging::from(serde_json::from_value::<Message>(message).unwrap());
        assert_eq!(found.pfc.as_ref().unwrap().on, [3]);
        assert_eq!(found.dscp, BTreeMap::from([(26, 3)]), "a DSCP value has six bits");
        assert_eq!(found.applications[0].selector, "dgram-port");
        assert_eq!(found.applications.len(), 1);
        assert_eq!(found.trust, ["dscp", "pcp", "selector 77"]);
        assert_eq!(
            found.ets.unwrap().algorithms[3..],
            ["ets", "strict", "strict", "vendor", "algorithm 9"]
        );
        assert_eq!(
            Bridging::from(serde_json::from_value::<Message>(json!({})).unwrap()),
            Bridging::default()
        );
    }
}
