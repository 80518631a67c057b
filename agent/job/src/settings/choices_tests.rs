//! Which ports each library gets, and what of the user keeps NCCL from RDMA.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use rdma_health_node::{Fact, Node, access::Access};

use super::*;
use crate::{
    given::Given,
    testing::{CURRENT, change, given, read, set, value},
};

fn of(
    node: &Node,
    access: &Access,
    given: &Given,
    version: Option<NcclVersion>,
    user: &[(&str, &str)],
) -> Settings {
    let rails = Rails::find(node, access, given);
    rdma(node, &rails, access, version, &set(user))
}

fn two() -> Given {
    given(&[("PCIDEVICE_A", "0000:14:00.0,0000:33:00.0")])
}

/// In NVSHMEM's source the list filters without the switch, and the switch replaces the nearest NIC by the next in turn.
#[test]
fn nvshmem_chooses_the_nearest_of_the_list() {
    let (node, access) = read("h100-connectx7");
    let settings = of(&node, &access, &two(), CURRENT, &[]);
    assert_eq!(value(&settings, "NVSHMEM_HCA_LIST"), Some("mlx5_1:1,mlx5_2:1"));
    assert_eq!(value(&settings, "NVSHMEM_ENABLE_NIC_PE_MAPPING"), None);
    assert_eq!(value(&settings, "NVSHMEM_HCA_PREFIX"), None);
    assert_eq!(value(&settings, "NVSHMEM_IB_ADDR_FAMILY"), Some("AF_INET"));
    let mapping = of(
        &node,
        &access,
        &two(),
        CURRENT,
        &[
            ("NVSHMEM_HCA_PE_MAPPING", "mlx5_1:1:2"),
            ("NVSHMEM_ENABLE_NIC_PE_MAPPING", "1"),
        ],
    );
    assert_eq!(value(&mapping, "NVSHMEM_HCA_LIST"), None);
    assert_eq!(mapping.remarks, Vec::<String>::new());
    assert!(
        mapping
            .notes
            .iter()
            .any(|note| note.contains("ignores the mapping next to a list"))
    );
    let in_turn = of(
        &node,
        &access,
        &two(),
        CURRENT,
        &[("NVSHMEM_ENABLE_NIC_PE_MAPPING", "1")],
    );
    assert!(
        in_turn.remarks[0].contains("take the ports in turn"),
        "{:?}",
        in_turn.remarks
    );
}

#[test]
fn nvshmem_gets_the_common_part_of_names_without_mlx5() {
    let (mut node, access) = read("h100-connectx7");
    for (from, to) in [("mlx5_1", "ibp20s0"), ("mlx5_2", "ibp51s0")] {
        change(&mut node, from, |hca| hca.name = to.into());
    }
    let settings = of(&node, &access, &two(), CURRENT, &[]);
    assert_eq!(value(&settings, "NVSHMEM_HCA_PREFIX"), Some("ibp"));
}

#[test]
fn the_other_libraries_follow_the_choice_for_nccl() {
    let (node, access) = read("h100-connectx7");
    for (list, ports) in [
        ("^mlx5_1", "mlx5_2:1"),
        ("=mlx5_1", "mlx5_1:1"),
        ("mlx5_1,mlx5_2", "mlx5_1:1,mlx5_2:1"),
        // It names none of the job's: the job's ports stay.
        ("mlx4", "mlx5_1:1,mlx5_2:1"),
    ] {
        let settings = of(&node, &access, &two(), CURRENT, &[("NCCL_IB_HCA", list)]);
        assert_eq!(value(&settings, "UCX_NET_DEVICES"), Some(ports), "{list}");
        assert_eq!(value(&settings, "NVSHMEM_HCA_LIST"), Some(ports), "{list}");
    }
    let empty = of(&node, &access, &two(), CURRENT, &[("NCCL_IB_HCA", "")]);
    assert!(
        empty.remarks[0].contains("takes an empty value as all devices: unset it"),
        "{:?}",
        empty.remarks
    );
}

