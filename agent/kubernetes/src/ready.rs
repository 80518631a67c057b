//! The aggregate condition `rdma-health.io/RDMAReady` and its aliases. Pure.
//!
//! It is the only condition whose `True` means that all is well: controllers that admit or repair nodes wait for such a one. `True`
//! needs positive evidence from every port; only a fault is `False`; everything else is `Unknown`.

use std::time::Duration;

use rdma_health_config::{Alias, Config, RepairedBy};
use rdma_health_node::{Port, node::Probe, pattern, words::count};
use rdma_health_rules::{
    Domain, Expectations, Finding, Profile, Repair, Severity, Subject, domain::gids::GID_MISSING, unread_of,
};
use rdma_health_view::View;

use super::{
    condition::{
        Condition, ConditionContext, STALE_GRACE, Status, awaits_probes, busy, facts_stale, message,
    },
    kind::{ConditionType, Shape},
};

/// A node that booted this recently, in seconds, has no earlier condition worth keeping while its ports are probed.
const JUST_BOOTED: u64 = 900;

/// What the aggregate condition depends on in addition to the view and the context.
#[derive(Debug, Clone, Default)]
pub(super) struct Aggregate {
    /// What the operator expects of the node.
    pub(super) expect: Expectations,
    /// Patterns for the devices that are probed.
    pub(super) probed: Vec<String>,
    /// The conditions with the same content.
    pub(super) aliases: Vec<Alias>,
}

impl Aggregate {
    /// The settings with these expectations and aliases.
    pub(super) fn new(config: &Config, expect: Expectations, aliases: &[Alias]) -> Self {
        Self {
            expect,
            probed: config.probe.devices.clone(),
            aliases: aliases.to_vec(),
        }
    }
}

