//! What the words of the kernel decide about a line, and what remains to be read.

use rdma_health_kernel_log::{Device, EventKind, Judgement, Record};

use super::{
    Found,
    reading::{Reading, symptom},
    wording::read,
};
use crate::{
    log::{
        complaint, ended,
        entity::is_rdma_name,
        errors::errno,
        gpu,
        kernel::{User, is_of_interest, of_event, user_of},
        line::Lower,
        needless::only_misses_a_feature,
    },
    symptom::{self, Software, SymptomKind},
};

/// What the kernel's own words decide about a line.
pub(super) enum Judged {
    /// Nothing else matters; `None` is nothing to report.
    Final(Option<Found>),
    /// The line is read as any other.
    Open,
}

pub(super) fn judged(line: &Lower<'_>, judgement: &Judgement, number: u64) -> Judged {
    let report = match judgement {
        Judgement::Harmless => return Judged::Final(None),
        Judgement::Event(report) => report,
        Judgement::Unknown | Judgement::Unlisted => return Judged::Open,
    };
    if matches!(report.kind, EventKind::LinkUp | EventKind::ModulePlugged) {
        return Judged::Final(Some(Found::Recovered(report.device.clone())));
    }
    if report.kind == EventKind::Started {
        if report.driver == "amdgpu" {
            return Judged::Final(Some(Found::Recovered(report.device.clone())));
        }
        return Judged::Final(None);
    }
    if report.kind == EventKind::ModuleUnplugged && is_at_start(line) {
        return Judged::Final(None);
    }
    let Some((kind, grade)) = of_event(report).filter(|_| is_of_interest(line, &report.driver)) else {
        return Judged::Open;
    };
    let mut found = symptom(line, Reading::of(kind, 0), number);
    found.grade = grade.unwrap_or(found.grade);
    found.software = Some(Software::Kernel);
    if found.kind == SymptomKind::AdapterNotStarted {
        found.named.errno = errno(line);
    }
    match &report.device {
        Device::Pci(address) => found.named.function = Some(address.clone()),
        Device::Named(name) if found.named.device.is_none() && is_rdma_name(name) => {
            found.named.device = Some(name.clone());
        }
        _ => {}
    }
    // The memory was released before. NVIDIA: harmless, and no longer logged from driver R560 on.
    if report.kind == EventKind::PeerMemory && line.lower.contains("invalid context, skipping") {
        found.grade = symptom::Grade::Note;
    }
    if report.kind == EventKind::GpuError && gpu::is_of_application(&line.lower) {
        found.grade = symptom::Grade::Note;
    }
    if report.kind == EventKind::IommuFault {
        match user_of(&report.driver) {
            User::Rdma => {}
            // The device decides.
            User::Unknown => found.known = false,
            User::Other => found.grade = symptom::Grade::Note,
        }
    }
    Judged::Final(Some(Found::Symptom(Box::new(found))))
}

/// Whether the kernel wrote a line while the machine started: drivers log their empty ports then.
fn is_at_start(line: &Lower<'_>) -> bool {
    /// As for the same events of a node, in seconds.
    const START: u64 = 120;
    let time = Record::parse(line.text).and_then(|record| record.time);
    time.is_some_and(|time| time < START)
}

pub(super) fn reading_of(line: &Lower<'_>, judgement: Option<&Judgement>) -> Option<Reading> {
    // The kernel ends a process: the name of the process may be one of RDMA.
    if line.lower.contains("out of memory: killed process") {
        return Some(Reading::of(SymptomKind::RankFailed, 0));
    }
    let of_driver = judgement.is_some_and(|judgement| *judgement != Judgement::Unknown)
        // DPDK says the same of its own drivers.
        || line.lower.contains(": probe of ") && !line.lower.contains(": probe of pci device");
    let reading = read(line, of_driver);
    if let Some(reading) = reading.filter(|reading| reading.kind != SymptomKind::Unrecognised) {
        return Some(reading);
    }
    if let Some(at) = ended::find(&line.lower) {
        return Some(Reading::of(SymptomKind::RankFailed, at));
    }
    match judgement {
        // Drivers say of many features that a device does not have them.
        _ if of_driver && reading.is_some() && only_misses_a_feature(&line.lower) => None,
        // An error of a driver that the table does not know.
        Some(Judgement::Event(report)) if reading.is_none() && report.kind == EventKind::DriverError => {
            Some(Reading::unrecognised())
        }
        _ => reading.or_else(|| complaint::is_one(line, judgement).then(Reading::unrecognised)),
    }
}
