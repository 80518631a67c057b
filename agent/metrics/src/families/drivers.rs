//! What network drivers count by names of their own.

use std::collections::BTreeMap;

use rdma_health_node::{
    Node,
    drivers::{Pause, STALLED_READ, STALLED_WRITE, pause},
};

use crate::table::{Labelled, table};

type Statistics = BTreeMap<String, u64>;

table! {
    /// Families of each port whose network driver has statistics that are used.
    DRIVERS {"device", "port"}: &Statistics;

    Counter "rdma_port_driver_statistic_total" [""] {"statistic"}
        "A statistic of the network driver of a port by its name in ethtool -S: waits for PCIe, drops, and pause frames, if there were any. The list is fixed; most drivers have only some of them."
        => samples(|statistics, samples| {
            for (name, value) in *statistics {
                let is_shown = match pause(name) {
                    Some(pause) => *value > 0 && (pause.priority.is_none() || !pause.is_duration),
                    None => ![STALLED_READ, STALLED_WRITE].contains(&name.as_str()),
                };
                if is_shown {
                    samples.add([name], *value);
                }
            }
        });
    Counter "rdma_port_priority_pause_seconds_total" ["seconds"] {"priority", "direction"}
        "Time for which pause frames of a priority stopped traffic, by direction of the frames (rx or tx), for priorities that were ever stopped."
        => samples(|statistics, samples| {
            for (name, value) in *statistics {
                if let Some(Pause { is_received, priority: Some(priority), is_duration: true }) = pause(name)
                    && *value > 0
                {
                    let direction = if is_received { "rx" } else { "tx" };
                    samples.add([itoa::Buffer::new().format(priority), direction], scaled(*value, 1e6));
                }
            }
        });
    Gauge "rdma_port_pci_stalled_ratio" [""] {"access"}
        "Share of the last second before the reading in which the adapter waited for PCIe credits, by access to memory: read or write."
        => samples(|statistics, samples| {
            for (access, name) in [("read", STALLED_READ), ("write", STALLED_WRITE)] {
                if let Some(percent) = statistics.get(name) {
                    samples.add([access], scaled(*percent, 100.0));
                }
            }
        });
}

#[expect(
    clippy::cast_precision_loss,
    reason = "microseconds of a few months, and percent"
)]
fn scaled(value: u64, by: f64) -> f64 {
    value as f64 / by
}

/// The ports with statistics, in order of device and number.
pub(crate) fn drivers(node: &Node) -> Vec<Labelled<&Statistics>> {
    let mut found = Vec::new();
    for port in node.ports() {
        if let Some(statistics) = node.driver_statistics(port.kernel) {
            let mut number = itoa::Buffer::new();
            let labels = [port.hca.name.as_str(), number.format(port.number)];
            found.push(DRIVERS.labelled(&labels, statistics));
        }
    }
    found
}
