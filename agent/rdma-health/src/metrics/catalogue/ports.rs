//! Families about devices and ports, counters apart.

use super::families;

pub(super) const NOTE: &str = "Names of devices may change at a reboot; the PCI address in `rdma_device_info` does not. \
    GIDs are counted and never listed.";

families! {
    DEVICES: Gauge "rdma_devices" [""] {}
        "RDMA devices that are there and not excluded.";
    DEVICE_INFO: Gauge "rdma_device_info" [""] {"device", "driver", "firmware", "board_id", "hca_type", "node_type", "node_guid", "system_image_guid", "pci_address", "physical_function", "parent_netdev"}
        "An RDMA device. physical_function is set for virtual functions only, parent_netdev for software devices only.";
    DEVICE_NUMA: Gauge "rdma_device_numa_node" [""] {"device"}
        "NUMA node of an RDMA device.";
    DEVICE_VERBS: Gauge "rdma_device_verbs_usable" [""] {"device"}
        "Whether libibverbs can open and query the device.";
    DEVICE_MAX_MR: Gauge "rdma_device_max_memory_region_bytes" ["bytes"] {"device"}
        "Largest memory region that the device can register.";
    PORT_INFO: Gauge "rdma_port_info" [""] {"device", "port", "link_layer", "netdev"}
        "A port, its link layer (InfiniBand or Ethernet) and its network device.";
    PORT_STATE: Gauge "rdma_port_state_id" [""] {"device", "port"}
        "Logical state of a port (1: down, 2: init, 3: armed, 4: active, 5: active, deferred).";
    PORT_PHYSICAL_STATE: Gauge "rdma_port_physical_state_id" [""] {"device", "port"}
        "Physical state of a port (1: sleep, 2: polling, 3: disabled, 4: training, 5: link up, 6: error recovery, 7: test).";
    PORT_RATE: Gauge "rdma_port_rate_bytes_per_second" ["bytes/s"] {"device", "port"}
        "Signalling rate of a port.";
    PORT_LANES: Gauge "rdma_port_lanes" ["lanes"] {"device", "port"}
        "Lanes that a port's link uses.";
    PORT_LID: Gauge "rdma_port_lid" [""] {"device", "port"}
        "Local identifier of an InfiniBand port.";
    PORT_SM_LID: Gauge "rdma_port_sm_lid" [""] {"device", "port"}
        "Local identifier of the subnet manager; 0 where no one manages the subnet.";
    PORT_MTU: Gauge "rdma_port_mtu_bytes" ["bytes"] {"device", "port", "kind"}
        "MTU of a port: active and max as RDMA uses them, netdev as its network device has it.";
    PORT_GIDS: Gauge "rdma_port_gids" [""] {"device", "port", "type"}
        "Entries of a port's GID table in use, by type: IB, RoCE v1 or RoCE v2.";
    PORT_GID_TABLE: Gauge "rdma_port_gid_table_entries" [""] {"device", "port"}
        "Entries that a port's GID table has room for.";
    PORT_GID_INDEX: Gauge "rdma_port_roce_v2_ipv4_gid_index" [""] {"device", "port"}
        "Index of the first RoCE v2 GID with an IPv4 address, which one NCCL_IB_GID_INDEX has to fit on every device.";
    NETDEV_ADMIN_UP: Gauge "rdma_port_netdev_admin_up" [""] {"device", "port"}
        "Whether the port's network device is switched on by the administrator.";
    NETDEV_OPERSTATE: Gauge "rdma_port_netdev_operstate_info" [""] {"device", "port", "operstate"}
        "Operational state of the port's network device (RFC 2863).";
    NETDEV_CARRIER: Counter "rdma_port_netdev_carrier_ups_total" [""] {"device", "port"}
        "How often the port's network device got a carrier.";
}

pub(in crate::metrics) use legacy::ALL as LEGACY;

/// The families of the Prometheus node exporter that are no counters, word for word.
pub(in crate::metrics) mod legacy {
    super::families! {
        INFO: Gauge "node_infiniband_info" [""] {"device", "board_id", "firmware_version", "hca_type"}
            "Non-numeric data from /sys/class/infiniband/<device>, value is always 1.";
        STATE: Gauge "node_infiniband_state_id" [""] {"device", "port"}
            "State of the InfiniBand port (0: no change, 1: down, 2: init, 3: armed, 4: active, 5: act defer)";
        PHYSICAL_STATE: Gauge "node_infiniband_physical_state_id" [""] {"device", "port"}
            "Physical state of the InfiniBand port (0: no change, 1: sleep, 2: polling, 3: disable, 4: shift, 5: link up, 6: link error recover, 7: phytest)";
        RATE: Gauge "node_infiniband_rate_bytes_per_second" ["bytes/s"] {"device", "port"}
            "Maximum signal transfer rate";
    }
}
