//! Complaints of the kernel without a consequence: features that a device does not have, and address ranges that it does not need.

use super::{
    entity::{is_rdma_name, named},
    grade::Grade,
    line::Lower,
};

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
    let rest = INSTEAD.iter().find_map(|words| lower.split_once(words));
    goes_on(lower) || rest.is_some_and(|(_, rest)| !is_slower(rest))
}

/// Whether a line in lower case says that the program goes on in another way, or without what failed: `real-time timestamps are unsupported; using
/// the device clock`, `error in initializing the library. Continuing without registration cache support`.
pub(super) fn goes_on(lower: &str) -> bool {
    const INSTEAD: [&str; 8] = [
        "falling back to ",
        "fall back to ",
        "fallback to ",
        "continuing with ",
        "proceeding with ",
        "; using ",
        ", using ",
        ". using ",
    ];
    // A value that is too large is made smaller: `CQ size 131072 exceeds device max_cqe 65535, clamping`.
    const LOWERED: [&str; 5] = [
        ", clamping",
        "clamped to ",
        "limiting to ",
        "truncating to ",
        "capping to ",
    ];
    const WITHOUT: [&str; 2] = ["continuing without ", "proceeding without "];
    let behind = |words: &[&str]| {
        words
            .iter()
            .find_map(|words| lower.split_once(words))
            .map(|(_, rest)| rest)
    };
    let replaces = |rest: &str| !is_slower(rest) && !rest.split([' ', ',', ';']).any(is_rdma_name);
    // The path to GPU memory, in place of which are copies.
    let of_gpu_path = ["gpudirect", "gpu direct", "gdrcopy", "gpu memory"]
        .iter()
        .any(|name| lower.contains(name));
    LOWERED.iter().any(|words| lower.contains(words))
        || !of_gpu_path
            && (behind(&INSTEAD).is_some_and(replaces)
                || behind(&WITHOUT).is_some_and(|rest| !is_rdma_itself(rest)))
}

/// Whether a line in lower case names another path to GPU memory that is as good: `Peermem not available, falling back to GPU Direct RDMA (DMAbuf)`.
pub(super) fn has_other_path(lower: &str) -> bool {
    const INSTEAD: [&str; 4] = ["falling back to ", "fall back to ", "fallback to ", ", using "];
    const PATHS: [&str; 5] = ["dmabuf", "dma-buf", "dma_buf", "peermem", "peer_mem"];
    const OTHERS: [&str; 5] = ["without", "no ", "host", "copy", "copies"];
    let behind = INSTEAD.iter().find_map(|words| lower.split_once(words));
    behind.is_some_and(|(_, rest)| {
        PATHS.iter().any(|path| rest.contains(path)) && !OTHERS.iter().any(|word| rest.contains(word))
    })
}

/// Whether what a program does instead is slower than RDMA, or stays within the node.
fn is_slower(rest: &str) -> bool {
    const SLOWER: [&str; 10] = [
        "tcp", "socket", "ethernet", "ipoib", "shm", "sysv", "xgmi", "nvlink", "pcie", "-only",
    ];
    SLOWER.iter().any(|word| rest.contains(word))
}

/// Whether what a program does without is RDMA, or its path to GPUs: `InfiniBand support`, `GPUDirect RDMA`.
fn is_rdma_itself(rest: &str) -> bool {
    const NAMES: [&str; 14] = [
        "rdma",
        "infiniband",
        "verbs",
        "roce",
        "ib",
        "efa",
        "ucx",
        "openib",
        "ofi",
        "libfabric",
        "gpudirect",
        "gdr",
        "gin",
        "ibgda",
    ];
    let rest = rest.split(['.', ',', ';', '(']).next().unwrap_or_default();
    let mut words = rest
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let last = words.rfind(|word| !matches!(*word, "support" | "it" | "transport" | "network" | "devices"));
    last.is_none_or(|word| NAMES.contains(&word))
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
    const NEEDLESS: [&str; 12] = [
        "for a large bar",
        "vf bar ",
        "bar 6",
        "bar 7",
        "bar 8",
        "bar 9",
        "bar 10",
        "bar 11",
        "bar 12",
        "bar 13",
        "bar 14",
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
        assert!(has_other_path(
            "nccl warn net/ib: peermem not available, falling back to gpu direct rdma (dmabuf) for device 0"
        ));
        assert!(has_other_path("dma-buf is not supported, using nvidia_peermem"));
        assert!(!has_other_path(
            "peermem not available, falling back to copies without dmabuf"
        ));
        assert!(!has_other_path(
            "peermem not available, falling back to host memory"
        ));
        for line in [
            "rx queue 0: real-time cq timestamps are unsupported; using the device clock format",
            "warning: error in initializing the library.continuing without infiniband registration cache support.",
            "rdma: huge pages not available, using 4k pages instead",
            "creation of 1 listeners failed, continuing with succeeded transport",
        ] {
            assert!(goes_on(line), "{line}");
        }
        for line in [
            "rdma init failed, continuing without rdma",
            "ibv_open_device failed, continuing without infiniband support.",
            "no device found; using sockets",
            "gpudirect rdma unavailable, continuing without it",
            "rdma: gpudirect not available, falling back to host staging",
            "failed to open mlx5_1, using mlx5_0 instead",
            "rdma: device mlx5_0 failed; trying mlx5_1",
        ] {
            assert!(!goes_on(line), "{line}");
        }
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
