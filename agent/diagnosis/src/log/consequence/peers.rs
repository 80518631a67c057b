//! What one end of a connection reports of a failure at the other, and one line of what the next one says in full.

use super::kinds::{ends_communication, is_of_full_target, is_seen_by_peer, may_share_device};
use crate::symptom::{Grade, Symptom, SymptomKind as K};

/// A process or adapter that failed is the reason why its peers wait in vain: what the log reports of it earlier comes first. The end of a
/// process without any consequence for RDMA is left out.
pub(super) fn blame_first(symptoms: &mut Vec<Symptom>) {
    // NIXL's next calls for a peer that is gone find no backend.
    let is_seen =
        |root: K, kind: K| is_seen_by_peer(kind) || root == K::PeerClosed && kind == K::BackendFailed;
    let is_missed = |root: &Symptom| {
        symptoms.iter().any(|symptom| {
            let is_grave = symptom.grade == Grade::Failure || root.kind == K::RankFailed;
            is_seen(root.kind, symptom.kind)
                && is_grave
                && symptom.line > root.line
                && may_share_device(root, symptom)
        })
    };
    let roots = symptoms
        .iter()
        .filter(|root| root.grade >= Grade::Secondary && ends_communication(root.kind) && is_missed(root));
    let first = roots.map(|root| (root.line, root.kind)).min();
    symptoms.retain(|symptom| symptom.kind != K::RankFailed || Some((symptom.line, symptom.kind)) == first);
    let Some((line, kind)) = first else { return };
    for symptom in symptoms {
        if (symptom.line, symptom.kind) == (line, kind) {
            symptom.grade = Grade::Failure;
        } else if symptom.line > line && is_seen(kind, symptom.kind) {
            symptom.follows_another();
        }
    }
}

/// A log of both ends has the refusal of a connection because the target has no room, and the target's own line about what it could not get.
pub(super) fn yield_to_target(symptoms: &mut [Symptom]) {
    let is_short = symptoms.iter().any(|symptom| {
        let of_target = matches!(
            symptom.kind,
            K::NoMemory | K::HostMemory | K::CreateFailed | K::CreateRefused
        );
        of_target && symptom.grade == Grade::Failure
    });
    let refused =
        |symptom: &&mut Symptom| is_short && symptom.kind == K::ResourceLimit && is_of_full_target(symptom);
    for symptom in symptoms.iter_mut().filter(refused) {
        symptom.follows_another();
    }
}

/// An error number alone, in a line that says nothing else, repeats what a line next to it says in full: libfabric prints its own general error
/// above the provider's status.
pub(super) fn yield_to_neighbour(symptoms: &mut [Symptom]) {
    /// The most lines between the two.
    const WITHIN: u64 = 2;
    let says_all = |symptom: &Symptom| {
        symptom.known && symptom.grade == Grade::Failure && matches!(symptom.kind, K::Completion(_))
    };
    let full: Vec<u64> = symptoms
        .iter()
        .filter(|symptom| says_all(symptom))
        .filter_map(|symptom| symptom.line)
        .collect();
    for symptom in symptoms {
        let is_next = symptom
            .line
            .is_some_and(|line| full.iter().any(|at| at.abs_diff(line) <= WITHIN));
        if is_next && !symptom.known && symptom.named.errno.is_some() && symptom.grade > Grade::Secondary {
            symptom.grade = Grade::Secondary;
        }
    }
}
