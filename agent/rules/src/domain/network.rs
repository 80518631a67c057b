//! The host's network below RoCE.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use rdma_health_node::{Fact, Node};

use super::common::{is_ethernet, severity};
use crate::{Domain, Expectations, Finding, Remedy, Rule, Severity, Subject};

/// `same-subnet-arp`.
pub(crate) static SAME_SUBNET_ARP: Rule = Rule {
    id: "same-subnet-arp",
    domain: Domain::Network,
    severity: Severity::Warning,
    title: "Several RDMA network devices are in one subnet, and ARP is not set for it",
    explanation: "Linux answers an ARP request for any of its addresses on any device (arp_ignore 0) and asks with any of them \
        (arp_announce 0). With several devices in one subnet, peers then learn one device's hardware address for another's IP \
        address: RDMA connections reach the wrong port, run over one port only, or end with IBV_WC_RETRY_EXC_ERR(12). A strict \
        rp_filter (1) alone drops rdma_cm's packets that come in by another device than answers go out; it is for information.",
    remedy: Remedy {
        any: "Set net.ipv4.conf.all.arp_ignore=1 and net.ipv4.conf.all.arp_announce=2, and rp_filter to 2 (loose) or 0 for these \
            devices, or give each device a subnet of its own (/31 links are usual).",
        openshift: "With the Node Tuning Operator: a Tuned profile with a [sysctl] section; or a MachineConfig that writes \
            /etc/sysctl.d/90-rdma.conf.",
        kubernetes: "A file in /etc/sysctl.d on each node; the tuning CNI plugin for pods.",
        host: "sysctl -w, and a file in /etc/sysctl.d so that it survives a reboot.",
    },
    false_alarms: "Only network devices of active RoCE ports count. Devices of a bond are no devices of their own here. Silent \
        where the settings cannot be seen from the network namespace that we are in.",
    judge: same_subnet_arp,
};

fn same_subnet_arp(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let ours: BTreeSet<&str> = node
        .active_ports()
        .filter(|(.., port)| is_ethernet(port))
        .filter_map(|(.., port)| Some(port.netdev.known()?.name.as_str()))
        .collect();
    let mut subnets: BTreeMap<(Ipv4Addr, u8), Vec<&str>> = BTreeMap::new();
    for subnet in node.network.subnets.known().into_iter().flatten() {
        if ours.contains(subnet.netdev.as_str()) {
            subnets
                .entry((subnet.address, subnet.prefix))
                .or_default()
                .push(&subnet.netdev);
        }
    }
    let shared = subnets.into_iter().filter(|(_, netdevs)| netdevs.len() > 1);
    let found = shared.filter_map(|((address, prefix), netdevs)| {
        let mut wrong: Vec<(String, u32)> = Vec::new();
        let mut grave = false;
        for netdev in &netdevs {
            let Some(settings) = node.network.netdevs.get(*netdev) else {
                continue;
            };
            let (all, own) = (&node.network.all, &settings.arp);
            // Of the two settings the kernel takes the larger.
            let effective = |all: &Fact<u32>, own: &Fact<u32>| Some(*own.known()?.max(all.known()?));
            let file = |name: &str| format!("/proc/sys/net/ipv4/conf/{{all,{netdev}}}/{name}");
            if let Some(0) = effective(&all.arp_ignore, &own.arp_ignore) {
                wrong.push((file("arp_ignore"), 0));
                grave = true;
            }
            if let Some(0) = effective(&all.arp_announce, &own.arp_announce) {
                wrong.push((file("arp_announce"), 0));
                grave = true;
            }
            if let Some(1) = effective(&all.rp_filter, &own.rp_filter) {
                wrong.push((file("rp_filter"), 1));
            }
        }
        if wrong.is_empty() {
            return None;
        }
        let auto = if grave { Severity::Warning } else { Severity::Info };
        let severity = severity(expectations, auto, auto)?;
        let names: BTreeSet<&str> = wrong
            .iter()
            .filter_map(|(file, _)| file.rsplit('/').next())
            .collect();
        let names: Vec<_> = names.into_iter().collect();
        let message = format!(
            "{} are in one subnet, {address}/{prefix}, and {} not set for it",
            netdevs.join(", "),
            if names.len() == 1 {
                format!("{} is", names[0])
            } else {
                format!("{} are", names.join(", "))
            }
        );
        let mut finding = Finding::new(&SAME_SUBNET_ARP, Subject::device(netdevs[0]), message)
            .severity(severity)
            .evidence(
                &node.network.source,
                format!("{address}/{prefix} on {}", netdevs.join(", ")),
            );
        for (file, value) in wrong.into_iter().take(6) {
            finding = finding.evidence(file, value);
        }
        Some(finding)
    });
    found.collect()
}

/// `roce-flow-control`.
pub(crate) static ROCE_FLOW_CONTROL: Rule = Rule {
    id: "roce-flow-control",
    domain: Domain::Network,
    severity: Severity::Info,
    title: "Neither PFC nor ECN is configured for RoCE",
    explanation: "RoCE suffers from lost packets more than TCP. Priority flow control (PFC) keeps switches from dropping them, \
        explicit congestion notification (ECN, DCQCN) keeps senders from overrunning them. With neither, bandwidth collapses \
        under congestion: look for port_xmit_discards, out_of_sequence and roce_slow_restart.",
    remedy: Remedy {
        any: "Configure the lossless priority on adapter and switch alike; they must agree.",
        host: "mlnx_qos -i NETDEV --pfc 0,0,0,1,0,0,0,0 --trust dscp; echo 1 > /sys/class/net/NETDEV/ecn/roce_np/enable/3 and \
            roce_rp/enable/3; cma_roce_tos -d DEVICE -t 106.",
        ..Remedy::all("")
    },
    false_alarms: "Only MLNX_OFED and DOCA tell these settings through sysfs; elsewhere the rule is silent. Adapters and switches \
        can also be set for lossy RoCE, which needs neither. Congestion packets that were counted show that ECN is at work.",
    judge: roce_flow_control,
};

fn roce_flow_control(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(severity) = severity(expectations, Severity::Info, Severity::Info) else {
        return Vec::new();
    };
    let found = node.active_ports().filter_map(|(hca, number, port)| {
        let netdev = port
            .netdev
            .known()
            .filter(|_| is_ethernet(port) && !hca.is_software())?;
        let settings = node.network.netdevs.get(&netdev.name)?;
        let off = |fact: &Fact<Vec<u8>>| fact.known().map(Vec::is_empty);
        let counted = port.hw_counters.iter().any(|counter| {
            matches!(&*counter.name, "np_cnp_sent" | "rp_cnp_handled")
                && counter.value.known().is_some_and(|n| *n > 0)
        });
        // ECN known to be off, PFC off or not told.
        if off(&settings.ecn) != Some(true) || off(&settings.pfc) == Some(false) || counted {
            return None;
        }
        let subject = Subject::port(&hca.name, number);
        let message = format!(
            "{} of {subject} has neither PFC nor ECN on any priority",
            netdev.name
        );
        let directory = format!("/sys/class/net/{}", netdev.name);
        let mut finding = Finding::new(&ROCE_FLOW_CONTROL, subject, message)
            .severity(severity)
            .evidence(format!("{directory}/ecn/roce_{{np,rp}}/enable/*"), 0);
        if off(&settings.pfc) == Some(true) {
            finding = finding.evidence(format!("{directory}/qos/pfc"), "no priority");
        }
        Some(finding)
    });
    found.collect()
}
