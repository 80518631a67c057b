//! Pods with RDMA functions.

use rdma_health_node::{Node, pods::Allocation};

use crate::table::{Labelled, table};

/// The most functions of pods that are exposed; beyond any node, and a bound on what a kubelet can make of a scrape.
const MAX_ALLOCATIONS: usize = 512;

table! {
    /// Families of each RDMA function that a container was given.
    PODS {"device", "pci_address", "physical_function", "resource", "namespace", "pod", "container"}: Allocation<'_>;

    Gauge "rdma_device_pod_info" [""] {}
        "A container that was given an RDMA function, as the kubelet reports it; always 1. device is empty if the RDMA device is in the pod's network namespace. At most 512."
        => value(|_| Some(1_u64));
}

/// The RDMA functions of containers, in order of address.
pub(crate) fn pods(node: &Node) -> Vec<Labelled<Allocation<'_>>> {
    let allocations = node.allocations().into_iter().take(MAX_ALLOCATIONS);
    allocations
        .map(|one| {
            let values = [
                one.device.unwrap_or_default(),
                one.address,
                one.physical_function.unwrap_or_default(),
                one.resource,
                one.container.namespace,
                one.container.pod,
                one.container.container,
            ];
            PODS.labelled(&values, one)
        })
        .collect()
}
