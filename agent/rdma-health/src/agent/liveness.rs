//! A Unix socket that only the agent's own container can reach, on which it reports that it is alive. A kubelet asks there
//! with `rdma-health alive`, so that clients of the public HTTP server cannot keep its probes out.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};
use tracing::debug;

use super::Agent;
use crate::liveness::{READY, STARTING};

/// How long an agent that listens on the socket already may take to show itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// The socket; its file is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Liveness {
    listener: UnixListener,
    path: PathBuf,
}

impl Liveness {
    /// Listens on `path`. Replaces the socket of an agent that was killed, and nothing else.
    ///
    /// # Errors
    /// If the path is taken, or the socket cannot be created.
    pub(super) async fn bind(path: &Path) -> anyhow::Result<Self> {
        let listen = || UnixListener::bind(path);
        let listener = match listen() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let Ok(Err(refused)) = timeout(PATIENCE, UnixStream::connect(path)).await else {
                    bail!("another agent listens on {}", path.display());
                };
                // Other errors mean that it is not a socket, or not ours.
                if refused.kind() == io::ErrorKind::ConnectionRefused && is_socket(path) {
                    std::fs::remove_file(path).and_then(|()| listen())
                } else {
                    Err(refused)
                }
            }
            listener => listener,
        };
        let listener = listener.with_context(|| format!("cannot listen on {}", path.display()))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Answers each connection with one line, as long as the agent runs.
    pub(super) async fn serve(self, agent: Arc<Agent>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let ready = agent.state.view().is_some();
                    // The line fits into the empty buffer of the socket.
                    let _ = stream.try_write(if ready { READY } else { STARTING }.as_bytes());
                }
                Err(error) => {
                    debug!(%error, "cannot accept a connection on the liveness socket");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.symlink_metadata()
        .is_ok_and(|found| found.file_type().is_socket())
}

impl Drop for Liveness {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
