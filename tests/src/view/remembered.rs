//! What was measured, and what an agent remembers.

use std::{net::Ipv6Addr, sync::Arc};

use rdma_health_diagnosis::{Cause, Diagnosis};
use rdma_health_node::{
    Node,
    history::{History, Missing},
    node::Probe,
};
use rdma_health_protocol::{
    Bandwidth, Completion, Gid, GidType, Latency, Path, ProbeFailure, ProbeReport, Stage,
};
use rdma_health_rules::{Finding, Verdict};

use super::known;

/// One probe of each outcome, on a device each.
pub(super) fn probes() -> Vec<Arc<Probe>> {
    let report = |n: u64, stage, failure: Option<ProbeFailure>| {
        let worked = failure.is_none();
        Arc::new(Probe {
            time: 1_790_000_000,
            report: ProbeReport {
                path: Path::loopback(format!("mlx5_{n}"), 1),
                stage,
                failure,
                gid: worked.then_some(Gid {
                    index: 3,
                    gid: Ipv6Addr::LOCALHOST,
                    kind: GidType::RoceV2,
                    netdev_index: None,
                    netdev: None,
                }),
                numa_node: None,
                bandwidth: worked.then_some(Bandwidth {
                    bytes: 1 << 28,
                    seconds: 0.01,
                    bytes_per_second: 25e9,
                    message_size: 65536,
                    queue_pairs: 4,
                }),
                latency: worked.then_some(Latency {
                    samples: 1000,
                    min: 0.000_001,
                    median: 0.000_001_5,
                    p99: 0.000_003,
                }),
                elapsed_us: 20_000,
            },
        })
    };
    let completion = ProbeFailure::Completion(Completion {
        status: 4,
        name: "IBV_WC_LOC_PROT_ERR".into(),
        vendor_error: 0x81,
    });
    vec![
        report(0, Stage::Done, None),
        report(1, Stage::Poll, Some(completion)),
        report(
            2,
            Stage::BusyCheck,
            Some(ProbeFailure::Busy { bytes_per_second: 1 }),
        ),
    ]
}

/// The history of the node: an earlier boot, and an earlier probe of each port.
pub(super) fn past(node: &Node) -> History {
    let mut history = History::default();
    let mut earlier = node.clone();
    let host = Arc::make_mut(&mut earlier.host);
    host.boot_id = known("a");
    host.kernel = known("6.1.0-36-amd64");
    for probe in &mut earlier.probes {
        Arc::make_mut(probe).time -= 7200;
    }
    history.record(&earlier, node.time - 7200);
    history.record(node, node.time);
    history
}

/// Remembers the findings and causes, as the agent does.
pub(super) fn observe(node: &mut Node, verdict: &Verdict, diagnosis: &Diagnosis) {
    let findings = verdict.findings.iter().map(Finding::key);
    let keys = findings.chain(diagnosis.causes.iter().map(Cause::key)).collect();
    let now = node.time - 3600;
    if let Some(history) = &mut node.history {
        Arc::make_mut(history).observe(&keys, Missing::Over, now);
    }
}
