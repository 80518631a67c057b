//! Problems: the findings of a node, counted as people count faults.
//!
//! One fault often makes many findings: an IOMMU that translates is found on each of 17 functions, and the probes of eight ports
//! fail. A problem is what one alert, one notification and one line should be about: a cause, with the findings that it explains
//! best. What concerns single devices is one problem for each of them, unless most devices of the node have it.

mod traces;

use std::{cmp::Reverse, collections::BTreeSet};

use rdma_health_node::{
    Node,
    history::{Since, changes::Change},
};
use rdma_health_rules::{Domain, Finding, Severity, Subject, rule};

use crate::{Cause, Confidence, Diagnosis, cause, effect::Effects, observed};

/// The cause that stands for each device that is gone, although its rules are about modules.
const LOST: &str = "devices-missing";
/// The fewest devices of which most can be affected.
const FEWEST: usize = 3;
/// For how many seconds a device still counts as affected after its finding is resolved.
const RECENT: u64 = 15 * 60;

/// One fault, with the findings that show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem<'a> {
    /// Id of the cause, or of the rule if no known cause explains the findings.
    pub cause: &'static str,
    /// What is wrong, in one line.
    pub title: &'static str,
    /// What part of RDMA it concerns.
    pub domain: Domain,
    /// Confidence in the cause.
    pub confidence: Confidence,
    /// The highest severity of the findings.
    pub severity: Severity,
    /// The device, if it concerns one.
    pub device: Option<&'a str>,
    /// The port, if it concerns one.
    pub port: Option<u8>,
    /// The findings of warning and above, worst first.
    pub findings: Vec<&'a Finding>,
    /// What to do next.
    pub next_step: &'a str,
    /// Since when the first of the findings has been observed.
    pub since: Option<Since>,
}

/// The problems of a node, worst first, and then in the order of the causes.
pub fn problems<'a>(node: &Node, findings: &'a [Finding], diagnosis: &'a Diagnosis) -> Vec<Problem<'a>> {
    let grave = || {
        findings
            .iter()
            .filter(|finding| finding.severity > Severity::Info)
    };
    let effects = Effects::of(findings);
    // An effect belongs to the problem of what brings it about.
    let best: Vec<(usize, &Finding)> = grave()
        .filter_map(|finding| {
            let first = effects.reason(finding, findings).unwrap_or(finding);
            Some((best_cause(node, first, &diagnosis.causes)?, finding))
        })
        .collect();
    let mut problems = Vec::new();
    for (place, cause) in diagnosis.causes.iter().enumerate() {
        let mine: Vec<&Finding> = best
            .iter()
            .filter(|(of, _)| *of == place)
            .map(|(_, finding)| *finding)
            .collect();
        problems.extend(by_device(node, cause, mine));
    }
    let mut problems = traces::join(node, problems);
    problems.sort_by_key(|problem| Reverse(problem.severity));
    problems
}

/// The position of the first cause that explains a finding.
fn best_cause(node: &Node, finding: &Finding, causes: &[Cause]) -> Option<usize> {
    let kinds = observed::of_finding(finding, node);
    causes.iter().position(|cause| {
        let explains = cause.findings.contains(&finding.rule.id)
            || kinds.iter().any(|kind| cause.explains.contains(kind));
        cause.confidence > Confidence::Unlikely && explains
    })
}

/// The problems of one cause.
fn by_device<'a>(node: &Node, cause: &'a Cause, findings: Vec<&'a Finding>) -> Vec<Problem<'a>> {
    let Some(first) = findings.first() else {
        return Vec::new();
    };
    let domain = domain_of(cause.id).unwrap_or(first.domain);
    // A module is not a device.
    let device_of = |finding: &'a Finding| {
        let device = finding.subject.device.as_deref();
        device.filter(|device| !traces::is_module(node, device))
    };
    let devices: BTreeSet<Option<&str>> = findings.iter().map(|finding| device_of(finding)).collect();
    let all = node.hcas().filter(|hca| !hca.is_virtual()).count();
    let affected: BTreeSet<Option<String>> = devices
        .iter()
        .map(|device| device.map(str::to_owned))
        .chain(lately_affected(node, &findings).into_iter().map(Some))
        .collect();
    let are_most = affected.len() >= FEWEST && affected.len() * 2 > all;
    let all_have_one = !devices.contains(&None);
    let is_by_device = is_of_devices(domain) || cause.id == LOST || all_have_one && can_be_of_devices(domain);
    if !is_by_device || are_most {
        return vec![Problem::new(node, cause, domain, None, findings)];
    }
    let of = |device: Option<&'a str>| {
        let of_it = |finding: &&&'a Finding| device_of(finding) == device;
        let mine = findings.iter().filter(of_it).copied().collect();
        Problem::new(node, cause, domain, device, mine)
    };
    devices.into_iter().map(of).collect()
}

