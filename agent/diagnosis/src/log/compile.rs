//! What compilers, linkers and configure scripts say of a program or module that uses RDMA. Nothing has run yet, so no device failed.

use super::{install::names_package, line::is_word};
use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that [`find`] reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "error: ",
    "undefined reference",
    "cannot find -l",
    "could not find",
    "no package '",
    "not found",
    "kernel version",
    "this kernel",
];

/// The header of the GPU's driver: without it, the sources of that driver are not there.
pub(super) const GPU_HEADER: &str = "nv-p2p.h";

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    if let Some(at) = objects(lower) {
        return Some((K::DriverNotBuilt, at));
    }
    if let Some(at) = other_kernel(lower) {
        return Some((K::DriverNotBuilt, at));
    }
    let at = compiler(lower)
        .or_else(|| linker(lower))
        .or_else(|| configure(lower))?;
    if is_of_kernel(lower) {
        return Some((K::DriverNotBuilt, at));
    }
    is_of_verbs(lower).then_some((K::NoLibrary, at))
}

/// Whether the text of a symptom is such a message.
pub(crate) fn is_of_build(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    compiler(&lower).is_some() || linker(&lower).is_some() || configure(&lower).is_some()
}

/// A package that is older than the kernel, or newer, as its own scripts report it: `Error: CONFIG_MLX5_ESWITCH not support kernel version 5.6 or
/// higher (current: 5.15.0-1022-azure)`, `Unsupported kernel version 6.8`.
fn other_kernel(lower: &str) -> Option<usize> {
    const FORMS: [&str; 7] = [
        "not support kernel version",
        "n't support kernel version",
        "not support this kernel",
        "not supported on this kernel",
        "not supported for this kernel",
        "not supported by this kernel version",
        "unsupported kernel version",
    ];
    let at = FORMS.iter().find_map(|words| lower.find(words))?;
    names_package(lower).then_some(at)
}

/// `efa_nv_peermem.o: error: objtool: cleanup_module(): …`: the kernel's build checks the object of a module.
fn objects(lower: &str) -> Option<usize> {
    let at = lower.find(".o: error: ")?;
    let begin = lower[..at].rfind([' ', '/']).map_or(0, |space| space + 1);
    names_package(&lower[begin..at]).then_some(begin)
}

