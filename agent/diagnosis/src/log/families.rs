//! Messages of known programs that name neither a verbs operation nor a status: one row for each.
//!
//! A row is the least text that identifies the message: all its phrases, in lower case, in any order. The first row that matches
//! applies, so a row with more phrases comes before one with fewer.

mod about;
mod adapters;
mod collectives;
mod hpc;
mod kernel;
mod kubernetes;
mod libraries;
mod plain;
mod storage;
mod tools;

use std::sync::LazyLock;

use super::{
    attach, cluster, codes, compile, components, fabric, grammar, install, launch,
    line::number,
    operator,
    phrases::{Occurrence, Phrases},
    pods, scripts, services, vfio,
};
use crate::symptom::SymptomKind::{self as K};

/// The phrases of a message, and what it shows.
pub(super) type Row = (&'static [&'static str], K);

/// NCCL, RCCL and their plugins.
const NCCL: &[Row] = &[
    (&["could not find any optimal provider"], K::NoDevice),
    (&["fi_getinfo", "provider efa output empty list"], K::NoDevice),
    // ENODATA: no provider fits what the program needs.
    (&["fi_getinfo", "-61"], K::NoDevice),
    (&["fi_getinfo", "no data available"], K::NoDevice),
    (&["fi_getinfo", "enodata"], K::NoDevice),
    (&["fi_info", "no data available"], K::NoDevice),
    (&["fi_getinfo", "providers 0"], K::NoDevice),
    (&["ofi addrinfo", "no data available"], K::NoDevice),
    // Error codes of HCCL, the library of Huawei's Ascend.
    (&["ei0002:"], K::CollectiveTimeout),
    (&["ei0006:"], K::PeerUnreachable),
    (&["ei0009:"], K::PeerUnreachable),
    (&["ei0013"], K::PeerUnreachable),
    (&["hccl", "socket establish timeout"], K::PeerUnreachable),
    (&["provider verbs output empty list"], K::NoDevice),
    // NCCL's failover between the devices of a rank.
    (&["net/ib", "failed devices out of"], K::PeerUnreachable),
    (
        &["net/ib", "the error is fatal", "cannot continue"],
        K::PeerUnreachable,
    ),
    (&["maximum number of probing attempts"], K::PeerUnreachable),
    (&["could not find a functional device"], K::PeerUnreachable),
    (&["could not find a replacement qp"], K::PeerUnreachable),
    (&["net/ib", "got cqe with error"], K::JobFailed),
    (
        &["async fatal event on qp", "invalid request local"],
        K::QueueError,
    ),
    (&["posted incorrect receive info"], K::PostRefused),
    // The ranks called the operation with different sizes, or the writes arrived out of order.
    (&["collective mismatch error"], K::PeerDiffers),
    (&["ej0003:"], K::AddressInUse),
    (&["no device found", "net/ib"], K::NoDevice),
    (&["no device found", "net/gib"], K::NoDevice),
    // A plugin of NCCL, by its own name.
    (&["no device found", "nccl info"], K::NoDevice),
    (&["unable to open device"], K::OpenFailed),
    (&["failed to open libibverbs"], K::NoLibrary),
    (&["no socket interface found"], K::NoSocketInterface),
    (&["no ip interface found"], K::NoSocketInterface),
    (&["no interface found in the same subnet"], K::NoSocketInterface),
    (&["ncclsocketinit", "family"], K::NoSocketInterface),
    // NCCL's communication that a GPU starts (GIN), over the adapter's own doorbells.
    (&["gdaki", "doca failure"], K::GpuDoorbellFailed),
    (
        &["gdaki", "failed: function not implemented"],
        K::GpuDoorbellFailed,
    ),
    (&["gdaki", "create_cq/qp failed"], K::GpuDoorbellFailed),
    (&["gin is unavailable"], K::GpuDoorbellFailed),
    // An assertion of a program that needs it: `props.ginType != NCCL_GIN_TYPE_NONE`.
    (&["!= nccl_gin_type_none"], K::GpuDoorbellFailed),
    (&["nccl_gin_type", "assert"], K::GpuDoorbellFailed),
    // The verbs of DOCA, which it uses for its queues.
    (
        &["doca_verbs_", "return error doca_error_driver"],
        K::CommandRefused,
    ),
    // NCCL_ALGO or NCCL_PROTO leave nothing for this job.
    (&["no algorithm/protocol available"], K::SettingUnmatched),
    (&["_gin_init", "failed"], K::GpuDoorbellFailed),
    (&["gin", "failed to initialize gdrcopy"], K::GpuDoorbellFailed),
    (&["no usable listening interface"], K::NoSocketInterface),
    (&["gpu direct rdma disabled", "distance "], K::GdrTooFar),
    (&["gpu direct rdma disabled"], K::GdrDisabled),
    (&["using network socket"], K::SocketFallback),
    (&["selected provider is tcp"], K::SocketFallback),
    (&["selected provider is sockets"], K::SocketFallback),
    (&["selected provider is udp"], K::SocketFallback),
    (&["via net/socket"], K::SocketFallback),
    (
        &["attempted to connect incompatible devices"],
        K::ConnectIncompatible,
    ),
    (&["marked as failed", "initiating recovery"], K::PortError),
    (&["caught collective operation timeout"], K::CollectiveTimeout),
    (
        &["watchdog", "collective operation timeout"],
        K::CollectiveTimeout,
    ),
    (&["ncclsystemerror"], K::JobFailed),
    (&["ncclremoteerror"], K::JobFailed),
    (&["unhandled system error"], K::JobFailed),
    (&["nccl error", "remote process exited"], K::JobFailed),
    (&["connection closed by remote peer"], K::PeerClosed),
    (&["net/ofi", "only efa provider is supported"], K::NoDevice),
    (&["net/ofi", "no eligible providers were found"], K::NoDevice),
    (&["net/ofi", "unable to find a protocol that worked"], K::NoDevice),
    (&["net/ofi", "failed to initialize", "protocol"], K::NoDevice),
    (&["net/ofi", "completed with error"], K::PeerUnreachable),
    (&["couldn't get efa as provider"], K::NoDevice),
    // ENOPROTOOPT: the provider that was chosen in place of EFA does not have the option.
    (&["nccl warn net/ofi", "protocol not available"], K::NoDevice),
    (
        &["requested capabilities", "not supported"],
        K::UnsupportedAdapter,
    ),
    (&["requested capabilities", "unsupported"], K::UnsupportedAdapter),
    // NCCL reads the places of the adapters and GPUs from sysfs, and ends without it.
    (
        &["nccl warn", "could not find real path of /sys/"],
        K::BackendFailed,
    ),
    // A file of a topology, or what it reads of this machine in /sys.
    (&["nccl warn attribute "], K::BackendFailed),
    // NCCL_NET names it.
    (&["nccl warn", "network", "not found"], K::SettingUnmatched),
    (&["failed to initialize any net plugin"], K::NoDevice),
    // Another program, or another job, answered.
    // A process of the same job, as its magic number shows, that expected another kind of connection.
    (&["nccl warn", "wrong type"], K::PeerDiffers),
    (&["nccl warn", "wrong magic"], K::ExchangeFailed),
    (&["sharp coll init error"], K::SharpUnavailable),
    (&["sharp_get_job", "failed"], K::SharpUnavailable),
    (&["sharp_create_job", "failed"], K::SharpUnavailable),
    (&["sharpd_op_", "failed"], K::SharpUnavailable),
    (&["sharp", "job init error"], K::SharpUnavailable),
    (&["no aggregation manager"], K::SharpUnavailable),
    (&["collect_ports_data", "valid"], K::SharpUnavailable),
    (&["sharp_", "error"], K::SharpUnavailable),
    (&["sharp_", "failed"], K::SharpUnavailable),
    (&["sharp group", "failed"], K::SharpUnavailable),
];

