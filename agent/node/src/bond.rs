//! Members of a bond that LACP leaves out, joined from sysfs and netlink.

use rdma_health_kernel::{
    infiniband::{self, Hca, LinkLayer},
    lacp::Lacp,
    netlink::interfaces::Bond,
    network::Settings,
    pci::Role,
};

use crate::{Function, Node, events::card};

/// A fact about a bond: the file or command that shows it, and its value.
pub type Shown = (String, String);

/// The members of one bond that have a link and carry no traffic.
#[derive(Debug, PartialEq, Eq)]
pub struct LeftOut<'a> {
    /// The network device of the bond.
    pub bond: &'a str,
    /// The aggregator that carries the traffic.
    pub aggregator: Option<Shown>,
    /// The members, at least one.
    pub members: Vec<Idle<'a>>,
}

/// A bond none of whose members carries traffic.
#[derive(Debug, PartialEq, Eq)]
pub struct Silent<'a> {
    /// The network device of the bond.
    pub bond: &'a str,
    /// All its members, at least one.
    pub members: Vec<SilentMember<'a>>,
}

/// A member of such a bond.
#[derive(Debug, PartialEq, Eq)]
pub struct SilentMember<'a> {
    /// Its name.
    pub name: &'a str,
    /// Why it carries no traffic.
    pub why: NoTraffic,
    /// What shows it.
    pub shown: Vec<Shown>,
}

/// Why a member of a bond carries no traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTraffic {
    /// It has no carrier, and the bond counts it as up.
    Unnoticed,
    /// It has no link.
    NoLink,
    /// LACP does not use it.
    Lacp,
    /// It is a backup.
    Backup,
}

impl NoTraffic {
    fn of(lacp: Lacp, aggregator: Option<u64>) -> Self {
        if lacp.link_up == Some(false) {
            Self::NoLink
        } else if aggregator.is_some() {
            Self::Lacp
        } else {
            Self::Backup
        }
    }
}

/// A member that LACP leaves out.
#[derive(Debug, PartialEq, Eq)]
pub struct Idle<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it is in another aggregator than the one that carries the traffic.
    pub is_elsewhere: bool,
    /// What shows it: its aggregator, its state, and the states of LACP at both ends.
    pub shown: Vec<Shown>,
}

impl<'a> Idle<'a> {
    /// A member of a bond whose traffic this aggregator carries; `source` names what shows a fact, by its file in sysfs.
    fn new(name: &'a str, lacp: Lacp, aggregator: Option<u64>, source: impl Fn(&str) -> String) -> Self {
        let state = lacp
            .is_active
            .map(|active| if active { "active" } else { "backup" });
        let facts = [
            ("ad_aggregator_id", lacp.aggregator.map(|id| id.to_string())),
            ("state", state.map(str::to_owned)),
            ("ad_actor_oper_port_state", lacp.actor.map(lacp_state)),
            ("ad_partner_oper_port_state", lacp.partner.map(lacp_state)),
        ];
        let facts = facts.into_iter();
        Self {
            name,
            is_elsewhere: lacp.is_elsewhere(aggregator),
            shown: facts
                .filter_map(|(name, value)| Some((source(name), value?)))
                .collect(),
        }
    }
}

/// The number, and which of the flags that a port in use has are missing (IEEE 802.1AX, 6.4.2.3).
fn lacp_state(state: u8) -> String {
    let flags = [(3, "synchronized"), (4, "collecting"), (5, "distributing")];
    let missing = flags.into_iter().filter(|(bit, _)| state >> bit & 1 == 0);
    let missing: Vec<_> = missing.map(|(_, name)| name).collect();
    if missing.is_empty() {
        state.to_string()
    } else {
        format!("{state} (not {})", missing.join(", "))
    }
}

impl Node {
    /// Whether a function without an RDMA device has a part in that of another function of its card: the driver makes one device for all ports of
    /// the card, or for all members of a RoCE bond. Without a bond, and on InfiniBand, each function has its own.
    pub fn shares_rdma_device(&self, address: &str) -> bool {
        let own = self.pci.functions.known().and_then(|all| all.get(address));
        let netdevs = own
            .and_then(|own| own.netdevs.known())
            .map_or(&[][..], Vec::as_slice);
        let masters = own.map_or(&[][..], |own| &own.masters);
        let is_bond_of = |port: &infiniband::Port| {
            // The network devices of both may be in a namespace that is not visible here.
            let Some(netdev) = port.netdev.known() else {
                return netdevs.is_empty();
            };
            let members = self.members(port);
            let both = netdev
                .master
                .as_ref()
                .is_some_and(|master| masters.contains(master));
            both || masters.contains(&netdev.name)
                || netdevs.iter().any(|own| members.contains(&own.as_str()))
                || (netdevs.is_empty() && (!members.is_empty() || netdev.mtu.known().is_none()))
        };
        let shares = |hca: &Hca| {
            let of_card = hca
                .pci_address
                .known()
                .is_some_and(|other| card(other) == card(address));
            let is_infiniband =
                |port: &infiniband::Port| port.link_layer.known() == Some(&LinkLayer::InfiniBand);
            of_card
                && !hca.ports.values().any(|port| is_infiniband(port))
                // The kernel names the device of a bond so: mlx5_bond_0.
                && (hca.ports.len() > 1 || hca.name.contains("bond") || hca.ports.values().any(|port| is_bond_of(port)))
        };
        self.hcas().any(|hca| !hca.is_software() && shares(hca))
    }

