//! The verdict and its findings.

use std::collections::BTreeSet;

use rdma_health_rules::{Severity, Status, Verdict};

use crate::table::{Labelled, Samples, table};

pub(crate) const NOTE: &str = "`rule` is the id that `rdma-health explain` takes. `device` and `port` are empty if a finding \
    is about the whole node. A port that is busy or not active is skipped by the probe, which is not a failure.";

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
    Gauge "rdma_finding" [""] {"rule", "severity", "domain", "device", "port"}
        "A finding: always 1, and absent once the rule no longer fires."
        => samples(|verdict, samples| findings(verdict, samples));
}

/// The verdict as the subject of its families.
pub(crate) fn subject(verdict: &Verdict) -> [Labelled<&Verdict>; 1] {
    [VERDICT.labelled(&[], verdict)]
}

fn findings(verdict: &Verdict, samples: &mut Samples<'_, '_, 5>) {
    // A rule can fire twice on one subject, for example for two processes with the same name. A series must be unique.
    let mut seen = BTreeSet::new();
    for finding in &verdict.findings {
        let subject = &finding.subject;
        if !seen.insert((finding.rule.id, finding.severity, subject)) {
            continue;
        }
        let port = subject.port.map_or(String::new(), |port| port.to_string());
        let device = subject.device.as_deref().unwrap_or_default();
        samples.info([
            finding.rule.id,
            finding.severity.name(),
            finding.domain.name(),
            device,
            &port,
        ]);
    }
}
