//! Versions that do not fit: of the driver in the kernel and the library above it, and of a library and its plugins.

use crate::symptom::SymptomKind::{self as K};

/// What says that one version is not what another part needs, in lower case.
const UNFIT: [&str; 10] = [
    "version mismatch",
    "srcversion doesn't match",
    "srcversion does not match",
    "less than minimum",
    "less than the minimum",
    "doesn't match library version",
    "does not match library version",
    "unsupported driver version",
    "incompatible version",
    "is not compatible with",
];
/// Names of drivers and libraries of RDMA, in lower case.
const DRIVERS: [&str; 9] = [
    "hfi1",
    "opx",
    "psm",
    "mlx",
    "cxgb4",
    "irdma",
    "bnxt_re",
    "efa",
    "omni-path",
];
/// Libraries that load a plugin, or a library of the same release.
const LIBRARIES: [&str; 5] = ["nvshmem", "nccl", "rccl", "nixl", "ucc"];
/// Parts of other programs, and of the other end of a connection.
const OTHERS: [&str; 9] = [
    "cuda",
    "nvidia",
    "gpu",
    "hip ",
    "peer",
    "remote",
    "cm version",
    "protocol",
    "not using it",
];

/// `hfi1 driver version 1.2 is less than minimum required 1.3`, `Fatal: kernel ABI version 3 doesn't match library version 4`, `UID bootstrap
/// version (3) is not compatible with NVSHMEM version (4)`.
pub(super) fn differ(lower: &str) -> Option<(K, usize)> {
    let at = UNFIT.iter().find_map(|words| lower.find(words))?;
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if !lower.contains("version") || has(&OTHERS) {
        return None;
    }
    let of_driver = has(&["driver", "srcversion"]) && has(&DRIVERS) || lower.contains("kernel abi version");
    if of_driver {
        return Some((K::VersionMismatch, at));
    }
    let of_part = has(&["bootstrap", "plugin", "transport"]) && has(&LIBRARIES);
    of_part.then_some((K::BackendMissing, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_two_parts_must_fit() {
        for (line, expected) in [
            (
                "hfi1 driver version 1.2 is less than minimum required 1.3",
                Some(K::VersionMismatch),
            ),
            (
                "fatal: kernel abi version 3 doesn't match library version 4.",
                Some(K::VersionMismatch),
            ),
            (
                "bootstrap_uid.cpp:12: uid bootstrap version (3) is not compatible with nvshmem version (4)",
                Some(K::BackendMissing),
            ),
            (
                "the selected bootstrap returned an incompatible version 3. nvshmem expects 4",
                Some(K::BackendMissing),
            ),
            ("nvrm: api version mismatch of the nvidia driver", None),
            ("rxm: cm version mismatch of the driver", None),
            (
                "nccl_device_unpack plugin has incompatible version 3, not using it",
                None,
            ),
        ] {
            assert_eq!(differ(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
