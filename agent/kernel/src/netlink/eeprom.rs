//! The memory of transceivers and cables: what they are, and what they measure, with their own limits.
//!
//! Formats: SFF-8636 (QSFP), CMIS (QSFP-DD, OSFP), SFF-8472 (SFP). A module that does not say that it measures something, whose checksum
//! is wrong, or whose value is outside what any module can have, gives no number.

mod quantity;

use rdma_health_protocol::ModulePage;

use self::quantity::Quantity;
use super::transceiver::{Lane, LostPart, Measure, Module};
use crate::fact::{self, Errno, Unread, UnreadKind};

/// Two-wire addresses: of the memory, and of the diagnostics of SFP.
pub(super) const MEMORY: u8 = 0x50;
pub(super) const DIAGNOSTICS: u8 = 0x51;

/// Some bytes of a page: address, page, offset and length.
pub(super) type Part = (u8, u8, u8, u8);

/// The part that says what follows.
pub(super) const FIRST: Part = (MEMORY, 0, 0, 64);

/// How the memory of a module is organised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Sfp,
    Qsfp,
    Cmis,
}

/// The name and the format by the first byte (SFF-8024, table 4-1).
fn identified(byte: u8) -> Option<(&'static str, Format)> {
    Some(match byte {
        0x03 => ("SFP", Format::Sfp),
        0x0c => ("QSFP", Format::Qsfp),
        0x0d => ("QSFP+", Format::Qsfp),
        0x11 => ("QSFP28", Format::Qsfp),
        0x18 => ("QSFP-DD", Format::Cmis),
        0x19 => ("OSFP", Format::Cmis),
        0x1e => ("QSFP with CMIS", Format::Cmis),
        0x1f => ("SFP-DD", Format::Cmis),
        0x20 => ("SFP with CMIS", Format::Cmis),
        _ => return None,
    })
}

/// The parts to read after the first one. None of them holds a serial number.
pub(super) fn parts(first: &[u8]) -> &'static [Part] {
    let Some((_, format)) = first.first().and_then(|byte| identified(*byte)) else {
        return &[];
    };
    let status = first.get(2).copied().unwrap_or_default();
    match format {
        Format::Sfp => &[(MEMORY, 0, 92, 3), (DIAGNOSTICS, 0, 0, 112)],
        // A module with one page (`Flat_mem`) has no limits.
        Format::Qsfp if status & 0x04 != 0 => &[(MEMORY, 0, 128, 64), (MEMORY, 0, 220, 1)],
        Format::Qsfp => &[(MEMORY, 0, 128, 64), (MEMORY, 0, 220, 1), (MEMORY, 3, 128, 72)],
        Format::Cmis if status & 0x80 != 0 => &[(MEMORY, 0, 64, 22), (MEMORY, 0, 128, 38)],
        Format::Cmis => &[
            (MEMORY, 0, 64, 22),
            (MEMORY, 0, 128, 38),
            (MEMORY, 1, 128, 128),
            (MEMORY, 2, 128, 128),
            (MEMORY, 0x11, 128, 74),
        ],
    }
}

/// The pages without any part that is not read, such as one with a serial number.
pub(super) fn used(pages: Vec<ModulePage>) -> Vec<ModulePage> {
    let is_first = |page: &&ModulePage| (page.address, page.page, page.offset) == (FIRST.0, FIRST.1, FIRST.2);
    let others = pages
        .iter()
        .find(is_first)
        .map_or(&[][..], |first| parts(&first.data));
    let length = |page: &ModulePage| {
        let mut known = std::iter::once(&FIRST).chain(others);
        known
            .find(|part| (part.0, part.1, part.2) == (page.address, page.page, page.offset))
            .map(|part| usize::from(part.3))
    };
    let cut = |mut page: ModulePage| {
        page.data.truncate(length(&page)?);
        Some(page)
    };
    pages.into_iter().filter_map(cut).collect()
}

/// What the pages of a module hold; `None` if they are not those of a module. `source` names the question in errors.
pub(super) fn decode(source: &str, pages: &[ModulePage]) -> Option<Module> {
    let memory = Memory(pages);
    let (name, format) = identified(memory.byte(MEMORY, 0, 0)?)?;
    let module = match format {
        Format::Sfp => memory.sfp(name),
        Format::Qsfp => memory.qsfp(name),
        Format::Cmis => memory.cmis(name),
    };
    // A bus that nothing drives reads as ones.
    let module = module.filter(|_| !pages[0].data.iter().skip(1).all(|byte| *byte == 0xff))?;
    Some(Module {
        unread: memory.lost(source, format),
        ..module
    })
}

