//! The bytes that a probe writes and looks for.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
};

use crate::sys::MemoryRegion;

/// A sequence of words that differs from probe to probe, so that what an earlier one left is never taken for it. It is the
/// same on machines of either byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pattern {
    seed: u64,
    /// All ones for the complement.
    flip: u64,
}

impl Pattern {
    /// A new one.
    pub(super) fn new() -> Self {
        // The standard library's per-process random keys are as good a seed as any.
        Self::of(RandomState::new().hash_one(std::process::id()))
    }

    /// The one with this seed.
    pub(super) fn of(seed: u64) -> Self {
        Self { seed, flip: 0 }
    }

    /// What another end needs to know it.
    pub(super) fn seed(self) -> u64 {
        self.seed
    }

    /// Its complement, which differs in every byte.
    pub(super) fn complement(self) -> Self {
        Self {
            flip: !self.flip,
            ..self
        }
    }

    /// The word at a position (`SplitMix64`), as it is stored.
    fn word(self, at: u64) -> u64 {
        let mut z = self
            .seed
            .wrapping_add(at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) ^ self.flip).to_le()
    }

    fn byte(self, at: usize) -> u8 {
        self.word(at as u64 / 8).to_ne_bytes()[at % 8]
    }

    /// Fills the first `length` bytes of a region with it.
    pub(super) fn fill(self, region: &MemoryRegion, length: usize) {
        self.store(region.words(), region.bytes(), length);
    }

    /// Offset of the first byte among the first `length` that is not the pattern's.
    pub(super) fn first_difference(self, region: &MemoryRegion, length: usize) -> Option<usize> {
        self.difference(region.words(), region.bytes(), length)
    }

    fn store(self, words: &[AtomicU64], bytes: &[AtomicU8], length: usize) {
        let whole = length / 8;
        for (at, word) in words[..whole].iter().enumerate() {
            word.store(self.word(at as u64), Relaxed);
        }
        for (at, byte) in bytes.iter().enumerate().take(length).skip(whole * 8) {
            byte.store(self.byte(at), Relaxed);
        }
    }

    fn difference(self, words: &[AtomicU64], bytes: &[AtomicU8], length: usize) -> Option<usize> {
        let whole = length / 8;
        let word = words[..whole]
            .iter()
            .enumerate()
            .position(|(at, word)| word.load(Relaxed) != self.word(at as u64));
        let from = word.map_or(whole * 8, |at| at * 8);
        (from..length).find(|&at| bytes[at].load(Relaxed) != self.byte(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words, and the same memory's contents as bytes.
    fn views(pattern: Pattern, length: usize) -> (Vec<AtomicU64>, Vec<AtomicU8>) {
        let words = (0..length as u64 / 8)
            .map(|at| AtomicU64::new(pattern.word(at)))
            .collect();
        let bytes = (0..length).map(|at| AtomicU8::new(pattern.byte(at))).collect();
        (words, bytes)
    }

    #[test]
    fn the_first_difference_is_found_in_words_and_in_the_tail() {
        let pattern = Pattern::of(42);
        for length in [0, 1, 7, 8, 9, 64, 67] {
            assert_eq!(
                {
                    let (w, b) = views(pattern, length);
                    pattern.difference(&w, &b, length)
                },
                None
            );
            for at in 0..length {
                let (words, bytes) = views(pattern, length);
                bytes[at].fetch_xor(1, Relaxed);
                if at / 8 < words.len() {
                    words[at / 8].fetch_xor(1, Relaxed);
                }
                assert_eq!(
                    pattern.difference(&words, &bytes, length),
                    Some(at),
                    "{length} {at}"
                );
            }
        }
    }

    #[test]
    fn the_complement_differs_in_every_byte() {
        let pattern = Pattern::new();
        let (words, bytes) = views(Pattern::of(0), 19);
        pattern.complement().store(&words, &bytes, 19);
        let kept = words
            .iter()
            .flat_map(|w| w.load(Relaxed).to_ne_bytes())
            .chain(bytes[16..].iter().map(|b| b.load(Relaxed)));
        assert!(kept.enumerate().all(|(at, byte)| byte == !pattern.byte(at)));
        assert_eq!(pattern.complement().complement(), pattern);
    }

    #[test]
    fn two_probes_write_different_bytes() {
        assert_ne!(Pattern::new(), Pattern::new());
    }
}
