//! The one list of rules.

use std::time::Duration;

use rdma_health_node::Node;
use serde::Serialize;

use crate::{
    Expectations, Policy, Remedy, Severity, Writer,
    domain::{
        access, adapter_events, bond, bounce, device_node, devlink, efa, gids, gpu_aperture, gpu_driver,
        gpu_events, gpudirect, iommu, iommu_events, kernel_modules, limits, link, lost, measured, modules,
        neighbour_table, network, objects, optics, pci_link, pci_path, pci_payload, pci_rate, pci_stall,
        pods, priorities, probe, rails, rate, reading, signal, sriov, trend,
    },
    draft::Draft,
};

/// What part of RDMA a rule concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    /// How DMA addresses are handled.
    Iommu,
    /// PCIe links and the path between GPUs and NICs.
    Pci,
    /// The path between GPU memory and NICs.
    GpuDirect,
    /// Kernel modules, drivers, firmware and missing RDMA devices.
    Modules,
    /// What the kernel logged about adapters.
    Kernel,
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
    /// The results of probes.
    Probe,
    /// What could not be read.
    Reading,
}

impl Domain {
    /// Every domain, in the order of the catalogue.
    pub const ALL: [Self; 12] = [
        Self::Iommu,
        Self::Pci,
        Self::GpuDirect,
        Self::Modules,
        Self::Kernel,
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
            Self::Kernel => "kernel",
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

impl Domain {
    /// How long a problem of this domain must last before it is worth an alert.
    pub fn alert_after(self, severity: Severity) -> Duration {
        let minutes = match (self, severity) {
            // A port is probed every ten minutes: a second measurement confirms the first. A node that cannot be read may be
            // busy, or a driver may be loading.
            (Self::Probe, Severity::Info | Severity::Warning) | (Self::Reading, _) => 15,
            (_, Severity::Info | Severity::Warning) => 5,
            (_, Severity::Critical) => 3,
        };
        Duration::from_secs(minutes * 60)
    }
}

/// One rule.
#[derive(Debug, Serialize)]
pub struct Rule {
    /// The one name that users see everywhere: `iommu-group-translated`.
    pub id: &'static str,
    /// What part of RDMA it concerns.
    pub domain: Domain,
    /// How severe its findings are.
    #[serde(flatten)]
    pub policy: Policy,
    /// What it finds, in one line.
    pub title: &'static str,
    /// Why that matters.
    pub explanation: &'static str,
    /// What to do.
    pub remedy: Remedy,
    /// What could be a false alarm, and how the rule avoids it.
    pub false_alarms: &'static str,
    /// Who can write what it reads.
    pub inputs: &'static [Writer],
    /// The judgement.
    #[serde(skip)]
    pub(crate) judge: fn(&Node, &Expectations) -> Vec<Draft>,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Rule {}

impl Rule {
    /// How severe its findings are with profile `auto` where no exception of its policy applies.
    pub fn severity(&self) -> Severity {
        // Every rule reports something with this profile; a test of the catalogue asserts it.
        self.policy.usual.auto.unwrap_or(Severity::Info)
    }

    /// Who can write what it reads, in words.
    pub fn written_by(&self) -> String {
        let words: Vec<_> = self.inputs.iter().map(|writer| writer.words()).collect();
        words.join(", ")
    }

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
    // Before the state that it explains: conditions and Events name the first.
    &iommu_events::REGRESSED,
    &iommu::GROUP_TRANSLATED,
    &iommu::CMDLINE_MISMATCH,
    &iommu_events::MEMORY_ENCRYPTION,
    &iommu_events::FAULTS,
    &pci_path::ACS_REDIRECT,
    &pci_path::GPU_WITHOUT_LOCAL_NIC,
    &pci_link::LINK_DEGRADED,
    &pci_rate::PCI_BELOW_PORT_RATE,
    &pci_stall::PCI_STALLED,
    &pci_link::AER_ERRORS,
    &pci_payload::PAYLOAD_MISMATCH,
    &pci_link::MAX_READ_REQUEST,
    &gpu_driver::GPU_WITHOUT_DRIVER,
    &gpu_aperture::APERTURE_SMALL,
    &gpudirect::PEER_MEMORY_MISSING,
    &gpudirect::PEER_MEMORY_INSTALL_ORDER,
    &gpudirect::NV_PEER_MEM_LEGACY,
    &gpu_events::GPU_FAILED,
    &gpu_events::GPU_ERRORS,
    &lost::DEVICE_LOST,
    &modules::HCAS_MISSING,
    &modules::RDMA_MODULES_MISSING,
    &kernel_modules::MODULE_REFUSED,
    &device_node::UVERBS_NODE_MISSING,
    &modules::DRIVER_UNEXPECTED,
    &modules::FIRMWARE_MIXED,
    &modules::SOFTROCE_IN_USE,
    &devlink::HEALTH_REPORTER_ERROR,
    &devlink::FIRMWARE_PENDING,
    &kernel_modules::MODULE_CRASHED,
    &adapter_events::ADAPTER_FAILED,
    &adapter_events::ADAPTER_TIMEOUT,
    &kernel_modules::MODULE_HUNG,
    &adapter_events::ADAPTER_NOT_STARTED,
    &adapter_events::PCI_FAULT,
    &bounce::BOUNCE_FULL,
    &adapter_events::MODULE_FAULT,
    &adapter_events::CABLE_UNPLUGGED,
    &adapter_events::SLOT_POWER,
    &adapter_events::DRIVER_ERRORS,
    &link::PORT_DOWN,
    &link::NO_SUBNET_MANAGER,
    &pods::VF_PORT_DOWN,
    &rails::LINK_TYPE_DIFFERS,
    &rails::PARTITION_KEY_MISSING,
    &bond::BOND_DEGRADED,
    &trend::PORT_FLAPPING,
    &trend::COUNTER_ERRORS,
    &signal::BIT_ERRORS_HIGH,
    &signal::PAUSE_STORM,
    &efa::EFA_REMOTE_IMPAIRED,
    &optics::MODULE_HOT,
    &optics::MODULE_LIGHT_LOW,
    &rate::RATE_LOW,
    &rate::WIDTH_DEGRADED,
    &rate::MTU_LOW,
    &gids::GID_MISSING,
    &gids::GID_INDEX_DIFFERS,
    &gids::GUID_INVALID,
    &rails::RAIL_ADDRESSES,
    &sriov::VFS_MISSING,
    &sriov::VF_WITHOUT_DRIVER,
    &sriov::VF_GUID_ZERO,
    &sriov::VF_MAC_ZERO,
    &sriov::VF_TRUST,
    &network::SAME_SUBNET_ARP,
    &network::ROCE_FLOW_CONTROL,
    &priorities::PFC_UNREACHABLE,
    &neighbour_table::NEIGHBOUR_TABLE_FULL,
    &limits::MEMLOCK_LOW,
    &objects::REGISTRATION_LIMIT,
    &access::ACCESS_DENIED,
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

/// The rule whose reason in a Kubernetes condition this is: `PortDown`.
pub fn rule_with_reason(reason: &str) -> Option<&'static Rule> {
    CATALOGUE.iter().find(|rule| rule.reason() == reason).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Profile;

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
    fn a_remedy_with_several_parts_starts_with_whole_sentences() {
        for rule in CATALOGUE.iter().filter(|rule| rule.remedy.parts().count() > 1) {
            assert!(rule.remedy.any.ends_with('.'), "{}", rule.id);
        }
    }

    #[test]
    fn every_rule_reports_something_with_profile_auto() {
        for rule in CATALOGUE {
            assert!(rule.policy.usual.auto.is_some(), "{}", rule.id);
        }
    }

    #[test]
    fn no_tenant_can_write_what_makes_a_finding_critical() {
        for rule in CATALOGUE {
            assert!(!rule.inputs.is_empty(), "{}", rule.id);
            let exceptions = rule
                .policy
                .exceptions
                .iter()
                .map(|exception| exception.severities);
            let mut severities = exceptions.chain([rule.policy.usual]);
            let is_critical = severities.any(|severities| {
                let mut all = Profile::ALL.iter();
                all.any(|profile| severities.with(*profile) == Some(Severity::Critical))
            });
            let tenant = rule.inputs.iter().find(|writer| writer.is_tenant());
            assert!(!is_critical || tenant.is_none(), "{}: {tenant:?}", rule.id);
        }
    }

    #[test]
    fn a_reason_is_the_id_in_camel_case() {
        assert_eq!(iommu::GROUP_TRANSLATED.reason(), "IommuGroupTranslated");
    }
}
