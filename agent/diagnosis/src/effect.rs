//! Causes that are the effect of another one on the same devices: a port is down because its firmware failed.
//!
//! A finding about a state says what is wrong now, and is often more severe than the message that says why. Where a reason is known for
//! every device of such a finding, the reasons stand first.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_rules::{
    Domain, Finding, Rule, Severity,
    domain::{adapter_events, gids, link, lost, modules, rails, sriov},
};

use crate::outcome::Cause;

/// A state, and the findings on the same device that explain it.
struct Effect {
    /// The cause of the table that the state is.
    cause: &'static str,
    rule: &'static Rule,
    explained_by: fn(&Finding) -> bool,
}

static EFFECTS: &[Effect] = &[
    Effect {
        cause: "port-down",
        rule: &link::PORT_DOWN,
        explained_by: keeps_port_down,
    },
    // The driver of a function that left the bus finds its firmware dead.
    Effect {
        cause: "device-fault",
        rule: &adapter_events::ADAPTER_FAILED,
        explained_by: |finding| *finding.rule == lost::DEVICE_LOST,
    },
    // An adapter whose driver gave up on it has no RDMA device.
    Effect {
        cause: "devices-missing",
        rule: &modules::HCAS_MISSING,
        explained_by: is_not_started,
    },
    Effect {
        cause: "rdma-modules",
        rule: &modules::RDMA_MODULES_MISSING,
        explained_by: |finding| is_not_started(finding) || *finding.rule == adapter_events::ADAPTER_TIMEOUT,
    },
    Effect {
        cause: "no-subnet-manager",
        rule: &link::NO_SUBNET_MANAGER,
        explained_by: |finding| {
            *finding.rule == gids::GUID_INVALID || *finding.rule == rails::LINK_TYPE_DIFFERS
        },
    },
];

/// Whether a finding explains that a port of the same device is down: a fault that the kernel logged, a device that is gone, a link type that its
/// other end does not have, or a GUID of zero, with which no subnet manager configures a port.
fn keeps_port_down(finding: &Finding) -> bool {
    let rules = [
        &lost::DEVICE_LOST,
        &rails::LINK_TYPE_DIFFERS,
        &gids::GUID_INVALID,
        &sriov::VF_GUID_ZERO,
    ];
    finding.domain == Domain::Kernel || rules.contains(&finding.rule)
}

/// Whether a driver could not start its adapter.
fn is_not_started(finding: &Finding) -> bool {
    *finding.rule == adapter_events::ADAPTER_NOT_STARTED || *finding.rule == adapter_events::ADAPTER_FAILED
}

/// Which causes are effects of others, and how severe the effects of the others are.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    effects: BTreeMap<&'static str, &'static str>,
    reasons: BTreeMap<&'static str, Severity>,
}

impl Effects {
    /// Those among these findings.
    pub(crate) fn of(findings: &[Finding]) -> Self {
        let mut all = Self::default();
        for effect in EFFECTS {
            let of_effect = || {
                let severe = findings
                    .iter()
                    .filter(|finding| finding.severity > Severity::Info);
                severe.filter(|finding| finding.rule == effect.rule)
            };
            let devices: BTreeSet<&str> = of_effect()
                .filter_map(|finding| finding.subject.device.as_deref())
                .collect();
            let is_reason = |finding: &&Finding| {
                let device = finding.subject.device.as_deref();
                finding.severity > Severity::Info
                    && (effect.explained_by)(finding)
                    && device.is_some_and(|device| devices.contains(device))
            };
            let reasons: Vec<&Finding> = findings.iter().filter(is_reason).collect();
            let explained: BTreeSet<&str> = reasons
                .iter()
                .filter_map(|finding| finding.subject.device.as_deref())
                .collect();
            if devices.is_empty() || explained != devices {
                continue;
            }
            let Some(severity) = of_effect().map(|finding| finding.severity).max() else {
                continue;
            };
            all.effects.insert(effect.cause, effect.rule.id);
            for reason in reasons {
                let known = all.reasons.entry(reason.rule.id).or_insert(severity);
                *known = severity.max(*known);
            }
        }
        all
    }

    /// The finding that explains why there is this one, which is an effect.
    pub(crate) fn reason<'a>(&self, finding: &Finding, findings: &'a [Finding]) -> Option<&'a Finding> {
        let own = |effect: &&Effect| effect.rule == finding.rule && self.effects.contains_key(effect.cause);
        let effect = EFFECTS.iter().find(own)?;
        let explains = |reason: &&Finding| {
            reason.severity > Severity::Info
                && (effect.explained_by)(reason)
                && reason.subject.device == finding.subject.device
        };
        findings.iter().find(explains)
    }

    /// Whether a cause is the effect of another one.
    pub(crate) fn is_effect(&self, cause: &Cause) -> bool {
        let Some(own) = self.effects.get(cause.id) else {
            return false;
        };
        let is_reason = |rule: &&'static str| rule != own && self.reasons.contains_key(rule);
        !cause.findings.iter().any(is_reason)
    }

    /// The highest severity of what a cause brings about, if that is known.
    pub(crate) fn severity(&self, cause: &Cause) -> Option<Severity> {
        let of_rules = cause.findings.iter().filter_map(|rule| self.reasons.get(rule));
        of_rules.copied().max()
    }
}