/// UCX, NVSHMEM, Mooncake, NIXL and others that move GPU memory.
const GPU_LIBRARIES: &[Row] = &[
    (&["neither nv_peer_mem", "peermem"], K::GdrDisabled),
    (&["ibgda", "unable to map", "nic"], K::GpuDoorbellFailed),
    (&["peermappingoverride"], K::GpuDoorbellFailed),
    (&["gpu cannot map uar"], K::GpuDoorbellFailed),
    (
        &["cannot allocate buffer on the specified memory type"],
        K::GpuDoorbellFailed,
    ),
    (&["init failed for transport: ibgda"], K::GpuDoorbellFailed),
    (&["init failed for transport"], K::BackendFailed),
    (&["init failed for remote transport"], K::BackendFailed),
    // Mercury.
    (&["re-compile libfabric with support"], K::BackendMissing),
    (&["memory_peers/", "no such file"], K::GdrDisabled),
    (
        &["no active ib device that supports gpu-initiated"],
        K::GpuDoorbellFailed,
    ),
    (&["found inactive port"], K::PortNotActive),
    (&["state = ibv_port_down"], K::PortNotActive),
    // MORI-IO.
    (&["sq full", "ep="], K::QueueFull),
    (&["ibgda", "cudahostregister"], K::GpuDoorbellFailed),
    (&["endpoint", "unhandled timeout error"], K::PeerUnreachable),
    (&["nvidia_peermem.ko is not loaded"], K::GdrDisabled),
    (&["no ib devices found"], K::NoDevice),
    (&["no infiniband device"], K::NoDevice),
    (&["no rdma device"], K::NoDevice),
    (&["no rdma devices"], K::NoDevice),
    // The hook of enroot that gives a container its adapters.
    (&["hooks.d/", "mellanox", "unbound variable"], K::NoDevice),
    (&["hooks.d/", "mellanox", "exited with"], K::NoDevice),
    (&["unknown mellanox device id"], K::NoDevice),
    (&["client switching from rdmacm to tcp"], K::SocketFallback),
    (&["no available rnic"], K::NoDevice),
    (&["no matched device found"], K::NoDevice),
    (&["no available device", "rdma"], K::NoDevice),
    (&["no usable", "ib device"], K::NoDevice),
    (&["no active hca"], K::NoDevice),
    (&["no usable", "hca"], K::NoDevice),
    (&["is not enumerated as an mlx5 device"], K::UnsupportedAdapter),
    (&["only supports mlx5"], K::UnsupportedAdapter),
    (&["not a mlx5 device"], K::UnsupportedAdapter),
    (&["not an mlx5 device"], K::UnsupportedAdapter),
    (&["device is not supported by", "rdma"], K::UnsupportedAdapter),
    (&["gid index", "has no associated network device"], K::GidUnusable),
    (&["gid is null"], K::NoGid),
    (&["no gid", "found"], K::NoGid),
    // UCX's listener has no peer: its statuses say that the address is in use, or on no device.
    (&["device is busy", "listen"], K::AddressInUse),
    (&["address not valid", "listen"], K::AddressUnresolved),
    (&["destination is unreachable", "listen"], K::AddressUnresolved),
    (&["transports can listen for connections"], K::AddressUnresolved),
    // UCX's selection of transports, before anything is sent.
    (&["ucx", "transport does not support"], K::SettingUnmatched),
    (&["destination is unreachable"], K::PeerUnreachable),
    (&["endpoint timeout"], K::PeerUnreachable),
    // The process has no ordinary memory left.
    (&["failed to allocate address list"], K::HostMemory),
    (&["out of dynamic memory in yylex"], K::HostMemory),
    // The other end has other data of this one, or none any longer.
    (&["received packet mismatch"], K::PeerDiffers),
    (&["rdma", "handshake", "failed"], K::ConnectFailed),
];

