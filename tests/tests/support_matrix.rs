//! docs/support-matrix.md: its table is what the fixtures hold.

#![allow(clippy::unwrap_used, missing_docs)] // in a test, a failure is a panic

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rdma_health_kernel::collector::{Collector, Refresh};
use rdma_health_node::{DmaMode, Node, model, platform::Cluster, words::gigabits};
use rdma_health_rules::{Expectations, judge};
use rdma_health_tests::tree::{Tree, fixtures};

const BEGIN: &str = "<!-- Begin of the table. `UPDATE_DOCS=1 cargo test -p rdma-health-tests --test support_matrix` writes it. -->\n";
const END: &str = "<!-- End of the table. -->\n";

fn read(name: &str) -> Node {
    let (_folder, root) = Tree::fixture(name).unwrap().open().unwrap();
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(20));
    Node::new(collector.facts())
}

/// Different words in order, or a dash.
fn words<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: BTreeSet<&str> = all.filter(|word| !word.is_empty()).collect();
    if all.is_empty() {
        "-".into()
    } else {
        all.into_iter().collect::<Vec<_>>().join(", ")
    }
}

fn row(name: &str, node: &Node) -> String {
    let known =
        |fact: &rdma_health_node::Fact<String>| fact.known().cloned().unwrap_or_else(|| "unread".into());
    let adapters = words(node.hcas().map(|hca| {
        if hca.is_software() {
            "SoftRoCE"
        } else {
            node.model(hca).unwrap_or("not in the list")
        }
    }));
    let gpus = node.gpus();
    let gpus: Vec<_> = gpus
        .map(|gpu| gpu.pci.and_then(model::of).unwrap_or("GPU"))
        .collect();
    let layers = words(
        node.ports()
            .filter_map(|port| Some(port.kernel.link_layer.known()?.name())),
    );
    let rates: BTreeSet<String> = node
        .ports()
        .filter_map(|port| Some(gigabits(port.rate.known()?.bits_per_second)))
        .collect();
    let mode = match node.dma_mode() {
        Some(DmaMode::NoIommu) => "no IOMMU",
        Some(DmaMode::Passthrough) => "passthrough",
        Some(DmaMode::Translated) => "translated",
        Some(DmaMode::Other) => "other",
        None => "not reported",
    };
    let place = match node.platform().cluster {
        Some(Cluster::OpenShift) => "OpenShift",
        Some(Cluster::Kubernetes) => "Kubernetes",
        Some(Cluster::Host) => "host",
        None => "not known",
    };
    let machine = if node.is_virtual_machine() {
        "virtual"
    } else {
        "physical"
    };
    let stack = match node.modules.is_ofed() {
        Some(true) => "MLNX_OFED or DOCA",
        Some(false) => "in-kernel",
        None => "not known",
    };
    let firmware = words(
        node.hcas()
            .filter_map(|hca| hca.firmware.known())
            .map(String::as_str),
    );
    format!(
        "| `{name}` | {} | {stack} | {adapters} | {} | {firmware} | {layers} | {} | {} | {mode} | {machine}, {place} | {} |",
        known(&node.host.kernel),
        words(
            node.hcas()
                .filter_map(|hca| hca.driver.known())
                .map(String::as_str)
        ),
        words(rates.iter().map(String::as_str)),
        words(gpus.iter().copied()),
        judge(node, &Expectations::default()).status.name(),
    )
}

#[test]
fn the_support_matrix_is_what_the_fixtures_hold() {
    let mut names: Vec<String> = fs::read_dir(fixtures())
        .unwrap()
        .filter_map(|file| {
            file.unwrap()
                .file_name()
                .to_str()?
                .strip_suffix(".tree")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(names.len() > 10, "{names:?}");
    let mut table = String::from(
        "| fixture | kernel | RDMA stack | adapter | driver | firmware | link | rate | GPU | IOMMU | machine | verdict |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for name in &names {
        writeln!(table, "{}", row(name, &read(name))).unwrap();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/support-matrix.md");
    let page = fs::read_to_string(&file).unwrap();
    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let expected = format!("{head}{BEGIN}{table}{END}{tail}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, &expected).unwrap();
    } else {
        assert!(
            page == expected,
            "docs/support-matrix.md is outdated: run this test with UPDATE_DOCS=1"
        );
    }
}
