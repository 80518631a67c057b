//! From a tree to the lines that a shell evaluates.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{process::Command, sync::Arc};

use rdma_health_node::{Fact, pci::Role, topology::Distance};

use super::*;
use crate::{
    format, readiness,
    settings::{self, NcclVersion},
    testing::{CURRENT, given, read, set, value},
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
fn an_old_nccl_gets_an_index_only_if_it_is_right_for_all() {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &Given::default());
    let old = Some(NcclVersion(2, 18));
    let same = settings::rdma(&node, &rails, &access, old, &User::default());
    assert_eq!(value(&same, "NCCL_IB_GID_INDEX"), Some("3"));
    let mut rails = rails;
    let other = Gid {
        index: 5,
        ..rails.rails[0].gid.unwrap().clone()
    };
    rails.rails[0].gid = Some(&other);
    let different = settings::rdma(&node, &rails, &access, old, &User::default());
    assert_eq!(value(&different, "NCCL_IB_GID_INDEX"), None);
    assert!(
        different.remarks[0].contains("mlx5_0:1 needs 5"),
        "{:?}",
        different.remarks
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

#[test]
fn gids_of_other_network_namespaces_do_not_count() {
    let (node, mut access) = read("virtual-node-passthrough");
    // The tree has no device nodes.
    access.uverbs = Fact::Absent;
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

#[test]
fn infiniband_has_no_gid_settings_and_a_port_that_is_down_is_refused() {
    let (node, access) = read("infiniband-ndr");
    let rails = Rails::find(&node, &access, &Given::default());
    assert!(
        rails
            .refused
            .iter()
            .any(|refused| refused.what == "mlx5_3:1" && refused.why.contains("DOWN"))
    );
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &User::default());
    assert_eq!(value(&settings, "NCCL_IB_ADDR_FAMILY"), None);
    assert!(
        value(&settings, "NCCL_IB_HCA")
            .unwrap()
            .starts_with("=mlx5_0:1,mlx5_1:1")
    );
}

#[test]
fn efa_goes_through_libfabric() {
    let (node, access) = read("efa-p5");
    let rails = Rails::find(&node, &access, &Given::default());
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &User::default());
    assert_eq!(value(&settings, "FI_PROVIDER"), Some("efa"));
    assert_eq!(value(&settings, "NCCL_IB_HCA"), None);
}

#[test]
fn what_the_user_set_is_kept_and_disagreement_is_reported() {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    let user = set(&[
        ("NCCL_IB_HCA", "mlx5_2"),
        ("NCCL_IB_GID_INDEX", ""),
        ("NCCL_SOCKET_IFNAME", "=eth0"),
    ]);
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &user);
    let text = format::shell(&settings);
    assert!(!text.contains("export NCCL_IB_HCA="), "{text}");
    assert!(
        text.contains("NCCL_IB_HCA is already set to 'mlx5_2' and is kept"),
        "{text}"
    );
    assert!(
        text.contains("NCCL_IB_GID_INDEX is set but empty: NCCL from 2.21 on ignores it"),
        "{text}"
    );
    assert!(
        !text.contains("NCCL_SOCKET_IFNAME is already set"),
        "agreement is silent: {text}"
    );
}

