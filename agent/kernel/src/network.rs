//! The IP network under RoCE: subnets, ARP settings and flow control of the network devices of RDMA ports.
//!
//! Source: `/proc/1/net/route` (the node's own network, independent of this process's namespace; `/proc/net/route` in a
//! tree), `/proc/sys/net/ipv4/conf/NETDEV/{arp_ignore,arp_announce,rp_filter}`
//! (`Documentation/networking/ip-sysctl.rst`), and `/sys/class/net/NETDEV/{ecn,qos}`, which only MLNX_OFED and DOCA
//! offer; `/sys/class/net/BOND/bonding/{slaves,ad_aggregator}` and
//! `/sys/class/net/MEMBER/bonding_slave/{mii_status,state,ad_aggregator_id,ad_actor_oper_port_state,ad_partner_oper_port_state}`.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use serde::{Deserialize, Serialize};

use crate::{
    fact::{Fact, Unread},
    lacp::{self, Lacp},
    root::Scope,
    source::{After, Known, Source},
};

const NETDEVS: &str = "/sys/class/net";
/// Maximum number of routes that are read.
const MAX_ROUTES: usize = 65_536;
/// Maximum number of other network devices that are looked at.
const MAX_OTHERS: usize = 16;

/// The network of a node, as far as RDMA ports use it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// IPv4 subnets of the network devices of RDMA ports.
    pub subnets: Fact<Vec<Subnet>>,
    /// The file with the subnets.
    pub source: String,
    /// ARP settings for all network devices; the stricter of these and the device's own applies.
    pub all: Arp,
    /// Settings of each network device of an RDMA port.
    pub netdevs: BTreeMap<String, Settings>,
    /// Subnets of these that another Ethernet adapter of the node has as well. Bonds, bridges, VLANs and the like are not adapters.
    #[serde(default)]
    pub others: Vec<Subnet>,
}

/// A network device's attachment to a subnet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subnet {
    /// Network address.
    pub address: Ipv4Addr,
    /// Bits of the network address.
    pub prefix: u8,
    /// The network device.
    pub netdev: String,
}

impl Subnet {
    /// Whether an address is in it.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        let host_bits = 32_u32.saturating_sub(u32::from(self.prefix));
        let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
        self.address.to_bits() & mask == address.to_bits() & mask
    }
}

/// Settings of one network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// ARP settings.
    pub arp: Arp,
    /// Priorities with priority flow control; absent if the driver does not report them in sysfs.
    pub pfc: Fact<Vec<u8>>,
    /// Priorities with congestion notification (`ecn/roce_np`) or reaction (`ecn/roce_rp`); absent likewise.
    pub ecn: Fact<Vec<u8>>,
    /// The members of a bond, in the order of the kernel; absent for all other devices.
    #[serde(default)]
    pub bond: Fact<Vec<BondMember>>,
    /// The LACP aggregator that carries the traffic of a bond (`bonding/ad_aggregator`); absent in other modes.
    #[serde(default)]
    pub aggregator: Fact<u64>,
}

/// A network device in a bond (`Documentation/networking/bonding.rst`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BondMember {
    /// Its name.
    pub name: String,
    /// Whether the bond considers its link up (`bonding_slave/mii_status`); absent if the kernel does not report it.
    pub link_up: Fact<bool>,
    /// Its LACP aggregator (`bonding_slave/ad_aggregator_id`); absent in other modes.
    #[serde(default)]
    pub aggregator: Fact<u64>,
    /// What the switch says of its own port in LACP (`bonding_slave/ad_partner_oper_port_state`, IEEE 802.1AX); absent in other modes.
    #[serde(default)]
    pub partner_state: Fact<u8>,
    /// The same of this end (`bonding_slave/ad_actor_oper_port_state`).
    #[serde(default)]
    pub actor_state: Fact<u8>,
    /// Whether it carries traffic of the bond (`bonding_slave/state` is `active`, and not `backup`).
    #[serde(default)]
    pub is_active: Fact<bool>,
    /// Whether it has a carrier (`carrier`), which a bond that does not monitor its links does not notice.
    #[serde(default)]
    pub has_carrier: Fact<bool>,
    /// Number of carrier losses since it was created (`carrier_down_count`).
    #[serde(default)]
    pub carrier_downs: Fact<u64>,
    /// How often the bond saw its link fail (`bonding_slave/link_failure_count`).
    #[serde(default)]
    pub link_failures: Fact<u64>,
}

