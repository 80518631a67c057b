//! Threads that may get stuck.
//!
//! A read of sysfs can hang in the kernel, and no deadline in the reading thread helps then. One worker is enough for a
//! healthy node; where it gets stuck, another takes over the rest of the queue.
//!
//! Outcomes are handed over together once the queue has run dry: waking a thread for each costs more than reading a
//! device.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError},
    thread,
    time::Instant,
};

/// The most workers. Each stuck read holds one; beyond that nothing more is read until one comes back.
const MAX_WORKERS: usize = 64;
/// Reading needs little stack; the default would be 2 MiB of address space each.
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
    /// There are jobs.
    jobs: Condvar,
    /// There are outcomes and no jobs are left.
    dry: Condvar,
    /// Called for the same, where it is set.
    on_dry: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl<T> Shared<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        // No code panics while it holds the lock; the state is whole either way.
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

    /// Queues a job, which must not panic. It may begin now, and does at the next [`Pool::start`].
    pub(crate) fn submit(&self, job: impl FnOnce() -> T + Send + 'static) {
        self.shared.lock().queue.push_back(Box::new(job));
    }

    /// Wakes a worker for what is queued.
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

    /// Has `told` called each time that the queue has run dry. Only the first that is given is called.
    pub(crate) fn on_dry(&self, told: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.on_dry.set(Box::new(told));
    }

    /// Waits until there are outcomes and no job is queued, or until then.
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

    /// Adds a worker where jobs wait and none is idle: one may be stuck.
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

    /// How many workers there are, stuck ones included.
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
        // Where the system has no thread left the jobs wait, which the collector tells as stale.
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
                if let Some(told) = shared.on_dry.get() {
                    drop(state);
                    told();
                    state = shared.lock();
                }
            }
            continue;
        }
        // One idle worker stays; those added while another was stuck leave.
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
    fn a_stuck_job_does_not_hold_up_the_others() {
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
        let end = Instant::now() + SOON;
        let mut outcomes = Vec::new();
        while outcomes.len() < 3 && Instant::now() < end {
            pool.wait(Instant::now() + Duration::from_millis(20));
            pool.relieve();
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
