//! Tests of what `/metrics` shows.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rdma_health_node::{Fact, UnreadKind, infiniband::Hca, kubelet::Kubelet, pci::Role};
use rdma_health_protocol::{ContainerDevices, ContainerResources, Peer, PodResources, RemotePort};
use rdma_health_tests::{promtool, view};
use rdma_health_view::View;

use super::{
    families::{FIXED, counters::NAMED},
    *,
};

const BOTH: RenderOptions = RenderOptions {
    node_exporter_names: true,
    without_fixed: false,
    format: Format::Text,
};

/// A node with every counter that has its own family.
fn rich(devices: u64) -> View {
    let counters: Vec<_> = NAMED
        .iter()
        .map(|named| (named.directory.name(), named.file))
        .collect();
    let mut view = view::rich(devices, &counters);
    view.node.kubelet = Arc::new(kubelet(1));
    view
}

/// A kubelet that gave `mlx5_0` to this many pods.
fn kubelet(pods: usize) -> Kubelet {
    let pod = |n| PodResources {
        name: format!("train-{n}"),
        namespace: "ml".into(),
        containers: vec![ContainerResources {
            name: "main".into(),
            devices: vec![ContainerDevices {
                resource_name: "openshift.io/rail0".into(),
                device_ids: vec!["mlx5_0".into()],
            }],
            ..ContainerResources::default()
        }],
    };
    Kubelet {
        pods: Fact::Known((0..pods).map(pod).collect()),
        allocatable: Fact::Absent,
    }
}

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

fn text(view: Option<&View>, options: RenderOptions) -> String {
    let mut buffer = Vec::new();
    Exporter::default().render(view, options, &mut buffer);
    String::from_utf8(buffer).unwrap()
}

/// The text read again, as strictly as Prometheus does: head before series, families in one piece, no series twice.
/// By family: its type and its series with their values.
fn parsed(text: &str) -> BTreeMap<String, (String, BTreeMap<String, f64>)> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, (String, BTreeMap<String, f64>)> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            current = head.split(' ').next().unwrap().to_owned();
            let new = families.insert(current.clone(), Default::default()).is_none();
            assert!(new, "{current} comes twice");
        } else if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            assert_eq!(name, current);
            families.get_mut(name).unwrap().0 = kind.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let suffix = name
                .strip_prefix(current.as_str())
                .unwrap_or_else(|| panic!("{name} below {current}"));
            let (kind, all) = families.get_mut(&current).unwrap();
            assert!(suffix.is_empty() || kind == "histogram", "{name}");
            if let Some(labels) = series.strip_prefix(name).filter(|labels| !labels.is_empty()) {
                check_labels(labels);
            }
            let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(
                all.insert(series.to_owned(), value).is_none(),
                "{series} comes twice"
            );
        }
    }
    families
}

/// `{name="value",…}` with nothing unescaped inside.
fn check_labels(labels: &str) {
    let mut rest = labels.strip_prefix('{').unwrap();
    loop {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{labels}"
        );
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().unwrap() {
                (_, '\\') => assert!(matches!(chars.next().unwrap().1, '\\' | '"' | 'n'), "{labels}"),
                (at, '"') => break at,
                _ => {}
            }
        };
        match &after[end + 1..] {
            "}" => return,
            more => rest = more.strip_prefix(',').unwrap(),
        }
    }
}

