//! What each kind of failure can be a consequence of, and what can follow from it.

use rdma_health_protocol::WcStatus;

use super::super::grade::{Level, level};
use crate::symptom::{Software, Symptom, SymptomKind as K};

/// Whether a node of the fabric did not answer a scan, over a path of several hops: `DR path slid 0; dlid 0; 0,1,10,19`.
pub(super) fn is_of_scan(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    symptom.kind == K::PeerUnreachable && lower.contains("dr path") && lower.contains("; 0,")
}

/// The driver of an adapter says that this one has no RDMA: no failure by itself, where another adapter is the one for the job.
pub(super) fn is_without_rdma(symptom: &Symptom) -> bool {
    symptom.kind == K::UnsupportedAdapter && symptom.text.contains("RoCE is not supported on this device")
}

/// Whether two symptoms can be about one device.
pub(super) fn may_share_device(one: &Symptom, other: &Symptom) -> bool {
    match (&one.named.device, &other.named.device) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

/// What ends the communication of a process or of an adapter with all peers.
pub(super) fn ends_communication(kind: K) -> bool {
    matches!(
        kind,
        K::RankFailed | K::PeerClosed | K::PortError | K::GidChanged | K::DeviceFatal | K::DeviceStalled
    )
}

/// What a peer sees that waits for an answer.
pub(super) fn is_seen_by_peer(kind: K) -> bool {
    matches!(
        kind,
        K::Completion(
            WcStatus::RetryExcErr
                | WcStatus::RnrRetryExcErr
                | WcStatus::RespTimeoutErr
                | WcStatus::RemOpErr
                | WcStatus::WrFlushErr
        ) | K::PeerUnreachable
            | K::PeerClosed
            | K::ExchangeFailed
            | K::ConnectRefused
            | K::CollectiveTimeout
            | K::NoListener
    )
}

/// What a job reports after any other failure. A failure without a reason follows from one with a reason.
pub(super) fn follows(symptom: &Symptom) -> bool {
    let is_unexplained = matches!(symptom.kind, K::ConnectFailed | K::CreateUnexplained)
        && symptom.named.errno.is_none()
        || symptom.kind == K::RegMrFailed
            && symptom.named.errno.is_none()
            && (symptom.named.gpu.is_none() || is_of_pool(symptom));
    // NVSHMEM repeats it of the transport, whatever failed before.
    let is_repeated =
        symptom.kind == K::GpuDoorbellFailed && symptom.text.contains("init failed for transport");
    is_unexplained || is_repeated || is_report(symptom.kind)
}

/// Whether UCX repeats that it could not fill a pool, of buffers or of queues, after the reason: `Failed to allocate memory pool (name=x) chunk`.
fn is_of_pool(symptom: &Symptom) -> bool {
    symptom.text.contains("memory pool")
}

/// What perftest reports if the other end closed the connection over which they exchange addresses.
pub(super) fn is_of_exchange(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    [
        "read remote address",
        "read/write remote address",
        "socket/rdma_cm",
    ]
    .iter()
    .any(|words| lower.contains(words))
}

/// What a process could not do by itself, without its peer.
pub(super) fn is_local(kind: K) -> bool {
    matches!(
        kind,
        K::RegMrFailed
            | K::RegMrNoMemory
            | K::CreateFailed
            | K::CreateRefused
            | K::CreateUnexplained
            | K::ResourceLimit
            | K::ConnectFailed
            | K::ConnectInvalid
            | K::InitRefused
            | K::RtsRefused
            | K::AddressUnresolved
            | K::NoGid
    )
}

/// What a client sees of a server that could not do its part.
pub(super) fn is_refusal(kind: K) -> bool {
    matches!(
        kind,
        K::ConnectRefused | K::PeerClosed | K::CmFailed | K::ExchangeFailed | K::NoListener
    )
}

/// What a client of storage in the kernel reports that reaches no server.
pub(super) fn is_unreached(symptom: &Symptom) -> bool {
    symptom.software == Some(Software::KernelStorage)
        && matches!(
            symptom.kind,
            K::ConnectUnreachable
                | K::ConnectTimedOut
                | K::AddressUnresolved
                | K::RouteUnresolved
                | K::PeerUnreachable
        )
}

/// Whether the library of Omni-Path, PSM3 or what calls it reports it.
pub(super) fn is_of_psm(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    [
        "psm",
        "hfi_",
        "hfp_",
        "hfi unit",
        "ipath",
        "fabric is not available",
    ]
    .iter()
    .any(|name| lower.contains(name))
}

/// Whether libfabric did not make an endpoint, by its own words or those of MPI.
pub(super) fn is_of_endpoint(symptom: &Symptom) -> bool {
    ["OFI endpoint", "fi_scalable_ep", "fi_endpoint"]
        .iter()
        .any(|words| symptom.text.contains(words))
}

/// Whether a program says itself that it goes on over TCP.
pub(super) fn is_said(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    ["with tcp", "to tcp", "tcp instead"]
        .iter()
        .any(|words| lower.contains(words))
}

/// Whether a server of storage reports it.
pub(super) fn is_of_server(symptom: &Symptom) -> bool {
    const SERVERS: [&str; 9] = [
        "nvmf_",
        "nvmf.c",
        "nvmet",
        "isert",
        "srpt",
        "svcrdma",
        "svc_rdma",
        "smb_direct",
        "_target",
    ];
    let lower = symptom.text.to_ascii_lowercase();
    SERVERS.iter().any(|name| lower.contains(name))
}

/// What programs report of a failure that happened elsewhere.
fn is_report(kind: K) -> bool {
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
            | K::QueueFatal
            | K::Completion(WcStatus::WrFlushErr)
    )
}

