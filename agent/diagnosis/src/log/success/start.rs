//! What a library complained of at the start of a job that then did its work.

use super::{Successes, is_later};
use crate::symptom::{Grade, Software, Symptom, SymptomKind as K};

/// Whether a library reports it while it looks for the adapters and transports that it can use.
pub(in crate::log) fn is_of_start(kind: K) -> bool {
    matches!(
        kind,
        K::PortNotActive
            | K::SettingUnmatched
            | K::DeviceAbsent
            | K::OpenFailed
            | K::NoDevice
            | K::NoLibrary
            | K::NoProvider
            | K::VersionMismatch
            | K::BackendMissing
            | K::BackendFailed
            | K::RdmaDisabled
            | K::SocketFallback
    )
}

/// Whether the library of a launcher reports it, which starts the processes of a node in the same way as those of several.
fn is_of_launcher(symptom: &Symptom) -> bool {
    let is_of_mpi = matches!(
        symptom.software,
        Some(Software::OpenMpi | Software::Mpi | Software::Ucx)
    );
    is_of_mpi
        || symptom.text.contains("Open MPI")
        || symptom.kind == K::PortNotActive
        || symptom.kind == K::VersionMismatch
}

impl Successes {
    /// Lowers what a library complained of at the start of a job that did its work afterwards. It counts only as a job without RDMA, and not
    /// at all if the job had RDMA, or needed none within its node.
    pub(super) fn outlast(&self, symptom: &mut Symptom) {
        if !is_of_start(symptom.kind) {
            return;
        }
        let worked = is_later(self.finished.max(self.went_on), symptom);
        // MPI has a way to the other ranks, whatever it said of this one.
        let is_left_out = matches!(symptom.kind, K::PortNotActive | K::NoDevice)
            && is_of_launcher(symptom)
            && is_later(self.started.max(self.replaced), symptom);
        if !worked && !is_left_out {
            return;
        }
        let is_local =
            self.one_node || self.one_host && is_of_launcher(symptom) && !self.is_replaced(symptom);
        let most = if self.transport.is_some() || is_local {
            Grade::Note
        } else {
            Grade::Degraded
        };
        symptom.grade = symptom.grade.min(most);
    }

    /// Whether nothing but the promise of another transport follows, which may be slower.
    fn is_replaced(&self, symptom: &Symptom) -> bool {
        is_later(self.replaced, symptom)
            && !is_later(self.finished.max(self.went_on).max(self.started), symptom)
    }
}
