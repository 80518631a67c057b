//! Takes a changed web configuration, or a renewed certificate, over without a restart.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use super::{Sources, Web};
use crate::config::{Error, Watched, watch_directory};

/// How long to wait for a notice, and how long the files must rest before they are read: a certificate and its key are
/// two files, and are to be read together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) look: Duration,
    pub(super) rest: Duration,
}

const PACE: Pace = Pace {
    look: Duration::from_secs(30),
    rest: Duration::from_millis(200),
};

/// Follows the files behind `sources` and sends what they become to `web`; `tell` hears of each change: what was taken over,
/// or why it was refused. What is refused leaves the old state in force. Ends when nobody receives any more.
pub(crate) async fn follow(
    sources: Sources,
    web: watch::Sender<Arc<Web>>,
    tell: impl FnMut(Result<Arc<Web>, Error>),
) {
    run(sources, web, tell, PACE).await;
}

pub(super) async fn run(
    mut seen: Sources,
    web: watch::Sender<Arc<Web>>,
    mut tell: impl FnMut(Result<Arc<Web>, Error>),
    pace: Pace,
) {
    let (notice, mut noticed) = mpsc::channel(1);
    let mut watched: BTreeMap<PathBuf, Watched> = BTreeMap::new();
    let mut first = true;
    loop {
        let directories: Vec<PathBuf> = seen.directories().map(Path::to_owned).collect();
        watched.retain(|directory, _| directories.contains(directory));
        for directory in directories {
            let current = watched.remove(&directory).flatten();
            let renewed = watch_directory(&directory, current, &notice).await;
            watched.insert(directory, renewed);
        }
        // The first look comes at once: a file may have changed since it was read.
        if !first {
            tokio::select! {
                () = web.closed() => return,
                // We hold a sender, so this never ends.
                _ = timeout(pace.look, noticed.recv()) => {}
            }
            // Wait until nothing was noticed for a while, but not for ever.
            for _ in 0..20 {
                sleep(pace.rest).await;
                if noticed.try_recv().is_err() {
                    break;
                }
            }
        }
        first = false;
        let path = seen.path().to_owned();
        // A file system that hangs must not hold up the agent.
        let Ok(now) = tokio::task::spawn_blocking(move || Sources::read(&path)).await else {
            continue;
        };
        if now == seen {
            continue;
        }
        let built = now.build().and_then(|new| match new.expired() {
            // Clients still take the old one, or would refuse both.
            Some(error) => Err(error.clone()),
            None => Ok(new),
        });
        seen = now;
        tell(built.map(|new| {
            let new = Arc::new(new);
            web.send_replace(Arc::clone(&new));
            new
        }));
    }
}