/// MPI.
const MPI: &[Row] = &[
    (&["assign_context", "interrupted system call"], K::BackendFailed),
    (&["psm", "no hfi units are active"], K::PortNotActive),
    (&["psm", "no nic units are active"], K::PortNotActive),
    (&["psm", "can't open hfi unit"], K::OpenFailed),
    (&["psm", "can't open nic unit"], K::OpenFailed),
    (&["propagate rlimit_memlock"], K::MemlockWarning),
    (&["cannot create cq"], K::CreateFailed),
    (&["cannot create qp"], K::CreateFailed),
    (&["no active ports were detected"], K::PortNotActive),
    (&["unable to find any active hca"], K::PortNotActive),
    (&["no active ports detected"], K::PortNotActive),
    (&["no active port"], K::PortNotActive),
    (&["have any active port"], K::PortNotActive),
    (&["there are no active ports"], K::PortNotActive),
    // Open MPI ends its transport with it.
    (&["allocate some locked memory"], K::RegMrNoMemory),
    (&["locked memory", "limit"], K::MemlockWarning),
    (&["rlimit_memlock is"], K::MemlockWarning),
    (&["for rdma to work properly", "memlock"], K::MemlockWarning),
    (&["memlock", "too low"], K::MemlockWarning),
    (&["memlock", "too small"], K::MemlockWarning),
    (&["memlock limit"], K::MemlockWarning),
    (&["max locked memory"], K::MemlockWarning),
    (
        &["only allow registering part of your physical memory"],
        K::ResourceLimit,
    ),
    // Open MPI has no transport to the other ranks, and aborts.
    (&["unable to reach each other for", "mpi"], K::BackendFailed),
    // Open MPI's transport openib is left out for the port: UCX takes its place.
    (&["no openfabrics connection schemes"], K::RdmaDisabled),
    (&["nonexistent openfabrics"], K::SettingUnmatched),
    (&["default subnet gid prefix"], K::DefaultSubnetPrefix),
    (&["mpidi_ofi", "no data available"], K::NoDevice),
    (&["addrinfo() failed", "no data available"], K::NoDevice),
    // MPICH's device over libfabric: a provider refused a request on endpoints that were open.
    (
        &["mpidi_ofi", "immediate failed", "invalid argument"],
        K::BackendFailed,
    ),
    // What was posted is given back: the endpoint, or the peer, has ended.
    (&["ofi poll failed", "cancel"], K::PeerClosed),
    (&["ofi_init", "no data available"], K::NoDevice),
    (&["ofi fi_open domain failed"], K::NoDevice),
    (&["psm", "no hfi units are available"], K::NoDevice),
    (&["psm could not", "endpoint"], K::OpenFailed),
    (&["hfi_userinit", "failed"], K::OpenFailed),
    (&["can't open", "/dev/hfi1"], K::OpenFailed),
    // MPICH repeats the status of UCX.
    (&["ucx function returned with failed status"], K::BackendFailed),
];

