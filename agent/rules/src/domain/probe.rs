//! Probes that failed.

use rdma_health_node::{Node, failure::in_words};
use rdma_health_protocol::{Errno, ProbeFailure, Stage, WcStatus};

use crate::{
    Domain, Exception, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer,
    draft::Draft,
};

/// `probe-failed`.
pub static FAILED: Rule = Rule {
    id: "probe-failed",
    domain: Domain::Probe,
    policy: Policy::of(Severities::CRITICAL.tcp_only(Severity::Info)).except(&[&EXHAUSTED]),
    title: "A loopback RDMA WRITE failed",
    explanation: "The probe opens the device, registers memory, connects two queue pairs of one port and writes \
        between them. The stage that failed and its error show the cause: ENOMEM at reg_mr is a memory-lock limit, \
        ENODATA or EINVAL at rtr a missing GID, IBV_WC_LOC_PROT_ERR a protection or translation fault, ENODEV a \
        device that went away.",
    remedy: Remedy::all(
        "Read stage and error in the message. reg_mr with ENOMEM: raise the memory-lock limit or grant IPC_LOCK. gid \
        or rtr: check the addresses of the port (show_gids, ip addr). open with EACCES: give the helper access to \
        /dev/infiniband. Completion errors: see iommu-group-translated.",
    ),
    false_alarms: "A port that is busy or not ACTIVE is not probed, which is not a failure. A port that is down is \
        reported by port-down.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Agent],
    judge: failed,
};

static EXHAUSTED: Exception = Exception {
    condition: "if the device has no room for another queue or memory region (ENOMEM), which a job can cause",
    severities: Severities::WARNING.tcp_only(Severity::Info),
};

/// Whether the last probe of a device failed.
pub(crate) fn failed_on(node: &Node, device: &str) -> bool {
    node.loopbacks()
        .any(|probe| probe.report.path.from.device == device && probe.failure().is_some())
}

fn failed(node: &Node, _: &Expectations) -> Vec<Draft> {
    let found = node.loopbacks().filter_map(|probe| {
        let failure = probe.failure()?;
        let report = &probe.report;
        let subject = Subject::port(&report.path.from.device, report.path.from.port);
        let message = format!(
            "the loopback RDMA WRITE on {subject} failed at {}: {}",
            report.stage.name(),
            in_words(failure)
        );
        let mut finding = Draft::new(&FAILED, subject, message)
            .evidence(format!("probe, stage {}", report.stage.name()), in_words(failure));
        let own_limit = node.limits.own.known().and_then(|limit| limit.soft);
        if failure.errno() == Some(Errno::ENOMEM) && (report.stage != Stage::RegMr || own_limit.is_none()) {
            finding = finding.exception(&EXHAUSTED);
        }
        if let Some(gid) = &report.gid {
            finding = finding.evidence(
                "probe, GID",
                format!("{} at index {} ({})", gid.gid, gid.index, gid.kind.name()),
            );
        }
        if report.stage == Stage::RegMr
            && let Some(limit) = own_limit
        {
            finding = finding.evidence(
                "/proc/self/limits",
                format!("Max locked memory: soft {limit} bytes"),
            );
        }
        if let Some(step) = next_step(report.stage, failure) {
            finding = finding.remedy(Remedy::all(step));
        }
        Some(finding)
    });
    found.collect()
}

/// What to do about a failure if stage and error show it. The remedy of the catalogue covers the rest.
fn next_step(stage: Stage, failure: &ProbeFailure) -> Option<&'static str> {
    Some(match (stage, failure, failure.errno()) {
        (Stage::Open, _, Some(Errno::EACCES)) => {
            "Run as root, or give the helper access to /dev/infiniband/uverbs*: check the modes of the device \
             nodes and the device cgroup of its pod (privileged, or the mount of the device plugin)."
        }
        (Stage::Open, _, Some(Errno::ENOENT | Errno::ENODEV)) => {
            "Load the module that creates the device node (modprobe ib_uverbs), and mount /dev/infiniband into \
             the container of the helper."
        }
        (_, _, Some(Errno::EIO | Errno::ENODEV)) => {
            "Read the messages of the driver (health, fatal): journalctl -k. The device went away or its \
             firmware failed: drain the node, then reset or power-cycle it."
        }
        (Stage::RegMr, _, Some(Errno::ENOMEM)) => {
            "Raise the memory-lock limit (ulimit -l unlimited, LimitMEMLOCK=infinity) or grant IPC_LOCK; see \
             memlock-low."
        }
        (_, _, Some(Errno::ENOMEM)) => {
            "Find out which process holds thousands of queues of the device: rdma resource show. If none does, \
             raise the memory-lock limit."
        }
        (Stage::Gid, ..) | (Stage::Rtr, _, Some(Errno::EINVAL | Errno::ENODATA)) => {
            "Check the addresses of the network device (ip addr) and the GID table of the port (show_gids): the \
             GID is missing. See gid-missing."
        }
        (Stage::Rtr, _, Some(Errno::ETIMEDOUT)) => {
            "Check the state of the network device and its neighbours (ip neigh): the port's own address could \
             not be resolved."
        }
        (_, ProbeFailure::Completion(_), _) => match failure.status()? {
            WcStatus::LocProtErr => {
                "Check iommu-group-translated, iommu-faults and acs-redirect first: the device was denied access to \
             memory."
            }
            WcStatus::RetryExcErr => {
                "Check the link, flow control and same-subnet-arp: packets to the port itself are lost."
            }
            _ => return None,
        },
        (_, ProbeFailure::TimedOut, _) => {
            "Read the kernel log: the device accepted the work and never finished it. Drain the node, then reset \
             the device and update its firmware."
        }
        (_, ProbeFailure::Corrupted { .. }, _) => {
            "Stop using the port, because data arrived corrupted. Check pci-aer-errors and the memory errors of \
             the machine, and replace the defective part."
        }
        _ => return None,
    })
}
