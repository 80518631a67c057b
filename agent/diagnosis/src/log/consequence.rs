//! Which failures in a log follow from an earlier one.

use rdma_health_protocol::WcStatus;

use crate::symptom::{Grade, Symptom, SymptomKind as K};

/// Marks the failures that follow from an earlier line: the first independent one decides.
pub(super) fn settle(symptoms: &mut [Symptom]) {
    let first = |is_root: fn(&Symptom) -> bool| {
        symptoms
            .iter()
            .filter(|symptom| symptom.grade == Grade::Failure && is_root(symptom))
            .filter_map(|symptom| symptom.line)
            .min()
    };
    let root = first(|symptom| !follows(symptom.kind));
    let setup = first(|symptom| prevents_use(symptom.kind));
    for symptom in symptoms.iter_mut() {
        let after =
            |line: Option<u64>| matches!((line, symptom.line), (Some(root), Some(line)) if line > root);
        let is_consequence =
            follows(symptom.kind) && after(root) || is_without_device(symptom.kind) && after(setup);
        if is_consequence && symptom.grade > Grade::Secondary {
            symptom.grade = Grade::Secondary;
        }
    }
}

/// What a job reports after any other failure.
fn follows(kind: K) -> bool {
    matches!(
        kind,
        K::JobFailed
            | K::PeerClosed
            | K::ExchangeFailed
            | K::ConnectRefused
            | K::CmFailed
            | K::CollectiveTimeout
            | K::BackendFailed
            | K::QueueError
            | K::Completion(WcStatus::WrFlushErr)
    )
}

/// What a program reports that could not use its devices.
fn is_without_device(kind: K) -> bool {
    matches!(
        kind,
        K::NoDevice | K::OpenFailed | K::DeviceAbsent | K::SocketFallback
    )
}

/// What keeps a program from its devices.
fn prevents_use(kind: K) -> bool {
    matches!(
        kind,
        K::ModuleMissing
            | K::ModuleMismatch
            | K::CmUnavailable
            | K::UnsupportedAdapter
            | K::VersionMismatch
            | K::ResourceUnavailable
            | K::NotPermitted
            | K::AdmissionRefused
            | K::AdapterNotStarted
            | K::DeviceFatal
    )
}
