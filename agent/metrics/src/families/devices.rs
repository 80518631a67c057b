//! RDMA devices.

use rdma_health_node::{
    Fact, Node,
    infiniband::{Guid, Hca},
    node::VerbsDevice,
    pci,
};

use super::text;
use crate::table::{Labelled, Samples, table};

table! {
    /// Families of each RDMA device.
    DEVICES {"device"}: Device<'_>;

    Gauge "rdma_device_info" [""] {"model", "firmware", "driver", "rail", "slot", "pci_address", "numa_node", "physical_function", "board_id", "hca_type", "node_type", "node_guid", "system_image_guid", "parent_netdev"}
        "An RDMA device. model is what engineers call it (ConnectX-7), slot the physical slot that the firmware names, rail its number among the adapters that serve the GPUs, in the order of PCI addresses from 0. A virtual function has those of its physical function, which physical_function names; parent_netdev is only set for software devices."
        => samples(|device, samples| info(device, samples));
    Gauge "rdma_device_numa_node" [""] {}
        "NUMA node of an RDMA device."
        => value(|device| device.hca.numa_node.known().copied());
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

/// One RDMA device, with what the rest of the node says of it.
pub(crate) struct Device<'a> {
    pub(crate) hca: &'a Hca,
    model: Option<&'static str>,
    /// The function with its PCIe link.
    function: Option<&'a pci::Function>,
    rail: Option<usize>,
}

/// Every RDMA device.
pub(crate) fn devices(node: &Node) -> Vec<Labelled<Device<'_>>> {
    let rails = node.rails();
    let devices = node.hcas().map(|hca| &**hca);
    devices
        .map(|hca| {
            let (address, function) = node.link_of(hca).unzip();
            let device = Device {
                hca,
                model: node.model(hca),
                function,
                rail: address.and_then(|address| rails.get(address).copied()),
            };
            DEVICES.labelled(&[&hca.name], device)
        })
        .collect()
}

/// Every device that libibverbs reports, where it was asked.
pub(crate) fn verbs(node: &Node) -> Vec<Labelled<&VerbsDevice>> {
    let devices = node.verbs.known().into_iter().flat_map(|devices| devices.iter());
    devices
        .map(|(name, device)| VERBS.labelled(&[name], device))
        .collect()
}

fn info(device: &Device<'_>, samples: &mut Samples<'_, '_, 14>) {
    let hca = device.hca;
    let rail = device.rail.map_or(String::new(), |rail| rail.to_string());
    let numa_node = hca.numa_node.known().map_or(String::new(), ToString::to_string);
    let slot = device.function.and_then(|function| function.slot.known());
    let guid = |guid: &Fact<Guid>| guid.known().map_or(String::new(), Guid::to_string);
    let (node_guid, system_image_guid) = (guid(&hca.node_guid), guid(&hca.system_image_guid));
    samples.info([
        device.model.unwrap_or_default(),
        text(&hca.firmware),
        text(&hca.driver),
        &rail,
        slot.map_or("", String::as_str),
        text(&hca.pci_address),
        &numa_node,
        text(&hca.physical_function),
        text(&hca.board_id),
        text(&hca.hca_type),
        text(&hca.node_type),
        &node_guid,
        &system_image_guid,
        text(&hca.parent_netdev),
    ]);
}
