//! What the joined node says of functions, ports, GIDs and topology, read from trees of real designs.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::{
    DmaMode, Fact, Node,
    function::Borrower,
    history::{History, changes},
    node::VerbsDevice,
    pci,
    topology::Distance,
};
use rdma_health_protocol::{Device, Gid, GidType, Port as VerbsPort};
use rdma_health_tests::tree::{GidFile, Tree};

/// A GPU of the h100-connectx7 fixture, and the NIC on the same PCIe switch.
const GPU: &str = "0000:18:00.0";
const NIC: &str = "0000:13:00.0";

fn node(fixture: &str, change: impl FnOnce(&mut Tree)) -> Node {
    let mut tree = Tree::fixture(fixture).unwrap();
    change(&mut tree);
    let unpacked = tree.unpack().unwrap();
    let mut collector = Collector::new(Root::open(unpacked.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(20));
    Node::new(collector.facts())
}

#[test]
fn a_function_has_its_names_its_role_and_its_iommu_group() {
    let node = node("h100-connectx7", |_| {});
    let functions = node.functions();
    let nic = functions.iter().find(|function| function.address == NIC).unwrap();
    assert_eq!(
        (nic.role.name(), nic.names.as_slice(), nic.driver),
        ("rdma", ["mlx5_0"].as_slice(), Some("mlx5_core"))
    );
    assert!(nic.group.is_some() && nic.is_nic() && !nic.is_software);
    assert_eq!((node.nics().count(), node.gpus().count()), (9, 8));
    assert_eq!(node.dma_mode(), Some(DmaMode::Passthrough));
}

#[test]
fn a_gpu_lent_to_a_virtual_machine_is_not_the_hosts() {
    let node = node("h100-connectx7", |tree| {
        tree.bind_to_vfio(GPU).unwrap();
        tree.set_iommu_type(GPU, "DMA-FQ").unwrap();
    });
    let functions = node.functions();
    let gpu = functions.iter().find(|function| function.address == GPU).unwrap();
    assert_eq!(gpu.lent_to, Some(Borrower::Vfio));
    assert!(node.dma_functions().all(|function| function.address != GPU));
    assert_eq!(node.dma_mode(), Some(DmaMode::Passthrough));
    assert_eq!(node.topology().gpus.len(), 7);
}

#[test]
fn one_translated_gpu_makes_the_node_translated_and_a_blocked_one_does_not() {
    let mode = |dma: &str| node("h100-connectx7", |tree| tree.set_iommu_type(GPU, dma).unwrap()).dma_mode();
    assert_eq!(mode("DMA-FQ"), Some(DmaMode::Translated));
    assert_eq!(mode("DMA"), Some(DmaMode::Translated));
    assert_eq!(mode("blocked"), Some(DmaMode::Other));
    assert_eq!(mode("unmanaged"), Some(DmaMode::Other));
    let without = node("virtual-node-no-iommu", |_| {});
    assert_eq!(without.dma_mode(), Some(DmaMode::NoIommu));
}

#[test]
fn a_group_whose_type_is_not_known_is_not_called_passthrough() {
    let node = node("h100-connectx7", |tree| {
        let file = tree.iommu_type_file(GPU).unwrap();
        tree.remove(&file);
    });
    assert_eq!(node.dma_mode(), None);
}

/// A table in which the first RoCE v2 GID of an IPv4 address belongs to a VLAN: index, GID, type, network device by name
/// and by number.
const WITH_VLAN: [(u32, &str, GidType, &str, u32); 6] = [
    (0, "fe80::1", GidType::RoceV1, "eth2", 2),
    (1, "fe80::1", GidType::RoceV2, "eth2", 2),
    (2, "::ffff:10.1.0.1", GidType::RoceV1, "eth2.100", 7),
    (3, "::ffff:10.1.0.1", GidType::RoceV2, "eth2.100", 7),
    (4, "::ffff:10.0.0.1", GidType::RoceV1, "eth2", 2),
    (5, "::ffff:10.0.0.1", GidType::RoceV2, "eth2", 2),
];

/// The table in the files of `mlx5_0`.
fn write_gids(tree: &mut Tree) {
    let gids = WITH_VLAN.map(|(index, gid, kind, netdev, _)| GidFile {
        index,
        gid,
        kind: if kind == GidType::RoceV1 {
            "IB/RoCE v1"
        } else {
            "RoCE v2"
        },
        netdev,
    });
    tree.write_gids("mlx5_0", &gids).unwrap();
}

/// The same table as libibverbs reports it.
fn verbs_with_vlan() -> Fact<Arc<BTreeMap<String, VerbsDevice>>> {
    let gids = WITH_VLAN.map(|(index, gid, kind, _, netdev)| Gid {
        index,
        gid: gid.parse().unwrap(),
        kind,
        netdev_index: Some(netdev),
        netdev: None,
    });
    let device = VerbsDevice::Device(Device {
        name: "mlx5_0".into(),
        node_guid: 1,
        firmware: String::new(),
        vendor_id: 0,
        vendor_part_id: 0,
        max_mr_size: 0,
        ports: vec![VerbsPort {
            number: 1,
            state: 4,
            phys_state: 5,
            link_layer: 2,
            active_mtu: 4096,
            max_mtu: 4096,
            lid: 0,
            sm_lid: 0,
            gid_table_len: 256,
            gids: gids.to_vec(),
        }],
    });
    Fact::Known(Arc::new(BTreeMap::from([("mlx5_0".into(), device)])))
}

#[test]
fn sysfs_and_libibverbs_lead_to_the_same_gid_on_a_port_with_vlans() {
    let mut node = node("h100-connectx7", write_gids);
    let best = |node: &Node| {
        let port = node.port("mlx5_0", 1).unwrap();
        let gid = port.routable_gid().unwrap();
        (gid.index, port.netdev_of(gid).map(str::to_owned))
    };
    assert_eq!(best(&node), (5, Some("eth2".into())), "read from sysfs");
    node.verbs = verbs_with_vlan();
    assert_eq!(best(&node), (5, Some("eth2".into())), "reported by libibverbs");
}

#[test]
fn distances_have_the_names_of_nvidia_smi() {
    let node = node("h100-connectx7", |_| {});
    let topology = node.topology();
    let gpu = &topology.gpus[0];
    assert_eq!(gpu.function.address, GPU);
    let to = |nic: &str| gpu.paths.iter().find(|path| path.nic == nic).unwrap();
    let near = to(NIC);
    assert_eq!(near.distance.map(Distance::name), Some("PIX"));
    assert_eq!(near.bridges, ["0000:12:01.0", "0000:12:00.0"]);
    assert!(near.acs_redirect.is_empty() && !near.translated);
    let names = |distance| {
        gpu.paths
            .iter()
            .filter(|path| path.distance == Some(distance))
            .count()
    };
    assert_eq!(Distance::ALL.map(names), [2, 0, 0, 2, 5], "{gpu:?}");
}

#[test]
fn every_gpu_gets_a_nic_of_its_own() {
    let node = node("h100-connectx7", |_| {});
    let gpus = node.topology().gpus;
    let pairs: BTreeMap<_, _> = gpus
        .iter()
        .map(|gpu| (gpu.best_nic.unwrap(), gpu.function.address))
        .collect();
    assert_eq!(pairs.len(), 8, "{pairs:?}");
    for gpu in &gpus {
        let best = gpu
            .paths
            .iter()
            .find(|path| Some(path.nic) == gpu.best_nic)
            .unwrap();
        assert_eq!(best.distance, Some(Distance::Pix), "{pairs:?}");
    }
}

#[test]
fn a_translated_end_and_a_port_that_redirects_show_on_the_path() {
    let node = node("connectx7-gpu", |_| {});
    let topology = node.topology();
    let [gpu] = topology.gpus.as_slice() else {
        panic!("{topology:?}");
    };
    let [path] = gpu.paths.as_slice() else {
        panic!("{topology:?}");
    };
    assert_eq!((path.nic, path.distance), ("0000:18:00.0", Some(Distance::Pix)));
    assert_eq!(path.acs_redirect, ["0000:17:00.0"]);
    assert!(path.translated);
}

#[test]
fn without_a_common_switch_each_port_of_the_usual_adapters_is_a_rail() {
    let without_switch = |change: &dyn Fn(&mut BTreeMap<String, pci::Function>)| {
        let mut node = node("h100-connectx7", |_| {});
        let Fact::Known(functions) = &mut Arc::make_mut(&mut node.pci).functions else {
            panic!("no functions");
        };
        for gpu in functions.values_mut().filter(|one| one.role == pci::Role::Gpu) {
            gpu.bridges = vec!["0000:f0:00.0".to_owned()];
        }
        change(functions);
        node
    };
    let whole = without_switch(&|_| {});
    assert_eq!(whole.rails().len(), 8);
    // Each card has two ports.
    let mut dual = without_switch(&|functions| {
        for (first, second) in [("13", "14"), ("33", "34"), ("53", "54"), ("73", "74")] {
            let port = functions.remove(&format!("0000:{second}:00.0")).unwrap();
            functions.insert(format!("0000:{first}:00.1"), port);
        }
    });
    let Fact::Known(hcas) = &mut dual.hcas else {
        panic!("no devices");
    };
    for (number, bus) in [(1, "13"), (3, "33"), (5, "53"), (7, "73")] {
        let hca = Arc::make_mut(hcas.get_mut(format!("mlx5_{number}").as_str()).unwrap());
        hca.pci_address = Fact::Known(format!("0000:{bus}:00.1"));
    }
    let rails = dual.rails();
    assert_eq!(rails.len(), 8, "{rails:?}");
    assert_eq!((rails["0000:13:00.0"], rails["0000:73:00.1"]), (0, 7));
    // No cable at any second port.
    let mut single = dual.clone();
    let Fact::Known(hcas) = &mut single.hcas else {
        panic!("no devices");
    };
    for number in [1, 3, 5, 7] {
        let hca = Arc::make_mut(hcas.get_mut(format!("mlx5_{number}").as_str()).unwrap());
        let port = hca.ports.get_mut(&1).unwrap();
        port.state = Fact::Absent;
    }
    let rails = single.rails();
    assert_eq!(rails.len(), 4, "{rails:?}");
    assert_eq!(rails["0000:73:00.0"], 3);
}

#[test]
fn rails_are_the_adapters_next_to_the_gpus_and_keep_their_numbers_when_one_is_gone() {
    let whole = node("h100-connectx7", |_| {});
    let rails = whole.rails();
    assert_eq!(rails.len(), 8, "the ninth adapter is for storage: {rails:?}");
    assert_eq!(rails.get(NIC), Some(&0));
    let last = rails.iter().max_by_key(|(_, rail)| **rail).unwrap();
    let (last, number) = (last.0.to_string(), *last.1);
    let mut history = History::default();
    history.record(&whole, whole.time);
    // The first adapter falls off the bus.
    let mut broken = whole.clone();
    let pci = Arc::make_mut(&mut broken.pci);
    let Fact::Known(functions) = &mut pci.functions else {
        panic!("no functions");
    };
    functions.remove(NIC);
    if let Fact::Known(hcas) = &mut broken.hcas {
        hcas.remove("mlx5_0");
    }
    assert_eq!(
        broken.rails().get(&*last),
        Some(&(number - 1)),
        "nothing is remembered"
    );
    broken.history = Some(Arc::new(history));
    assert_eq!(broken.rails().get(&*last), Some(&number));
    assert!(
        node("infiniband-ndr", |_| {}).rails().is_empty(),
        "no GPU, no rail"
    );
}

#[test]
fn the_iommu_mode_of_the_last_boot_is_remembered() {
    let before = node("h100-connectx7", |_| {});
    let mut history = History::default();
    history.record(&before, before.time - 1000);
    let mut after = node("h100-connectx7", |tree| {
        tree.set_iommu_type(GPU, "DMA-FQ").unwrap();
    });
    Arc::make_mut(&mut after.host).boot_id = Fact::Known("another".into());
    history.record(&after, after.time);
    after.history = Some(Arc::new(history));
    assert_eq!(after.dma_mode(), Some(DmaMode::Translated));
    let boot = after.previous_boot().unwrap();
    assert_eq!(boot.dma_mode(), Some(DmaMode::Passthrough));
    assert!(boot.kernel.is_some());
}

#[test]
fn a_boot_is_as_old_as_the_uptime_says_and_not_as_the_first_reading() {
    let mut now = node("h100-connectx7", |_| {});
    now.live = true;
    Arc::make_mut(&mut now.host).uptime = Fact::Known(500);
    let mut history = History::default();
    history.record(&now, now.time - 3);
    now.history = Some(Arc::new(history.clone()));
    let boots = |node: &Node| {
        let all = node.timeline();
        let boots = all.into_iter().filter(|one| one.kind == "boot");
        boots.map(|one| one.time).collect::<Vec<_>>()
    };
    assert_eq!(boots(&now), [Some(now.time - 500)]);
    // The agent was installed in the middle of the boot before.
    Arc::make_mut(&mut now.host).boot_id = Fact::Known("another".into());
    history.record(&now, now.time);
    now.history = Some(Arc::new(history));
    assert_eq!(boots(&now), [None, Some(now.time - 500)]);
}

#[test]
fn what_happened_has_the_findings_that_came_and_went_in_the_order_of_time() {
    let mut node = node("h100-connectx7", |_| {});
    let mut history = History::default();
    history.record(&node, 1000);
    let down = changes::Current {
        rule: "port-down",
        subject: "mlx5_0:1".into(),
        severity: "critical",
        message: "mlx5_0 port 1 is down",
    };
    history.changes.see("critical", &[down], 2000, |_| false);
    history.changes.see("ok", &[], 3000, |_| false);
    node.history = Some(Arc::new(history));
    let all = node.timeline();
    let findings: Vec<_> = all
        .iter()
        .filter_map(|one| Some((one.time?, one.kind, one.rule.as_deref()?, one.subject.as_str())))
        .collect();
    assert_eq!(
        findings,
        [
            (2000, "found", "port-down", "mlx5_0:1"),
            (3000, "resolved", "port-down", "mlx5_0:1")
        ]
    );
    assert!(all.is_sorted_by_key(|one| one.time));
}

#[test]
fn what_one_rule_finds_of_several_devices_at_once_happened_once() {
    let mut node = node("h100-connectx7", |_| {});
    let mut history = History::default();
    let down = |number: usize| changes::Current {
        rule: "port-down",
        subject: format!("mlx5_{number}:1"),
        severity: "critical",
        message: "it is down",
    };
    let all: Vec<_> = (0..8).map(down).collect();
    history.changes.see("critical", &all, 2000, |_| false);
    history.changes.see("critical", &all[..1], 3000, |_| false);
    history.changes.see("ok", &[], 4000, |_| false);
    node.history = Some(Arc::new(history));
    let timeline = node.timeline();
    let happened: Vec<_> = timeline
        .iter()
        .filter(|one| one.rule.is_some())
        .map(|one| {
            (
                one.kind,
                &*one.subject,
                one.count,
                one.subjects.len(),
                &*one.message,
            )
        })
        .collect();
    assert_eq!(
        happened,
        [
            ("found", "mlx5_0:1", 8, 8, "it is down (the same for 7 more)"),
            (
                "resolved",
                "mlx5_1:1",
                7,
                7,
                "resolved: it is down (the same for 6 more)"
            ),
            ("resolved", "mlx5_0:1", 1, 0, "resolved: it is down"),
        ]
    );
}

#[test]
fn the_network_device_of_one_port_is_not_that_of_the_other() {
    let netdevs = |gone: &str, number: &str| {
        let node = node("mlx4-dual-port", |tree| {
            let function = "sys/devices/pci0000:00/0000:00:03.0/0000:04:00.0";
            assert!(tree.remove(&format!("{function}/net/{gone}")));
            tree.remove(&format!("{function}/infiniband/mlx4_0/ports/2/gid_attrs/ndevs"));
            let left = if gone == "ib0" { "ens2d1" } else { "ib0" };
            let dev_port = format!("{function}/net/{left}/dev_port");
            if number != "dev_port" {
                // A kernel before 3.15.
                assert!(tree.remove(&dev_port));
                let id = if left == "ib0" { "0x0\n" } else { "0x1\n" };
                tree.write(&format!("{function}/net/{left}/{number}"), id)
                    .unwrap();
            }
        });
        let name = |number: u8| {
            let mut ports = node.ports();
            let port = ports.find(|port| port.number == number).unwrap();
            port.netdev.known().map(|netdev| netdev.name.clone())
        };
        (name(1), name(2))
    };
    for number in ["dev_port", "dev_id"] {
        assert_eq!(netdevs("ens2d1", number), (Some("ib0".into()), None), "{number}");
        assert_eq!(netdevs("ib0", number), (None, Some("ens2d1".into())), "{number}");
    }
}
