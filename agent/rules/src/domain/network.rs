//! The network of the host that RoCE uses.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv4Addr,
};

use rdma_health_node::{Fact, Node, Port, network::Arp};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Subject, Writer,
    draft::Draft,
    policy::Exception,
    remedy::{resolve, sysctl},
};

/// `same-subnet-arp`.
pub static SAME_SUBNET_ARP: Rule = Rule {
    id: "same-subnet-arp",
    domain: Domain::Network,
    policy: Policy::of(Severities::WARNING).except(&[&OVER_INFINIBAND, &WITH_ANOTHER]),
    title: "RDMA network devices share a subnet without ARP settings for it",
    explanation: "Linux answers an ARP request for any of its addresses on any device (arp_ignore 0), and asks with \
        any of them (arp_announce 0). With several devices in one subnet, peers learn the link-layer address of one device \
        for the IP address of another: RDMA connections reach the wrong port, run over one port only, or fail with \
        IBV_WC_RETRY_EXC_ERR(12). A strict rp_filter (1) drops packets of rdma_cm that arrive on another device than \
        the one the answer leaves by.",
    remedy: Remedy {
        any: "Set the ARP behaviour: sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 \
            net.ipv4.conf.NETDEV.rp_filter=2. Or give each device its own subnet (/31 links are common).",
        openshift: "Set the same sysctls in the [sysctl] section of a Tuned profile (Node Tuning Operator), or with \
            a MachineConfig that writes /etc/sysctl.d/90-rdma-arp.conf.",
        kubernetes: "Write the same sysctls to /etc/sysctl.d/90-rdma-arp.conf on each node; for pods, use the tuning CNI plugin.",
        host: "Write the same sysctls to /etc/sysctl.d/90-rdma-arp.conf, so that they survive a reboot.",
    },
    false_alarms: "Only network devices of ACTIVE RDMA ports (RoCE and IP over InfiniBand) are judged; members of a bond do not count on their \
        own. An Ethernet adapter without RDMA counts if it is not a function of the same card; bonds, bridges, VLANs, tunnels and 169.254.0.0/16 do not. Silent if the settings are not visible in the network namespace of rdma-health.",
    inputs: &[Writer::HostRoot],
    judge: same_subnet_arp,
};

static OVER_INFINIBAND: Exception = Exception {
    condition: "if all of them are IP over InfiniBand: jobs that connect by LID or GUID do without addresses, but ping, storage and rdma_cm may reach the wrong port",
    severities: Severities::INFO,
};

static WITH_ANOTHER: Exception = Exception {
    condition: "if one RDMA network device and Ethernet adapters without RDMA share it",
    severities: Severities::INFO,
};

/// What to do where an adapter without RDMA is in the subnet of one with it.
const SEPARATE: Remedy = Remedy {
    any: "Give NETDEV and OTHER separate subnets: RDMA to an address of this subnet leaves by the device that the route selects (ip route get PEER), and the adapter \
        without RDMA answers ARP requests for the address of the other one. If they must stay in one subnet, set net.ipv4.conf.all.arp_ignore=1 and \
        net.ipv4.conf.all.arp_announce=2, and bind the program to the RDMA address.",
    ..Remedy::all("")
};

/// RDMA network devices whose subnet an Ethernet adapter without RDMA has as well.
fn with_another(node: &Node) -> Vec<Draft> {
    let ours = netdevs_of(node, Port::is_ethernet);
    let known = node.network.subnets.known().into_iter().flatten();
    let found = known
        .filter(|own| ours.contains(own.netdev.as_str()))
        .filter_map(|own| {
            let other = node
                .network
                .others
                .iter()
                .find(|other| other.address == own.address && other.prefix == own.prefix)?;
            let arp = &node.network.netdevs.get(&own.netdev)?.arp;
            let mut wrong = wrong_settings(&own.netdev, &node.network.all, arp);
            let setting = wrong.find(|setting| setting.name == "arp_ignore")?;
            let subnet = format!("{}/{}", own.address, own.prefix);
            let message = format!(
                "{} shares subnet {subnet} with {}, which has no RDMA, with {setting}",
                own.netdev, other.netdev
            );
            let finding = Draft::new(&SAME_SUBNET_ARP, Subject::device(&own.netdev), message)
                .exception(&WITH_ANOTHER)
                .remedy(SEPARATE)
                .fill("NETDEV", own.netdev.clone())
                .fill("OTHER", other.netdev.clone())
                .evidence(
                    &node.network.source,
                    format!("{subnet} on {}, {}", own.netdev, other.netdev),
                )
                .evidence(&setting.file, setting.value);
            Some(finding)
        });
    found.collect()
}

