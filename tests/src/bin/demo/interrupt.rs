//! Ctrl-C, and the signal that `kill` sends.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

/// Receives the signals that would end this program.
#[derive(Debug)]
pub(crate) struct Interrupt(Receiver<()>);

impl Interrupt {
    /// From now on the signals do not end this program.
    pub(crate) fn watch() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let (send, receive) = channel();
        let (mut interrupt, mut terminate) = {
            let _context = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            });
            // Without a receiver this program is ending already.
            let _ = send.send(());
        });
        Ok(Self(receive))
    }

    /// Waits for a signal, at most for this time.
    pub(crate) fn within(&self, time: Duration) -> bool {
        !matches!(self.0.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }
}