/// What a program reports that could not use its devices.
pub(super) fn is_without_device(kind: K) -> bool {
    matches!(
        kind,
        K::NoDevice | K::OpenFailed | K::DeviceAbsent | K::SocketFallback
    )
}

/// What a program reports whose plugin could not be loaded: it finds neither the network that the plugin offers nor another one.
pub(super) fn is_without_plugin(symptom: &Symptom) -> bool {
    is_without_device(symptom.kind)
        || matches!(symptom.kind, K::SettingUnmatched | K::RegMrFailed) && symptom.named.errno.is_none()
}

/// What Open MPI reports of the only part that the job may use, after what that part reports itself: `PML ucx cannot be selected`.
pub(super) fn is_unselected(symptom: &Symptom) -> bool {
    symptom.kind == K::NoDevice && symptom.text.contains("cannot be selected")
}

/// Whether Open MPI says in general that none of its parts could be used. A library that one of them loaded, and that complained before, had been found.
pub(super) fn is_of_no_part(symptom: &Symptom) -> bool {
    symptom.kind == K::BackendMissing
        && symptom
            .text
            .to_ascii_lowercase()
            .contains("no components were able to be opened")
}

/// Whether a library below Open MPI reports an error by itself, known or not.
pub(super) fn is_of_lower_layer(symptom: &Symptom) -> bool {
    let is_of_library = matches!(symptom.software, Some(Software::Ucx | Software::Libfabric));
    let is_error = symptom.kind != K::Unrecognised || level(&symptom.text) == Some(Level::Error);
    symptom.kind == K::BackendFailed || is_of_library && is_error
}

/// What Open MPI reports of a part that it cannot use, whatever the reason.
pub(super) fn is_left_out(symptom: &Symptom) -> bool {
    symptom.software == Some(Software::OpenMpi)
        && matches!(
            symptom.kind,
            K::BackendMissing | K::BackendFailed | K::AddressUnresolved
        )
}

/// Why a driver does not start an adapter. Its driver may report it before or after it gives up.
pub(super) fn prevents_start(kind: K) -> bool {
    matches!(
        kind,
        K::FirmwareMissing
            | K::FirmwareMismatch
            | K::PciRoom
            | K::HostMemory
            | K::ResourceLimit
            | K::DeviceFatal
            | K::DeviceStalled
            | K::PciFault
            | K::CommandRefused
    )
}

/// A change of a queue pair that failed, for which the program only warns and names no reason.
pub(super) fn is_warned_attribute(symptom: &Symptom) -> bool {
    symptom.kind == K::ConnectFailed
        && symptom.named.errno.is_none()
        && symptom.named.transition.is_none()
        && level(&symptom.text) == Some(Level::Warning)
}

/// What the service or the container that loads modules reports in general: `Loading HCA driver and Access Layer: [FAILED]`, `failed to load
/// nvidia-peermem module`.
pub(super) fn is_start(symptom: &Symptom) -> bool {
    let lower = symptom.text.to_ascii_lowercase();
    match symptom.kind {
        K::ModuleMismatch | K::ModuleMissing => lower.contains("[failed]"),
        K::PeerMemoryError => lower.contains("failed to load nv"),
        _ => false,
    }
}

/// Why modules of the RDMA stack could not be loaded or replaced.
pub(super) fn keeps_modules_out(symptom: &Symptom) -> bool {
    matches!(
        symptom.kind,
        K::ModuleUnsigned | K::ModuleMismatch | K::ModuleInUse | K::DriverNotBuilt | K::PeerMemorySymbol
    )
}

/// What keeps a program from its devices.
pub(super) fn prevents_use(kind: K) -> bool {
    matches!(
        kind,
        K::ModuleMissing
            | K::ModuleMismatch
            | K::CmUnavailable
            | K::UnsupportedAdapter
            | K::VersionMismatch
            | K::ResourceUnavailable
            | K::NotPermitted
            | K::NoVirtualNetwork
            | K::AdmissionRefused
            | K::AdapterNotStarted
            | K::DeviceFatal
            | K::DmaBufUnsupported
    )
}

/// A target refused a connection of a host because it has no room for another one.
pub(super) fn is_of_full_target(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    ["rej reason 0x3", "resource not found"]
        .iter()
        .any(|words| text.contains(words))
}

/// The kernel reports a processor that does not leave a function.
pub(super) fn is_of_wait(symptom: &Symptom) -> bool {
    ["lockup", "stall"].iter().any(|word| symptom.text.contains(word))
}
