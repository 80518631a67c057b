//! Failures of a library before and after the one that ended the program.

use super::{
    super::foreign::is_of_gpu_memory,
    kinds::{is_local, is_of_lower_layer, is_of_no_part, is_of_psm, is_unselected},
};
use crate::symptom::{Grade, Software, Symptom, SymptomKind as K};

/// The first line of a failure that is one of those.
fn first(symptoms: &[Symptom], is_one: fn(&Symptom) -> bool) -> Option<u64> {
    let ones = symptoms
        .iter()
        .filter(|symptom| symptom.grade == Grade::Failure && is_one(symptom));
    ones.filter_map(|symptom| symptom.line).min()
}

/// Intel MPI finds no fabric where PSM did not open the adapter.
pub(super) fn end_fabric(symptoms: &mut [Symptom]) {
    let opened = first(symptoms, |symptom| {
        symptom.kind == K::OpenFailed && is_of_psm(symptom)
    });
    for symptom in symptoms {
        let is_after = opened.is_some() && symptom.line > opened;
        if is_after && symptom.kind == K::NoDevice && is_of_psm(symptom) {
            symptom.follows_another();
        }
    }
}

/// The first line of a registration that fails has no reason, and one of the next lines has it: the first one does not count as another failure.
pub(super) fn precede_reason(symptoms: &mut [Symptom]) {
    /// The most lines between the two.
    const WITHIN: u64 = 3;
    let Some(reason) = first(symptoms, |symptom| symptom.kind == K::RegMrNoMemory) else {
        return;
    };
    for symptom in symptoms {
        let is_before = symptom
            .line
            .is_some_and(|line| line < reason && reason <= line + WITHIN);
        if symptom.kind == K::RegMrFailed && symptom.named.errno.is_none() && is_before {
            symptom.follows_another();
        }
    }
}

/// RDMA in software logs why it did not register memory, next to the program, which has no reason. Then it is the failure, and no warning.
pub(super) fn follow_module(symptoms: &mut [Symptom]) {
    /// The most lines between the two.
    const WITHIN: u64 = 5;
    let is_reason = |symptom: &Symptom| symptom.kind == K::DriverWarned && is_of_software_rdma(symptom);
    let Some(reason) = symptoms.iter().position(is_reason) else {
        return;
    };
    let line = symptoms[reason].line;
    let is_next = |symptom: &Symptom| {
        let is_near =
            matches!((line, symptom.line), (Some(one), Some(other)) if one.abs_diff(other) <= WITHIN);
        symptom.kind == K::RegMrFailed && symptom.named.errno.is_none() && is_near
    };
    let mut found = false;
    for symptom in symptoms.iter_mut().filter(|symptom| is_next(symptom)) {
        symptom.follows_another();
        found = true;
    }
    if found {
        symptoms[reason].grade = Grade::Failure;
    }
}

/// Whether a module of RDMA in software wrote a line by its own name: `rdma_rxe: null vaddr`.
fn is_of_software_rdma(symptom: &Symptom) -> bool {
    ["rdma_rxe: ", "siw: "]
        .iter()
        .any(|name| symptom.text.contains(name))
}

/// A framework that could not send its data repeats what the transport below it reported, which was TCP or memory that processes share.
pub(super) fn end_transfer(symptoms: &mut [Symptom]) {
    let of_tcp = symptoms
        .iter()
        .filter(|symptom| matches!(symptom.kind, K::TcpError | K::SharedMemory) || is_of_gpu_memory(symptom));
    let Some(failed) = of_tcp.filter_map(|symptom| symptom.line).min() else {
        return;
    };
    let is_other = |symptom: &Symptom| {
        symptom.grade == Grade::Failure
            && !matches!(symptom.kind, K::TcpError | K::BackendFailed)
            && !is_of_gpu_memory(symptom)
    };
    if symptoms.iter().any(is_other) {
        return;
    }
    for symptom in symptoms {
        let text = symptom.text.to_ascii_lowercase();
        let is_report = [
            "kv chunk",
            "transfer fail",
            "kvtransfererror",
            "ucx function returned",
        ]
        .iter()
        .any(|words| text.contains(words));
        if symptom.kind == K::BackendFailed && is_report && symptom.line > Some(failed) {
            symptom.grade = Grade::Note;
        }
    }
}

/// UCX gives up an endpoint after a request that failed on it, and makes none without memory.
pub(super) fn end_endpoint_of_ucx(symptoms: &mut [Symptom]) {
    let completed = first(symptoms, |symptom| matches!(symptom.kind, K::Completion(_)));
    let memory = first(symptoms, |symptom| symptom.kind == K::HostMemory);
    for symptom in symptoms {
        let after = |line: Option<u64>| line.is_some() && symptom.line > line;
        let is_end = symptom.kind == K::PeerUnreachable
            && symptom.text.contains("ndpoint timeout")
            && after(completed)
            || symptom.kind == K::NoMemory && symptom.text.contains("ucp_ep_create") && after(memory);
        if is_end {
            symptom.follows_another();
        }
    }
}

