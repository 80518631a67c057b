//! Failures of the dynamic loader: a library is missing, or does not fit the C library or another library.

use super::line::after;
use crate::symptom::SymptomKind as K;

/// Words of the lines that [`find`] reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "cannot open shared object",
    "cannot open dynamic library",
    "undefined symbol",
    "not found (required by",
    "version `",
    "not defined in file",
    "=> not found",
    "/plugin: could not find",
    "requires at least",
    "java.library.path",
    "dlopen lib",
    "load lib",
];

/// Libraries that carry a job's communication, their plugins and what is built on them, in lower case.
const COMMUNICATION: [&str; 34] = [
    "libnccl",
    "librccl",
    "nccl-net",
    "nccl_net",
    "/gib/",
    "nvshmem",
    "rocshmem",
    "libucp",
    "libuct",
    "libucs",
    "libucm",
    "libucc",
    "libfabric",
    "nixl",
    "libplugin_",
    "mscclpp",
    "gloo",
    "hccl",
    "libccl",
    "libsharp",
    "deep_ep",
    "mooncake",
    "transfer_engine",
    "libmori",
    "/mori/",
    "uccl",
    "psm2",
    "psm3",
    "hcoll",
    "aws-ofi",
    "libmpi",
    "_ucp_",
    "gasnet",
    "realm_",
];
/// Libraries of verbs. Their providers have their own messages.
const VERBS: [&str; 9] = [
    "libibverbs.so",
    "librdmacm.so",
    "libibumad.so",
    "libmlx5.so",
    "libmlx4.so",
    "libefa.so",
    "libmana.so",
    // DAPL, over which old versions of Intel MPI communicate.
    "libdat.so",
    "libdat2.so",
];
/// The beginnings of their symbols and versions.
const SYMBOLS: [&str; 12] = [
    "nccl", "nvshmem", "ucp_", "uct_", "ucs_", "fi_", "ibv_", "mlx5dv_", "efadv_", "rdma_", "hccl",
    "ibverbs_",
];
/// Plugins that NCCL looks for and works without.
const OPTIONAL: [&str; 8] = [
    "libnccl-net.so",
    "librccl-net.so",
    "libnccl-tuner.so",
    "librccl-tuner.so",
    "libnccl-profiler.so",
    "librccl-profiler.so",
    "libnccl-env.so",
    "libnccl-gin.so",
];

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    missing(lower)
        .or_else(|| misfit(lower))
        .or_else(|| plugin(lower))
        .or_else(|| too_old(lower))
        .or_else(|| of_java(lower))
        .or_else(|| unloaded(lower))
        .or_else(|| built_without(lower))
}

/// `Unable to dlopen libibverbs`, `failed to load libibverbs.so`: a program that loads the library by itself, and does not repeat what the loader
/// says.
fn unloaded(lower: &str) -> Option<(K, usize)> {
    const VERBS: [&str; 2] = ["dlopen lib", "load lib"];
    const FAILED: [&str; 7] = [
        "unable to ",
        "failed to ",
        "could not ",
        "couldn't ",
        "cannot ",
        "can't ",
        "not ",
    ];
    let (verb, at) = VERBS.iter().find_map(|verb| Some((verb, lower.find(verb)?)))?;
    let failed = FAILED.iter().any(|words| lower[..at].ends_with(words));
    // The program goes on without a feature.
    let goes_on = ["disabling", "disabled", "optional"]
        .iter()
        .any(|word| lower[at..].contains(word));
    let name = &lower[at + verb.len() - "lib".len()..];
    if !failed || goes_on || OPTIONAL.iter().any(|optional| name.starts_with(optional)) {
        return None;
    }
    let ends = |library: &str| {
        let base = library.trim_end_matches(".so");
        let rest = name.strip_prefix(base);
        rest.is_some_and(|rest| {
            rest.bytes()
                .next()
                .is_none_or(|byte| !byte.is_ascii_alphanumeric())
        })
    };
    if self::VERBS.iter().any(|library| ends(library)) {
        return Some((K::NoLibrary, at));
    }
    let name = name.split([' ', ',', ':', '\'', '"']).next()?;
    is_communication(name).then_some((K::BackendMissing, at))
}

