//! Priority flow control, settings of virtual functions, neighbour tables and objects of devices, as netlink shows them.

use std::collections::BTreeMap;

use rdma_health_node::{
    Node,
    dcb::Bridging,
    interfaces::{Interface, VfLink},
    neighbours::Table,
    rdma::Namespaces,
};

use crate::table::{Labelled, table};

table! {
    /// Families of each port whose driver reports data center bridging.
    PRIORITIES {"device", "port"}: &Bridging;

    Gauge "rdma_port_pfc_enabled" [""] {"priority"}
        "Whether priority flow control is on, by priority."
        => samples(|bridging, samples| {
            if let Some(pfc) = &bridging.pfc {
                for priority in 0..8_u8 {
                    samples.add([itoa::Buffer::new().format(priority)], pfc.on.contains(&priority));
                }
            }
        });
    Counter "rdma_port_pfc_frames_total" [""] {"priority", "direction"}
        "Number of pause frames of priority flow control, by priority and direction (rx or tx); only for priorities with flow control or frames."
        => samples(|bridging, samples| {
            let Some(pfc) = &bridging.pfc else {
                return;
            };
            for (direction, frames) in [("rx", &pfc.received), ("tx", &pfc.sent)] {
                for (priority, frames) in (0_u8..8).zip(frames) {
                    if *frames > 0 || pfc.on.contains(&priority) {
                        samples.add([itoa::Buffer::new().format(priority), direction], *frames);
                    }
                }
            }
        });
    Gauge "rdma_port_dscp_values" [""] {"priority"}
        "Number of DSCP values that lead to a priority; none if the adapter sorts packets by their VLAN priority."
        => samples(|bridging, samples| {
            let mut values = BTreeMap::new();
            for priority in bridging.dscp.values() {
                *values.entry(*priority).or_insert(0_u64) += 1;
            }
            for (priority, count) in values {
                samples.add([itoa::Buffer::new().format(priority)], count);
            }
        });
}

table! {
    /// Families of each port with virtual functions.
    VIRTUAL_FUNCTIONS {"device", "port"}: &Interface;

    Gauge "rdma_port_virtual_functions_link_disabled" [""] {}
        "Number of virtual functions whose link the physical function holds down."
        => value(|interface| {
            let down = interface.vfs.iter().filter(|vf| vf.link_state == Some(VfLink::Disable));
            Some(down.count())
        });
    Gauge "rdma_port_virtual_functions_trusted" [""] {}
        "Number of virtual functions with trust on; missing if the driver has no such setting."
        => value(|interface| {
            let trust = interface.vfs.iter().filter_map(|vf| vf.trust);
            let trust: Vec<bool> = trust.collect();
            (!trust.is_empty()).then(|| trust.iter().filter(|on| **on).count())
        });
}

table! {
    /// Families of each neighbour table that RDMA uses.
    NEIGHBOURS {"table"}: &Table;

    Gauge "rdma_neighbour_entries" [""] {}
        "Number of entries of a neighbour table (arp_cache or ndisc_cache)."
        => value(|table| Some(table.entries));
    Gauge "rdma_neighbour_limit_entries" [""] {}
        "Number of entries from which a neighbour table takes no other one (gc_thresh3)."
        => value(|table| Some(table.limit));
    Counter "rdma_neighbour_overflows_total" [""] {}
        "Number of times an entry could not be added to a neighbour table."
        => value(|table| table.overflows);
}

table! {
    /// Families of each device with its objects.
    OBJECTS {"device"}: &BTreeMap<String, u64>;

    Gauge "rdma_device_objects" [""] {"kind"}
        "Number of objects of a device, by kind: qp (queue pairs), mr (memory regions), cq, pd, cm_id, ctx or srq (rdma resource show)."
        => samples(|objects, samples| {
            for (kind, count) in *objects {
                samples.add([kind], *count);
            }
        });
}

table! {
    /// Families of each port with optional counters that are on.
    OPTIONAL {"device", "port"}: &BTreeMap<String, u64>;

    Counter "rdma_port_optional_statistic_total" [""] {"counter"}
        "An optional counter of the driver that is on, by name (rdma statistic mode). sysfs has no file of it."
        => samples(|counters, samples| {
            for (name, value) in *counters {
                samples.add([name], *value);
            }
        });
}

table! {
    /// Families of the RDMA subsystem.
    SUBSYSTEM {}: Namespaces;

    Gauge "rdma_namespaces_exclusive" [""] {}
        "Whether a device belongs to one network namespace (rdma system show: netns exclusive), so that a pod sees only the devices that were moved into its namespace."
        => value(|mode| Some(*mode == Namespaces::Exclusive));
}

/// What netlink shows of ports.
pub(crate) fn priorities(node: &Node) -> Vec<Labelled<&Bridging>> {
    let mut found = Vec::new();
    for port in node.ports() {
        if let Some(bridging) = node.bridging(port.kernel) {
            let mut number = itoa::Buffer::new();
            let labels = [port.hca.name.as_str(), number.format(port.number)];
            found.push(PRIORITIES.labelled(&labels, bridging));
        }
    }
    found
}

/// The ports with virtual functions.
pub(crate) fn virtual_functions(node: &Node) -> Vec<Labelled<&Interface>> {
    let mut found = Vec::new();
    for port in node.ports() {
        if let Some(interface) = node
            .interface(port.kernel)
            .filter(|interface| !interface.vfs.is_empty())
        {
            let mut number = itoa::Buffer::new();
            let labels = [port.hca.name.as_str(), number.format(port.number)];
            found.push(VIRTUAL_FUNCTIONS.labelled(&labels, interface));
        }
    }
    found
}

/// The neighbour tables.
pub(crate) fn neighbours(node: &Node) -> Vec<Labelled<&Table>> {
    let tables = node.neighbours.tables.known().into_iter().flatten();
    tables
        .map(|(name, table)| NEIGHBOURS.labelled(&[name], table))
        .collect()
}

/// The objects of the devices of the node; those of excluded devices are left out.
pub(crate) fn objects(node: &Node) -> Vec<Labelled<&BTreeMap<String, u64>>> {
    let known = node.rdma.resources.known();
    node.hcas()
        .filter_map(|hca| Some(OBJECTS.labelled(&[&hca.name], known?.get(&hca.name)?)))
        .collect()
}

/// The optional counters of the ports of the node.
pub(crate) fn optional(node: &Node) -> Vec<Labelled<&BTreeMap<String, u64>>> {
    let known = node.rdma.optional_values.known();
    let mut found = Vec::new();
    for port in node.ports() {
        if let Some(values) = known.and_then(|known| known.get(&port.to_string())) {
            let mut number = itoa::Buffer::new();
            let labels = [port.hca.name.as_str(), number.format(port.number)];
            found.push(OPTIONAL.labelled(&labels, values));
        }
    }
    found
}

/// The subsystem.
pub(crate) fn subsystem(node: &Node) -> Vec<Labelled<Namespaces>> {
    let mode = node.rdma.namespaces.known().copied();
    mode.map(|mode| SUBSYSTEM.labelled(&[], mode))
        .into_iter()
        .collect()
}
