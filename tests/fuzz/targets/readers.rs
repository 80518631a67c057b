//! Any bytes as what any files of a node hold: every reader and rule goes through them.
#![no_main]

use std::sync::Arc;

use rdma_health_fuzz::{FIXTURE, node};

libfuzzer_sys::fuzz_target!(|changes: Vec<(u16, &[u8])>| {
    let mut snapshot = FIXTURE.clone();
    let files: Vec<String> = snapshot
        .recording
        .iter()
        .filter(|(_, answers)| answers.read.is_some())
        .map(|(path, _)| path.to_owned())
        .collect();
    for (which, content) in changes.into_iter().take(16) {
        let path = &files[usize::from(which) % files.len()];
        snapshot.recording.entry(path).read = Some(Ok(Arc::from(content)));
    }
    node(&snapshot);
});
