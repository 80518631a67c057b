//! Transceivers, read by a thread of their own: an adapter that does not answer takes no other question with it.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool, mpsc::sync_channel},
    time::Duration,
};

use rdma_health_protocol::{HelperError, ModuleMemory};
use rustix::io::Errno;

use super::{Turn, spawn};
use crate::host;

/// How long an answer waits for a reading. One of sixteen modules takes less than a second.
const PATIENCE: Duration = Duration::from_secs(2);

type Answer = Result<Vec<ModuleMemory>, HelperError>;

/// What the last reading found.
#[derive(Default)]
pub(super) struct Modules {
    last: Arc<Mutex<Option<Answer>>>,
    reading: Arc<AtomicBool>,
}

impl Modules {
    /// Starts a reading if none goes on, and returns what it finds within [`PATIENCE`], or what the last one found.
    ///
    /// # Errors
    /// Those of [`host::modules`]; `EAGAIN` before the first reading has ended.
    pub(super) fn read(&self, own: &'static Path) -> Answer {
        if let Some(turn) = Turn::take(&self.reading) {
            let (ended, end) = sync_channel(1);
            let last = Arc::clone(&self.last);
            let spawned = spawn("modules", move || {
                let answer = host::modules(own);
                *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
                drop(turn);
                // Fails if no one waits for it any more.
                let _ = ended.send(());
            });
            if spawned.is_ok() {
                let _ = end.recv_timeout(PATIENCE);
            }
        }
        // A reading replaces the answer as a whole, also after a panic.
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone().unwrap_or_else(|| {
            Err(HelperError {
                device: None,
                call: "reading the memory of transceivers".into(),
                errno: Errno::AGAIN.raw_os_error(),
            })
        })
    }
}
