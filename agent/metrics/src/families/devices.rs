//! RDMA devices.

use rdma_health_node::{
    Fact, Node,
    infiniband::{Guid, Hca},
    node::VerbsDevice,
};

use super::text;
use crate::table::{Labelled, Samples, table};

table! {
    /// Families of each RDMA device.
    DEVICES {"device"}: &Hca;

    Gauge "rdma_device_info" [""] {"driver", "firmware", "board_id", "hca_type", "node_type", "node_guid", "system_image_guid", "pci_address", "physical_function", "parent_netdev"}
        "An RDMA device. physical_function is only set for virtual functions, parent_netdev only for software devices."
        => samples(|hca, samples| info(hca, samples));
    Gauge "rdma_device_numa_node" [""] {}
        "NUMA node of an RDMA device."
        => value(|hca| hca.numa_node.known().copied());
}

table! {
    /// Families of each device that libibverbs reports.
    VERBS {"device"}: &VerbsDevice;

    Gauge "rdma_device_verbs_usable" [""] {}
        "Whether libibverbs can open and query an RDMA device."
        => value(|device| Some(matches!(device, VerbsDevice::Device(_))));
    Gauge "rdma_device_max_memory_region_bytes" ["bytes"] {}
        "Largest memory region that an RDMA device can register, in bytes."
        => value(|device| match device {
            VerbsDevice::Device(device) => Some(device.max_mr_size),
            VerbsDevice::Error(_) => None,
        });
}

/// Every RDMA device.
pub(crate) fn devices(node: &Node) -> Vec<Labelled<&Hca>> {
    let devices = node.hcas().map(|hca| &**hca);
    devices.map(|hca| DEVICES.labelled(&[&hca.name], hca)).collect()
}

/// Every device that libibverbs reports, where it was asked.
pub(crate) fn verbs(node: &Node) -> Vec<Labelled<&VerbsDevice>> {
    let devices = node.verbs.known().into_iter().flat_map(|devices| devices.iter());
    devices
        .map(|(name, device)| VERBS.labelled(&[name], device))
        .collect()
}

fn info(hca: &Hca, samples: &mut Samples<'_, '_, 10>) {
    let guid = |guid: &Fact<Guid>| guid.known().map_or(String::new(), Guid::to_string);
    let (node_guid, system_image_guid) = (guid(&hca.node_guid), guid(&hca.system_image_guid));
    samples.info([
        text(&hca.driver),
        text(&hca.firmware),
        text(&hca.board_id),
        text(&hca.hca_type),
        text(&hca.node_type),
        &node_guid,
        &system_image_guid,
        text(&hca.pci_address),
        text(&hca.physical_function),
        text(&hca.parent_netdev),
    ]);
}
