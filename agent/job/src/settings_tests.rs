//! From a tree to the lines that a shell evaluates.

#![allow(clippy::unwrap_used)] // in a test, a failure is a panic

use std::process::Command;

use rdma_health_node::Fact;
use rdma_health_protocol::Gid;

use super::*;
use crate::{
    format,
    given::Given,
    testing::{CURRENT, change, given, read, set, value},
};

#[test]
fn an_old_nccl_gets_an_index_only_if_it_is_right_for_all() {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &Given::default());
    let old = Some(NcclVersion(2, 18));
    let same = rdma(&node, &rails, &access, old, &User::default());
    assert_eq!(value(&same, "NCCL_IB_GID_INDEX"), Some("3"));
    let mut rails = rails;
    let other = Gid {
        index: 5,
        ..rails.rails[0].gid.unwrap().clone()
    };
    rails.rails[0].gid = Some(&other);
    let different = rdma(&node, &rails, &access, old, &User::default());
    assert_eq!(value(&different, "NCCL_IB_GID_INDEX"), None);
    assert!(
        different.remarks[0].contains("mlx5_0:1 needs 5"),
        "{:?}",
        different.remarks
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
    let settings = rdma(&node, &rails, &access, CURRENT, &User::default());
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
    let settings = rdma(&node, &rails, &access, CURRENT, &User::default());
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
    let settings = rdma(&node, &rails, &access, CURRENT, &user);
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
    let text = format::shell(&rdma(&node, &rails, &access, CURRENT, &user));
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
    let settings = rdma(&node, &rails, &access, CURRENT, &User::default());
    assert_eq!(value(&settings, "NCCL_IB_ADDR_RANGE"), Some("10.0.1.0/24"));
}

#[test]
fn a_pinned_gid_index_is_read_as_nccl_reads_it() {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    let remarks = |index: &str, version| {
        let user = set(&[("NCCL_IB_GID_INDEX", index)]);
        rdma(&node, &rails, &access, version, &user).remarks.join("\n")
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
    let old = remarks("-1", Some(NcclVersion(2, 18)));
    assert!(old.contains("is -1, but mlx5_1:1 needs 3"), "{old}");
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
        (hca.name.as_str().into(), std::sync::Arc::new(hca))
    });
    node.facts.hcas = Fact::Known(many.collect());
    let addresses: Vec<_> = (0..64).map(|n| format!("0001:{n:02x}:00.0")).collect();
    let given = given(&[("PCIDEVICE_A", &addresses.join(","))]);
    let mut access = access;
    access.uverbs = Fact::Absent;
    let rails = Rails::find(&node, &access, &given);
    assert_eq!(rails.count(), 64, "{:?}", rails.refused);
    let settings = rdma(&node, &rails, &access, CURRENT, &User::default());
    let ports = |name: &str| value(&settings, name).unwrap().split(',').count();
    assert_eq!((ports("NCCL_IB_HCA"), ports("UCX_NET_DEVICES")), (32, 64));
    assert!(
        settings
            .remarks
            .iter()
            .any(|remark| remark
                .contains("at most 32 ports; 32 are left out, evenly over the adapters: mlx5_"))
    );
}

/// 64 virtual functions of two adapters: each adapter has half of the ports, in order of their numbers.
#[test]
fn of_more_ports_than_nccl_uses_no_adapter_is_left_out() {
    let (mut node, mut access) = read("h100-connectx7");
    let model = node.hcas.known().unwrap()["mlx5_1"].clone();
    let address = |n: usize| format!("0001:{:02x}:{:02x}.{}", n / 32, n % 32 / 8, n % 8);
    let many = (0..64).map(|n| {
        let mut hca = (*model).clone();
        hca.name = format!("mlx5_{n}");
        hca.pci_address = Fact::Known(address(n));
        hca.physical_function = Fact::Known(address(n / 32 * 32));
        (hca.name.as_str().into(), std::sync::Arc::new(hca))
    });
    node.facts.hcas = Fact::Known(many.collect());
    access.uverbs = Fact::Absent;
    let addresses: Vec<_> = (0..64).map(address).collect();
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", &addresses.join(","))]));
    let settings = rdma(&node, &rails, &access, CURRENT, &User::default());
    let expected: Vec<_> = (0..16).chain(32..48).map(|n| format!("mlx5_{n}:1")).collect();
    assert_eq!(
        value(&settings, "NCCL_IB_HCA").unwrap(),
        format!("={}", expected.join(","))
    );
}

#[test]
fn tcp_on_a_node_with_efa_does_not_go_through_the_plugin() {
    let (node, access) = read("efa-p5");
    let efa = tcp(&node, &access, "TCP was requested", &User::default());
    assert_eq!(value(&efa, "NCCL_NET"), Some("Socket"));
    let (node, access) = read("h100-connectx7");
    let other = tcp(&node, &access, "TCP was requested", &User::default());
    assert_eq!(value(&other, "NCCL_NET"), None);
    assert_eq!(value(&other, "NCCL_IB_DISABLE"), Some("1"));
}

#[test]
fn a_value_for_kubernetes_is_not_expanded() {
    let (node, mut access) = read("h100-connectx7");
    access.default_netdev = Fact::Known("$(PATH)".into());
    let text = format::yaml(&tcp(&node, &access, "", &User::default()));
    assert!(text.contains("value: \"=$$(PATH)\""), "{text}");
}

