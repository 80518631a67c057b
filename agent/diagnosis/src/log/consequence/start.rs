//! Why a connection, or the use of an adapter, could not begin: what follows from it names no reason.

use super::kinds::{is_local, is_of_psm, is_of_server, is_refusal, is_without_device};
use crate::symptom::{Grade, Symptom, SymptomKind as K};

/// The lines that say why.
#[derive(Debug)]
pub(super) struct Start {
    /// A server could not do its part. Its part of the log may come after that of its client.
    served: bool,
    /// `rdma_cm` found no device for an address, so that there is none to ask.
    unresolved: Option<u64>,
    /// PSM got no context of the adapter.
    context: Option<u64>,
}

impl Start {
    pub(super) fn of(symptoms: &[Symptom]) -> Self {
        let failed = || symptoms.iter().filter(|symptom| symptom.grade >= Grade::Failure);
        let context = failed().filter(|symptom| prevents_context(symptom.kind) && is_of_psm(symptom));
        let unresolved = failed().filter(|symptom| symptom.kind == K::AddressUnresolved);
        Self {
            served: failed().any(|symptom| is_local(symptom.kind) && is_of_server(symptom)),
            unresolved: unresolved.filter_map(|symptom| symptom.line).min(),
            context: context.filter_map(|symptom| symptom.line).min(),
        }
    }

    /// Whether a failure follows from one of them.
    pub(super) fn explains(&self, symptom: &Symptom) -> bool {
        let after = |line: Option<u64>| line.is_some() && symptom.line > line;
        let is_open = || symptom.kind == K::OpenFailed && symptom.named.errno.is_none();
        is_refusal(symptom.kind) && self.served && !is_of_server(symptom)
            || after(self.unresolved) && is_open()
            // PSM opens a unit and creates its queues in one step, and the library above it then finds no network.
            || after(self.context) && is_without_device(symptom.kind) && is_of_psm(symptom)
    }
}

fn prevents_context(kind: K) -> bool {
    matches!(
        kind,
        K::CreateFailed
            | K::CreateUnexplained
            | K::ResourceLimit
            | K::CreateRefused
            | K::CommandRefused
            | K::RegMrNoMemory
    )
}
