//! Compares our rendering of the node exporter's families with what the node exporter itself wrote of the same tree.
//!
//! `fixtures/node-exporter/infiniband.prom` is the answer of version 1.5.0 (of Debian 12), made by hand:
//!
//! ```text
//! TREE=/tmp/tree cargo test -p rdma-health-metrics node_exporter
//! prometheus-node-exporter --path.sysfs=/tmp/tree/sys --collector.disable-defaults --collector.infiniband \
//!     --web.listen-address=127.0.0.1:9100 &
//! curl -s 127.0.0.1:9100/metrics | grep node_infiniband_ > fixtures/node-exporter/infiniband.prom
//! ```
//!
//! Families from `hw_counters` came with 1.9; theirs were taken from its source.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};

use super::super::counters::{Directory, NAMED};
use crate::{Exporter, RenderOptions};

fn file(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{content}\n")).unwrap();
}

/// A tree of a device that has every counter and of one without some of them.
fn write_tree(root: &Path) {
    let class = root.join("sys/class/infiniband");
    let devices = [
        ("mlx5_0", "400 Gb/sec (4X NDR)", "4: ACTIVE", "5: LinkUp"),
        ("mlx5_1", "2.5 Gb/sec (1X SDR)", "1: DOWN", "3: Disabled"),
    ];
    for (number, (device, rate, state, phys_state)) in (1_u64..).zip(devices) {
        let path = class.join(device);
        file(&path.join("fw_ver"), &format!("28.39.{number}"));
        file(&path.join("board_id"), "MT_0000000838");
        file(&path.join("hca_type"), "MT4129");
        let port = path.join("ports/1");
        file(&port.join("state"), state);
        file(&port.join("phys_state"), phys_state);
        file(&port.join("rate"), rate);
        file(&port.join("link_layer"), "InfiniBand");
        file(&port.join("hw_counters/lifespan"), "12");
        for (at, named) in (1_u64..).zip(NAMED) {
            let value = match (device, named.file) {
                ("mlx5_1", "VL15_dropped" | "port_xmit_wait") => "N/A (no PMA)".to_owned(),
                ("mlx5_1", "link_downed" | "rx_dct_connect") => continue,
                _ => (number * 1_000_000_007 * at).to_string(),
            };
            file(&port.join(named.directory.name()).join(named.file), &value);
        }
    }
}

/// Heads as they are, values as numbers: the node exporter writes large ones with an exponent.
fn lines(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.contains("node_infiniband_"));
    lines
        .map(|line| match line.rsplit_once(' ') {
            Some((series, value)) if !line.starts_with('#') => {
                // The order of labels means nothing; the node exporter sorts them by name.
                let (name, labels) = series.trim_end_matches('}').split_once('{').unwrap();
                let labels: BTreeSet<_> = labels.split(',').collect();
                format!("{name} {labels:?} {:e}", value.parse::<f64>().unwrap())
            }
            _ => line.to_owned(),
        })
        .collect()
}

#[test]
fn the_node_exporter_says_the_same_of_the_same_tree() {
    let directory = tempfile::tempdir().unwrap();
    write_tree(directory.path());
    if let Some(tree) = std::env::var_os("TREE") {
        write_tree(Path::new(&tree));
    }
    let mut collector = Collector::new(Root::open(directory.path()).unwrap(), Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(60));
    let mut view = rdma_health_tests::view::empty(true);
    view.node = rdma_health_node::Node::new(collector.facts());
    let options = RenderOptions {
        node_exporter_names: true,
        ..RenderOptions::default()
    };
    let mut ours = Vec::new();
    Exporter::default().render(Some(&view), options, &mut ours);
    let ours = lines(std::str::from_utf8(&ours).unwrap());
    let theirs = lines(include_str!(
        "../../../../../fixtures/node-exporter/infiniband.prom"
    ));
    let missing: Vec<_> = theirs.difference(&ours).collect();
    let later: BTreeSet<_> = NAMED
        .iter()
        .filter(|named| named.directory == Directory::HwCounters)
        .map(|named| named.legacy.entry().name)
        .collect();
    let is_later = |line: &&String| line.split(' ').any(|word| later.contains(word));
    let (new, more): (Vec<_>, Vec<_>) = ours.difference(&theirs).partition(is_later);
    assert!(
        missing.is_empty() && more.is_empty(),
        "missing: {missing:#?}\nmore: {more:#?}"
    );
    // HELP, TYPE and two devices, one of them without one.
    assert_eq!(new.len(), 4 * later.len() - 1);
    assert!(theirs.len() > 90, "{}", theirs.len());
}
