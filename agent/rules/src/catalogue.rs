//! The one list of rules.

use rdma_health_node::Node;
use serde::Serialize;

use crate::{
    Expectations, Finding, Remedy, Severity,
    domain::{
        gids, gpudirect, iommu, iommu_events, limits, link, measured, modules, network, pci_link, pci_path,
        probe, rate, reading, sriov, trend,
    },
};

/// What part of RDMA a rule concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// How DMA addresses are handled.
    Iommu,
    /// PCIe links and the way between GPUs and NICs.
    Pci,
    /// The path between GPU memory and NICs.
    GpuDirect,
    /// Kernel modules, firmware and which RDMA devices there are.
    Modules,
    /// RDMA devices, ports and their links.
    Link,
    /// Addresses of RDMA ports.
    Gids,
    /// Virtual functions.
    Sriov,
    /// The host's network below RoCE.
    Network,
    /// Limits of processes.
    Limits,
    /// What active measurements say.
    Probe,
    /// What could not be read.
    Reading,
}

impl Domain {
    /// Every domain, in the order of the catalogue.
    pub const ALL: [Self; 11] = [
        Self::Iommu,
        Self::Pci,
        Self::GpuDirect,
        Self::Modules,
        Self::Link,
        Self::Gids,
        Self::Sriov,
        Self::Network,
        Self::Limits,
        Self::Probe,
        Self::Reading,
    ];

    /// Its name in messages, labels and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Iommu => "iommu",
            Self::Pci => "pci",
            Self::GpuDirect => "gpudirect",
            Self::Modules => "modules",
            Self::Link => "link",
            Self::Gids => "gids",
            Self::Sriov => "sriov",
            Self::Network => "network",
            Self::Limits => "limits",
            Self::Probe => "probe",
            Self::Reading => "reading",
        }
    }
}

/// One rule.
#[derive(Debug, Serialize)]
pub struct Rule {
    /// The one name that a user meets everywhere: `iommu-group-translated`.
    pub id: &'static str,
    /// What part of RDMA it concerns.
    pub domain: Domain,
    /// How bad it is unless the node's purpose or other evidence says otherwise.
    pub severity: Severity,
    /// What it finds, in one line.
    pub title: &'static str,
    /// Why that matters and when the severity differs.
    pub explanation: &'static str,
    /// What to do.
    pub remedy: Remedy,
    /// When it would be a false alarm, and what the rule does about it.
    pub false_alarms: &'static str,
    /// The judgement.
    #[serde(skip)]
    pub(crate) judge: fn(&Node, &Expectations) -> Vec<Finding>,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Rule {}

impl Rule {
    /// The id as a Kubernetes condition's reason: `IommuGroupTranslated`.
    pub fn reason(&self) -> String {
        let words = self.id.split('-').map(|word| {
            let mut letters = word.chars();
            letters
                .next()
                .into_iter()
                .flat_map(char::to_uppercase)
                .chain(letters)
                .collect::<String>()
        });
        words.collect()
    }
}

/// Every rule.
pub static CATALOGUE: &[&Rule] = &[
    &iommu::GROUP_TRANSLATED,
    &iommu::CMDLINE_MISMATCH,
    &iommu_events::MEMORY_ENCRYPTION,
    &iommu_events::FAULTS,
    &iommu_events::REGRESSED,
    &pci_path::ACS_REDIRECT,
    &pci_path::GPU_WITHOUT_LOCAL_NIC,
    &pci_link::LINK_DEGRADED,
    &pci_link::AER_ERRORS,
    &pci_link::MAX_READ_REQUEST,
    &gpudirect::PEER_MEMORY_MISSING,
    &gpudirect::PEER_MEMORY_INSTALL_ORDER,
    &gpudirect::NV_PEER_MEM_LEGACY,
    &modules::HCAS_MISSING,
    &modules::RDMA_MODULES_MISSING,
    &modules::DRIVER_UNEXPECTED,
    &modules::FIRMWARE_MIXED,
    &modules::SOFTROCE_IN_USE,
    &link::PORT_DOWN,
    &link::NO_SUBNET_MANAGER,
    &trend::PORT_FLAPPING,
    &trend::COUNTER_ERRORS,
    &rate::RATE_LOW,
    &rate::WIDTH_DEGRADED,
    &rate::MTU_LOW,
    &gids::GID_MISSING,
    &gids::GID_INDEX_DIFFERS,
    &gids::GUID_INVALID,
    &sriov::VFS_MISSING,
    &sriov::VF_WITHOUT_DRIVER,
    &sriov::VF_GUID_ZERO,
    &sriov::VF_MAC_ZERO,
    &sriov::VF_TRUST,
    &network::SAME_SUBNET_ARP,
    &network::ROCE_FLOW_CONTROL,
    &limits::MEMLOCK_LOW,
    &probe::FAILED,
    &measured::BANDWIDTH_LOW,
    &measured::LATENCY_HIGH,
    &reading::FACTS_UNREADABLE,
    &reading::HELPER_UNHEALTHY,
];

/// The rule with this id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    CATALOGUE.iter().find(|rule| rule.id == id).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_kebab_case_and_every_text_is_there() {
        let ids: BTreeSet<_> = CATALOGUE.iter().map(|rule| rule.id).collect();
        assert_eq!(ids.len(), CATALOGUE.len());
        for rule in CATALOGUE {
            assert!(
                rule.id
                    .split('-')
                    .all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase())),
                "{}",
                rule.id
            );
            for text in [rule.title, rule.explanation, rule.remedy.any, rule.false_alarms] {
                assert!(!text.trim().is_empty(), "{}", rule.id);
            }
        }
    }

    #[test]
    fn a_reason_is_the_id_in_camel_case() {
        assert_eq!(iommu::GROUP_TRANSLATED.reason(), "IommuGroupTranslated");
    }
}
