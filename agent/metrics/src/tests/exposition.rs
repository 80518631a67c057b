//! The formats, and what is left out of them.

use std::collections::BTreeSet;

use rdma_health_tests::{promtool, view};

use super::{BOTH, parsed::parsed, rich, text};
use crate::{families::FIXED, *};

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

#[test]
fn promtool_accepts_every_family_of_the_node() {
    for view in [rich(3), view::empty(true), view::empty(false)] {
        promtool::check(&text(Some(&view), RenderOptions::default())).unwrap();
    }
    promtool::check(&text(None, RenderOptions::default())).unwrap();
}
