//! The priorities of RoCE traffic, and flow control on them.

use std::{collections::BTreeSet, fmt};

use rdma_health_node::{Node, Port, dcb::Bridging, peers::exceptions};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Subject, Writer, draft::Draft, policy::Exception,
};

/// `pfc-unreachable`.
pub static PFC_UNREACHABLE: Rule = Rule {
    id: "pfc-unreachable",
    domain: Domain::Network,
    policy: Policy::of(Severities::WARNING).except(&[&DIFFERS, &ANOTHER_NETWORK]),
    title: "Priority flow control is on a priority that no DSCP leads to",
    explanation: "The adapter gives RoCE packets a priority by their DSCP, by UDP port 4791 or Ethernet type 0x8915, or a default one, and none of \
        these leads to a priority with priority flow control. A DSCP without an entry uses the default priority, and without one priority 0. RoCE traffic \
        then travels on a priority that drops packets under congestion, whatever traffic class the job sets (NCCL_IB_TC is four times the \
        DSCP), although flow control looks configured. The same holds for one port without flow control, without the map, or with flow control on \
        another priority than its equals, and for the traffic class of the job that check --pid was given, if another priority has flow control.",
    remedy: Remedy {
        any: "Map the DSCP of RoCE to the lossless priority, or enable flow control on the priority that it maps to, as on the switch.",
        host: "dcb app show dev NETDEV; dcb pfc show dev NETDEV; dcb app add dev NETDEV dscp-prio 26:3; dcb pfc set dev NETDEV prio-pfc all:off 3:on",
        ..Remedy::all("")
    },
    false_alarms: "Only ACTIVE RoCE ports are judged whose driver reports both tables, with such a map, and with flow control on some \
        priority of this port or of most of its equals. If all equal ports sort by VLAN priority (trust pcp), they have no map, and are not judged.",
    inputs: &[Writer::HostRoot, Writer::Fabric, Writer::Job],
    judge: pfc_unreachable,
};

static DIFFERS: Exception = Exception {
    condition: "if RoCE reaches the same priorities with flow control as on the equal ports, but with other DSCP values",
    severities: Severities::INFO,
};

static ANOTHER_NETWORK: Exception = Exception {
    condition: "if several ports have settings in common that differ from those of their equals, and nothing shows that all of them serve GPUs: they may \
        belong to another network",
    severities: Severities::INFO,
};

/// What gives a RoCE packet its priority (IEEE 802.1Q, table D-9, and RFC 2474 for DSCP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// A DSCP value.
    Dscp(u8),
    /// The UDP port of RoCE v2.
    Port,
    /// The Ethernet type of RoCE v1.
    EtherType,
    /// The default of packets that nothing else applies to.
    Default,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dscp(value) => write!(f, "DSCP {value}"),
            Self::Port => f.write_str("UDP port 4791"),
            Self::EtherType => f.write_str("Ethernet type 0x8915"),
            Self::Default => f.write_str("the default"),
        }
    }
}

/// A way with the priority that it leads to.
type Led = (Way, u8);

/// Every way that is configured.
fn ways(bridging: &Bridging) -> impl Iterator<Item = Led> {
    const ROCE_V1: u16 = 0x8915;
    const ROCE_V2: u16 = 4791;
    let dscp = bridging
        .dscp
        .iter()
        .map(|(value, priority)| (Way::Dscp(*value), *priority));
    let others = bridging.applications.iter().filter_map(|entry| {
        let way = match (entry.selector.as_str(), entry.protocol) {
            ("dgram-port" | "port", ROCE_V2) => Way::Port,
            ("ethertype", ROCE_V1) => Way::EtherType,
            ("ethertype", 0) => Way::Default,
            _ => return None,
        };
        Some((way, entry.priority))
    });
    dscp.chain(others)
}

/// Where a packet goes whose DSCP has no entry, if no default is configured: to priority 0, the default of IEEE 802.1Q. `None` if every DSCP has
/// an entry, or if the adapter sorts by VLAN priority.
fn unsaid_default(bridging: &Bridging) -> Option<Led> {
    /// A DSCP has six bits.
    const VALUES: usize = 64;
    let is_default = |(way, _): Led| way == Way::Default;
    let is_partial = (1..VALUES).contains(&bridging.dscp.len());
    (is_partial && !ways(bridging).any(is_default)).then_some((Way::Default, 0))
}

/// How RoCE reaches flow control on one port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Reached {
    /// The ways that lead to a priority with flow control.
    lossless: BTreeSet<Led>,
    /// The priorities with flow control.
    on: BTreeSet<u8>,
    /// Whether any way is configured. Otherwise the adapter sorts by VLAN priority.
    is_sorted: bool,
}

