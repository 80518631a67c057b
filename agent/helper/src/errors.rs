//! The helper's standard error: logged line by line, at a limited rate, with the last lines kept, which may show why the
//! helper died.

use std::{
    io::Write,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rdma_health_protocol::text::{excerpt, printable};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tracing::warn;

/// Maximum number of bytes that are kept, and of one line that is logged.
const KEPT: usize = 2048;
/// Maximum number of lines, and of characters per line, that are shown.
const LINES: usize = 2;
const ROOM: usize = 300;
/// How long to wait for remaining output after the helper has ended; its own children may keep the pipe open for ever.
const PATIENCE: Duration = Duration::from_millis(200);
/// Number of lines that are logged at once, and the time after which one more is.
const BURST: u32 = 20;
const LINE_INTERVAL: Duration = Duration::from_secs(3);
/// Pause before the next read from a helper that writes more than is logged: it then waits for the agent, and uses no more
/// of its time.
const FLOOD_PAUSE: Duration = Duration::from_millis(50);

/// Follows one helper's standard error until it is dropped.
pub(super) struct Errors {
    end: Arc<Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
}

impl Errors {
    /// The `log` belongs to all helpers of one place, because a helper that dies is started again.
    pub(super) fn follow(stream: impl AsyncRead + Send + Unpin + 'static, log: Log) -> Self {
        let end = Arc::default();
        let task = tokio::spawn(forward(stream, Arc::clone(&end), log));
        Self { end, task }
    }

    /// The last lines, joined, without control characters. Call it after the helper has ended.
    pub(super) async fn last_output(&mut self) -> String {
        // A finished task must not be awaited again.
        if !self.task.is_finished() {
            // Even after a timeout, the output so far is used.
            let _ = timeout(PATIENCE, &mut self.task).await;
        }
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        summary(&end)
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut stream: impl AsyncRead + Unpin, end: Arc<Mutex<Vec<u8>>>, log: Log) {
    let mut buffer = [0; 1024];
    let mut line = Vec::new();
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        let read = &buffer[..n];
        {
            let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
            end.extend_from_slice(read);
            let surplus = end.len().saturating_sub(KEPT);
            end.drain(..surplus);
        }
        let mut floods = false;
        for byte in read {
            if *byte != b'\n' && line.len() < KEPT {
                line.push(*byte);
                continue;
            }
            floods |= !log.line(&line);
            line.clear();
        }
        if floods {
            sleep(FLOOD_PAUSE).await;
        }
    }
    log.line(&line);
}

/// Writes lines to the agent's log; a command without a log writes them to its standard error. Clones share one limit.
#[derive(Debug, Clone)]
pub(super) struct Log(Arc<Mutex<Budget>>);

/// How many lines may be logged.
#[derive(Debug)]
struct Budget {
    left: u32,
    /// When `left` was last increased.
    since: Instant,
    /// Lines that were not logged.
    dropped: u64,
}

impl Default for Log {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Budget {
            left: BURST,
            since: Instant::now(),
            dropped: 0,
        })))
    }
}

impl Log {
    /// Logs a line, unless too many came before; whether it was.
    fn line(&self, bytes: &[u8]) -> bool {
        let text = bytes.trim_ascii();
        if text.is_empty() {
            return true;
        }
        let Some(dropped) = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(Instant::now())
        else {
            return false;
        };
        if dropped > 0 {
            write(&format!("({dropped} lines left out)"));
        }
        write(&excerpt(&String::from_utf8_lossy(text), ROOM));
        true
    }
}

impl Budget {
    /// Takes one line from the budget. The number of lines that were dropped since the last one, or nothing if this line is
    /// to be dropped too.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let earned = now.saturating_duration_since(self.since).as_secs() / LINE_INTERVAL.as_secs();
        if earned > 0 {
            self.left = u32::try_from(earned)
                .unwrap_or(BURST)
                .saturating_add(self.left)
                .min(BURST);
            self.since = now;
        }
        if self.left == 0 {
            self.dropped += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

fn write(line: &str) {
    if tracing::dispatcher::has_been_set() {
        warn!("standard error of the verbs helper: {line}");
    } else {
        // There is nowhere else to report a closed standard error.
        let _ = writeln!(std::io::stderr(), "rdma-health-verbs: {line}");
    }
}

fn summary(end: &[u8]) -> String {
    let text = String::from_utf8_lossy(end);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join(" / ");
    let plain = printable(&last);
    let surplus = plain.chars().count().saturating_sub(ROOM);
    plain.chars().skip(surplus).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_joined_and_have_no_control_characters() {
        assert_eq!(summary(b"one\ntwo\n\x1b[31mthree\n\n"), "two / \\u{1b}[31mthree");
        assert_eq!(summary(b""), "");
        let long = summary("x".repeat(5000).as_bytes());
        assert_eq!(long.len(), ROOM);
    }

    #[tokio::test]
    async fn a_flood_of_lines_is_logged_at_a_limited_rate_and_counted() {
        let start = Instant::now();
        let mut budget = Budget {
            left: BURST,
            since: start,
            dropped: 0,
        };
        let logged = (0..1000).filter(|_| budget.take(start).is_some()).count();
        assert_eq!(logged, BURST as usize);
        assert_eq!(budget.take(start + LINE_INTERVAL), Some(1000 - u64::from(BURST)));
        assert_eq!(budget.take(start + LINE_INTERVAL), None);
        // After a long silence, a whole burst again.
        let later = start + LINE_INTERVAL * 1000;
        let logged = (0..1000).filter(|_| budget.take(later).is_some()).count();
        assert_eq!(logged, BURST as usize);
    }
}
