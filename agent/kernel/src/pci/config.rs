//! The PCI configuration space: the capabilities that affect peer-to-peer traffic.
//!
//! Source: `/sys/bus/pci/devices/ADDRESS/config`, laid out as in the PCI Express Base Specification and
//! `include/uapi/linux/pci_regs.h`. Without `CAP_SYS_ADMIN` the kernel returns only the first 64 bytes; then a privileged helper
//! reads it.

use serde::{Deserialize, Serialize};

/// Length of the standard header in bytes.
const HEADER: usize = 64;
/// Where the header has the place of the first capability.
const LIST: usize = 0x34;
/// The number of the ACS capability.
const ACS: u32 = 0x0d;

/// Facts in the configuration space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Whether all of it could be read; only root can read beyond the first 64 bytes.
    pub complete: bool,
    /// Maximum read request size in bytes (Device Control, bits 14:12); `None` without a PCI Express capability.
    pub max_read_request: Option<u32>,
    /// Maximum payload size in bytes (Device Control, bits 7:5).
    pub max_payload: Option<u32>,
    /// Access Control Services; `None` if the function has none.
    pub acs: Option<Acs>,
    /// The type of the port; `None` without a PCI Express capability.
    #[serde(default)]
    pub port_type: Option<PortType>,
}

/// The device/port type of the PCI Express capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortType {
    /// A device.
    Endpoint,
    /// A port of the root complex: the upper end of a link.
    RootPort,
    /// The port of a switch towards the root complex: the lower end of a link.
    Upstream,
    /// A port of a switch towards a device: the upper end of a link.
    Downstream,
    /// A bridge to PCI, a part of the root complex, or a type of a newer specification.
    Other,
}

impl PortType {
    fn of(flags: u16) -> Self {
        match (flags >> 4) & 0xf {
            0 | 1 => Self::Endpoint,
            4 => Self::RootPort,
            5 => Self::Upstream,
            6 => Self::Downstream,
            _ => Self::Other,
        }
    }
}

/// Access Control Services: the capability and control registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acs {
    /// The capability register.
    pub capability: u16,
    /// The control register, with the enabled services.
    pub control: u16,
}

impl Acs {
    const REQUEST_REDIRECT: u16 = 1 << 2;
    const COMPLETION_REDIRECT: u16 = 1 << 3;

    /// Whether peer-to-peer requests or completions go through the root complex instead of directly to the peer.
    pub fn redirects(self) -> bool {
        self.control & (Self::REQUEST_REDIRECT | Self::COMPLETION_REDIRECT) != 0
    }
}

impl Capabilities {
    /// Parses a configuration space of 64, 256 or 4096 bytes; `None` if it is shorter than the standard header.
    pub fn parse(space: &[u8]) -> Option<Self> {
        if space.len() < HEADER {
            return None;
        }
        let express = express(space);
        let control = express.and_then(|offset| word(space, offset + 8));
        let flags = express.and_then(|offset| word(space, offset + 2));
        let size = |code: u16| 128_u32 << (code & 0b111).min(5);
        Some(Self {
            complete: space.len() > HEADER,
            max_read_request: control.map(|control| size(control >> 12)),
            max_payload: control.map(|control| size(control >> 5)),
            acs: acs(space),
            port_type: flags.map(PortType::of),
        })
    }
}

/// The part of a configuration space that [`Capabilities`] come from, and nothing else: the standard header, and the PCI Express
/// and ACS capabilities at fixed places. `None` if the kernel shows no more than the header.
pub(super) fn excerpt(space: &[u8]) -> Option<Vec<u8>> {
    const EXPRESS_AT: u8 = 0x40;
    const EXPRESS_LENGTH: usize = 0x14;
    const ACS_AT: usize = 0x100;
    if space.len() <= HEADER {
        return None;
    }
    let mut part = space[..HEADER].to_vec();
    let express_at = usize::from(EXPRESS_AT);
    part.resize(express_at + EXPRESS_LENGTH, 0);
    part[LIST] = 0;
    if let Some(capability) = express(space).and_then(|at| space.get(at..at + EXPRESS_LENGTH)) {
        part[express_at..].copy_from_slice(capability);
        part[express_at + 1] = 0;
        part[LIST] = EXPRESS_AT;
    }
    if let Some(acs) = acs(space) {
        part.resize(ACS_AT, 0);
        part.extend((1 << 16 | ACS).to_le_bytes());
        part.extend(acs.capability.to_le_bytes());
        part.extend(acs.control.to_le_bytes());
    }
    Some(part)
}

fn word(space: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(
        space.get(offset..offset + 2)?.try_into().ok()?,
    ))
}

fn double_word(space: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        space.get(offset..offset + 4)?.try_into().ok()?,
    ))
}

/// Offset of the PCI Express capability. The number of entries is bounded, so a cyclic list ends.
fn express(space: &[u8]) -> Option<usize> {
    const STATUS: usize = 0x06;
    const HAS_LIST: u16 = 1 << 4;
    const EXPRESS: u8 = 0x10;
    if word(space, STATUS)? & HAS_LIST == 0 {
        return None;
    }
    let mut offset = usize::from(*space.get(LIST)? & !0b11);
    for _ in 0..48 {
        if offset < 0x40 {
            return None;
        }
        if *space.get(offset)? == EXPRESS {
            return Some(offset);
        }
        offset = usize::from(*space.get(offset + 1)? & !0b11);
    }
    None
}