/// UCX makes no worker or context after a part of it failed that it often does without: its last word does not say why.
pub(super) fn end_worker_of_ucx(symptoms: &mut [Symptom]) {
    let is_end = |symptom: &Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        symptom.kind == K::BackendFailed
            && ["failed to create ucp worker", "failed to create ucp context"]
                .iter()
                .any(|words| text.contains(words))
    };
    let Some(ended) = symptoms.iter().position(is_end) else {
        return;
    };
    let line = symptoms[ended].line;
    let is_reason = |symptom: &&mut Symptom| {
        symptom.known
            && symptom.software == Some(Software::Ucx)
            && symptom.kind != K::BackendFailed
            && symptom.kind.grade() == Grade::Failure
            && symptom.grade >= Grade::Degraded
            && symptom.line < line
    };
    if let Some(reason) = symptoms.iter_mut().find(is_reason) {
        reason.grade = Grade::Failure;
        symptoms[ended].follows_another();
    }
}

/// libfabric's provider for EFA makes an address handle for its own endpoint when it enables it: that call repeats why the handle could not be made.
pub(super) fn end_own_address(symptoms: &mut [Symptom]) {
    let refused = first(symptoms, |symptom| {
        let text = symptom.text.to_ascii_lowercase();
        ["create_ah", "create ah", "address handle"]
            .iter()
            .any(|words| text.contains(words))
    });
    for symptom in symptoms {
        let text = symptom.text.to_ascii_lowercase();
        let is_call = ["fi_enable", "create ah for its own"]
            .iter()
            .any(|words| text.contains(words));
        if refused.is_some() && symptom.line > refused && is_call {
            symptom.follows_another();
        }
    }
}

/// UCX warns of a transport that a setting names and that it does not have, and goes on: a queue that it cannot create later ends the program.
pub(super) fn pass_over(symptoms: &mut [Symptom]) {
    let Some(ended) = first(symptoms, |symptom| {
        matches!(
            symptom.kind,
            K::CreateFailed | K::ResourceLimit | K::CreateRefused | K::CommandRefused
        )
    }) else {
        return;
    };
    for symptom in symptoms {
        let is_before = symptom.line.is_some_and(|line| line < ended);
        let is_warning =
            symptom.kind == K::BackendMissing && symptom.text.contains("' is not available, please use");
        if is_before && is_warning {
            symptom.follows_another();
        }
    }
}

/// The client of SRP tries again after most rejections of its login, and reports a connection that failed in the end. libfabric's `ofi_rxm` rejects one of two
/// connections that its ends open at the same time, and informs about it. A rejection alone shows no failure.
pub(super) fn doubt_rejection(symptoms: &mut [Symptom]) {
    let is_rejection = |symptom: &Symptom| {
        let of_rxm = || symptom.text.contains(":ofi_rxm:") && symptom.text.contains("fi_eq_readerr");
        symptom.kind == K::ConnectRefused && (symptom.text.contains("ib_srp: REJ received") || of_rxm())
    };
    if symptoms
        .iter()
        .any(|symptom| symptom.grade > Grade::Unrecognised && !is_rejection(symptom))
    {
        return;
    }
    for symptom in symptoms.iter_mut().filter(|symptom| is_rejection(symptom)) {
        symptom.grade = symptom.grade.min(Grade::Unrecognised);
    }
}

/// The driver of mlx5 changes the keys of memory regions with its own work requests (UMR). A completion that fails for one of these is not that of a program.
pub(super) fn end_own_work(symptoms: &mut [Symptom]) {
    /// Number of lines between the completion and what the driver says of it.
    const WITHIN: u64 = 12;
    let refused = first(symptoms, |symptom| {
        symptom.kind == K::CommandRefused
            && ["umr", "pagefault_"]
                .iter()
                .any(|name| symptom.text.contains(name))
    });
    for symptom in symptoms {
        let is_just_before =
            refused.is_some_and(|at| symptom.line.is_some_and(|line| line < at && at <= line + WITHIN));
        if matches!(symptom.kind, K::Completion(_)) && is_just_before {
            symptom.follows_another();
        }
    }
}

/// Open MPI says that it leaves a transport out, or that none of its parts could be used, after the library below, or the transport itself, reported why.
pub(super) fn end_parts(symptoms: &mut [Symptom]) {
    let complained = symptoms
        .iter()
        .filter(|symptom| symptom.grade >= Grade::Unrecognised && is_of_lower_layer(symptom))
        .filter_map(|symptom| symptom.line)
        .min();
    let local = first(symptoms, |symptom| is_local(symptom.kind));
    for symptom in symptoms {
        let is_after = |line: Option<u64>| line.is_some() && symptom.line > line;
        let is_left_out =
            symptom.kind == K::RdmaDisabled && symptom.software == Some(Software::OpenMpi) && is_after(local);
        let is_general = is_of_no_part(symptom) || is_unselected(symptom);
        if is_left_out || is_general && is_after(complained) {
            symptom.follows_another();
        }
    }
}
