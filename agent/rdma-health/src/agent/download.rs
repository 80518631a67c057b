//! The snapshot of the node that the agent offers.
//!
//! It is read again from the kernel, because the agent keeps facts and not files. It is made at most once a minute, by one thread,
//! and less often if a source did not answer: reading such a source again would leave another thread behind.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rdma_health_config::Config;
use rdma_health_file::{Unanswered, Worker};
use rdma_health_kernel::{
    Root,
    collector::{Collector, Refresh},
};
use rdma_health_snapshot::{Snapshot, anonymize::anonymize, redact::redact, runtimes, verbs};
use rdma_health_view::View;
use rdma_health_web::{Answer, StatusCode};
use tokio::sync::Mutex;

/// How long the reading of a snapshot waits for the kernel.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long making a snapshot may take. The server waits ten seconds for the whole answer.
const DEADLINE: Duration = Duration::from_secs(9);
/// How long a snapshot is served again.
const FRESH_FOR: Duration = Duration::from_secs(60);
/// The same if a source did not answer.
const FRESH_FOR_IF_HUNG: Duration = Duration::from_secs(600);

/// Makes snapshots and keeps the last one.
#[derive(Debug)]
pub(super) struct Downloads {
    made: Mutex<Made>,
}

#[derive(Debug)]
struct Made {
    worker: Worker<Result<Taken, String>>,
    last: Option<(Instant, Taken)>,
}

/// A snapshot, before and after the removal of names and addresses.
#[derive(Debug, Clone)]
struct Taken {
    full: Arc<Vec<u8>>,
    anonymous: Arc<Vec<u8>>,
    is_hung: bool,
}

impl Default for Downloads {
    fn default() -> Self {
        let worker = Worker::with_deadline(DEADLINE);
        Self {
            made: Mutex::new(Made { worker, last: None }),
        }
    }
}

impl Downloads {
    /// The snapshot; without names and addresses, unless the client may read them.
    pub(super) async fn snapshot(&self, config: Config, view: Arc<View>, may_read_all: bool) -> Answer {
        let mut made = self.made.lock().await;
        let fresh = made.last.as_ref().filter(|(at, taken)| {
            let limit = if taken.is_hung {
                FRESH_FOR_IF_HUNG
            } else {
                FRESH_FOR
            };
            at.elapsed() < limit
        });
        let taken = match fresh {
            Some((_, taken)) => taken.clone(),
            None => match made.worker.run(move || take(&config, &view)).await {
                Ok(Ok(taken)) => {
                    made.last = Some((Instant::now(), taken.clone()));
                    taken
                }
                Ok(Err(error)) => {
                    return Answer::text(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        &format!("no snapshot: {error}"),
                    );
                }
                Err(Unanswered) => {
                    return Answer::text(
                        StatusCode::SERVICE_UNAVAILABLE,
                        &format!("no snapshot: reading the node took longer than {DEADLINE:?}"),
                    );
                }
            },
        };
        let body = if may_read_all { taken.full } else { taken.anonymous };
        Answer {
            code: StatusCode::OK,
            content_type: "application/zstd",
            body: Vec::clone(&body),
        }
    }
}

/// Reads the node and writes both forms.
fn take(config: &Config, view: &View) -> Result<Taken, String> {
    let mut root = Root::open(&config.root)
        .map_err(|error| format!("cannot read {}: {error}", config.root.display()))?;
    let recorder = root.record();
    let mut collector = Collector::new(root, config.exclude.clone());
    collector.refresh(Refresh::All, Instant::now() + PATIENCE);
    let facts = collector.facts();
    let mut recording = recorder.recording();
    recording.hung = collector.hung();
    let is_hung = !recording.hung.is_empty();
    verbs::record(&view.node.verbs, &mut recording);
    runtimes::record(&view.node.limits.runtimes, &mut recording);
    let expectations = serde_json::to_value(&config.expect).map_err(|error| error.to_string())?;
    let mut snapshot = Snapshot {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time: facts.time,
        live: facts.live,
        anonymized: false,
        recording,
        probes: view.node.probes.clone(),
        history: view.node.history.clone(),
        expectations: Some(expectations),
    };
    redact(&mut snapshot.recording);
    let write = |snapshot: &Snapshot| {
        let mut bytes = Vec::new();
        let written = snapshot.write(&mut bytes);
        written
            .map(|()| Arc::new(bytes))
            .map_err(|error| error.to_string())
    };
    let full = write(&snapshot)?;
    anonymize(&mut snapshot);
    Ok(Taken {
        full,
        anonymous: write(&snapshot)?,
        is_hung,
    })
}