impl Reached {
    /// `None` if the driver does not report flow control.
    fn new(bridging: &Bridging) -> Option<Self> {
        let on: BTreeSet<u8> = bridging.pfc.as_ref()?.on.iter().copied().collect();
        let is_default = |(way, _): &Led| *way == Way::Default;
        let lossless: BTreeSet<_> = ways(bridging)
            .chain(unsaid_default(bridging))
            .filter(|(_, priority)| on.contains(priority))
            .collect();
        // A default that leads elsewhere is what VLAN priorities are for.
        let is_sorted = ways(bridging).any(|way| !is_default(&way)) || !lossless.is_empty();
        Some(Self {
            lossless,
            on,
            is_sorted,
        })
    }

    /// The same without the values of DSCP: what has to be equal for ports to treat RoCE alike.
    fn without_values(&self) -> BTreeSet<Led> {
        let led = self.lossless.iter().map(|(way, priority)| match way {
            Way::Dscp(_) => (Way::Dscp(0), *priority),
            other => (*other, *priority),
        });
        led.collect()
    }

    /// Whether flow control is on and no way leads to it, although some are configured.
    fn is_missed(&self) -> bool {
        self.is_sorted && self.lossless.is_empty() && !self.on.is_empty()
    }
}

impl fmt::Display for Reached {
    /// `DSCP 24 and 26 (priority 3), UDP port 4791 (priority 3)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lossless.is_empty() {
            return f.write_str("nothing");
        }
        let mut parts: Vec<String> = Vec::new();
        for priority in &self.on {
            let led = self.lossless.iter().filter(|(_, to)| to == priority);
            let (values, others): (Vec<_>, Vec<_>) = led
                .map(|(way, _)| *way)
                .partition(|way| matches!(way, Way::Dscp(_)));
            let values: Vec<u8> = values
                .into_iter()
                .filter_map(|way| match way {
                    Way::Dscp(value) => Some(value),
                    _ => None,
                })
                .collect();
            let values = (!values.is_empty()).then(|| format!("DSCP {}", numbers(&values)));
            let words = values.into_iter().chain(others.iter().map(Way::to_string));
            parts.extend(words.map(|words| format!("{words} (priority {priority})")));
        }
        f.write_str(&parts.join(", "))
    }
}

/// The variables by which a job sets its traffic class.
const CLASSES: [&str; 3] = ["NCCL_IB_TC", "NVSHMEM_IB_TRAFFIC_CLASS", "UCX_IB_TRAFFIC_CLASS"];

/// The DSCP of the job's RoCE packets, and the setting: the upper six bits of the traffic class.
fn job_dscp(node: &Node) -> Option<(u8, String)> {
    let environment = node.job.as_ref()?.environment.known()?;
    CLASSES.into_iter().find_map(|name| {
        let class: u8 = environment.get(name)?.trim().parse().ok()?;
        Some((class >> 2, format!("{name}={class}")))
    })
}

/// The priorities that packets with this DSCP can get: that of the value and those of RoCE, and the default if there is none of these. Which
/// one counts depends on the adapter.
fn of_job(bridging: &Bridging, dscp: u8) -> Vec<u8> {
    let to = |wanted: &[Way]| -> Vec<u8> {
        let led = ways(bridging).filter(|(way, _)| wanted.contains(way));
        led.map(|(_, priority)| priority).collect()
    };
    let found = to(&[Way::Dscp(dscp), Way::Port, Way::EtherType]);
    let found = if found.is_empty() {
        to(&[Way::Default])
    } else {
        found
    };
    if found.is_empty() { vec![0] } else { found }
}

fn pfc_unreachable(node: &Node, _: &Expectations) -> Vec<Draft> {
    let settings = |port: &Port<'_>| {
        let is_judged = port.is_active() == Some(true) && port.is_ethernet() && !port.hca.is_software();
        let bridging = node.bridging(port.kernel).filter(|_| is_judged)?;
        Some((bridging, Reached::new(bridging)?))
    };
    let job = job_dscp(node);
    let mut found: Vec<_> = node
        .ports()
        .filter_map(|port| {
            let (bridging, reached) = settings(&port)?;
            if !reached.is_sorted || reached.on.is_empty() {
                return None;
            }
            let on: Vec<u8> = reached.on.iter().copied().collect();
            let subject = Subject::of_port(&port);
            let message = match &job {
                _ if reached.is_missed() => {
                    format!("no DSCP and no other rule of {subject} leads to a priority with flow control ({})", numbers(&on))
                }
                Some((dscp, setting)) => {
                    let priorities = of_job(bridging, *dscp);
                    if priorities.iter().any(|priority| reached.on.contains(priority)) {
                        return None;
                    }
                    format!(
                        "the job sends DSCP {dscp} ({setting}), which leads to priority {} on {subject}; flow control is on for {}",
                        numbers(&priorities),
                        numbers(&on)
                    )
                }
                None => return None,
            };
            Some(draft(&port, bridging, message))
        })
        .collect();
    // Finding the equal ports is costly, and most nodes have no such settings.
    if node
        .ports()
        .any(|port| settings(&port).is_some_and(|(_, reached)| reached.is_sorted))
    {
        found.extend(unlike_equals(node, settings));
    }
    found
}