#[test]
fn what_a_configuration_file_of_nccl_sets_is_kept() {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    let mut user = set(&[("NCCL_SOCKET_IFNAME", "=eth0")]);
    user.add_nccl_configuration("/root/.nccl.conf", "# comment\nNCCL_IB_HCA=mlx5_7\nno setting\n");
    user.add_nccl_configuration("/etc/nccl.conf", "NCCL_IB_HCA=mlx5_8\nNCCL_SOCKET_IFNAME=eth9\n");
    let settings = rdma(&node, &rails, &access, CURRENT, &user);
    let text = format::shell(&settings);
    assert!(!text.contains("export NCCL_IB_HCA="), "{text}");
    assert!(
        text.contains("NCCL_IB_HCA is set in /root/.nccl.conf to 'mlx5_7' and is kept"),
        "{text}"
    );
    assert!(!text.contains("eth9"), "NCCL uses the variable: {text}");
}

/// A value that matches nothing is named with what to do.
#[test]
fn a_value_that_matches_nothing_has_its_remedy() {
    let (node, mut access) = read("h100-connectx7");
    access.netdevs = Fact::Known(vec!["eth0".into(), "lo".into(), "net1".into()]);
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    for (name, wrong, words) in [
        ("NCCL_IB_HCA", "mlx4", "so NCCL uses TCP; unset it"),
        ("NCCL_IB_HCA", "=mlx5_1:2", "so NCCL uses TCP; unset it"),
        (
            "UCX_NET_DEVICES",
            "mlx4_0:1",
            "UCX reaches no other node; unset it",
        ),
        (
            "UCX_NET_DEVICES",
            "eth0",
            "UCX uses TCP although RDMA would work; unset it",
        ),
        ("UCX_NET_DEVICES", "mlx5_1", "has no port number"),
        (
            "NCCL_SOCKET_IFNAME",
            "ib0",
            "(eth0, lo, net1), so NCCL does not start; unset it",
        ),
        ("NCCL_SOCKET_IFNAME", "=eth", "so NCCL does not start; unset it"),
        (
            "NCCL_SOCKET_IFNAME",
            "^eth,net,lo",
            "so NCCL does not start; unset it",
        ),
        ("NCCL_SOCKET_IFNAME", "", "ignores an empty value"),
        ("GLOO_SOCKET_IFNAME", "eth", "so Gloo does not start; unset it"),
        ("GLOO_SOCKET_IFNAME", "=eth0", "so Gloo does not start; unset it"),
        (
            "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME",
            "ens",
            "so NVSHMEM does not start; unset it",
        ),
    ] {
        let settings = rdma(&node, &rails, &access, CURRENT, &set(&[(name, wrong)]));
        let remarks = settings.remarks.join("\n");
        assert!(
            remarks.contains(&format!("{name} is already set to '{wrong}' and is kept"))
                && remarks.contains(words),
            "{name}={wrong}: {remarks}"
        );
        if name == "NCCL_IB_HCA" {
            let reason = settings.overruled.join("\n");
            assert!(reason.contains("unset it, or set it to '=mlx5_1:1'"), "{reason}");
        }
        // Without a default route, too.
        if name.contains("IFNAME") {
            let mut access = access.clone();
            access.default_netdev = Fact::Absent;
            let remarks = tcp(&node, &access, "", &set(&[(name, wrong)])).remarks.join("\n");
            assert!(remarks.contains(words), "{name}={wrong}: {remarks}");
        }
    }
    for (name, right) in [
        ("NCCL_SOCKET_IFNAME", "eth"),
        ("NCCL_SOCKET_IFNAME", "^net,lo"),
        ("GLOO_SOCKET_IFNAME", "eth0"),
    ] {
        let remarks = rdma(&node, &rails, &access, CURRENT, &set(&[(name, right)])).remarks;
        assert_eq!(remarks, Vec::<String>::new(), "{name}={right}");
    }
    let mut user = User::default();
    user.add_nccl_configuration("/etc/nccl.conf", "NCCL_IB_HCA=mlx4\n");
    let remarks = rdma(&node, &rails, &access, CURRENT, &user).remarks.join("\n");
    assert!(
        remarks.contains("so NCCL uses TCP; remove it from /etc/nccl.conf"),
        "{remarks}"
    );
}

#[test]
fn a_switch_is_read_as_nccl_reads_it() {
    let (node, access) = read("h100-connectx7");
    let rails = Rails::find(&node, &access, &given(&[("PCIDEVICE_A", "0000:14:00.0")]));
    let settings = |value: &str| {
        rdma(
            &node,
            &rails,
            &access,
            CURRENT,
            &set(&[("NCCL_IB_DISABLE", value)]),
        )
    };
    for off in ["1", "2", "0x1", " 1x", "-1"] {
        assert_eq!(settings(off).transport, Transport::Tcp, "{off}");
    }
    for on in ["0", "", "00"] {
        assert_eq!(settings(on).remarks, Vec::<String>::new(), "{on}");
    }
    let settings = settings("true");
    assert_eq!(settings.transport, Transport::Rdma);
    assert!(
        settings.remarks[0].contains("NCCL_IB_DISABLE is 'true', which is not a number: NCCL reads it as 0"),
        "{:?}",
        settings.remarks
    );
}

#[test]
fn ports_of_two_networks_are_reported() {
    let (mut node, access) = read("h100-connectx7");
    change(&mut node, "mlx5_1", |hca| {
        for port in hca.ports.values_mut() {
            port.link_layer = Fact::Known(rdma_health_protocol::LinkLayer::InfiniBand);
        }
    });
    let rails = Rails::find(
        &node,
        &access,
        &given(&[("PCIDEVICE_A", "0000:14:00.0,0000:33:00.0")]),
    );
    let remarks = rdma(&node, &rails, &access, CURRENT, &User::default())
        .remarks
        .join("\n");
    assert!(
        remarks.contains("mlx5_1:1 use InfiniBand and mlx5_2:1 RoCE: NCCL cannot connect one to the other"),
        "{remarks}"
    );
}
