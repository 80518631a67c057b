//! The signals that the agent handles.

use tokio::{
    select,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};
use tracing::info;

use crate::descriptors;

/// The signals that the agent handles. Until they are taken over, each ends the process.
#[derive(Debug)]
pub(crate) struct Signals {
    pub(super) ending: Ending,
    pub(super) hangup: Signal,
}

/// The signals that end the agent.
#[derive(Debug)]
pub(super) struct Ending {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl Ending {
    /// Waits for one of them.
    pub(super) async fn received(mut self) {
        select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

impl Signals {
    /// From now on, SIGHUP does not end the process. One that arrives before [`Signals::take_over`] has no other effect: the files have
    /// not been read yet.
    pub(crate) fn survive_hangup() {
        if let Ok(runtime) = descriptors::runtime() {
            let _entered = runtime.enter();
            // The handler stays after the runtime is gone. If the system refuses it, `take_over` reports it.
            let _ = signal(SignalKind::hangup());
        }
    }

    /// Takes them over. Needs a Tokio runtime.
    ///
    /// # Errors
    /// If the system refuses it.
    pub(crate) fn take_over() -> std::io::Result<Self> {
        // Not used: they have no effect from now on, also after these are dropped.
        let _ = (
            signal(SignalKind::user_defined1())?,
            signal(SignalKind::user_defined2())?,
        );
        Ok(Self {
            ending: Ending {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                quit: signal(SignalKind::quit())?,
            },
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

/// Passes hangup signals on, as long as the agent runs.
pub(super) async fn reload_on(mut signals: Signal, hangup: watch::Sender<()>) {
    while signals.recv().await.is_some() {
        info!("SIGHUP: reading the configuration files again and saving the history");
        hangup.send_replace(());
    }
}