/// Whether RDMA can be used.
#[derive(Debug)]
enum Readiness {
    Ready(String),
    /// There is a fault, but none of those that the condition reports.
    NotMeant(String),
    Fault(Fault),
    Unknown(&'static str, String),
    /// The agent has just started: the Node keeps what an earlier agent wrote.
    NotYet,
}

#[derive(Debug)]
struct Fault {
    reason: String,
    message: String,
    /// Since when it has been observed, in seconds since 1970, if that is known.
    since: Option<u64>,
}

impl Fault {
    fn of(finding: &Finding, others: usize, view: &View) -> Self {
        Self {
            reason: finding.rule.reason(),
            message: message(finding, others),
            since: finding.since(&view.node).map(|since| since.time),
        }
    }
}

/// The aggregate condition and its aliases. Those that cannot be decided yet are left out: the Node keeps its current ones.
pub(super) fn conditions(view: &View, context: &ConditionContext, aggregate: &Aggregate) -> Vec<Condition> {
    let readiness = readiness(view, context, aggregate);
    let own = condition(ConditionType::Ready, Duration::ZERO, &readiness, context.now);
    let aliases = aggregate.aliases.iter().filter_map(|alias| {
        let some = limited(&readiness, &alias.repair, view);
        let said = some.as_ref().unwrap_or(&readiness);
        condition(alias.into(), alias.delay, said, context.now)
    });
    own.into_iter().chain(aliases).collect()
}

/// What an alias says that reports only faults with these repairs; `None` if that is what the aggregate condition says.
fn limited(all: &Readiness, repairs: &[RepairedBy], view: &View) -> Option<Readiness> {
    let Readiness::Fault(worst) = all else {
        return None;
    };
    if repairs.is_empty() {
        return None;
    }
    let is_meant = |finding: &&Finding| {
        let repair = match finding.rule.repair() {
            Repair::Reboot => RepairedBy::Reboot,
            Repair::Replace => RepairedBy::Replace,
            Repair::Configuration | Repair::Fabric | Repair::Unclear => return false,
        };
        finding.severity == Severity::Critical && repairs.contains(&repair)
    };
    let mut meant = view.verdict.findings.iter().filter(is_meant);
    Some(match meant.next() {
        Some(finding) => Readiness::Fault(Fault::of(finding, meant.count(), view)),
        None => Readiness::NotMeant(format!("{}: {}", worst.reason, worst.message)),
    })
}

fn condition(kind: ConditionType, delay: Duration, readiness: &Readiness, now: u64) -> Option<Condition> {
    let (well, ill) = match kind.shape() {
        Shape::Ready => (Status::True, Status::False),
        Shape::Problem => (Status::False, Status::True),
    };
    Some(match readiness {
        Readiness::NotYet => return None,
        Readiness::Ready(message) => Condition::new(kind, well, "PortsReady", message),
        Readiness::NotMeant(message) => Condition::new(kind, well, "OtherRepair", message),
        Readiness::Unknown(reason, message) => Condition::new(kind, Status::Unknown, reason, message),
        Readiness::Fault(fault) => {
            // A fault of unknown age counts as new.
            let age = fault.since.map_or(0, |since| now.saturating_sub(since));
            let status = if age >= delay.as_secs() {
                ill
            } else {
                Status::Unknown
            };
            Condition::new(kind, status, &fault.reason, &fault.message)
        }
    })
}

fn readiness(view: &View, context: &ConditionContext, aggregate: &Aggregate) -> Readiness {
    let node = &view.node;
    if let Some(message) = facts_stale(view, context) {
        return Readiness::Unknown("FactsStale", message);
    }
    let mut critical = view
        .verdict
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Critical);
    if let Some(worst) = critical.next() {
        return Readiness::Fault(Fault::of(worst, critical.count(), view));
    }
    if let Some(unread) = node.hcas.unread() {
        return Readiness::Unknown("FactsUnread", unread.to_string());
    }
    let mut sources = node.sources.iter();
    if sources.any(|(name, status)| name.starts_with("infiniband") && status.stale) {
        let message = "the driver or a device does not respond while RDMA devices are read";
        return Readiness::Unknown("FactsStale", message.into());
    }
    if aggregate.expect.profile == Profile::TcpOnly {
        return Readiness::Unknown("NotExpected", "the profile of this node is tcp-only".into());
    }
    if node.hcas().next().is_none() {
        // Not a fault: this may be a node without adapters, which no controller should repair.
        return Readiness::Unknown("NoDevices", "the node has no RDMA device".into());
    }
    let ports = match needed(view, &aggregate.expect.ports_up) {
        Ok(ports) => ports,
        Err(down) => return down,
    };
    if let Some(without) = ports.iter().find_map(|port| no_gid(port, view)) {
        return without;
    }
    if context.probe_interval.is_some() {
        let probed = |port: &&Port<'_>| {
            let mut patterns = aggregate.probed.iter();
            patterns.any(|pattern| pattern::matches(pattern, &port.hca.name))
        };
        let unproven = ports
            .iter()
            .filter(probed)
            .find_map(|port| not_proven(port, view, context));
        if let Some(unproven) = unproven {
            return unproven;
        }
    }
    let done = if context.probe_interval.is_some() {
        "a GID and passed the loopback probe"
    } else {
        "a GID; probes are disabled"
    };
    let has = if ports.len() == 1 { "has" } else { "have" };
    Readiness::Ready(format!("{} {has} {done}", count(ports.len(), "active port")))
}

/// The ports that must work: those that are expected, else every active one that is not lent to a pod or virtual machine.
fn needed<'a>(view: &'a View, expected: &[String]) -> Result<Vec<Port<'a>>, Readiness> {
    let mut needed: Vec<Port<'a>> = Vec::new();
    for name in expected {
        let named = |port: &Port<'_>| *name == port.hca.name || *name == port.to_string();
        let mut found = view.node.ports().filter(named).peekable();
        if found.peek().is_none() {
            return Err(Readiness::Fault(Fault {
                reason: "PortMissing".into(),
                message: format!("{name} is expected and does not exist"),
                since: None,
            }));
        }
        for port in found {
            match port.is_active() {
                Some(true) => needed.push(port),
                Some(false) => {
                    return Err(Readiness::Fault(Fault {
                        reason: "PortDown".into(),
                        message: format!("{port} is expected and not ACTIVE"),
                        since: since_of(&port, view),
                    }));
                }
                None => {
                    let message = format!("the state of {port} could not be read");
                    return Err(Readiness::Unknown("FactsUnread", message));
                }
            }
        }
    }
    if expected.is_empty() {
        // One that cannot be read may be ACTIVE.
        if let Some(message) = unread_of(&view.node, Domain::Link) {
            return Err(Readiness::Unknown("FactsUnread", message));
        }
        needed.extend(view.node.active_ports().filter(|port| !port.is_lent()));
    }
    if needed.is_empty() {
        let message = "no RDMA port is ACTIVE and none is expected to be";
        return Err(Readiness::Unknown("NoActivePort", message.into()));
    }
    Ok(needed)
}

