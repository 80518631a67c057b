//! Ports, except for their counters.

use rdma_health_node::{Node, Port, infiniband::Netdev};
use rdma_health_protocol::{GidType, LinkLayer, Port as VerbsPort};

use crate::table::{Labelled, Samples, table};

pub(crate) const NOTE: &str = "Device names may change at a reboot; `pci_address` of `rdma_device_info` does not. GIDs are \
    counted but not listed.";

table! {
    /// Families of each port.
    PORTS {"device", "port"}: Port<'_>;

    Gauge "rdma_port_link_info" [""] {"link_layer", "netdev"}
        "Link layer (InfiniBand or Ethernet) and network device of a port."
        => samples(|port, samples| {
            let layer = port.link_layer.known().map_or("", LinkLayer::name);
            samples.info([layer, netdev(port).map_or("", |netdev| &netdev.name)]);
        });
    Gauge "rdma_port_state_id" [""] {}
        "Logical state of a port (1: down, 2: init, 3: armed, 4: active, 5: active, deferred)."
        => value(|port| Some(port.state.known()?.code));
    Gauge "rdma_port_physical_state_id" [""] {}
        "Physical state of a port (1: sleep, 2: polling, 3: disabled, 4: training, 5: link up, 6: error recovery, 7: test)."
        => value(|port| Some(port.phys_state.known()?.code));
    Gauge "rdma_port_rate_bytes_per_second" ["bytes/s"] {}
        "Signaling rate of a port in bytes per second."
        => value(|port| Some(port.rate.known()?.bits_per_second / 8));
    Gauge "rdma_port_lanes" ["lanes"] {}
        "Number of lanes that the link of a port uses."
        => value(|port| port.rate.known()?.lanes);
    Gauge "rdma_port_lid" [""] {}
        "Local identifier (LID) of an InfiniBand port."
        => value(|port| port.lid.known().copied());
    Gauge "rdma_port_sm_lid" [""] {}
        "LID of the subnet manager; 0 if the subnet has none."
        => value(|port| port.sm_lid.known().copied());
    Gauge "rdma_port_mtu_bytes" ["bytes"] {"kind"}
        "MTU of a port in bytes: kind is active or max for RDMA, netdev for the network device."
        => samples(|port, samples| mtus(port, samples));
    Gauge "rdma_port_gids" [""] {"type"}
        "Number of GID table entries in use, by type: IB, RoCE v1 or RoCE v2."
        => samples(|port, samples| gids(port, samples));
    Gauge "rdma_port_gid_table_entries" [""] {}
        "Size of the GID table of a port in entries."
        => value(|port| Some(port.verbs?.gid_table_len));
    Gauge "rdma_port_roce_v2_ipv4_gid_index" [""] {}
        "Index of the RoCE v2 GID that connections over a port should use: of an IPv4 address, on the network device of the port rather than a VLAN. One NCCL_IB_GID_INDEX must match every device."
        => value(|port| Some(port.routable_gid()?.index));
    Gauge "rdma_port_netdev_admin_up" [""] {}
        "Whether the network device of a port is set up by the administrator (ip link set up)."
        => value(|port| netdev(port)?.admin_up.known().copied());
    Gauge "rdma_port_netdev_operstate_info" [""] {"operstate"}
        "Operational state of the network device of a port (RFC 2863)."
        => samples(|port, samples| {
            if let Some(state) = netdev(port).and_then(|netdev| netdev.operstate.known()) {
                samples.info([state]);
            }
        });
    Counter "rdma_port_netdev_carrier_ups_total" [""] {}
        "Number of times the network device of a port gained a carrier."
        => value(|port| netdev(port)?.carrier_ups.known().copied());
}

/// Every port, in order of device and number.
pub(crate) fn ports(node: &Node) -> Vec<Labelled<Port<'_>>> {
    let ports = node.ports();
    ports
        .map(|port| PORTS.labelled(&[&port.hca.name, itoa::Buffer::new().format(port.number)], port))
        .collect()
}

fn netdev<'a>(port: &Port<'a>) -> Option<&'a Netdev> {
    port.kernel.netdev.known()
}

fn mtus(port: &Port<'_>, samples: &mut Samples<'_, '_, 1>) {
    let verbs = |mtu: fn(&VerbsPort) -> u32| port.verbs.map(mtu).filter(|mtu| *mtu > 0);
    let all = [
        ("active", verbs(|port| port.active_mtu)),
        ("max", verbs(|port| port.max_mtu)),
        (
            "netdev",
            netdev(port).and_then(|netdev| netdev.mtu.known().copied()),
        ),
    ];
    for (kind, mtu) in all {
        if let Some(mtu) = mtu {
            samples.add([kind], mtu);
        }
    }
}

/// A type that the link layer cannot have is left out; one that it can have but does not is 0.
fn gids(port: &Port<'_>, samples: &mut Samples<'_, '_, 1>) {
    let Some(gids) = port.gids() else {
        return;
    };
    let types: &[GidType] = if port.is_infiniband() {
        &[GidType::Ib]
    } else if port.is_ethernet() {
        &[GidType::RoceV1, GidType::RoceV2]
    } else {
        &[GidType::Ib, GidType::RoceV1, GidType::RoceV2]
    };
    for kind in types {
        let count = gids.iter().filter(|gid| gid.kind == *kind).count();
        samples.add([kind.name()], count);
    }
}
