//! Randomness that spreads the nodes of a cluster over time; not for secrets, and repeatable in tests.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// A source of random durations (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Jitter(u64);

impl Default for Jitter {
    /// An unpredictable one.
    fn default() -> Self {
        // The standard library's only source of randomness; each state has keys of its own.
        Self(RandomState::new().hash_one(0_u8))
    }
}

impl Jitter {
    /// A repeatable one, for tests.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The interval, up to a tenth longer or shorter.
    pub fn around(&mut self, interval: Duration) -> Duration {
        self.between(interval.mul_f64(0.9), interval.mul_f64(1.1))
    }

    /// From `least` up to `most`, evenly.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let share = f64::from(u32::try_from(bits >> 32).unwrap_or_default()) / f64::from(u32::MAX);
        least + most.saturating_sub(least).mul_f64(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_a_tenth_and_differs() {
        let interval = Duration::from_secs(1000);
        let mut jitter = Jitter::default();
        let all: Vec<_> = (0..100).map(|_| jitter.around(interval)).collect();
        assert!(
            all.iter()
                .all(|jittered| (900..=1100).contains(&jittered.as_secs()))
        );
        assert!(all.iter().any(|jittered| *jittered != all[0]));
    }
}
