//! Watches directories for changes.
//!
//! It watches the directory, not the file: editors replace the file, and Kubernetes swaps a symbolic link next to it
//! (`..data`). A watch on the file would then still refer to the old one.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use rdma_health_file::Worker;
use tokio::sync::mpsc;
use tracing::{debug, warn};

/// A watch and its directory by device and inode, because a recreated directory needs a new watch.
type Watched = Option<((u64, u64), RecommendedWatcher)>;

/// The watches of some directories, each in a separate thread: a file system that hangs must not block the program, nor
/// the watches of other file systems.
#[derive(Debug)]
pub(crate) struct Watches {
    notice: mpsc::Sender<()>,
    watched: BTreeMap<PathBuf, (Worker<Watched>, Watched)>,
}

impl Watches {
    /// Each change sends a notification to the queue.
    pub(crate) fn new(notice: mpsc::Sender<()>) -> Self {
        Self {
            notice,
            watched: BTreeMap::new(),
        }
    }

    /// Watches these directories and no others. One that does not respond is not watched until it does.
    pub(crate) async fn renew(&mut self, directories: BTreeSet<PathBuf>) {
        self.watched
            .retain(|directory, _| directories.contains(directory));
        for directory in directories {
            let (worker, watched) = self.watched.entry(directory.clone()).or_default();
            let (current, notice) = (watched.take(), self.notice.clone());
            let renewed = worker.run(move || watch(&directory, current, notice)).await;
            *watched = renewed.unwrap_or_default();
        }
    }
}

/// Watches the directory, unless `current` already does.
fn watch(directory: &Path, current: Watched, notice: mpsc::Sender<()>) -> Watched {
    let identity = match std::fs::metadata(directory) {
        Ok(found) => (found.dev(), found.ino()),
        Err(error) => {
            debug!(%error, directory = %directory.display(), "cannot watch the directory");
            return None;
        }
    };
    if current.as_ref().is_some_and(|(before, _)| *before == identity) {
        return current;
    }
    let notify_change = move |event: notify::Result<notify::Event>| {
        // Reading the file is also an event, which must not trigger another reading.
        if !event.is_ok_and(|event| event.kind.is_access()) {
            // A full queue already contains a notification.
            let _ = notice.try_send(());
        }
    };
    let watcher = notify::recommended_watcher(notify_change).and_then(|mut watcher| {
        watcher.watch(directory, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    match watcher {
        Ok(watcher) => Some((identity, watcher)),
        Err(error) => {
            warn!(%error, directory = %directory.display(), "cannot watch the directory; changes are noticed later");
            None
        }
    }
}
