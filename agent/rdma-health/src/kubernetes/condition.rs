//! What a view says as Node conditions: one per domain, abnormal-true. Pure.

use std::{fmt::Write, time::Duration};

use rdma_health_node::node::{PortOf, Probe, SourceStatus};
use rdma_health_protocol::ProbeFailure;
use rdma_health_rules::{Domain, Finding, Severity};

use super::text::{plain, shorten};
use crate::view::View;

/// The longest message, in characters: one less than the 256 that are promised.
pub(super) const MESSAGE: usize = 255;
/// Beyond twice the interval of reading and this long, facts are taken for stale.
const STALE_GRACE: Duration = Duration::from_secs(60);

/// What a condition says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// There is no problem.
    False,
    /// Nobody knows.
    Unknown,
    /// There is a problem.
    True,
}

impl Status {
    /// As the API writes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::False => "False",
            Self::Unknown => "Unknown",
            Self::True => "True",
        }
    }

    /// As the API wrote it; what is neither is unknown.
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

/// One condition, without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Its type.
    pub(crate) kind: &'static str,
    /// What it says.
    pub(crate) status: Status,
    /// Why, in one word.
    pub(crate) reason: String,
    /// Why, in a sentence or two.
    pub(crate) message: String,
}

/// The condition that a domain's findings become: domains whose faults are mended by the same people in the same way
/// share one.
pub(crate) fn kind(domain: Domain) -> &'static str {
    match domain.name() {
        "iommu" => IOMMU,
        "pci" | "modules" | "sriov" => DEVICE,
        "gpudirect" => GPUDIRECT,
        "link" => LINK,
        "gids" | "network" => NETWORK,
        "limits" => LIMITS,
        "probe" => PROBE,
        "reading" => READING,
        // A test says that no domain comes here.
        _ => "RDMAOtherProblem",
    }
}

const IOMMU: &str = "RDMAIommuProblem";
const DEVICE: &str = "RDMADeviceProblem";
const GPUDIRECT: &str = "GPUDirectProblem";
const LINK: &str = "RDMALinkProblem";
const NETWORK: &str = "RDMANetworkProblem";
const LIMITS: &str = "RDMALimitsProblem";
const PROBE: &str = "RDMAProbeProblem";
const READING: &str = "RDMAReadingProblem";

/// Every type that is ours.
pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
    [IOMMU, DEVICE, GPUDIRECT, LINK, NETWORK, LIMITS, PROBE, READING].into_iter()
}

/// What is known beside the view.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    /// Seconds since 1970, by the clock that the view's times come from.
    pub(crate) now: u64,
    /// How often everything is read.
    pub(crate) interval: Duration,
    /// How often each port is probed; `None` where none is.
    pub(crate) probe_interval: Option<Duration>,
    /// The mildest severity that makes a condition true.
    pub(crate) threshold: Severity,
    /// Whether the agent is so young that a probe may simply not have ended yet.
    pub(crate) starting: bool,
}

/// Every condition of the view. One of which nothing can be said yet is left out: what the Node says stays.
pub(crate) fn conditions(view: &View, around: &Circumstances) -> Vec<Condition> {
    kinds().filter_map(|kind| condition(kind, view, around)).collect()
}

fn condition(kind: &'static str, view: &View, around: &Circumstances) -> Option<Condition> {
    let made = |status, reason: &str, message: &str| {
        Some(Condition {
            kind,
            status,
            reason: reason.to_owned(),
            message: shorten(&plain(message), MESSAGE),
        })
    };
    let doubt = doubt(kind, view, around);
    if let Some(Doubt::All(reason, message)) = &doubt {
        return made(Status::Unknown, reason, message);
    }
    let mut findings = view
        .verdict
        .findings
        .iter()
        .filter(|finding| self::kind(finding.domain) == kind && finding.severity >= around.threshold);
    if let Some(worst) = findings.next() {
        return made(
            Status::True,
            &worst.rule.reason(),
            &message(worst, findings.count()),
        );
    }
    match doubt {
        Some(Doubt::NotYet) => None,
        Some(Doubt::All(reason, message) | Doubt::Some(reason, message)) => {
            made(Status::Unknown, reason, &message)
        }
        None => {
            let (reason, message) = all_right(kind, view);
            made(Status::False, reason, message)
        }
    }
}

/// Whether it is too early to say that probes found nothing: the agent has just started, and not every active port was
/// probed.
pub(super) fn awaits_probes(view: &View, around: &Circumstances) -> bool {
    let unprobed = |(hca, number, _): PortOf<'_>| {
        let mut reports = view.node.probes.iter().map(|probe| &probe.report);
        !reports.any(|report| report.device == hca.name && report.port == number)
    };
    around.starting && around.probe_interval.is_some() && view.node.active_ports().any(unprobed)
}

/// Subject, fault and remedy. The subject and the fault come first and whole where they fit: what is cut is the remedy,
/// which `rdma-health explain` tells in full.
fn message(worst: &Finding, others: usize) -> String {
    let subject = worst.subject.to_string();
    let fault = plain(&worst.message);
    let mut text = if fault.contains(&subject) || worst.subject.device.is_none() {
        fault
    } else {
        format!("{subject}: {fault}")
    };
    if others > 0 {
        let _ = write!(text, " (and {others} more)");
    }
    format!("{text}. {}", plain(&worst.remedy))
}

