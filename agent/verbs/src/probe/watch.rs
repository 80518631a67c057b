//! What ends a probe early: its deadline, or the device's end.

use std::{
    cell::Cell,
    hint,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use rdma_health_protocol::ProbeFailure;
use rustix::io::Errno;

/// How often a waiting probe looks whether its device is still there.
const PRESENCE_INTERVAL: Duration = Duration::from_millis(50);

/// Turns of a waiting loop between two looks at the clock, which costs more than a poll.
const TURNS: u32 = 1024;

/// The limits of one probe.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    started: Instant,
    budget: Duration,
    /// The device's uverbs directory in sysfs; the kernel removes it first of all when a device goes away. A driver
    /// that cannot revoke what is open (rxe) then waits for us, and every other leaves us without completions.
    presence: PathBuf,
    looked: Cell<Instant>,
    turns: Cell<u32>,
    /// There is one CPU to run on: the thread that is waited for needs it.
    alone: bool,
}

impl Watch {
    /// To be made by the thread that waits: its CPUs are those that count.
    pub(super) fn new(started: Instant, budget: Duration, presence: PathBuf) -> Self {
        Self {
            started,
            budget,
            presence,
            looked: Cell::new(started),
            turns: Cell::new(0),
            alone: thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1),
        }
    }

    /// The same limits, from `started` on.
    pub(super) fn again(&self, started: Instant) -> Self {
        Self::new(started, self.budget, self.presence.clone())
    }

    /// Time left.
    pub(super) fn left(&self) -> Duration {
        self.budget.saturating_sub(self.started.elapsed())
    }

    /// Time that the whole probe may take.
    pub(super) fn budget(&self) -> Duration {
        self.budget
    }

    /// Fails where the time is up or the device is gone.
    pub(super) fn check(&self) -> Result<(), ProbeFailure> {
        self.check_at(Instant::now())
    }

    /// The same, where the time is known already.
    pub(super) fn check_at(&self, now: Instant) -> Result<(), ProbeFailure> {
        if now.duration_since(self.looked.get()) >= PRESENCE_INTERVAL {
            self.looked.set(now);
            if !self.presence.exists() {
                return Err(super::errno(Errno::NODEV));
            }
        }
        if now.duration_since(self.started) >= self.budget {
            return Err(ProbeFailure::TimedOut);
        }
        Ok(())
    }

    /// One turn of a loop that waits; looks at the clock now and then.
    #[inline]
    pub(super) fn turn(&self) -> Result<(), ProbeFailure> {
        let turns = self.turns.get().wrapping_add(1);
        self.turns.set(turns);
        if turns.is_multiple_of(TURNS) {
            self.check()?;
        }
        if self.alone {
            thread::yield_now();
        } else {
            hint::spin_loop();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_loop_ends_with_the_time_or_the_device() {
        let device = tempfile::tempdir().unwrap();
        let watch = Watch::new(Instant::now(), Duration::from_millis(5), device.path().to_owned());
        let ended = loop {
            if let Err(failure) = watch.turn() {
                break failure;
            }
        };
        assert_eq!(ended, ProbeFailure::TimedOut);
        assert_eq!(watch.left(), Duration::ZERO);

        let watch = Watch::new(
            Instant::now(),
            Duration::from_secs(60),
            device.path().join("gone"),
        );
        let ended = loop {
            if let Err(failure) = watch.turn() {
                break failure;
            }
        };
        assert!(
            matches!(ended, ProbeFailure::Errno { errno: 19, .. }),
            "{ended:?}"
        );
    }
}
