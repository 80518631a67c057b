//! Messages of known programs by their grammar: what is missing, what timed out, and how, where programs vary the words.
//!
//! The [rows](super::families) hold fixed phrases. Here are the forms that many programs share, and those whose meaning is in a value.

mod asserted;
mod devices;
mod gpu_path;
mod libraries;
mod link;
mod maximum;
mod opcode;
mod sockets;
mod unregistered;
mod values;
mod versions;

pub(crate) use self::asserted::is_ucx_check;
pub(crate) use self::sockets::is_of_socket;
use self::{
    asserted::asserted,
    devices::{no_device, no_directory, no_gid, not_found, removed},
    unregistered::unregistered,
};
pub(super) use self::{
    devices::{no_transport, unknown_name},
    gpu_path::ANCHORS as OF_GPU_PATH,
    sockets::ANCHORS as OF_SOCKETS,
    values::ANCHORS as OF_VALUES,
};
use super::{
    connection,
    entity::is_rdma_name,
    fabric,
    grade::is_ipoib,
    install,
    line::{after, number},
    nvme, packages, passthrough,
};
use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that [`find`] reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "direct pci access",
    "has no ip",
    "mapped gid",
    ":00000000000000000000000000000000",
    "gid ::",
    "ports are ",
    "port(s) ",
    "deepep",
    "deep_ep",
    "assert",
    "inter-node cfg",
    "lag map",
    "dkms",
    "modpost",
    "depends",
    "dependency problems",
    "needed by",
    "for argument",
    "providers can be installed",
    "installation candidate",
    "mlnx",
    "ofed",
    "-e- ",
    "(slave ",
    "nixl_err",
    "device found",
    "gid found",
    "gids found",
    "gid available",
    "find a gid",
    "invalid gid",
    "not available: ",
    "devices present",
    "device present",
    "devices found",
    "hca",
    "rdma",
    "device detected",
    "devices detected",
    "devices were",
    "device available",
    "devices available",
    "end of file",
    "got eof",
    "unhandled cuda",
    "not registered",
    "memory pool",
    "got fatal event",
    "critical event",
    "register address",
    "opcode",
    "cuda failure",
    IFACE_OPEN,
    " > ",
    "exceed",
    "larger than",
    "greater than",
    "removed",
    "removing device",
    "nic found",
    "nics found",
    "usable port",
    "in ethernet mode",
    "in infiniband mode",
    "in ib mode",
    "try setting ",
    "not installed",
    "not available",
];

/// Reads one form of message from a line in lower case: what it shows, and where.
type Reader = fn(&str) -> Option<(K, usize)>;

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    let readers: [Reader; 47] = [
        inactive_ports,
        no_device,
        no_directory,
        asserted,
        only_tcp,
        no_gid,
        not_found,
        without_address,
        gpu_timeout,
        lag,
        bond,
        packages::find,
        install::build,
        install::firmware_tool,
        install::flash,
        install::lockdown,
        transfer_status,
        ended,
        nvme::refused,
        nvme::answered,
        nvme::refused_connect,
        nvme::unauthenticated,
        passthrough::find,
        fabric::umad,
        gpu_path::find,
        sockets::unreachable,
        sockets::refused,
        sockets::other_layout,
        opcode::unsupported,
        unregistered,
        without_gid,
        unregistered_by_ucx,
        fatal_event,
        maximum::exceeded,
        values::refused,
        values::differs,
        values::link_layer,
        values::port,
        versions::differ,
        removed,
        connection::last_attempt,
        connection::of_psm,
        link::without_port,
        link::other_mode,
        values::pair,
        libraries::missing,
        values::advised,
    ];
    readers.iter().find_map(|read| read(lower))
}

/// Whether a text in lower case names more of something than the device has.
pub(crate) fn exceeds_maximum(lower: &str) -> bool {
    maximum::exceeded(lower).is_some()
}

/// How many ports of how many have no link, in the words of a monitor: `IB port(s) down: 1 of 9 ports are not active`.
fn inactive_ports(lower: &str) -> Option<(K, usize)> {
    let (count, at) = counted_ports(lower)?;
    (count > 0).then_some((K::PortNotActive, at))
}

/// Whether a monitor counts ports without a link, and found none.
pub(super) fn misses_no_port(lower: &str) -> bool {
    counted_ports(lower).is_some_and(|(count, _)| count == 0)
}

