//! What programs say of the ways to register memory of a GPU: the peer-memory module and DMA-BUF.

use crate::{
    log::line::is_word,
    symptom::SymptomKind::{self as K},
};

/// Words of the lines that [`find`] reads, in lower case.
pub(in crate::log) const ANCHORS: &[&str] = &[
    "dmabuf", "dma-buf", "dma_buf", "dma buf", "peermem", "peer mem", "peer_mem",
];

/// Names of DMA-BUF.
const DMA_BUF: [&str; 4] = ["dmabuf", "dma-buf", "dma_buf", "dma buf"];
/// Names of the peer-memory module.
const MODULE: [&str; 6] = [
    "nvidia-peermem",
    "nvidia_peermem",
    "nvidia peermem",
    "nv_peer_mem",
    "nv_peermem",
    "peer memory module",
];
/// What is said of something that is not there and that a program needs.
const NEEDED: [&str; 12] = [
    "required",
    "requires",
    "is needed",
    "must be",
    "not supported",
    "unsupported",
    "unavailable",
    "not available",
    "not enabled",
    "is missing",
    "no support",
    "requested but not found",
];
/// What is said of a module that is not there.
const ABSENT: [&str; 7] = [
    "not loaded",
    "isn't loaded",
    "not found",
    "not installed",
    "not present",
    "not detected",
    "not running",
];
/// The program goes on in another way, or the words are an option.
const OTHER_WAY: [&str; 8] = [
    "using dma",
    "use dma",
    "fall",
    "instead",
    "optional",
    "--",
    "not required",
    "not needed",
];

/// `DMA BUF supported required for GPU RDMA without nvidia-peermem`, `nvidia_peermem is not loaded`.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    // The name of a call says what failed, and not why.
    let stands = |at: usize, name: &str| {
        let byte = |at: Option<usize>| at.and_then(|at| lower.as_bytes().get(at));
        let is_part = |at: Option<usize>| byte(at).is_some_and(|byte| is_word(*byte));
        !is_part(at.checked_sub(1)) && !is_part(Some(at + name.len()))
    };
    let place = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| lower.find(name).filter(|at| stands(*at, name)))
    };
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&OTHER_WAY) {
        return None;
    }
    if let Some(at) = place(&DMA_BUF).filter(|at| {
        let after = &lower[*at..];
        NEEDED.iter().any(|word| after.contains(word))
    }) {
        return Some((K::DmaBufUnsupported, at));
    }
    let at = place(&MODULE)?;
    (has(&NEEDED) || has(&ABSENT)).then_some((K::GdrDisabled, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_the_memory_of_a_gpu_are_read_and_other_ways_are_left() {
        for (line, expected) in [
            (
                "rdma_context.cpp:1343] dma buf supported required for gpu rdma without nvidia-peermem",
                Some(K::DmaBufUnsupported),
            ),
            (
                "gpu memory registration: dmabuf is not supported by the kernel",
                Some(K::DmaBufUnsupported),
            ),
            ("warn: nvidia_peermem is not loaded", Some(K::GdrDisabled)),
            (
                "error: gpu direct rdma requires nvidia-peermem",
                Some(K::GdrDisabled),
            ),
            ("nvidia_peermem is not loaded, using dma-buf", None),
            ("nvidia_peermem is loaded", None),
            ("dma-buf is available on gpu device 0", None),
            (
                "call to ibv_reg_dmabuf_mr failed with error operation not supported",
                None,
            ),
            ("registered 4 regions with dmabuf", None),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
