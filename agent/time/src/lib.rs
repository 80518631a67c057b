//! The time of day as a number, and jitter.

#![forbid(unsafe_code)]

mod jitter;

use std::time::{Duration, SystemTime};

pub use jitter::Jitter;

/// How long after the beginning of 1970 a time is; nothing for one before.
pub fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The time now, in whole seconds since 1970.
pub fn now() -> u64 {
    since_1970(SystemTime::now()).as_secs()
}
