//! The types of conditions.

use std::{fmt, sync::Arc};

use rdma_health_config::{Alias, Meaning};
use rdma_health_rules::{Domain, Repair, Rule};

use super::condition::Status;

/// The aggregate condition: whether RDMA can be used on the node.
pub(crate) const READY: &str = "rdma-health.io/RDMAReady";

/// The type of one of the agent's conditions, abnormal-true. Domains whose faults the same people fix in the same way share
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConditionKind {
    /// The IOMMU mode.
    Iommu,
    /// Devices, drivers and virtual functions.
    Device,
    /// The path between GPU memory and NICs.
    GpuDirect,
    /// Ports and their links.
    Link,
    /// Addresses and network settings of ports.
    Network,
    /// Limits of processes.
    Limits,
    /// Results of probes.
    Probe,
    /// Facts that could not be read.
    Reading,
}

impl ConditionKind {
    /// Every type of condition that the agent writes.
    pub(crate) const ALL: [Self; 8] = [
        Self::Iommu,
        Self::Device,
        Self::GpuDirect,
        Self::Link,
        Self::Network,
        Self::Limits,
        Self::Probe,
        Self::Reading,
    ];

    /// Its name in the API.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Iommu => "RDMAIommuProblem",
            Self::Device => "RDMADeviceProblem",
            Self::GpuDirect => "GPUDirectProblem",
            Self::Link => "RDMALinkProblem",
            Self::Network => "RDMANetworkProblem",
            Self::Limits => "RDMALimitsProblem",
            Self::Probe => "RDMAProbeProblem",
            Self::Reading => "RDMAReadingProblem",
        }
    }
}

impl fmt::Display for ConditionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ConditionKind {
    /// The condition for the findings of a rule. A cable that the kernel log reports is repaired by the same people as one that a port
    /// reports.
    pub(crate) fn of(rule: &Rule) -> Self {
        match rule.repair() {
            Repair::Fabric => Self::Link,
            _ => rule.domain.into(),
        }
    }
}

/// The condition for a domain's findings, and for the facts that it needs.
impl From<Domain> for ConditionKind {
    fn from(domain: Domain) -> Self {
        match domain {
            Domain::Iommu => Self::Iommu,
            Domain::Pci | Domain::Modules | Domain::Kernel | Domain::Sriov => Self::Device,
            Domain::GpuDirect => Self::GpuDirect,
            Domain::Link => Self::Link,
            Domain::Gids | Domain::Network => Self::Network,
            Domain::Limits => Self::Limits,
            Domain::Probe => Self::Probe,
            Domain::Reading => Self::Reading,
        }
    }
}

/// The type of a condition that the agent writes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConditionType {
    /// Problems of one kind.
    Problem(ConditionKind),
    /// [`READY`].
    Ready,
    /// The same content under a configured name, in this shape.
    Alias(Arc<str>, Shape),
}

/// What a condition's status `True` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// All is well.
    Ready,
    /// There is a problem.
    Problem,
}

impl From<Meaning> for Shape {
    fn from(meaning: Meaning) -> Self {
        match meaning {
            Meaning::Ready => Self::Ready,
            Meaning::Problem => Self::Problem,
        }
    }
}

impl From<ConditionKind> for ConditionType {
    fn from(kind: ConditionKind) -> Self {
        Self::Problem(kind)
    }
}

impl From<&Alias> for ConditionType {
    fn from(alias: &Alias) -> Self {
        Self::Alias(alias.r#type.as_str().into(), alias.meaning.into())
    }
}

impl PartialEq<ConditionKind> for ConditionType {
    fn eq(&self, kind: &ConditionKind) -> bool {
        matches!(self, Self::Problem(own) if own == kind)
    }
}

impl ConditionType {
    /// Every type that the agent writes with these aliases.
    pub(crate) fn all<'a>(aliases: impl IntoIterator<Item = &'a Alias>) -> Vec<Self> {
        let own = ConditionKind::ALL.into_iter().map(Self::Problem);
        let aliases = aliases.into_iter().map(Self::from);
        own.chain([Self::Ready]).chain(aliases).collect()
    }

    /// Its name in the API.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Problem(kind) => kind.name(),
            Self::Ready => READY,
            Self::Alias(name, _) => name,
        }
    }

    /// What `True` means.
    pub(crate) fn shape(&self) -> Shape {
        match self {
            Self::Problem(_) => Shape::Problem,
            Self::Ready => Shape::Ready,
            Self::Alias(_, shape) => *shape,
        }
    }

    /// How bad a status is: 0 if all is well, 1 if that is not known, 2 if there is a problem.
    pub(crate) fn badness(&self, status: Status) -> u8 {
        match (status, self.shape()) {
            (Status::Unknown, _) => 1,
            (Status::True, Shape::Ready) | (Status::False, Shape::Problem) => 0,
            (Status::True, Shape::Problem) | (Status::False, Shape::Ready) => 2,
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
