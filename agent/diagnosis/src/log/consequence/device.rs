//! What follows where a program could not open an adapter, or where the adapter failed.

use rdma_health_protocol::{Errno, WcStatus};

use super::kinds::{follows, is_of_endpoint, is_of_psm, is_of_wait, is_without_device};
use crate::symptom::{Grade, Software, Symptom, SymptomKind as K};

/// NVSHMEM could start neither of its transports between nodes, and the log does not say why: it found no device that it can use. What it says
/// of IBGDA besides is then no more than that this transport is not there, either.
pub(super) fn name_transports(symptoms: &mut [Symptom]) {
    let is_remote =
        |symptom: &Symptom| symptom.kind == K::BackendFailed && symptom.text.contains("remote transport");
    let is_explained = symptoms
        .iter()
        .any(|symptom| symptom.grade >= Grade::Degraded && !follows(symptom));
    for symptom in symptoms
        .iter_mut()
        .filter(|symptom| !is_explained && is_remote(symptom))
    {
        symptom.kind = K::NoDevice;
    }
}

/// What an adapter reports after a fault in it, in its module or in its power supply follows from that fault: its link goes down, its driver
/// waits in vain, its firmware gives up in the heat.
pub(super) fn follow_device(symptoms: &mut [Symptom]) {
    let roots: Vec<(K, Option<u64>, Option<String>)> = symptoms
        .iter()
        .filter(|symptom| symptom.grade > Grade::Secondary && symptom.line.is_some())
        .map(|symptom| (symptom.kind, symptom.line, symptom.named.function.clone()))
        .collect();
    for symptom in symptoms {
        let is_wait = is_of_wait(symptom);
        let is_root = |kind: K| match symptom.kind {
            K::PortError => matches!(
                kind,
                K::DeviceFatal
                    | K::DeviceStalled
                    | K::AdapterHot
                    | K::SlotPower
                    | K::PciFault
                    | K::ModuleFault
            ),
            // A processor waits in vain for a device that does not respond. An error in a function of the driver is its own.
            K::DriverCrashed => kind == K::DeviceFatal || kind == K::DeviceStalled && is_wait,
            K::QueueError | K::QueueFatal | K::QueueAccess => kind == K::Completion(WcStatus::FatalErr),
            // The same report of the adapter's health names the heat.
            K::DeviceFatal => kind == K::AdapterHot,
            _ => false,
        };
        let follows = roots.iter().any(|(kind, line, function)| {
            let same = match (function, &symptom.named.function) {
                (Some(one), Some(other)) => one == other,
                _ => true,
            };
            is_root(*kind) && same && *line < symptom.line
        });
        if follows && symptom.grade > Grade::Secondary {
            symptom.grade = Grade::Secondary;
        }
    }
}

/// A GPU whose driver found no address range for it does not start.
pub(super) fn follow_room(symptoms: &mut [Symptom]) {
    let is_without = |symptom: &&Symptom| symptom.kind == K::PciRoom && symptom.grade == Grade::Failure;
    let functions: Vec<_> = symptoms
        .iter()
        .filter(is_without)
        .filter_map(|symptom| symptom.named.function.clone())
        .collect();
    let is_start = |symptom: &&mut Symptom| {
        symptom.kind == K::GpuStopped
            && symptom
                .named
                .function
                .as_ref()
                .is_some_and(|function| functions.contains(function))
    };
    for symptom in symptoms.iter_mut().filter(is_start) {
        symptom.follows_another();
    }
}

/// libibverbs found a device and no library for it: the program then has no device, whatever it asks for.
pub(super) fn end_without_provider(symptoms: &mut [Symptom]) {
    let is_without = |symptom: &Symptom| {
        symptom.kind == K::NoProvider && symptom.text.contains("no userspace device-specific driver")
    };
    let Some(line) = symptoms
        .iter()
        .filter(|symptom| is_without(symptom))
        .filter_map(|symptom| symptom.line)
        .min()
    else {
        return;
    };
    let follows = |symptom: &Symptom| {
        let is_unresolved =
            symptom.kind == K::AddressUnresolved && symptom.named.errno == Some(Errno::ENODEV);
        let is_denied = matches!(symptom.named.errno, Some(Errno::EACCES | Errno::EPERM));
        symptom.line > Some(line) && (is_without_device(symptom.kind) && !is_denied || is_unresolved)
    };
    if !symptoms.iter().any(follows) {
        return;
    }
    for symptom in symptoms {
        if is_without(symptom) {
            symptom.grade = Grade::Failure;
        } else if follows(symptom) {
            symptom.follows_another();
        }
    }
}

/// Why an adapter could not be opened, or a doorbell of it not be mapped, where another line says it: a queue that could not be created, a
/// socket, doorbell pages that are used up.
pub(super) fn end_opening(symptoms: &mut [Symptom]) {
    let is_reason = |symptom: &Symptom| match symptom.kind {
        K::CreateFailed | K::ResourceLimit | K::CreateRefused | K::CommandRefused => true,
        K::BackendFailed => symptom.text.contains("UDP socket"),
        _ => false,
    };
    let reasons = symptoms
        .iter()
        .filter(|symptom| symptom.grade == Grade::Failure && is_reason(symptom));
    let Some(line) = reasons.filter_map(|symptom| symptom.line).min() else {
        return;
    };
    for symptom in symptoms {
        let is_opening = symptom.kind == K::OpenFailed && is_of_psm(symptom) && symptom.line > Some(line)
            || symptom.kind == K::GpuDoorbellFailed && symptom.text.contains("_uar");
        if is_opening {
            symptom.follows_another();
        }
    }
}

