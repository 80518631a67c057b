//! PCIe errors that the firmware of the machine handles first (ACPI APEI), on servers where the kernel's own AER driver does not.
//!
//! The kernel writes what the firmware found in several records (`drivers/firmware/efi/cper.c`): how severe the error is, that it is one of
//! PCIe, and which function reported it. They are joined into one message, which means the same by itself. No part of it can be
//! chosen by a process.

use crate::{
    event::{Device, EventKind},
    origin::is_address,
};

/// How severe an error is, as the firmware says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    /// The hardware corrected it, or it is information.
    Harmless,
    /// Data was lost, and the machine goes on.
    Recoverable,
    /// The part that reported it does not work.
    Fatal,
}

impl Severity {
    fn of(word: &str) -> Option<Self> {
        match word.trim() {
            "corrected" | "info" | "informational" => Some(Self::Harmless),
            "recoverable" => Some(Self::Recoverable),
            "fatal" => Some(Self::Fatal),
            _ => None,
        }
    }
}

/// What a record says in a report of the firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    /// `event severity: recoverable`, ` Error 0, type: fatal`: a report or a section of it begins.
    Begin(Severity),
    /// `section_type: PCIe error`; false for another type.
    Section(bool),
    /// `device_id: 0000:04:00.0`.
    Function(&'a str),
}

/// The text of a record of such a report: `{1}[Hardware Error]:   device_id: 0000:04:00.0`.
fn said(text: &str) -> Option<&str> {
    let (number, rest) = text.strip_prefix('{')?.split_once('}')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let rest = rest.strip_prefix("[Hardware Error]:")?;
    is_number.then(|| rest.trim())
}

impl<'a> Part<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let said = said(text)?;
        if let Some(word) = said.strip_prefix("event severity: ") {
            return Severity::of(word).map(Self::Begin);
        }
        if let Some((_, word)) = said
            .strip_prefix("Error ")
            .and_then(|rest| rest.split_once(", type: "))
        {
            return Severity::of(word).map(Self::Begin);
        }
        if let Some(kind) = said.strip_prefix("section_type: ") {
            return Some(Self::Section(kind == "PCIe error"));
        }
        let address = said.strip_prefix("device_id: ")?;
        is_address(address).then_some(Self::Function(address))
    }
}

/// Whether a record is a part of such a report.
pub(super) fn is_part(text: &str) -> bool {
    Part::of(text).is_some()
}

/// Joins the records of these reports.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HardwareErrors {
    severity: Option<Severity>,
    is_pci: bool,
}

impl HardwareErrors {
    /// The next record. Returns the message of a report about a function; `None` for a corrected error.
    pub(super) fn add(&mut self, text: &str) -> Option<String> {
        match Part::of(text)? {
            Part::Begin(severity) => {
                self.severity = Some(severity);
                self.is_pci = false;
                None
            }
            Part::Section(is_pci) => {
                self.is_pci = is_pci;
                None
            }
            Part::Function(address) => {
                let is_pci = std::mem::take(&mut self.is_pci);
                let word = match self.severity.filter(|_| is_pci)? {
                    Severity::Harmless => return None,
                    Severity::Recoverable => "recoverable",
                    Severity::Fatal => "fatal",
                };
                Some(format!(
                    "{{0}}[Hardware Error]: {word} PCIe error of {address} (APEI)"
                ))
            }
        }
    }
}

/// What a joined message says.
pub(super) fn joined(text: &str) -> Option<(EventKind, Device)> {
    let (word, rest) = said(text)?.split_once(" PCIe error of ")?;
    let (address, _) = rest.split_once(' ')?;
    let kind = match Severity::of(word)? {
        Severity::Harmless => return None,
        Severity::Recoverable => EventKind::PciNonfatal,
        Severity::Fatal => EventKind::PciFatal,
    };
    is_address(address).then(|| (kind, Device::Pci(address.to_ascii_lowercase())))
}

#[cfg(test)]
mod tests {
    use crate::{EventKind, Record, Reports, classify};

    /// What the records of a report mean together.
    fn joined(lines: &[&str]) -> Vec<(EventKind, String)> {
        let mut reports = Reports::default();
        let messages = lines.iter().filter_map(|line| reports.add(&Record::parse(line)?));
        let found = messages.filter_map(|message| classify(&message));
        found
            .map(|report| (report.kind, report.device.to_string()))
            .collect()
    }

    #[test]
    fn an_error_that_the_firmware_reports_is_one_of_its_function() {
        let report = |severity: &str, kind: &str| {
            joined(&[
                "{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 5",
                "{1}[Hardware Error]: event severity: recoverable",
                &format!("{{1}}[Hardware Error]:  Error 0, type: {severity}"),
                &format!("{{1}}[Hardware Error]:   section_type: {kind}"),
                "{1}[Hardware Error]:   port_type: 0, PCIe end point",
                "{1}[Hardware Error]:   device_id: 0000:14:00.0",
                "{1}[Hardware Error]:   vendor_id: 0x15b3, device_id: 0x1021",
            ])
        };
        let of = |kind| vec![(kind, "0000:14:00.0".to_owned())];
        assert_eq!(report("fatal", "PCIe error"), of(EventKind::PciFatal));
        assert_eq!(report("recoverable", "PCIe error"), of(EventKind::PciNonfatal));
        assert_eq!(report("corrected", "PCIe error"), []);
        assert_eq!(report("fatal", "memory error"), []);
    }

    #[test]
    fn each_section_of_a_report_has_its_own_severity() {
        let found = joined(&[
            "{3}[Hardware Error]: event severity: fatal",
            "{3}[Hardware Error]:  Error 0, type: corrected",
            "{3}[Hardware Error]:   section_type: PCIe error",
            "{3}[Hardware Error]:   device_id: 0000:60:03.1",
            "{3}[Hardware Error]:  Error 1, type: fatal",
            "{3}[Hardware Error]:   section_type: PCIe error",
            "{3}[Hardware Error]:   device_id: 0000:14:00.0",
        ]);
        assert_eq!(found, [(EventKind::PciFatal, "0000:14:00.0".to_owned())]);
        // Not the kernel's words.
        assert_eq!(
            joined(&[
                "x {1}[Hardware Error]: event severity: fatal",
                "{1}[Hardware Error]:   section_type: PCIe error",
                "{1}[Hardware Error]:   device_id: 0000:14:00.0",
            ]),
            []
        );
    }
}
