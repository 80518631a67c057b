//! Work that may hang in the kernel.

use std::{fmt, io, sync::mpsc, thread, time::Duration};

use tokio::{sync::oneshot, time::timeout};

/// How long the agent waits for a file.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// The work did not finish in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unanswered;

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file system did not respond within {DEADLINE:?}")
    }
}

impl std::error::Error for Unanswered {}

impl From<Unanswered> for io::Error {
    fn from(unanswered: Unanswered) -> Self {
        Self::new(io::ErrorKind::TimedOut, unanswered)
    }
}

/// Does the work in a thread, and waits for it until [`DEADLINE`]. Afterwards the thread is left alone; it ends when the
/// kernel answers it. For the start of a program; what is repeated needs a [`Worker`].
///
/// # Errors
/// If the work does not finish in time, or panics.
pub fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unanswered> {
    let (sender, receiver) = mpsc::sync_channel(1);
    start(move || drop(sender.send(work())));
    receiver.recv_timeout(DEADLINE).map_err(|_| Unanswered)
}

/// Does work that is repeated, such as looking at a file at intervals. Work that hangs occupies one thread, however often
/// it is repeated.
#[derive(Debug)]
pub struct Worker<T> {
    deadline: Duration,
    /// The work of the last call, unless it has finished.
    running: Option<oneshot::Receiver<T>>,
}

impl<T> Default for Worker<T> {
    fn default() -> Self {
        Self {
            deadline: DEADLINE,
            running: None,
        }
    }
}

impl<T: Send + 'static> Worker<T> {
    /// Does the work in a thread, and waits for it until [`DEADLINE`]. While earlier work hangs, no other is begun.
    ///
    /// # Errors
    /// If the work does not finish in time, or panics.
    pub async fn run(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unanswered> {
        if let Some(earlier) = &mut self.running {
            // Its result is out of date.
            if timeout(self.deadline, earlier).await.is_err() {
                return Err(Unanswered);
            }
        }
        let (sender, receiver) = oneshot::channel();
        // No one receives it if the worker was dropped.
        start(move || drop(sender.send(work())));
        // Kept for the time of the wait, too: the caller may stop waiting.
        let receiver = self.running.insert(receiver);
        let done = timeout(self.deadline, receiver).await.map_err(|_| Unanswered)?;
        self.running = None;
        done.map_err(|_| Unanswered)
    }
}

/// Starts a thread. If the system has none left, the work is dropped, and with it the channel of its result.
fn start(work: impl FnOnce() + Send + 'static) {
    let _ = thread::Builder::new().name("file".into()).spawn(work);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // in a test, a failure is a panic

    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[tokio::test]
    async fn work_that_hangs_is_begun_once_and_its_late_result_is_not_used() {
        let mut worker = Worker {
            deadline: Duration::from_millis(50),
            running: None,
        };
        let (release, hung) = mpsc::channel::<()>();
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        let hanging = move || {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = hung.recv();
            "late"
        };
        assert_eq!(worker.run(hanging).await, Err(Unanswered));
        for _ in 0..3 {
            let count = Arc::clone(&begun);
            let again = move || {
                count.fetch_add(1, Ordering::SeqCst);
                "again"
            };
            assert_eq!(worker.run(again).await, Err(Unanswered));
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        worker.deadline = DEADLINE;
        release.send(()).unwrap();
        assert_eq!(worker.run(|| "now").await, Ok("now"));
    }

    #[tokio::test]
    async fn work_that_panics_has_no_result_and_the_next_one_has() {
        let mut worker = Worker::default();
        assert_eq!(
            worker.run(|| -> u8 { panic!("on purpose") }).await,
            Err(Unanswered)
        );
        assert_eq!(worker.run(|| 1).await, Ok(1));
        assert_eq!(within(|| 2), Ok(2));
    }
}
