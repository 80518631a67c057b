//! IOMMU groups and their domain types, and the default that the kernel logged.
//!
//! Source: `/sys/kernel/iommu_groups/N/{type,devices}` (`Documentation/ABI/testing/sysfs-kernel-iommu_groups`).
//! `type` exists since Linux 5.11; `DMA-FQ` is told apart from `DMA` since 5.15.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    cmdline::Domain,
    fact::Fact,
    pci::is_address,
    root::{MAX_ENTRIES, Scope},
};

const GROUPS: &str = "/sys/kernel/iommu_groups";

/// What the running kernel does about DMA addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iommu {
    /// Groups by number. No groups at all: no IOMMU, or switched off.
    pub groups: Fact<BTreeMap<u32, Group>>,
    /// The IOMMU units that the kernel drives (`/sys/class/iommu`: `dmar0`, `ivhd0`, `smmu3.0x…`).
    pub units: Fact<Vec<String>>,
}

/// One IOMMU group: the smallest set of devices that can be isolated from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// How the group's DMA addresses are handled; absent before Linux 5.11.
    pub domain: Fact<DomainType>,
    /// PCI addresses (or platform device names) of its members.
    pub devices: Fact<Vec<String>>,
}

/// The `type` of an IOMMU group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DomainType {
    /// Passthrough: DMA addresses are physical.
    #[serde(rename = "identity")]
    Identity,
    /// Translated with strict invalidation. Not passthrough, whatever older guides say.
    #[serde(rename = "DMA")]
    Strict,
    /// Translated with lazy invalidation through a flush queue.
    #[serde(rename = "DMA-FQ")]
    Lazy,
    /// All DMA blocked.
    #[serde(rename = "blocked")]
    Blocked,
    /// Owned by a driver of its own, for example VFIO.
    #[serde(rename = "unmanaged")]
    Unmanaged,
    /// The kernel answers `unknown` or a word of a newer kernel.
    #[serde(untagged)]
    Other(String),
}

impl DomainType {
    /// The word that the kernel writes.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Identity => "identity",
            Self::Strict => "DMA",
            Self::Lazy => "DMA-FQ",
            Self::Blocked => "blocked",
            Self::Unmanaged => "unmanaged",
            Self::Other(word) => word,
        }
    }

    /// Whether DMA addresses are translated, strictly or lazily.
    pub fn is_translated(&self) -> bool {
        matches!(self, Self::Strict | Self::Lazy)
    }

    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "identity" => Self::Identity,
            "DMA" => Self::Strict,
            "DMA-FQ" => Self::Lazy,
            "blocked" => Self::Blocked,
            "unmanaged" => Self::Unmanaged,
            // One short word: anything else is no group type of any kernel.
            other if (1..=32).contains(&other.len()) && other.chars().all(|c| c.is_ascii_graphic()) => {
                Self::Other(other.into())
            }
            _ => return None,
        })
    }
}

impl Iommu {
    /// Reads every group.
    pub fn read(scope: &Scope<'_>) -> Self {
        let groups = scope.entries(GROUPS).map(|names| {
            let numbers = names.iter().filter_map(|name| name.parse::<u32>().ok());
            numbers
                .map(|number| (number, Group::read(scope, number)))
                .collect()
        });
        Self {
            groups: groups.map(|groups| with_members(scope, groups)),
            units: scope.entries("/sys/class/iommu"),
        }
    }

    /// The group that a PCI function belongs to.
    pub fn group_of(&self, address: &str) -> Option<(u32, &Group)> {
        let holds = |group: &Group| {
            group
                .devices
                .known()
                .is_some_and(|all| all.iter().any(|d| d == address))
        };
        self.groups
            .known()?
            .iter()
            .find(|(_, group)| holds(group))
            .map(|(number, group)| (*number, group))
    }
}

impl Group {
    fn read(scope: &Scope<'_>, number: u32) -> Self {
        let path = format!("{GROUPS}/{number}");
        Self {
            domain: scope.parsed(&format!("{path}/type"), "an IOMMU domain type", DomainType::parse),
            devices: scope.entries(&format!("{path}/devices")),
        }
    }
}

/// Fills in the members of groups whose `devices` is not there, as in trees that were copied without it: each function
/// also has a link to its group.
fn with_members(scope: &Scope<'_>, mut groups: BTreeMap<u32, Group>) -> BTreeMap<u32, Group> {
    const FUNCTIONS: &str = "/sys/bus/pci/devices";
    if groups.values().all(|group| group.devices != Fact::Absent) {
        return groups;
    }
    let functions = scope.entries(FUNCTIONS);
    for address in functions.known().into_iter().flatten() {
        let link = scope.link_name(&format!("{FUNCTIONS}/{address}/iommu_group"));
        let number = link.known().and_then(|name| name.parse::<u32>().ok());
        let Some(group) = number.and_then(|number| groups.get_mut(&number)) else {
            continue;
        };
        match &mut group.devices {
            Fact::Known(members) if !members.contains(address) => members.push(address.clone()),
            devices @ Fact::Absent => *devices = Fact::Known(vec![address.clone()]),
            _ => {}
        }
    }
    groups
}

