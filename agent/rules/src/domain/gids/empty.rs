//! Active RoCE ports whose GID table has no entry at all.

use rdma_health_node::Port;

use crate::Remedy;

/// What such a port shows. An active port has at least the GIDs of the MAC address of its network device.
pub(super) fn words(port: &Port<'_>) -> String {
    let netdev = match port.netdev.known() {
        Some(netdev) => format!("although {} belongs to it", netdev.name),
        None => "and no network device of it is in this network namespace".to_owned(),
    };
    format!("{port} is ACTIVE, but its GID table is empty, {netdev}: no program can use RoCE on it")
}

/// What to do about an empty table.
pub(super) const FIND_NETDEV: Remedy = Remedy {
    any: "Look at the network namespace first: a GID comes from the network device of the port, and a pod without hostNetwork, or a container with its own \
        network, has the RDMA device of the node without that network device. Give the pod the network device together with the RDMA device \
        (SR-IOV, host-device or macvlan network), or run it with hostNetwork. On the node itself, look for the network device and set it up.",
    host: "ls /sys/class/infiniband/DEVICE/device/net; ip -br link; ip netns list; rdma link show; rdma system show",
    ..Remedy::all("")
};