fn same_subnet_arp(node: &Node, _: &Expectations) -> Vec<Draft> {
    let subnets = shared_subnets(node);
    let wrong_of = |netdevs: &[&str]| -> Vec<Setting> {
        let own = netdevs
            .iter()
            .filter_map(|netdev| Some((*netdev, &node.network.netdevs.get(*netdev)?.arp)));
        own.flat_map(|(netdev, own)| wrong_settings(netdev, &node.network.all, own))
            .collect()
    };
    let of_infiniband = netdevs_of(node, Port::is_infiniband);
    // The commands are those for all subnets, because they write one file.
    let all: Vec<Setting> = subnets.values().flat_map(|netdevs| wrong_of(netdevs)).collect();
    let remedy = set_here(node, &all);
    let found = subnets.iter().filter_map(|((address, prefix), netdevs)| {
        let wrong = wrong_of(netdevs);
        if wrong.is_empty() {
            return None;
        }
        let settings: BTreeSet<_> = wrong.iter().map(ToString::to_string).collect();
        let settings: Vec<_> = settings.into_iter().collect();
        let netdevs_in_words = netdevs.join(", ");
        let message = format!(
            "{netdevs_in_words} share subnet {address}/{prefix} with {}",
            settings.join(", ")
        );
        let finding = Draft::new(&SAME_SUBNET_ARP, Subject::device(netdevs[0]), message)
            .written_remedy(remedy.clone())
            .exception(
                netdevs
                    .iter()
                    .all(|netdev| of_infiniband.contains(netdev))
                    .then_some(&OVER_INFINIBAND),
            )
            .evidence(
                &node.network.source,
                format!("{address}/{prefix} on {netdevs_in_words}"),
            );
        Some(wrong.iter().take(6).fold(finding, |finding, setting| {
            finding.evidence(&setting.file, setting.value)
        }))
    });
    let mut findings: Vec<Draft> = found.collect();
    // The settings that help several RDMA network devices help here, too.
    if findings.is_empty() {
        findings.extend(with_another(node));
    }
    findings
}

/// How to set on this node what is wrong; `None` if too little is known about it.
fn set_here(node: &Node, wrong: &[Setting]) -> Option<String> {
    let mut settings: Vec<(String, &str)> = Vec::new();
    for setting in wrong {
        let (key, value) = match setting.name {
            "arp_ignore" => ("net.ipv4.conf.all.arp_ignore".to_owned(), "1"),
            "arp_announce" => ("net.ipv4.conf.all.arp_announce".to_owned(), "2"),
            // A dot in the name of a VLAN is a slash in the name of its sysctl.
            name if resolve::is_plain(&setting.netdev) => (
                format!("net.ipv4.conf.{}.{name}", setting.netdev.replace('.', "/")),
                "2",
            ),
            _ => continue,
        };
        if !settings.iter().any(|(known, _)| *known == key) {
            settings.push((key, value));
        }
    }
    let settings: Vec<_> = settings
        .iter()
        .map(|(key, value)| (key.as_str(), *value))
        .collect();
    let commands = sysctl::commands("arp", &settings, node.platform())?;
    let is_arp = wrong.iter().any(|setting| setting.name.starts_with("arp"));
    let is_filter = wrong.iter().any(|setting| setting.name == "rp_filter");
    let what = match (is_arp, is_filter) {
        (true, false) => "the ARP behaviour",
        (false, _) => "rp_filter to 2 (loose) on these devices",
        (true, true) => "the ARP behaviour and rp_filter",
    };
    Some(format!(
        "Set {what}, or give each device its own subnet (/31 links are common).\n{commands}"
    ))
}

