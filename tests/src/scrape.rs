//! What a Prometheus would see: fetches `/metrics` and looks series up.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// The most that an answer may hold, in bytes.
const MAX_ANSWER: u64 = 64 << 20;

/// An answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The head, as it came.
    pub head: String,
    /// The body as text, without the sizes of its chunks.
    pub body: String,
}

/// Fetches a path over HTTP/1.1; the answer must be there within `patience`.
///
/// # Errors
/// Where there is no connection, no answer in time, or none that is HTTP.
pub fn get(address: SocketAddr, path: &str, patience: Duration) -> Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .context("no end of the head")?;
    let head = String::from_utf8(answer[..end].to_vec())?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .context("no status")?;
    let body = &answer[end + 4..];
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { whole(body)? } else { body.to_vec() };
    Ok(Answer {
        status,
        head,
        body: String::from_utf8(body)?,
    })
}

/// The body without the sizes of its chunks.
fn whole(mut rest: &[u8]) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n");
        let (size, after) = rest.split_at(end.context("no size of a chunk")?);
        let size = usize::from_str_radix(std::str::from_utf8(size)?.trim(), 16)?;
        if size == 0 {
            return Ok(whole);
        }
        let chunk = after.get(2..).and_then(|after| after.split_at_checked(size));
        let (chunk, after) = chunk.context("a chunk is cut off")?;
        whole.extend_from_slice(chunk);
        rest = after.get(2..).context("a chunk is cut off")?;
    }
}

/// Every series of one scrape.
#[derive(Debug, Clone)]
pub struct Scrape {
    text: String,
}

impl Scrape {
    /// Scrapes `/metrics`, which must answer within `patience`.
    ///
    /// # Errors
    /// As for [`get`], and where the status is not 200.
    pub fn of(address: SocketAddr, patience: Duration) -> Result<Self> {
        let answer = get(address, "/metrics", patience)?;
        if answer.status != 200 {
            bail!("status {}: {}", answer.status, answer.body);
        }
        Ok(Self { text: answer.body })
    }

    /// The value of the first series called `name` that has all of `labels` (`device="rxe0"`).
    pub fn value(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let line = self
            .lines(name)
            .find(|line| labels.iter().all(|label| line.contains(label)))?;
        line.rsplit_once(' ')?.1.parse().ok()
    }

    /// How many series called `name` have all of `labels`.
    pub fn count(&self, name: &str, labels: &[&str]) -> usize {
        self.lines(name)
            .filter(|line| labels.iter().all(|label| line.contains(label)))
            .count()
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.text.lines().filter(move |line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        })
    }
}

/// Scrapes again and again until `condition` holds; every scrape must answer within a second.
///
/// # Errors
/// Where it does not hold within `deadline`: the last scrape's text is in the message.
pub fn wait_until(
    address: SocketAddr,
    deadline: Duration,
    what: &str,
    condition: impl Fn(&Scrape) -> bool,
) -> Result<Scrape> {
    let end = Instant::now() + deadline;
    loop {
        let scrape = Scrape::of(address, Duration::from_secs(5));
        match scrape {
            Ok(scrape) if condition(&scrape) => return Ok(scrape),
            Ok(scrape) if Instant::now() >= end => {
                bail!("not in time: {what}; the last scrape:\n{}", scrape.text)
            }
            Err(error) if Instant::now() >= end => return Err(error.context(format!("not in time: {what}"))),
            _ => sleep(Duration::from_millis(100)),
        }
    }
}