/// Ports that differ from most of their equals.
fn unlike_equals<'a>(
    node: &'a Node,
    settings: impl Fn(&Port<'a>) -> Option<(&'a Bridging, Reached)>,
) -> Vec<Draft> {
    let mut found = Vec::new();
    for peers in node.peers() {
        let all = peers.ports.iter().filter_map(|port| Some(settings(port)?.1));
        let usual: BTreeSet<_> = all.filter(|reached| !reached.lossless.is_empty()).collect();
        for usual in usual {
            let same = |port: Port<'a>| Some(settings(&port)?.1 == usual);
            let Some(other) = exceptions(&peers.ports, same) else {
                continue;
            };
            let differing = other.without.iter().filter_map(|port| {
                let (bridging, own) = settings(port)?;
                let by_vlan = if own.is_sorted || own.on.is_empty() {
                    ""
                } else {
                    " (it sorts by VLAN priority, trust pcp)"
                };
                let message = format!(
                    "{} sends {own} with flow control{by_vlan}, {} equal ports {usual}",
                    Subject::of_port(port),
                    other.share(),
                );
                let alike = other.without.iter().filter_map(&settings);
                let are_several = alike.filter(|(_, settings)| *settings == own).count() > 1;
                // A hypervisor places functions as it likes, so that the adapters of GPUs are not known.
                let serve_gpus = peers.serve_gpus && !node.is_virtual_machine();
                let exception = if own.without_values() == usual.without_values() {
                    Some(&DIFFERS)
                } else {
                    (are_several && !serve_gpus).then_some(&ANOTHER_NETWORK)
                };
                // That flow control is on and leads nowhere is reported already.
                (!own.is_missed()).then(|| draft(port, bridging, message).exception(exception))
            });
            found.extend(differing);
        }
    }
    found
}

fn draft(port: &Port<'_>, bridging: &Bridging, message: String) -> Draft {
    let netdev = port
        .kernel
        .netdev
        .known()
        .map_or("", |netdev| netdev.name.as_str());
    let on = bridging.pfc.as_ref().map_or(&[][..], |pfc| &pfc.on);
    let on = if on.is_empty() {
        "off for all priorities".to_owned()
    } else {
        format!("on for {}", numbers(on))
    };
    let map: Vec<_> = bridging
        .dscp
        .iter()
        .filter(|(_, priority)| **priority != 0)
        .collect();
    let map: Vec<_> = map
        .iter()
        .map(|(value, priority)| format!("{value}:{priority}"))
        .collect();
    let map = match (bridging.dscp.is_empty(), map.is_empty()) {
        (true, _) => "none".to_owned(),
        (false, true) => "all to 0".to_owned(),
        (false, false) => map.join(" "),
    };
    let finding = Draft::new(&PFC_UNREACHABLE, Subject::of_port(port), message)
        .fill("NETDEV", netdev)
        .evidence(format!("dcb pfc show dev {netdev}"), on)
        .evidence(format!("dcb app show dev {netdev}: dscp-prio"), map);
    let others: Vec<_> = ways(bridging)
        .filter(|(way, _)| !matches!(way, Way::Dscp(_)))
        .map(|(way, priority)| format!("{way}: {priority}"))
        .collect();
    let finding = if others.is_empty() {
        finding
    } else {
        finding.evidence(
            format!("dcb app show dev {netdev}: other rules of RoCE"),
            others.join(", "),
        )
    };
    if bridging.trust.is_empty() {
        finding
    } else {
        finding.evidence(
            format!("dcb apptrust show dev {netdev}"),
            bridging.trust.join(" "),
        )
    }
}

fn numbers(all: &[u8]) -> String {
    let words: Vec<_> = all.iter().map(u8::to_string).collect();
    words.join(", ")
}
