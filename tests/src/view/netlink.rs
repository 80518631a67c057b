//! What only netlink, adapters and switches report.

use std::{collections::BTreeMap, sync::Arc};

use rdma_health_node::{
    Fact, Node,
    dcb::{Bridging, Dcb, Pfc},
    devlink::{self, Devlink},
    drivers::Drivers,
    ethtool::{self, Links},
    interfaces::{Interface, Interfaces, VfLink, VfSettings},
    lldp::{Lldp, Neighbour},
    neighbours::{Neighbours, Table},
    rdma::{Namespaces, Subsystem},
    transceiver::{self, Lane, Measure, Transceivers},
};

use super::machine::address;

/// What only netlink shows of a node with so many devices.
pub(super) fn with_netlink(node: &mut Node, devices: u64) {
    node.links = Arc::new(Links {
        netdevs: by_netdev(devices, &ethernet_link()),
    });
    node.devlink = Arc::new(Devlink {
        devices: Fact::Known((0..devices).map(|n| (address(n), devlink_device())).collect()),
    });
    node.interfaces = Arc::new(Interfaces {
        netdevs: by_netdev(devices, &interface()),
    });
    node.dcb = Arc::new(Dcb {
        netdevs: by_netdev(devices, &bridging()),
    });
    let statistics = [
        "rx_discards_phy",
        "outbound_pci_stalled_wr",
        "rx_prio3_pause",
        "rx_prio3_pause_duration",
    ];
    let statistics: BTreeMap<_, _> = statistics.iter().map(|name| ((*name).to_owned(), 7)).collect();
    node.drivers = Arc::new(Drivers {
        netdevs: by_netdev(devices, &statistics),
    });
    let neighbour = Neighbour {
        switch: "leaf-3".into(),
        port: "Ethernet12/1".into(),
        ..Neighbour::default()
    };
    node.lldp = Arc::new(Lldp {
        netdevs: by_netdev(devices, &neighbour),
    });
    node.transceivers = Arc::new(Transceivers {
        netdevs: by_netdev(devices, &transceiver()),
    });
    node.neighbours = Arc::new(Neighbours {
        tables: Fact::Known(BTreeMap::from([("arp_cache".to_owned(), TABLE)])),
    });
    node.rdma = Arc::new(Subsystem {
        namespaces: Fact::Known(Namespaces::Shared),
        resources: Fact::Known(
            (0..devices)
                .map(|n| (format!("mlx5_{n}"), BTreeMap::from([("qp".to_owned(), 5)])))
                .collect(),
        ),
        optional_values: Fact::Known(
            (0..devices)
                .map(|n| {
                    (
                        format!("mlx5_{n}:1"),
                        BTreeMap::from([("cc_rx_ce_pkts".to_owned(), 77)]),
                    )
                })
                .collect(),
        ),
        ..Subsystem::default()
    });
}

fn ethernet_link() -> ethtool::Link {
    ethtool::Link {
        down_reason: Fact::Known(ethtool::DownReason {
            reason: "No cable".into(),
            detail: None,
        }),
        downs: Fact::Known(4),
        speed: Fact::Known(ethtool::Speed {
            bits_per_second: 400_000_000_000,
            lanes: Some(4),
        }),
        fec: Fact::Known(ethtool::Fec {
            mode: Some("RS".into()),
            corrected: Some(9),
            uncorrectable: Some(0),
            corrected_bits: Some(11),
        }),
        pause: Fact::Known(ethtool::Pause {
            rx: true,
            tx: true,
            rx_frames: Some(5),
            tx_frames: Some(6),
        }),
        errors: Fact::Known(BTreeMap::from([("fcs".to_owned(), 3)])),
    }
}

fn devlink_device() -> devlink::Device {
    let reporter = |name: &str, port| devlink::Reporter {
        has_recovery: true,
        name: name.into(),
        port,
        subfunction: None,
        in_error: name == "tx",
        errors: 3,
        recoveries: 2,
        last_dump: Some(1_790_000_000),
    };
    let versions = |version: &str| BTreeMap::from([("fw".to_owned(), version.to_owned())]);
    devlink::Device {
        reporters: vec![
            reporter("fw", None),
            reporter("tx", Some(1)),
            reporter("tx", Some(2)),
        ],
        firmware: Fact::Known(devlink::Firmware {
            running: versions("28.39.3560"),
            stored: versions("28.41.1000"),
        }),
    }
}

/// The same for the network device of each port.
fn by_netdev<T: Clone>(devices: u64, of_each: &T) -> Fact<BTreeMap<String, T>> {
    Fact::Known(
        (0..devices)
            .map(|n| (format!("eth{n}"), of_each.clone()))
            .collect(),
    )
}

const TABLE: Table = Table {
    entries: 20,
    soft_limit: 512,
    limit: 1024,
    overflows: Some(0),
};

fn interface() -> Interface {
    Interface {
        vfs: vec![VfSettings {
            trust: Some(true),
            link_state: Some(VfLink::Disable),
            ..VfSettings::default()
        }],
        bond: Fact::Absent,
    }
}

fn bridging() -> Bridging {
    Bridging {
        pfc: Some(Pfc {
            on: vec![3],
            sent: vec![0, 0, 0, 7, 0, 0, 0, 0],
            received: vec![0, 0, 0, 8, 0, 0, 0, 0],
        }),
        dscp: BTreeMap::from([(26, 3)]),
        ..Bridging::default()
    }
}

fn transceiver() -> transceiver::Module {
    let measure = |value, low, high| {
        Some(Measure {
            value,
            low: Some(low),
            high: Some(high),
        })
    };
    transceiver::Module {
        form: "OSFP".into(),
        vendor: Some("NVIDIA".into()),
        part: Some("MMS4X00-NM".into()),
        temperature: measure(45_500, -5000, 75_000),
        voltage: measure(3_300_000, 3_000_000, 3_600_000),
        lanes: vec![Lane {
            number: 1,
            rx_power: measure(900_000, 50_000, 4_000_000),
            tx_power: measure(1_200_000, 100_000, 4_000_000),
            bias: measure(40_000, 5000, 90_000),
        }],
        unread: Vec::new(),
    }
}
