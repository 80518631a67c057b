//! Counters at earlier times.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Maximum number of samples of a series.
pub(super) const MAX_SAMPLES: usize = 32;
/// Maximum number of values of a sample: up to 48 of a port, of its network device, and of each member of its bond.
pub(super) const MAX_VALUES: usize = 288;

/// Counters at earlier times, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// The samples.
    pub samples: Vec<Sample>,
}

/// Counters at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Time in seconds since 1970.
    pub time: u64,
    /// Values by name.
    pub values: BTreeMap<String, u64>,
}

impl Series {
    /// Adds a sample if the last one is at least `spacing` seconds old, and drops samples older than `keep` seconds.
    pub(super) fn push(&mut self, sample: Sample, spacing: u64, keep: u64) {
        // If the clock was set back, samples in the future are not comparable.
        self.samples.retain(|earlier| earlier.time <= sample.time);
        let due = self
            .samples
            .last()
            .is_none_or(|last| sample.time - last.time >= spacing);
        // A counter that fell was reset, so earlier samples are not comparable.
        let reset = self.samples.last().is_some_and(|last| {
            let fell =
                |(name, value): (&String, &u64)| sample.values.get(name).is_some_and(|now| now < value);
            last.values.iter().any(fell)
        });
        if reset {
            self.samples.clear();
        }
        if due || reset {
            let oldest = sample.time.saturating_sub(keep);
            self.samples.push(sample);
            self.samples.retain(|sample| sample.time >= oldest);
            if self.samples.len() > MAX_SAMPLES {
                self.samples.remove(0);
            }
        }
    }

    /// The rise of a counter within `window` seconds before `now`, and its period in seconds, relative to the oldest
    /// sample of the window that is at least `least` seconds old. `None` if there is no such sample, or the counter was
    /// reset.
    pub fn rise(&self, name: &str, value: u64, now: u64, least: u64, window: u64) -> Option<(u64, u64)> {
        self.rise_from(0, name, value, now, least, window)
    }

    /// The same, without the samples before the time `from`.
    pub(super) fn rise_from(
        &self,
        from: u64,
        name: &str,
        value: u64,
        now: u64,
        least: u64,
        window: u64,
    ) -> Option<(u64, u64)> {
        let mut samples = self.samples.iter().filter(|sample| sample.time >= from);
        let sample = samples.find(|sample| {
            let age = now.saturating_sub(sample.time);
            (least..=window).contains(&age) && sample.values.contains_key(name)
        })?;
        let rise = value.checked_sub(*sample.values.get(name)?)?;
        Some((rise, now - sample.time))
    }
}
