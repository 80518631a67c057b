//! Kinds of symptoms, and what each means.

use serde::{Serialize, Serializer};

use super::completion::{WC_STATUSES, WcStatus};

/// What went wrong, in one word of a bounded vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SymptomKind {
    /// A completion with this `ibv_wc_status`.
    Completion(u8),
    /// Memory could not be registered: ENOMEM.
    RegMrNoMemory,
    /// Memory could not be registered, for another reason or one that the log does not name.
    RegMrFailed,
    /// The adapter has no more room for memory keys.
    ResourceLimit,
    /// A queue pair, completion queue or the like could not be created.
    CreateFailed,
    /// A queue pair could not be connected: EINVAL.
    ConnectInvalid,
    /// A queue pair could not be connected: ENODATA.
    ConnectNoData,
    /// A queue pair could not be connected: ENETUNREACH or EHOSTUNREACH.
    ConnectUnreachable,
    /// A queue pair could not be connected: ETIMEDOUT.
    ConnectTimedOut,
    /// A queue pair could not be connected, for another reason.
    ConnectFailed,
    /// A port has no GID to use.
    NoGid,
    /// The device went away or stopped working.
    DeviceGone,
    /// The device is there but could not be opened.
    OpenFailed,
    /// The job found no RDMA device.
    NoDevice,
    /// The job found no libibverbs.
    NoLibrary,
    /// libibverbs found no provider for a device.
    NoProvider,
    /// The job found no network interface to begin on.
    NoSocketInterface,
    /// The job was told not to use RDMA.
    RdmaDisabled,
    /// The job uses TCP.
    SocketFallback,
    /// The job moves GPU memory through host memory: no path between GPU and NIC.
    GdrDisabled,
    /// The job moves GPU memory through host memory: GPU and NIC are too far apart.
    GdrTooFar,
    /// The peer-memory module lacks the kernel symbol it needs.
    PeerMemorySymbol,
    /// The process may lock little memory.
    MemlockWarning,
    /// The IOMMU refused a transfer.
    IommuFault,
    /// A port went down under the job.
    PortError,
    /// The adapter reported a fatal error.
    DeviceFatal,
    /// A probe did not end in time.
    ProbeTimedOut,
    /// A probe found other bytes than were sent.
    Corrupted,
    /// A probe failed in a way that has no name of its own.
    ProbeFailed,
    /// RDMA works and is slow.
    BandwidthLow,
    /// RDMA works and takes long.
    LatencyHigh,
    /// Another libibverbs call failed.
    CallFailed,
    /// The job gave up; says nothing of why.
    JobFailed,
    /// A collective operation did not end; says nothing of why.
    CollectiveTimeout,
}

/// How much a symptom says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// It follows from another failure.
    Secondary,
    /// Something works less well than it could.
    Degraded,
    /// Something failed.
    Failure,
}

impl Grade {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Secondary => "secondary",
            Self::Degraded => "degraded",
            Self::Failure => "failure",
        }
    }
}

