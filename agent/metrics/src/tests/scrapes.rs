//! One scrape after the other: each shows its own reading, and what it costs.

use std::sync::Arc;

use rdma_health_node::{Fact, infiniband::Hca};
use rdma_health_view::View;

use super::{BOTH, rich, text};
use crate::*;

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