#[test]
fn every_declared_family_is_emitted_as_declared() {
    let text = text(Some(&rich(3)), BOTH);
    let mut emitted = parsed(&text);
    for entry in catalogue::groups(&[]).iter().flat_map(|group| &group.entries) {
        let found = emitted.remove(entry.name);
        // Only Linux 6.2 or later reports it.
        if entry.name == "process_open_fds" && found.is_none() {
            continue;
        }
        let (kind, series) = found.unwrap_or_else(|| panic!("{} is declared and never emitted", entry.name));
        assert_eq!(kind, entry.kind.name(), "{}", entry.name);
        assert!(
            text.contains(&format!("# HELP {} {}\n", entry.name, entry.help())),
            "{}",
            entry.name
        );
        for one in series.keys() {
            for label in entry.labels {
                assert!(one.contains(&format!("{label}=\"")), "{one} has no {label}");
            }
        }
    }
    assert!(emitted.is_empty(), "not declared: {:?}", emitted.keys());
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
fn openmetrics_has_the_same_series_and_an_end() {
    let view = rich(3);
    let options = RenderOptions {
        format: Format::OpenMetrics,
        ..BOTH
    };
    let open = text(Some(&view), options);
    let series = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        // The process itself changes.
        let stable = lines.filter(|line| !line.starts_with("process_"));
        stable.map(str::to_owned).collect()
    };
    assert_eq!(series(&open), series(&text(Some(&view), BOTH)));
    assert_eq!(open.matches("# EOF").count(), 1);
    assert!(open.ends_with("\n# EOF\n"));
    for line in [
        "# TYPE rdma_port_data_received_bytes counter",
        "# UNIT rdma_port_data_received_bytes bytes",
        "# UNIT rdma_port_rate_bytes_per_second bytes_per_second",
        "# UNIT process_cpu_seconds seconds",
    ] {
        assert!(open.lines().any(|found| found == line), "{line}");
    }
    promtool::import(&open).unwrap();
    promtool::import(&text(None, options)).unwrap();
    let cut = open.trim_end_matches("# EOF\n");
    assert!(promtool::import(cut).is_err(), "what is cut off is noticed");
}

#[test]
fn every_family_with_a_unit_ends_with_it() {
    let text = text(
        Some(&rich(3)),
        RenderOptions {
            format: Format::OpenMetrics,
            ..BOTH
        },
    );
    for entry in catalogue::groups(&[]).iter().flat_map(|group| &group.entries) {
        let head = format!("# UNIT {} ", entry.name.trim_end_matches("_total"));
        assert_eq!(
            text.contains(&head),
            !entry.unit.is_empty(),
            "{}: {}",
            entry.name,
            entry.unit
        );
    }
}

#[test]
fn fixed_families_can_be_left_out() {
    let view = rich(3);
    let without = RenderOptions {
        without_fixed: true,
        ..BOTH
    };
    let (all, fewer) = (
        parsed(&text(Some(&view), BOTH)),
        parsed(&text(Some(&view), without)),
    );
    let left_out: BTreeSet<_> = all.keys().filter(|name| !fewer.contains_key(*name)).collect();
    assert_eq!(
        left_out,
        FIXED
            .iter()
            .copied()
            .map(String::from)
            .collect::<BTreeSet<_>>()
            .iter()
            .collect()
    );
}

