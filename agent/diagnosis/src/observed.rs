//! Symptoms on the node itself: failed probes, and measurements that are worse than they should be.

use rdma_health_node::{
    DeviceEvent, Node, Port, failure::in_words, kmsg::EventKind, node::Probe, words::gigabits,
};
use rdma_health_protocol::{Errno, ProbeFailure, Stage};
use rdma_health_rules::{
    Finding, FindingCase, Rule, Severity,
    domain::{measured, probe},
};

use crate::{
    job_view,
    log::{Log, LogReader},
    symptom::{Grade, Named, Software, Symptom, SymptomKind},
};

/// The symptoms on the node itself.
pub(super) fn symptoms(node: &Node, findings: &[Finding]) -> Vec<Symptom> {
    let mut symptoms: Vec<Symptom> = node.loopbacks().filter_map(failed).collect();
    symptoms.extend(job_view::symptoms(node));
    symptoms.extend(findings.iter().flat_map(|finding| of_service(node, finding)));
    for finding in findings {
        let Some(kind) = slow(finding.rule) else { continue };
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

/// A measurement in a log of this node that is far below the rate of the port: of its device, or where the log names none, of all active ports.
pub(super) fn of_measurement(node: &Node, log: &Log) -> Option<Symptom> {
    /// One queue pair reaches a quarter of a port of 400 Gb/s on ordinary machines; a fifth is slow.
    const PARTS: u64 = 5;
    let measured = log.measured.as_ref()?;
    let is_measured = |port: &Port<'_>| {
        measured
            .device
            .as_ref()
            .is_none_or(|device| *device == port.hca.name)
    };
    let rates: Vec<(String, u64)> = node
        .active_ports()
        .filter(is_measured)
        .filter_map(|port| Some((port.to_string(), port.rate.known()?.bits_per_second)))
        .collect();
    let (port, least) = rates.iter().min_by_key(|(_, rate)| *rate)?;
    if measured.bits_per_second.saturating_mul(PARTS) >= *least {
        return None;
    }
    let text = format!(
        "perftest measured {} with messages of {} bytes; {} at {port}",
        gigabits(measured.bits_per_second),
        measured.bytes,
        gigabits(*least)
    );
    let named = Named {
        device: measured.device.clone(),
        ..Named::default()
    };
    let source = format!("log line {}", measured.line);
    let mut found = symptom(SymptomKind::BandwidthLow, source, text, named);
    found.line = Some(measured.line);
    found.software = Some(Software::Perftest);
    Some(found)
}

/// What the services of the kernel report, read as a log of them would be: their messages, and what drivers reported just before.
fn of_service(node: &Node, finding: &Finding) -> Vec<Symptom> {
    const BEFORE: u64 = 10;
    if finding.case != Some(FindingCase::OfService) || finding.severity == Severity::Info {
        return Vec::new();
    }
    let events = node.device_events();
    let is_own = |event: &DeviceEvent<'_>| {
        event
            .service()
            .is_some_and(|module| Some(module) == finding.subject.device.as_deref())
    };
    let Some(own) = events.iter().find(|event| is_own(event)) else {
        return Vec::new();
    };
    let mut reader = LogReader::default();
    for other in events.iter().filter(|other| other.event.order <= own.event.order) {
        let is_near = match (other.event.last, own.event.last) {
            (Some(before), Some(at)) => before <= at && at - before <= BEFORE,
            _ => is_own(other),
        };
        if is_near && other.event.kind == EventKind::DriverError {
            reader.feed(other.event.message.as_bytes());
            reader.feed(b"\n");
        }
    }
    let symptoms = reader.finish().symptoms;
    let known = symptoms
        .into_iter()
        .filter(|symptom| symptom.grade > Grade::Unrecognised);
    known
        .map(|symptom| Symptom {
            source: "/dev/kmsg".to_owned(),
            line: None,
            ..symptom
        })
        .collect()
}

/// The symptoms behind a finding.
pub(super) fn of_finding(finding: &Finding, node: &Node) -> Vec<SymptomKind> {
    let of_service = of_service(node, finding);
    if !of_service.is_empty() {
        return of_service.iter().map(|symptom| symptom.kind).collect();
    }
    let rule = finding.rule;
    if *rule == probe::FAILED {
        let kind = |probe: &Probe| Some(kind(probe.report.stage, probe.failure()?));
        return node.loopbacks().filter_map(kind).collect();
    }
    slow(rule).into_iter().collect()
}

/// The symptom behind findings of a rule that compares measurements: such a finding says that RDMA is slow, not why.
fn slow(rule: &Rule) -> Option<SymptomKind> {
    if *rule == measured::BANDWIDTH_LOW {
        Some(SymptomKind::BandwidthLow)
    } else if *rule == measured::LATENCY_HIGH {
        Some(SymptomKind::LatencyHigh)
    } else {
        None
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
        known: true,
        named,
        software: None,
        hosts: Vec::new(),
    }
}

fn failed(probe: &Probe) -> Option<Symptom> {
    let report = &probe.report;
    let failure = probe.failure()?;
    let kind = kind(report.stage, failure);
    let mut named = Named {
        device: Some(report.path.from.device.clone()),
        port: Some(report.path.from.port),
        gid_index: report.gid.as_ref().map(|gid| gid.index),
        local_gid: report.gid.as_ref().map(|gid| gid.gid.to_string()),
        ..Named::default()
    };
    named.errno = failure.errno();
    if let ProbeFailure::Completion(completion) = failure {
        named.vendor_error = Some(completion.vendor_error);
    }
    let text = format!("failed at {}: {}", report.stage.name(), in_words(failure));
    let source = format!("probe of {}", report.path);
    Some(symptom(kind, source, text, named))
}

fn kind(stage: Stage, failure: &ProbeFailure) -> SymptomKind {
    match failure {
        ProbeFailure::Completion(_) => failure
            .status()
            .map_or(SymptomKind::ProbeFailed, SymptomKind::Completion),
        ProbeFailure::NoGid => SymptomKind::NoGid,
        ProbeFailure::TimedOut | ProbeFailure::Silent { .. } => SymptomKind::ProbeTimedOut,
        ProbeFailure::Corrupted { .. } => SymptomKind::Corrupted,
        ProbeFailure::Errno { errno, .. } => match (stage, Errno(*errno)) {
            (_, Errno::EIO | Errno::ENODEV) => SymptomKind::DeviceGone,
            (Stage::Open, _) => SymptomKind::OpenFailed,
            (Stage::RegMr, Errno::ENOMEM) => SymptomKind::RegMrNoMemory,
            (Stage::RegMr, _) => SymptomKind::RegMrFailed,
            (Stage::AllocPd | Stage::CreateCq | Stage::CreateQp, _) => SymptomKind::CreateFailed,
            (Stage::Init | Stage::Rtr | Stage::Rts, errno) => SymptomKind::of_connect(errno),
            (Stage::Gid, Errno::ENODATA) => SymptomKind::NoGid,
            _ => SymptomKind::ProbeFailed,
        },
        _ => SymptomKind::ProbeFailed,
    }
}
