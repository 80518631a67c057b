//! A communication library that a program did not find where it runs.

use crate::symptom::SymptomKind::{self as K};

/// Libraries that move data over RDMA, in lower case.
const LIBRARIES: [&str; 13] = [
    "nixl",
    "rixl",
    "mooncake",
    "deepep",
    "deep_ep",
    "deep-ep",
    "nvshmem",
    "uccl",
    "mori",
    "flagcx",
    "ucxx",
    "ucx-py",
    "aws-ofi-nccl",
];
/// What may stand between the name and what is said of it, in lower case.
const NOUNS: [&str; 7] = [
    "transfer", "engine", "library", "package", "backend", "module", "plugin",
];
/// How a program says that it is not there, in lower case.
const MISSING: [&str; 4] = [
    "is not available",
    "is not installed",
    "not installed",
    "is unavailable",
];
/// The program does without it, in lower case.
const GOES_ON: [&str; 7] = ["fall", "using ", "skip", "disabl", "without", "ignor", "will "];

/// `NIXL is not available`, `Mooncake Transfer Engine is not installed`.
pub(super) fn missing(lower: &str) -> Option<(K, usize)> {
    let at = MISSING.iter().filter_map(|words| lower.find(words)).min()?;
    if GOES_ON.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let mut words = lower[..at]
        .rsplit(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))
        .filter(|word| !word.is_empty());
    let name = words.by_ref().take(4).find(|word| !NOUNS.contains(word))?;
    LIBRARIES.contains(&name).then_some((K::BackendMissing, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_is_told_from_one_that_is_not_needed() {
        for line in [
            "runtimeerror: nixl is not available",
            "importerror: mooncake transfer engine is not installed, run pip install mooncake-transfer-engine",
            "valueerror: deep_ep is not installed",
        ] {
            assert!(missing(line).is_some(), "{line}");
        }
        for line in [
            "nixl is not available, falling back to tcp",
            "nixl is available",
            "flash_attn is not installed",
            "the metadata of nixl agent 7 is not available",
        ] {
            assert!(missing(line).is_none(), "{line}");
        }
    }
}