#[test]
fn what_keeps_nccl_from_starting_or_connecting_is_listed() {
    let (node, access) = read("h100-connectx7");
    for (name, wrong, words) in [
        (
            "NCCL_IB_GID_INDEX",
            "99",
            "mlx5_1:1, mlx5_2:1 have no GID at this index",
        ),
        (
            "NCCL_IB_ADDR_FAMILY",
            "AF_INET6",
            "have no routable GID of this family",
        ),
        ("NCCL_NET", "", "does not start"),
    ] {
        let settings = of(&node, &access, &two(), CURRENT, &[(name, wrong)]);
        assert_eq!(
            settings.stopped.len(),
            1,
            "{name}={wrong}: {:?}",
            settings.remarks
        );
        assert!(settings.stopped[0].contains(words), "{:?}", settings.stopped);
    }
    for (name, right) in [
        ("NCCL_IB_GID_INDEX", "3"),
        ("NCCL_IB_ADDR_FAMILY", "AF_INET"),
        ("NCCL_NET", "IB"),
    ] {
        assert_eq!(
            of(&node, &access, &two(), CURRENT, &[(name, right)]).stopped,
            Vec::<String>::new()
        );
    }
    // An NCCL that cannot find the index, and no index for all.
    let mut other = node.clone();
    change(&mut other, "mlx5_1", |hca| {
        let Fact::Known(gids) = &mut hca.ports.values_mut().next().unwrap().gids else {
            panic!("no GIDs")
        };
        for gid in gids.iter_mut() {
            gid.index += 4;
        }
    });
    let old = of(&other, &access, &two(), Some(NcclVersion(2, 19)), &[]);
    assert!(
        old.stopped[0].contains("no index is right for all"),
        "{:?}",
        old.stopped
    );
    assert_eq!(
        of(&other, &access, &two(), CURRENT, &[]).stopped,
        Vec::<String>::new()
    );
}

#[test]
fn nccl_does_not_start_without_an_interface_for_sockets() {
    let (node, mut access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &two());
    access.netdevs = Fact::Known(["eth0", "lo", "rdma0"].map(str::to_owned).to_vec());
    let settings = |value: &str| {
        rdma(
            &node,
            &rails,
            &access,
            CURRENT,
            &set(&[("NCCL_SOCKET_IFNAME", value)]),
        )
    };
    assert!(settings("nope0").stopped[0].contains("so NCCL does not start"));
    for (value, words) in [
        (
            "^lo,docker",
            "matches eth0, rdma0, and NCCL can choose one that does not lead to the other nodes",
        ),
        (
            "rdma0",
            "names rdma0, which is not the interface of the default route",
        ),
    ] {
        let settings = settings(value);
        assert_eq!(settings.stopped, Vec::<String>::new());
        assert!(settings.remarks[0].contains(words), "{:?}", settings.remarks);
    }
}

/// NCCL reaches EFA only through the plugin, and the plugin only through the provider efa.
#[test]
fn what_keeps_nccl_from_efa_is_listed() {
    let (node, access) = read("efa-p5");
    let settings = |name: &str, value: &str| of(&node, &access, &Given::default(), CURRENT, &[(name, value)]);
    for (name, wrong, words) in [
        ("FI_PROVIDER", "tcp", "does not offer the EFA devices"),
        ("FI_PROVIDER", "^efa", "does not offer the EFA devices"),
        ("NCCL_NET_PLUGIN", "none", "does not load aws-ofi-nccl"),
        ("NCCL_NET_PLUGIN", "", "does not load aws-ofi-nccl"),
        ("NCCL_NET", "socket", "uses TCP"),
    ] {
        let settings = settings(name, wrong);
        assert_eq!(settings.transport, Transport::Tcp, "{name}={wrong}");
        assert!(settings.overruled[0].contains(words), "{:?}", settings.overruled);
        assert_eq!(settings.remarks.len(), 1, "{:?}", settings.remarks);
    }
    let ib = settings("NCCL_NET", "IB");
    assert!(
        ib.stopped[0].contains("does not use EFA devices"),
        "{:?}",
        ib.stopped
    );
    for (name, right) in [
        ("FI_PROVIDER", "efa"),
        ("FI_PROVIDER", "efa,shm"),
        ("NCCL_NET_PLUGIN", "ofi"),
        ("NCCL_NET", "AWS Libfabric"),
    ] {
        let settings = settings(name, right);
        assert_eq!(
            (settings.overruled, settings.stopped),
            (Vec::new(), Vec::new()),
            "{name}={right}"
        );
    }
}

#[test]
fn tcp_is_not_reported_where_nccl_uses_rdma() {
    let (node, access) = read("h100-connectx7");
    for (value, transport) in [("0", Transport::Rdma), ("1", Transport::Tcp)] {
        let settings = tcp(
            &node,
            &access,
            "TCP was requested",
            &set(&[("NCCL_IB_DISABLE", value)]),
        );
        assert_eq!(settings.transport, transport);
        let remarks = settings.remarks.join("\n");
        assert_eq!(
            remarks.contains("NCCL uses RDMA wherever it finds a port; unset it"),
            value == "0",
            "{remarks}"
        );
    }
}
