//! Symptoms that the node itself shows: probes that failed, and measurements that are worse than they should be.

use rdma_health_node::{Node, node::Probe};
use rdma_health_protocol::{ProbeFailure, Stage};

use super::symptom::{Named, Symptom, SymptomKind};
use crate::{Finding, failure_in_words, log::connect};

/// Rules whose findings are symptoms: they say that something fails, not why.
const FAILED: &str = "probe-failed";
const BANDWIDTH: &str = "probe-bandwidth-low";
const LATENCY: &str = "probe-latency-high";

/// What the node itself shows.
pub(super) fn symptoms(node: &Node, findings: &[Finding]) -> Vec<Symptom> {
    let mut symptoms: Vec<Symptom> = node.probes.iter().filter_map(|probe| failed(probe)).collect();
    for finding in findings {
        let kind = match finding.rule.id {
            BANDWIDTH => SymptomKind::BandwidthLow,
            LATENCY => SymptomKind::LatencyHigh,
            _ => continue,
        };
        let named = Named {
            device: finding.subject.device.clone(),
            port: finding.subject.port,
            ..Named::default()
        };
        symptoms.push(symptom(
            kind,
            format!("probe of {}", finding.subject),
            finding.message.clone(),
            named,
        ));
    }
    symptoms
}

/// The symptoms that findings of this rule stand for.
pub(super) fn of_rule(id: &str, node: &Node) -> Vec<SymptomKind> {
    match id {
        FAILED => node.probes.iter().filter_map(|probe| kind(probe)).collect(),
        BANDWIDTH => vec![SymptomKind::BandwidthLow],
        LATENCY => vec![SymptomKind::LatencyHigh],
        _ => Vec::new(),
    }
}

fn symptom(kind: SymptomKind, source: String, text: String, named: Named) -> Symptom {
    Symptom {
        kind,
        grade: kind.grade(),
        source,
        line: None,
        count: 1,
        text,
        named,
        hosts: Vec::new(),
    }
}

fn failed(probe: &Probe) -> Option<Symptom> {
    let report = &probe.report;
    let kind = kind(probe)?;
    let failure = report.failure.as_ref()?;
    let mut named = Named {
        device: Some(report.device.clone()),
        port: Some(report.port),
        gid_index: report.gid.as_ref().map(|gid| gid.index),
        local_gid: report.gid.as_ref().map(|gid| gid.gid.to_string()),
        ..Named::default()
    };
    match failure {
        ProbeFailure::Errno { errno, .. } => named.errno = Some(*errno),
        ProbeFailure::Completion(completion) => named.vendor_error = Some(completion.vendor_error),
        _ => {}
    }
    let text = format!("failed at {}: {}", report.stage.name(), failure_in_words(failure));
    let source = format!("probe of {}:{}", report.device, report.port);
    Some(symptom(kind, source, text, named))
}

fn kind(probe: &Probe) -> Option<SymptomKind> {
    let report = &probe.report;
    let failure = report
        .failure
        .as_ref()
        .filter(|failure| !failure.is_not_probed())?;
    Some(match failure {
        ProbeFailure::Completion(completion) => u8::try_from(completion.status)
            .ok()
            .filter(|status| (1..=23).contains(status))
            .map_or(SymptomKind::ProbeFailed, SymptomKind::Completion),
        ProbeFailure::NoGid => SymptomKind::NoGid,
        ProbeFailure::TimedOut => SymptomKind::ProbeTimedOut,
        ProbeFailure::Corrupted { .. } => SymptomKind::Corrupted,
        ProbeFailure::Errno { errno, .. } => match (report.stage, *errno) {
            (Stage::Open, 19) | (_, 5 | 19) => SymptomKind::DeviceGone,
            (Stage::Open, _) => SymptomKind::OpenFailed,
            (Stage::RegMr, 12) => SymptomKind::RegMrNoMemory,
            (Stage::RegMr, _) => SymptomKind::RegMrFailed,
            (Stage::AllocPd | Stage::CreateCq | Stage::CreateQp, _) => SymptomKind::CreateFailed,
            (Stage::Init | Stage::Rtr | Stage::Rts, errno) => connect(errno),
            (Stage::Gid, 61) => SymptomKind::NoGid,
            _ => SymptomKind::ProbeFailed,
        },
        _ => SymptomKind::ProbeFailed,
    })
}
