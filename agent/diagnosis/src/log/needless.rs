//! Complaints of the kernel without a consequence: features that a device does not have, and address ranges that it does not need.

use super::{entity::named, grade::Grade, line::Lower};

/// Whether a line in lower case reports nothing but that something is not supported.
pub(super) fn only_misses_a_feature(lower: &str) -> bool {
    const MISSING: [&str; 3] = ["not supported", "unsupported", "not available"];
    let Some(words) = MISSING.iter().find(|words| lower.contains(*words)) else {
        return false;
    };
    let rest = lower.replace(words, "");
    !Grade::of(&Lower::of(&rest)).failing
}

/// Whether a line in lower case says what the program does instead of what failed: `Relaxed ordering requested but NOT supported. Falling back to
/// strict ordering`, `rejected by DevX CREATE_QP; retrying with host memory`.
pub(super) fn has_substitute(lower: &str) -> bool {
    const INSTEAD: [&str; 5] = [
        "falling back to ",
        "fall back to ",
        "fallback to ",
        "; trying ",
        "retrying with ",
    ];
    // What is slower than RDMA, or stays within the node.
    const SLOWER: [&str; 10] = [
        "tcp", "socket", "ethernet", "ipoib", "shm", "sysv", "xgmi", "nvlink", "pcie", "-only",
    ];
    let rest = INSTEAD.iter().find_map(|words| lower.split_once(words));
    rest.is_some_and(|(_, rest)| !SLOWER.iter().any(|word| rest.contains(word)))
}

/// The function whose address range the kernel could assign after all: `pci 0000:41:00.0: BAR 0 [mem 0x…-0x… 64bit pref]: assigned`.
pub(super) fn assigned(line: &Lower<'_>) -> Option<String> {
    let is_range = line.lower.contains(": bar ")
        && (line.lower.contains("]: assigned") || line.lower.contains(": assigned [mem"));
    is_range.then(|| named(line).function)?
}

/// Whether an address range that could not be assigned is one that the function works without: those of virtual functions, an option
/// ROM, and the windows of bridges.
pub(super) fn is_needless(lower: &str) -> bool {
    const NEEDLESS: [&str; 11] = [
        "vf bar ", "bar 6", "bar 7", "bar 8", "bar 9", "bar 10", "bar 11", "bar 12", "bar 13", "bar 14",
        "bar 15",
    ];
    lower.contains("bar ") && NEEDLESS.iter().any(|name| lower.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_not_needed_is_told_from_failures() {
        assert!(only_misses_a_feature(
            "bnxt_en 0000:c1:00.0: roce bonding is not supported"
        ));
        assert!(!only_misses_a_feature(
            "bnxt_en 0000:c1:00.0: failed to start: not supported"
        ));
        assert!(has_substitute(
            "w1126 context.cpp:217] relaxed ordering not supported (ibv_reg_mr_iova2 missing). falling back to strict ordering"
        ));
        assert!(!has_substitute("warn rdma transport failed, falling back to tcp"));
        assert!(!has_substitute("warn failed to register memory"));
        assert!(is_needless(
            "pci 0000:18:00.0: bar 7: failed to assign [mem size 0x08000000 64bit pref]"
        ));
        assert!(!is_needless(
            "pci 0000:18:00.0: bar 0: failed to assign [mem size 0x08000000 64bit pref]"
        ));
        let line = "pci 0000:3b:00.0: BAR 0 [mem 0x383800000000-0x383801ffffff 64bit pref]: assigned";
        assert_eq!(assigned(&Lower::of(line)), Some("0000:3b:00.0".to_owned()));
    }
}