/// DPDK.
const DPDK: &[Row] = &[
    // The buffers of the program are smaller than the packets that its port may receive.
    (&["no enough mbuf space"], K::SettingUnmatched),
    (&["mbuf", "scatter", "not enabled"], K::SettingUnmatched),
    // The memory of DPDK's queues is in huge pages.
    (
        &["queue allocation failed", "cannot allocate memory"],
        K::HostMemory,
    ),
    // `port 0 verbs maximum priority: 0 expected 8/16`: the kernel's driver has no priorities of flows.
    (&["verbs maximum priority", "expected"], K::VersionMismatch),
    // `No kernel/verbs support for VF LAG bonding found`, and of other features.
    (&["no kernel/verbs support"], K::CreateRefused),
    // Memory that the processes of a node share: another one, or a second copy of the driver in this one, has made it. The port does not start.
    (&["memzone", "already exists"], K::BackendFailed),
    (&["cannot allocate mlx5 shared data"], K::BackendFailed),
    (&["unable to init pmd global data"], K::OpenFailed),
    (&["no verbs device matches pci device"], K::NoDevice),
    (&["verbs device not found"], K::NoDevice),
    (&["cannot list devices, is ib_uverbs loaded"], K::ModuleMissing),
    (&["missing run-time dependency on rdma-core"], K::NoLibrary),
    (&["cannot load glue library"], K::NoLibrary),
    (
        &["mlx5", "probe of pci device", "aborted", "not supported"],
        K::CreateRefused,
    ),
    (&["mlx5", "probe of pci device", "aborted"], K::OpenFailed),
    (&["mlx4", "probe of pci device", "aborted"], K::OpenFailed),
    (&["failed to load driver", "mlx"], K::OpenFailed),
    (&["mlx5", "failed to initialize device context"], K::OpenFailed),
    (&["devx", "not supported"], K::CreateRefused),
    (&["failed to allocate devx uar"], K::ResourceLimit),
    (&["mlx5dv_dr_create_domain failed"], K::CreateRefused),
];

