//! Adapters that wait for PCIe.

use rdma_health_node::{
    Node,
    drivers::{STALLED_READ_SECONDS, STALLED_WRITE_SECONDS},
    netdev::counters::{PCI_STALLED_READ, PCI_STALLED_WRITE},
};

use super::compared::{TIMES, compared, link_total, per_second_of_link, percent};
use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
};

/// The share of time from which waits are reported if the equal ports wait less.
const OFTEN: f64 = 0.1;
/// The share from which they are reported whatever the equal ports do.
const MOSTLY: f64 = 0.5;

/// `pci-stalled`.
pub static PCI_STALLED: Rule = Rule {
    id: "pci-stalled",
    domain: Domain::Pci,
    policy: Policy::of(Severities::WARNING.tcp_only(Severity::Info)),
    title: "An adapter often waits for PCIe",
    explanation: "The adapter had reads or writes of memory to do, but no PCIe credits, for more than 30 % of a second \
        (outbound_pci_stalled_rd_events and outbound_pci_stalled_wr_events of mlx5, \
        Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst), in more than a tenth of all seconds and ten times \
        as often as the equal ports of the node, or in more than half of all seconds. So the PCIe link or what is behind it is too slow for \
        the traffic: a degraded link, translated DMA addresses, memory of another NUMA node, or a processor that saves power. \
        Bandwidth drops, and a receiving port sends pause frames.",
    remedy: Remedy {
        any: "Look at the findings about IOMMU and PCIe of this node first. Then compare the PCIe link of the adapter, its maximum read request, \
            relaxed ordering and the NUMA node of its jobs with those of an equal port.",
        host: "ethtool -S NETDEV | grep -e outbound_pci -e discards; lspci -vv -s ADDRESS | grep -e LnkSta -e MaxReadReq; setpci and the BIOS: \
            relaxed ordering",
        ..Remedy::all("")
    },
    false_alarms: "No source publishes how many such seconds are too many, so up to half of all seconds a port is compared with at least two \
        equal ports; without those, a tenth is enough. Silent without an earlier reading, and for drivers that do not count (other than mlx5).",
    inputs: &[Writer::Hardware, Writer::Agent, Writer::Job],
    judge: pci_stalled,
};

fn pci_stalled(node: &Node, _: &Expectations) -> Vec<Draft> {
    let directions = [
        (PCI_STALLED_READ, STALLED_READ_SECONDS, "read"),
        (PCI_STALLED_WRITE, STALLED_WRITE_SECONDS, "write"),
    ];
    let found = directions.into_iter().flat_map(|(counter, name, verb)| {
        // Seconds in which it waited, per second.
        let shares = compared(node, |cable| per_second_of_link(node, cable, counter));
        shares.into_values().filter_map(move |of| {
            let is_unusual = of.usual.is_none_or(|usual| of.value > TIMES * usual);
            if of.value <= OFTEN || (!is_unusual && of.value <= MOSTLY) {
                return None;
            }
            let subject = Subject::of_port(&of.cable.port);
            let netdev = of.cable.netdev?;
            let address = of.cable.port.hca.pci_address.known().map_or("", String::as_str);
            let equals = of.usual.map_or(String::new(), |usual| {
                format!(", median of equal ports {:.0} %", percent(usual))
            });
            let message = format!(
                "{} waits for PCIe to {verb} memory in {:.0} % of all seconds{equals}",
                of.cable,
                percent(of.value)
            );
            Some(
                Draft::new(&PCI_STALLED, subject, message)
                    .fill("NETDEV", netdev)
                    .fill("ADDRESS", address)
                    .evidence(
                        format!("ethtool -S {netdev}: {name}"),
                        link_total(node, &of.cable, counter)?,
                    ),
            )
        })
    });
    found.collect()
}
