//! The series of a node, their labels and values.

use std::{collections::BTreeSet, sync::Arc};

use rdma_health_protocol::{Peer, RemotePort};
use rdma_health_tests::view;
use rdma_health_view::View;

use super::{BOTH, kubelet, parsed::parsed, rich, text};
use crate::*;

#[test]
fn an_rdma_function_is_joined_with_its_pod_and_the_series_are_bounded() {
    let of = |view: &View| {
        let text = text(Some(view), BOTH);
        let series: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("rdma_device_pod_info{"))
            .map(str::to_owned)
            .collect();
        series
    };
    let mut view = rich(2);
    let [one] = of(&view).try_into().unwrap();
    for label in [
        "device=\"mlx5_0\"",
        "resource=\"openshift.io/rail0\"",
        "namespace=\"ml\"",
        "pod=\"train-0\"",
        "container=\"main\"",
    ] {
        assert!(one.contains(label), "{one}");
    }
    assert!(one.ends_with("} 1"), "{one}");
    view.node.kubelet = Arc::new(kubelet(1024));
    assert_eq!(of(&view).len(), 512);
}

#[test]
fn what_is_absent_or_unread_has_no_series() {
    for absent in [true, false] {
        let families = parsed(&text(Some(&view::empty(absent)), BOTH));
        let facts: BTreeSet<_> = families
            .keys()
            .filter(|name| !name.starts_with("rdma_health_") && !name.starts_with("process_"))
            .map(String::as_str)
            .collect();
        let expected = [
            "rdma_verdict",
            "rdma_verdict_findings",
            "rdma_finding",
            "rdma_cause",
            "rdma_problem",
        ];
        assert!(facts.iter().all(|name| expected.contains(name)), "{facts:?}");
    }
}

#[test]
fn before_the_first_reading_only_the_agents_own_metrics_are_exported() {
    let families = parsed(&text(None, BOTH));
    assert!(
        families
            .keys()
            .all(|name| name.starts_with("rdma_health_") || name.starts_with("process_"))
    );
    assert!(
        families["process_resident_memory_bytes"]
            .1
            .values()
            .all(|bytes| *bytes > 1e6)
    );
}

#[test]
fn values_are_in_base_units() {
    let text = text(Some(&rich(2)), RenderOptions::default());
    for line in [
        r#"rdma_port_data_received_bytes_total{device="mlx5_1",port="1"} 32"#,
        r#"rdma_port_rate_bytes_per_second{device="mlx5_0",port="1"} 50000000000"#,
        r#"rdma_port_statistic_total{device="mlx5_0",port="1",directory="hw_counters",counter="sent_pkts"} 11"#,
        r#"rdma_port_level{device="mlx5_0",port="1",directory="hw_counters",level="active_qps"} 12"#,
        r#"rdma_pci_link_speed_transfers_per_second{pci_address="0000:41:00.0",role="rdma"} 16000000000"#,
        r#"rdma_memlock_limit_bytes{process="containerd",limit="soft"} 8388608"#,
        r#"rdma_memlock_limit_bytes{process="rdma-health",limit="hard"} +Inf"#,
        r#"rdma_iommu_group_translated{pci_address="0000:41:00.0",device="mlx5_0",role="rdma"} 1"#,
        r#"rdma_iommu_group_translated{pci_address="0000:41:01.0",device="mlx5_1",role="rdma"} 0"#,
        r#"rdma_iommu_configured_info{domain="passthrough",invalidation="lazy"} 1"#,
        r#"rdma_probe_latency_seconds{device="mlx5_0",port="1",statistic="median"} 0.0000015"#,
        r#"rdma_probe_success{device="mlx5_1",port="1"} 0"#,
        r#"rdma_probe_failure_info{device="mlx5_1",port="1",stage="poll",reason="IBV_WC_LOC_PROT_ERR",vendor_error="0x81"} 1"#,
        r#"rdma_probe_skipped{device="mlx5_2",port="1",reason="busy"} 1"#,
        r#"rdma_port_gids{device="mlx5_0",port="1",type="RoCE v2"} 1"#,
        r#"rdma_verdict{status="critical"} 1"#,
        r#"rdma_device_verbs_usable{device="mlx5_1"} 0"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains(r#"board_id="MT_\"00\\\\838\\u{a}""#));
    assert!(!text.contains("zz_unread") && !text.contains("node_infiniband"));
    // Skipped is neither success nor failure.
    assert!(!text.contains(r#"rdma_probe_success{device="mlx5_2""#));
}

#[test]
fn findings_causes_and_devices_can_be_joined_and_dated() {
    let text = text(Some(&rich(3)), RenderOptions::default());
    for start in [
        r#"rdma_finding_since_timestamp_seconds{rule="probe-failed",device="mlx5_1",port="1"} 1789996400"#,
        r#"rdma_cause{cause="iommu-translation",severity=""#,
        r#"rdma_cause_since_timestamp_seconds{cause="iommu-translation"} 1789996400"#,
        r#"rdma_problem{cause="iommu-translation",domain="iommu",severity=""#,
        r"rdma_health_observed_since_timestamp_seconds 1789996400",
        r#"rdma_device_info{device="mlx5_0",model="ConnectX-7",firmware="28.39.3560",driver="mlx5_core",rail="0",slot="","#,
        r#"rdma_device_info{device="mlx5_2",model="ConnectX-7",firmware="28.39.3560",driver="mlx5_core",rail="2",slot="","#,
        r#"rdma_iommu_mode_info{mode="translated"} 1"#,
        r#"rdma_iommu_previous_boot_info{mode="translated",kernel="6.1.0-36-amd64"} 1"#,
        r#"rdma_probe_baseline_bandwidth_bytes_per_second{device="mlx5_0",port="1"} 25000000000"#,
        r#"rdma_probe_baseline_measurements{device="mlx5_0",port="1"} 1"#,
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(start)),
            "{start}\n{text}"
        );
    }
    let problems: f64 = parsed(&text)["rdma_problem"].1.values().sum();
    let grave = |name: &str| {
        text.lines()
            .filter(|line| line.starts_with("rdma_finding{") && line.contains(name))
            .count()
    };
    let findings = grave("severity=\"warning\"") + grave("severity=\"critical\"");
    #[allow(clippy::cast_precision_loss)] // a few findings
    let findings = findings as f64;
    assert!(
        (problems - findings).abs() < 0.5,
        "each grave finding is in one problem: {problems} of {findings}"
    );
}

#[test]
fn a_probe_between_nodes_adds_nothing_to_the_series_of_its_port() {
    let mut view = rich(2);
    let series = |view: &View| -> Vec<String> {
        let text = text(Some(view), BOTH);
        let lines = text.lines().filter(|line| line.starts_with("rdma_probe_"));
        lines.map(str::to_owned).collect()
    };
    let loopbacks = series(&view);
    let mut between = view.node.probes[0].clone();
    let path = &mut std::sync::Arc::make_mut(&mut between).report.path;
    path.to = Peer::Remote(RemotePort {
        node: "node-b".into(),
        port: path.from.clone(),
    });
    view.node.probes.push(between);
    assert_eq!(series(&view), loopbacks);
    assert!(!loopbacks.is_empty());
}
