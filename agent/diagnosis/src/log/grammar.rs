//! Messages of known programs by their grammar: what is missing, what timed out, and how, where programs vary the words.
//!
//! The [rows](super::families) hold fixed phrases. Here are the forms that many programs share, and those whose meaning is in a value.

use super::{
    fabric, install,
    line::{after, is_word, number},
    nvme,
};
use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that [`find`] reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "deepep",
    "deep_ep",
    "lag map",
    "dkms",
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
    "unhandled cuda",
    "cuda failure",
];

/// Reads one form of message from a line in lower case: what it shows, and where.
type Reader = fn(&str) -> Option<(K, usize)>;

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    let readers: [Reader; 12] = [
        no_device,
        no_gid,
        not_found,
        gpu_timeout,
        lag,
        bond,
        install::build,
        install::firmware_tool,
        transfer_status,
        ended,
        nvme::refused,
        fabric::umad,
    ];
    readers.iter().find_map(|read| read(lower))
}

/// `No IB device found`, `no usable RDMA devices were detected`: what is counted is of RDMA, and none is there.
fn no_device(lower: &str) -> Option<(K, usize)> {
    const NOUNS: [&str; 10] = [
        "device", "devices", "hca", "hcas", "nic", "nics", "rnic", "rnics", "adapter", "adapters",
    ];
    const OF_RDMA: [&str; 13] = [
        "ib",
        "rdma",
        "infiniband",
        "roce",
        "efa",
        "verbs",
        "ibverbs",
        "openfabrics",
        "iwarp",
        "hca",
        "hcas",
        "rnic",
        "rnics",
    ];
    const THERE: [&str; 5] = ["found", "detected", "available", "present", "discovered"];
    /// The most words between `no` and what is counted.
    const BETWEEN: usize = 3;
    for found in places(lower, &["no ", "0 "]) {
        let at = found + 2;
        let words = || {
            lower[at..]
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|word| !word.is_empty())
        };
        let Some(noun) = words().take(BETWEEN + 1).position(|word| NOUNS.contains(&word)) else {
            continue;
        };
        let of_rdma = words().take(noun + 1).any(|word| OF_RDMA.contains(&word));
        let is_there = words().skip(noun + 1).take(3).any(|word| THERE.contains(&word));
        // `no active RDMA device`, `Found 0 HCAs`.
        let is_usable = words()
            .take(noun)
            .any(|word| matches!(word, "active" | "usable" | "available" | "suitable"));
        let is_counted = lower[..found].trim_end().ends_with("found");
        let is_none = if lower[found..].starts_with('0') {
            is_counted
        } else {
            is_there || is_usable
        };
        if of_rdma && is_none {
            return Some((K::NoDevice, found));
        }
    }
    None
}

/// `No suitable GID found on mlx5_1/1`, `no usable RoCE v2 GIDs available`.
fn no_gid(lower: &str) -> Option<(K, usize)> {
    /// The most words between `no` and what is counted.
    const BETWEEN: usize = 4;
    const KINDS: [&str; 13] = [
        "suitable",
        "usable",
        "valid",
        "matching",
        "routable",
        "active",
        "available",
        "such",
        "roce",
        "rocev2",
        "v2",
        "ipv4",
        "ib",
    ];
    places(lower, &["no "])
        .find(|at| {
            let words = || {
                lower[*at..]
                    .split(|c: char| !c.is_ascii_alphanumeric())
                    .skip(1)
                    .filter(|word| !word.is_empty())
            };
            let Some(noun) = words()
                .take(BETWEEN + 1)
                .position(|word| matches!(word, "gid" | "gids"))
            else {
                return false;
            };
            let is_of_gid = words().take(noun).all(|word| KINDS.contains(&word));
            let rest = || words().skip(noun + 1).take(2);
            is_of_gid && rest().any(|word| matches!(word, "found" | "available" | "detected"))
        })
        .map(|at| (K::NoGid, at))
}

/// Where one of the words begins a word.
fn places<'a>(lower: &'a str, words: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
    words.iter().flat_map(move |word| {
        lower
            .match_indices(*word)
            .map(|(at, _)| at)
            .filter(|at| *at == 0 || !is_word(lower.as_bytes()[at - 1]))
    })
}

