//! What a probe measured, for tests of what is made of it.

use rdma_health_protocol::{Bandwidth, Latency};

const BYTES: u32 = 256 << 20;

/// So many Gb/s over the default budget, and a median of so many microseconds.
pub fn measured(gigabits: f64, micros: f64) -> (Bandwidth, Latency) {
    let bytes_per_second = gigabits * 1e9 / 8.0;
    let bandwidth = Bandwidth {
        bytes: BYTES.into(),
        seconds: f64::from(BYTES) / bytes_per_second,
        bytes_per_second,
        message_size: 65_536,
        queue_pairs: 16,
    };
    let latency = Latency {
        samples: 1000,
        min: micros * 0.9e-6,
        median: micros * 1e-6,
        p99: micros * 2e-6,
    };
    (bandwidth, latency)
}
