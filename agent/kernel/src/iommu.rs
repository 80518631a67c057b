//! IOMMU groups and their domain types, and the default domain type in the kernel log.
//!
//! Source: `/sys/kernel/iommu_groups/N/{type,devices}` (`Documentation/ABI/testing/sysfs-kernel-iommu_groups`).
//! `type` exists since Linux 4.19 (some distributions have it in older kernels); `DMA-FQ` differs from `DMA` since 5.15.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    cmdline::Domain,
    fact::{Fact, Unread},
    root::{MAX_ENTRIES, Scope},
    source::{Known, Source},
};

const GROUPS: &str = "/sys/kernel/iommu_groups";

/// The IOMMU of the running kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iommu {
    /// Groups by number; empty without an IOMMU, or if it is disabled.
    pub groups: Fact<BTreeMap<u32, Group>>,
    /// The IOMMU units that the kernel drives (`/sys/class/iommu`: `dmar0`, `ivhd0`, `smmu3.0x…`).
    pub units: Fact<Vec<String>>,
}

/// One IOMMU group: the smallest set of devices that can be isolated from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The domain type of the group; absent before Linux 4.19.
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
    /// Translated with strict invalidation. Not passthrough, although older guides say so.
    #[serde(rename = "DMA")]
    Strict,
    /// Translated with lazy invalidation through a flush queue.
    #[serde(rename = "DMA-FQ")]
    Lazy,
    /// All DMA is blocked.
    #[serde(rename = "blocked")]
    Blocked,
    /// Managed by a driver, for example VFIO.
    #[serde(rename = "unmanaged")]
    Unmanaged,
    /// `unknown`, or a type of a newer kernel.
    #[serde(untagged)]
    Other(String),
}

impl DomainType {
    /// Whether this program knows what the type means.
    pub fn is_recognised(&self) -> bool {
        !matches!(self, Self::Other(_))
    }

    /// The kernel's name.
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
            // A group type is always one short word.
            other if (1..=32).contains(&other.len()) && other.chars().all(|c| c.is_ascii_graphic()) => {
                Self::Other(other.into())
            }
            _ => return None,
        })
    }
}

impl Source for Iommu {
    fn read(scope: &Scope<'_>, _: &Known) -> Self {
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

    fn unread(why: &Unread) -> Self {
        Self {
            groups: why.clone().into(),
            units: why.clone().into(),
        }
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

/// Adds the members of groups without `devices`, as in trees that were copied without it, from the link of each function
/// to its group.
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

/// The file with a group's domain type.
pub fn type_path(group: u32) -> String {
    format!("{GROUPS}/{group}/type")
}

/// The default domain type in the kernel log: `iommu: Default domain type: Translated (set via kernel command line)`. It
/// is only a default and is logged even without an active IOMMU, so the group types decide.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_translation_is_not_passthrough() {
        assert!(DomainType::parse("DMA").is_some_and(|domain| domain.is_translated()));
        assert!(DomainType::parse("DMA-FQ").is_some_and(|domain| domain.is_translated()));
        assert!(DomainType::parse("identity").is_some_and(|domain| !domain.is_translated()));
        assert_eq!(DomainType::parse(""), None);
        assert_eq!(DomainType::parse("two words"), None);
    }

    #[test]
    fn the_kernels_names_survive_json() {
        for word in ["identity", "DMA", "DMA-FQ", "blocked", "unmanaged", "unknown"] {
            let domain = DomainType::parse(word).unwrap();
            let json = serde_json::to_string(&domain).unwrap();
            assert_eq!(json, format!("\"{word}\""));
            assert_eq!(serde_json::from_str::<DomainType>(&json).unwrap(), domain);
        }
    }

    #[test]
    fn the_logged_default_is_found_after_any_prefix() {
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
