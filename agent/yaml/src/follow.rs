//! Follows files that an operator changes: reads them when their directories change, at intervals, and on request.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rdma_health_file::{Unanswered, Worker};
use tokio::{
    select,
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use crate::watch::Watches;

/// When watched files are read again.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Interval of reading them without a notification: a watch misses some changes (a recreated directory, a network file
    /// system).
    pub look: Duration,
    /// How long they must be unchanged before they are read, so that a write in pieces, or a certificate and its key, are
    /// read together.
    pub rest: Duration,
}

impl Pace {
    /// The pace outside tests.
    pub const USUAL: Self = Self {
        look: Duration::from_secs(30),
        rest: Duration::from_millis(200),
    };
    /// Maximum number of rests, because changes may never stop.
    const MOST_RESTS: u32 = 20;
}

/// Reads files again and again. A file system that hangs occupies a few threads and is reported at each look.
#[derive(Debug)]
pub struct Follower<T> {
    pace: Pace,
    notices: mpsc::Receiver<()>,
    requests: watch::Receiver<()>,
    watches: Watches,
    reading: Worker<T>,
}

impl<T: Send + 'static> Follower<T> {
    /// Reads at this pace, and at once whenever `requests` is sent a value. Needs a Tokio runtime.
    pub fn new(pace: Pace, requests: watch::Receiver<()>) -> Self {
        let (notice, notices) = mpsc::channel(1);
        Self {
            pace,
            notices,
            requests,
            watches: Watches::new(notice),
            reading: Worker::retrying(),
        }
    }

    /// Watches the directories of these files from now on.
    pub async fn watch<'a>(&mut self, files: impl Iterator<Item = &'a Path>) {
        self.watches.renew(files.map(directory).collect()).await;
    }

    /// Waits until the files are to be read again; `false` if `closed` ends before.
    pub async fn wait(&mut self, closed: impl Future<Output = ()>) -> bool {
        select! {
            () = closed => return false,
            () = requested(&mut self.requests) => {
                self.reading.changed();
                return true;
            }
            // The watches have a sender, so the queue never closes.
            notice = timeout(self.pace.look, self.notices.recv()) => {
                if notice.is_ok() {
                    self.reading.changed();
                }
            }
        }
        for _ in 0..Pace::MOST_RESTS {
            self.rest().await;
            if self.notices.try_recv().is_err() {
                break;
            }
        }
        true
    }

    /// Waits for the time that files must be unchanged.
    pub async fn rest(&self) {
        sleep(self.pace.rest).await;
    }

    /// Reads the files with `read`, in a separate thread.
    ///
    /// # Errors
    /// If the file system does not respond in time.
    pub async fn read(&mut self, read: impl FnOnce() -> T + Send + 'static) -> Result<T, Unanswered> {
        self.reading.run(read).await
    }
}

/// Ends when a reading is requested.
async fn requested(requests: &mut watch::Receiver<()>) {
    if requests.changed().await.is_err() {
        // No one is left who could request one.
        std::future::pending::<()>().await;
    }
}

fn directory(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