/// Whatever the facts and variables hold, the shell sets exactly these variables and runs nothing.
#[test]
fn a_shell_evaluates_the_output_with_and_without_quotes() {
    let (node, mut access) = read("h100-connectx7");
    access.default_netdev = Fact::Known("eth0; touch /tmp/x $(id)\n`id` 'q\"".into());
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    let user = set(&[("UCX_NET_DEVICES", "a\nexport INJECTED=1 #")]);
    let text = format::shell(&settings::rdma(&node, &rails, &access, CURRENT, &user));
    let shells: [&[&str]; 4] = [&["sh"], &["dash"], &["bash", "--posix"], &["busybox", "sh"]];
    for shell in shells {
        for script in [
            r#"eval "$TEXT"; printf '%s|%s|%s|%s' "$NCCL_IB_HCA" "$NVSHMEM_HCA_LIST" "$INJECTED" "$NCCL_SOCKET_IFNAME""#,
            r#"set -f; eval $TEXT
printf '%s|%s|%s|%s' "$NCCL_IB_HCA" "$NVSHMEM_HCA_LIST" "$INJECTED" "$NCCL_SOCKET_IFNAME""#,
        ] {
            let output = Command::new(shell[0])
                .args(&shell[1..])
                .args(["-c", script])
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("TEXT", &text)
                .output()
                .unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "=mlx5_1:1|mlx5_1:1||=eth0; touch /tmp/x $(id)`id` 'q\"",
                "{shell:?}: {}\n{text}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

#[test]
fn a_range_excludes_addresses_of_vlans_and_keeps_the_subnet_of_the_peers() {
    let (node, access) = read("h100-connectx7");
    let mut rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    let rail = &mut rails.rails[0];
    rail.gids.push(Gid {
        index: 9,
        gid: "::ffff:192.168.7.4".parse().unwrap(),
        ..rail.gid.unwrap().clone()
    });
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &User::default());
    assert_eq!(value(&settings, "NCCL_IB_ADDR_RANGE"), Some("10.0.1.0/24"));
}

#[test]
fn a_pinned_gid_index_is_read_as_nccl_reads_it() {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    let remarks = |index: &str, version| {
        let user = set(&[("NCCL_IB_GID_INDEX", index)]);
        settings::rdma(&node, &rails, &access, version, &user)
            .remarks
            .join("\n")
    };
    for (index, words) in [
        ("", "set but empty"),
        (" ", "not a number: NCCL reads it as 0"),
        ("auto", "not a number: NCCL reads it as 0"),
        ("5", "is 5, but mlx5_1:1 needs 3"),
        ("0x5", "is 5, but mlx5_1:1 needs 3"),
    ] {
        let remarks = remarks(index, CURRENT);
        assert!(remarks.contains(words), "{index:?}: {remarks}");
    }
    for right in ["3", "-1", "0x3"] {
        assert_eq!(remarks(right, CURRENT), "", "{right}");
    }
    let old = remarks("-1", Some(NcclVersion(2, 18)));
    assert!(old.contains("is -1, but mlx5_1:1 needs 3"), "{old}");
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
fn nccl_gets_no_more_ports_than_it_uses_and_the_others_get_all() {
    let (mut node, access) = read("h100-connectx7");
    let hcas = node.hcas.known().unwrap().clone();
    let model = hcas["mlx5_1"].clone();
    let many = (0..64).map(|n| {
        let mut hca = (*model).clone();
        hca.name = format!("mlx5_{n}");
        hca.pci_address = Fact::Known(format!("0001:{n:02x}:00.0"));
        (hca.name.clone(), std::sync::Arc::new(hca))
    });
    node.facts.hcas = Fact::Known(many.collect());
    let addresses: Vec<_> = (0..64).map(|n| format!("0001:{n:02x}:00.0")).collect();
    let given = given(&[("PCIDEVICE_A", &addresses.join(","))]);
    let mut access = access;
    access.uverbs = Fact::Absent;
    let rails = Rails::find(&node, &access, &given);
    assert_eq!(rails.count(), 64, "{:?}", rails.refused);
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &User::default());
    let ports = |name: &str| value(&settings, name).unwrap().split(',').count();
    assert_eq!((ports("NCCL_IB_HCA"), ports("UCX_NET_DEVICES")), (32, 64));
    assert!(
        settings
            .remarks
            .iter()
            .any(|remark| remark.contains("at most 32 ports; 32 are left out"))
    );
}

#[test]
fn nvshmem_gets_the_variable_without_which_it_ignores_the_list() {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &User::default());
    assert_eq!(value(&settings, "NVSHMEM_HCA_LIST"), Some("mlx5_1:1"));
    assert_eq!(value(&settings, "NVSHMEM_ENABLE_NIC_PE_MAPPING"), Some("1"));
    assert_eq!(value(&settings, "NVSHMEM_IB_ADDR_FAMILY"), Some("AF_INET"));
}

#[test]
fn tcp_on_a_node_with_efa_does_not_go_through_the_plugin() {
    let (node, access) = read("efa-p5");
    let efa = settings::tcp(&node, &access, "TCP was requested", &User::default());
    assert_eq!(value(&efa, "NCCL_NET"), Some("Socket"));
    let (node, access) = read("h100-connectx7");
    let other = settings::tcp(&node, &access, "TCP was requested", &User::default());
    assert_eq!(value(&other, "NCCL_NET"), None);
    assert_eq!(value(&other, "NCCL_IB_DISABLE"), Some("1"));
}

#[test]
fn a_value_for_kubernetes_is_not_expanded() {
    let (node, mut access) = read("h100-connectx7");
    access.default_netdev = Fact::Known("$(PATH)".into());
    let text = format::yaml(&settings::tcp(&node, &access, "", &User::default()));
    assert!(text.contains("value: \"=$$(PATH)\""), "{text}");
}

#[test]
fn what_a_configuration_file_of_nccl_sets_is_kept() {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    let mut user = set(&[("NCCL_SOCKET_IFNAME", "=eth0")]);
    user.add_nccl_configuration("/root/.nccl.conf", "# comment\nNCCL_IB_HCA=mlx5_7\nno setting\n");
    user.add_nccl_configuration("/etc/nccl.conf", "NCCL_IB_HCA=mlx5_8\nNCCL_SOCKET_IFNAME=eth9\n");
    let settings = settings::rdma(&node, &rails, &access, CURRENT, &user);
    let text = format::shell(&settings);
    assert!(!text.contains("export NCCL_IB_HCA="), "{text}");
    assert!(
        text.contains("NCCL_IB_HCA is set in /root/.nccl.conf to 'mlx5_7' and is kept"),
        "{text}"
    );
    assert!(!text.contains("eth9"), "NCCL uses the variable: {text}");
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
    let mut hcas = node.hcas.known().unwrap().clone();
    let hca = Arc::make_mut(hcas.get_mut("mlx5_1").unwrap());
    for port in hca.ports.values_mut() {
        if let Fact::Known(gids) = &mut port.gids {
            for gid in gids.iter_mut().filter(|gid| gid.is_ipv4_mapped()) {
                gid.gid = "2001:db8::5".parse().unwrap();
            }
        }
    }
    node.facts.hcas = Fact::Known(hcas);
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
