//! Threads that may get stuck.
//!
//! A read of sysfs can hang in the kernel, and then no deadline in the reading thread helps. One worker is enough for a
//! healthy node; if it gets stuck, another one takes over the queue.
//!
//! Outcomes are delivered together when the queue is empty, because waking a thread for each one costs more than reading
//! a device.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError},
    thread,
    time::Instant,
};

/// Maximum number of workers. Each stuck read blocks one; if all are blocked, nothing is read until one returns.
const MAX_WORKERS: usize = 64;
/// Reading needs little stack; the default would be 2 MiB of address space per thread.
const STACK: usize = 256 << 10;

type Job<T> = Box<dyn FnOnce() -> T + Send>;

struct State<T> {
    queue: VecDeque<Job<T>>,
    outcomes: Vec<T>,
    workers: usize,
    idle: usize,
    closed: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Signalled when there are jobs.
    jobs: Condvar,
    /// Signalled when there are outcomes and no jobs are left.
    dry: Condvar,
    /// Called at the same time, if it is set.
    on_dry: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl<T> Shared<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        // No code panics while it holds the lock; the state is consistent either way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue of jobs and the workers that run them.
pub(crate) struct Pool<T> {
    shared: Arc<Shared<T>>,
}

impl<T: Send + 'static> std::fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("workers", &self.workers())
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Pool<T> {
    pub(crate) fn new() -> Self {
        let state = State {
            queue: VecDeque::new(),
            outcomes: Vec::new(),
            workers: 0,
            idle: 0,
            closed: false,
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                jobs: Condvar::new(),
                dry: Condvar::new(),
                on_dry: OnceLock::new(),
            }),
        }
    }

    /// Queues a job, which must not panic. It starts at the next [`Pool::start`] at the latest.
    pub(crate) fn submit(&self, job: impl FnOnce() -> T + Send + 'static) {
        self.shared.lock().queue.push_back(Box::new(job));
    }

    /// Wakes a worker for the queue.
    pub(crate) fn start(&self) {
        let mut state = self.shared.lock();
        if state.queue.is_empty() {
            return;
        }
        if state.workers == 0 {
            self.add_worker(&mut state);
        } else if state.idle > 0 {
            drop(state);
            self.shared.jobs.notify_one();
        }
    }

    /// Calls `notify` each time the queue becomes empty. Only the first callback is used.
    pub(crate) fn on_dry(&self, notify: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.on_dry.set(Box::new(notify));
    }

    /// Waits until there are outcomes and no job is queued, but not longer than `until`.
    pub(crate) fn wait(&self, until: Instant) {
        let mut state = self.shared.lock();
        while state.outcomes.is_empty() || !state.queue.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let woken = self.shared.dry.wait_timeout(state, left);
            (state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds a worker if jobs are queued and none is idle, because one may be stuck.
    pub(crate) fn relieve(&self) {
        let mut state = self.shared.lock();
        if !state.queue.is_empty() && state.idle == 0 {
            self.add_worker(&mut state);
        }
    }

    /// The outcomes since the last call.
    pub(crate) fn outcomes(&self) -> Vec<T> {
        std::mem::take(&mut self.shared.lock().outcomes)
    }

    /// Number of workers, including stuck ones.
    pub(crate) fn workers(&self) -> usize {
        self.shared.lock().workers
    }

    fn add_worker(&self, state: &mut State<T>) {
        if state.workers >= MAX_WORKERS {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let spawned = thread::Builder::new()
            .name("reader".into())
            .stack_size(STACK)
            .spawn(move || work(&shared));
        // If the system has no thread left, the jobs wait, and the collector reports the sources as stale.
        if spawned.is_ok() {
            state.workers += 1;
        }
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.jobs.notify_all();
    }
}

fn work<T>(shared: &Shared<T>) {
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.queue.pop_front() {
            drop(state);
            let outcome = job();
            state = shared.lock();
            state.outcomes.push(outcome);
            if state.queue.is_empty() {
                shared.dry.notify_one();
                if let Some(notify) = shared.on_dry.get() {
                    drop(state);
                    notify();
                    state = shared.lock();
                }
            }
            continue;
        }
        // One idle worker stays; workers that were added while another was stuck end.
        if state.closed || state.idle > 0 {
            state.workers -= 1;
            return;
        }
        state.idle += 1;
        state = shared.jobs.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn a_stuck_job_does_not_block_the_others() {
        let pool = Pool::new();
        let (release, stuck) = mpsc::channel::<()>();
        pool.submit(move || {
            let _ = stuck.recv();
            9
        });
        for n in 0..3 {
            pool.submit(move || n);
        }
        pool.start();
        // Whichever worker takes the stuck job, the other one takes the rest.
        pool.relieve();
        let end = Instant::now() + SOON;
        let mut outcomes = Vec::new();
        while outcomes.len() < 3 && Instant::now() < end {
            pool.wait(end);
            outcomes.extend(pool.outcomes());
        }
        assert_eq!(outcomes, [0, 1, 2]);
        assert_eq!(pool.workers(), 2);
        drop(release);
        pool.wait(Instant::now() + SOON);
        assert_eq!(pool.outcomes(), [9]);
    }

    #[test]
    fn outcomes_of_a_healthy_queue_come_together() {
        let pool = Pool::new();
        for n in 0..100 {
            pool.submit(move || n);
        }
        pool.start();
        pool.wait(Instant::now() + SOON);
        assert!(pool.outcomes().into_iter().eq(0..100));
        assert_eq!(pool.workers(), 1);
        assert!(pool.outcomes().is_empty());
    }
}
