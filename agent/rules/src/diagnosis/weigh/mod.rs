//! The facts that speak for and against each known cause, and what could not be seen.

mod dma;
mod hardware;
mod helper;
mod job;
mod limits;
mod network;

pub(super) use dma::{acs, iommu, peer_memory};
pub(super) use hardware::{host_load, pci_path, software};
pub(super) use helper::{is_ambiguous, shows};
pub(super) use job::{
    application, device_fault, device_not_given, gpu_only, modules, no_device, peer_failed, settings,
    stalled, userspace,
};
pub(super) use limits::{memlock, permission, resources};
pub(super) use network::{
    addressing, ethernet_only, fabric, gid_index, gid_missing, infiniband_only, link_quality, mtu, port_down,
};

use rdma_health_node::{Node, infiniband::Hca};

use super::symptom::{Symptom, SymptomKind};
use crate::{Evidence, domain::common::gpus, log::Log};

/// Points of a fact that shows a cause itself, fits it, or speaks against it.
const SHOWN: i32 = 4;
const FITS: i32 = 2;
const AGAINST: i32 = -4;

/// What is at hand.
pub(in crate::diagnosis) struct Case<'a> {
    pub(in crate::diagnosis) node: &'a Node,
    /// The symptoms that say something.
    pub(in crate::diagnosis) symptoms: Vec<&'a Symptom>,
    pub(in crate::diagnosis) log: Option<&'a Log>,
}

impl<'a> Case<'a> {
    /// The devices that symptoms name, where they are of this node; none where no symptom names one.
    fn named(&self) -> Vec<&'a Hca> {
        let named = |hca: &&Hca| {
            self.symptoms
                .iter()
                .any(|symptom| symptom.named.device.as_ref() == Some(&hca.name))
        };
        self.node.hcas().map(AsRef::as_ref).filter(named).collect()
    }

    /// The devices that matter: those named, else all.
    fn devices(&self) -> Vec<&'a Hca> {
        let named = self.named();
        if named.is_empty() {
            self.node.hcas().map(AsRef::as_ref).collect()
        } else {
            named
        }
    }

    fn seen(&self, kinds: &[SymptomKind]) -> impl Iterator<Item = &Symptom> {
        let symptoms: Vec<_> = self
            .symptoms
            .iter()
            .filter(|s| kinds.contains(&s.kind))
            .copied()
            .collect();
        symptoms.into_iter()
    }

    fn gpus(&self) -> usize {
        gpus(self.node).count()
    }

    /// The first line of the kernel's log with one of these words about an adapter.
    fn kernel_line(&self, words: &[&str]) -> Option<&str> {
        let lines = self.node.kernel_log.known()?;
        let line = lines
            .iter()
            .find(|line| words.iter().any(|word| line.contains(word)))?;
        Some(line)
    }
}

/// What speaks for and against one cause.
#[derive(Debug, Default)]
pub(in crate::diagnosis) struct Scales {
    pub(in crate::diagnosis) supports: Vec<Evidence>,
    pub(in crate::diagnosis) contradicts: Vec<Evidence>,
    pub(in crate::diagnosis) unseen: Vec<String>,
    pub(in crate::diagnosis) score: i32,
}

fn evidence(source: impl Into<String>, value: impl Into<String>) -> Evidence {
    Evidence {
        source: source.into(),
        value: value.into(),
    }
}

impl Scales {
    /// A fact that shows the cause itself.
    fn shows(&mut self, source: impl Into<String>, value: impl Into<String>) {
        self.score += SHOWN;
        self.supports.push(evidence(source, value));
    }

    /// A fact that fits.
    fn fits(&mut self, source: impl Into<String>, value: impl Into<String>) {
        self.score += FITS;
        self.supports.push(evidence(source, value));
    }

    /// A fact that speaks against it.
    fn against(&mut self, source: impl Into<String>, value: impl Into<String>) {
        self.score += AGAINST;
        self.contradicts.push(evidence(source, value));
    }

    /// What would decide and was not seen.
    fn unseen(&mut self, what: impl Into<String>) {
        self.unseen.push(what.into());
    }

    fn supported(&self) -> bool {
        !self.supports.is_empty()
    }
}

/// The first symptom, where all are the probe's own: what the probe wrote did not leave the adapter.
fn only_probed<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let first = case.symptoms.first().copied()?;
    let all = case.symptoms.iter().all(|symptom| symptom.line.is_none());
    all.then_some(first)
}

pub(in crate::diagnosis) fn nothing(_: &Case<'_>, _: &mut Scales) {}

/// Whether probes were made and none failed: what they measured works.
fn probes_passed(case: &Case<'_>) -> bool {
    let node = case.node;
    let measured = |probe: &rdma_health_node::node::Probe| probe.report.failure.is_none();
    let failed = |probe: &rdma_health_node::node::Probe| {
        probe
            .report
            .failure
            .as_ref()
            .is_some_and(|failure| !failure.is_not_probed())
    };
    node.probes.iter().any(|probe| measured(probe)) && !node.probes.iter().any(|probe| failed(probe))
}
