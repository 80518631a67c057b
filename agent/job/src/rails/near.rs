//! Which NICs the GPUs of a node should use.

use rdma_health_node::{
    Node,
    infiniband::Hca,
    topology::{Path, Topology},
};

/// Why no GPU should use a device; `None` if one should, or if the node has no GPU whose distance to a NIC is known.
///
/// Of several NICs at the same distance a GPU uses the fastest. A NIC without a link counts as fast: its speed is not known. So
/// does one at an unknown distance count as near.
pub(super) fn far_from_gpus(node: &Node, topology: &Topology<'_>, hca: &Hca) -> Option<&'static str> {
    const FAR: &str = "not the nearest NIC of any GPU";
    let own = hca.pci_address.known().map(String::as_str);
    let mut why = None;
    for gpu in topology.gpus.iter().filter(|gpu| gpu.best_nic.is_some()) {
        let nearest = gpu.paths.iter().filter_map(|path| path.distance).min();
        let is_near = |path: &&Path<'_>| path.distance.is_none() || path.distance == nearest;
        let Some(near) = gpu
            .paths
            .iter()
            .filter(is_near)
            .find(|path| Some(path.nic) == own)
        else {
            why = why.or(Some(FAR));
            continue;
        };
        let all = gpu.paths.iter().filter(is_near);
        let fastest = all.filter_map(|path| speed(node, path.nic)).max();
        if speed(node, near.nic).is_none_or(|speed| Some(speed) == fastest) {
            return None;
        }
        why = Some("slower than another NIC at the same distance from the GPUs");
    }
    why
}

/// The rate of the fastest active port of a function, in bits per second.
fn speed(node: &Node, address: &str) -> Option<u64> {
    let ports = node.active_ports();
    let own = ports.filter(|port| port.hca.pci_address.known().is_some_and(|own| own == address));
    own.filter_map(|port| port.rate.known().map(|rate| rate.bits_per_second))
        .max()
}
