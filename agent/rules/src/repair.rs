//! What may repair the fault that a rule found, for controllers that act on the reason of a condition.

use crate::Rule;

/// The most that automation can do about a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// The device, the driver or the firmware is in a state that a reboot clears. If the finding comes back, a person must look.
    Reboot,
    /// The node has a defect that a reboot does not clear. Another node in its place has it only if all of them do.
    Replace,
    /// The configuration of the host is wrong, and every node made from it is alike: neither helps.
    Configuration,
    /// The fault is, or may be, in a cable, a switch or the fabric, which another node would meet again.
    Fabric,
    /// It depends on the case.
    Unclear,
}

impl Repair {
    /// Every answer.
    pub const ALL: [Self; 5] = [
        Self::Reboot,
        Self::Replace,
        Self::Configuration,
        Self::Fabric,
        Self::Unclear,
    ];

    /// Its name in documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reboot => "reboot, once",
            Self::Replace => "replace the node",
            Self::Configuration => "neither: change the configuration",
            Self::Fabric => "neither: cable, switch or fabric",
            Self::Unclear => "a person must decide",
        }
    }
}

/// Rules and what may repair their findings. A rule that is not listed is [`Repair::Unclear`].
const REPAIRS: &[(&str, Repair)] = &[
    ("iommu-group-translated", Repair::Configuration),
    ("iommu-cmdline-mismatch", Repair::Configuration),
    ("iommu-regressed", Repair::Configuration),
    ("iommu-memory-encryption", Repair::Configuration),
    ("acs-redirect", Repair::Configuration),
    ("pci-payload-mismatch", Repair::Configuration),
    ("gpu-aperture-small", Repair::Configuration),
    ("dma-bounce-full", Repair::Configuration),
    ("device-access-denied", Repair::Configuration),
    ("pci-max-read-request", Repair::Configuration),
    // A link that trained at half of its width often trains again, and a bad slot does not.
    ("pci-link-degraded", Repair::Reboot),
    ("pci-aer-errors", Repair::Replace),
    ("pci-fault-logged", Repair::Replace),
    ("pci-slot-power", Repair::Replace),
    ("gpu-without-driver", Repair::Configuration),
    // A reset of the GPU is enough for most, and a restart resets it.
    ("gpu-failed", Repair::Reboot),
    ("peer-memory-missing", Repair::Configuration),
    ("peer-memory-install-order", Repair::Configuration),
    ("nv-peer-mem-legacy", Repair::Configuration),
    ("rdma-modules-missing", Repair::Configuration),
    ("softroce-in-use", Repair::Configuration),
    ("driver-unexpected", Repair::Configuration),
    ("firmware-mixed", Repair::Configuration),
    // Firmware that was stored is used after the next reset.
    ("firmware-pending", Repair::Reboot),
    ("health-reporter-error", Repair::Reboot),
    ("kernel-module-refused", Repair::Configuration),
    ("kernel-module-crashed", Repair::Reboot),
    ("kernel-module-hung", Repair::Reboot),
    ("adapter-failed", Repair::Reboot),
    ("adapter-timeout", Repair::Reboot),
    ("adapter-not-started", Repair::Reboot),
    ("device-lost", Repair::Reboot),
    // What is expected may come from the configuration, and a wrong number there would have every node replaced.
    ("hcas-missing", Repair::Unclear),
    ("port-down", Repair::Fabric),
    ("port-flapping", Repair::Fabric),
    ("port-cable-unplugged", Repair::Fabric),
    ("port-module-fault", Repair::Fabric),
    ("rate-low", Repair::Fabric),
    ("width-degraded", Repair::Fabric),
    ("counter-errors", Repair::Fabric),
    ("no-subnet-manager", Repair::Fabric),
    ("partition-key-missing", Repair::Fabric),
    ("link-type-differs", Repair::Configuration),
    ("mtu-low", Repair::Configuration),
    ("gid-missing", Repair::Configuration),
    ("gid-index-differs", Repair::Configuration),
    ("rail-addresses", Repair::Configuration),
    ("same-subnet-arp", Repair::Configuration),
    ("roce-flow-control", Repair::Configuration),
    ("pfc-unreachable", Repair::Configuration),
    ("neighbour-table-full", Repair::Configuration),
    // A reboot creates it again where /dev is a devtmpfs, which is nearly everywhere.
    ("uverbs-node-missing", Repair::Reboot),
    ("memlock-low", Repair::Configuration),
    ("registration-limit", Repair::Configuration),
    ("vfs-missing", Repair::Configuration),
    ("vf-without-driver", Repair::Configuration),
    ("vf-guid-zero", Repair::Configuration),
    ("vf-mac-zero", Repair::Configuration),
    ("vf-trust", Repair::Configuration),
    ("bond-degraded", Repair::Fabric),
    ("gpu-without-local-nic", Repair::Configuration),
    ("pci-below-port-rate", Repair::Configuration),
];

impl Rule {
    /// What may repair its findings.
    pub fn repair(&self) -> Repair {
        let found = REPAIRS.iter().find(|(id, _)| *id == self.id);
        found.map_or(Repair::Unclear, |(_, repair)| *repair)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::CATALOGUE;

    #[test]
    fn the_table_names_rules_that_exist_and_each_once() {
        let rules: BTreeSet<_> = CATALOGUE.iter().map(|rule| rule.id).collect();
        let listed: BTreeSet<_> = REPAIRS.iter().map(|(id, _)| *id).collect();
        assert_eq!(listed.len(), REPAIRS.len());
        let unknown: Vec<_> = listed.difference(&rules).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
