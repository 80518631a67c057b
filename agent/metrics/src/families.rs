//! Every family that is written from a view: a file for each subject, a row for each family.

pub(crate) mod agent;
pub(crate) mod counters;
pub(crate) mod devices;
pub(crate) mod kernel_log;
pub(crate) mod links;
pub(crate) mod node;
pub(crate) mod node_exporter;
pub(crate) mod pci;
pub(crate) mod ports;
pub(crate) mod probes;
pub(crate) mod process;
pub(crate) mod verdict;

use rdma_health_node::Fact;

/// The text of a fact. Without one it is empty, which is the same as no label to Prometheus.
fn text(fact: &Fact<String>) -> &str {
    fact.known().map_or("", String::as_str)
}
