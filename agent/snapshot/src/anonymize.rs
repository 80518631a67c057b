//! To come.

use crate::Snapshot;

/// To come.
pub fn anonymize(snapshot: &mut Snapshot) {
    snapshot.anonymized = true;
}
