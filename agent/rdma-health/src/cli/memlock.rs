//! The memlock limit of this process, which the job's processes inherit.

use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::{CapabilitySet, capabilities},
};

/// Raises the limit to unlimited with the privilege for it, otherwise to the hard limit: libraries that register more memory
/// than the limit fail with ENOMEM. Returns the bytes to which it stays limited.
pub(super) fn raise() -> Option<u64> {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    if setrlimit(Resource::Memlock, unlimited).is_ok() {
        return None;
    }
    let limit = getrlimit(Resource::Memlock);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    match setrlimit(Resource::Memlock, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

/// Whether the limit does not apply to this process.
pub(super) fn is_exempt() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
}
