//! From a tree to the lines that a shell evaluates.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::{
    collections::BTreeMap,
    process::Command,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::Fact;
use rdma_health_tests::tree;

use super::*;
use crate::{
    format,
    settings::{self, NcclVersion, Settings},
};

fn read(fixture: &str) -> (Node, Access) {
    let tree = tree::fixture(fixture).unwrap();
    let root = || Root::open(tree.path()).unwrap();
    let mut access = Access::read(&root());
    access.default_netdev = Fact::Known("eth0".into());
    let mut collector = Collector::new(root(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(5));
    (Node::new(collector.facts()), access)
}

fn given(variables: &[(&str, &str)]) -> Given {
    Given::in_environment(&user(variables))
}

fn user(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    variables.iter().map(owned).collect()
}

fn value<'a>(settings: &'a Settings, name: &str) -> Option<&'a str> {
    let setting = settings.settings.iter().find(|setting| setting.name == name)?;
    Some(&setting.value)
}

const CURRENT: Option<NcclVersion> = Some(NcclVersion(2, 27));

#[test]
fn two_given_functions_are_two_exact_ports() {
    let (node, access) = read("h100-connectx7");
    let given = given(&[("PCIDEVICE_A", "0000:33:00.0,0000:14:00.0")]);
    let rails = Rails::find(&node, &access, &given);
    let settings = settings::rdma(&rails, &access, CURRENT, &BTreeMap::new());
    assert_eq!(value(&settings, "NCCL_IB_HCA"), Some("=mlx5_1:1,mlx5_2:1"));
    assert_eq!(value(&settings, "NCCL_IB_GID_INDEX"), None);
    assert_eq!(value(&settings, "NCCL_IB_ADDR_FAMILY"), Some("AF_INET"));
    assert_eq!(value(&settings, "UCX_NET_DEVICES"), Some("mlx5_1:1,mlx5_2:1"));
    assert_eq!(value(&settings, "NCCL_SOCKET_IFNAME"), Some("=eth0"));
    let newest = settings::rdma(&rails, &access, Some(NcclVersion(2, 30)), &BTreeMap::new());
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
    let same = settings::rdma(&rails, &access, old, &BTreeMap::new());
    assert_eq!(value(&same, "NCCL_IB_GID_INDEX"), Some("3"));
    let mut rails = rails;
    let other = Gid {
        index: 5,
        ..rails.rails[0].gid.unwrap().clone()
    };
    rails.rails[0].gid = Some(&other);
    let different = settings::rdma(&rails, &access, old, &BTreeMap::new());
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
    let settings = settings::rdma(&rails, &access, CURRENT, &BTreeMap::new());
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
    let settings = settings::rdma(&rails, &access, CURRENT, &BTreeMap::new());
    assert_eq!(value(&settings, "FI_PROVIDER"), Some("efa"));
    assert_eq!(value(&settings, "NCCL_IB_HCA"), None);
}

#[test]
fn what_the_user_set_is_kept_and_disagreement_is_reported() {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    let user = user(&[
        ("NCCL_IB_HCA", "mlx5_2"),
        ("NCCL_IB_GID_INDEX", ""),
        ("NCCL_SOCKET_IFNAME", "=eth0"),
    ]);
    let settings = settings::rdma(&rails, &access, CURRENT, &user);
    let text = format::shell(&settings);
    assert!(!text.contains("export NCCL_IB_HCA="), "{text}");
    assert!(
        text.contains("NCCL_IB_HCA is already set to 'mlx5_2' and is kept"),
        "{text}"
    );
    assert!(
        text.contains("NCCL_IB_GID_INDEX is set but empty: NCCL reads it as 0"),
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
    let user = user(&[("UCX_NET_DEVICES", "a\nexport INJECTED=1 #")]);
    let text = format::shell(&settings::rdma(&rails, &access, CURRENT, &user));
    for script in [
        r#"eval "$TEXT"; printf '%s|%s|%s' "$NCCL_IB_HCA" "$NVSHMEM_HCA_LIST" "$INJECTED""#,
        r#"set -f; eval $TEXT
printf '%s|%s|%s' "$NCCL_IB_HCA" "$NVSHMEM_HCA_LIST" "$INJECTED""#,
    ] {
        let output = Command::new("sh")
            .args(["-c", script])
            .env_clear()
            .env("TEXT", &text)
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "=mlx5_1:1|mlx5_1:1|",
            "{}\n{text}",
            String::from_utf8_lossy(&output.stderr)
        );
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
    let settings = settings::rdma(&rails, &access, CURRENT, &BTreeMap::new());
    assert_eq!(value(&settings, "NCCL_IB_ADDR_RANGE"), Some("10.0.1.0/24"));
}
