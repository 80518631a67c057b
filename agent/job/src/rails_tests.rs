//! Which ports of a tree a job uses, and why it does not use the others.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::sync::Arc;

use rdma_health_node::{Fact, pci::Role, topology::Distance};

use super::*;
use crate::{
    readiness,
    settings::{self, NcclVersion},
    testing::{CURRENT, change, given, read, value},
    user::User,
};

#[test]
fn two_given_functions_are_two_exact_ports() {
    let (node, access) = read("h100-connectx7");
    let given = given(&[("PCIDEVICE_A", "0000:33:00.0,0000:14:00.0")]);
    let rails = Rails::find(&node, &access, &given);
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &User::default());
    assert_eq!(value(&settings, "NCCL_IB_HCA"), Some("=mlx5_1:1,mlx5_2:1"));
    assert_eq!(value(&settings, "NCCL_IB_GID_INDEX"), None);
    assert_eq!(value(&settings, "NCCL_IB_ADDR_FAMILY"), Some("AF_INET"));
    assert_eq!(value(&settings, "UCX_NET_DEVICES"), Some("mlx5_1:1,mlx5_2:1"));
    assert_eq!(value(&settings, "NCCL_SOCKET_IFNAME"), Some("=eth0"));
    let newest = settings::rdma(&node, &rails, &access, Some(NcclVersion(2, 30)), &User::default());
    assert_eq!(
        value(&newest, "NCCL_IB_HCA"),
        Some("=mlx5_1:1:1,mlx5_2:1:2"),
        "rails are numbered over the adapters of the node, not of the pod"
    );
}

#[test]
fn without_given_devices_the_nearest_nic_of_each_gpu_is_used_and_storage_is_not() {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &Given::default());
    assert_eq!(rails.origin, Origin::Visible);
    assert_eq!(rails.rails.len(), 8);
    assert!(rails.refused.iter().any(|refused| refused.what == "mlx5_bond_0"));
}

#[test]
fn of_several_nics_that_are_equally_near_none_is_left_out() {
    let (mut node, access) = read("h100-connectx7");
    // One GPU, without the NIC below its switch.
    let topology = node.topology();
    let first = &topology.gpus[0];
    let other_gpus: Vec<_> = topology.gpus[1..]
        .iter()
        .map(|gpu| gpu.function.address)
        .collect();
    let unused = [first.best_nic.unwrap()].into_iter().chain(other_gpus);
    let unused: Vec<_> = unused.map(str::to_owned).collect();
    let same_socket = first
        .paths
        .iter()
        .filter(|path| path.distance == Some(Distance::Node))
        .count();
    let Fact::Known(functions) = &mut Arc::make_mut(&mut node.facts.pci).functions else {
        panic!("no functions");
    };
    functions.retain(|address, _| !unused.contains(address));
    let rails = Rails::find(&node, &access, &Given::default());
    assert_eq!(rails.rails.len(), same_socket, "{:?}", rails.refused);
    assert!(same_socket > 1);
}

#[test]
fn what_cannot_be_used_has_its_reason() {
    let (node, mut access) = read("h100-connectx7");
    access.uverbs = Fact::Known([("mlx5_1".to_owned(), "uverbs1".to_owned())].into());
    access.nodes = Fact::Known(vec!["uverbs0".to_owned()]);
    let given = given(&[("PCIDEVICE_A", "0000:14:00.0,0000:ff:00.0")]);
    let rails = Rails::find(&node, &access, &given);
    assert!(rails.is_empty());
    let why = |what: &str| {
        let refused = rails
            .refused
            .iter()
            .find(|refused| refused.what.starts_with(what));
        refused.unwrap().why.clone()
    };
    assert!(why("0000:ff:00.0 (PCIDEVICE_A)").contains("no RDMA device"));
    assert!(why("mlx5_1").contains("/dev/infiniband/uverbs1 is not in this container"));
}

