//! Bonds and their members, with LACP (`Documentation/networking/bonding.rst`).

use serde::{Deserialize, Serialize};

use super::{
    super::{
        Netlink, only,
        wire::{Kind, Schema, number, text},
    },
    IFLA_IFNAME, IFLA_MASTER, question,
};
use crate::{
    fact::{Fact, Unread, UnreadKind},
    lacp::{self, Lacp},
    root::Scope,
};

/// Maximum number of members of a bond.
const MAX_MEMBERS: usize = 32;

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
    /// Whether it carries traffic of the bond (the state `active`, and not `backup`); `None` before Linux 3.14.
    #[serde(default)]
    pub is_active: Option<bool>,
    /// The state of its LACP, and of that of its switch port; `None` in other modes.
    #[serde(default)]
    pub actor_state: Option<u8>,
    /// Likewise.
    #[serde(default)]
    pub partner_state: Option<u8>,
}

impl Member {
    /// What LACP says of it.
    pub fn lacp(&self) -> Lacp {
        Lacp {
            link_up: Some(self.link_up),
            aggregator: self.aggregator,
            is_active: self.is_active,
            actor: self.actor_state,
            partner: self.partner_state,
        }
    }
}

impl Bond {
    /// Reports the members that sysfs lists and netlink does not have.
    pub(super) fn report_missing(&self, scope: &Scope<'_>, netdev: &str) {
        let file = format!("/sys/class/net/{netdev}/bonding/slaves");
        let listed = Scope::new(scope.root()).collected(&file);
        let names = listed.known().map_or("", String::as_str).split_whitespace();
        let is_missing = |name: &&str| !self.members.iter().any(|member| member.name == **name);
        // Beyond the maximum, none is read.
        let missing: Vec<_> = names.take(MAX_MEMBERS).filter(is_missing).collect();
        if !missing.is_empty() {
            let _: Fact<()> = scope.fail(Unread {
                source: format!("netlink rt-link getlink-members {netdev}"),
                kind: UnreadKind::Malformed,
                detail: format!("no answer about {}, which {file} lists", missing.join(", ")),
            });
        }
    }

    /// Members with a link that carry no traffic in mode 802.3ad.
    pub fn outside(&self) -> impl Iterator<Item = &Member> {
        let all: Vec<_> = self.members.iter().map(Member::lacp).collect();
        let left_out = lacp::left_out(self.aggregator, &all);
        left_out.into_iter().map(|at| &self.members[at])
    }
}

impl Bond {
    pub(super) fn read(netlink: &Netlink<'_, '_>, netdev: &str, index: u64) -> Fact<Self> {
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
        /// `BOND_MODE_8023AD`; in other modes an aggregator decides nothing.
        const LACP: u64 = 4;
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
            aggregator: self
                .ad_info
                .filter(|_| self.mode == LACP)
                .and_then(|info| info.aggregator),
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
                (1, "state", Kind::Number),
                (2, "mii-status", Kind::Number),
                (3, "link-failure-count", Kind::Number),
                (6, "ad-aggregator-id", Kind::Number),
                (7, "ad-actor-oper-port-state", Kind::Number),
                (8, "ad-partner-oper-port-state", Kind::Number),
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
    state: Option<u64>,
    ad_actor_oper_port_state: Option<u64>,
    ad_partner_oper_port_state: Option<u64>,
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
            // `BOND_STATE_ACTIVE`
            is_active: data.state.map(|state| state == 0),
            actor_state: data
                .ad_actor_oper_port_state
                .and_then(|state| u8::try_from(state).ok()),
            partner_state: data
                .ad_partner_oper_port_state
                .and_then(|state| u8::try_from(state).ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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

    #[test]
    fn only_lacp_has_an_aggregator_that_decides() {
        let data = json!({"mode": 1, "ad-info": {"aggregator": 1}});
        let data: BondData = serde_json::from_value(data).unwrap();
        assert_eq!(data.with(std::iter::empty()).aggregator, None);
    }

    #[test]
    fn a_member_keeps_the_states_that_the_kernel_reports() {
        let message = json!({"ifname": "eth1", "master": 9, "linkinfo": {"slave-data": {"state": 1, "mii-status": 0,
            "ad-aggregator-id": 1, "ad-actor-oper-port-state": 13, "ad-partner-oper-port-state": 61}}});
        let member = serde_json::from_value::<MemberMessage>(message)
            .unwrap()
            .member()
            .unwrap();
        let states = (member.is_active, member.actor_state, member.partner_state);
        assert_eq!(states, (Some(false), Some(13), Some(61)));
    }
}
