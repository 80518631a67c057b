//! What a driver or program can no longer do with a device that went away, or that the PCI bus or the IOMMU cut off.

use crate::symptom::{Grade, Symptom, SymptomKind as K};

/// Why a device can no longer be used.
#[derive(Debug)]
pub(super) struct Gone {
    /// The line that says that the PCI bus failed.
    bus: Option<u64>,
    /// The line that says that a device is removed.
    removed: Option<u64>,
    /// The lines of the faults of the IOMMU, with the PCI address of the adapter.
    blocked: Vec<(u64, String)>,
}

impl Gone {
    pub(super) fn of(symptoms: &[Symptom]) -> Self {
        let failures = || symptoms.iter().filter(|symptom| symptom.grade == Grade::Failure);
        let first = |is_reason: fn(&Symptom) -> bool| {
            failures()
                .filter(|symptom| is_reason(symptom))
                .filter_map(|symptom| symptom.line)
                .min()
        };
        Self {
            bus: first(|symptom| symptom.kind == K::PciFault),
            removed: first(|symptom| symptom.kind == K::DeviceGone && symptom.text.contains("remov")),
            blocked: failures()
                .filter(|symptom| symptom.kind == K::IommuFault)
                .filter_map(|symptom| Some((symptom.line?, symptom.named.function.clone()?)))
                .collect(),
        }
    }

    /// Whether this failure follows from it.
    pub(super) fn explains(&self, symptom: &Symptom) -> bool {
        let after = |line: Option<u64>| line.is_some() && symptom.line > line;
        match symptom.kind {
            K::DeviceFatal | K::DeviceStalled | K::DeviceGone => after(self.bus),
            K::AddressUnresolved | K::DeviceAbsent | K::OpenFailed => after(self.removed),
            K::CommandRefused => self.blocked.iter().any(|(line, function)| {
                after(Some(*line)) && symptom.named.function.as_ref() == Some(function)
            }),
            _ => false,
        }
    }
}
