//! Node conditions from a view: one per domain, abnormal-true. Pure.

use std::{fmt::Write, time::Duration};

use rdma_health_node::{Port, SourceStatus, node::Probe, pci::Role};
use rdma_health_protocol::ProbeFailure;
use rdma_health_rules::{Domain, Finding, Severity, unread_of};
use rdma_health_view::View;

use super::{
    kind::{ConditionKind, ConditionType},
    text::{remedy_in_line, shorten, single_line},
};

/// Maximum length of a message in characters: one less than the documented 256.
pub(super) const MESSAGE: usize = 255;
/// Facts are stale if they are older than twice the reading interval plus this time.
pub(super) const STALE_GRACE: Duration = Duration::from_secs(60);

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// There is no problem.
    False,
    /// Not known.
    Unknown,
    /// There is a problem.
    True,
}

impl Status {
    /// Its name in the API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::False => "False",
            Self::Unknown => "Unknown",
            Self::True => "True",
        }
    }

    /// Parses the API's name; anything but `True` and `False` is unknown.
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
    pub(crate) kind: ConditionType,
    /// Its status.
    pub(crate) status: Status,
    /// The reason, in one CamelCase word.
    pub(crate) reason: String,
    /// The reason, in one or two sentences.
    pub(crate) message: String,
}

impl Condition {
    /// A condition whose message is one line of bounded length.
    pub(super) fn new(kind: ConditionType, status: Status, reason: &str, message: &str) -> Self {
        Self {
            kind,
            status,
            reason: reason.to_owned(),
            message: shorten(&single_line(message), MESSAGE),
        }
    }

    /// How bad its status is, by what `True` means in its type.
    pub(super) fn badness(&self) -> u8 {
        self.kind.badness(self.status)
    }
}

/// What conditions depend on in addition to the view.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConditionContext {
    /// The current time in seconds since 1970, from the same clock as the view's times.
    pub(crate) now: u64,
    /// The interval between complete readings.
    pub(crate) interval: Duration,
    /// The interval between probes of a port; `None` if probes are disabled.
    pub(crate) probe_interval: Option<Duration>,
    /// The lowest severity that makes a condition true.
    pub(crate) threshold: Severity,
    /// Whether the agent started so recently that its first probes may still run.
    pub(crate) starting: bool,
}

/// The condition of each kind of problem. A condition that cannot be decided yet is left out: the Node keeps its current one.
pub(crate) fn conditions(view: &View, context: &ConditionContext) -> Vec<Condition> {
    ConditionKind::ALL
        .into_iter()
        .filter_map(|kind| condition(kind, view, context))
        .collect()
}

fn condition(kind: ConditionKind, view: &View, context: &ConditionContext) -> Option<Condition> {
    let condition =
        |status, reason: &str, message: &str| Some(Condition::new(kind.into(), status, reason, message));
    let unknown = unknown(kind, view, context);
    if let Some(Unknown::All(reason, message)) = &unknown {
        return condition(Status::Unknown, reason, message);
    }
    let mut findings =
        view.verdict.findings.iter().filter(|finding| {
            ConditionKind::of(finding.rule) == kind && finding.severity >= context.threshold
        });
    if let Some(worst) = findings.next() {
        return condition(
            Status::True,
            &worst.rule.reason(),
            &message(worst, findings.count()),
        );
    }
    match unknown {
        Some(Unknown::NotYet) => None,
        Some(Unknown::All(reason, message) | Unknown::Some(reason, message)) => {
            condition(Status::Unknown, reason, &message)
        }
        None => {
            let (reason, message) = healthy(kind, view);
            condition(Status::False, reason, message)
        }
    }
}

/// Whether it is too early to conclude that probes found no problem: the agent has just started, and some active ports are
/// not probed yet.
pub(super) fn awaits_probes(view: &View, context: &ConditionContext) -> bool {
    let unprobed = |port: Port<'_>| {
        let mut probed = view.node.loopbacks().map(|probe| &probe.report.path.from);
        !probed.any(|from| from.device == port.hca.name && from.port == port.number)
    };
    context.starting && context.probe_interval.is_some() && view.node.active_ports().any(unprobed)
}