/// Why a part without which the others mean nothing could not be read; `None` if all could.
pub(super) fn failure(source: &str, pages: &[ModulePage]) -> Option<Unread> {
    pages
        .iter()
        .find_map(|part| unread(source, part, part.data.len()))
}

/// Why a part is of no use that should have `length` bytes.
fn unread(source: &str, part: &ModulePage, length: usize) -> Option<Unread> {
    let (kind, detail) = match fact::errno(part.errno) {
        Some(errno) => (
            UnreadKind::Errno(errno),
            "the driver could not read it from the module".to_owned(),
        ),
        None if part.data.len() < length => {
            let detail = format!("the driver returned {} of {length} bytes", part.data.len());
            (UnreadKind::Malformed, detail)
        }
        None => return None,
    };
    Some(Unread {
        source: named(source, part),
        kind,
        detail,
    })
}

/// A part in errors: the question and the page.
fn named(source: &str, part: &ModulePage) -> String {
    part_named(source, (part.address, part.page, part.offset, 0))
}

fn part_named(source: &str, (address, page, offset, _): Part) -> String {
    format!("{source}, page {page:#04x} at {address:#04x}, byte {offset}")
}

/// The place of a value: address, page, offset.
type Place = (u8, u8, u8);

struct Memory<'a>(&'a [ModulePage]);