impl BondMember {
    /// Whether it has a link: not without a carrier, whatever the bond counts it as; `None` if it is not known.
    pub fn is_up(&self) -> Option<bool> {
        let carrier = self.has_carrier.known().copied();
        carrier
            .filter(|carrier| !carrier)
            .or(self.link_up.known().copied())
    }

    /// Whether the bond counts it as up although it has no carrier.
    pub fn is_unnoticed(&self) -> bool {
        self.link_up.known() == Some(&true) && self.has_carrier.known() == Some(&false)
    }

    /// What LACP says of it.
    pub fn lacp(&self) -> Lacp {
        Lacp {
            link_up: self.is_up(),
            aggregator: self.aggregator.known().copied(),
            is_active: self.is_active.known().copied(),
            actor: self.actor_state.known().copied(),
            partner: self.partner_state.known().copied(),
        }
    }
}

/// ARP and reverse-path settings; absent if the device is not in the network namespace of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arp {
    /// 0: answer for any local address on any device; 1 and above: only for the device's own.
    pub arp_ignore: Fact<u32>,
    /// 0: any local address as source; 2: always the best for the target.
    pub arp_announce: Fact<u32>,
    /// 0: no check; 1: strict; 2: loose.
    pub rp_filter: Fact<u32>,
}

impl Source for Network {
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, Known { netdevs, .. }: &Known) -> Self {
        let mut source = "/proc/1/net/route";
        // Process 1 may be hidden; then fall back to the network of this process.
        let aside = Scope::new(scope.root());
        let mut table = aside.optional_file(source);
        if table.known().is_none() {
            source = "/proc/net/route";
            table = scope.optional_file(source);
        }
        if let Some(netdev) = netdevs.first()
            && scope.is_hidden(NETDEVS)
        {
            let _: Fact<()> = scope.hidden(NETDEVS, &format!("an RDMA port has the network device {netdev}"));
        }
        let settings = |netdev: &String| (netdev.clone(), Settings::read(scope, netdev));
        let mut others = Vec::new();
        let subnets = table.map(|text| {
            let (ours, rest) = subnets(&text, netdevs);
            others = rest;
            others.retain(|other| {
                let is_same = |own: &Subnet| own.address == other.address && own.prefix == other.prefix;
                ours.iter().any(is_same) && !other.address.is_link_local() && other.prefix < 32
            });
            ours
        });
        others.truncate(MAX_OTHERS);
        others.retain(|other| is_other_adapter(&aside, &other.netdev, netdevs));
        Self {
            others,
            subnets,
            source: source.into(),
            all: Arp::read(scope, "all"),
            netdevs: netdevs.iter().map(settings).collect(),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            subnets: why.clone().into(),
            ..Self::default()
        }
    }
}

impl Settings {
    fn read(scope: &Scope<'_>, netdev: &str) -> Self {
        let directory = format!("/sys/class/net/{netdev}");
        let enabled = |role: &str| -> Fact<BTreeSet<u8>> {
            let directory = format!("{directory}/ecn/{role}/enable");
            scope.entries(&directory).map(|names| {
                let on = |name: &&String| {
                    let on = scope.number::<u32>(&format!("{directory}/{name}"));
                    on.known().is_some_and(|on| *on != 0)
                };
                let priorities = names.iter().filter(on).filter_map(|name| name.parse().ok());
                priorities.collect()
            })
        };
        let ecn = match (enabled("roce_np"), enabled("roce_rp")) {
            (Fact::Known(notified), Fact::Known(reacted)) => Fact::Known(&notified | &reacted),
            (Fact::Absent, other) | (other, _) => other,
        };
        Self {
            arp: Arp::read(scope, netdev),
            pfc: scope.parsed(
                &format!("{directory}/qos/pfc"),
                "0 or 1 for each of eight priorities",
                flags,
            ),
            ecn: ecn.map(|priorities| priorities.into_iter().collect()),
            bond: BondMember::of(scope, &directory),
            aggregator: detail(scope, &format!("{directory}/bonding/ad_aggregator")),
        }
    }

