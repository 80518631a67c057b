//! What was remembered of a node travels with it: the rules that compare with the past find the same elsewhere.

#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_diagnosis::diagnose;
use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_node::{
    Fact, Node,
    history::{History, Measured, changes::Current},
    node::Probe,
};
use rdma_health_protocol::{Path, Peer, ProbeReport, RemotePort, Stage};
use rdma_health_rules::{Expectations, judge};
use rdma_health_snapshot::{Snapshot, anonymize::anonymize, redact::redact};
use rdma_health_tests::{measured, tree::Tree};

const PORT: &str = "0000:18:00.0:1";
/// Rules that are silent without a past.
const RULES: [&str; 5] = [
    "iommu-regressed",
    "port-flapping",
    "counter-errors",
    "probe-bandwidth-low",
    "probe-latency-high",
];

fn read(root: Root) -> Node {
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(20));
    Node::new(collector.facts())
}

/// A node with a worse present than past, as it was read and as a snapshot.
fn worse() -> (Node, Snapshot) {
    let mut tree = Tree::fixture("connectx7-gpu").unwrap();
    let boot = "11111111-1111-1111-1111-111111111111";
    tree.write("proc/sys/kernel/random/boot_id", format!("{boot}\n"))
        .unwrap();
    let end = "0000:18:00.0/infiniband/mlx5_0/ports/1/counters/symbol_error";
    let all: Vec<_> = tree.entries().map(|(path, _)| path.to_owned()).collect();
    let counter = all.iter().find(|path| path.ends_with(end)).unwrap();
    tree.write(counter, "100000\n").unwrap();
    let folder = tree.unpack().unwrap();
    let mut root = Root::open(folder.path()).unwrap();
    let recorder = root.record();
    let live = root.is_live();
    let mut node = read(root);
    let now = node.time;

    let mut history = History::default();
    let mut before = node.clone();
    Arc::make_mut(&mut before.host).boot_id = Fact::Known("0-before".into());
    history.record(&before, now - 7200);
    for domain in history.boots[0].domains.values_mut() {
        *domain = rdma_health_node::iommu::DomainType::Identity;
    }
    // What a link counts while it comes up after the boot is not compared.
    history.record(&node, now - 1800);
    history.record(&node, now - 900);
    let past = history.ports.get_mut(PORT).unwrap();
    past.downs = (1..=4).map(|n| now - n * 1000).collect();
    for value in past
        .counters
        .samples
        .iter_mut()
        .flat_map(|sample| sample.values.values_mut())
    {
        *value = 0;
    }
    past.measured = (1..=8)
        .map(|n| Measured {
            to: Peer::Loopback,
            time: now - 600 + n,
            bytes_per_second: Some(380e9 / 8.0),
            latency: Some(2e-6),
        })
        .collect();
    let slow = Current {
        rule: "probe-path-slow",
        subject: "mlx5_0:1".into(),
        severity: "warning",
        message: "mlx5_0:1 reaches trainer-17 slowly",
    };
    history.changes.see("warning", &[slow], now - 300, |_| false);
    let history = Arc::new(history);
    let (bandwidth, latency) = measured(200.0, 9.0);
    let report = ProbeReport {
        path: Path::loopback("mlx5_0", 1),
        stage: Stage::Done,
        failure: None,
        gid: None,
        numa_node: None,
        bandwidth: Some(bandwidth),
        latency: Some(latency),
        elapsed_us: 1,
    };
    node.probes = vec![Arc::new(Probe { time: now, report })];
    node.history = Some(Arc::clone(&history));
    let mut snapshot = Snapshot {
        version: "0.0.0".into(),
        time: now,
        live,
        anonymized: false,
        recording: recorder.recording(),
        probes: node.probes.clone(),
        history: Some(history),
        expectations: None,
    };
    redact(&mut snapshot.recording);
    (node, snapshot)
}

/// The snapshot's node, once it went through a file.
fn replayed(snapshot: &Snapshot) -> Node {
    let mut bytes = Vec::new();
    snapshot.write(&mut bytes).unwrap();
    let again = Snapshot::read(bytes.as_slice()).unwrap();
    let mut node = read(again.root());
    again.complete(&mut node);
    node
}

