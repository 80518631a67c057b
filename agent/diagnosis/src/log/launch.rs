//! What libraries report of how a job was started: two processes with one rank, another number of processes than ranks, ranks that see other devices than
//! their peers, a node whose GPUs have no path to each other.

use super::line::{after, number};
use crate::symptom::SymptomKind::{self as K};

/// Words of lines that matter here, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "checked in",
    "loop back to start",
    "contain rank",
    "worker_count=",
];

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    // `Bootstrap Root : rank 1 of 8 ranks has already checked in`, `mismatch in rank count from procs 8 : 16`
    let of_rank = lower
        .find("already checked in")
        .filter(|_| lower.contains("rank"));
    if let Some(at) = of_rank.or_else(|| lower.find("mismatch in rank count")) {
        return Some((K::SettingUnmatched, at));
    }
    if let Some(at) = crowded(lower) {
        return Some((K::SettingUnmatched, at));
    }
    // `ring 0 does not loop back to start (12 != 0)`, `ring 3 does not contain rank 5`
    let of_ring = ["does not loop back to start", "does not contain rank"]
        .iter()
        .find_map(|words| lower.find(words));
    if let Some(at) = of_ring.filter(|_| lower.contains("ring ")) {
        return Some((K::PeerDiffers, at));
    }
    let at = ["graph/paths.", "graph/topo."]
        .iter()
        .find_map(|source| lower.find(source))?;
    let is_failure = ["failed to", "could not", "cannot"]
        .iter()
        .any(|words| lower.contains(words));
    (lower.contains("ccl warn") && is_failure).then_some((K::ComputeError, at))
}

/// Where `PyTorch`'s barrier counted more processes than the job has ranks: `(world_size=2, worker_count=4, timeout=0:30:00)`.
fn crowded(lower: &str) -> Option<usize> {
    let at = lower.find("worker_count=")?;
    let workers = after(lower, "worker_count=").and_then(number)?;
    let ranks = after(lower, "world_size=").and_then(number)?;
    (workers > ranks).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_was_started_wrongly_is_told_from_one_that_fails() {
        for (line, expected) in [
            (
                "bootstrap.cc:131 nccl warn bootstrap root : rank 1 of 8 ranks has already checked in",
                Some(K::SettingUnmatched),
            ),
            (
                "nccl warn bootstrap root : mismatch in rank count from procs 8 : 16",
                Some(K::SettingUnmatched),
            ),
            (
                "timed out initializing process group in store based barrier on rank: 3, for key: store_based_barrier_key:1 (world_size=2, worker_count=4, timeout=0:30:00)",
                Some(K::SettingUnmatched),
            ),
            (
                "store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)",
                None,
            ),
            (
                "graph/rings.cc:58 nccl warn error : ring 0 does not loop back to start (12 != 0)",
                Some(K::PeerDiffers),
            ),
            (
                "graph/rings.cc:50 nccl warn error : ring 3 does not contain rank 5",
                Some(K::PeerDiffers),
            ),
            (
                "graph/paths.cc:120 nccl warn failed to find reverse path from remnode 0/200000 nlinks 3",
                Some(K::ComputeError),
            ),
            ("nccl info graph/paths.cc: trees", None),
            (
                "graph/search.cc:1085 nccl warn could not find a path for pattern 4, falling back to simple order",
                None,
            ),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
