//! Any text as the manifest of an archive that is otherwise whole: what compression keeps a fuzzer from reaching.
#![no_main]

use rdma_health_fuzz::{node, packed, round_trip};
use rdma_health_snapshot::Snapshot;

libfuzzer_sys::fuzz_target!(|input: (&[u8], &[u8], &[u8])| {
    let (manifest, name, content) = input;
    if let Ok(snapshot) = Snapshot::read(packed(manifest, name, content).as_slice()) {
        round_trip(&snapshot);
        node(&snapshot);
    }
});