/// Kinds that are no completion, with their ids and what each means.
static OTHERS: [(SymptomKind, &str, Grade, &str); 33] = {
    use Grade::{Degraded, Failure, Secondary};
    use SymptomKind as K;
    [
        (
            K::RegMrNoMemory,
            "reg-mr-no-memory",
            Failure,
            "memory could not be registered: Cannot allocate memory (ENOMEM)",
        ),
        (
            K::RegMrFailed,
            "reg-mr-failed",
            Failure,
            "memory could not be registered",
        ),
        (
            K::ResourceLimit,
            "resource-limit",
            Failure,
            "the adapter's firmware refused a memory key: limits exceeded",
        ),
        (
            K::CreateFailed,
            "create-failed",
            Failure,
            "a queue pair or completion queue could not be created",
        ),
        (
            K::ConnectInvalid,
            "connect-invalid",
            Failure,
            "a queue pair could not be connected: Invalid argument (EINVAL)",
        ),
        (
            K::ConnectNoData,
            "connect-no-data",
            Failure,
            "a queue pair could not be connected: No data available (ENODATA)",
        ),
        (
            K::ConnectUnreachable,
            "connect-unreachable",
            Failure,
            "a queue pair could not be connected: the peer's address is unreachable (ENETUNREACH, EHOSTUNREACH)",
        ),
        (
            K::ConnectTimedOut,
            "connect-timed-out",
            Failure,
            "a queue pair could not be connected: Connection timed out (ETIMEDOUT)",
        ),
        (
            K::ConnectFailed,
            "connect-failed",
            Failure,
            "a queue pair could not be connected",
        ),
        (K::NoGid, "no-gid", Failure, "a port has no GID to use"),
        (
            K::DeviceGone,
            "device-gone",
            Failure,
            "an RDMA device went away or stopped working (ENODEV, EIO)",
        ),
        (
            K::OpenFailed,
            "open-failed",
            Failure,
            "an RDMA device could not be opened",
        ),
        (
            K::NoDevice,
            "no-device",
            Failure,
            "the job found no usable RDMA device",
        ),
        (K::NoLibrary, "no-library", Failure, "the job found no libibverbs"),
        (
            K::NoProvider,
            "no-provider",
            Degraded,
            "libibverbs could not load the provider of a device",
        ),
        (
            K::NoSocketInterface,
            "no-socket-interface",
            Failure,
            "the job found no network interface to begin on",
        ),
        (
            K::RdmaDisabled,
            "rdma-disabled",
            Degraded,
            "the job was told not to use RDMA",
        ),
        (
            K::SocketFallback,
            "socket-fallback",
            Degraded,
            "the job uses TCP instead of RDMA",
        ),
        (
            K::GdrDisabled,
            "gdr-disabled",
            Degraded,
            "GPU memory is copied through host memory: no path between GPU and NIC",
        ),
        (
            K::GdrTooFar,
            "gdr-too-far",
            Degraded,
            "GPU memory is copied through host memory: GPU and NIC are too far apart",
        ),
        (
            K::PeerMemorySymbol,
            "peer-memory-symbol",
            Failure,
            "the peer-memory module cannot load: ib_register_peer_memory_client is not there",
        ),
        (
            K::MemlockWarning,
            "memlock-warning",
            Degraded,
            "libibverbs warns of a low memory-lock limit",
        ),
        (
            K::IommuFault,
            "iommu-fault",
            Failure,
            "the IOMMU refused a transfer",
        ),
        (
            K::PortError,
            "port-error",
            Failure,
            "a port went down under the job",
        ),
        (
            K::DeviceFatal,
            "device-fatal",
            Failure,
            "the adapter reported a fatal error",
        ),
        (
            K::ProbeTimedOut,
            "probe-timed-out",
            Failure,
            "the loopback probe did not end in time",
        ),
        (
            K::Corrupted,
            "corrupted",
            Failure,
            "the bytes that arrived differ from those sent",
        ),
        (
            K::ProbeFailed,
            "probe-error",
            Failure,
            "the loopback probe failed",
        ),
        (
            K::BandwidthLow,
            "bandwidth-low",
            Degraded,
            "RDMA works and is slower than it should be",
        ),
        (
            K::LatencyHigh,
            "latency-high",
            Degraded,
            "RDMA works and takes longer than it should",
        ),
        (K::CallFailed, "call-failed", Failure, "a libibverbs call failed"),
        (K::JobFailed, "job-failed", Secondary, "the job gave up"),
        (
            K::CollectiveTimeout,
            "collective-timeout",
            Secondary,
            "a collective operation did not end in time",
        ),
    ]
};

impl SymptomKind {
    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        let completions = WC_STATUSES.iter().map(|status| Self::Completion(status.number));
        completions.chain(OTHERS.iter().map(|(kind, ..)| *kind))
    }

    fn entry(self) -> Option<&'static (Self, &'static str, Grade, &'static str)> {
        OTHERS.iter().find(|(kind, ..)| *kind == self)
    }

    /// Its name: `IBV_WC_LOC_PROT_ERR`, `reg-mr-no-memory`.
    pub fn id(self) -> &'static str {
        match self {
            Self::Completion(number) => {
                WcStatus::of(number.into()).map_or("IBV_WC_UNKNOWN", |status| status.name)
            }
            other => other.entry().map_or("unknown", |(_, id, ..)| id),
        }
    }

    /// What it means, as part of a sentence or as one.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Completion(number) => WcStatus::of(number.into()).map_or("", |status| status.meaning),
            other => other.entry().map_or("", |(_, _, _, meaning)| meaning),
        }
    }

    /// How much it says.
    pub fn grade(self) -> Grade {
        match self {
            // Flushed since something else failed before.
            Self::Completion(5) => Grade::Secondary,
            Self::Completion(_) => Grade::Failure,
            other => other.entry().map_or(Grade::Secondary, |(_, _, grade, _)| *grade),
        }
    }

    /// The kind with this id; a completion also by its short name or number.
    pub fn named(id: &str) -> Option<Self> {
        let upper = id.to_ascii_uppercase();
        let status = WcStatus::named(&upper).or_else(|| WcStatus::of(id.parse().ok()?));
        let completion = status.map(|status| Self::Completion(status.number));
        completion.or_else(|| {
            OTHERS
                .iter()
                .find(|(_, name, ..)| *name == id)
                .map(|(kind, ..)| *kind)
        })
    }
}

impl std::fmt::Display for SymptomKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Completion(number) => write!(f, "{}({number})", self.id()),
            other => f.write_str(other.id()),
        }
    }
}

impl Serialize for SymptomKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_an_id_of_its_own_and_a_meaning() {
        let kinds: Vec<_> = SymptomKind::all().collect();
        let ids: BTreeSet<_> = kinds.iter().map(|kind| kind.id()).collect();
        assert_eq!(ids.len(), kinds.len());
        for kind in kinds {
            assert_eq!(SymptomKind::named(kind.id()), Some(kind));
            assert!(!kind.meaning().is_empty(), "{kind}");
        }
        assert_eq!(
            SymptomKind::named("loc_prot_err"),
            Some(SymptomKind::Completion(4))
        );
        assert_eq!(SymptomKind::named("12"), Some(SymptomKind::Completion(12)));
        assert_eq!(SymptomKind::named("0"), None);
    }
}