/// Node, verdict and diagnosis as JSON, without how long reading took and when.
fn json(node: &Node) -> String {
    let mut node = node.clone();
    for status in node.sources.values_mut() {
        let status = Arc::make_mut(status);
        (status.time, status.seconds) = (None, 0.0);
    }
    let verdict = judge(&node, &Expectations::default());
    let diagnosis = diagnose(&node, &verdict.findings, None);
    serde_json::to_string_pretty(&(&verdict, &diagnosis, &node)).unwrap()
}

fn found(node: &Node) -> Vec<(&'static str, String)> {
    let verdict = judge(node, &Expectations::default());
    let all = verdict.findings.iter();
    all.filter(|finding| RULES.contains(&finding.rule.id))
        .map(|finding| (finding.rule.id, finding.severity.name().to_owned()))
        .collect()
}

#[test]
fn what_got_worse_is_found_in_a_snapshot_as_on_the_node() {
    let (node, snapshot) = worse();
    for rule in RULES {
        assert!(found(&node).iter().any(|(id, _)| *id == rule), "{rule} is silent");
    }
    assert_eq!(json(&replayed(&snapshot)), json(&node));
    let forgetful = Snapshot {
        history: None,
        ..snapshot
    };
    let left: Vec<_> = found(&replayed(&forgetful))
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(
        left,
        ["probe-bandwidth-low"],
        "slower than the hardware allows, too"
    );
}

#[test]
fn an_anonymous_past_belongs_to_the_anonymous_present_and_names_nobody() {
    let (node, mut snapshot) = worse();
    measured_to_another_node(&mut snapshot, "trainer-17");
    anonymize(&mut snapshot);
    let replayed = replayed(&snapshot);
    assert_eq!(found(&replayed), found(&node));
    let past = serde_json::to_string(&(&snapshot.history, &snapshot.probes)).unwrap();
    for secret in ["11111111-1111", "0-before", "trainer-17"] {
        assert!(!past.contains(secret), "{past}");
    }
    assert!(past.contains("probe-path-slow"), "{past}");
    let far_ends = past.matches(r#""to":{"kind":"remote""#).count();
    assert_eq!(far_ends, 2, "{past}");
    let boot = replayed.host.boot_id.known().unwrap();
    assert_eq!(&replayed.history.as_ref().unwrap().boots[1].id, boot);
}

/// Adds a probe of a path to another node, and one that is remembered.
fn measured_to_another_node(snapshot: &mut Snapshot, node: &str) {
    let mut probe = Probe::clone(&snapshot.probes[0]);
    let path = &mut probe.report.path;
    path.to = Peer::Remote(RemotePort {
        node: node.into(),
        port: path.from.clone(),
    });
    let to = path.to.clone();
    snapshot.probes.push(Arc::new(probe));
    let history = Arc::make_mut(snapshot.history.as_mut().unwrap());
    let past = history
        .ports
        .values_mut()
        .find(|port| !port.measured.is_empty())
        .unwrap();
    let measured = past.measured[0].clone();
    past.measured.push(Measured { to, ..measured });
}

#[test]
fn a_past_with_extreme_numbers_is_judged_without_harm() {
    let (_, mut snapshot) = worse();
    for extreme in [0, 1, u64::MAX - 1, u64::MAX] {
        let history = Arc::make_mut(snapshot.history.as_mut().unwrap());
        for boot in &mut history.boots {
            (boot.first, boot.last) = (extreme, extreme);
            for seen in boot.hcas.values_mut() {
                seen.last = extreme;
                seen.name = "\u{1b}[31m<b>".into();
            }
        }
        let series = history.ports.values_mut().map(|past| &mut past.counters);
        for sample in series
            .chain(history.functions.values_mut())
            .flat_map(|series| &mut series.samples)
        {
            sample.time = extreme;
            sample.values.values_mut().for_each(|value| *value = extreme);
        }
        for past in history.ports.values_mut() {
            past.last = extreme;
            past.downs.iter_mut().for_each(|down| *down = extreme);
            for measured in &mut past.measured {
                measured.time = extreme;
                measured.bytes_per_second = Some(f64::MAX);
                measured.latency = Some(-f64::MAX);
            }
        }
        for time in [0, 1_790_000_000, u64::MAX] {
            snapshot.time = time;
            json(&replayed(&snapshot));
        }
    }
}