/// The network devices of such active ports.
fn netdevs_of<'a>(node: &'a Node, is_such: impl Fn(&Port<'a>) -> bool) -> BTreeSet<&'a str> {
    let ports = node.active_ports().filter(is_such);
    ports
        .filter_map(|port| Some(port.kernel.netdev.known()?.name.as_str()))
        .collect()
}

/// IPv4 subnets with several network devices of active ports: of RoCE, or with IP over InfiniBand, whose addresses `rdma_cm` resolves.
fn shared_subnets(node: &Node) -> BTreeMap<(Ipv4Addr, u8), Vec<&str>> {
    let ours = netdevs_of(node, |port| port.is_ethernet() || port.is_infiniband());
    let mut subnets: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for subnet in node.network.subnets.known().into_iter().flatten() {
        if ours.contains(subnet.netdev.as_str()) {
            let netdevs = subnets.entry((subnet.address, subnet.prefix)).or_default();
            netdevs.push(subnet.netdev.as_str());
        }
    }
    subnets.retain(|_, netdevs| netdevs.len() > 1);
    subnets
}

/// A setting that does not fit several devices in one subnet.
struct Setting {
    netdev: String,
    name: &'static str,
    value: u32,
    expected: &'static str,
    file: String,
}

/// `arp_ignore=0 (expected 1)`.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} (expected {})", self.name, self.value, self.expected)
    }
}

fn wrong_settings(netdev: &str, all: &Arp, own: &Arp) -> impl Iterator<Item = Setting> {
    let settings = [
        ("arp_ignore", &all.arp_ignore, &own.arp_ignore, 0, "1"),
        ("arp_announce", &all.arp_announce, &own.arp_announce, 0, "2"),
        ("rp_filter", &all.rp_filter, &own.rp_filter, 1, "2 or 0"),
    ];
    settings
        .into_iter()
        .filter_map(move |(name, all, own, wrong, expected)| {
            // The kernel uses the larger of the two.
            let value = *own.known()?.max(all.known()?);
            (value == wrong).then(|| Setting {
                netdev: netdev.to_owned(),
                name,
                value,
                expected,
                file: format!("/proc/sys/net/ipv4/conf/{{all,{netdev}}}/{name}"),
            })
        })
}

/// `roce-flow-control`.
pub static ROCE_FLOW_CONTROL: Rule = Rule {
    id: "roce-flow-control",
    domain: Domain::Network,
    policy: Policy::of(Severities::INFO),
    title: "Neither PFC nor ECN is configured for RoCE",
    explanation: "Lost packets hurt RoCE more than TCP. Priority flow control (PFC) keeps switches from dropping \
        packets, and explicit congestion notification (ECN, DCQCN) keeps senders from overrunning them. With \
        neither, bandwidth collapses under congestion; the counters port_xmit_discards, out_of_sequence and \
        roce_slow_restart show it.",
    remedy: Remedy {
        any: "Configure the same lossless priority on adapter and switch.",
        host: "mlnx_qos -i NETDEV --pfc 0,0,0,1,0,0,0,0 --trust dscp; echo 1 > \
            /sys/class/net/NETDEV/ecn/roce_np/enable/3; echo 1 > /sys/class/net/NETDEV/ecn/roce_rp/enable/3; \
            cma_roce_tos -d DEVICE -t 106",
        ..Remedy::all("")
    },
    false_alarms: "Only MLNX_OFED and DOCA expose these settings in sysfs; elsewhere the rule is silent. Adapters \
        and switches can also be configured for lossy RoCE, which needs neither. If congestion packets were counted, \
        ECN works.",
    inputs: &[Writer::HostRoot],
    judge: roce_flow_control,
};

fn roce_flow_control(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = node.active_ports().filter_map(|port| {
        let netdev = port
            .netdev
            .known()
            .filter(|_| port.is_ethernet() && !port.hca.is_software())?;
        let settings = node.network.netdevs.get(&netdev.name)?;
        let off = |fact: &Fact<Vec<u8>>| fact.known().map(Vec::is_empty);
        let counted = port.hw_counters.iter().any(|counter| {
            matches!(&*counter.name, "np_cnp_sent" | "rp_cnp_handled")
                && counter.value.known().is_some_and(|n| *n > 0)
        });
        // ECN must be known to be off; PFC is often unknown.
        if off(&settings.ecn) != Some(true) || off(&settings.pfc) == Some(false) || counted {
            return None;
        }
        let subject = Subject::of_port(&port);
        let message = format!(
            "{} of {subject} has neither PFC nor ECN on any priority",
            netdev.name
        );
        let directory = format!("/sys/class/net/{}", netdev.name);
        let mut finding = Draft::new(&ROCE_FLOW_CONTROL, subject, message)
            .evidence(format!("{directory}/ecn/roce_{{np,rp}}/enable/*"), 0);
        if off(&settings.pfc) == Some(true) {
            finding = finding.evidence(format!("{directory}/qos/pfc"), "no priority");
        }
        Some(finding)
    });
    found.collect()
}
