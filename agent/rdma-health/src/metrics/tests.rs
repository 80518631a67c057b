//! Tests of what `/metrics` tells.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use super::{fixture, *};

const BOTH: RenderOptions = RenderOptions {
    node_exporter_names: true,
};

fn text(view: Option<&View>, options: RenderOptions) -> String {
    let own = OwnMetrics::new();
    own.scraped(Duration::from_millis(2));
    own.refreshed(true, Duration::from_millis(3));
    own.certificate_expires(Some(SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000)));
    let mut buffer = Vec::new();
    render(view, options, &own, &mut buffer);
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
    let text = text(Some(&fixture::rich(3)), BOTH);
    let mut emitted = parsed(&text);
    for entry in catalogue::groups().iter().flat_map(|group| &group.entries) {
        let found = emitted.remove(entry.name);
        // Only Linux 6.2 or later tells it.
        if entry.name == "process_open_fds" && found.is_none() {
            continue;
        }
        let (kind, series) = found.unwrap_or_else(|| panic!("{} is declared and never emitted", entry.name));
        assert_eq!(kind, entry.kind.name(), "{}", entry.name);
        assert!(
            text.contains(&format!("# HELP {} {}\n", entry.name, entry.help)),
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
        let families = parsed(&text(Some(&fixture::empty(absent)), BOTH));
        let facts: BTreeSet<_> = families
            .keys()
            .filter(|name| !name.starts_with("rdma_health_") && !name.starts_with("process_"))
            .map(String::as_str)
            .collect();
        let expected = ["rdma_verdict", "rdma_findings", "rdma_finding"];
        assert!(facts.iter().all(|name| expected.contains(name)), "{facts:?}");
    }
}

#[test]
fn before_the_first_reading_the_agent_tells_about_itself_only() {
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
    let text = text(Some(&fixture::rich(2)), RenderOptions::default());
    for line in [
        r#"rdma_port_data_received_bytes_total{device="mlx5_1",port="1"} 32"#,
        r#"rdma_port_rate_bytes_per_second{device="mlx5_0",port="1"} 50000000000"#,
        r#"rdma_port_counter_total{device="mlx5_0",port="1",directory="hw_counters",counter="sent_pkts"} 11"#,
        r#"rdma_port_level{device="mlx5_0",port="1",directory="hw_counters",level="active_qps"} 12"#,
        r#"rdma_pci_link_speed_transfers_per_second{pci_address="0000:41:00.0",role="rdma"} 16000000000"#,
        r#"rdma_memlock_limit_bytes{process="containerd",limit="soft"} 8388608"#,
        r#"rdma_memlock_limit_bytes{process="rdma-health",limit="hard"} +Inf"#,
        r#"rdma_iommu_group_translated{pci_address="0000:41:00.0",device="mlx5_0",role="rdma"} 1"#,
        r#"rdma_iommu_group_translated{pci_address="0000:41:01.0",device="mlx5_1",role="rdma"} 0"#,
        r#"rdma_iommu_configured_info{domain="passthrough",invalidation="lazy"} 1"#,
        r#"rdma_probe_latency_seconds{device="mlx5_0",port="1",quantile="0.5"} 0.0000015"#,
        r#"rdma_probe_success{device="mlx5_1",port="1"} 0"#,
        r#"rdma_probe_failure_info{device="mlx5_1",port="1",stage="poll",reason="IBV_WC_LOC_PROT_ERR",vendor_error="0x81"} 1"#,
        r#"rdma_probe_skipped{device="mlx5_2",port="1",reason="busy"} 1"#,
        r#"rdma_port_gids{device="mlx5_0",port="1",type="RoCE v2"} 1"#,
        r#"rdma_verdict{status="critical"} 1"#,
        r#"rdma_device_verbs_usable{device="mlx5_1"} 0"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains(r#"board_id="MT_\"00\\838\n""#));
    assert!(!text.contains("zz_unread") && !text.contains("node_infiniband"));
    // Skipped is neither success nor failure.
    assert!(!text.contains(r#"rdma_probe_success{device="mlx5_2""#));
}

/// Prints how long a large node takes; nothing depends on it. `cargo test --release -p rdma-health -- --ignored cost`
#[test]
#[ignore = "a measurement"]
fn cost_of_rendering_sixteen_devices() {
    let view = fixture::rich(16);
    let own = OwnMetrics::new();
    let mut buffer = Vec::new();
    for options in [RenderOptions::default(), BOTH] {
        let began = std::time::Instant::now();
        for _ in 0..1000 {
            buffer.clear();
            render(Some(&view), options, &own, &mut buffer);
        }
        println!(
            "{options:?}: {:?} for {} bytes",
            began.elapsed() / 1000,
            buffer.len()
        );
    }
}