/// `Fail to find available RDMA device mlx5_7`, `could not find an RDMA GID`: what was looked for stands after the verb.
fn not_found(lower: &str) -> Option<(K, usize)> {
    const VERBS: [&str; 5] = ["fail", "failed", "unable", "could", "cannot"];
    /// The most words between the verb and what is looked for.
    const WITHIN: usize = 5;
    let at = lower.find(" find ")?;
    let failed = lower[..at]
        .rsplit(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(2)
        .any(|word| VERBS.contains(&word));
    let words = || {
        lower[at + " find ".len()..]
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(WITHIN)
    };
    let of_rdma = words().any(|word| matches!(word, "rdma" | "ib" | "infiniband" | "roce" | "gid"));
    let kind = words().find_map(|word| match word {
        "device" | "devices" | "hca" | "nic" => Some(K::NoDevice),
        // UCX_IB_ROCE_SUBNET_LIST and its like select by the address.
        "gid" if lower.contains("subnet list") => Some(K::SettingUnmatched),
        "gid" => Some(K::NoGid),
        _ => None,
    })?;
    (failed && of_rdma).then_some((kind, at))
}

/// UCX's `no active messages transport to NODE: rc_mlx5/mlx5_0:1 - Destination is unreachable, …`: it lists the transports that it has, and why
/// each does not lead there. If none of them is of RDMA, it found no device that it may use.
pub(super) fn no_transport(lower: &str) -> Option<(K, usize)> {
    const RDMA: [&str; 5] = ["rc_", "dc_", "ud_", "srd_", "gga_"];
    let at = lower.find(" transport to ")?;
    let begins = lower[..at].rfind("no ")?;
    let is_ucx = lower[..begins].contains("ucx") && at - begins < 60;
    let transports = || lower[at..].split([' ', ',']).filter(|word| word.contains('/'));
    // None of those that the settings allow can do what is needed, wherever the peer is.
    if transports().next().is_none() {
        let is_none = is_ucx && lower[at..].contains("unsupported operation");
        return is_none.then_some((K::NoDevice, begins));
    }
    let has_rdma = transports().any(|word| RDMA.iter().any(|name| word.starts_with(name)));
    let kind = if has_rdma { K::PeerUnreachable } else { K::NoDevice };
    is_ucx.then_some((kind, begins))
}

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

/// A connection that ended while the two ends exchanged what they need: `init qp failed: End of file`.
fn ended(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("end of file")?;
    let about = ["qp", "rdma", "ibverbs", "handshake"]
        .iter()
        .any(|word| lower[..at].contains(word));
    about.then_some((K::PeerClosed, at))
}

/// An error that such a line reports of something else than RDMA: of the GPU, or of memory that processes of one node share.
pub(super) fn of_others(lower: &str) -> Option<K> {
    const GPU: [&str; 10] = [
        "failed to cuda ",
        "cuda failure",
        "hip failure",
        "cuda error",
        "hip error",
        "unhandled cuda error",
        "unhandled hip error",
        "ncclunhandledcudaerror",
        "cuda out of memory",
        "cuda driver version is insufficient",
    ];
    // System V and POSIX shared memory, and UCX's transports over them.
    const SHARED: [&str; 14] = [
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
        "using md sysv",
        "using md posix",
        "with mm for",
        "(name=mm_",
    ];
    if GPU.iter().any(|words| lower.contains(words)) {
        return Some(K::ComputeError);
    }
    SHARED
        .iter()
        .any(|words| lower.contains(words))
        .then_some(K::SharedMemory)
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
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_and_their_healthy_relatives_are_not() {
        for (line, expected) in [
            ("rdma_open_hca(575)....: no ib device found", Some(K::NoDevice)),
            (
                "error: no usable rdma devices were detected on this host",
                Some(K::NoDevice),
            ),
            ("mypmd: no active hca found", Some(K::NoDevice)),
            (
                "[enforce fail] list_. no ibverbs devices present",
                Some(K::NoDevice),
            ),
            ("no suitable gid found on rocep153s0/1", Some(K::NoGid)),
            ("no change of the gid was found", None),
            (
                "failed to find a gid which matches/unmatches the following subnet list: 192.168.40.0/24",
                Some(K::SettingUnmatched),
            ),
            ("no block device found", None),
            ("casino rdma device found", None),
            (
                "deepep timeout for dispatch senders, rank 3, responsible_channel = 4",
                Some(K::CollectiveTimeout),
            ),
            (
                "deepep combine rdma sender timeout, channel: 3, rdma: 1",
                Some(K::PeerUnreachable),
            ),
            ("deepep error: timeout (dispatch cpu)", Some(K::CollectiveTimeout)),
            ("deepep: timeouts are 100 s", None),
            (
                "mlx5_core 0000:5e:00.0: modify lag map port 1:1 port 2:1",
                Some(K::BondMemberDown),
            ),
            (
                "mlx5_core 0000:5e:00.0: lag map active ports: 2",
                Some(K::BondMemberDown),
            ),
            ("mlx5_core 0000:5e:00.0: lag map active ports: 1, 2", None),
            ("mlx5_core 0000:5e:00.0: modify lag map port 1:1 port 2:2", None),
            (
                "mlx5_core 0000:5e:00.0: lag map port 1:1 port 2:2 shared_fdb:0",
                None,
            ),
            (
                "nixl._bindings.nixlbackenderror: nixl_err_backend",
                Some(K::BackendFailed),
            ),
            ("transfer failed: nixl_err_remote_disconnect", Some(K::PeerClosed)),
            (
                "createbackend: unsupported backend 'ucx'",
                Some(K::BackendMissing),
            ),
            (
                "ibverbs init qp failed: end of file conn_id 1",
                Some(K::PeerClosed),
            ),
            ("unexpected end of file in config.json", None),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }

    #[test]
    fn a_search_of_a_file_is_no_failure_but_a_missing_device_is() {
        assert!(is_search(
            "openat(at_fdcwd, \"/usr/lib64/libmlx4-rdmav34.so\", o_rdonly) = -1 enoent (no such file or directory)"
        ));
        assert!(is_search(
            "[pid 41] access(\"/etc/libibverbs.d/efa.driver\", r_ok) = -1 enoent (no such file or directory)"
        ));
        assert!(!is_search(
            "openat(at_fdcwd, \"/dev/infiniband/uverbs0\", o_rdwr) = -1 enoent (no such file or directory)"
        ));
        assert!(!is_search(
            "openat(at_fdcwd, \"/dev/infiniband/uverbs0\", o_rdwr) = -1 eacces (permission denied)"
        ));
    }
}