/// The reason why a function has no RDMA device leads to what a user can do.
#[test]
fn a_function_without_an_rdma_device_says_what_is_missing() {
    use rdma_health_node::access::GivenFunction;
    let (node, mut access) = read("h100-connectx7");
    let address = "0000:ff:00.0";
    let bound_to = |driver: Fact<String>| {
        let class = Fact::Known(0x02_0000);
        Fact::Known(GivenFunction { class, driver })
    };
    for (function, words) in [
        (Fact::Absent, "this node has no PCI function at this address"),
        (bound_to(Fact::Absent), "no driver is bound to it"),
        (bound_to(Fact::Known("vfio-pci".into())), "deviceType: netdevice"),
        (
            bound_to(Fact::Known("mlx5_core".into())),
            "its driver mlx5_core has no RDMA device for it here",
        ),
    ] {
        access.functions = [(address.to_owned(), function)].into();
        let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", address)]));
        assert_eq!(rails.count(), 0);
        assert!(rails.refused[0].why.contains(words), "{:?}", rails.refused);
    }
    // A function for DPDK next to one for RDMA is not waited for.
    access.functions = [(address.to_owned(), bound_to(Fact::Known("vfio-pci".into())))].into();
    let both = Rails::find(
        &node,
        &access,
        &given(&[("PCIDEVICE_A", "0000:14:00.0,0000:ff:00.0")]),
    );
    assert_eq!((both.count(), readiness::unmet(&node, &both)), (1, None));
    let disk = GivenFunction {
        class: Fact::Known(0x01_0802),
        driver: Fact::Known("nvme".into()),
    };
    access.functions = [(address.to_owned(), Fact::Known(disk))].into();
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", address)]));
    assert_eq!(
        (rails.origin, rails.count()),
        (Origin::Visible, 8),
        "a disk is not a missing NIC"
    );
}

#[test]
fn gids_of_other_network_namespaces_do_not_count() {
    let (node, mut access) = read("virtual-node-passthrough");
    // The tree has no device nodes.
    access.uverbs = Fact::Absent;
    access.uverbs_unnamed = true;
    assert!(!Rails::find(&node, &access, &Given::default()).is_empty());
    access.netdevs = Fact::Known(vec!["net1".into(), "lo".into()]);
    let rails = Rails::find(&node, &access, &Given::default());
    assert!(rails.is_empty());
    assert!(
        rails.refused[0].why.contains("outside this network namespace"),
        "{:?}",
        rails.refused
    );
}

/// Not the visible devices: they can belong to other pods.
#[test]
fn malformed_sources_lead_to_no_device_at_all() {
    let (node, access) = read("h100-connectx7");
    for variable in [
        ("PCIDEVICE_A", "nonsense"),
        ("PCIDEVICE_A", ""),
        ("PCIDEVICE_A_INFO", "{\"0000:14:00.0\": "),
        ("PCIDEVICE_SF", "mlx5_core.sf.4"),
        ("SRIOVNETWORK_a_RDMA_DEVICE", ","),
    ] {
        let given = given(&[variable]);
        let rails = Rails::find(&node, &access, &given);
        assert_eq!((rails.origin, rails.count()), (Origin::Given, 0), "{variable:?}");
        let why = readiness::none_usable(&node, &rails);
        assert!(why.contains(variable.0), "{why}");
        let missing = readiness::missing(&node, &rails, None);
        assert!(
            missing.iter().any(|one| one.prospect == Prospect::Never),
            "{missing:?}"
        );
    }
}

#[test]
fn a_gpu_that_a_dra_driver_describes_is_not_a_missing_nic() {
    let (node, access) = read("h100-connectx7");
    let functions = node.pci.functions.known().unwrap();
    let (gpu, _) = functions.iter().find(|(_, one)| one.role == Role::Gpu).unwrap();
    let mut given = Given::default();
    given.add_metadata(
        "gpu.nvidia.com-metadata.json",
        &format!(
            r#"{{"requests":[{{"devices":[{{"attributes":{{"resource.kubernetes.io/pciBusID":{{"string":"{gpu}"}}}}}}]}}]}}"#
        ),
    );
    assert_eq!(given.grants.len(), 1);
    let rails = Rails::find(&node, &access, &given);
    assert_eq!((rails.origin, rails.count()), (Origin::Visible, 8));
}

