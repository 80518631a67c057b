//! The machine and its kernel.
//!
//! Source: `/proc/sys/kernel/{hostname,osrelease}`, `/proc/sys/kernel/random/boot_id`, `/proc/cmdline`,
//! `/proc/cpuinfo` and `/proc/uptime`.

use serde::{Deserialize, Serialize};

use crate::{
    cmdline::{self, IommuArguments},
    fact::{Fact, Unread},
    root::Scope,
    source::{Known, Source},
};

/// The machine and its kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The host name of the node.
    pub hostname: Fact<String>,
    /// Kernel release (`6.1.0-37-amd64`).
    pub kernel: Fact<String>,
    /// The id of the boot.
    pub boot_id: Fact<String>,
    /// The kernel command line, without values that could identify a user or contain a secret.
    pub cmdline: Fact<String>,
    /// The IOMMU arguments of the command line.
    pub iommu_arguments: Fact<IommuArguments>,
    /// Whether it is a virtual machine (the `hypervisor` flag of x86 processors); absent on other processors.
    pub virtual_machine: Fact<bool>,
    /// The CPU flags for memory encryption: [`ENCRYPTION_FLAGS`].
    #[serde(default)]
    pub encryption_flags: Fact<Vec<String>>,
    /// Seconds since boot.
    #[serde(default)]
    pub uptime: Fact<u64>,
}

/// Flags in `/proc/cpuinfo` of CPUs that can encrypt memory (`sme`, `sev*`: AMD) or of an encrypted guest (`tdx_guest`:
/// Intel). They show the capability of the CPU, not whether it is enabled.
pub const ENCRYPTION_FLAGS: [&str; 5] = ["sme", "sev", "sev_es", "sev_snp", "tdx_guest"];

impl Source for Host {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
        let cmdline = scope.required("/proc/cmdline");
        let hidden = |cmdline: &String| cmdline::without_secrets(cmdline);
        // Other CPUs do not have this line.
        let flags: Fact<Vec<String>> = scope.optional_file("/proc/cpuinfo").and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("flags")?.split_once(':'));
            Fact::from(line.map(|(_, flags)| flags.split_whitespace().map(str::to_owned).collect()))
        });
        Self {
            hostname: scope.optional("/proc/sys/kernel/hostname"),
            kernel: scope.required("/proc/sys/kernel/osrelease"),
            boot_id: scope.optional("/proc/sys/kernel/random/boot_id"),
            iommu_arguments: cmdline.as_ref().map(|cmdline| IommuArguments::parse(cmdline)),
            cmdline: cmdline.as_ref().map(hidden),
            virtual_machine: flags
                .as_ref()
                .map(|flags| flags.iter().any(|flag| flag == "hypervisor")),
            encryption_flags: flags.map(|flags| {
                let known = |flag: &String| ENCRYPTION_FLAGS.contains(&flag.as_str());
                flags.into_iter().filter(known).collect()
            }),
            // `seconds.hundredths idle`; only whole seconds matter.
            uptime: scope.parsed("/proc/uptime", "seconds since boot", |text| {
                text.split(['.', ' ']).next()?.parse().ok()
            }),
        }
    }

    fn unread(why: &Unread) -> Self {
        Self {
            hostname: why.clone().into(),
            kernel: why.clone().into(),
            boot_id: why.clone().into(),
            cmdline: why.clone().into(),
            iommu_arguments: why.clone().into(),
            virtual_machine: why.clone().into(),
            encryption_flags: why.clone().into(),
            uptime: why.clone().into(),
        }
    }
}