/// Whether another exporter that may run on the same node has a metric of that name: `rdma_exporter` by yuuki,
/// sriov-network-metrics-exporter, dcgm-exporter or the Prometheus node exporter.
fn is_foreign(name: &str) -> bool {
    const RDMA_EXPORTER: &[&str] = &[
        "rdma_port_info",
        "rdma_lifespan_milliseconds",
        "rdma_scrape_collector_success",
        "rdma_scrape_errors_total",
        // Of its early releases.
        "rdma_port_stat_total",
        "rdma_port_hw_stat_total",
    ];
    const PREFIXES: &[&str] = &[
        // rdma_exporter
        "rdma_cc_",
        "rdma_netdev_",
        "rdma_optional_",
        "rdma_pcie_",
        "rdma_phy_",
        "rdma_qp_",
        "rdma_roce_",
        // sriov-network-metrics-exporter, dcgm-exporter
        "sriov_",
        "DCGM_",
    ];
    // It names each counter after its file.
    let file = name
        .strip_prefix("rdma_")
        .and_then(|name| name.strip_suffix("_total"));
    let is_file = NAMED.iter().any(|named| Some(named.file) == file);
    let node_exporter = name.starts_with("node_") && !name.starts_with("node_infiniband_");
    is_file
        || node_exporter
        || RDMA_EXPORTER.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[test]
fn no_name_is_that_of_another_exporter() {
    for foreign in [
        "rdma_port_info",
        "rdma_port_rcv_data_total",
        "rdma_qp_counter_mode",
        "node_load1",
    ] {
        assert!(is_foreign(foreign), "{foreign}");
    }
    for entry in catalogue::groups(&[]).iter().flat_map(|group| &group.entries) {
        assert!(!is_foreign(entry.name), "{}", entry.name);
    }
}

#[test]
fn promtool_accepts_every_family_of_the_node() {
    for view in [rich(3), view::empty(true), view::empty(false)] {
        promtool::check(&text(Some(&view), RenderOptions::default())).unwrap();
    }
    promtool::check(&text(None, RenderOptions::default())).unwrap();
}

#[test]
fn help_texts_list_what_the_types_name() {
    let help = |name: &str| {
        let groups = catalogue::groups(&[]);
        let mut entries = groups.iter().flat_map(|group| &group.entries);
        entries.find(|entry| entry.name == name).unwrap().help()
    };
    for role in Role::ALL {
        assert!(help("rdma_pci_function_info").contains(role.name()), "{role:?}");
    }
    for kind in UnreadKind::OF_READS {
        assert!(help("rdma_health_read_errors_total").contains(kind), "{kind}");
    }
}

/// Prints how long a large node takes; nothing depends on it. `cargo test --release -p rdma-health-metrics -- --ignored cost`
#[test]
#[ignore = "a measurement"]
fn cost_of_rendering_sixteen_devices() {
    let view = rich(16);
    let exporter = Exporter::default();
    let mut buffer = Vec::new();
    for options in [RenderOptions::default(), BOTH] {
        let began = std::time::Instant::now();
        for _ in 0..1000 {
            buffer.clear();
            exporter.render(Some(&view), options, &mut buffer);
        }
        println!(
            "{options:?}: {:?} for {} bytes",
            began.elapsed() / 1000,
            buffer.len()
        );
    }
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

/// The one HCA of this name, to be changed.
fn hca<'a>(view: &'a mut View, name: &str) -> &'a mut Hca {
    let Fact::Known(hcas) = &mut view.node.hcas else {
        panic!("no HCAs");
    };
    Arc::make_mut(hcas.get_mut(name).unwrap())
}

#[test]
fn each_scrape_shows_the_counters_of_its_own_reading() {
    let exporter = Exporter::default();
    let scrape = |view: &View| {
        let mut buffer = Vec::new();
        exporter.render(Some(view), BOTH, &mut buffer);
        let text = String::from_utf8(buffer).unwrap();
        let stable = text.lines().filter(|line| !line.starts_with("process_"));
        (stable.map(str::to_owned).collect::<Vec<_>>(), text)
    };
    // What a program shows that saw nothing before.
    let fresh = |view: &View| {
        let text = text(Some(view), BOTH);
        let stable = text.lines().filter(|line| !line.starts_with("process_"));
        stable.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut view = rich(3);
    assert_eq!(scrape(&view).0, fresh(&view));
    let counter = |view: &mut View, change: fn(&mut Fact<u64>)| {
        let port = hca(view, "mlx5_1").ports.get_mut(&1).unwrap();
        let mut counters = port.counters.iter_mut();
        let data = counters
            .find(|counter| &*counter.name == "port_rcv_data")
            .unwrap();
        change(&mut data.value);
    };
    let line = |value: &str| {
        format!("rdma_port_data_received_bytes_total{{device=\"mlx5_1\",port=\"1\"}} {value}\n")
    };
    counter(&mut view, |value| *value = Fact::Known(u64::MAX / 4));
    let (lines, text) = scrape(&view);
    assert!(text.contains(&line("18446744073709551612")), "{text}");
    assert_eq!(lines, fresh(&view));
    counter(&mut view, |value| *value = Fact::Absent);
    let (lines, text) = scrape(&view);
    assert!(!text.contains(line("").trim_end()));
    assert_eq!(lines, fresh(&view));
    counter(&mut view, |value| *value = Fact::Known(1));
    let (lines, text) = scrape(&view);
    assert!(text.contains(&line("4")));
    assert_eq!(lines, fresh(&view));
    hca(&mut view, "mlx5_2")
        .ports
        .get_mut(&1)
        .unwrap()
        .hw_counters
        .pop();
    assert_eq!(scrape(&view).0, fresh(&view));
    hca(&mut view, "mlx5_0").firmware = Fact::Known("99.1.2".into());
    view.generation += 1;
    let (lines, text) = scrape(&view);
    assert!(text.contains("99.1.2"));
    assert_eq!(lines, fresh(&view));
}
