//! What active measurements say.

use rdma_health_node::{Node, node::Probe};
use rdma_health_protocol::{ProbeFailure, Stage};

use crate::{Domain, Expectations, Finding, Profile, Remedy, Rule, Severity, Subject};

/// `probe-failed`.
pub(crate) static FAILED: Rule = Rule {
    id: "probe-failed",
    domain: Domain::Probe,
    severity: Severity::Critical,
    title: "A loopback RDMA WRITE failed",
    explanation: "The probe opens the device, registers memory, connects two queue pairs of one port and writes between them. \
        The stage that failed and its error name the cause: ENOMEM at reg_mr is a memory-lock limit, ENODATA or EINVAL at rtr \
        a GID that is gone, IBV_WC_LOC_PROT_ERR a protection or translation fault, ENODEV a device that went away.",
    remedy: Remedy::all(
        "Read stage and error in the message. reg_mr and ENOMEM: raise the memory-lock limit or grant IPC_LOCK. gid or rtr: look at \
        the port's addresses (show_gids, ip addr). open and EACCES: the helper may not open /dev/infiniband. Completion errors: \
        see iommu-group-translated.",
    ),
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
        finding.remedy = next_step(report.stage, failure).map_or(finding.remedy, str::to_owned);
        Some(finding)
    });
    found.collect()
}

/// What to do about a failure, where stage and error say it; the catalogue's remedy serves the rest.
fn next_step(stage: Stage, failure: &ProbeFailure) -> Option<&'static str> {
    const ENOENT: i32 = 2;
    const EIO: i32 = 5;
    const ENOMEM: i32 = 12;
    const EACCES: i32 = 13;
    const ENODEV: i32 = 19;
    const EINVAL: i32 = 22;
    const ENODATA: i32 = 61;
    const ETIMEDOUT: i32 = 110;
    /// `IBV_WC_LOC_PROT_ERR`, `IBV_WC_RETRY_EXC_ERR`.
    const PROTECTION: u32 = 4;
    const RETRIES: u32 = 12;
    Some(match (stage, failure) {
        (Stage::Open, ProbeFailure::Errno { errno: EACCES, .. }) => {
            "The helper may not open /dev/infiniband/uverbs*: run as root, or look at the modes of the device nodes and at the \
             device cgroup of its pod (privileged, or the device plugin's mount)."
        }
        (
            Stage::Open,
            ProbeFailure::Errno {
                errno: ENOENT | ENODEV,
                ..
            },
        ) => {
            "There is no device node for it: modprobe ib_uverbs, and mount /dev/infiniband into the helper's container."
        }
        (
            _,
            ProbeFailure::Errno {
                errno: EIO | ENODEV, ..
            },
        ) => {
            "The device went away or its firmware failed: look at the kernel's log for the driver's words (health, fatal), and, \
             once the node is empty of jobs, reset or power-cycle it."
        }
        (Stage::RegMr, ProbeFailure::Errno { errno: ENOMEM, .. }) => {
            "Raise the memory-lock limit (ulimit -l unlimited, LimitMEMLOCK=infinity) or grant IPC_LOCK; see memlock-low."
        }
        (_, ProbeFailure::Errno { errno: ENOMEM, .. }) => {
            "The device has no more room for queues: something holds thousands of them (rdma resource show), or the memory-lock \
             limit is low."
        }
        (Stage::Gid, _)
        | (
            Stage::Rtr,
            ProbeFailure::Errno {
                errno: EINVAL | ENODATA,
                ..
            },
        ) => {
            "The GID is missing or went away: look at the network device's addresses (ip addr) and the port's table (show_gids); \
             see gid-missing."
        }
        (Stage::Rtr, ProbeFailure::Errno { errno: ETIMEDOUT, .. }) => {
            "The own address could not be resolved: look at the network device's state and at its neighbours (ip neigh)."
        }
        (_, ProbeFailure::Completion(completion)) if completion.status == PROTECTION => {
            "The device was refused memory: look at iommu-group-translated, iommu-faults and acs-redirect first."
        }
        (_, ProbeFailure::Completion(completion)) if completion.status == RETRIES => {
            "Packets to the own port are lost: look at the link, at flow control and at same-subnet-arp."
        }
        (_, ProbeFailure::TimedOut) => {
            "The device took the work and never finished it: look at the kernel's log, and once the node is empty of jobs reset \
             the device and update its firmware."
        }
        (_, ProbeFailure::Corrupted { .. }) => {
            "Data arrived changed: stop using the port. Look at pci-aer-errors and at the machine's memory errors; replace the part."
        }
        _ => return None,
    })
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
