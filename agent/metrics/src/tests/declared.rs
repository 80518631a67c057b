//! What is declared is what is emitted: families, names, units and help.

use rdma_health_node::{UnreadKind, pci::Role};

use super::{BOTH, parsed::parsed, rich, text};
use crate::{families::counters::NAMED, *};

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