/// The number of ports without a link, and where the line in lower case counts them.
fn counted_ports(lower: &str) -> Option<(u64, usize)> {
    const STATES: [&str; 4] = ["not active", "inactive", "down", "not up"];
    let names = |text: &str| {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| matches!(word, "ib" | "rdma" | "roce" | "infiniband" | "hca"))
    };
    let at = ["ports are ", "port(s) are "]
        .iter()
        .find_map(|words| lower.find(words))?;
    let (_, state) = lower[at..].split_once(" are ")?;
    let mut words = lower[..at].split_whitespace().rev().filter(|word| !names(word));
    let (all, of, some) = (words.next()?, words.next()?, words.next()?);
    let is_count = number(all).is_some() && of == "of" && names(lower);
    let is_down = STATES.iter().any(|words| state.starts_with(words));
    Some((number(some).filter(|_| is_count && is_down)?, at))
}

/// UCX's choice of transports for the peers on other nodes, if all are over TCP: `inter-node cfg#3 rma(tcp/eth0) am(tcp/eth0)`.
fn only_tcp(lower: &str) -> Option<(K, usize)> {
    let at = lower.find(INTER_NODE)?;
    let mut transports = lower[at..]
        .split([' ', '(', ')'])
        .filter(|word| word.contains('/'))
        .peekable();
    let is_tcp = transports.peek().is_some() && transports.all(|word| word.starts_with("tcp/"));
    is_tcp.then_some((K::SocketFallback, at))
}

/// What begins UCX's choice of transports for the peers on other nodes.
pub(super) const INTER_NODE: &str = "inter-node cfg";

/// UCX opens each device that it sees. One whose GIDs are all of another network namespace, or that has none, has no valid address:
/// `uct_iface_open(rc_verbs/mlx5_bond_0:1) failed: Address not valid`.
fn without_gid(lower: &str) -> Option<(K, usize)> {
    const RDMA: [&str; 5] = ["rc_", "dc_", "ud_", "srd_", "gga_"];
    let at = lower.find(IFACE_OPEN)?;
    let rest = &lower[at + IFACE_OPEN.len()..];
    let is_rdma = RDMA.iter().any(|name| rest.starts_with(name));
    (is_rdma && rest.contains("address not valid")).then_some((K::NoGid, at))
}

/// MVAPICH2 ends with the number of an asynchronous event (`enum ibv_event_type`): `[async_thread] Got FATAL event 3`.
fn fatal_event(lower: &str) -> Option<(K, usize)> {
    const LABELS: [&str; 2] = ["got fatal event ", "critical event "];
    let (at, value) = LABELS.iter().find_map(|label| {
        let at = lower.find(label)?;
        Some((at, &lower[at + label.len()..]))
    })?;
    // Other programs have critical events, too.
    if lower[at..].starts_with("critical") && !lower.contains("srp_daemon") {
        return None;
    }
    let kind = match number(value)? {
        0 => K::CqError,
        1 => K::QueueFatal,
        2 => K::QueueError,
        3 => K::QueueAccess,
        8 => K::DeviceFatal,
        10 => K::PortError,
        _ => return None,
    };
    Some((kind, at))
}

/// UCX registers what it uses itself in chunks, and reports its own status where that fails: `Failed to allocate memory pool
/// (name=rc_recv_desc) chunk: Input/output error`, `failed to register address 0x7f00 (host) length 64 on md[1]=mlx5_0: Input/output error`.
/// The line of the call, with the error number of the system, may be missing.
fn unregistered_by_ucx(lower: &str) -> Option<(K, usize)> {
    const NO_ERROR: &str = ": input/output error";
    let at = ["failed to allocate memory pool", "failed to register address"]
        .iter()
        .find_map(|words| lower.find(words))?;
    let rest = &lower[at..];
    let of_pool = rest.contains("chunk: input/output error") && !rest.contains("(name=mm_");
    let of_device = || {
        let (_, domain) = rest.split_once("on md[")?;
        let (_, name) = domain.split_once("]=")?;
        let (name, status) = name.split_once(':')?;
        (is_rdma_name(name) && status.starts_with(&NO_ERROR[1..])).then_some(())
    };
    (of_pool || of_device().is_some()).then_some((K::RegMrFailed, at))
}

