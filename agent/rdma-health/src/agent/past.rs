//! Keeps what is remembered of the node in a file, so that a reboot or an update of the agent does not forget it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rdma_health_node::history::History;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::Agent;
use crate::history;

/// How often the history is saved; also when the agent ends. A crash loses a few minutes of counters.
const SAVE_EVERY: Duration = Duration::from_secs(300);
/// How long saving may take when the agent ends.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// What earlier runs remembered. Without a file, or where it cannot be used, history begins now.
pub(super) fn load(file: Option<&Path>) -> History {
    let Some(file) = file else {
        return History::default();
    };
    let (history, error) = history::load(file);
    if let Some(error) = error {
        warn!(%error, "the history begins anew");
    }
    history
}

/// Saves the history now and then, as long as the agent runs.
pub(super) async fn keep(agent: Arc<Agent>, file: PathBuf) {
    let mut told = false;
    loop {
        sleep(SAVE_EVERY).await;
        let saved = write(&agent, file.clone()).await;
        if let Err(error) = &saved
            && !told
        {
            warn!(%error, "the history will not outlive this process");
        }
        told = saved.is_err();
    }
}

/// Saves the history a last time.
pub(super) async fn save(agent: &Agent, file: PathBuf) {
    match timeout(LAST_PATIENCE, write(agent, file)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(%error, "the history was not saved"),
        Err(_) => warn!("the history was not saved: writing it has not ended"),
    }
}

/// Writes it in a thread of its own: a file system that hangs must not hold up the agent.
async fn write(agent: &Agent, file: PathBuf) -> anyhow::Result<()> {
    let history = agent.state.history();
    tokio::task::spawn_blocking(move || history::save(&file, &history)).await??;
    Ok(())
}
