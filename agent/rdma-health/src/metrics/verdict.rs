//! Writes the verdict, its findings, and what the probes measured.

use std::collections::BTreeSet;

use rdma_health_node::node::Probe;
use rdma_health_protocol::ProbeFailure;
use rdma_health_rules::{Severity, Status};

use super::{
    catalogue::{Family, verdict as family},
    sink::{PortLabels, Sink},
};
use crate::view::View;

pub(super) fn write(view: &View, sink: &mut Sink<'_>) {
    findings(view, sink);
    probes(&view.node.probes, sink);
}

fn findings(view: &View, sink: &mut Sink<'_>) {
    let verdict = &view.verdict;
    let mut status = sink.family(&family::STATUS);
    for one in [Status::Ok, Status::Warning, Status::Critical, Status::Unknown] {
        status.sample([one.name()], verdict.status == one);
    }
    let mut counts = sink.family(&family::FINDINGS);
    for severity in Severity::ALL {
        let found = verdict
            .findings
            .iter()
            .filter(|finding| finding.severity == severity);
        counts.sample([severity.name()], found.count());
    }
    let mut series = sink.family(&family::FINDING);
    // A rule may fire twice on one subject, for two processes of one name, say; a series may be there only once.
    let mut seen = BTreeSet::new();
    for finding in &verdict.findings {
        let subject = &finding.subject;
        if !seen.insert((finding.rule.id, finding.severity, subject)) {
            continue;
        }
        let port = subject.port.map_or(String::new(), |port| port.to_string());
        let device = subject.device.as_deref().unwrap_or_default();
        let labels = [
            finding.rule.id,
            finding.severity.name(),
            finding.domain.name(),
            device,
            &port,
        ];
        series.sample(labels, 1_u8);
    }
}

fn probes(probes: &[std::sync::Arc<Probe>], sink: &mut Sink<'_>) {
    let labelled: Vec<(PortLabels, &Probe)> = probes
        .iter()
        .map(|probe| (PortLabels::new(&probe.report.device, probe.report.port), &**probe))
        .collect();
    let (skipped, ran): (Vec<_>, Vec<_>) = labelled
        .iter()
        .partition(|(_, probe)| skip_reason(probe).is_some());

    let mut series = sink.family(&family::PROBE_SUCCESS);
    for (labels, probe) in &ran {
        series.port(labels, probe.report.failure.is_none());
    }
    let mut series = sink.family(&family::PROBE_SKIPPED);
    for (labels, probe) in &skipped {
        series.port_and(labels, skip_reason(probe).unwrap_or_default(), 1_u8);
    }
    let mut series = sink.family(&family::PROBE_STAGE);
    for (labels, probe) in &ran {
        series.port_and(labels, probe.report.stage.name(), 1_u8);
    }
    let mut series = sink.family(&family::PROBE_FAILURE);
    for (_, probe) in &ran {
        if let Some(failure) = &probe.report.failure {
            let (reason, vendor_error) = reason(failure);
            let port = probe.report.port.to_string();
            let stage = probe.report.stage.name();
            series.sample([&probe.report.device, &port, stage, reason, &vendor_error], 1_u8);
        }
    }

    let mut each = |family: &'static Family<2>, value: &dyn Fn(&Probe) -> Option<f64>| {
        let mut series = sink.family(family);
        for (labels, probe) in &ran {
            if let Some(value) = value(probe) {
                series.port(labels, value);
            }
        }
    };
    each(&family::PROBE_TIME, &|probe| Some(float(probe.time)));
    each(&family::PROBE_DURATION, &|probe| {
        Some(float(probe.report.elapsed_us) / 1e6)
    });
    each(&family::PROBE_BANDWIDTH, &|probe| {
        Some(probe.report.bandwidth.as_ref()?.bytes_per_second)
    });
    each(&family::PROBE_BYTES, &|probe| {
        Some(float(probe.report.bandwidth.as_ref()?.bytes))
    });
    let mut series = sink.family(&family::PROBE_LATENCY);
    for (labels, probe) in &ran {
        if let Some(latency) = &probe.report.latency {
            for (quantile, seconds) in [("0", latency.min), ("0.5", latency.median), ("0.99", latency.p99)] {
                series.port_and(labels, quantile, seconds);
            }
        }
    }
    let mut series = sink.family(&family::PROBE_GID);
    for (labels, probe) in &ran {
        if let Some(gid) = &probe.report.gid {
            series.port(labels, gid.index);
        }
    }
}

/// Why nothing was measured, where that is no failure.
fn skip_reason(probe: &Probe) -> Option<&'static str> {
    match probe.report.failure.as_ref()? {
        ProbeFailure::Busy { .. } => Some("busy"),
        ProbeFailure::NotActive { .. } => Some("not_active"),
        ProbeFailure::NoSuchPort => Some("no_such_port"),
        _ => None,
    }
}

/// A failure as labels: a word from a bounded vocabulary, and the vendor's code of a completion.
fn reason(failure: &ProbeFailure) -> (&str, String) {
    match failure {
        ProbeFailure::Errno { name, .. } => (name, String::new()),
        ProbeFailure::Completion(completion) => (&completion.name, format!("{:#x}", completion.vendor_error)),
        ProbeFailure::TimedOut => ("timed_out", String::new()),
        ProbeFailure::NoGid => ("no_gid", String::new()),
        ProbeFailure::Corrupted { .. } => ("corrupted", String::new()),
        ProbeFailure::Busy { .. } => ("busy", String::new()),
        ProbeFailure::NotActive { .. } => ("not_active", String::new()),
        ProbeFailure::NoSuchPort => ("no_such_port", String::new()),
    }
}

/// Prometheus has no other numbers; beyond 2^53 they are rounded.
#[allow(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}