#[test]
fn a_function_for_other_traffic_is_not_waited_for() {
    let (node, mut access) = read("h100-connectx7");
    access.uverbs = Fact::Known([("mlx5_2".to_owned(), "uverbs2".to_owned())].into());
    access.nodes = Fact::Known(Vec::new());
    let given = given(&[
        ("PCIDEVICE_A", "0000:14:00.0"),
        ("PCIDEVICE_B", "0000:33:00.0,0000:00:1f.0"),
        (
            "PCIDEVICE_B_INFO",
            r#"{"0000:33:00.0":{"generic":{}},"0000:00:1f.0":{"generic":{}}}"#,
        ),
    ]);
    let rails = Rails::find(&node, &access, &given);
    assert_eq!(rails.count(), 1);
    assert_eq!(rails.refused.len(), 2, "{:?}", rails.refused);
    assert!(rails.refused.iter().all(|refused| refused.why.contains("isRdma")));
    assert_eq!(readiness::missing(&node, &rails, None), []);
    assert_eq!(readiness::missing(&node, &rails, Some(2)).len(), 1);
}

/// Two plugins of different vendors name the same function, and one names another.
#[test]
fn a_function_that_two_plugins_name_is_used_once() {
    let (node, access) = read("h100-connectx7");
    let given = given(&[
        ("PCIDEVICE_NVIDIA_COM_RAIL", "0000:14:00.0"),
        ("PCIDEVICE_OPENSHIFT_IO_RAIL", "0000:14:00.0,0000:33:00.0"),
    ]);
    let rails = Rails::find(&node, &access, &given);
    let ports: Vec<_> = rails.rails.iter().map(|rail| rail.port.to_string()).collect();
    assert_eq!(ports, ["mlx5_1:1", "mlx5_2:1"]);
}

#[test]
fn a_device_node_that_may_not_be_opened_is_refused() {
    let (node, mut access) = read("h100-connectx7");
    access.uverbs = Fact::Known([("mlx5_1".to_owned(), "uverbs1".to_owned())].into());
    access.nodes = Fact::Known(vec!["uverbs1".to_owned()]);
    access.closed = [("uverbs1".to_owned(), "permission denied".to_owned())].into();
    let given = given(&[("PCIDEVICE_A", "0000:14:00.0,0000:33:00.0")]);
    let rails = Rails::find(&node, &access, &given);
    assert_eq!(rails.count(), 1);
    let missing = readiness::missing(&node, &rails, None);
    assert_eq!((missing.len(), missing[0].prospect), (1, Prospect::Never));
    assert!(
        readiness::unmet(&node, &rails)
            .unwrap()
            .contains("mlx5_1: permission denied")
    );
    assert!(rails.others.iter().all(|port| port.hca.name != "mlx5_1"));
}

#[test]
fn ports_of_two_address_families_agree_on_one() {
    let (mut node, access) = read("h100-connectx7");
    change(&mut node, "mlx5_1", |hca| {
        for port in hca.ports.values_mut() {
            if let Fact::Known(gids) = &mut port.gids {
                for gid in gids.iter_mut().filter(|gid| gid.is_ipv4_mapped()) {
                    gid.gid = "2001:db8::5".parse().unwrap();
                }
            }
        }
    });
    let given = given(&[("PCIDEVICE_A", "0000:14:00.0,0000:33:00.0,0000:13:00.0")]);
    let rails = Rails::find(&node, &access, &given);
    let why = &rails.refused[0];
    assert_eq!((rails.count(), why.what.as_str()), (2, "mlx5_1:1"));
    assert!(
        why.why.contains("give its network device an IPv4 address"),
        "{why:?}"
    );
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &User::default());
    assert_eq!(value(&settings, "NCCL_IB_ADDR_FAMILY"), Some("AF_INET"));
    // Alone, it is as good as any.
    let alone = crate::testing::given(&[("PCIDEVICE_A", "0000:14:00.0")]);
    let rails = Rails::find(&node, &access, &alone);
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &User::default());
    assert_eq!(value(&settings, "NCCL_IB_ADDR_FAMILY"), Some("AF_INET6"));
}