/// Whether the error in a line in lower case is one of a library, in the words of an error number of the system that it is not.
pub(super) fn is_status_of_library(lower: &str) -> bool {
    unregistered_by_ucx(lower).is_some()
        || lower.contains("ofi fi_open domain failed") && lower.contains("invalid argument")
}

/// How UCX begins to report a device that it could not use.
const IFACE_OPEN: &str = "uct_iface_open(";

/// The timeouts of `DeepEP`'s kernels name a rank or a channel. Those of the part over RDMA say so; the others may wait for `NVLink`.
fn gpu_timeout(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("deepep").or_else(|| lower.find("deep_ep"))?;
    let rest = &lower[at..];
    let is_one = rest.contains("timeout")
        && ["rank", "channel", "failed", "error"]
            .iter()
            .any(|word| rest.contains(word));
    is_one.then_some((
        if rest.contains("rdma") {
            K::PeerUnreachable
        } else {
            K::CollectiveTimeout
        },
        at,
    ))
}

/// `Network interface 'ibp20s0' has no IPv4 address`: an interface of IP over InfiniBand, by its name.
fn without_address(lower: &str) -> Option<(K, usize)> {
    let at = lower
        .find("has no ipv4")
        .or_else(|| lower.find("has no ip address"))?;
    let mut words = lower[..at].split(|c: char| !c.is_ascii_alphanumeric());
    let is_of_rdma =
        |word: &str| is_ipoib(word) || ["rdma", "roce"].iter().any(|name| word.starts_with(name));
    words.any(is_of_rdma).then_some((K::AddressUnresolved, at))
}

/// How mlx5 distributes the queues of a bond over its ports: `modify lag map port 1:2 port 2:2` uses port 2 for both, because port 1 has
/// no link; `lag map active ports: 2` in newer kernels.
fn lag(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("lag map")?;
    let rest = &lower[at..];
    let mut used: Vec<u64> = if let Some((_, ports)) = rest.split_once("active ports:") {
        ports.split(',').take(8).filter_map(number).collect()
    } else {
        let pairs = rest.split("port ").skip(1).take(8);
        pairs.filter_map(|pair| number(pair.split_once(':')?.1)).collect()
    };
    let mapped = used.len();
    used.sort_unstable();
    used.dedup();
    let is_degraded = used.len() == 1 && (mapped > 1 || rest.contains("active ports:"));
    is_degraded.then_some((K::BondMemberDown, at))
}

/// `bond0: (slave ens1f0): link status definitely down, disabling slave` of the kernel's bonding driver, and of older ones.
fn bond(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("link status definitely down")?;
    (lower.contains("slave") || lower.contains("interface")).then_some((K::BondMemberDown, at))
}

/// The statuses of NIXL (`nixl_status_t`), which its Python errors repeat. Most of them say only that the library below it failed.
fn transfer_status(lower: &str) -> Option<(K, usize)> {
    const MISSING: [&str; 3] = ["not found", "unsupported", "failed to load"];
    if let Some(at) = lower.find("nixl_err_") {
        let name = &lower[at + "nixl_err_".len()..];
        let ended = ["remote_disconnect", "cancel"]
            .iter()
            .any(|status| name.starts_with(status));
        let is_state = ["not_posted", "repost_active", "no_telemetry", "not_ready"]
            .iter()
            .any(|status| name.starts_with(status));
        let kind = if ended { K::PeerClosed } else { K::BackendFailed };
        return (!is_state).then_some((kind, at));
    }
    let at = lower.find("backend '").or_else(|| lower.find("backend \""))?;
    let library = ["ucx", "gds", "libfabric", "mooncake", "obj"]
        .iter()
        .any(|name| lower[at..].contains(name));
    (library && MISSING.iter().any(|word| lower.contains(word))).then_some((K::BackendMissing, at))
}

/// A connection that ended while the two ends exchanged what they need: `init qp failed: End of file`, `rdma_endpoint.cpp:571] Fail to read Hello
/// Message from client: Got EOF`.
fn ended(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("end of file").or_else(|| lower.find("got eof"))?;
    let about = ["qp", "rdma", "ibverbs", "handshake"]
        .iter()
        .any(|word| lower[..at].contains(word));
    about.then_some((K::PeerClosed, at))
}

