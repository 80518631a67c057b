//! Applies a changed web configuration or a renewed certificate without a restart.

use std::sync::Arc;

use rdma_health_instrument::Reloads;
use rdma_health_yaml::{Error, Follower, Pace};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{Sources, Web};
use crate::Metrics;

/// Watches the files of `sources` and sends the changed protection to `web`. Reads them at once whenever `requests` is sent
/// a value. Logs and counts each change: that it was applied, or why it was rejected. A rejected change leaves the old
/// protection active. Ends when the receiver is dropped.
pub async fn follow(
    sources: Sources,
    web: watch::Sender<Arc<Web>>,
    requests: watch::Receiver<()>,
    metrics: Arc<Metrics>,
) {
    if let Some(error) = web.borrow().expired() {
        warn!(%error, "clients will refuse the TLS certificate");
    }
    metrics.certificate(web.borrow().validity());
    let report = |change: Result<Arc<Web>, Error>| {
        metrics.reloads.reloaded(change.is_ok());
        match change {
            Ok(web) => {
                metrics.certificate(web.validity());
                info!("web configuration reloaded");
            }
            Err(error) => {
                warn!(%error, "web configuration not reloaded; the previous one stays active");
            }
        }
    };
    let follower = Follower::new(Pace::USUAL, requests);
    run(sources, web, follower, &metrics.reloads, report).await;
}

/// [`follow`] with a callback for each change.
pub(super) async fn run(
    mut seen: Sources,
    web: watch::Sender<Arc<Web>>,
    mut follower: Follower<Sources>,
    reloads: &Reloads,
    mut report: impl FnMut(Result<Arc<Web>, Error>),
) {
    let mut first = true;
    loop {
        follower.watch(seen.files()).await;
        // Read at once, because a file may have changed since it was read.
        if !first && !follower.wait(web.closed()).await {
            return;
        }
        first = false;
        let path = seen.path().to_owned();
        let now = match follower.read(move || Sources::read(&path)).await {
            Ok(now) => {
                reloads.looked();
                now
            }
            Err(error) => Sources::unreadable(seen.path(), error),
        };
        if now == seen {
            continue;
        }
        let built = now.build().and_then(|new| match new.expired() {
            // Clients still accept the old certificate, or would reject both.
            Some(error) => Err(error.clone()),
            None => Ok(new),
        });
        seen = now;
        report(built.map(|new| {
            let new = Arc::new(new);
            web.send_replace(Arc::clone(&new));
            new
        }));
    }
}
