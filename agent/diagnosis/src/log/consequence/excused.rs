//! Failures that show nothing by themselves: after an error that is not of RDMA, of a server whose client left, in a program that goes on without.

use rdma_health_protocol::WcStatus;

use super::super::ended;
use super::kinds::{is_of_server, is_said, is_seen_by_peer, is_without_device};
use crate::symptom::{Grade, Software, Symptom, SymptomKind as K};

/// Lowers what programs report in general after an error that is not of RDMA, if nothing shows a failure of RDMA besides; whether it does.
pub(super) fn is_excused(symptoms: &mut Vec<Symptom>) -> bool {
    /// An exception may come some lines before its reason.
    const BEFORE: u64 = 3;
    let is_other = |symptom: &Symptom| match symptom.kind {
        kind if kind.is_of_other() => true,
        K::RankFailed => ended::is_own_error(&symptom.text.to_ascii_lowercase()),
        _ => false,
    };
    let roots = symptoms.iter().filter(|symptom| is_other(symptom));
    let Some((line, kind)) = roots.map(|root| (root.line, root.kind)).min() else {
        return false;
    };
    let is_general = |symptom: &Symptom| {
        let over_tcp = matches!(kind, K::TcpError | K::GlooError)
            && is_seen_by_peer(symptom.kind)
            && !matches!(symptom.kind, K::Completion(_))
            && symptom.named.device.is_none();
        // What the other ranks see of PyTorch's store, which is in the process that ended.
        let of_store = kind == K::RankFailed && symptom.text.contains("c10d");
        // NCCL's own connection over TCP to the process that ended.
        let of_socket = kind == K::RankFailed
            && symptom.kind == K::PeerClosed
            && symptom.named.device.is_none()
            && symptom.text.contains("ocket");
        // NCCL repeats what failed on a GPU in each of its parts.
        let is_repeated = kind == K::ComputeError
            && symptom.kind == K::Unrecognised
            && symptom.software == Some(Software::Nccl)
            && symptom.named.device.is_none();
        let is_usual = is_repeated || matches!(symptom.kind, K::JobFailed | K::CollectiveTimeout);
        is_usual || over_tcp || of_store || of_socket
    };
    // Ranks write at the same time, each into its own part of the log: those that wait come first where the log is sorted by rank.
    let rank = |symptom: &Symptom| ended::rank(&symptom.text.to_ascii_lowercase());
    let of_rank = symptoms
        .iter()
        .find(|root| root.line == line)
        .filter(|root| !ended::is_interrupt(&root.text.to_ascii_lowercase()))
        .and_then(rank);
    let is_elsewhere = |symptom: &Symptom| {
        let other = rank(symptom);
        other.is_some() && of_rank.is_some() && other != of_rank
    };
    // NCCL's processes also talk over sockets of TCP. What they see of the one that ended may come first: each writes for itself.
    let of_socket = |symptom: &Symptom| {
        kind == K::ComputeError
            && matches!(symptom.kind, K::PeerClosed | K::JobFailed | K::Unrecognised)
            && symptom.named.device.is_none()
            && symptom.text.to_ascii_lowercase().contains("nccl warn socket")
    };
    let follows = |symptom: &Symptom| {
        if of_socket(symptom) {
            return true;
        }
        let is_after = symptom.line.map(|line| line + BEFORE) >= line;
        (is_after || is_elsewhere(symptom)) && (is_general(symptom) || is_other(symptom))
    };
    let is_excused = symptoms
        .iter()
        .all(|symptom| symptom.grade <= Grade::Note || follows(symptom));
    if is_excused {
        symptoms.retain(|symptom| symptom.kind != K::RankFailed);
        for symptom in symptoms {
            symptom.grade = symptom.grade.min(Grade::Note);
        }
    }
    is_excused
}

/// A server of storage flushes what is posted whenever a client disconnects: that alone shows no failure.
pub(super) fn excuse_flushes(symptoms: &mut [Symptom]) {
    let is_flush =
        |symptom: &Symptom| symptom.kind == K::Completion(WcStatus::WrFlushErr) && is_of_server(symptom);
    let is_minor = |symptom: &Symptom| symptom.grade <= Grade::Note || is_flush(symptom);
    if symptoms.iter().all(is_minor) {
        for symptom in symptoms {
            symptom.grade = Grade::Note;
        }
    }
}

/// RCCL warns of a command line without `iommu=pt` on every start, also where the IOMMU translates nothing. The warning is not a lead to a
/// failure that a translation does not cause.
pub(super) fn doubt_passthrough(symptoms: &mut [Symptom]) {
    let may_follow = |symptom: &Symptom| {
        symptom.grade < Grade::Failure
            || matches!(
                symptom.kind,
                K::Completion(WcStatus::LocProtErr | WcStatus::LocAccessErr | WcStatus::RemOpErr)
                    | K::IommuFault
                    | K::Corrupted
            )
    };
    if symptoms.iter().all(may_follow) {
        return;
    }
    for symptom in symptoms {
        if symptom.kind == K::PassthroughMissing {
            symptom.grade = Grade::Note;
        }
    }
}

/// A program that says that it goes on over TCP did without what it complained of before.
pub(super) fn go_on_without(symptoms: &mut [Symptom]) {
    let said = symptoms
        .iter()
        .filter(|symptom| symptom.kind == K::SocketFallback && is_said(symptom));
    let Some(line) = said.filter_map(|symptom| symptom.line).max() else {
        return;
    };
    for symptom in symptoms {
        let is_before = symptom.line.is_some() && symptom.line <= Some(line);
        if is_before && is_without_device(symptom.kind) && symptom.kind != K::SocketFallback {
            symptom.follows_another();
        }
    }
}