/// Why a port cannot be addressed, if so. Which GIDs a port needs depends on the others (IPv6 only, a frontend, virtual functions that do
/// the work). The rule judges that, so only its finding is a fault.
fn no_gid(port: &Port<'_>, view: &View) -> Option<Readiness> {
    let subject = Subject::of_port(port);
    let is_missing = |finding: &&Finding| {
        finding.rule.id == GID_MISSING.id
            && finding.severity >= Severity::Warning
            && finding.subject == subject
    };
    if let Some(finding) = view.verdict.findings.iter().find(is_missing) {
        return Some(Readiness::Fault(Fault::of(finding, 0, view)));
    }
    match port.gids() {
        None => {
            let message = format!("the GIDs of {port} could not be read");
            Some(Readiness::Unknown("FactsUnread", message))
        }
        Some([]) => {
            let message = format!("{port} has no GID");
            Some(Readiness::Unknown("GidMissing", message))
        }
        Some(_) => None,
    }
}

/// Since when something has been wrong with a port.
fn since_of(port: &Port<'_>, view: &View) -> Option<u64> {
    let about = |finding: &&Finding| {
        let subject = &finding.subject;
        subject.device.as_ref() == Some(&port.hca.name) && subject.port.is_none_or(|of| of == port.number)
    };
    let findings = view.verdict.findings.iter().filter(about);
    findings
        .filter_map(|finding| finding.since(&view.node))
        .map(|since| since.time)
        .min()
}

/// Why the last probe of a port does not show that it works, if so.
fn not_proven(port: &Port<'_>, view: &View, context: &ConditionContext) -> Option<Readiness> {
    let node = &view.node;
    let of_port = |probe: &&Probe| {
        let from = &probe.report.path.from;
        from.device == port.hca.name && from.port == port.number
    };
    let Some(probe) = node.loopbacks().filter(of_port).max_by_key(|probe| probe.time) else {
        let booted = node
            .host
            .uptime
            .known()
            .is_none_or(|uptime| *uptime < JUST_BOOTED);
        if awaits_probes(view, context) && !booted {
            return Some(Readiness::NotYet);
        }
        let why = node.verbs.unread().map(|unread| format!(": {unread}"));
        let message = format!("{port} has not been probed yet{}", why.unwrap_or_default());
        return Some(Readiness::Unknown("NotProbed", message));
    };
    let oldest = 2 * context.probe_interval.unwrap_or_default().as_secs() + STALE_GRACE.as_secs();
    let age = context.now.saturating_sub(probe.time);
    if age > oldest {
        let message = format!("the last probe of {port} ended {age} s ago; expected at most {oldest} s");
        return Some(Readiness::Unknown("ProbesStale", message));
    }
    match &probe.report.failure {
        None => None,
        // It carries traffic instead.
        Some(_) if busy(probe) => None,
        Some(failure) if failure.is_not_probed() => {
            let message = format!("{port} could not be probed: {}", failure.kind());
            Some(Readiness::Unknown("NotProbed", message))
        }
        Some(failure) => Some(Readiness::Fault(Fault {
            reason: "ProbeFailed".into(),
            message: format!("the loopback probe of {port} failed: {}", failure.kind()),
            since: since_of(port, view),
        })),
    }
}

#[cfg(test)]
mod tests;
