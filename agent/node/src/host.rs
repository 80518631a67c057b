//! The machine and its kernel.
//!
//! Source: `/proc/sys/kernel/{hostname,osrelease}`, `/proc/sys/kernel/random/boot_id`, `/proc/cmdline`,
//! `/proc/cpuinfo` and `/sys/class/dmi/id`.

use serde::{Deserialize, Serialize};

use crate::{
    cmdline::{self, IommuArguments},
    fact::{Fact, Unread},
    root::Scope,
};

/// The machine and its kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The node's own name for itself.
    pub hostname: Fact<String>,
    /// Kernel release (`6.1.0-37-amd64`).
    pub kernel: Fact<String>,
    /// Differs from boot to boot.
    pub boot_id: Fact<String>,
    /// The kernel command line, without values that could identify a user or hold a secret.
    pub cmdline: Fact<String>,
    /// What the command line asks of the IOMMU.
    pub iommu_arguments: Fact<IommuArguments>,
    /// Whether it is a virtual machine (the `hypervisor` flag of x86 processors); absent on other processors.
    pub virtual_machine: Fact<bool>,
}

impl Host {
    /// Reads the machine.
    pub fn read(scope: &Scope<'_>) -> Self {
        let cmdline = scope.required("/proc/cmdline");
        let hidden = |cmdline: &String| cmdline::without_secrets(cmdline);
        let virtual_machine = scope.optional_file("/proc/cpuinfo").and_then(|text| {
            let flags = text
                .lines()
                .find_map(|line| line.strip_prefix("flags")?.split_once(':'));
            Fact::from(flags.map(|(_, flags)| flags.split_whitespace().any(|flag| flag == "hypervisor")))
        });
        Self {
            hostname: scope.optional("/proc/sys/kernel/hostname"),
            kernel: scope.required("/proc/sys/kernel/osrelease"),
            boot_id: scope.optional("/proc/sys/kernel/random/boot_id"),
            iommu_arguments: cmdline.as_ref().map(|cmdline| IommuArguments::parse(cmdline)),
            cmdline: cmdline.as_ref().map(hidden),
            virtual_machine,
        }
    }

    /// A host none of whose facts could be read.
    pub fn unread(why: &Unread) -> Self {
        Self {
            hostname: why.clone().into(),
            kernel: why.clone().into(),
            boot_id: why.clone().into(),
            cmdline: why.clone().into(),
            iommu_arguments: why.clone().into(),
            virtual_machine: why.clone().into(),
        }
    }
}
