//! A token bucket on a clock that its caller holds.

use std::time::{Duration, Instant};

/// Holds up to a number of tokens and gains one at each interval.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    capacity: u32,
    every: Duration,
    tokens: u32,
    /// From when the next token is counted.
    since: Instant,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(capacity: u32, every: Duration, now: Instant) -> Self {
        Self {
            capacity,
            every,
            tokens: capacity,
            since: now,
        }
    }

    /// Takes a token, where there are more than `spare`.
    pub(super) fn take(&mut self, spare: u32, now: Instant) -> bool {
        self.refill(now);
        if self.tokens <= spare {
            return false;
        }
        if self.tokens == self.capacity {
            self.since = now;
        }
        self.tokens -= 1;
        true
    }

    /// Gives a token back that was not used.
    pub(super) fn give_back(&mut self) {
        self.tokens = self.capacity.min(self.tokens + 1);
    }

    /// When there will be more than `spare` tokens.
    pub(super) fn ready(&mut self, spare: u32, now: Instant) -> Instant {
        self.refill(now);
        match (spare + 1).checked_sub(self.tokens) {
            None | Some(0) => now,
            Some(lacking) => self.since + self.every * lacking,
        }
    }

    fn refill(&mut self, now: Instant) {
        while self.tokens < self.capacity && now.saturating_duration_since(self.since) >= self.every {
            self.tokens += 1;
            self.since += self.every;
        }
    }
}
