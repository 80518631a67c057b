//! Randomness that keeps the nodes of a cluster apart: not for secrets, and repeatable in tests.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// A source of random durations (`SplitMix64`).
#[derive(Debug, Clone)]
pub(super) struct Jitter(u64);

impl Jitter {
    /// One that nobody can foresee.
    pub(super) fn new() -> Self {
        // The standard library's only source of randomness; each state has keys of its own.
        Self(RandomState::new().hash_one(0_u8))
    }

    /// One that says the same each time.
    #[cfg(test)]
    pub(super) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// From `least` up to `most`, evenly.
    pub(super) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let share = f64::from(u32::try_from(bits >> 32).unwrap_or_default()) / f64::from(u32::MAX);
        least + most.saturating_sub(least).mul_f64(share)
    }
}