/// The native part of a library of Java: `libdisni not found! It must be installed within the java.library.path`, `no jucx in
/// java.library.path`.
fn of_java(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("java.library.path")?;
    let before = &lower[..at];
    let is_one = ["disni", "jucx", "ucx", "rdma", "ibverbs", "jverbs"]
        .iter()
        .any(|library| before.contains(library));
    let is_missing = ["not found", "no ", "missing"]
        .iter()
        .any(|words| before.contains(words));
    (is_one && is_missing).then_some((K::BackendMissing, 0))
}

/// `libucp.so.0: cannot open shared object file`, or `libucp.so.0 => not found` of `ldd`: the library before the message, needed by another
/// one in the line or by the program.
fn missing(lower: &str) -> Option<(K, usize)> {
    // Intel MPI: `cannot open dynamic library libdat.so.1`.
    if let Some(name) = after(lower, "cannot open dynamic library ") {
        let at = lower.len() - name.len();
        let name = name.rsplit('/').next()?;
        let is_verbs = VERBS.iter().any(|library| name.starts_with(library));
        return is_verbs.then_some((K::NoLibrary, at));
    }
    let at = lower
        .find(": cannot open shared object")
        .or_else(|| lower.find(" => not found"))?;
    let path = lower[..at].rsplit([' ', '=', '(', '\'', '"']).next()?;
    let name = path.rsplit('/').next()?;
    if name.contains("-rdmav") || OPTIONAL.iter().any(|optional| name.starts_with(optional)) {
        return None;
    }
    if VERBS.iter().any(|library| name.starts_with(library)) {
        return Some((K::NoLibrary, at - name.len()));
    }
    // The plugin of a program that uses RDMA among others.
    let is_plugin = name.contains("rdma");
    (is_plugin || is_communication(&lower[..at])).then_some((K::BackendMissing, at - name.len()))
}

/// Whether a library that was found does not fit another one, which is a failure also where the library is optional.
pub(super) fn is_misfit(lower: &str) -> bool {
    place_of_misfit(lower).is_some()
}

fn place_of_misfit(lower: &str) -> Option<usize> {
    let in_full = ["not found (required by", "not defined in file"]
        .iter()
        .find_map(|words| lower.find(words));
    in_full.or_else(|| {
        // A terminal wrapped the rest: who requires it.
        let at = lower.find("version `")?;
        lower.trim_end().ends_with("' not found").then_some(at)
    })
}

/// ``libc.so.6: version `GLIBC_2.34' not found (required by …/libnccl-net.so)``, `libx.so: undefined symbol: ucp_init_version`,
/// `libx.so: symbol mlx5dv_is_supported, version MLX5_1.8 not defined in file libmlx5.so.1`.
fn misfit(lower: &str) -> Option<(K, usize)> {
    if let Some(at) = of_verbs_alone(lower) {
        return Some((K::LibraryMismatch, at));
    }
    let (at, names) = if let Some(at) = place_of_misfit(lower) {
        (at, lower)
    } else {
        let at = lower.find("undefined symbol: ")?;
        // A program asks for a function that newer versions have, and goes on without.
        if lower.contains("dlvsym") || lower.contains("dlsym") {
            return None;
        }
        let symbol = after(lower, "undefined symbol: ")?;
        // The provider of a device, or a plugin for it, was built with a newer rdma-core than it finds.
        let is_of_provider = ["mlx5dv_", "mlx4dv_", "efadv_"]
            .iter()
            .any(|beginning| symbol.starts_with(beginning));
        if is_of_provider && !is_communication(&lower[..at]) {
            return Some((K::LibraryMismatch, at));
        }
        if SYMBOLS.iter().any(|beginning| symbol.starts_with(beginning)) {
            return Some((K::BackendMissing, at));
        }
        (at, &lower[..at])
    };
    // The provider is of another rdma-core than the library, or the program was built with a newer libibverbs.
    if names.contains("version `ibverbs_") {
        return Some((K::LibraryMismatch, at));
    }
    let versions = ["`ibverbs_", "`mlx5_", "`efa_", "`rdmacm_"];
    let of_verbs = || {
        versions.iter().any(|version| names.contains(version))
            || VERBS.iter().any(|library| names.contains(library))
    };
    (is_communication(names) || of_verbs()).then_some((K::BackendMissing, at))
}

