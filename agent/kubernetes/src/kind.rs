//! The types of conditions.

use std::fmt;

use rdma_health_rules::Domain;

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
    pub(crate) fn name(self) -> &'static str {
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

/// The condition for a domain's findings.
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
