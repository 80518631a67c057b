//! Writes what is known about devices and ports, counters apart.

use std::collections::BTreeMap;

use rdma_health_node::{
    Fact, Node,
    infiniband::{Guid, Netdev, Port},
    node::VerbsDevice,
};
use rdma_health_protocol::{GidType, Port as VerbsPort};

use super::{
    catalogue::ports as family,
    facts::text,
    sink::{PortLabels, Sink},
};

/// A port and its labels, ready to be written.
pub(super) struct Labelled<'a> {
    pub(super) labels: PortLabels,
    pub(super) port: &'a Port,
    verbs: Option<&'a VerbsPort>,
}

/// Every port in order of device and number.
pub(super) fn list(node: &Node) -> Vec<Labelled<'_>> {
    let mut ports = Vec::new();
    for hca in node.hcas() {
        let verbs = node.verbs_device(&hca.name);
        for (number, port) in &hca.ports {
            ports.push(Labelled {
                labels: PortLabels::new(&hca.name, *number),
                port,
                verbs: verbs.and_then(|device| device.ports.iter().find(|port| port.number == *number)),
            });
        }
    }
    ports
}

pub(super) fn write(node: &Node, ports: &[Labelled<'_>], sink: &mut Sink<'_>) {
    devices(node, sink);
    let mut info = sink.family(&family::PORT_INFO);
    for at in ports {
        let netdev = at.port.netdev.known().map_or("", |netdev| &netdev.name);
        info.port_and_two(&at.labels, [text(&at.port.link_layer), netdev], 1_u8);
    }
    let mut each = |family, value: &dyn Fn(&Labelled<'_>) -> Option<u64>| {
        let mut series = sink.family(family);
        for at in ports {
            if let Some(value) = value(at) {
                series.port(&at.labels, value);
            }
        }
    };
    each(&family::PORT_STATE, &|at| {
        Some(at.port.state.known()?.code.into())
    });
    each(&family::PORT_PHYSICAL_STATE, &|at| {
        Some(at.port.phys_state.known()?.code.into())
    });
    each(&family::PORT_RATE, &|at| {
        Some(at.port.rate.known()?.bits_per_second / 8)
    });
    each(&family::PORT_LANES, &|at| {
        at.port.rate.known()?.lanes.map(u64::from)
    });
    each(&family::PORT_LID, &|at| {
        at.port.lid.known().copied().map(u64::from)
    });
    each(&family::PORT_SM_LID, &|at| {
        at.port.sm_lid.known().copied().map(u64::from)
    });
    mtus(ports, sink);
    gids(ports, sink);
    netdevs(ports, sink);
}

fn devices(node: &Node, sink: &mut Sink<'_>) {
    sink.single(&family::DEVICES, node.hcas.known().map(BTreeMap::len));
    let mut info = sink.family(&family::DEVICE_INFO);
    for hca in node.hcas() {
        let guid = |guid: &Fact<Guid>| guid.known().map_or(String::new(), Guid::to_string);
        let (node_guid, system_guid) = (guid(&hca.node_guid), guid(&hca.system_image_guid));
        let labels = [
            &hca.name,
            text(&hca.driver),
            text(&hca.firmware),
            text(&hca.board_id),
            text(&hca.hca_type),
            text(&hca.node_type),
            &node_guid,
            &system_guid,
            text(&hca.pci_address),
            text(&hca.physical_function),
            text(&hca.parent_netdev),
        ];
        info.sample(labels, 1_u8);
    }
    let mut numa = sink.family(&family::DEVICE_NUMA);
    for hca in node.hcas() {
        if let Some(node) = hca.numa_node.known() {
            numa.sample([&hca.name], *node);
        }
    }
    let Some(verbs) = node.verbs.known() else {
        return;
    };
    let mut usable = sink.family(&family::DEVICE_VERBS);
    for (name, device) in verbs.iter() {
        usable.sample([name], matches!(device, VerbsDevice::Device(_)));
    }
    let mut max_mr = sink.family(&family::DEVICE_MAX_MR);
    for (name, device) in verbs.iter() {
        if let VerbsDevice::Device(device) = device {
            max_mr.sample([name], device.max_mr_size);
        }
    }
}

fn mtus(ports: &[Labelled<'_>], sink: &mut Sink<'_>) {
    let mut series = sink.family(&family::PORT_MTU);
    for at in ports {
        let verbs = |mtu: fn(&VerbsPort) -> u32| at.verbs.map(mtu).filter(|mtu| *mtu > 0);
        let netdev = at
            .port
            .netdev
            .known()
            .and_then(|netdev| netdev.mtu.known().copied());
        let all = [
            ("active", verbs(|port| port.active_mtu)),
            ("max", verbs(|port| port.max_mtu)),
            ("netdev", netdev),
        ];
        for (kind, mtu) in all {
            if let Some(mtu) = mtu {
                series.port_and(&at.labels, kind, mtu);
            }
        }
    }
}

fn gids(ports: &[Labelled<'_>], sink: &mut Sink<'_>) {
    let mut series = sink.family(&family::PORT_GIDS);
    for at in ports {
        let Some(verbs) = at.verbs else {
            continue;
        };
        // A type that the link layer cannot have is left out; one that it can have and has not is 0.
        let types: &[GidType] = match verbs.link_layer {
            1 => &[GidType::Ib],
            2 => &[GidType::RoceV1, GidType::RoceV2],
            _ => &[GidType::Ib, GidType::RoceV1, GidType::RoceV2],
        };
        for kind in types {
            let count = verbs.gids.iter().filter(|gid| gid.kind == *kind).count();
            series.port_and(&at.labels, kind.name(), count);
        }
    }
    let mut series = sink.family(&family::PORT_GID_TABLE);
    for at in ports {
        if let Some(verbs) = at.verbs {
            series.port(&at.labels, verbs.gid_table_len);
        }
    }
    let mut series = sink.family(&family::PORT_GID_INDEX);
    for at in ports {
        let wanted = |gid: &&rdma_health_protocol::Gid| gid.kind == GidType::RoceV2 && gid.is_ipv4_mapped();
        if let Some(gid) = at.verbs.and_then(|verbs| verbs.gids.iter().find(wanted)) {
            series.port(&at.labels, gid.index);
        }
    }
}

fn netdevs(ports: &[Labelled<'_>], sink: &mut Sink<'_>) {
    let known: Vec<(&PortLabels, &Netdev)> = ports
        .iter()
        .filter_map(|at| Some((&at.labels, at.port.netdev.known()?)))
        .collect();
    let mut series = sink.family(&family::NETDEV_ADMIN_UP);
    for (labels, netdev) in &known {
        if let Some(up) = netdev.admin_up.known() {
            series.port(labels, *up);
        }
    }
    let mut series = sink.family(&family::NETDEV_OPERSTATE);
    for (labels, netdev) in &known {
        if let Some(state) = netdev.operstate.known() {
            series.port_and(labels, state, 1_u8);
        }
    }
    let mut series = sink.family(&family::NETDEV_CARRIER);
    for (labels, netdev) in &known {
        if let Some(ups) = netdev.carrier_ups.known() {
            series.port(labels, *ups);
        }
    }
}