/// The file that tells a group's domain type.
pub fn type_path(group: u32) -> String {
    format!("{GROUPS}/{group}/type")
}

/// The default domain type in the kernel's log: `iommu: Default domain type: Translated (set via kernel command
/// line)`. Only a default, and printed even where no IOMMU is active: groups decide.
pub fn logged_default(log: &str) -> Option<(Domain, String)> {
    log.lines().take(MAX_ENTRIES).find_map(|line| {
        let (_, rest) = line.split_once("iommu: Default domain type: ")?;
        let domain = match rest.split_whitespace().next()? {
            "Passthrough" => Domain::Passthrough,
            "Translated" => Domain::Translated,
            _ => return None,
        };
        Some((domain, rest.trim().to_owned()))
    })
}

/// A memory access that an IOMMU refused, in the kernel's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessFault<'a> {
    /// The PCI function that asked, with its domain (`0000:` where the line names none).
    pub address: String,
    /// The line.
    pub line: &'a str,
}

/// The faults in the kernel's log whose line names a PCI function: Intel's `DMAR: [DMA Read NO_PASID] Request device
/// [18:00.0] fault addr …` and AMD's `AMD-Vi: Event logged [IO_PAGE_FAULT device=18:00.0 …]`, also as
/// `mlx5_core 0000:18:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=…`.
pub fn faults(lines: &[String]) -> Vec<AccessFault<'_>> {
    let is_fault = |line: &str| {
        (line.contains("DMAR:") && line.contains("Request device"))
            || (line.contains("AMD-Vi:") && line.contains("IO_PAGE_FAULT"))
    };
    let address_in = |line: &str| {
        let words = line.split(|c: char| c.is_whitespace() || matches!(c, '[' | ']' | '=' | ','));
        words.map(|word| word.trim_end_matches(':')).find_map(|word| {
            let full = match word.matches(':').count() {
                1 => format!("0000:{word}"),
                _ => word.to_owned(),
            };
            is_address(&full).then_some(full)
        })
    };
    let faults = lines.iter().filter(|line| is_fault(line));
    let named = faults.filter_map(|line| {
        let address = address_in(line)?;
        Some(AccessFault { address, line })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_translation_is_not_taken_for_passthrough() {
        assert!(DomainType::parse("DMA").is_some_and(|domain| domain.is_translated()));
        assert!(DomainType::parse("DMA-FQ").is_some_and(|domain| domain.is_translated()));
        assert!(DomainType::parse("identity").is_some_and(|domain| !domain.is_translated()));
        assert_eq!(DomainType::parse(""), None);
        assert_eq!(DomainType::parse("two words"), None);
    }

    #[test]
    fn the_words_of_the_kernel_survive_json() {
        for word in ["identity", "DMA", "DMA-FQ", "blocked", "unmanaged", "unknown"] {
            let domain = DomainType::parse(word).unwrap();
            let json = serde_json::to_string(&domain).unwrap();
            assert_eq!(json, format!("\"{word}\""));
            assert_eq!(serde_json::from_str::<DomainType>(&json).unwrap(), domain);
        }
    }

    #[test]
    fn faults_name_the_function_that_asked() {
        let lines = [
            "DMAR: [DMA Read NO_PASID] Request device [18:00.0] fault addr 0xfe000000 [fault reason 0x06] PTE Read access is not set",
            "DMAR: [DMA Write] Request device [0000:3b:00.1] PASID ffffffff fault addr 0 [fault reason 05]",
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x000e address=0x0 flags=0x0070]",
            "mlx5_core 0000:c1:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021 address=0x1000 flags=0x0020]",
            "DMAR: DRHD: handling fault status reg 2",
            "DMAR: [DMA Read] Request device [nonsense] fault addr 0",
            "mlx5_core 0000:c1:00.0: firmware version: 28.41.1000",
        ]
        .map(str::to_owned);
        let addresses: Vec<_> = faults(&lines).into_iter().map(|fault| fault.address).collect();
        assert_eq!(
            addresses,
            ["0000:18:00.0", "0000:3b:00.1", "0000:41:00.0", "0000:c1:00.0"]
        );
    }

    #[test]
    fn the_logged_default_is_found_whatever_stands_before_it() {
        let log = "DMAR: IOMMU enabled\n[    0.3] iommu: Default domain type: Translated \n";
        assert_eq!(
            logged_default(log),
            Some((Domain::Translated, "Translated".into()))
        );
        let log = "6,1,2,-;iommu: Default domain type: Passthrough (set via kernel command line)";
        assert!(matches!(logged_default(log), Some((Domain::Passthrough, _))));
        assert_eq!(logged_default("iommu: Default domain type: "), None);
    }
}
