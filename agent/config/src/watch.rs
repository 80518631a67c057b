//! Watches the configuration file for changes.
//!
//! A notification only triggers reading the file; its content decides. The file is also read at intervals, because a watch
//! misses some changes (a recreated directory, a network file system).

use std::path::{Path, PathBuf};

use rdma_health_instrument::Reloads;
use rdma_health_yaml::{Error, Follower, Pace};
use tokio::sync::{mpsc, watch};

use super::{Config, Overrides};

/// How often a file that became empty is read again before it counts as empty.
const LOOKS_AT_EMPTY: u32 = 10;

/// Watches the file at `path`. Sends each configuration that differs from `current`, the one loaded before. If the new
/// text is invalid, sends the error, and the receiver keeps the old configuration. Reads the file at once whenever
/// `requests` is sent a value. Ends when the receiver is dropped. Needs a Tokio runtime.
pub fn watch(
    path: PathBuf,
    overrides: Overrides,
    current: Config,
    requests: watch::Receiver<()>,
    reloads: Reloads,
) -> mpsc::Receiver<Result<Config, Error>> {
    let (sender, receiver) = mpsc::channel(1);
    let file = Watched {
        path,
        follower: Follower::new(Pace::USUAL, requests),
        reloads,
    };
    tokio::spawn(run(file, overrides, current, sender));
    receiver
}

/// The file that is watched.
struct Watched {
    path: PathBuf,
    follower: Follower<Result<String, Error>>,
    reloads: Reloads,
}

impl Watched {
    async fn read(&mut self) -> Result<String, Error> {
        let path = self.path.clone();
        match self.follower.read(move || super::read(&path)).await {
            Ok(text) => {
                self.reloads.looked();
                text
            }
            Err(error) => Err(super::unreadable(&self.path, &error)),
        }
    }
}

async fn run(
    mut file: Watched,
    overrides: Overrides,
    current: Config,
    sender: mpsc::Sender<Result<Config, Error>>,
) {
    let path = file.path.clone();
    let mut seen: Option<Result<String, Error>> = None;
    let mut sent = Ok(current);
    loop {
        file.follower.watch(std::iter::once(Path::new(&path))).await;
        // Read at once, because the file may have changed since it was loaded.
        if seen.is_some() && !file.follower.wait(sender.closed()).await {
            return;
        }
        let mut now = file.read().await;
        // A file that is written in place is empty at first, and an empty file is a valid configuration: it must stay
        // empty for a while.
        for _ in 0..LOOKS_AT_EMPTY {
            if !matches!((&seen, &now), (Some(Ok(before)), Ok(text)) if text.is_empty() && !before.is_empty())
            {
                break;
            }
            file.follower.rest().await;
            now = file.read().await;
        }
        if seen.as_ref() == Some(&now) {
            continue;
        }
        let outcome = match &now {
            Ok(text) => super::from_text(&path, text, &overrides),
            Err(error) => Err(error.clone()),
        };
        seen = Some(now);
        // A changed comment or a corrected file can be the same configuration. It is sent only after an error, to report
        // that the file is valid again.
        if outcome == sent {
            continue;
        }
        sent = outcome.clone();
        if sender.send(outcome).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
