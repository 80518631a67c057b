//! Ports of a fabric that routes IPv6 only.

use rdma_health_node::Port;

use crate::Remedy;

/// What to do about a port without an address where its equals have IPv6 addresses.
pub(super) const RESTORE_V6: Remedy = Remedy {
    any: "Give NETDEV its routed IPv6 address again, as the equal ports have: by router advertisements or DHCPv6 of the switch port, or in the configuration of \
        the network manager. A link-local address (fe80::) is not enough.",
    host: "ip -6 addr show NETDEV; sysctl net.ipv6.conf.NETDEV.disable_ipv6; ip -6 addr add IP_ADDRESS/PREFIX_LENGTH dev NETDEV",
    ..Remedy::all("")
};

/// What to do about a port that has routed GIDs of IPv6 only, as its equals do.
pub(super) const USE_V6: Remedy = Remedy {
    any: "GIDs of IPv6 work if all nodes use them and jobs select them: with NCCL, set NCCL_IB_ADDR_FAMILY=AF_INET6 (2.21 or later), otherwise the \
        index of such a GID (NCCL_IB_GID_INDEX, UCX_IB_GID_INDEX). Only programs that know IPv4 alone need an IPv4 address on NETDEV.",
    host: "show_gids; ip -6 addr show NETDEV",
    ..Remedy::all("")
};

/// What is wrong with such a port, with the share of the equal ports that have a GID.
pub(super) fn words(port: &Port<'_>, share: Option<&String>) -> String {
    let netdev = port.netdev.known().map_or_else(String::new, |netdev| {
        format!(" ({} has no routed IPv6 address)", netdev.name)
    });
    let others = share.map_or_else(
        || "other ports have an IPv6 one".to_owned(),
        |share| format!("{share} equal ports have an IPv6 one"),
    );
    format!("{port} has no routed RoCE v2 GID{netdev}; {others}")
}
