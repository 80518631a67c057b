//! Helpers that were killed and have not ended: one that hangs in a system call of a driver does not even then.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::process::Child;

/// With so many of them left no other helper is started: it would hang in the same way, and none of them goes away.
pub(super) const MOST: usize = 2;

/// The children that were killed, as long as they are there.
#[derive(Debug, Clone, Default)]
pub(super) struct Killed(Arc<Mutex<Vec<Child>>>);

impl Killed {
    /// How many are still there.
    pub(super) fn left(&self) -> usize {
        let mut children = self.lock();
        // One that cannot be waited for is none of ours any more.
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        children.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Child>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A child that runs; killed when dropped, and remembered until it has ended.
#[derive(Debug)]
pub(super) struct Running {
    /// There until it is dropped.
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
            // One that has ended cannot be killed, and need not be.
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
    use crate::helper::{Failure, Place, connection::Connection};

    /// Stands for a process that no signal ends, which a test cannot make: one that was not sent any.
    fn immortal() -> Child {
        Command::new("sleep")
            .arg("3600")
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    #[tokio::test]
    async fn while_two_hang_in_the_kernel_no_third_is_started() {
        // One that ends at once says something else.
        let place = Place::Program("true".into());
        let killed = Killed::default();
        killed.lock().extend([immortal(), immortal()]);
        let failure = Connection::open(&place, &killed).await.err().unwrap();
        assert_eq!(failure, Failure::Stuck(2));
        assert_eq!(failure.reason(), "hung");
        // The driver answers after all.
        killed.lock()[0].start_kill().unwrap();
        while killed.left() > 1 {
            sleep(Duration::from_millis(10)).await;
        }
        let failure = Connection::open(&place, &killed).await.err().unwrap();
        assert!(matches!(failure, Failure::Ended(_)), "{failure}");
    }

    #[tokio::test]
    async fn one_that_was_killed_is_remembered_until_it_has_ended() {
        let killed = Killed::default();
        drop(Running::new(immortal(), killed.clone()));
        assert_eq!(killed.lock().len(), 1);
        while killed.left() > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    }
}
