//! Network devices as only netlink shows them: the settings of virtual functions in their physical function, and bonds with LACP.
//!
//! Source: rtnetlink, `RTM_GETLINK` (`Documentation/netlink/specs/rt-link.yaml`, `include/uapi/linux/if_link.h`). Reading needs no
//! privilege, and every driver with virtual functions reports them here, while the files below `sriov/` are MLNX_OFED's.

use std::collections::BTreeMap;

use netlink_packet_core::DefaultNla;
use serde::{Deserialize, Serialize};

use super::{
    Call, Netlink, Question, Route, ask_each, only,
    wire::{Field, Kind, Layout, Schema, number, text},
};
use crate::{
    fact::{Fact, Unread},
    root::Scope,
    source::{After, Known, Source},
};

/// Maximum number of virtual functions of a network device, and of members of a bond.
const MAX_FUNCTIONS: usize = 1024;
const MAX_MEMBERS: usize = 32;

const FAMILY: &str = "rt-link";
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_EXT_MASK: u16 = 29;
/// `RTEXT_FILTER_VF` and `RTEXT_FILTER_SKIP_STATS`: virtual functions, and no statistics.
const FILTER: u32 = 1 | 1 << 3;

/// What rtnetlink shows of network devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interfaces {
    /// The network devices of RDMA ports; absent in a tree of files.
    pub netdevs: Fact<BTreeMap<String, Interface>>,
}

/// One network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its virtual functions, in order of number; empty if it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vfs: Vec<VfSettings>,
    /// The bond that it is, if it is one.
    #[serde(default)]
    pub bond: Fact<Bond>,
}

/// What a physical function has set for one of its virtual functions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VfSettings {
    /// Its number, from 0.
    pub number: u64,
    /// The MAC address that it was given; zeros if it was given none.
    pub mac: String,
    /// The state of its link.
    pub link_state: VfLink,
    /// Whether it may change its address and receive the traffic of others; `None` if the driver has no such setting.
    pub trust: Option<bool>,
    /// Whether frames with another source address are dropped; `None` likewise.
    pub spoof_check: Option<bool>,
    /// The GUID of its node; `None` if the driver has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_guid: Option<String>,
    /// The GUID of its port; `None` likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_guid: Option<String>,
}

/// The state of a virtual function's link (`IFLA_VF_LINK_STATE_*`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VfLink {
    /// It follows the physical function.
    #[default]
    Auto,
    /// It is up, so that virtual functions reach each other without a cable.
    Enable,
    /// It is held down.
    Disable,
}

/// A bond (`Documentation/networking/bonding.rst`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bond {
    /// Its mode: `802.3ad`, `active-backup`.
    pub mode: String,
    /// The LACP aggregator that carries its traffic; `None` in other modes.
    pub aggregator: Option<u64>,
    /// Its members, in order of name.
    pub members: Vec<Member>,
}

/// A network device in a bond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Whether the bond considers its link up.
    pub link_up: bool,
    /// Number of times its link failed while it was in the bond.
    pub link_failures: u64,
    /// Its LACP aggregator; `None` in other modes.
    pub aggregator: Option<u64>,
}

impl Bond {
    /// Members with a link that carry no traffic, because LACP put them into another aggregator: the switch port is not in the same port
    /// channel.
    pub fn outside(&self) -> impl Iterator<Item = &Member> {
        let members = self.members.iter();
        members.filter(|member| {
            let other = member.aggregator.zip(self.aggregator);
            member.link_up && other.is_some_and(|(its, active)| its != active)
        })
    }
}

impl Source for Interfaces {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        Self {
            netdevs: ask_each(scope, known, FAMILY, |netlink, netdev| {
                let link = link(netlink, netdev);
                link.map(|link| Interface::read(netlink, netdev, link))
            }),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            netdevs: why.clone().into(),
        }
    }
}

impl Interface {
    fn read(netlink: &Netlink<'_, '_>, netdev: &str, link: LinkMessage) -> Self {
        let mut vfs: Vec<_> = link.vfs.list.into_iter().map(VfMessage::settings).collect();
        vfs.sort_by_key(|vf| vf.number);
        vfs.truncate(MAX_FUNCTIONS);
        Self {
            vfs,
            bond: match link.info.kind.as_deref() {
                Some("bond") => Bond::read(netlink, netdev, link.index),
                _ => Fact::Absent,
            },
        }
    }
}