    /// Whether RDMA runs through a function: it has an RDMA device in hardware, or has a part in that of another function of its card.
    pub fn carries_rdma(&self, function: &Function<'_>) -> bool {
        match function.role {
            Role::Rdma => !function.is_software,
            Role::Capable => {
                let is_used =
                    function.driver.is_some() && function.lent_to.is_none() && !function.is_virtual();
                is_used && self.shares_rdma_device(function.address)
            }
            Role::Gpu | Role::Bridge => false,
        }
    }

    /// The bond below a port that is ACTIVE, if none of its members carries traffic, as sysfs or netlink shows it. The bond keeps its carrier if it does not
    /// monitor its links, or if LACP may use no member at all (`min_links` 0).
    pub fn silent_bond(&self, port: &infiniband::Port) -> Option<Silent<'_>> {
        let (name, settings) = self.network.netdevs.get_key_value(&port.netdev.known()?.name)?;
        let of_netlink = || silent_in_netlink(name, self.interface(port)?.bond.known()?);
        silent_in_sysfs(name, settings).or_else(of_netlink)
    }

    /// What LACP leaves out of the bond below a port: as sysfs shows it, which has the state of the switch port, too, otherwise as netlink does.
    pub fn left_out(&self, port: &infiniband::Port) -> Option<LeftOut<'_>> {
        let (name, settings) = self.network.netdevs.get_key_value(&port.netdev.known()?.name)?;
        let of_netlink = || of_netlink(name, self.interface(port)?.bond.known()?);
        of_sysfs(name, settings).or_else(of_netlink)
    }
}

fn silent_in_sysfs<'a>(bond: &'a str, settings: &'a Settings) -> Option<Silent<'a>> {
    let aggregator = settings.aggregator.known().copied();
    let members = settings.bond.known()?.iter().map(|member| {
        let name = member.name.as_str();
        let source = |file: &str| format!("/sys/class/net/{name}/bonding_slave/{file}");
        let (why, shown) = if member.has_carrier.known() == Some(&false) {
            let shown = vec![(format!("/sys/class/net/{name}/carrier"), "0".to_owned())];
            let why = if member.is_unnoticed() {
                NoTraffic::Unnoticed
            } else {
                NoTraffic::NoLink
            };
            (why, shown)
        } else if member.is_up() == Some(false) {
            (NoTraffic::NoLink, vec![(source("mii_status"), "down".to_owned())])
        } else {
            let shown = Idle::new(name, member.lacp(), aggregator, source).shown;
            (NoTraffic::of(member.lacp(), aggregator), shown)
        };
        let is_silent = member.lacp().is_silent(aggregator);
        is_silent.then_some(SilentMember { name, why, shown })
    });
    all_silent(bond, members)
}

fn silent_in_netlink<'a>(bond: &'a str, facts: &'a Bond) -> Option<Silent<'a>> {
    let members = facts.members.iter().map(|member| {
        let name = member.name.as_str();
        let source = |what: &str| format!("ip -d link show {name}: {what}");
        let why = NoTraffic::of(member.lacp(), facts.aggregator);
        let shown = match why {
            NoTraffic::NoLink => vec![(source("mii_status"), "down".to_owned())],
            _ => Idle::new(name, member.lacp(), facts.aggregator, source).shown,
        };
        let is_silent = member.lacp().is_silent(facts.aggregator);
        is_silent.then_some(SilentMember { name, why, shown })
    });
    all_silent(bond, members)
}

/// The bond, if it has members and each of them is silent.
fn all_silent<'a>(
    bond: &'a str,
    members: impl Iterator<Item = Option<SilentMember<'a>>>,
) -> Option<Silent<'a>> {
    let members: Vec<_> = members.collect::<Option<_>>()?;
    (!members.is_empty()).then_some(Silent { bond, members })
}

fn of_sysfs<'a>(bond: &'a str, settings: &'a Settings) -> Option<LeftOut<'a>> {
    let aggregator = settings.aggregator.known().copied();
    let members: Vec<_> = settings
        .outside()
        .into_iter()
        .map(|member| {
            let source = |file: &str| format!("/sys/class/net/{}/bonding_slave/{file}", member.name);
            Idle::new(&member.name, member.lacp(), aggregator, source)
        })
        .collect();
    let source = || format!("/sys/class/net/{bond}/bonding/ad_aggregator");
    (!members.is_empty()).then(|| LeftOut {
        bond,
        aggregator: aggregator.map(|id| (source(), id.to_string())),
        members,
    })
}

fn of_netlink<'a>(bond: &'a str, facts: &'a Bond) -> Option<LeftOut<'a>> {
    let members: Vec<_> = facts
        .outside()
        .map(|member| {
            let source = |name: &str| format!("ip -d link show {}: {name}", member.name);
            Idle::new(&member.name, member.lacp(), facts.aggregator, source)
        })
        .collect();
    let source = || format!("ip -d link show {bond}: ad_aggregator");
    (!members.is_empty()).then(|| LeftOut {
        bond,
        aggregator: facts.aggregator.map(|id| (source(), id.to_string())),
        members,
    })
}
