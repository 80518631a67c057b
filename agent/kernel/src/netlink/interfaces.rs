//! Network devices as only netlink shows them: the settings of virtual functions in their physical function, and bonds with LACP.
//!
//! Source: rtnetlink, `RTM_GETLINK` (`Documentation/netlink/specs/rt-link.yaml`, `include/uapi/linux/if_link.h`). Reading needs no
//! privilege, and every driver with virtual functions reports them here, while the files below `sriov/` are MLNX_OFED's.

mod bond;
mod virtual_function;

use std::collections::BTreeMap;

use netlink_packet_core::DefaultNla;
use serde::{Deserialize, Serialize};

use self::virtual_function::{VFS, VfList};
pub use self::{
    bond::{Bond, Member},
    virtual_function::{VfLink, VfSettings},
};
use super::{
    Asked, Call, Netlink, Question, Route, ask_each, only,
    wire::{Field, Kind, Schema, number, text},
};
use crate::{
    fact::{Fact, Unread, UnreadKind},
    root::Scope,
    source::{After, Known, Source},
};

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

impl Source for Interfaces {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        Self {
            netdevs: ask_each(scope, known, FAMILY, Asked::Ports, |netlink, netdev| {
                let link = link(netlink, netdev);
                link.map(|link| Interface::read(scope, netlink, netdev, link))
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
    fn read(scope: &Scope<'_>, netlink: &Netlink<'_, '_>, netdev: &str, link: LinkMessage) -> Self {
        let (vfs, defect) = link.vfs.settings(link.number_of_vfs);
        if let Some(detail) = defect {
            let _: Fact<()> = scope.fail(Unread {
                source: format!("netlink {FAMILY} getlink {netdev}"),
                kind: UnreadKind::Malformed,
                detail,
            });
        }
        Self {
            vfs,
            bond: match link.info.kind.as_deref() {
                Some("bond") => {
                    let bond = Bond::read(netlink, netdev, link.index);
                    if let Some(bond) = bond.known() {
                        bond.report_missing(scope, netdev);
                    }
                    bond
                }
                _ => Fact::Absent,
            },
        }
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

const LINK: Schema = &[
    (18, "linkinfo", Kind::Nest(&[(1, "kind", Kind::Text)])),
    (21, "num-vf", Kind::Number),
    (22, "vfinfo-list", VFS),
];

#[derive(Debug, Deserialize)]
struct LinkMessage {
    #[serde(rename = "ifi-index")]
    index: u64,
    #[serde(default, rename = "linkinfo")]
    info: LinkInfo,
    /// How many virtual functions there are; `None` for a device that is not that of a function.
    #[serde(rename = "num-vf")]
    number_of_vfs: Option<u64>,
    /// Empty also for a driver that does not show their settings.
    #[serde(default, rename = "vfinfo-list")]
    vfs: VfList,
}

#[derive(Debug, Default, Deserialize)]
struct LinkInfo {
    kind: Option<String>,
}
