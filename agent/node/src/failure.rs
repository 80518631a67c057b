//! Why a probe failed.

use rdma_health_protocol::{Errno, ProbeFailure};

use crate::node::Probe;

impl Probe {
    /// Why it failed. `None` if it passed, or did not run because its port was busy, inactive or missing.
    pub fn failure(&self) -> Option<&ProbeFailure> {
        let failure = self.report.failure.as_ref();
        failure.filter(|failure| !failure.is_not_probed())
    }
}

/// A failure as text: `IBV_WC_LOC_PROT_ERR(4) vendor_err=0x51`.
pub fn in_words(failure: &ProbeFailure) -> String {
    match failure {
        ProbeFailure::Errno { errno, name } => format!("{name} ({errno})"),
        ProbeFailure::Placement { errno, name } => {
            let why = match Errno(*errno) {
                Errno::EPERM => {
                    "; a filter of system calls refuses it, as the default seccomp profile of containerd and Docker does \
                     without CAP_SYS_NICE: use a verbs helper that is privileged, or run this on the host"
                }
                Errno::EINVAL => "; the verbs helper's cpuset does not allow this node, or it has no memory",
                Errno::ENOSYS => "; this kernel has no NUMA support",
                _ => "",
            };
            format!("memory of the NUMA node could not be chosen: mbind failed with {name} ({errno}){why}")
        }
        ProbeFailure::Completion(completion) => {
            format!(
                "{}({}) vendor_err={:#x}",
                completion.name, completion.status, completion.vendor_error
            )
        }
        ProbeFailure::TimedOut => "the time budget is exhausted".into(),
        ProbeFailure::Silent { arrived: 0 } => "no packet arrived from the other end".into(),
        ProbeFailure::Silent { arrived } => {
            format!("only the first {arrived} bytes arrived from the other end")
        }
        ProbeFailure::Busy { bytes_per_second } => format!("the port carries {bytes_per_second} bytes/s"),
        ProbeFailure::NotActive { state } => format!("the port's state is {state}, not ACTIVE"),
        ProbeFailure::NoGid => "the port has no usable GID".into(),
        ProbeFailure::Corrupted { offset } => {
            format!("the received bytes differ from offset {offset} on")
        }
        ProbeFailure::NoSuchPort => "device or port not found".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_choice_of_memory_says_who_refuses_it() {
        let words = |errno, name: &str| {
            in_words(&ProbeFailure::Placement {
                errno,
                name: name.into(),
            })
        };
        let refused = words(1, "EPERM");
        assert!(
            refused.contains("mbind failed with EPERM (1)") && refused.contains("seccomp"),
            "{refused}"
        );
        assert!(!words(12, "ENOMEM").contains("seccomp"));
    }
}
