//! Processes whose parent, the helper, has ended. The kernel gives them to process 1, which in a container is the agent: it
//! must reap them when they end, or they stay as zombies and use up the process ids.

use std::time::Duration;

use rustix::process::{WaitOptions, wait};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep_until},
};
use tracing::warn;

/// Pause after a child has ended, so that a crowd of them is reaped at once.
const PAUSE: Duration = Duration::from_millis(500);

/// Notices ended children where this is process 1, and nothing elsewhere.
#[derive(Debug)]
pub(super) struct Orphans {
    signals: Option<Signal>,
    /// When to reap those that have ended.
    due: Option<Instant>,
}

impl Orphans {
    pub(super) fn of_this_process() -> Self {
        let signals = (std::process::id() == 1).then(|| signal(SignalKind::child()));
        let signals = signals.and_then(|signals| match signals {
            Ok(signals) => Some(signals),
            Err(error) => {
                warn!(%error, "cannot notice processes that have ended; they stay as zombies");
                None
            }
        });
        Self { signals, due: None }
    }

    /// Waits until children are to be reaped. Dropping the future loses nothing.
    pub(super) async fn ended(&mut self) {
        let due = if let Some(due) = self.due {
            due
        } else {
            let noticed = match &mut self.signals {
                Some(signals) => signals.recv().await,
                None => None,
            };
            if noticed.is_none() {
                // No signal will come.
                std::future::pending::<()>().await;
            }
            *self.due.insert(Instant::now() + PAUSE)
        };
        sleep_until(due).await;
    }

    /// Reaps every child that has ended. The caller has asked for the exit status of its own children before, because this
    /// discards it.
    pub(super) fn reap(&mut self) {
        if self.due.take().is_some() {
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        }
    }
}
