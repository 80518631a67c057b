//! Any bytes as what any files of a node hold: every reader and rule goes through them.
#![no_main]

use std::sync::{Arc, LazyLock};

use rdma_health_fuzz::{FIXTURE, read};
use rdma_health_kernel::{Root, recording::Form};

/// Every file that readers read.
static FILES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let files = FIXTURE.recording.iter();
    files
        .filter(|(question, _)| question.form() == Form::Content)
        .filter_map(|(question, _)| question.path().map(str::to_owned))
        .collect()
});

libfuzzer_sys::fuzz_target!(|changes: Vec<(u16, &[u8])>| {
    let mut recording = FIXTURE.recording.clone();
    for (which, content) in changes.into_iter().take(16) {
        let path = &FILES[usize::from(which) % FILES.len()];
        recording.insert_file(path, content);
    }
    read(Root::replay(Arc::new(recording), true));
});