/// DPDK names the step that failed, before and after the line with its error number.
pub(super) fn open_without_memory(symptoms: &mut [Symptom]) {
    let is_short = symptoms.iter().any(|symptom| {
        symptom.grade == Grade::Failure && matches!(symptom.kind, K::NoMemory | K::HostMemory)
    });
    let is_shared = symptoms
        .iter()
        .any(|symptom| symptom.kind == K::BackendFailed && symptom.software == Some(Software::Dpdk));
    let is_step = |symptom: &&mut Symptom| {
        symptom.kind == K::OpenFailed
            && symptom.software == Some(Software::Dpdk)
            && (symptom.named.errno.is_none() || is_shared)
    };
    for symptom in symptoms
        .iter_mut()
        .filter(is_step)
        .filter(|_| is_short || is_shared)
    {
        symptom.follows_another();
    }
}

/// PSM's last words say less than what failed before in the same program.
pub(super) fn end_by_last_words(symptoms: &mut [Symptom]) {
    let is_last = |symptom: &Symptom| {
        symptom
            .text
            .contains("unrecoverable error occurred while communicating")
    };
    let failed = symptoms
        .iter()
        .filter(|symptom| symptom.grade == Grade::Failure && !is_last(symptom));
    let Some(first) = failed.filter_map(|symptom| symptom.line).min() else {
        return;
    };
    for symptom in symptoms.iter_mut() {
        if is_last(symptom) && symptom.line > Some(first) {
            symptom.follows_another();
        }
    }
}

/// Whether Open MPI reports it of one of its transports.
fn names_module(symptom: &Symptom) -> bool {
    ["point-to-point messaging module", "relevant network interfaces"]
        .iter()
        .any(|words| symptom.text.contains(words))
}

/// What Open MPI reports that has no transport to ranks of other nodes, and aborts.
pub(crate) fn is_without_transport(symptom: &Symptom) -> bool {
    symptom.kind == K::BackendFailed && symptom.text.contains("unable to reach each other")
}

/// Open MPI reports of each of its transports that it has no adapter, and then that none is left.
pub(super) fn end_transports(symptoms: &mut [Symptom]) {
    if !symptoms.iter().any(is_without_transport) {
        return;
    }
    for symptom in symptoms.iter_mut() {
        if symptom.kind == K::NoDevice && names_module(symptom) {
            symptom.follows_another();
        }
    }
}

/// libfabric's providers return the error number of missing memory for an endpoint, whatever the adapter was refused for.
pub(super) fn end_endpoint(symptoms: &mut [Symptom]) {
    let is_unopened = |symptom: &&Symptom| {
        symptom.grade == Grade::Failure
            && matches!(symptom.kind, K::OpenFailed | K::NotPermitted)
            && is_of_psm(symptom)
    };
    let unopened = symptoms
        .iter()
        .filter(is_unopened)
        .filter_map(|symptom| symptom.line)
        .min();
    let Some(unopened) = unopened else {
        return;
    };
    let is_repeated = |symptom: &&mut Symptom| {
        symptom.kind == K::NoMemory && symptom.line > Some(unopened) && is_of_endpoint(symptom)
    };
    for symptom in symptoms.iter_mut().filter(is_repeated) {
        symptom.grade = symptom.grade.min(Grade::Secondary);
    }
}

/// A warning of a low memlock limit is the reason where the program then ends and nothing else in the log says why.
pub(super) fn end_by_limit(symptoms: &mut [Symptom]) {
    let has_other = symptoms
        .iter()
        .any(|symptom| symptom.grade == Grade::Failure && !follows(symptom));
    let last = symptoms
        .iter()
        .filter(|symptom| {
            let text = symptom.text.to_ascii_lowercase();
            let ends = ["assert", "abort", "terminat", "exit"]
                .iter()
                .any(|word| text.contains(word));
            symptom.kind == K::JobFailed || symptom.kind == K::Unrecognised && ends
        })
        .filter_map(|symptom| symptom.line)
        .max();
    if has_other {
        return;
    }
    for symptom in symptoms {
        if symptom.kind == K::MemlockWarning && symptom.line < last {
            symptom.grade = Grade::Failure;
        }
    }
}

/// NVSHMEM's functions report why they failed, and their callers that they returned this number (`NVSHMEMX_ERROR_INTERNAL`).
pub(super) fn follow_report(symptoms: &mut [Symptom]) {
    let is_repeated = |symptom: &Symptom| symptom.text.contains("non-zero status: 7 ");
    let reported = symptoms
        .iter()
        .filter(|symptom| symptom.grade == Grade::Failure && !is_repeated(symptom))
        .filter_map(|symptom| symptom.line)
        .min();
    for symptom in symptoms.iter_mut().filter(|symptom| is_repeated(symptom)) {
        if reported.is_some() && symptom.line > reported {
            symptom.follows_another();
        }
    }
}
