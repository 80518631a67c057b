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
    /// The body as text.
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
    let mut answer = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no end of the head")?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .context("no status")?;
    Ok(Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
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
