//! IOMMU groups and their domain types, and the default domain type in the kernel log.
//!
//! Source: `/sys/kernel/iommu_groups/N/{type,devices}` (`Documentation/ABI/testing/sysfs-kernel-iommu_groups`).
//! `type` exists since Linux 4.19 (some distributions have it in older kernels); `DMA-FQ` differs from `DMA` since 5.15.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    cmdline::Domain,
    fact::{Fact, Unread},
    root::{MAX_ENTRIES, Scope},
    source::{After, Known, Source},
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
    const AFTER: After = After::Devices;

    fn read(scope: &Scope<'_>, known: &Known) -> Self {
        let groups = scope.entries(GROUPS).map(|names| {
            let numbers = names.iter().filter_map(|name| name.parse::<u32>().ok());
            numbers
                .map(|number| (number, Group::read(scope, number)))
                .collect::<BTreeMap<_, _>>()
        });
        let units = scope.entries("/sys/class/iommu");
        let groups = match groups {
            Fact::Known(groups) if !groups.is_empty() => Fact::Known(with_members(scope, groups)),
            Fact::Unread { unread } => Fact::Unread { unread },
            none => match shown_by(scope, known, &units) {
                Some(although) => scope.hidden(GROUPS, &although),
                None => none,
            },
        };
        Self { groups, units }
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

const FUNCTIONS: &str = "/sys/bus/pci/devices";

/// The number of the group that a function is in, by its own link.
fn group_of(scope: &Scope<'_>, address: &str) -> Option<u32> {
    let link = format!("{FUNCTIONS}/{address}/iommu_group");
    scope.collected_link_name(&link)?.parse().ok()
}

/// What shows that there are groups where none is visible: the link of an RDMA function to its group, or an IOMMU of x86, which puts every
/// PCI function into one. (An SMMU of arm64 may serve other devices only.)
fn shown_by(scope: &Scope<'_>, known: &Known, units: &Fact<Vec<String>>) -> Option<String> {
    let mut functions = known.functions.iter();
    let of_function = functions.find_map(|address| {
        let group = group_of(scope, address)?;
        Some(format!("function {address} is in group {group}"))
    });
    let is_of_all = |unit: &&String| unit.starts_with("dmar") || unit.starts_with("ivhd");
    of_function.or_else(|| {
        let unit = units.known()?.iter().find(is_of_all)?;
        Some(format!("the kernel drives the IOMMU {unit}"))
    })
}

/// Adds what only the link of a function to its group shows: members of groups without `devices`, as in trees that were copied without
/// it, and groups that are not visible.
fn with_members(scope: &Scope<'_>, mut groups: BTreeMap<u32, Group>) -> BTreeMap<u32, Group> {
    let members: BTreeSet<String> = groups
        .values()
        .filter_map(|group| group.devices.known())
        .flatten()
        .cloned()
        .collect();
    let functions = scope.collected_entries(FUNCTIONS).unwrap_or_default();
    for address in functions.iter().filter(|address| !members.contains(*address)) {
        let Some(number) = group_of(scope, address) else {
            continue;
        };
        let group = groups.entry(number).or_insert_with(|| Group {
            domain: scope.hidden(
                &type_path(number),
                &format!("function {address} is in this group"),
            ),
            devices: Fact::Absent,
        });
        match &mut group.devices {
            Fact::Known(members) => members.push(address.clone()),
            devices => *devices = Fact::Known(vec![address.clone()]),
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