/// A library of verbs, or a provider of one, that asks another one, or none, for what only a library of another release has:
/// `/lib64/libmlx5-rdmav2.so: symbol ibv_exp_cmd_create_srq, version IBVERBS_1.1 not defined in file libibverbs.so.1`,
/// `symbol lookup error: /usr/lib/libibverbs.so.1: undefined symbol: mempool_create`. No library of the job's communication takes part.
fn of_verbs_alone(lower: &str) -> Option<usize> {
    let by_symbol = || {
        let at = lower.find(": undefined symbol: ")?;
        (!lower.contains("dlvsym") && !lower.contains("dlsym")).then_some(at)
    };
    let by_version = || {
        let at = lower.find(": symbol ")?;
        let rest = &lower[at..];
        let (_, home) = rest.split_once(" not defined in file ")?;
        is_file_of_verbs(home.split(' ').next()?).then_some(at)
    };
    let by_file = || {
        let (before, rest) = lower.split_once("' not found (required by ")?;
        let asks = rest.split(')').next()?;
        let at = before.find(": version `")?;
        (is_file_of_verbs(asks) && is_file_of_verbs(last_word(&before[..at]))).then_some((at, true))
    };
    if let Some((at, _)) = by_file() {
        return Some(at);
    }
    let at = by_version().or_else(by_symbol)?;
    let file = last_word(&lower[..at]);
    is_file_of_verbs(file).then(|| at - file.len())
}

/// The last word of a text, which is the path of a library before what the loader says of it.
fn last_word(text: &str) -> &str {
    text.rsplit([' ', '\'', '"', '(']).next().unwrap_or_default()
}

/// Whether a path is of a library of verbs or of one of its providers: `libibverbs.so.1`, `/usr/lib64/libibverbs/libmlx5-rdmav25.so`.
fn is_file_of_verbs(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_library = || {
        VERBS
            .iter()
            .any(|library| !library.starts_with("libdat") && name.starts_with(library))
    };
    name.starts_with("lib") && (name.contains("-rdmav") || is_library())
}

/// `NET/Plugin: Could not find: spcx libnccl-net-spcx.so.`: a plugin that a setting names, not one that NCCL looks for by itself.
fn plugin(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("net/plugin: could not find")?;
    let rest = &lower[at..];
    let is_named = ["libnccl-net-", "librccl-net-"]
        .iter()
        .any(|beginning| rest.contains(beginning));
    is_named.then_some((K::BackendMissing, at))
}

/// `EFA provider requires at least libfabric version 1.22.0.`
fn too_old(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("requires at least")?;
    let rest = &lower[at..];
    let is_one = [
        "libfabric",
        "ucx",
        "nccl",
        "rdma-core",
        "libibverbs",
        "nvshmem",
        "gdrcopy",
    ]
    .iter()
    .any(|library| rest.contains(library));
    is_one.then_some((K::BackendMissing, at))
}

/// A program that was built without RDMA does not know its name: `unknown migration protocol: rdma:0.0.0.0:49152`, `fio: engine rdma not loadable`.
fn built_without(lower: &str) -> Option<(K, usize)> {
    const UNKNOWN: [&str; 6] = [
        "unknown ",
        "unsupported ",
        "unrecognized ",
        "unrecognised ",
        "invalid ",
        "no such ",
    ];
    const NOUNS: [&str; 8] = [
        "protocol",
        "transport",
        "engine",
        "ioengine",
        "trtype",
        "backend",
        "scheme",
        "fabric",
    ];
    const NAMES: [&str; 5] = ["rdma", "verbs", "ibverbs", "ucx", "iser"];
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(6)
            .map(str::to_owned)
            .collect()
    };
    if let Some(at) = lower.find("engine rdma not loadable") {
        return Some((K::BackendMissing, at));
    }
    let at = UNKNOWN.iter().find_map(|form| lower.find(form))?;
    let rest = words(&lower[at..]);
    // `unknown [migration] protocol [type] rdma`
    let noun = rest
        .iter()
        .take(4)
        .position(|word| NOUNS.contains(&word.as_str()))?;
    let is_named = rest[noun + 1..]
        .iter()
        .take(2)
        .any(|word| NAMES.contains(&word.as_str()));
    is_named.then_some((K::BackendMissing, at))
}

