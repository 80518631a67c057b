//! Keeps the history of the node in a file, so that it survives a reboot or an update of the agent.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rdma_health_file::{Worker, within};
use rdma_health_node::history::History;
use rdma_health_snapshot::state_file;
use tokio::{sync::watch, time::timeout};
use tracing::warn;

use super::Agent;

/// How often the history is saved; also when the agent ends. A crash loses a few minutes of counters.
const SAVE_EVERY: Duration = Duration::from_secs(300);
/// When it is saved first: an agent that is killed soon after its start, or a node that is rebooted, leaves a trace for later runs.
const SAVE_FIRST: Duration = Duration::from_secs(15);
/// How long saving may take when the agent ends.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// The history of earlier runs; empty without a file, or if the file cannot be used.
pub(super) fn load(file: Option<&Path>) -> History {
    let Some(file) = file else {
        return History::default();
    };
    let path = file.to_owned();
    let error = match within(move || state_file::load(&path)) {
        Ok((history, None)) => return history,
        Ok((history, Some(error))) => {
            warn!(%error, "history not loaded; starting with an empty one");
            return history;
        }
        Err(error) => error,
    };
    warn!(%error, file = %file.display(), "history not loaded; starting with an empty one");
    History::default()
}

/// Saves the history at intervals and at each of the `requests`, as long as the agent runs.
pub(super) async fn keep(agent: Arc<Agent>, file: PathBuf, mut requests: watch::Receiver<()>) {
    agent.metrics.keeps_state();
    let mut worker = Worker::default();
    let mut logged = false;
    let mut pause = SAVE_FIRST;
    loop {
        // Either ends the wait; without a sender there are no more requests.
        match timeout(pause, requests.changed()).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(_)) => return,
        }
        pause = SAVE_EVERY;
        let saved = write(&agent, file.clone(), &mut worker).await;
        agent.metrics.state_saved(saved.is_ok());
        if let Err(error) = &saved
            && !logged
        {
            warn!(%error, "history not saved; it is lost when the agent stops");
        }
        logged = saved.is_err();
    }
}

/// Saves the history a last time.
pub(super) async fn save(agent: &Agent, file: PathBuf) {
    match timeout(LAST_PATIENCE, write(agent, file, &mut Worker::default())).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(%error, "history not saved"),
        Err(_) => warn!("history not saved: writing it took too long"),
    }
}

/// Writes it in a separate thread: a file system that hangs must not block the agent.
async fn write(
    agent: &Agent,
    file: PathBuf,
    worker: &mut Worker<Result<(), state_file::Error>>,
) -> anyhow::Result<()> {
    let history = agent.state.history();
    worker.run(move || state_file::save(&file, &history)).await??;
    Ok(())
}
