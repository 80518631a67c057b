//! Any bytes as what any files of a node hold: every reader and rule goes through them.
#![no_main]

use std::sync::{Arc, LazyLock};

use rdma_health_fuzz::{FIXTURE, read};
use rdma_health_node::Root;

/// Every file that readers read.
static FILES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let files = FIXTURE.recording.iter();
    files
        .filter(|(_, answers)| answers.read.is_some())
        .map(|(path, _)| path.to_owned())
        .collect()
});

libfuzzer_sys::fuzz_target!(|changes: Vec<(u16, &[u8])>| {
    let mut recording = FIXTURE.recording.clone();
    for (which, content) in changes.into_iter().take(16) {
        let path = &FILES[usize::from(which) % FILES.len()];
        recording.entry(path).read = Some(Ok(Arc::from(content)));
    }
    read(Root::replay(Arc::new(recording), true));
});