/// The devices that had findings of the same rules until a short time ago.
fn lately_affected(node: &Node, findings: &[&Finding]) -> BTreeSet<String> {
    let Some(history) = &node.history else {
        return BTreeSet::new();
    };
    let now = node.facts.time;
    let is_same_rule = |id: &str| findings.iter().any(|finding| finding.rule.id == id);
    let is_recent = |time: u64| now.saturating_sub(time) <= RECENT && time <= now;
    history
        .changes
        .events
        .iter()
        .filter(|event| {
            event.change == Change::Resolved && is_recent(event.time) && is_same_rule(&event.rule)
        })
        .filter_map(|event| Subject::named(&event.subject).device)
        .filter(|device| node.hcas().any(|hca| hca.name == *device))
        .collect()
}

/// The domain of a cause: that of the rule with its name, otherwise of most of its rules, and of the most fundamental one if that is undecided.
/// It does not depend on the findings of the moment. `None` for a cause without rules, whose problems have the domain of their findings.
pub fn domain_of(id: &str) -> Option<Domain> {
    match cause(id) {
        Some(known) => {
            let named = known.rules.iter().find(|rule| rule.id == id);
            let domains = known.rules.iter().map(|rule| rule.domain);
            // The last of the greatest, so that the first rule wins.
            let most = domains
                .clone()
                .rev()
                .max_by_key(|domain| domains.clone().filter(|other| other == domain).count());
            named.map(|rule| rule.domain).or(most)
        }
        None => rule(id).map(|rule| rule.domain),
    }
}

/// Whether faults of this domain are faults of single devices.
fn is_of_devices(domain: Domain) -> bool {
    match domain {
        Domain::Pci | Domain::Kernel | Domain::Link | Domain::Gids | Domain::Probe => true,
        Domain::Iommu
        | Domain::GpuDirect
        | Domain::Modules
        | Domain::Sriov
        | Domain::Network
        | Domain::Limits
        | Domain::Reading => false,
    }
}

/// Whether faults of this domain are those of single devices where each finding names one: the firmware of an adapter, its virtual functions.
fn can_be_of_devices(domain: Domain) -> bool {
    matches!(domain, Domain::Modules | Domain::Sriov | Domain::Network)
}

impl<'a> Problem<'a> {
    fn new(
        node: &Node,
        cause: &'a Cause,
        domain: Domain,
        device: Option<&'a str>,
        findings: Vec<&'a Finding>,
    ) -> Self {
        let ports: BTreeSet<u8> = findings
            .iter()
            .filter_map(|finding| finding.subject.port)
            .collect();
        let since = findings.iter().filter_map(|finding| finding.since(node));
        // Most fundamental: the remedy of the cause, unless the findings are those of another device.
        let mut own = findings
            .iter()
            .filter(|finding| cause.findings.first() == Some(&finding.rule.id));
        let remedy = own
            .next()
            .filter(|finding| device.is_some() && !finding.is_remedy_for_several_cases());
        Self {
            cause: cause.id,
            title: cause.title,
            domain,
            confidence: cause.confidence,
            severity: findings
                .iter()
                .map(|finding| finding.severity)
                .max()
                .unwrap_or(Severity::Info),
            device,
            port: (ports.len() == 1 && device.is_some())
                .then(|| ports.first().copied())
                .flatten(),
            next_step: remedy.map_or(&cause.next_step, |finding| &finding.remedy),
            since: since.min_by_key(|since| since.time),
            findings,
        }
    }

    /// Adds the findings of another problem of the same device.
    fn take(&mut self, other: Self) {
        if self.device.is_none() {
            (self.device, self.port) = (other.device, other.port);
        }
        self.severity = self.severity.max(other.severity);
        let since = self.since.into_iter().chain(other.since);
        self.since = since.min_by_key(|since| since.time);
        self.findings.extend(other.findings);
        self.findings.sort_by_key(|finding| Reverse(finding.severity));
    }

    /// What it is about: a port, a device or the node.
    pub fn subject(&self) -> String {
        match (self.device, self.port) {
            (Some(device), Some(port)) => format!("{device}:{port}"),
            (Some(device), None) => device.to_owned(),
            (None, _) => "node".to_owned(),
        }
    }
}
