//! Every family that is written from a view: a file for each subject, a row for each family.

pub(crate) mod agent;
pub(crate) mod counters;
pub(crate) mod devices;
pub(crate) mod drivers;
pub(crate) mod kernel_log;
pub(crate) mod links;
pub(crate) mod node;
pub(crate) mod node_exporter;
pub(crate) mod optics;
pub(crate) mod pci;
pub(crate) mod pods;
pub(crate) mod ports;
pub(crate) mod priorities;
pub(crate) mod probes;
pub(crate) mod process;
pub(crate) mod verdict;

use rdma_health_node::Fact;

/// Families that do not change while the node runs, or that say more exactly what others say in short. No alert needs
/// them, and on a node with many PCI functions they are a third of all series.
pub(crate) const FIXED: &[&str] = &[
    "rdma_device_max_memory_region_bytes",
    "rdma_device_numa_node",
    "rdma_iommu_group_info",
    "rdma_kernel_module_info",
    "rdma_kernel_module_loaded",
    "rdma_pci_acs_redirect",
    "rdma_pci_function_info",
    "rdma_pci_link_best_speed_transfers_per_second",
    "rdma_pci_link_best_width_lanes",
    "rdma_pci_max_payload_bytes",
    "rdma_pci_max_read_request_bytes",
    "rdma_pci_numa_node",
    "rdma_pci_virtual_functions_possible",
    "rdma_port_gid_table_entries",
    "rdma_port_module_info",
];

/// The text of a fact. Without one it is empty, which is the same as no label to Prometheus.
fn text(fact: &Fact<String>) -> &str {
    fact.known().map_or("", String::as_str)
}
