//! The catalogue of all families, as a page and as text.

mod markdown;

use rdma_health_instrument::{Entry, Group};

use super::families::{
    agent, counters, devices, drivers, kernel_log, links, node, node_exporter, optics, pci, pods, ports,
    priorities, probes, process, verdict,
};

pub use markdown::{markdown, text};

/// Every family, group by group. `counted` are those of the parts of the agent that count as things happen.
pub fn groups(counted: &[&'static Entry]) -> Vec<Group> {
    fn group(
        title: &'static str,
        note: &'static str,
        entries: impl Iterator<Item = &'static Entry>,
    ) -> Group {
        Group {
            title,
            note,
            entries: entries.collect(),
        }
    }
    let pci = pci::IOMMU_GROUPS.entries().chain(pci::FUNCTIONS.entries());
    vec![
        group(
            "Node, IOMMU, kernel modules, PCI and limits",
            pci::NOTE,
            node::NODE.entries().chain(pci).chain(pci::SRIOV.entries()),
        ),
        group(
            "Devices and ports",
            ports::NOTE,
            devices::DEVICES
                .entries()
                .chain(devices::VERBS.entries())
                .chain(pods::PODS.entries())
                .chain(kernel_log::EVENTS.entries())
                .chain(ports::PORTS.entries())
                .chain(links::LINKS.entries())
                .chain(links::NEIGHBOURS.entries())
                .chain(drivers::DRIVERS.entries())
                .chain(links::REPORTERS.entries())
                .chain(links::FIRMWARE.entries())
                .chain(optics::MODULES.entries())
                .chain(optics::LANES.entries())
                .chain(priorities::PRIORITIES.entries())
                .chain(priorities::VIRTUAL_FUNCTIONS.entries())
                .chain(priorities::NEIGHBOURS.entries())
                .chain(priorities::OBJECTS.entries())
                .chain(priorities::OPTIONAL.entries())
                .chain(priorities::SUBSYSTEM.entries()),
        ),
        group("Port counters", counters::NOTE, counters::entries()),
        group(
            "Verdict, findings and probes",
            verdict::NOTE,
            verdict::VERDICT
                .entries()
                .chain(verdict::EXPLAINED.entries())
                .chain(probes::PROBES.entries())
                .chain(probes::SKIPPED.entries())
                .chain(probes::BASELINES.entries()),
        ),
        group(
            "The agent itself",
            agent::NOTE,
            agent::PROGRAM
                .entries()
                .chain(agent::READING.entries())
                .chain(agent::SOURCES.entries())
                .chain(counted.iter().copied())
                .chain(process::PROCESS.entries()),
        ),
        group(
            "Under the names of the Prometheus node exporter",
            node_exporter::NOTE,
            node_exporter::DEVICES
                .entries()
                .chain(node_exporter::PORTS.entries())
                .chain(counters::legacy()),
        ),
    ]
}
