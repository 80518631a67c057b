//! The PCIe link of a function.
//!
//! Source: `{current,max}_link_{speed,width}` (`drivers/pci/pci-sysfs.c`).

use serde::{Deserialize, Serialize};

use crate::{fact::Fact, root::Scope};

/// Speed and width of a PCIe link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Current speed in megatransfers per second and lane; absent if the kernel reports `Unknown`.
    pub speed: Fact<u32>,
    /// Maximum speed of the device.
    pub max_speed: Fact<u32>,
    /// Current number of lanes.
    pub width: Fact<u32>,
    /// Maximum number of lanes of the device.
    pub max_width: Fact<u32>,
}

impl Eq for Link {}

impl Link {
    pub(super) fn read(scope: &Scope<'_>, path: &str) -> Self {
        let speed = |name: &str| {
            scope
                .parsed(&format!("{path}/{name}"), "a link speed in GT/s", parse_speed)
                .and_then(|speed| speed)
        };
        // Width 0: the link is down or the port has none. 255 is the kernel's "unknown".
        let width = |name: &str| {
            scope.number::<u32>(&format!("{path}/{name}")).and_then(|lanes| {
                if matches!(lanes, 0 | 255) {
                    Fact::Absent
                } else {
                    Fact::Known(lanes)
                }
            })
        };
        Self {
            speed: speed("current_link_speed"),
            max_speed: speed("max_link_speed"),
            width: width("current_link_width"),
            max_width: width("max_link_width"),
        }
    }
}

/// `16.0 GT/s PCIe` in MT/s; absent if the kernel reports `Unknown` (or `Unknown speed`).
fn parse_speed(text: &str) -> Option<Fact<u32>> {
    if text.starts_with("Unknown") {
        return Some(Fact::Absent);
    }
    let (number, _) = text.split_once(" GT/s")?;
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u32 = whole.parse().ok()?;
    let tenth: u32 = if tenth.len() == 1 {
        tenth.parse().ok()?
    } else {
        return None;
    };
    Some(Fact::Known(whole.checked_mul(1000)?.checked_add(tenth * 100)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn speeds_have_the_kernels_format() {
        assert_eq!(parse_speed("16.0 GT/s PCIe"), Some(Fact::Known(16_000)));
        assert_eq!(parse_speed("2.5 GT/s"), Some(Fact::Known(2_500)));
        assert_eq!(parse_speed("8 GT/s"), Some(Fact::Known(8_000)));
        assert_eq!(parse_speed("Unknown"), Some(Fact::Absent));
        assert_eq!(parse_speed("Unknown speed"), Some(Fact::Absent));
        assert_eq!(parse_speed("fast"), None);
    }

    proptest! {
        #[test]
        fn a_speed_is_read_as_the_kernel_writes_it(whole in 0..1000_u32, tenth in 0..10_u32, after in "( PCIe)?") {
            let read = parse_speed(&format!("{whole}.{tenth} GT/s{after}"));
            prop_assert_eq!(read, Some(Fact::Known(whole * 1000 + tenth * 100)));
        }
    }
}