    /// Members of a bond with a link that carry no traffic in mode 802.3ad: LACP put them into another aggregator, or one of the ends does not
    /// collect and distribute although those of another member do.
    pub fn outside(&self) -> Vec<&BondMember> {
        let members = self.bond.known().map_or(&[][..], Vec::as_slice);
        let all: Vec<_> = members.iter().map(BondMember::lacp).collect();
        let left_out = lacp::left_out(self.aggregator.known().copied(), &all);
        left_out.into_iter().map(|at| &members[at]).collect()
    }
}

/// A number that only makes other facts more precise. That of LACP is empty in other modes, or says that there is none.
fn detail<T: std::str::FromStr>(scope: &Scope<'_>, path: &str) -> Fact<T> {
    scope
        .collected(path)
        .and_then(|text| text.trim().parse().map_or(Fact::Absent, Fact::Known))
}

impl BondMember {
    /// The members of the bond whose directory this is.
    fn of(scope: &Scope<'_>, directory: &str) -> Fact<Vec<Self>> {
        /// The kernel has no limit; a bond of RDMA ports has two members, rarely four.
        const MAX_MEMBERS: usize = 32;
        let names = scope.optional(&format!("{directory}/bonding/slaves"));
        names.map(|names| {
            let member = |name: &str| Self {
                name: name.to_owned(),
                link_up: scope.parsed(
                    &format!("/sys/class/net/{name}/bonding_slave/mii_status"),
                    "a link state",
                    |state| match state {
                        "up" => Some(true),
                        "down" | "going down" | "going back" => Some(false),
                        _ => None,
                    },
                ),
                aggregator: detail(
                    scope,
                    &format!("/sys/class/net/{name}/bonding_slave/ad_aggregator_id"),
                ),
                partner_state: detail(
                    scope,
                    &format!("/sys/class/net/{name}/bonding_slave/ad_partner_oper_port_state"),
                ),
                actor_state: detail(
                    scope,
                    &format!("/sys/class/net/{name}/bonding_slave/ad_actor_oper_port_state"),
                ),
                is_active: scope
                    .collected(&format!("/sys/class/net/{name}/bonding_slave/state"))
                    .and_then(|state| match state.trim() {
                        "active" => Fact::Known(true),
                        "backup" => Fact::Known(false),
                        _ => Fact::Absent,
                    }),
                // A device that is not enabled refuses to read it, which is not a failure of the node.
                has_carrier: Scope::new(scope.root())
                    .collected(&format!("/sys/class/net/{name}/carrier"))
                    .known()
                    .and_then(|carrier| match carrier.trim() {
                        "1" => Some(true),
                        "0" => Some(false),
                        _ => None,
                    })
                    .into(),
                carrier_downs: detail(scope, &format!("/sys/class/net/{name}/carrier_down_count")),
                link_failures: detail(
                    scope,
                    &format!("/sys/class/net/{name}/bonding_slave/link_failure_count"),
                ),
            };
            // A name is one component of a path.
            let is_name = |name: &&str| !name.contains('/') && *name != "..";
            names
                .split_whitespace()
                .filter(is_name)
                .take(MAX_MEMBERS)
                .map(member)
                .collect()
        })
    }
}

/// The priorities whose flag is set, of eight flags.
fn flags(text: &str) -> Option<Vec<u8>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let valid = words.len() == 8 && words.iter().all(|word| matches!(*word, "0" | "1"));
    let set = (0..).zip(words).filter(|(_, word)| *word == "1");
    valid.then(|| set.map(|(priority, _)| priority).collect())
}

impl Arp {
    fn read(scope: &Scope<'_>, netdev: &str) -> Self {
        let number = |name: &str| scope.number(&format!("/proc/sys/net/ipv4/conf/{netdev}/{name}"));
        Self {
            arp_ignore: number("arp_ignore"),
            arp_announce: number("arp_announce"),
            rp_filter: number("rp_filter"),
        }
    }
}