/// Why nothing, or not all, can be said.
enum Doubt {
    /// It is too early to tell that nothing is wrong.
    NotYet,
    /// Nothing of it is known.
    All(&'static str, String),
    /// Part of it is not: what was found still holds, that nothing was found does not.
    Some(&'static str, String),
}

fn doubt(kind: &'static str, view: &View, around: &Circumstances) -> Option<Doubt> {
    let node = &view.node;
    let oldest = 2 * around.interval.as_secs() + STALE_GRACE.as_secs();
    let age = around.now.saturating_sub(node.time);
    if age > oldest {
        return Some(Doubt::All(
            "FactsStale",
            format!("the node was last read {age} s ago"),
        ));
    }
    // What it is read from, and the facts without which nothing can be said.
    let hcas = node.hcas.unread();
    let functions = node.pci.functions.unread();
    let (sources, unread): (&[&str], _) = match kind {
        IOMMU => (&["iommu", "pci"], node.iommu.groups.unread().or(functions)),
        DEVICE => (&["infiniband", "modules", "pci"], hcas.or(functions)),
        GPUDIRECT => (&["modules", "pci"], functions.or(node.peer_memory.unread())),
        LINK | PROBE => (&["infiniband"], hcas),
        NETWORK => (&["infiniband", "network"], hcas.or(node.network.subnets.unread())),
        LIMITS => (&["limits"], node.limits.runtimes.unread()),
        // That something could not be read is what this one is about.
        _ => (&[], None),
    };
    let of_kind: Vec<&SourceStatus> = node
        .sources
        .iter()
        .filter(|(name, _)| sources.contains(&name.split('/').next().unwrap_or_default()))
        .map(|(_, status)| &**status)
        .collect();
    let stale = of_kind.iter().filter(|status| status.stale).count();
    if stale > 0 {
        let message = "reading the facts does not end: the driver or device does not answer".to_owned();
        return Some(if stale == of_kind.len() {
            Doubt::All("FactsStale", message)
        } else {
            Doubt::Some("FactsStale", message)
        });
    }
    if let Some(unread) = unread {
        return Some(Doubt::Some("FactsUnread", unread.to_string()));
    }
    match kind {
        PROBE => probe_doubt(view, around),
        LINK => {
            let mut ports = node.hcas().flat_map(|hca| hca.ports.values()).peekable();
            let none_told = ports.peek().is_some() && ports.all(|port| port.is_active().is_none());
            none_told.then(|| Doubt::Some("FactsUnread", "no port's state could be read".into()))
        }
        _ => None,
    }
}

fn probe_doubt(view: &View, around: &Circumstances) -> Option<Doubt> {
    let node = &view.node;
    view.node.active_ports().next()?;
    let Some(interval) = around.probe_interval else {
        return Some(Doubt::All(
            "ProbesDisabled",
            "the configuration disables probes".into(),
        ));
    };
    if awaits_probes(view, around) {
        return Some(Doubt::NotYet);
    }
    if node.probes.is_empty() {
        let why = node
            .verbs
            .unread()
            .map_or_else(|| "no active port was probed yet".to_owned(), ToString::to_string);
        return Some(Doubt::All("NotProbed", why));
    }
    let oldest = 2 * interval.as_secs() + STALE_GRACE.as_secs();
    let stale = |probe: &Probe| around.now.saturating_sub(probe.time) > oldest;
    let age = node
        .probes
        .iter()
        .map(|probe| around.now.saturating_sub(probe.time))
        .min()?;
    let message = || format!("the last probe ended {age} s ago");
    if node.probes.iter().all(|probe| stale(probe)) {
        return Some(Doubt::All("ProbesStale", message()));
    }
    node.probes
        .iter()
        .any(|probe| stale(probe))
        .then(|| Doubt::Some("ProbesStale", "some ports were not probed for long".into()))
}

/// Reason and message where nothing is wrong.
fn all_right(kind: &str, view: &View) -> (&'static str, &'static str) {
    let node = &view.node;
    let has_devices = node.hcas().next().is_some();
    match kind {
        LIMITS => ("NoLimitsProblem", "processes may lock as much memory as expected"),
        READING => ("NoReadingProblem", "every fact that matters could be read"),
        DEVICE => (
            "NoDeviceProblem",
            "devices, drivers and virtual functions are as expected",
        ),
        _ if !has_devices => ("NoDevices", "there is no RDMA device"),
        IOMMU => (
            "NoIommuProblem",
            "DMA of RDMA devices and GPUs is handled as it should be",
        ),
        GPUDIRECT => (
            "NoGPUDirectProblem",
            "nothing known stands between GPUs and RDMA devices",
        ),
        LINK => ("NoLinkProblem", "every RDMA port that is used or expected is up"),
        NETWORK => (
            "NoNetworkProblem",
            "addresses and network of RDMA ports are as expected",
        ),
        _ if node.probes.iter().any(|probe| probe.report.failure.is_none()) => {
            ("NoProbeProblem", "loopback RDMA writes work")
        }
        _ if node.probes.iter().any(|probe| busy(probe)) => {
            ("PortsBusy", "every active port carries traffic and is not probed")
        }
        _ => ("NoActivePort", "there is no active port to probe"),
    }
}

fn busy(probe: &Probe) -> bool {
    matches!(probe.report.failure, Some(ProbeFailure::Busy { .. }))
}