/// The ACS extended capability.
fn acs(space: &[u8]) -> Option<Acs> {
    const FIRST: usize = 0x100;
    let mut offset = FIRST;
    for _ in 0..480 {
        let header = double_word(space, offset)?;
        // All zeroes or all ones: no extended capabilities.
        if header == 0 || header == u32::MAX {
            return None;
        }
        if header & 0xffff == ACS {
            return Some(Acs {
                capability: word(space, offset + 4)?,
                control: word(space, offset + 6)?,
            });
        }
        offset = usize::try_from(header >> 20).ok()? & !0b11;
        if offset < FIRST {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A port with a power-management capability, then PCI Express, and with AER, then ACS.
    fn port() -> Vec<u8> {
        let mut space = vec![0; 4096];
        space[0x06] = 0x10;
        space[0x34] = 0x40;
        space[0x40..0x42].copy_from_slice(&[0x01, 0x60]);
        space[0x60..0x64].copy_from_slice(&[0x10, 0x00, 0x62, 0x00]);
        space[0x68..0x6a].copy_from_slice(&0x2930_u16.to_le_bytes());
        space[0x100..0x104].copy_from_slice(&0x1482_0001_u32.to_le_bytes());
        space[0x148..0x14c].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
        space[0x14c..0x150].copy_from_slice(&[0x1f, 0x00, 0x1d, 0x00]);
        space
    }

    #[test]
    fn capabilities_are_found_after_others() {
        let found = Capabilities::parse(&port()).unwrap();
        assert_eq!(found.max_read_request, Some(512));
        assert_eq!(found.max_payload, Some(256));
        assert_eq!(found.port_type, Some(PortType::Downstream));
        let acs = found.acs.unwrap();
        assert_eq!((acs.capability, acs.control), (0x1f, 0x1d));
        assert!(acs.redirects());
    }

    #[test]
    fn an_unprivileged_read_is_marked_incomplete() {
        let found = Capabilities::parse(&port()[..64]).unwrap();
        assert!(!found.complete);
        assert_eq!((found.max_read_request, found.acs), (None, None));
        assert_eq!(Capabilities::parse(&[0; 63]), None);
    }

    #[test]
    fn an_excerpt_has_no_serial_number() {
        let mut space = port();
        // A Device Serial Number capability before ACS, which holds the MAC address of a NIC.
        space[0x100..0x104].copy_from_slice(&0x1402_0003_u32.to_le_bytes());
        space[0x104..0x10c].copy_from_slice(&[0xb8, 0x59, 0x9f, 0xff, 0xfe, 0xaa, 0xbb, 0xcc]);
        space[0x140..0x144].copy_from_slice(&0x1482_0001_u32.to_le_bytes());
        let part = excerpt(&space).unwrap();
        assert_eq!(Capabilities::parse(&part), Capabilities::parse(&space));
        assert!(!part.windows(3).any(|bytes| bytes == [0xb8, 0x59, 0x9f]));
        assert_eq!(excerpt(&space[..64]), None);
    }

    /// Sizes are among those that PCI Express knows, and access control has its registers in the space.
    fn assert_stands_in(space: &[u8]) -> Result<(), TestCaseError> {
        let Some(found) = Capabilities::parse(space) else {
            return Ok(());
        };
        for size in [found.max_read_request, found.max_payload].into_iter().flatten() {
            prop_assert!(size.is_power_of_two() && (128..=4096).contains(&size), "{size}");
        }
        let is_acs = |at: usize, acs: Acs| {
            space[at..at + 2] == [0x0d, 0]
                && word(space, at + 4) == Some(acs.capability)
                && word(space, at + 6) == Some(acs.control)
        };
        if let Some(acs) = found.acs {
            prop_assert!(
                (0x100..space.len() - 7).step_by(4).any(|at| is_acs(at, acs)),
                "{acs:?}"
            );
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn any_bytes_give_only_what_stands_in_them(space in proptest::collection::vec(any::<u8>(), 0..4200)) {
            prop_assert_eq!(Capabilities::parse(&space).is_some(), space.len() >= 64);
            assert_stands_in(&space)?;
        }

        /// Readers find in an excerpt what they find in the whole.
        #[test]
        fn an_excerpt_says_the_same(
            offset in prop_oneof![Just(0x34), Just(0x40), Just(0x60), Just(0x68), Just(0x100), Just(0x148), 0..4092_usize],
            value: [u8; 4],
        ) {
            let mut space = port();
            space[offset..offset + 4].copy_from_slice(&value);
            let part = excerpt(&space).unwrap();
            prop_assert_eq!(Capabilities::parse(&part), Capabilities::parse(&space));
            prop_assert!(part.len() <= rdma_health_protocol::MAX_SPACE);
        }

        /// Wherever a pointer of either list leads, also back to itself, what is reported is there.
        #[test]
        fn a_list_that_points_anywhere_gives_only_what_stands_there(
            offset in prop_oneof![Just(0x34), Just(0x40), Just(0x60), Just(0x68), Just(0x100), Just(0x148), 0..4092_usize],
            value: [u8; 4],
        ) {
            let mut space = port();
            space[offset..offset + 4].copy_from_slice(&value);
            assert_stands_in(&space)?;
        }
    }
}
