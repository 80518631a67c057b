//! Questions to the driver of an adapter or to a disk, each in its own thread: one that does not answer holds up no other question.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool, mpsc::sync_channel},
    time::Duration,
};

use rdma_health_protocol::HelperError;
use rustix::io::Errno;

use super::{Turn, spawn};

/// How long an answer waits for a reading. One of sixteen adapters takes less than a second.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the last reading found.
pub(super) struct Latest<T> {
    /// The name of its thread.
    thread: &'static str,
    /// What it does, for errors.
    call: &'static str,
    last: Arc<Mutex<Option<Result<T, HelperError>>>>,
    reading: Arc<AtomicBool>,
}

impl<T: Clone + Send + 'static> Latest<T> {
    pub(super) fn new(thread: &'static str, call: &'static str) -> Self {
        Self {
            thread,
            call,
            last: Arc::default(),
            reading: Arc::default(),
        }
    }

    /// Starts a reading if none goes on, and returns what it finds within [`PATIENCE`], or what the last one found.
    ///
    /// # Errors
    /// Those of `read`; `EAGAIN` before the first reading has ended.
    pub(super) fn read(
        &self,
        read: impl FnOnce() -> Result<T, HelperError> + Send + 'static,
    ) -> Result<T, HelperError> {
        if let Some(turn) = Turn::take(&self.reading) {
            let (ended, end) = sync_channel(1);
            let last = Arc::clone(&self.last);
            let spawned = spawn(self.thread, move || {
                let answer = read();
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
                call: self.call.into(),
                errno: Errno::AGAIN.raw_os_error(),
            })
        })
    }
}