impl Bond {
    fn read(netlink: &Netlink<'_, '_>, netdev: &str, index: u64) -> Fact<Self> {
        // The kernel's numbers have 31 bits.
        let master = u32::try_from(index).unwrap_or_default();
        let bond: Fact<Vec<BondMessage>> = netlink.ask("getlink-bond", netdev, &[], || {
            question(vec![text(IFLA_IFNAME, netdev)], false, BOND)
        });
        let members: Fact<Vec<MemberMessage>> = netlink.ask("getlink-members", netdev, &[], || {
            question(vec![number(IFLA_MASTER, master)], true, MEMBERS)
        });
        bond.and_then(only).and_then(|bond| {
            members.map(|members| {
                // An old kernel lists all devices.
                let members = members.into_iter().filter(|member| member.master == Some(index));
                bond.info.data.with(members.take(MAX_MEMBERS))
            })
        })
    }
}

fn link(netlink: &Netlink<'_, '_>, netdev: &str) -> Fact<LinkMessage> {
    let found: Fact<Vec<LinkMessage>> = netlink.ask("getlink", netdev, &[], || {
        question(
            vec![text(IFLA_IFNAME, netdev), number(IFLA_EXT_MASK, FILTER)],
            false,
            LINK,
        )
    });
    found.and_then(only)
}

fn question(attributes: Vec<DefaultNla>, dump: bool, schema: Schema) -> Question {
    Question {
        family: FAMILY,
        call: Call::Route(Route {
            kinds: (RTM_GETLINK, RTM_NEWLINK),
            // `struct ifinfomsg`
            header: vec![0; 16],
            command: None,
            layout: &[("ifi-index", 4, Field::Number(4))],
            only_with: None,
        }),
        dump,
        attributes,
        schema,
    }
}

const NUMBER: (&str, usize, Field) = ("vf", 0, Field::Number(4));
const SETTING: Layout = &[NUMBER, ("setting", 4, Field::Number(4))];
/// The number has 8 bytes, and begins at the next multiple of 8.
const GUID: Layout = &[("guid", 8, Field::Guid)];
const LINK: Schema = &[
    (18, "linkinfo", Kind::Nest(&[(1, "kind", Kind::Text)])),
    (
        22,
        "vfinfo-list",
        Kind::Nest(&[(
            1,
            "info",
            Kind::List(&[
                (1, "mac", Kind::Struct(&[NUMBER, ("mac", 4, Field::Mac)])),
                (4, "spoofchk", Kind::Struct(SETTING)),
                (
                    5,
                    "link-state",
                    Kind::Struct(&[NUMBER, ("link-state", 4, Field::Number(4))]),
                ),
                (9, "trust", Kind::Struct(SETTING)),
                (10, "ib-node-guid", Kind::Struct(GUID)),
                (11, "ib-port-guid", Kind::Struct(GUID)),
            ]),
        )]),
    ),
];

#[derive(Debug, Deserialize)]
struct LinkMessage {
    #[serde(rename = "ifi-index")]
    index: u64,
    #[serde(default, rename = "linkinfo")]
    info: LinkInfo,
    #[serde(default, rename = "vfinfo-list")]
    vfs: VfList,
}

