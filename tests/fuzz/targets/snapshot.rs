//! Any bytes as an archive: refused, or a snapshot that can be read, judged, made anonymous and written again.
#![no_main]

use rdma_health_fuzz::{node, round_trip};
use rdma_health_snapshot::Snapshot;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(snapshot) = Snapshot::read(bytes) {
        round_trip(&snapshot);
        node(&snapshot);
    }
});
