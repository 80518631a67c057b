//! Threads that may get stuck.
//!
//! A read of sysfs can hang in the kernel, and no deadline in the reading thread helps then. One worker is enough for a
//! healthy node; where it gets stuck, another takes over the rest of the queue.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

/// The most workers. Each stuck read holds one; beyond that nothing more is read until one comes back.
const MAX_WORKERS: usize = 64;
/// Reading needs little stack; the default would be 2 MiB of address space each.
const STACK: usize = 256 << 10;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    workers: usize,
    idle: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // No code panics while it holds the lock; the state is whole either way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue of jobs and the workers that run them.
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("workers", &self.workers())
            .finish_non_exhaustive()
    }
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::default(),
        }
    }

    /// Queues a job. It must not panic.
    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        state.queue.push_back(Box::new(job));
        if state.workers == 0 {
            self.add_worker(&mut state);
        } else if state.idle > 0 {
            drop(state);
            self.shared.wake.notify_one();
        }
    }

    /// Called when jobs take long: adds a worker where all are busy and jobs wait.
    pub(crate) fn relieve(&self) {
        let mut state = self.shared.lock();
        if !state.queue.is_empty() && state.idle == 0 {
            self.add_worker(&mut state);
        }
    }

    /// How many workers there are, stuck ones included.
    pub(crate) fn workers(&self) -> usize {
        self.shared.lock().workers
    }

    fn add_worker(&self, state: &mut State) {
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

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

fn work(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.queue.pop_front() {
            drop(state);
            job();
            state = shared.lock();
            continue;
        }
        // One idle worker stays; those added while another was stuck leave.
        if state.closed || state.idle > 0 {
            state.workers -= 1;
            return;
        }
        state.idle += 1;
        state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn a_stuck_job_does_not_hold_up_the_others() {
        let pool = Pool::new();
        let (release, stuck) = mpsc::channel::<()>();
        let (done, finished) = mpsc::channel();
        pool.submit(move || {
            let _ = stuck.recv();
        });
        for n in 0..3 {
            let done = done.clone();
            pool.submit(move || done.send(n).unwrap());
        }
        while finished.recv_timeout(Duration::from_millis(20)).is_err() {
            pool.relieve();
        }
        assert_eq!(pool.workers(), 2);
        drop(release);
        assert_eq!(finished.recv_timeout(Duration::from_secs(5)), Ok(1));
        assert_eq!(finished.recv_timeout(Duration::from_secs(5)), Ok(2));
    }
}
