//! PCIe errors that a function reported since boot.
//!
//! Source: `aer_dev_{correctable,nonfatal,fatal}` (`Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats`): a name
//! and a count per line, the last of them the total.

use serde::{Deserialize, Serialize};

use crate::{fact::Fact, root::Scope};

/// Errors by severity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aer {
    /// Corrected by the hardware; many of them cost bandwidth and indicate a bad slot, riser or cable.
    pub correctable: Fact<AerCount>,
    /// Data was lost, but the link is intact.
    pub nonfatal: Fact<AerCount>,
    /// The link itself failed.
    pub fatal: Fact<AerCount>,
}

/// The errors of one severity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AerCount {
    /// Total number.
    pub total: u64,
    /// Kinds with a count above zero, by the kernel's name (`RxErr`, `BadTLP`, `UnsupReq`).
    pub kinds: Vec<(String, u64)>,
}

impl Aer {
    pub(super) fn read(scope: &Scope<'_>, function: &str) -> Fact<Self> {
        let count = |name: &str| {
            let path = format!("{function}/aer_dev_{name}");
            scope.parsed(&path, "error counts", AerCount::parse)
        };
        let found = Self {
            correctable: count("correctable"),
            nonfatal: count("nonfatal"),
            fatal: count("fatal"),
        };
        if found == Self::default() {
            Fact::Absent
        } else {
            Fact::Known(found)
        }
    }
}

impl AerCount {
    fn parse(text: &str) -> Option<Self> {
        let mut found = Self::default();
        let mut total = None;
        for line in text.lines() {
            let (name, count) = line.trim().rsplit_once(' ')?;
            let (name, count) = (name.trim(), count.parse::<u64>().ok()?);
            let plain = name.len() <= 32 && name.chars().all(|c| c.is_ascii_graphic() || c == ' ');
            if name.starts_with("TOTAL_ERR") {
                total = Some(count);
            } else if count > 0 && plain {
                found.kinds.push((name.to_owned(), count));
            }
        }
        let sum = |sum: u64, (_, count): &(String, u64)| sum.saturating_add(*count);
        found.total = total.unwrap_or_else(|| found.kinds.iter().fold(0, sum));
        (!text.is_empty()).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_the_kinds_that_happened_are_read() {
        let text = "RxErr 2\nBadTLP 0\nAdvisory Non-Fatal 1\nTOTAL_ERR_COR 3";
        assert_eq!(
            AerCount::parse(text),
            Some(AerCount {
                total: 3,
                kinds: vec![("RxErr".into(), 2), ("Advisory Non-Fatal".into(), 1)],
            })
        );
        assert_eq!(AerCount::parse("Undefined 0\nDLP 4").unwrap().total, 4);
        assert_eq!(AerCount::parse(""), None);
        assert_eq!(AerCount::parse("RxErr many"), None);
    }
}
