//! The role of a PCI function for RDMA.

use serde::{Deserialize, Serialize};

use super::{DEVICES, hexadecimal};
use crate::root::Scope;

/// The role of a PCI function for RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// An RDMA device, or the network device of a software RDMA device.
    Rdma,
    /// A GPU or another accelerator.
    Gpu,
    /// A bridge above one of them.
    Bridge,
    /// A network function whose hardware supports RDMA, but without an RDMA device.
    Capable,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::Rdma, Self::Gpu, Self::Bridge, Self::Capable];

    /// The names of [`Role::ALL`].
    pub const NAMES: [&str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name();
            at += 1;
        }
        names
    };

    /// Its name in JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rdma => "rdma",
            Self::Gpu => "gpu",
            Self::Bridge => "bridge",
            Self::Capable => "capable",
        }
    }
}

const NVIDIA: u32 = 0x10de;
const AMD: u32 = 0x1002;
const INTEL: u32 = 0x8086;

/// Whether a function is a GPU or another accelerator.
pub(super) fn is_gpu(scope: &Scope<'_>, address: &str) -> bool {
    let read = |name: &str| {
        let path = format!("{DEVICES}/{address}/{name}");
        scope
            .parsed(&path, "a hexadecimal id", hexadecimal::<u32>)
            .known()
            .copied()
    };
    let Some(class) = read("class").map(|class| class >> 8) else {
        return false;
    };
    match (class >> 8, read("vendor")) {
        (0x12, Some(_)) | (0x03, Some(NVIDIA)) => true,
        (0x03, Some(AMD)) => read("device").is_some_and(|device| is_amd_gpu(class, device)),
        (0x03, Some(INTEL)) => is_intel_gpu(class, address),
        _ => false,
    }
}

/// Whether a display controller of AMD is a GPU for computing: one without a display (3D controller, display controller), or a Radeon Pro or
/// Instinct card with one (the PCI ID Repository). The graphics of a processor (APU) and cards that only show a picture are not, and neither
/// is the display adapter of a server's management controller, which other vendors make.
fn is_amd_gpu(class: u32, device: u32) -> bool {
    const VGA: u32 = 0x0300;
    // Vega 10 and 20, Navi 10 to 14, 21, 31, 32 and 48.
    let is_professional = matches!(
        device,
        0x6860..=0x6868 | 0x66a0..=0x66a3 | 0x7310 | 0x7312 | 0x7360 | 0x7362 | 0x73a1..=0x73a3 | 0x73ae | 0x7448..=0x744b | 0x745e | 0x7460
            | 0x7461 | 0x7551
    );
    let is_of_processor = matches!(device, 0..=0x1fff | 0x9600..=0x9fff);
    if class == VGA {
        is_professional
    } else {
        !is_of_processor
    }
}

/// Whether a display controller of Intel is a GPU for computing (Data Center GPU Max and Flex): a card without a display. The graphics of a
/// processor is on its root bus.
fn is_intel_gpu(class: u32, address: &str) -> bool {
    let has_display = !matches!(class, 0x0302 | 0x0380);
    !has_display && address.split(':').nth(1).is_some_and(|bus| bus != "00")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_of_intel_without_a_display_is_a_gpu() {
        assert!(is_intel_gpu(0x0380, "0000:4d:00.0"), "Max 1550");
        assert!(!is_intel_gpu(0x0380, "0000:00:02.0"), "graphics of a processor");
        assert!(!is_intel_gpu(0x0300, "0000:03:00.0"), "a card for a display");
    }

    #[test]
    fn roles_have_one_name_in_json_and_metrics() {
        for role in Role::ALL {
            assert_eq!(serde_json::to_value(role).unwrap(), role.name());
        }
    }

    #[test]
    fn cards_for_computing_differ_from_the_graphics_of_a_processor() {
        // MI210 and MI50 without a display, Radeon AI PRO R9700, Pro W7900, Pro VII.
        for (class, device) in [
            (0x0380, 0x740f),
            (0x0302, 0x66a1),
            (0x0300, 0x7551),
            (0x0300, 0x7448),
            (0x0300, 0x66a1),
        ] {
            assert!(is_amd_gpu(class, device), "{class:#06x} {device:#06x}");
        }
        // Strix Halo and Raphael, which are parts of a processor, Kaveri, and a card for a display (Radeon HD 5450).
        for (class, device) in [
            (0x0380, 0x1586),
            (0x0300, 0x164e),
            (0x0380, 0x130f),
            (0x0380, 0x98e4),
            (0x0300, 0x68f9),
        ] {
            assert!(!is_amd_gpu(class, device), "{class:#06x} {device:#06x}");
        }
    }
}