/// Requests to a peer that did not complete in the time that the program grants: `Failed to complete transfers after 60 seconds`, `transfer did not
/// complete within 30 s`.
pub(super) fn unfinished(lower: &str) -> Option<K> {
    const REQUESTS: [&str; 5] = ["transfer", "request", "batch", "rdma read", "rdma write"];
    if is_without_answer(lower) {
        return Some(K::PeerUnreachable);
    }
    let at = lower.find("complete")?;
    let failed = ["failed to ", "unable to ", "did not ", "didn't ", "not "]
        .iter()
        .any(|word| lower[..at].ends_with(word));
    let in_time = ["after ", "within ", "in "].iter().any(|word| {
        after(&lower[at..], word).is_some_and(|rest| {
            let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            unit.len() < rest.len() && unit.trim_start().starts_with(['s', 'm'])
        })
    });
    (failed && in_time && REQUESTS.iter().any(|word| lower.contains(word))).then_some(K::PeerUnreachable)
}

/// Whether the peer did not answer while a connection was made: `[rdma] handshake timeout with peer 10.0.0.9`, `RDMA qpair connect timeout`. The web's
/// connections are others.
fn is_without_answer(lower: &str) -> bool {
    const STEPS: [&str; 3] = ["connect", "connection", "accept"];
    let is_late = |step: &str| {
        [" timeout", " timed out"].iter().any(|end| {
            lower
                .match_indices(step)
                .any(|(at, _)| lower[at + step.len()..].starts_with(end))
        })
    };
    let is_greeting = ["handshake", "negotiat"].iter().any(|word| lower.contains(word))
        && ["timeout", "timed out"].iter().any(|word| lower.contains(word));
    (is_greeting || STEPS.iter().any(|step| is_late(step)))
        && !["tls", "ssl", "http", "tcp", "socket"]
            .iter()
            .any(|word| lower.contains(word))
}

/// An error that such a line reports of something else than RDMA: of the GPU, or of memory that processes of one node share.
pub(super) fn of_others(lower: &str) -> Option<K> {
    const GPU: [&str; 14] = [
        "failed to cuda ",
        "cuda failure",
        "hip failure",
        "cuda error",
        "hip error",
        "cudahostregister",
        "hiphostregister",
        "unhandled cuda error",
        "unhandled hip error",
        "ncclunhandledcudaerror",
        "cuda out of memory",
        "cuda driver version is insufficient",
        // A file of a topology or of a graph that is of another machine.
        "nccl warn xml ",
        "rccl warn xml ",
    ];
    // System V and POSIX shared memory, and UCX's transports over them.
    const SHARED: [&str; 17] = [
        "posix_fallocate",
        "/dev/shm",
        "shared memory segment",
        "shmutils",
        "ncclshm",
        "shmget(",
        "shmat(",
        "shm_open(",
        "shm_open ",
        "mm_sysv.c",
        "mm_posix.c",
        "mm_iface.c",
        "mm_ep.c",
        "using md sysv",
        "using md posix",
        "with mm for",
        "(name=mm_",
    ];
    // UCX's transport over CUDA's handles of memory stays within the node or its NVLink domain.
    let is_of_node = lower.contains("cuda_ipc_") && lower.contains("cumem");
    // `chip error` is one of the adapter.
    let stands = |words: &str| {
        lower
            .match_indices(words)
            .any(|(at, _)| !lower[..at].ends_with(|c: char| c.is_ascii_alphabetic()))
    };
    if is_of_node || GPU.iter().any(|words| stands(words)) {
        return Some(K::ComputeError);
    }
    // Below EFA's provider for reliable datagrams is one over shared memory. The adapter has other errors than a full disk.
    let is_below_efa = lower.contains("efa_domain_init_rdm")
        && ["err: 28", "err: -28", "no space left on device"]
            .iter()
            .any(|error| lower.contains(error));
    (is_below_efa || SHARED.iter().any(|words| lower.contains(words))).then_some(K::SharedMemory)
}

/// Whether a call that a tracer shows only looked for a file: `openat(…, "/usr/lib/libx.so", O_RDONLY) = -1 ENOENT (No such file …)`. A
/// device that is not there is not one of them.
pub(super) fn is_search(lower: &str) -> bool {
    let missing = ["= -1 enoent", "= -1 enotdir"]
        .iter()
        .any(|result| lower.contains(result));
    let call = lower.split('(').next().unwrap_or_default();
    let name = call
        .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next()
        .unwrap_or_default();
    missing && !name.is_empty() && after(lower, "(").is_some() && !lower.contains("/dev/infiniband")
}

#[cfg(test)]
mod tests;
