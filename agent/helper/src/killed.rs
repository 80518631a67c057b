//! Helpers that were killed but have not ended, because they hang in a system call of a driver.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::process::Child;

/// With this many of them, no other helper is started: it would hang in the same way, and they would accumulate.
pub(super) const MOST: usize = 2;

/// The killed children that have not ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Killed(Arc<Mutex<Vec<Child>>>);

impl Killed {
    /// The number of those that have not ended.
    pub(super) fn left(&self) -> usize {
        let mut children = self.lock();
        // A process that cannot be waited for is no longer a child of the agent.
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        children.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Child>> {
        // No code panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running child; when dropped it is killed, and tracked until it has ended.
#[derive(Debug)]
pub(super) struct Running {
    /// `Some` until it is dropped.
    child: Option<Child>,
    killed: Killed,
}

impl Running {
    pub(super) fn new(child: Child, killed: Killed) -> Self {
        Self {
            child: Some(child),
            killed,
        }
    }

    pub(super) fn child(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Killing fails if it has ended, which is fine.
            let _ = child.start_kill();
            self.killed.lock().push(child);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{process::Command, time::sleep};

    use super::*;
    use crate::{Failure, Place, connection::Connection, errors::Log};

    /// Stands for a process that no signal ends, which a test cannot create: a process that got no signal.
    fn immortal() -> Child {
        Command::new("sleep")
            .arg("3600")
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    #[tokio::test]
    async fn while_two_hang_in_the_kernel_no_third_is_started() {
        // A process that ends at once causes another failure.
        let place = Place::Program("true".into());
        let killed = Killed::default();
        killed.lock().extend([immortal(), immortal()]);
        let failure = Connection::open(&place, &killed, &Log::default())
            .await
            .err()
            .unwrap();
        assert_eq!(failure, Failure::Stuck(2));
        assert_eq!(failure.reason(), "hung");
        // The driver responds after all.
        killed.lock()[0].start_kill().unwrap();
        while killed.left() > 1 {
            sleep(Duration::from_millis(10)).await;
        }
        let failure = Connection::open(&place, &killed, &Log::default())
            .await
            .err()
            .unwrap();
        assert!(matches!(failure, Failure::Ended(_)), "{failure}");
    }

    #[tokio::test]
    async fn a_killed_helper_is_tracked_until_it_has_ended() {
        let killed = Killed::default();
        drop(Running::new(immortal(), killed.clone()));
        assert_eq!(killed.lock().len(), 1);
        while killed.left() > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    }
}
