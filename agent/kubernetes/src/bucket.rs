//! A token bucket whose caller supplies the time.

use std::time::{Duration, Instant};

/// Holds a limited number of tokens and gains one per interval.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    capacity: u32,
    every: Duration,
    tokens: u32,
    /// The time from which the next token accrues.
    since: Instant,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(capacity: u32, every: Duration, now: Instant) -> Self {
        Self {
            capacity,
            every,
            tokens: capacity,
            since: now,
        }
    }

    /// Takes a token if there are more than `spare`.
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

    /// Returns an unused token.
    pub(super) fn give_back(&mut self) {
        self.tokens = self.capacity.min(self.tokens + 1);
    }

    /// The time at which there will be more than `spare` tokens.
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
