//! The conversation with the guest: lines over a Unix socket that QEMU connects to a virtio port.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// With this exit status.
    Done(i32),
    /// At its deadline, by force.
    Late,
}

#[derive(Debug)]
pub(super) struct Control {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Control {
    /// Waits until the guest says that it is ready.
    pub(super) fn open(stream: UnixStream, deadline: Instant) -> Result<Self> {
        let mut control = Self {
            stream,
            received: Vec::new(),
        };
        match control.line(deadline)?.split_once(' ') {
            None => Ok(control),
            Some((_, reason)) => bail!("{reason}"),
        }
    }

    /// Sends a request and waits for its answer.
    pub(super) fn ask(&mut self, request: &str, id: u32, deadline: Instant) -> Result<Answer> {
        self.stream
            .write_all(format!("{request}\n").as_bytes())
            .context("the guest is gone")?;
        loop {
            let line = self.line(deadline)?;
            let mut words = line.split(' ');
            let (verdict, about, status) = (words.next(), words.next(), words.next());
            // The answer to an earlier request, for which no caller waited, may still come.
            if about.and_then(|about| about.parse().ok()) != Some(id) {
                continue;
            }
            return match (verdict, status.and_then(|status| status.parse().ok())) {
                (Some("done"), Some(status)) => Ok(Answer::Done(status)),
                (Some("late"), None) => Ok(Answer::Late),
                _ => bail!("the guest answered {line:?}"),
            };
        }
    }

    fn line(&mut self, deadline: Instant) -> Result<String> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("the guest does not answer");
            }
            // Zero would mean for ever.
            self.stream
                .set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let mut buffer = [0; 256];
            match self.stream.read(&mut buffer) {
                Ok(0) => bail!("the guest has gone"),
                Ok(length) => self.received.extend_from_slice(&buffer[..length]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error).context("the guest is gone"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::{Answer, Control};

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(100)
    }

    #[test]
    fn answers_are_told_apart_and_stale_ones_passed_over() {
        let (mut guest, host) = UnixStream::pair().unwrap();
        guest
            .write_all(b"ready\nlate 1\ndone 2 0\ndone 3 77\nlate 4\ndone 5\n")
            .unwrap();
        let mut control = Control::open(host, soon()).unwrap();
        assert_eq!(control.ask("run 3 1", 3, soon()).unwrap(), Answer::Done(77));
        assert_eq!(control.ask("run 4 1", 4, soon()).unwrap(), Answer::Late);
        assert!(
            control
                .ask("run 5 1", 5, soon())
                .unwrap_err()
                .to_string()
                .contains("done 5")
        );
    }

    #[test]
    fn a_silent_or_absent_guest_is_an_error_in_time() {
        let (mut guest, host) = UnixStream::pair().unwrap();
        let silent = Control::open(host.try_clone().unwrap(), soon()).unwrap_err();
        assert_eq!(silent.to_string(), "the guest does not answer");
        guest.write_all(b"failed cannot load rdma_rxe\n").unwrap();
        let failed = Control::open(host.try_clone().unwrap(), soon()).unwrap_err();
        assert_eq!(failed.to_string(), "cannot load rdma_rxe");
        drop(guest);
        assert_eq!(
            Control::open(host, soon()).unwrap_err().to_string(),
            "the guest has gone"
        );
    }
}
