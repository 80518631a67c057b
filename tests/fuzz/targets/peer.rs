//! Any bytes as what another node sends: before it has proved anything, as frames, and as the body of a frame of a node that knows the
//! token.
#![no_main]

use std::sync::LazyLock;

use rdma_health_peer::untrusted;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    RUNTIME.block_on(async {
        for result in untrusted::handshakes(bytes).await {
            assert!(result.is_err(), "a stranger was admitted");
        }
        untrusted::frames(bytes).await;
        untrusted::body(bytes).await;
    });
});
