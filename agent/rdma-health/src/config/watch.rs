//! Notices when the configuration file changes.
//!
//! The directory is watched, not the file: editors put a new file in its place, and Kubernetes swaps a symbolic link
//! beside it (`..data`), after which a watch on the file would hang on the old one. What was noticed is only a reason to
//! look; content decides. A look now and then catches what a watch misses (a directory made anew, a network file system).

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tracing::{debug, warn};

use super::{Config, Error, Overrides};

/// How often to look even where nothing was noticed.
const LOOK: Duration = Duration::from_secs(30);
/// How often a file that became empty is looked at again before that is believed.
const LOOKS_AT_EMPTY: u32 = 10;
/// How long a file must rest before it is read, so that a write in pieces is read once.
const REST: Duration = Duration::from_millis(200);

/// Watches the file at `path` and sends each configuration that differs from `current`, the one loaded before, or what
/// is wrong with the new text; the receiver keeps the old one then. Ends when the receiver is dropped. Needs a Tokio
/// runtime.
pub(crate) fn watch(
    path: PathBuf,
    overrides: Overrides,
    current: Config,
) -> mpsc::Receiver<Result<Config, Error>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(run(path, overrides, current, sender, LOOK, REST));
    receiver
}

async fn run(
    path: PathBuf,
    overrides: Overrides,
    current: Config,
    sender: mpsc::Sender<Result<Config, Error>>,
    look: Duration,
    rest: Duration,
) {
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let (notice, mut noticed) = mpsc::channel(1);
    let mut watched = None;
    let mut seen: Option<Result<String, Error>> = None;
    let mut told = Ok(current);
    loop {
        watched = watch_directory(&directory, watched, &notice).await;
        // The first look comes at once: the file may have changed since it was loaded.
        if seen.is_some() {
            tokio::select! {
                () = sender.closed() => return,
                // We hold a sender, so this never ends.
                _ = timeout(look, noticed.recv()) => {}
            }
            // Wait until nothing was noticed for a while, but not for ever.
            for _ in 0..20 {
                sleep(rest).await;
                if noticed.try_recv().is_err() {
                    break;
                }
            }
        }
        let Some(mut now) = read_aside(&path).await else {
            continue;
        };
        // A file that is written in place is empty first, and an empty one is a whole configuration: it has to stay so.
        for _ in 0..LOOKS_AT_EMPTY {
            if !matches!((&seen, &now), (Some(Ok(before)), Ok(text)) if text.is_empty() && !before.is_empty())
            {
                break;
            }
            sleep(rest).await;
            now = read_aside(&path).await.unwrap_or(now);
        }
        if seen.as_ref() == Some(&now) {
            continue;
        }
        let outcome = match &now {
            Ok(text) => super::from_text(&path, text, &overrides),
            Err(error) => Err(error.clone()),
        };
        seen = Some(now);
        // A comment that changed, or a bad text that was put right again, is no new configuration, but after an error it
        // is told that all is well.
        if outcome == told {
            continue;
        }
        told = outcome.clone();
        if sender.send(outcome).await.is_err() {
            return;
        }
    }
}

/// Reads the file in a thread of its own: a file system that hangs must not hold up the agent.
async fn read_aside(path: &Path) -> Option<Result<String, Error>> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || super::read(&path)).await.ok()
}

/// A watch and the directory it is on, by device and inode: one that is made anew needs a new watch.
pub(crate) type Watched = Option<((u64, u64), RecommendedWatcher)>;

/// Watches the directory, unless `current` is a watch on it; each change puts a notice into the queue. In a thread of its
/// own, as [`read_aside`].
pub(crate) async fn watch_directory(
    directory: &Path,
    current: Watched,
    notice: &mpsc::Sender<()>,
) -> Watched {
    let (directory, notice) = (directory.to_owned(), notice.clone());
    let watching = tokio::task::spawn_blocking(move || renew(&directory, current, notice));
    // Only a panic has no result; the next look makes a new watch.
    watching.await.unwrap_or_default()
}

fn renew(directory: &Path, current: Watched, notice: mpsc::Sender<()>) -> Watched {
    let identity = std::fs::metadata(directory).map(|found| (found.dev(), found.ino()));
    let identity = match identity {
        Ok(identity) => identity,
        Err(error) => {
            debug!(%error, directory = %directory.display(), "cannot be watched");
            return None;
        }
    };
    if current.as_ref().is_some_and(|(before, _)| *before == identity) {
        return current;
    }
    let tell = move |event: notify::Result<notify::Event>| {
        // Reading the file is an event, too: it must not lead to reading it again.
        if !event.is_ok_and(|event| event.kind.is_access()) {
            // A full queue holds one that says the same.
            let _ = notice.try_send(());
        }
    };
    let watcher = notify::recommended_watcher(tell).and_then(|mut watcher| {
        watcher.watch(directory, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    match watcher {
        Ok(watcher) => Some((identity, watcher)),
        Err(error) => {
            warn!(%error, directory = %directory.display(), "cannot be watched; the file is looked at every {LOOK:?}");
            None
        }
    }
}

#[cfg(test)]
mod tests;