/// Whether a network device is an Ethernet adapter that has no function in common with those of RDMA ports, nor is a virtual function of one of
/// them, or the other way round.
fn is_other_adapter(scope: &Scope<'_>, netdev: &str, netdevs: &BTreeSet<String>) -> bool {
    const ETHERNET: u32 = 1;
    let directory = format!("/sys/class/net/{netdev}");
    // The function itself, and the one that it is a virtual function of, each without the number of the function.
    let cards = |netdev: &str| -> Vec<String> {
        let device = format!("/sys/class/net/{netdev}/device");
        let own = scope.real_path(&device).known().cloned();
        let above = scope.real_path(&format!("{device}/physfn")).known().cloned();
        let card = |path: String| {
            let (_, name) = path.rsplit_once('/')?;
            // Without a PCI address (a virtual adapter of a hypervisor), it is a separate one.
            Some(name.rsplit_once('.').map_or(name, |(card, _)| card).to_owned())
        };
        own.into_iter().chain(above).filter_map(card).collect()
    };
    if scope.number::<u32>(&format!("{directory}/type")).known() != Some(&ETHERNET) {
        return false;
    }
    let own = cards(netdev);
    let is_part = scope.link(&format!("{directory}/master")).known().is_some();
    !own.is_empty()
        && !is_part
        && !netdevs
            .iter()
            .any(|other| cards(other).iter().any(|card| own.contains(card)))
}

/// The subnets in a routing table, which are routes without a gateway: those of these network devices, and those of others.
fn subnets(table: &str, netdevs: &BTreeSet<String>) -> (Vec<Subnet>, Vec<Subnet>) {
    const UP: u32 = 1;
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let route = |line: &str| {
        let mut words = line.split_whitespace();
        let netdev = words.next()?;
        let destination = words.next().and_then(number)?;
        let gateway = words.next().and_then(number)?;
        let flags = words.next().and_then(number)?;
        let mask = words.nth(3).and_then(number)?;
        // A value in network byte order, printed as a native number; all supported machines are little-endian.
        let [destination, mask] = [destination, mask].map(u32::swap_bytes);
        let attached = gateway == 0 && flags & UP != 0 && mask != 0;
        attached.then(|| Subnet {
            address: Ipv4Addr::from(destination),
            prefix: u8::try_from(mask.leading_ones()).unwrap_or(32),
            netdev: netdev.to_owned(),
        })
    };
    let found: BTreeSet<Subnet> = table.lines().take(MAX_ROUTES).filter_map(route).collect();
    found
        .into_iter()
        .partition(|subnet| netdevs.contains(&subnet.netdev))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0064000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth1\t0065000A\t00000000\t0001\t0\t0\t0\tFEFFFFFF\t0\t0\t0
docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
";

    #[test]
    fn routes_through_gateways_are_not_attached_subnets() {
        let netdevs = ["eth0", "eth1"].map(str::to_owned).into();
        let words = |s: Subnet| format!("{}/{} {}", s.address, s.prefix, s.netdev);
        let found: Vec<_> = subnets(TABLE, &netdevs).0.into_iter().map(words).collect();
        assert_eq!(found, ["10.0.100.0/24 eth0", "10.0.101.0/31 eth1"]);
    }

    #[test]
    fn eight_flags_are_eight_priorities() {
        assert_eq!(flags("0 0 0 1 0 0 0 0"), Some(vec![3]));
        assert_eq!(flags("0 0 0 1"), None);
        assert_eq!(flags("0 0 0 2 0 0 0 0"), None);
    }

    prop_compose! {
        /// A route of `eth0` through this gateway, with these flags, and whether it should be found.
        fn any_route()(address: u32, prefix in 0..=32_u8, gateway in prop_oneof![Just(0_u32), any::<u32>()], flags in 0..16_u32)
            -> (String, Option<Subnet>)
        {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            let line = format!(
                "eth0\t{:08X}\t{gateway:08X}\t{flags:04X}\t0\t0\t100\t{:08X}\t0\t0\t0\n",
                (address & mask).swap_bytes(),
                mask.swap_bytes(),
            );
            let attached = gateway == 0 && flags % 2 == 1 && prefix > 0;
            let subnet = Subnet { address: Ipv4Addr::from(address & mask), prefix, netdev: "eth0".into() };
            (line, attached.then_some(subnet))
        }
    }

    proptest! {
        #[test]
        fn a_table_gives_the_subnets_that_it_was_made_of_whatever_stands_between(
            routes in proptest::collection::vec((any_route(), "(eth1?[\t ][0-9A-F\t ]{0,20})?"), 0..6),
        ) {
            let lines: Vec<_> = routes.iter().map(|((line, _), noise)| format!("{line}{noise}\n")).collect();
            let table = lines.concat();
            let expected: BTreeSet<_> = routes.into_iter().filter_map(|((_, subnet), _)| subnet).collect();
            let (found, _) = subnets(&table, &["eth0".to_owned()].into());
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