/// Subject, fault and remedy. The remedy is last, so that it is cut first if the message is too long; `rdma-health explain`
/// prints all of it.
pub(super) fn message(worst: &Finding, others: usize) -> String {
    let subject = single_line(&worst.subject.to_string());
    let fault = single_line(&worst.message_naming(1));
    let mut text = if fault.contains(&subject) || worst.subject.device.is_none() {
        fault
    } else {
        format!("{subject}: {fault}")
    };
    if others > 0 {
        let _ = write!(text, " (and {others} more)");
    }
    format!("{text}. {}", remedy_in_line(&worst.remedy))
}

/// Why the status is unknown, with reason and message.
enum Unknown {
    /// It is too early to conclude that there is no problem.
    NotYet,
    /// No fact of the condition is known.
    All(&'static str, String),
    /// Some facts are missing: findings are still valid, but the absence of findings is not.
    Some(&'static str, String),
}

/// Why all facts of the view are too old, if they are.
pub(super) fn facts_stale(view: &View, context: &ConditionContext) -> Option<String> {
    let oldest = 2 * context.interval.as_secs() + STALE_GRACE.as_secs();
    let age = context.now.saturating_sub(view.node.time);
    (age > oldest)
        .then(|| format!("the last reading of the node is {age} s old; expected at most {oldest} s"))
}

fn unknown(kind: ConditionKind, view: &View, context: &ConditionContext) -> Option<Unknown> {
    let node = &view.node;
    if let Some(message) = facts_stale(view, context) {
        return Some(Unknown::All("FactsStale", message));
    }
    // The sources of the condition, and the facts that it requires.
    let hcas = node.hcas.unread();
    let functions = node.pci.functions.unread();
    let (sources, unread): (&[&str], _) = match kind {
        ConditionKind::Iommu => (&["iommu", "pci"], node.iommu.groups.unread().or(functions)),
        ConditionKind::Device => (&["infiniband", "modules", "pci"], hcas.or(functions)),
        ConditionKind::GpuDirect => (&["modules", "pci"], functions.or(node.peer_memory.unread())),
        ConditionKind::Link | ConditionKind::Probe => (&["infiniband"], hcas),
        ConditionKind::Network => (&["infiniband", "network"], hcas.or(node.network.subnets.unread())),
        ConditionKind::Limits => (&["limits"], node.limits.runtimes.unread()),
        // This condition is about facts that could not be read, so it requires none.
        ConditionKind::Reading => (&[], None),
    };
    let of_kind: Vec<(&str, &SourceStatus)> = node
        .sources
        .iter()
        .filter(|(name, _)| sources.contains(&name.split('/').next().unwrap_or_default()))
        .map(|(name, status)| (&**name, &**status))
        .collect();
    let stale: Vec<&str> = of_kind
        .iter()
        .filter(|(_, status)| status.stale)
        .map(|(name, _)| *name)
        .collect();
    if !stale.is_empty() {
        let message = format!(
            "the driver or device does not respond while reading {}",
            stale.join(", ")
        );
        return Some(if stale.len() == of_kind.len() {
            Unknown::All("FactsStale", message)
        } else {
            Unknown::Some("FactsStale", message)
        });
    }
    if let Some(unread) = unread {
        return Some(Unknown::Some("FactsUnread", unread.to_string()));
    }
    let mut domains = Domain::ALL
        .into_iter()
        .filter(|domain| ConditionKind::from(*domain) == kind);
    if let Some(why) = domains.find_map(|domain| unread_of(node, domain)) {
        return Some(Unknown::Some("FactsUnread", why));
    }
    match kind {
        ConditionKind::Probe => probe_unknown(view, context),
        ConditionKind::Link => {
            let mut ports = node.hcas().flat_map(|hca| hca.ports.values()).peekable();
            let none_known = ports.peek().is_some() && ports.all(|port| port.is_active().is_none());
            none_known.then(|| Unknown::Some("FactsUnread", "the state of no port could be read".into()))
        }
        ConditionKind::Iommu
        | ConditionKind::Device
        | ConditionKind::GpuDirect
        | ConditionKind::Network
        | ConditionKind::Limits
        | ConditionKind::Reading => None,
    }
}

fn probe_unknown(view: &View, context: &ConditionContext) -> Option<Unknown> {
    let node = &view.node;
    view.node.active_ports().next()?;
    let Some(interval) = context.probe_interval else {
        return Some(Unknown::All(
            "ProbesDisabled",
            "probes are disabled in the configuration".into(),
        ));
    };
    if awaits_probes(view, context) {
        return Some(Unknown::NotYet);
    }
    if node.loopbacks().next().is_none() {
        let why = node.verbs.unread().map_or_else(
            || "no active port has been probed yet".to_owned(),
            ToString::to_string,
        );
        return Some(Unknown::All("NotProbed", why));
    }
    let oldest = 2 * interval.as_secs() + STALE_GRACE.as_secs();
    let stale = |probe: &Probe| context.now.saturating_sub(probe.time) > oldest;
    let age = node
        .loopbacks()
        .map(|probe| context.now.saturating_sub(probe.time))
        .min()?;
    let message = || format!("the last probe ended {age} s ago; expected at most {oldest} s");
    if node.loopbacks().all(stale) {
        return Some(Unknown::All("ProbesStale", message()));
    }
    node.loopbacks().any(stale).then(|| {
        Unknown::Some(
            "ProbesStale",
            format!("some ports were last probed more than {oldest} s ago"),
        )
    })
}

/// Reason and message if there is no problem.
fn healthy(kind: ConditionKind, view: &View) -> (&'static str, &'static str) {
    const NO_DEVICES: (&str, &str) = ("NoDevices", "the node has no RDMA device");
    let has_devices = view.node.hcas().next().is_some();
    let has_limits = || {
        view.node
            .limits
            .runtimes
            .known()
            .is_some_and(|found| !found.is_empty())
    };
    let has_gpus = || {
        view.node
            .functions()
            .iter()
            .any(|function| function.role == Role::Gpu)
    };
    match kind {
        ConditionKind::Limits if has_limits() => ("NoLimitsProblem", "memlock limits are as expected"),
        ConditionKind::Limits => (
            "NoLimitsProblem",
            "no container runtime was found whose memlock limit could be judged",
        ),
        ConditionKind::Reading => ("NoReadingProblem", "every required fact could be read"),
        ConditionKind::Device => (
            "NoDeviceProblem",
            "devices, drivers and virtual functions are as expected",
        ),
        ConditionKind::Iommu if has_devices => (
            "NoIommuProblem",
            "the IOMMU mode of RDMA devices and GPUs is as expected",
        ),
        ConditionKind::GpuDirect if has_devices && !has_gpus() => (
            "NoGPUDirectProblem",
            "the node has no GPU that this program knows",
        ),
        ConditionKind::GpuDirect if has_devices => (
            "NoGPUDirectProblem",
            "no known obstacle between GPUs and RDMA devices",
        ),
        ConditionKind::Link if has_devices => (
            "NoLinkProblem",
            "every RDMA port that is in use or expected is up",
        ),
        ConditionKind::Network if has_devices => (
            "NoNetworkProblem",
            "addresses and network settings of RDMA ports are as expected",
        ),
        ConditionKind::Probe if has_devices => probes_healthy(view),
        ConditionKind::Iommu
        | ConditionKind::GpuDirect
        | ConditionKind::Link
        | ConditionKind::Network
        | ConditionKind::Probe => NO_DEVICES,
    }
}

fn probes_healthy(view: &View) -> (&'static str, &'static str) {
    if view.node.loopbacks().any(|probe| probe.report.failure.is_none()) {
        ("NoProbeProblem", "loopback RDMA writes succeed")
    } else if view.node.loopbacks().any(busy) {
        (
            "PortsBusy",
            "every active port carries traffic, so none was probed",
        )
    } else {
        ("NoActivePort", "the node has no active port to probe")
    }
}

pub(super) fn busy(probe: &Probe) -> bool {
    matches!(probe.report.failure, Some(ProbeFailure::Busy { .. }))
}