#[test]
fn a_subfunction_is_found_by_its_device_node() {
    let (node, mut access) = read("h100-connectx7");
    access.uverbs = Fact::Known([("mlx5_1".to_owned(), "uverbs8".to_owned())].into());
    access.nodes = Fact::Known(vec!["uverbs8".to_owned()]);
    let given = given(&[
        ("PCIDEVICE_SF", "mlx5_core.sf.4"),
        (
            "PCIDEVICE_SF_INFO",
            r#"{"mlx5_core.sf.4":{"rdma":{"uverbs":"/dev/infiniband/uverbs8"}}}"#,
        ),
    ]);
    let rails = Rails::find(&node, &access, &given);
    assert_eq!(rails.rails[0].port.to_string(), "mlx5_1:1");
}

/// The settings for a version of NCCL that reads the numbers of rails.
fn with_numbers(node: &Node, access: &Access, given: &Given) -> settings::Settings {
    let rails = Rails::find(node, access, given);
    settings::rdma(node, &rails, access, Some(NcclVersion(2, 30)), &User::default())
}

/// Takes the RDMA device away, and with it the function if it is gone from the bus.
fn without(node: &Node, device: &str, from_bus: bool) -> Node {
    let mut node = node.clone();
    let mut hcas = node.hcas.known().unwrap().clone();
    let hca = hcas.remove(device).unwrap();
    node.facts.hcas = Fact::Known(hcas);
    if from_bus {
        let address = hca.pci_address.known().unwrap();
        let Fact::Known(functions) = &mut Arc::make_mut(&mut node.facts.pci).functions else {
            panic!("no functions");
        };
        functions.remove(address);
    }
    node
}

#[test]
fn a_missing_adapter_does_not_change_the_rails_of_the_others() {
    let (node, access) = read("h100-connectx7");
    let all = given(&[("PCIDEVICE_A", "0000:13:00.0,0000:14:00.0,0000:33:00.0")]);
    let healthy = with_numbers(&node, &access, &all);
    let hcas = |settings: &settings::Settings| value(settings, "NCCL_IB_HCA").unwrap().to_owned();
    assert_eq!(hcas(&healthy), "=mlx5_0:1:0,mlx5_1:1:1,mlx5_2:1:2");
    for from_bus in [false, true] {
        for (gone, left) in [
            ("mlx5_0", "=mlx5_1:1:1,mlx5_2:1:2"),
            ("mlx5_1", "=mlx5_0:1:0,mlx5_2:1:2"),
        ] {
            let broken = without(&node, gone, from_bus);
            assert_eq!(
                hcas(&with_numbers(&broken, &access, &all)),
                left,
                "{gone} {from_bus}"
            );
        }
    }
}

#[test]
fn a_rail_that_cannot_be_known_has_no_number() {
    let (node, access) = read("h100-connectx7");
    let mut broken = without(&node, "mlx5_1", true);
    let Fact::Known(functions) = &mut Arc::make_mut(&mut broken.facts.pci).functions else {
        panic!("no functions");
    };
    // The other adapter below this root port is in a slot in which no other root port has one.
    let bridges = &mut functions.get_mut("0000:13:00.0").unwrap().bridges;
    *bridges.last_mut().unwrap() = "0000:12:1f.0".into();
    let settings = with_numbers(&broken, &access, &Given::default());
    let list = value(&settings, "NCCL_IB_HCA").unwrap();
    assert!(list.starts_with("=mlx5_0:1,mlx5_2:1:2,mlx5_3:1:3,"), "{list}");
    let remark = "the rail of mlx5_0:1 is not known and is left out";
    assert!(
        settings.remarks.iter().any(|one| one.contains(remark)),
        "{:?}",
        settings.remarks
    );
}

#[test]
fn a_name_that_does_not_exist_is_noted_and_the_address_decides() {
    let (node, access) = read("h100-connectx7");
    let given = given(&[
        ("PCIDEVICE_A", "0000:14:00.0"),
        (
            "PCIDEVICE_A_INFO",
            r#"{"0000:14:00.0":{"rdma":{"rdma_dev":"mlx5_99"}}}"#,
        ),
    ]);
    let rails = Rails::find(&node, &access, &given);
    assert_eq!(rails.rails[0].port.to_string(), "mlx5_1:1");
    assert_eq!(
        rails.notes,
        [
            "PCIDEVICE_A names mlx5_99 for 0000:14:00.0, which does not exist here; mlx5_1 is the RDMA device of that function and is used"
        ]
    );
}
