//! Work that may hang in the kernel.

use std::{fmt, io, sync::mpsc, thread, time::Duration};

use tokio::{
    sync::oneshot::{self, error::TryRecvError},
    time::{Instant, timeout},
};

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

/// Maximum number of threads of a [`Worker`] whose work hangs.
const MOST_HUNG: usize = 16;
/// As many of them may have been begun because something has changed.
const MOST_HUNG_BY_CHANGE: usize = 8;
/// Half of the time after which work is tried again for the first time although earlier work hangs.
const PAUSE: Duration = Duration::from_secs(30);

/// Does work that is repeated, such as looking at a file at intervals. Work that hangs occupies one thread, however often
/// it is repeated; with [`Worker::retrying`] a few.
#[derive(Debug)]
pub struct Worker<T> {
    deadline: Duration,
    /// Doubles with each thread that hangs; `None` to wait for the first one for ever.
    pause: Option<Duration>,
    /// Whether something has changed since the last call.
    changed: bool,
    /// When the last work was begun.
    begun: Option<Instant>,
    /// The work that has not finished, oldest first.
    running: Vec<oneshot::Receiver<T>>,
}

impl<T> Default for Worker<T> {
    fn default() -> Self {
        Self {
            deadline: DEADLINE,
            pause: None,
            changed: false,
            begun: None,
            running: Vec::new(),
        }
    }
}

impl<T> Worker<T> {
    /// Waits until this deadline and not until [`DEADLINE`]: for work that is more than one file.
    pub fn with_deadline(deadline: Duration) -> Self {
        Self {
            deadline,
            ..Self::default()
        }
    }

    /// Tries again in another thread while earlier work hangs: after longer and longer times, and after
    /// [`Worker::changed`]. So a path that was repaired is read, although the kernel never answers an earlier reading. For
    /// work that only reads: the order in which the threads end is not known.
    pub fn retrying() -> Self {
        Self {
            pause: Some(PAUSE),
            ..Self::default()
        }
    }

    /// What hung may work now: the next call tries again at once.
    pub fn changed(&mut self) {
        self.changed = true;
    }

    /// Whether work is begun although earlier work hangs.
    fn is_due(&mut self) -> bool {
        let hung = self.running.len();
        let changed = std::mem::take(&mut self.changed) && hung < MOST_HUNG_BY_CHANGE;
        let Some(pause) = self.pause.filter(|_| hung < MOST_HUNG) else {
            return false;
        };
        // At most 2^16.
        let pause = pause.saturating_mul(1 << hung);
        changed || self.begun.is_none_or(|begun| begun.elapsed() >= pause)
    }
}

impl<T: Send + 'static> Worker<T> {
    /// Does the work in a thread, and waits for it until the deadline. While earlier work hangs, no other is begun, except as
    /// described for [`Worker::retrying`].
    ///
    /// # Errors
    /// If the work does not finish in time, or panics.
    pub async fn run(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unanswered> {
        // The results of earlier work are out of date.
        let is_running =
            |earlier: &mut oneshot::Receiver<T>| matches!(earlier.try_recv(), Err(TryRecvError::Empty));
        self.running.retain_mut(is_running);
        if !self.running.is_empty() && !self.is_due() {
            let Some(latest) = self.running.last_mut() else {
                return Err(Unanswered);
            };
            if timeout(self.deadline, latest).await.is_err() {
                return Err(Unanswered);
            }
            self.running.pop();
        }
        let (sender, receiver) = oneshot::channel();
        // No one receives it if the worker was dropped.
        start(move || drop(sender.send(work())));
        self.begun = Some(Instant::now());
        self.changed = false;
        // Kept for the time of the wait, too: the caller may stop waiting.
        self.running.push(receiver);
        let Some(receiver) = self.running.last_mut() else {
            return Err(Unanswered);
        };
        let done = timeout(self.deadline, receiver).await.map_err(|_| Unanswered)?;
        self.running.pop();
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
            ..Worker::default()
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
    async fn work_is_tried_again_after_a_change_in_a_bounded_number_of_threads() {
        let mut worker = Worker {
            deadline: Duration::from_millis(50),
            ..Worker::retrying()
        };
        let begun = Arc::new(AtomicUsize::new(0));
        let (release, hung) = mpsc::channel::<()>();
        let hung = Arc::new(std::sync::Mutex::new(hung));
        let hanging = || {
            let (count, hung) = (Arc::clone(&begun), Arc::clone(&hung));
            move || {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = hung.lock().unwrap().recv();
                "late"
            }
        };
        assert_eq!(worker.run(hanging()).await, Err(Unanswered));
        assert_eq!(worker.run(hanging()).await, Err(Unanswered));
        assert_eq!(begun.load(Ordering::SeqCst), 1, "nothing has changed");
        worker.changed();
        worker.deadline = DEADLINE;
        assert_eq!(worker.run(|| "repaired").await, Ok("repaired"));
        worker.deadline = Duration::from_millis(5);
        for _ in 0..2 * MOST_HUNG {
            worker.changed();
            assert_eq!(worker.run(hanging()).await, Err(Unanswered));
        }
        assert_eq!(worker.running.len(), MOST_HUNG_BY_CHANGE);
        worker.pause = Some(Duration::ZERO);
        for _ in 0..2 * MOST_HUNG {
            assert_eq!(worker.run(hanging()).await, Err(Unanswered));
        }
        assert_eq!(worker.running.len(), MOST_HUNG);
        drop(release);
        worker.deadline = DEADLINE;
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
