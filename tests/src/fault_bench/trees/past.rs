//! Faults that only the past shows: the healthy node is remembered as an agent would, then something gets worse.
//!
//! A tree has no probe, so the node goes into a snapshot, with what its probes measured and what was remembered.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rdma_health_kernel::Root;
use rdma_health_kernel::collector::{Collector, Refresh};
use rdma_health_node::Node;
use rdma_health_node::history::History;
use rdma_health_node::node::Probe;
use rdma_health_protocol::{self as protocol, ProbeReport, Stage};
use rdma_health_snapshot::Snapshot;

use super::faults::{harmless, lose_adapter, tree};
use super::field::{self, BRANCHES};
use super::set;
use crate::fault_bench::{Answer, Fault, Outcome, Selection};
use crate::measured;
use crate::tree::Tree;

/// The name of the node in the table.
const PLACE: &str = "field-watched";
/// How often the healthy node was read before, and how many seconds passed between.
const READINGS: u64 = 12;
const BETWEEN: u64 = 300;

/// What a loopback on each port measures: Gb/s, and microseconds.
#[derive(Clone, Copy)]
struct Measured(f64, f64);

const HEALTHY: Measured = Measured(372.0, 2.1);

/// What got worse since.
struct Worse {
    fault: Fault,
    /// What was so already when the node was healthy.
    always: fn(&mut Tree) -> Result<()>,
    make: fn(&mut Tree) -> Result<()>,
    /// What is measured on `mlx5_1` now.
    measured: Measured,
}

const ALL: &[Worse] = &[
    Worse {
        fault: tree(
            "t-errors-rise",
            "symbol_error of mlx5_1 rose by 5000 within the hour that an agent watched it",
            "counter-errors",
            &[],
        ),
        always: |_| Ok(()),
        make: count_errors,
        measured: HEALTHY,
    },
    Worse {
        fault: harmless(
            "t-errors-old",
            "mlx5_1 counted 5000 symbol errors long ago, and none since: no fault",
        ),
        always: count_errors,
        make: |_| Ok(()),
        measured: HEALTHY,
    },
    Worse {
        fault: tree(
            "t-latency",
            "a small write on mlx5_1 takes 9 µs and took 2.1 µs before; nothing else changed",
            "host-load",
            &["probe-latency-high"],
        ),
        always: |_| Ok(()),
        make: |_| Ok(()),
        measured: Measured(372.0, 9.0),
    },
    Worse {
        fault: tree(
            "t-bandwidth",
            "mlx5_1 writes 120 Gb/s and wrote 372 Gb/s before; nothing else changed",
            "host-load",
            &["probe-bandwidth-low"],
        ),
        always: |_| Ok(()),
        make: |_| Ok(()),
        measured: Measured(120.0, 2.1),
    },
    Worse {
        fault: tree(
            "t-slot-degraded",
            "mlx5_1 trained its PCIe link with 4 of 16 lanes, and writes 95 Gb/s in place of 372 Gb/s",
            "pci-link-degraded",
            &["probe-bandwidth-low"],
        ),
        always: |_| Ok(()),
        make: |tree| {
            let branch = &BRANCHES[1];
            set(
                tree,
                &format!("{}/current_link_width", branch.path(branch.nic)),
                "4",
            )
        },
        measured: Measured(95.0, 2.1),
    },
    Worse {
        fault: tree(
            "t-adapter-lost",
            "the adapter of mlx5_3 was there an hour ago and is gone from the bus",
            "device-lost",
            &["hcas-missing", "gpu-without-local-nic"],
        ),
        always: |_| Ok(()),
        make: lose_adapter,
        measured: HEALTHY,
    },
];

pub(super) fn faults() -> impl Iterator<Item = Fault> {
    ALL.iter().map(|worse| worse.fault)
}

pub(super) fn run(program: &Path, selection: &Selection, report: &mut dyn FnMut(Outcome)) -> Result<()> {
    if selection.wants(PLACE, "healthy") {
        let tree = field::node()?;
        let answer = ask(program, &tree, &tree, HEALTHY)?;
        report(Outcome::of(PLACE, &[], answer));
    }
    for worse in ALL {
        let id = worse.fault.id;
        if selection.wants(PLACE, id) {
            let mut before = field::node()?;
            (worse.always)(&mut before).with_context(|| format!("making {id}"))?;
            let mut now = before.clone();
            (worse.make)(&mut now).with_context(|| format!("making {id}"))?;
            let answer = ask(program, &before, &now, worse.measured).context(id)?;
            report(Outcome::of(PLACE, &[&worse.fault], answer));
        }
    }
    Ok(())
}

fn count_errors(tree: &mut Tree) -> Result<()> {
    let counter = format!("{}/counters/symbol_error", BRANCHES[1].port());
    set(tree, &counter, "5000")
}

fn ask(program: &Path, before: &Tree, now: &Tree, measured: Measured) -> Result<Answer> {
    let folder = now.unpack()?;
    let mut root = Root::open(folder.path())?;
    let recorder = root.record();
    let node = read(root);
    let remembered = remembered(before, node.time)?;
    let snapshot = Snapshot {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time: node.time,
        live: node.live,
        anonymized: false,
        recording: recorder.recording(),
        probes: probes(&node, measured, node.time),
        history: Some(Arc::new(remembered)),
        expectations: None,
    };
    let mut file = tempfile::NamedTempFile::new()?;
    snapshot.write(file.as_file_mut())?;
    let mut command = Command::new(program);
    command
        .args(["check", "--output", "json", "--snapshot"])
        .arg(file.path());
    let out = command
        .output()
        .with_context(|| format!("running {}", program.display()))?;
    Answer::parse(&String::from_utf8(out.stdout)?)
        .with_context(|| format!("{}: {}", out.status, String::from_utf8_lossy(&out.stderr)))
}

/// What an agent remembers that watched the node for the hour before.
fn remembered(tree: &Tree, now: u64) -> Result<History> {
    let folder = tree.unpack()?;
    let mut node = read(Root::open(folder.path())?);
    let mut history = History::default();
    for n in (1..=READINGS).rev() {
        node.time = now.saturating_sub(n * BETWEEN);
        node.probes = probes(&node, HEALTHY, node.time);
        history.record(&node, node.time);
    }
    Ok(history)
}

fn read(root: Root) -> Node {
    let mut collector = Collector::new(root, Vec::new());
    collector.refresh(Refresh::All, Instant::now() + Duration::from_secs(20));
    Node::new(collector.facts())
}

/// A probe of each physical port: as `mlx5_1` measures where it is that, healthy elsewhere.
fn probes(node: &Node, of_the_second: Measured, time: u64) -> Vec<Arc<Probe>> {
    let probe = |branch: &field::Branch| {
        let Measured(gigabits, micros) = match branch.device {
            "mlx5_1" => of_the_second,
            _ => HEALTHY,
        };
        let hca = node.hcas().find(|hca| hca.name == branch.device)?;
        let (bandwidth, latency) = measured(gigabits, micros);
        let report = ProbeReport {
            path: protocol::Path::loopback(hca.name.clone(), 1),
            stage: Stage::Done,
            failure: None,
            gid: None,
            numa_node: hca.numa_node.known().copied(),
            bandwidth: Some(bandwidth),
            latency: Some(latency),
            elapsed_us: 20_000,
        };
        Some(Arc::new(Probe { time, report }))
    };
    BRANCHES.iter().filter_map(probe).collect()
}
