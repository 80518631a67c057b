//! Whose memory a program registers. Host memory and GPU memory fail for different reasons, and many programs say only in another line
//! which of them it was.

use std::sync::LazyLock;

use super::phrases::{Occurrence, Phrases};
use crate::symptom::Gpu;

/// Words of GPU memory in a line about a registration, in lower case.
const WORDS: &[(&str, Gpu)] = &[
    ("rocm", Gpu::Amd),
    ("hip:", Gpu::Amd),
    ("hipmalloc", Gpu::Amd),
    ("amdgpu", Gpu::Amd),
    ("cuda", Gpu::Nvidia),
    ("dmabuf", Gpu::Any),
    ("dma-buf", Gpu::Any),
    ("gpu", Gpu::Any),
    // NVSHMEM's heap, which is in the memory of its GPU.
    ("unable to register memory handle", Gpu::Nvidia),
    ("transport_ib_common", Gpu::Nvidia),
    ("register heap handle", Gpu::Nvidia),
    ("device memory", Gpu::Any),
    ("hmem", Gpu::Any),
    ("mscclpp", Gpu::Any),
    ("type = 2", Gpu::Any),
];

/// What shows in a line before or after it that the memory is a GPU's. These words are also looked for in lines without a failure.
const NEIGHBOURS: &[(&str, Gpu)] = &[
    ("(rocm)", Gpu::Amd),
    ("hipmalloc", Gpu::Amd),
    ("rocm memory", Gpu::Amd),
    ("(cuda)", Gpu::Nvidia),
    ("cumemalloc", Gpu::Nvidia),
    ("cudamalloc", Gpu::Nvidia),
    ("cuda memory", Gpu::Nvidia),
    ("gpu buffer", Gpu::Any),
    ("gpu memory", Gpu::Any),
    ("gpu address", Gpu::Any),
    ("dmabuf", Gpu::Any),
    ("dma-buf", Gpu::Any),
    ("gdr_pin_buffer", Gpu::Nvidia),
    // Sandia OpenSHMEM's name for a heap in the memory of a GPU.
    ("external_heap", Gpu::Any),
    ("registration with hmem", Gpu::Any),
];

static OWN: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(WORDS.iter().map(|(word, _)| *word)));
static NEAR: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(neighbours()));

/// Words of lines that are worth reading because of them.
pub(super) fn neighbours() -> impl Iterator<Item = &'static str> {
    NEIGHBOURS.iter().map(|(word, _)| *word)
}

/// The GPU in a line about a registration, in lower case.
pub(super) fn of_registration(lower: &str) -> Option<Gpu> {
    // `hmem` is libfabric's word for it, and within others: `Shmem`, `oshmem`.
    let is_within = |start: usize| lower[..start].ends_with(|c: char| c.is_ascii_alphabetic());
    let is_sign = |found: &Occurrence| !(&lower[found.start..found.end] == "hmem" && is_within(found.start));
    let found = OWN.find(lower).filter(is_sign).min_by_key(|found| found.index)?;
    Some(WORDS.get(found.index)?.1)
}

/// The GPU in any other line in lower case.
pub(super) fn of_neighbour(lower: &str) -> Option<Gpu> {
    let found = NEAR.find(lower).min_by_key(|found| found.index)?;
    Some(NEIGHBOURS.get(found.index)?.1)
}
