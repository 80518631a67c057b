//! RDMA devices as sysfs and as libibverbs show them.

use std::{collections::BTreeMap, net::Ipv4Addr};

use rdma_health_node::{
    Fact,
    infiniband::{Counter, Guid, Hca, LinkLayer, Netdev, Port, PortCode, Rate},
    node::VerbsDevice,
};
use rdma_health_protocol::{Device, Gid, GidType, HelperError, Port as VerbsPort};

use super::{CounterFile, known, machine::address, unread};

pub(super) fn hca(n: u64, files: &[CounterFile]) -> Hca {
    let counters = |directory: &str| {
        let mut all: Vec<Counter> = files
            .iter()
            .filter(|(of, _)| *of == directory)
            .map(|(_, file)| counter(file, Fact::Known(7 + n)))
            .collect();
        all.push(counter("zz_unread", unread()));
        all
    };
    let mut hw_counters = counters("hw_counters");
    hw_counters.push(counter("sent_pkts", Fact::Known(11)));
    hw_counters.push(counter("active_qps", Fact::Known(12)));
    let code = |code, name: &str| {
        Fact::Known(PortCode {
            code,
            name: name.into(),
        })
    };
    let port = Port {
        link_layer: Fact::Known(LinkLayer::Ethernet),
        state: code(4, "ACTIVE"),
        phys_state: code(5, "LinkUp"),
        rate: Fact::Known(Rate {
            bits_per_second: 400_000_000_000,
            lanes: Some(4),
            speed: Some("NDR".into()),
        }),
        lid: Fact::Known(12),
        sm_lid: Fact::Known(1),
        netdev: Fact::Known(Netdev {
            name: format!("eth{n}"),
            index: Fact::Known(3),
            mtu: Fact::Known(4092),
            operstate: known("up"),
            admin_up: Fact::Known(true),
            carrier_ups: Fact::Known(2),
            carrier_downs: Fact::Known(1),
            address: Fact::Absent,
            master: None,
        }),
        counters: counters("counters"),
        hw_counters,
        gids: Fact::Absent,
        partition_keys: Fact::Absent,
    };
    Hca {
        name: format!("mlx5_{n}"),
        pci_address: Fact::Known(address(n)),
        parent_netdev: Fact::Absent,
        driver: known("mlx5_core"),
        firmware: known("28.39.3560"),
        board_id: known("MT_\"00\\838\n"),
        hca_type: known("MT4129"),
        node_guid: Fact::Known(Guid(0x9c63_c003_00e0_5c2a)),
        system_image_guid: unread(),
        node_type: known("1: CA"),
        numa_node: Fact::Known(0),
        physical_function: Fact::Absent,
        ports: BTreeMap::from([(1, Box::new(port))]),
    }
}

fn counter(name: &str, value: Fact<u64>) -> Counter {
    Counter {
        name: name.into(),
        value,
    }
}

pub(super) fn verbs(n: u64) -> VerbsDevice {
    if n == 1 {
        return VerbsDevice::Error(HelperError {
            device: Some("mlx5_1".into()),
            call: "ibv_open_device".into(),
            errno: 13,
        });
    }
    let gid = |index, kind| Gid {
        index,
        gid: Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped(),
        kind,
        netdev_index: Some(3),
        netdev: None,
    };
    VerbsDevice::Device(Device {
        name: format!("mlx5_{n}"),
        node_guid: 1,
        firmware: String::new(),
        vendor_id: 0x15b3,
        vendor_part_id: 1,
        max_mr_size: 1 << 40,
        ports: vec![VerbsPort {
            number: 1,
            state: 4,
            phys_state: 5,
            link_layer: 2,
            active_mtu: 1024,
            max_mtu: 4096,
            lid: 0,
            sm_lid: 0,
            gid_table_len: 256,
            gids: vec![gid(2, GidType::RoceV1), gid(3, GidType::RoceV2)],
        }],
    })
}
