//! Marks of the place where a job runs: the maker of its GPUs, and what started it. A remedy for other GPUs, or for a pod where there is
//! none, helps no one.

use std::sync::LazyLock;

use serde::Serialize;

use super::phrases::Phrases;

/// What lines of a log show of the place, whatever else they say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Marks {
    /// Software for AMD's GPUs wrote it. What it shares with NVIDIA's says nothing: RCCL prints the names of NCCL and CUDA.
    pub amd: bool,
    /// Slurm started the job.
    pub slurm: bool,
}

/// One of the marks.
#[derive(Debug, Clone, Copy)]
enum Mark {
    Amd,
    Slurm,
}

/// Words, in lower case.
const WORDS: &[(&str, Mark)] = &[
    ("rccl version", Mark::Amd),
    ("rocm version", Mark::Amd),
    ("hip version", Mark::Amd),
    ("rocr version", Mark::Amd),
    ("+hip", Mark::Amd),
    ("hipify/", Mark::Amd),
    ("librccl", Mark::Amd),
    ("rocshmem", Mark::Amd),
    ("iommu=pt\" from kernel", Mark::Amd),
    ("hsa_force_fine_grain", Mark::Amd),
    ("hip error", Mark::Amd),
    ("hip failure", Mark::Amd),
    ("hip out of memory", Mark::Amd),
    ("amdgpu", Mark::Amd),
    ("(rocm)", Mark::Amd),
    ("registerrdmamemoryregion", Mark::Amd),
    ("mori_", Mark::Amd),
    ("mori-", Mark::Amd),
    ("libmori", Mark::Amd),
    ("slurmstepd:", Mark::Slurm),
    ("srun: ", Mark::Slurm),
    ("slurm_", Mark::Slurm),
];

static FOUND: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(anchors()));

/// The words, which make a line worth reading.
pub(super) fn anchors() -> impl Iterator<Item = &'static str> {
    WORDS.iter().map(|(word, _)| *word)
}

impl Marks {
    /// Adds what a line in lower case shows.
    pub(super) fn add(&mut self, lower: &str) {
        for found in FOUND.find(lower) {
            match WORDS.get(found.index) {
                Some((_, Mark::Amd)) => self.amd = true,
                Some((_, Mark::Slurm)) => self.slurm = true,
                None => {}
            }
        }
    }
}