impl Memory<'_> {
    fn bytes(&self, (address, page, offset): Place, length: usize) -> Option<&[u8]> {
        self.0.iter().find_map(|part| {
            if part.address != address || part.page != page {
                return None;
            }
            let start = usize::from(offset.checked_sub(part.offset)?);
            part.data.get(start..start.checked_add(length)?)
        })
    }

    fn byte(&self, address: u8, page: u8, offset: u8) -> Option<u8> {
        self.bytes((address, page, offset), 1)?.first().copied()
    }

    fn word(&self, place: Place) -> Option<u16> {
        let bytes = self.bytes(place, 2)?;
        Some(u16::from_be_bytes(bytes.try_into().ok()?))
    }

    fn text(&self, place: Place) -> Option<String> {
        let bytes = self.bytes(place, 16)?;
        let plain = bytes.iter().all(|byte| (0x20..0x7f).contains(byte));
        let text = std::str::from_utf8(bytes).ok()?.trim();
        (plain && !text.is_empty()).then(|| text.to_owned())
    }

    /// Whether the byte after `length` bytes is their sum.
    fn is_intact(&self, place: Place, length: u8) -> bool {
        let bytes = self.bytes(place, usize::from(length) + 1);
        let sum = bytes.and_then(|bytes| {
            let (sum, bytes) = bytes.split_last()?;
            Some(*sum == bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)))
        });
        sum == Some(true)
    }

    /// The parts that the module has and measures with, and that could not be read or are damaged. A copper cable measures nothing, and an SFP
    /// says whether it has diagnostics.
    fn lost(&self, source: &str, format: Format) -> Vec<LostPart> {
        let first = self.bytes((MEMORY, 0, 0), 3).unwrap_or_default();
        let is_used = match format {
            Format::Sfp => {
                !self.is_passive_copper() && self.byte(MEMORY, 0, 92).is_none_or(|kind| kind & 0x40 != 0)
            }
            Format::Qsfp => self.is_optical() != Some(false),
            // The type of the medium: a passive copper cable.
            Format::Cmis => self.byte(MEMORY, 0, 85) != Some(3),
        };
        let is_damaged = |part: &Part| match (format, part.0, part.1) {
            (Format::Sfp, DIAGNOSTICS, _) => !self.is_intact((DIAGNOSTICS, 0, 0), 95),
            (Format::Cmis, _, 1) => !self.is_intact((MEMORY, 1, 130), 125),
            (Format::Cmis, _, 2) => !self.is_intact((MEMORY, 2, 128), 127),
            _ => false,
        };
        let is_calibrated_externally = |part: &Part| {
            let kind = self.byte(MEMORY, 0, 92).unwrap_or_default();
            (format, part.0) == (Format::Sfp, DIAGNOSTICS) && kind & 0x30 == 0x10
        };
        let holds_limits = |part: &Part| matches!((format, part.1), (Format::Qsfp, 3) | (Format::Cmis, 2));
        let lost = |part: &Part| {
            let same =
                |page: &&ModulePage| (page.address, page.page, page.offset) == (part.0, part.1, part.2);
            let Some(page) = self.0.iter().find(same) else {
                let unread = Unread {
                    source: part_named(source, *part),
                    kind: UnreadKind::Errno(Errno::OPNOTSUPP),
                    detail: "the module has this page, and the driver cannot read it".into(),
                };
                return self.must_have(format, *part).then_some(LostPart {
                    holds_limits: holds_limits(part),
                    unread,
                });
            };
            let damaged = || Unread {
                source: named(source, page),
                kind: UnreadKind::Malformed,
                detail: "its checksum is wrong".into(),
            };
            let foreign = || {
                Unread {
                source: named(source, page),
                kind: UnreadKind::Errno(Errno::OPNOTSUPP),
                detail: "the module is calibrated externally (SFF-8472, byte 92), which this program does not calculate".into(),
            }
            };
            let unread = unread(source, page, part.3.into())
                .or_else(|| is_damaged(part).then(damaged))
                .or_else(|| is_calibrated_externally(part).then(foreign))?;
            Some(LostPart {
                holds_limits: holds_limits(part),
                unread,
            })
        };
        let all = std::iter::once(&FIRST).chain(parts(first)).filter(|_| is_used);
        all.filter_map(lost)
            .chain(
                is_used
                    .then(|| self.impossible_temperature(source, format))
                    .flatten(),
            )
            .collect()
    }

    /// Whether a module has a part for sure: CMIS requires the pages with its limits and with its lanes of each module with more than one page, if it
    /// measures lanes.
    fn must_have(&self, format: Format, part: Part) -> bool {
        format == Format::Cmis && matches!(part.1, 2 | 0x11) && self.supports(160, 7)
    }

    /// Whether a CMIS module advertises one of these bits, in a byte of page 1 that is intact.
    fn supports(&self, byte: u8, bits: u8) -> bool {
        let advertised = self.is_intact((MEMORY, 1, 130), 125);
        advertised && self.byte(MEMORY, 1, byte).is_some_and(|found| found & bits != 0)
    }

    /// A temperature that no module can have: its sensor is broken, which is not to have none.
    fn impossible_temperature(&self, source: &str, format: Format) -> Option<LostPart> {
        let (place, measures) = match format {
            Format::Sfp => {
                let kind = self.byte(MEMORY, 0, 92).unwrap_or_default();
                let is_intact = self.is_intact((DIAGNOSTICS, 0, 0), 95);
                ((DIAGNOSTICS, 0, 96), kind & 0x64 == 0x60 && is_intact)
            }
            Format::Qsfp => {
                let is_ready = self.byte(MEMORY, 0, 2)? & 0x01 == 0;
                ((MEMORY, 0, 22), is_ready)
            }
            Format::Cmis => ((MEMORY, 0, 14), self.supports(159, 1)),
        };
        let word = self.word(place).filter(|_| measures)?;
        if Quantity::Temperature.of(word).is_some() {
            return None;
        }
        Some(LostPart {
            holds_limits: false,
            unread: Unread {
                source: format!("{source}, temperature"),
                kind: UnreadKind::Malformed,
                detail: format!(
                    "the module reports {} °C, which no module can have: its sensor is faulty",
                    word.cast_signed() / 256
                ),
            },
        })
    }

    /// Whether an SFP is a passive copper cable, which measures nothing, whatever it says of diagnostics (SFF-8472, byte 8, bit 2).
    fn is_passive_copper(&self) -> bool {
        self.byte(MEMORY, 0, 8)
            .is_some_and(|technology| technology & 0x04 != 0)
    }

    /// Whether a QSFP is optical, by the technology of its transmitter: 10 and above are copper cables, which measure nothing.
    fn is_optical(&self) -> Option<bool> {
        Some(self.byte(MEMORY, 0, 147)? >> 4 < 10)
    }

    /// A value and its alarm limits, which are in the order high, low.
    fn measure(&self, value: Place, limits: Option<Place>, quantity: Quantity) -> Option<Measure> {
        let value = quantity.of(self.word(value)?)?;
        if value == 0 && quantity.is_never_zero() {
            return None;
        }
        let limit = |at: u8| {
            let (address, page, offset) = limits?;
            quantity.of(self.word((address, page, offset.checked_add(at)?))?)
        };
        // Modules that do not have limits give zeros, or anything.
        let limits = limit(0).zip(limit(2)).filter(|(high, low)| high > low);
        Some(Measure {
            value,
            low: limits.map(|(_, low)| low),
            high: limits.map(|(high, _)| high),
        })
    }

    fn sfp(&self, name: &str) -> Option<Module> {
        if !self.is_intact((MEMORY, 0, 0), 63) {
            return None;
        }
        let kind = self.byte(MEMORY, 0, 92).unwrap_or_default();
        // Diagnostics, and calibrated by the module itself. Others would have to be calculated.
        let measures = kind & 0x60 == 0x60
            && kind & 0x04 == 0
            && !self.is_passive_copper()
            && self.is_intact((DIAGNOSTICS, 0, 0), 95);
        let at = |offset| (DIAGNOSTICS, 0, offset);
        let measure = |value, limits, quantity| {
            let limits = Some(at(limits));
            measures
                .then(|| self.measure(at(value), limits, quantity))
                .flatten()
        };
        let lane = Lane {
            number: 1,
            bias: measure(100, 16, Quantity::Bias(1)),
            tx_power: measure(102, 24, Quantity::Power),
            rx_power: measure(104, 32, Quantity::Power),
        };
        Some(Module {
            form: name.to_owned(),
            vendor: self.text((MEMORY, 0, 20)),
            part: self.text((MEMORY, 0, 40)),
            temperature: measure(96, 0, Quantity::Temperature),
            voltage: measure(98, 8, Quantity::Voltage),
            lanes: if lane.is_measured() {
                vec![lane]
            } else {
                Vec::new()
            },
            unread: Vec::new(),
        })
    }

    fn qsfp(&self, name: &str) -> Option<Module> {
        if !self.is_intact((MEMORY, 0, 128), 63) {
            return None;
        }
        let is_ready = self.byte(MEMORY, 0, 2)? & 0x01 == 0;
        let measures = is_ready && self.is_optical()?;
        let has_tx_power = self.byte(MEMORY, 0, 220).is_some_and(|kind| kind & 0x04 != 0);
        let measure = |value, limits, quantity| {
            let limits = Some((MEMORY, 3, limits));
            measures
                .then(|| self.measure((MEMORY, 0, value), limits, quantity))
                .flatten()
        };
        let lane = |lane: u8| Lane {
            number: lane + 1,
            rx_power: measure(34 + 2 * lane, 176, Quantity::Power),
            bias: measure(42 + 2 * lane, 184, Quantity::Bias(1)),
            tx_power: has_tx_power
                .then(|| measure(50 + 2 * lane, 192, Quantity::Power))
                .flatten(),
        };
        Some(Module {
            form: name.to_owned(),
            vendor: self.text((MEMORY, 0, 148)),
            part: self.text((MEMORY, 0, 168)),
            temperature: measure(22, 128, Quantity::Temperature),
            voltage: measure(26, 144, Quantity::Voltage),
            lanes: if measures {
                (0..4).map(lane).collect()
            } else {
                Vec::new()
            },
            unread: Vec::new(),
        })
    }

    fn cmis(&self, name: &str) -> Option<Module> {
        let revision = self.byte(MEMORY, 0, 1)? >> 4;
        if !(3..=5).contains(&revision) {
            return None;
        }
        let has_limits = self.is_intact((MEMORY, 2, 128), 127);
        let scale = match self.byte(MEMORY, 1, 160).unwrap_or_default() >> 3 & 3 {
            0 => Some(1),
            1 => Some(2),
            2 => Some(4),
            _ => None,
        };
        let measure = |place, limits, quantity| {
            self.measure(place, has_limits.then_some((MEMORY, 2, limits)), quantity)
        };
        // `DPActivated`: a lane that carries data. The measurements of others mean nothing.
        let is_active = |lane: u8| {
            let states = self.byte(MEMORY, 0x11, 128 + lane / 2).unwrap_or_default();
            states >> (4 * (lane % 2)) & 0x0f == 4
        };
        let lane = |lane: u8| {
            let at = |first: u8| (MEMORY, 0x11, first + 2 * lane);
            Lane {
                number: lane + 1,
                tx_power: self
                    .supports(160, 2)
                    .then(|| measure(at(154), 176, Quantity::Power))
                    .flatten(),
                bias: scale
                    .filter(|_| self.supports(160, 1))
                    .and_then(|scale| measure(at(170), 184, Quantity::Bias(scale))),
                rx_power: self
                    .supports(160, 4)
                    .then(|| measure(at(186), 192, Quantity::Power))
                    .flatten(),
            }
        };
        let measures_lanes = self.supports(160, 7);
        Some(Module {
            form: name.to_owned(),
            vendor: self.text((MEMORY, 0, 129)),
            part: self.text((MEMORY, 0, 148)),
            temperature: self
                .supports(159, 1)
                .then(|| measure((MEMORY, 0, 14), 128, Quantity::Temperature))
                .flatten(),
            voltage: self
                .supports(159, 2)
                .then(|| measure((MEMORY, 0, 16), 136, Quantity::Voltage))
                .flatten(),
            lanes: if measures_lanes {
                (0..8).filter(|lane| is_active(*lane)).map(lane).collect()
            } else {
                Vec::new()
            },
            unread: Vec::new(),
        })
    }
}

#[cfg(test)]
#[path = "eeprom_tests.rs"]
mod tests;
