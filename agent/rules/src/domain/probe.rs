//! What active measurements say.

use rdma_health_node::{Node, node::Probe};
use rdma_health_protocol::{ProbeFailure, Stage};

use crate::{Domain, Expectations, Finding, Profile, Rule, Severity, Subject};

/// `probe-failed`.
pub(crate) static FAILED: Rule = Rule {
    id: "probe-failed",
    domain: Domain::Probe,
    severity: Severity::Critical,
    title: "A loopback RDMA WRITE failed",
    explanation: "The probe opens the device, registers memory, connects two queue pairs of one port and writes between them. \
        The stage that failed and its error name the cause: ENOMEM at reg_mr is a memory-lock limit, ENODATA or EINVAL at rtr \
        a GID that is gone, IBV_WC_LOC_PROT_ERR a protection or translation fault, ENODEV a device that went away.",
    remedy: "Read stage and error in the message. reg_mr and ENOMEM: raise the memory-lock limit or grant IPC_LOCK. gid or \
        rtr: look at the port's addresses (show_gids, ip addr). open and EACCES: the helper may not open /dev/infiniband. \
        Completion errors: see iommu-group-translated.",
    false_alarms: "A port that is busy or not active is not probed, which is no failure; a port that is down has a rule of its \
        own.",
    judge: failed,
};

/// Whether the last probe of a device failed in earnest.
pub(crate) fn failed_on(node: &Node, device: &str) -> bool {
    node.probes
        .iter()
        .any(|probe| probe.report.device == device && failure(probe).is_some())
}

/// The failure that counts: a busy or inactive port was not probed at all.
fn failure(probe: &Probe) -> Option<&ProbeFailure> {
    probe
        .report
        .failure
        .as_ref()
        .filter(|failure| !failure.is_not_probed())
}

fn failed(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let found = node.probes.iter().filter_map(|probe| {
        let failure = failure(probe)?;
        let report = &probe.report;
        let subject = Subject::port(&report.device, report.port);
        let message = format!(
            "the loopback write on {subject} failed at {}: {}",
            report.stage.name(),
            words(failure)
        );
        let mut finding = Finding::new(&FAILED, subject, message)
            .evidence(format!("probe, stage {}", report.stage.name()), words(failure));
        if let Some(gid) = &report.gid {
            finding = finding.evidence(
                "probe, GID",
                format!("{} at index {} ({})", gid.gid, gid.index, gid.kind.name()),
            );
        }
        if report.stage == Stage::RegMr
            && let Some(limit) = node.limits.own.known().and_then(|limit| limit.soft)
        {
            finding = finding.evidence(
                "/proc/self/limits",
                format!("Max locked memory: soft {limit} bytes"),
            );
        }
        if expectations.profile == Profile::TcpOnly {
            finding = finding.severity(Severity::Info);
        }
        Some(finding)
    });
    found.collect()
}

/// A failure in words.
pub fn words(failure: &ProbeFailure) -> String {
    match failure {
        ProbeFailure::Errno { errno, name } => format!("{name} ({errno})"),
        ProbeFailure::Completion(completion) => {
            format!(
                "{}({}) vendor_err={:#x}",
                completion.name, completion.status, completion.vendor_error
            )
        }
        ProbeFailure::TimedOut => "the time budget ran out".into(),
        ProbeFailure::Busy { bytes_per_second } => format!("the port carries {bytes_per_second} bytes/s"),
        ProbeFailure::NotActive { state } => format!("the port's state is {state}, not ACTIVE"),
        ProbeFailure::NoGid => "the port has no GID to use".into(),
        ProbeFailure::Corrupted { offset } => {
            format!("the bytes that arrived differ from offset {offset} on")
        }
        ProbeFailure::NoSuchPort => "there is no such device or port".into(),
    }
}