/// `main.c:10:10: fatal error: infiniband/verbs.h: No such file or directory`.
fn compiler(lower: &str) -> Option<usize> {
    const SOURCES: [&str; 9] = [".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".cu", ".cuh", ".pyx"];
    const WORDS: [&str; 7] = [
        "declar",
        "expected",
        "no member named",
        "has no member",
        "unknown type",
        "arguments",
        ".h: no such file",
    ];
    let (before, message) = lower.split_once("error: ")?;
    let before = before.trim_end_matches("fatal ").trim_end().strip_suffix(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut places = before.rsplitn(3, ':');
    let (last, middle, first) = (places.next()?, places.next()?, places.next());
    let file = match first {
        Some(file) if is_number(last) && is_number(middle) => file,
        _ if is_number(last) => middle,
        _ => return None,
    };
    let is_source = SOURCES.iter().any(|end| file.ends_with(end));
    // Programs name the line of their source, too, but no column.
    let has_column = is_number(middle) || WORDS.iter().any(|words| message.contains(words));
    (is_source && has_column).then(|| file.rfind([' ', '\t']).map_or(0, |space| space + 1))
}

/// `undefined reference to 'ibv_open_device'`, `cannot find -libverbs`.
fn linker(lower: &str) -> Option<usize> {
    ["undefined reference to ", "cannot find -l"]
        .iter()
        .find_map(|words| lower.find(words))
}

/// `configure: error: ibverbs not found`, `Could NOT find IBVerbs (missing: …)`, `No package 'libibverbs' found`.
fn configure(lower: &str) -> Option<usize> {
    let at = ["configure: error:", "could not find ", "no package '"]
        .iter()
        .find_map(|words| lower.find(words))?;
    // CMake lists what it misses, and pkg-config says where it looked.
    let is_one = lower[at..].starts_with("configure:")
        || lower[at..].contains("(missing:")
        || lower[at..].starts_with("no package '") && lower.ends_with(" found");
    is_one.then_some(at)
}

/// Whether a message is about the kernel's part: its headers, a driver's sources, a function of its verbs.
fn is_of_kernel(lower: &str) -> bool {
    const PLACES: [&str; 7] = [
        "drivers/infiniband",
        "drivers/net/ethernet",
        "ofa_kernel",
        "rdma/ib_verbs.h",
        "rdma/ib_umem.h",
        "rdma/ib_cm.h",
        "mlx5/driver.h",
    ];
    // DKMS builds modules only, in `/var/lib/dkms/NAME/VERSION/build`.
    let of_dkms = || lower.contains("/dkms/") && names_package(lower) && !lower.contains(GPU_HEADER);
    PLACES.iter().any(|place| lower.contains(place)) || has_word_from(lower, "ib_") || of_dkms()
}

/// Whether a message is about the libraries: their headers, names and functions.
fn is_of_verbs(lower: &str) -> bool {
    const NAMES: [&str; 9] = [
        "infiniband/",
        "rdma/rdma_cma.h",
        "rdma/rdma_verbs.h",
        "ibverbs",
        "rdmacm",
        "rdma-core",
        "-lmlx5",
        "-lmlx4",
        "-lefa",
    ];
    const FUNCTIONS: [&str; 4] = ["ibv_", "rdma_", "mlx5dv_", "efadv_"];
    NAMES.iter().any(|name| lower.contains(name))
        || FUNCTIONS.iter().any(|beginning| has_word_from(lower, beginning))
}

/// Whether a word begins so.
fn has_word_from(lower: &str, beginning: &str) -> bool {
    let is_start = |at: usize| at == 0 || !is_word(lower.as_bytes()[at - 1]);
    lower.match_indices(beginning).any(|(at, _)| is_start(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_compile_is_a_matter_of_headers_and_no_failure_of_a_device() {
        for (line, expected) in [
            (
                "perf.c:10:10: fatal error: infiniband/verbs.h: no such file or directory",
                Some(K::NoLibrary),
            ),
            (
                "[  40%] src/net.cpp:44:5: error: 'ibv_create_qp_ex' was not declared in this scope",
                Some(K::NoLibrary),
            ),
            (
                "/root/iser/rdma.c:998:8: error: macro \"ib_create_cq\" passed 6 arguments, but takes just 5",
                Some(K::DriverNotBuilt),
            ),
            (
                "/usr/src/ofa_kernel/include/rdma/ib_addr.h:40: error: expected identifier",
                Some(K::DriverNotBuilt),
            ),
            (
                "/var/lib/dkms/nv_peer_mem/1.3/build/nv_peer_mem.c:477:15: error: unknown field 'client' specified in initializer",
                Some(K::DriverNotBuilt),
            ),
            (
                "error: config_mlx5_eswitch not support kernel version 5.6 or higher (current: 5.15.0-1022-azure).",
                Some(K::DriverNotBuilt),
            ),
            (
                "irdma: unsupported kernel version 6.8.0-45-generic",
                Some(K::DriverNotBuilt),
            ),
            ("zfs: unsupported kernel version 6.8.0-45-generic", None),
            ("mlnx_ofed supports this kernel version", None),
            ("/usr/bin/ld: cannot find -libverbs", Some(K::NoLibrary)),
            (
                "main.o: undefined reference to `rdma_create_event_channel'",
                Some(K::NoLibrary),
            ),
            ("no package 'libibverbs' found", Some(K::NoLibrary)),
            (
                "could not find ibverbs (missing: ibverbs_include_dir)",
                Some(K::NoLibrary),
            ),
            (
                "configure: error: cannot find rdma/rdma_cma.h",
                Some(K::NoLibrary),
            ),
            // Of other libraries, and of programs that run.
            ("main.c:3:10: fatal error: png.h: no such file or directory", None),
            ("/usr/bin/ld: cannot find -lcuda", None),
            ("error: ibv_create_qp failed: cannot allocate memory", None),
            ("net.cc:88: error: failed", None),
            ("verbs.c:120 error: ibv_open_device failed", None),
            ("could not find a device for rdma_bind_addr", None),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