#[derive(Debug, Default, Deserialize)]
struct LinkInfo {
    kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct VfList {
    #[serde(default, rename = "info")]
    list: Vec<VfMessage>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct VfMessage {
    mac: MacMessage,
    spoofchk: Option<Setting>,
    link_state: Option<LinkState>,
    trust: Option<Setting>,
    ib_node_guid: Option<Guid>,
    ib_port_guid: Option<Guid>,
}

#[derive(Debug, Deserialize)]
struct MacMessage {
    vf: u64,
    mac: String,
}

#[derive(Debug, Deserialize)]
struct Setting {
    setting: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LinkState {
    link_state: u64,
}

#[derive(Debug, Deserialize)]
struct Guid {
    guid: String,
}

impl VfMessage {
    fn settings(self) -> VfSettings {
        // -1 if the driver has no such setting.
        let setting = |setting: Option<Setting>| match setting?.setting {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        };
        let guid = |guid: Option<Guid>| guid.map(|guid| guid.guid);
        VfSettings {
            number: self.mac.vf,
            mac: self.mac.mac,
            link_state: match self.link_state.map(|state| state.link_state) {
                Some(1) => VfLink::Enable,
                Some(2) => VfLink::Disable,
                _ => VfLink::Auto,
            },
            trust: setting(self.trust),
            spoof_check: setting(self.spoofchk),
            node_guid: guid(self.ib_node_guid),
            port_guid: guid(self.ib_port_guid),
        }
    }
}

const BOND: Schema = &[(
    18,
    "linkinfo",
    Kind::Nest(&[(
        2,
        "data",
        Kind::Nest(&[
            (1, "mode", Kind::Number),
            (23, "ad-info", Kind::Nest(&[(1, "aggregator", Kind::Number)])),
        ]),
    )]),
)];

#[derive(Debug, Deserialize)]
struct BondMessage {
    #[serde(rename = "linkinfo")]
    info: BondInfo,
}

#[derive(Debug, Deserialize)]
struct BondInfo {
    data: BondData,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct BondData {
    mode: u64,
    ad_info: Option<AdInfo>,
}

#[derive(Debug, Deserialize)]
struct AdInfo {
    aggregator: Option<u64>,
}

impl BondData {
    fn with(self, members: impl Iterator<Item = MemberMessage>) -> Bond {
        const MODES: [&str; 7] = [
            "balance-rr",
            "active-backup",
            "balance-xor",
            "broadcast",
            "802.3ad",
            "balance-tlb",
            "balance-alb",
        ];
        let mode = usize::try_from(self.mode).ok().and_then(|mode| MODES.get(mode));
        let mut members: Vec<_> = members.filter_map(MemberMessage::member).collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        Bond {
            mode: mode.map_or_else(|| format!("mode {}", self.mode), |mode| (*mode).to_owned()),
            aggregator: self.ad_info.and_then(|info| info.aggregator),
            members,
        }
    }
}

const MEMBERS: Schema = &[
    (IFLA_IFNAME, "ifname", Kind::Text),
    (IFLA_MASTER, "master", Kind::Number),
    (
        18,
        "linkinfo",
        Kind::Nest(&[(
            5,
            "slave-data",
            Kind::Nest(&[
                (2, "mii-status", Kind::Number),
                (3, "link-failure-count", Kind::Number),
                (6, "ad-aggregator-id", Kind::Number),
            ]),
        )]),
    ),
];

#[derive(Debug, Deserialize)]
struct MemberMessage {
    ifname: String,
    master: Option<u64>,
    #[serde(default, rename = "linkinfo")]
    info: MemberInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct MemberInfo {
    slave_data: Option<SlaveData>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SlaveData {
    mii_status: u64,
    #[serde(default)]
    link_failure_count: u64,
    ad_aggregator_id: Option<u64>,
}

impl MemberMessage {
    fn member(self) -> Option<Member> {
        let data = self.info.slave_data?;
        Some(Member {
            name: self.ifname,
            // `BOND_LINK_UP`
            link_up: data.mii_status == 0,
            link_failures: data.link_failure_count,
            aggregator: data.ad_aggregator_id,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As `mlx5_core` reports them; the second function has a driver without trust.
    #[test]
    fn settings_of_virtual_functions_are_those_that_ip_link_shows() {
        let message = json!({"ifi-index": 4, "vfinfo-list": {"info": [
            {"mac": {"vf": 0, "mac": "02:00:00:00:00:01"}, "spoofchk": {"vf": 0, "setting": 1},
             "link-state": {"vf": 0, "link-state": 2}, "trust": {"vf": 0, "setting": 0},
             "ib-node-guid": {"guid": "0011:2233:4455:6677"}},
            {"mac": {"vf": 1, "mac": "00:00:00:00:00:00"}, "trust": {"vf": 1, "setting": 4_294_967_295_u32}},
        ]}});
        let message: LinkMessage = serde_json::from_value(message).unwrap();
        let found: Vec<_> = message.vfs.list.into_iter().map(VfMessage::settings).collect();
        let first = VfSettings {
            number: 0,
            mac: "02:00:00:00:00:01".into(),
            link_state: VfLink::Disable,
            trust: Some(false),
            spoof_check: Some(true),
            node_guid: Some("0011:2233:4455:6677".into()),
            port_guid: None,
        };
        let second = VfSettings {
            number: 1,
            mac: "00:00:00:00:00:00".into(),
            ..VfSettings::default()
        };
        assert_eq!(found, [first, second]);
    }

    #[test]
    fn a_member_in_another_aggregator_carries_nothing() {
        let member = |name: &str, mii: u64, aggregator: u64| {
            let message = json!({"ifname": name, "master": 9, "linkinfo": {"slave-data":
                {"mii-status": mii, "link-failure-count": 2, "ad-aggregator-id": aggregator}}});
            serde_json::from_value::<MemberMessage>(message).unwrap()
        };
        let data = json!({"mode": 4, "ad-info": {"aggregator": 1}});
        let data: BondData = serde_json::from_value(data).unwrap();
        let members = [member("eth2", 2, 3), member("eth1", 0, 2), member("eth0", 0, 1)];
        let bond = data.with(members.into_iter());
        let outside: Vec<_> = bond.outside().map(|member| member.name.as_str()).collect();
        assert_eq!((bond.mode.as_str(), outside), ("802.3ad", vec!["eth1"]));
    }
}
