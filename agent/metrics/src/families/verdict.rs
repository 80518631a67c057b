//! The verdict and its findings.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_diagnosis::{Cause, Confidence, Problem, problems};
use rdma_health_rules::{Finding, Severity, Status, Subject, Verdict};
use rdma_health_view::View;

use crate::table::{Labelled, Samples, table};

pub(crate) const NOTE: &str = "`rule` is the id that `rdma-health explain` takes. `device` and `port` are empty if a finding \
    is about the whole node. A port that is busy or not active is skipped by the probe, which is not a failure.

A cause explains findings; `cause` is an id that `rdma-health explain` takes. A problem is a cause with the findings that it \
    explains best: what one alert is about. It names a device if the fault is one of single devices, and leaves it empty for the \
    whole node and if most devices have it. Each finding of warning or above is in one problem.

A timestamp `since` is the time of the first of an unbroken row of readings that show the finding or cause. It survives a \
    restart of the agent if the history is kept (`state`). Readings began at \
    `rdma_health_observed_since_timestamp_seconds`; what was there then may be older.";

table! {
    /// Families of the verdict on the node.
    VERDICT {}: &Verdict;

    Gauge "rdma_verdict" [""] {"status"}
        "Verdict on the node: 1 for the current status (ok, warning, critical or unknown), 0 for the others."
        => samples(|verdict, samples| {
            for status in [Status::Ok, Status::Warning, Status::Critical, Status::Unknown] {
                samples.add([status.name()], verdict.status == status);
            }
        });
    Gauge "rdma_verdict_findings" [""] {"severity"}
        "Number of findings, by severity."
        => samples(|verdict, samples| {
            for severity in Severity::ALL {
                let found = verdict.findings.iter().filter(|finding| finding.severity == severity);
                samples.add([severity.name()], found.count());
            }
        });
}

/// A view with its problems.
#[derive(Debug)]
pub(crate) struct Explained<'a> {
    view: &'a View,
    problems: Vec<Problem<'a>>,
}

table! {
    /// Families of the findings and their causes.
    EXPLAINED {}: Explained<'_>;

    Gauge "rdma_finding" [""] {"rule", "cause", "severity", "domain", "device", "port"}
        "A finding, with the cause that explains it best if it is a warning or worse: always 1, and absent once the rule no longer fires."
        => samples(|of, samples| findings(of, samples));
    Gauge "rdma_finding_since_timestamp_seconds" ["seconds since 1970"] {"rule", "device", "port"}
        "Since when every reading has shown a finding, in seconds since 1970."
        => samples(|of, samples| findings_since(of.view, samples));
    Gauge "rdma_cause" [""] {"cause", "severity", "confidence"}
        "A cause that the findings and probes suggest: always 1; confidence is likely or possible."
        => samples(|of, samples| {
            for cause in suggested(of.view) {
                samples.info([cause.id, cause.severity.name(), cause.confidence.name()]);
            }
        });
    Gauge "rdma_cause_since_timestamp_seconds" ["seconds since 1970"] {"cause"}
        "Since when every reading has suggested a cause, in seconds since 1970."
        => samples(|of, samples| {
            for cause in suggested(of.view) {
                if let Some(since) = cause.since(&of.view.node) {
                    samples.add([cause.id], since.time);
                }
            }
        });
    Gauge "rdma_problem" [""] {"cause", "domain", "severity", "confidence", "device", "port"}
        "A problem: the number of findings of warning or above that a cause explains best; absent once they are gone."
        => samples(|of, samples| {
            for problem in &of.problems {
                add_problem(problem, samples);
            }
        });
    Gauge "rdma_health_observed_since_timestamp_seconds" ["seconds since 1970"] {}
        "Time of the first reading in the history, in seconds since 1970."
        => value(|of| Some(of.view.node.history.as_ref()?.observed.as_ref()?.first));
}

/// The causes that are not unlikely.
fn suggested(view: &View) -> impl Iterator<Item = &Cause> {
    let causes = view.diagnosis.causes.iter();
    causes.filter(|cause| cause.confidence > Confidence::Unlikely)
}

fn add_problem(problem: &Problem<'_>, samples: &mut Samples<'_, '_, 6>) {
    let port = problem.port.map_or(String::new(), |port| port.to_string());
    let labels = [
        problem.cause,
        problem.domain.name(),
        problem.severity.name(),
        problem.confidence.name(),
        problem.device.unwrap_or_default(),
        &port,
    ];
    samples.add(labels, problem.findings.len());
}

fn findings_since(view: &View, samples: &mut Samples<'_, '_, 3>) {
    let mut seen = BTreeSet::new();
    for finding in &view.verdict.findings {
        let subject = &finding.subject;
        let Some(since) = finding
            .since(&view.node)
            .filter(|_| seen.insert((finding.rule.id, subject)))
        else {
            continue;
        };
        let port = subject.port.map_or(String::new(), |port| port.to_string());
        let device = subject.device.as_deref().unwrap_or_default();
        samples.add([finding.rule.id, device, &port], since.time);
    }
}

/// The view as the subject of the families of findings and causes.
pub(crate) fn explained(view: &View) -> [Labelled<Explained<'_>>; 1] {
    let problems = problems(&view.node, &view.verdict.findings, &view.diagnosis);
    [EXPLAINED.labelled(&[], Explained { view, problems })]
}

/// The verdict as the subject of its families.
pub(crate) fn subject(verdict: &Verdict) -> [Labelled<&Verdict>; 1] {
    [VERDICT.labelled(&[], verdict)]
}

fn findings(of: &Explained<'_>, samples: &mut Samples<'_, '_, 6>) {
    let causes: BTreeMap<_, _> = of
        .problems
        .iter()
        .flat_map(|problem| {
            problem
                .findings
                .iter()
                .map(|finding| (key(finding), problem.cause))
        })
        .collect();
    // A rule can fire twice on one subject, for example for two processes with the same name. A series must be unique.
    let mut seen = BTreeSet::new();
    for finding in &of.view.verdict.findings {
        let subject = &finding.subject;
        if !seen.insert(key(finding)) {
            continue;
        }
        let port = subject.port.map_or(String::new(), |port| port.to_string());
        let device = subject.device.as_deref().unwrap_or_default();
        samples.info([
            finding.rule.id,
            causes.get(&key(finding)).copied().unwrap_or_default(),
            finding.severity.name(),
            finding.domain.name(),
            device,
            &port,
        ]);
    }
}

/// What identifies a finding in its verdict.
fn key(finding: &Finding) -> (&'static str, Severity, &Subject) {
    (finding.rule.id, finding.severity, &finding.subject)
}