/// All rows.
pub(super) const ROWS: &[&[Row]] = &[
    collectives::ROWS,
    libraries::ROWS,
    hpc::ROWS,
    plain::ROWS,
    NCCL,
    GPU_LIBRARIES,
    storage::ROWS,
    DPDK,
    adapters::ROWS,
    kernel::ROWS,
    tools::ROWS,
    kubernetes::ROWS,
    MPI,
];

/// The first phrase of every row.
static FIRST: LazyLock<Phrases> =
    LazyLock::new(|| Phrases::new(all().filter_map(|(phrases, _)| phrases.first().copied())));

/// Every row, by its place.
static ALL: LazyLock<Vec<&Row>> = LazyLock::new(|| all().collect());

fn all() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().flat_map(|rows| rows.iter())
}

/// What a line in lower case shows, and where the first phrase of the row is.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    // Its meaning is in a list of reasons, each of which would match a row, or in a code.
    if let Some(found) = grammar::no_transport(lower)
        .or_else(|| codes::find(lower))
        .or_else(|| cluster::unload(lower))
        .or_else(|| compile::find(lower))
        .or_else(|| vfio::find(lower))
        .or_else(|| scripts::find(lower))
        // What is not built has reported nothing yet.
        .or_else(|| built_by_dkms(lower))
        .or_else(|| services::find(lower))
        .or_else(|| launch::find(lower))
        // The failed attachment says more than what a plugin did not find for it.
        .or_else(|| attach::find(lower))
    {
        return Some(found);
    }
    if let Some(found) = fabric::find(lower) {
        return Some(found);
    }
    // That a job gave up says less than any other message in the same line.
    let rank = |found: &Occurrence| {
        (
            ALL.get(found.index).is_some_and(|row| row.1 == K::JobFailed),
            found.index,
        )
    };
    let mut best: Option<Occurrence> = None;
    for found in FIRST.find(lower) {
        let is_better = best.is_none_or(|best| rank(&found) < rank(&best));
        let matches = |(phrases, _): &&&Row| {
            phrases
                .iter()
                .all(|phrase| stands(lower, phrase) && has_code(lower, phrase))
        };
        if is_better && ALL.get(found.index).as_ref().is_some_and(matches) {
            best = Some(found);
        }
    }
    let of_row = best.and_then(|best| Some((ALL.get(best.index)?.1, best.start)));
    // `RDMA device "issm" not found` is of a module, `RDMA device not found: mlx5_7` is not.
    let of_name = || match of_row {
        None | Some((K::ModuleMissing, _)) => grammar::unknown_name(lower),
        Some(_) => None,
    };
    of_name()
        .or(of_row)
        .or_else(|| about::find(lower))
        .or_else(|| grammar::find(lower))
        .or_else(|| cluster::find(lower))
        .or_else(|| components::find(lower))
        .or_else(|| operator::find(lower))
        .or_else(|| pods::find(lower))
}

/// A module of the RDMA stack that DKMS does not build, by its path.
fn built_by_dkms(lower: &str) -> Option<(K, usize)> {
    let is_path = lower.contains("/dkms/") && !lower.contains(compile::GPU_HEADER);
    is_path.then(|| install::build(lower)).flatten()
}