fn is_communication(lower: &str) -> bool {
    COMMUNICATION.iter().any(|name| lower.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_needed_is_told_from_one_that_is_optional_and_from_those_of_others() {
        for (line, expected) in [
            (
                "net/plugin: libnccl-net_internal.so: /lib/libc.so.6: version `glibc_2.34' not found (required by /usr/local/gib/lib64/x.so)",
                Some(K::BackendMissing),
            ),
            (
                "net/plugin: libnccl-net.so: libfabric.so.1: cannot open shared object file: no such file or directory",
                Some(K::BackendMissing),
            ),
            (
                "net/plugin: libnccl-net.so: libnccl-net.so: cannot open shared object file: no such file or directory",
                None,
            ),
            (
                "importerror: libibverbs.so.1: cannot open shared object file: no such file or directory",
                Some(K::NoLibrary),
            ),
            (
                "libibverbs: warning: couldn't load driver 'libefa-rdmav34.so': libefa-rdmav34.so: cannot open shared object file",
                None,
            ),
            (
                "x/ibgda.cpp:4611: unable to dlopen libibverbs. skipping ibgda transport.",
                Some(K::NoLibrary),
            ),
            (
                "uccl p2p: failed to load libibverbs.so: no such file",
                Some(K::NoLibrary),
            ),
            (
                "uccl p2p: failed to load libfabric.so: no such file",
                Some(K::BackendMissing),
            ),
            ("unable to dlopen libgdrapi.so, disabling gdrcopy", None),
            ("failed to load libibverbs.so, optional", None),
            ("failed to load libibverbsx.so", None),
            ("will dlopen libibverbs", None),
            (
                "importerror: /x/deep_ep_cpp.so: undefined symbol: nvshmemi_init_thread",
                Some(K::BackendMissing),
            ),
            (
                "net/plugin: could not find: spcx libnccl-net-spcx.so. using internal net plugin.",
                Some(K::BackendMissing),
            ),
            ("net/plugin: could not find: libnccl-net.so.", None),
            (
                "libefa.so.1: version `efa_1.3' not found (required by /opt/amazon/efa/lib/libfabric.so.1)",
                Some(K::BackendMissing),
            ),
            (
                "libibverbs.so.1: version `ibverbs_private_22' not found (required by /usr/lib64/libibverbs/libmlx5-rdmav2.so)",
                Some(K::LibraryMismatch),
            ),
            ("version `ibverbs_private_34' not found", Some(K::LibraryMismatch)),
            (
                "libibverbs: warning: couldn't load driver 'mlx5': /lib64/libmlx5-rdmav2.so: symbol ibv_exp_cmd_create_srq, version ibverbs_1.1 not defined in file libibverbs.so.1 with link time reference",
                Some(K::LibraryMismatch),
            ),
            (
                "ib_send_bw: symbol lookup error: /usr/lib/libibverbs.so.1: undefined symbol: mempool_create",
                Some(K::LibraryMismatch),
            ),
            (
                "symbol lookup error: /usr/lib64/libibverbs/libhns-rdmav34.so: undefined symbol: verbs_init_cq",
                Some(K::LibraryMismatch),
            ),
            (
                "libmlx5.so.1: version `mlx5_1.24' not found (required by /usr/lib64/libibverbs/libmlx5-rdmav34.so)",
                Some(K::LibraryMismatch),
            ),
            (
                "symbol lookup error: /x/ucx/libuct_ib.so.0: undefined symbol: ibv_exp_query_device",
                Some(K::BackendMissing),
            ),
            ("version `glibcxx_3.4.30' not found", None),
            (
                "libmlx5.so.1: version `mlx5_1.24' not found (required by /opt/hpcx/lib/libnccl-net.so)",
                Some(K::BackendMissing),
            ),
            (
                "relocation error: /opt/x/libuct_ib.so.0: symbol mlx5dv_is_supported, version mlx5_1.8 not defined in file libmlx5.so.1 with link time reference",
                Some(K::BackendMissing),
            ),
            (
                "relocation error: /opt/x/libfoo.so.0: symbol bar, version z_1 not defined in file libz.so.1 with link time reference",
                None,
            ),
            (
                "e [rpc-transport.c:297] 0-rpc-transport: /usr/lib64/glusterfs/6.3/rpc-transport/rdma.so: cannot open shared object file: no such file",
                Some(K::BackendMissing),
            ),
            (
                "importerror: libcudnn.so.9: cannot open shared object file: no such file or directory",
                None,
            ),
            ("importerror: /x/flash_attn.so: undefined symbol: _zn3c10", None),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
