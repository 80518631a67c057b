//! Variables in a specification that depend on what the pod is given.

use super::*;

/// `Bootstrap: no socket interface found` of the setup guide.
#[test]
fn an_interface_that_the_pod_does_not_have_is_found_before_nccl_fails() {
    const RAILS: &str = "net1,net2,net3,net4";
    let with = |value: &str, networks: &str, host: bool| {
        let mut cluster = cluster();
        set_job(&mut cluster, |job| {
            job["spec"]["template"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] =
                networks.into();
            let spec = pod_spec(job);
            spec["hostNetwork"] = host.into();
            spec["containers"][0]["env"] = json!([{"name": "NCCL_SOCKET_IFNAME", "value": value}]);
        });
        let report = run(&cluster);
        let mut found = report
            .findings
            .into_iter()
            .filter(|finding| finding.rule == "socket-interface-missing");
        found.next()
    };
    let found = with(RAILS, "", false).expect("no interface but eth0");
    assert_eq!(found.severity, Severity::Critical);
    for words in [
        "container job sets NCCL_SOCKET_IFNAME=net1,net2,net3,net4",
        "no socket interface found",
    ] {
        assert!(found.summary.contains(words), "{found:?}");
    }
    assert!(
        found.evidence.iter().any(|line| line.contains("eth0, lo")),
        "{found:?}"
    );
    // One that exists is enough; a name is a prefix unless it begins with '='.
    for (value, networks) in [
        (RAILS, "eno5np0-network"),
        ("net", "eno5np0-network"),
        ("=rail0", "eno5np0-network@rail0"),
        ("rail", r#"[{"name": "eno5np0-network", "interface": "rail0"}]"#),
        ("=eth0", ""),
        ("eth", ""),
        ("^docker0", ""),
        ("", ""),
        ("$(INTERFACE)", ""),
    ] {
        let found = with(value, networks, false);
        assert!(found.is_none(), "{value} {networks}: {found:?}");
    }
    for (value, networks) in [
        ("=net", "eno5np0-network"),
        ("net1", "eno5np0-network@rail0"),
        ("=eth1", ""),
    ] {
        assert!(with(value, networks, false).is_some(), "{value} {networks}");
    }
    assert!(
        with("eno5np0", "", true).is_none(),
        "the host's interfaces are not known"
    );
}

fn with(name: &str, value: &str) -> Report {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        pod_spec(job)["containers"][0]["env"] = json!([{"name": name, "value": value}]);
    });
    run(&cluster)
}

#[test]
fn devices_that_a_plugin_chooses_must_not_be_named() {
    for (name, value) in [
        ("NCCL_IB_HCA", "mlx5_6,mlx5_7,mlx5_10,mlx5_11"),
        ("NCCL_IB_HCA", "=mlx5_6:1"),
        ("UCX_NET_DEVICES", "mlx5_6:1"),
        ("NVSHMEM_HCA_LIST", "mlx5_6:1,mlx5_7:1"),
    ] {
        let report = with(name, value);
        let found = one(&report, "devices-pinned");
        assert_eq!((found.severity, report.exit_status()), (Severity::Warning, 1));
        assert!(found.summary.contains(&format!("{name}={value}")), "{found:?}");
        assert!(
            found.evidence[0].contains("openshift.io/eno5np0rdma"),
            "{found:?}"
        );
    }
    for value in ["mlx5", "^mlx5_bond_0", "=", ""] {
        assert_eq!(with("NCCL_IB_HCA", value).findings, [], "{value}");
    }
    assert_eq!(with("UCX_NET_DEVICES", "eth0").findings, []);
}

/// The guides set it; it works until an address changes. So it is said, and does not change the exit status.
#[test]
fn one_gid_index_for_all_devices_is_remarked() {
    for name in ["NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX"] {
        let report = with(name, "3");
        let found = one(&report, "gid-index-pinned");
        assert_eq!((found.severity, report.exit_status()), (Severity::Info, 0));
        assert!(found.remedy.contains(&format!("leave {name} out")), "{found:?}");
    }
    for value in ["-1", "auto", ""] {
        assert_eq!(with("NCCL_IB_GID_INDEX", value).findings, [], "{value}");
    }
}
