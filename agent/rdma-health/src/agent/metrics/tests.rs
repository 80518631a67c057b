//! Tests of what all parts export together.

use std::{collections::BTreeSet, path::Path, time::SystemTime};

use rdma_health_instrument::Kind;
use rdma_health_metrics::{Exporter, RenderOptions};
use rdma_health_web::Validity;

use super::*;

#[test]
fn names_are_unique_and_follow_the_conventions() {
    let mut seen = BTreeSet::new();
    for entry in catalogue().iter().flat_map(|group| &group.entries) {
        let name = entry.name;
        assert!(seen.insert(name), "{name} is listed twice");
        let legacy = name.starts_with("node_infiniband_");
        assert!(
            legacy || name.starts_with("rdma_") || name.starts_with("process_"),
            "{name}"
        );
        assert!(
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
            "{name}"
        );
        assert_eq!(name.ends_with("_total"), entry.kind == Kind::Counter, "{name}");
        assert!(
            !entry.help().is_empty() && !entry.help().contains(['\n', '\\']),
            "{name}"
        );
        for unit in ["seconds", "bytes"] {
            let has = name.split('_').any(|word| word == unit);
            assert!(
                legacy || !has || entry.unit.contains(unit),
                "{name} has no unit {unit}"
            );
        }
        let labels: BTreeSet<_> = entry.labels.iter().collect();
        assert_eq!(labels.len(), entry.labels.len(), "{name}");
        assert!(!labels.contains(&"le"), "{name}");
    }
}

#[test]
fn what_parts_of_the_agent_count_is_named_as_the_agents_own() {
    for entry in counted() {
        assert!(entry.name.starts_with("rdma_health_"), "{}", entry.name);
    }
}

#[test]
fn every_family_that_is_counted_is_emitted_as_declared() {
    let exporter = Exporter::default();
    let metrics = Metrics::new(exporter.registry());
    metrics.scraped(Duration::from_millis(2));
    metrics.state_saved(true);
    metrics.probes_every(Some(Duration::from_secs(600)));
    metrics.config.looked();
    metrics.web.reloads.looked();
    metrics.web.certificate(Some(Validity {
        from: SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000),
        until: SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000),
    }));
    let mut text = Vec::new();
    exporter.render(None, RenderOptions::default(), &mut text);
    let text = String::from_utf8(text).unwrap();
    let mut emitted: BTreeSet<_> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    for entry in counted() {
        let Entry { name, .. } = entry;
        let head = format!("# TYPE {name} {}", entry.kind.name());
        assert!(
            emitted.remove(head.as_str()),
            "{name} is declared and never emitted"
        );
        assert!(
            text.contains(&format!("# HELP {name} {}\n", entry.help())),
            "{name}"
        );
        let series: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with(name) && !line[name.len()..].starts_with("_seconds"))
            .collect();
        assert!(!series.is_empty(), "{name}");
        for one in series {
            for label in entry.labels {
                assert!(one.contains(&format!("{label}=\"")), "{one} has no {label}");
            }
        }
    }
    // The rest is what the exporter itself writes of the process.
    let known: BTreeSet<_> = rdma_health_metrics::catalogue::groups(&[])
        .iter()
        .flat_map(|group| &group.entries)
        .map(|entry| format!("# TYPE {} {}", entry.name, entry.kind.name()))
        .collect();
    emitted.retain(|head| !known.contains(*head));
    assert!(emitted.is_empty(), "not declared: {emitted:?}");
}

#[test]
fn the_page_in_docs_is_what_the_catalogue_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = rdma_health_metrics::catalogue::markdown(&catalogue());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let on_disk = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        on_disk == page,
        "docs/metrics.md is old; run UPDATE_DOCS=1 cargo test -p rdma-health"
    );
}
