//! What the helper writes to its standard error: handed on to ours, and its end kept, for it may say why it died.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    task::JoinHandle,
    time::timeout,
};

/// The most bytes that are kept.
const KEPT: usize = 2048;
/// The most lines, and characters of them, that are shown.
const LINES: usize = 2;
const ROOM: usize = 300;
/// How long the rest may take to come once the helper has ended; what it started may hold the pipe open for ever.
const PATIENCE: Duration = Duration::from_millis(200);

/// Follows one helper's standard error until it is dropped.
pub(super) struct Errors {
    end: Arc<Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
}

impl Errors {
    pub(super) fn follow(stream: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let end = Arc::default();
        let task = tokio::spawn(hand_on(stream, Arc::clone(&end)));
        Self { end, task }
    }

    /// The last lines, in one, without control characters. To be called once the helper has ended.
    pub(super) async fn last_words(&mut self) -> String {
        // A task that has ended must not be awaited again.
        if !self.task.is_finished() {
            // In time or too late: what came by then is told.
            let _ = timeout(PATIENCE, &mut self.task).await;
        }
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        words(&end)
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn hand_on(mut stream: impl AsyncRead + Unpin, end: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        let read = &buffer[..n];
        {
            let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
            end.extend_from_slice(read);
            let surplus = end.len().saturating_sub(KEPT);
            end.drain(..surplus);
        }
        // Nobody may be there to read it; that is no reason to let the helper wait.
        let _ = tokio::io::stderr().write_all(read).await;
    }
}

fn words(end: &[u8]) -> String {
    let text = String::from_utf8_lossy(end);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join(" / ");
    let plain: String = last.chars().filter(|c| !c.is_control()).collect();
    let surplus = plain.chars().count().saturating_sub(ROOM);
    plain.chars().skip(surplus).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_in_one_and_can_do_no_harm() {
        assert_eq!(words(b"one\ntwo\n\x1b[31mthree\n\n"), "two / [31mthree");
        assert_eq!(words(b""), "");
        let long = words("x".repeat(5000).as_bytes());
        assert_eq!(long.len(), ROOM);
    }
}