/// Whether a phrase is in a line. A short one must not be a part of a longer word: `no sm` is not in `no SMC devices`.
fn stands(lower: &str, phrase: &str) -> bool {
    const SHORT: usize = 5;
    if phrase.len() > SHORT {
        return lower.contains(phrase);
    }
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphabetic);
    let bytes = lower.as_bytes();
    lower.match_indices(phrase).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        !is_letter(before) && !is_letter(bytes.get(at + phrase.len()))
    })
}

/// Whether a phrase that ends with the beginning of a code, `fw_status: 0x`, stands before one that is not 0.
fn has_code(lower: &str, phrase: &str) -> bool {
    !phrase.ends_with("0x")
        || lower.match_indices(phrase).any(|(at, _)| {
            let digits = &lower[at + phrase.len() - "0x".len()..];
            number(digits).is_none_or(|code| code != 0)
        })
}

/// The first phrases of all rows.
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    let about = about::ROWS.iter();
    all()
        .chain(about)
        .filter_map(|(phrases, _)| phrases.first().copied())
}

/// Whether a row applies to a line of level information, too: what NCCL reports there about its choice of network.
pub(super) fn is_of_information(lower: &str, at: usize) -> bool {
    let before = &lower[..at];
    ["nccl info ", "rccl info "]
        .iter()
        .any(|level| before.contains(level))
        // `Topology discovery complete. Found 0 HCAs.`
        || before.ends_with("found ")
        // Who calls a tool of the adapter repeats what it printed.
        || lower[at..].starts_with("-e- ")
        || pods::is_of_information(&lower[at..])
        || lower[at..].starts_with(grammar::INTER_NODE)
        || lower[at..].starts_with("client switching from rdmacm")
        || lower[at..].starts_with("is not enabled, enable it in")
        // SPDK gives notice of a device that goes away below its connections.
        || lower[at..].starts_with("on device ") && lower[at..].contains(" is being removed")
        || lower[at..].starts_with("port_removal")
        // What UCX reports of a connection that ended, to a program that logs it to find errors.
        || before.contains(" called with status -")
        || lower[at..].starts_with("nvidia_peermem.ko is not loaded")
        || lower[at..].starts_with("peermem driver is not ready")
        // The plugin for virtual functions reports it of each of its pools.
        || lower[at..]
            .strip_prefix("no devices in device pool, skip")
            .is_some_and(cluster::is_of_rdma)
}

/// Whether a message shows why an adapter did not start, which its driver reports as an event, too.
pub(super) fn outranks_events(kind: K) -> bool {
    matches!(
        kind,
        K::FirmwareMissing
            | K::FirmwareMismatch
            | K::PciRoom
            | K::RegMrNoMemory
            | K::MapNoMemory
            | K::ModuleUnsigned
            | K::HostMemory
            | K::AssignRefused
    )
}

/// Whether a message counts only if its line names a part of RDMA: any module can be unsigned or built for another kernel.
pub(super) fn needs_topic(kind: K) -> bool {
    matches!(
        kind,
        K::ModuleUnsigned | K::ModuleMismatch | K::FirmwareMissing | K::FirmwareMismatch | K::DriverWarned
    )
}

/// Whether a message only says that a request failed: what the adapter answered may follow in the same line, as in aws-ofi-nccl's
/// `NET/OFI Request … completed with error. RC: 5. Error: Invalid receiver queue pair number (QPN)`.
pub(super) fn is_heading(lower: &str, kind: K) -> bool {
    kind == K::PeerUnreachable && lower.contains("completed with error")
}

/// Whether the message says more than the operation and error number in the same line.
pub(super) fn is_decisive(kind: K) -> bool {
    !matches!(
        kind,
        K::ConnectFailed
            | K::CmFailed
            | K::OpenFailed
            | K::CreateFailed
            | K::Unrecognised
            | K::PeerClosed
            | K::BackendFailed
            | K::MemlockWarning
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_can_be_reached_and_is_in_lower_case() {
        for (phrases, kind) in ROWS.iter().flat_map(|rows| rows.iter()) {
            let line = phrases.join(" ");
            assert_eq!(line, line.to_ascii_lowercase(), "{line}");
            assert!(find(&line).is_some(), "{line}: {kind}");
        }
    }
}
