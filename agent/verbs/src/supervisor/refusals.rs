//! Messages that a peer can cause as often as it likes.

use std::{
    fmt,
    io::{self, Write},
    time::{Duration, Instant},
};

/// At most this many messages are written in [`PERIOD`].
const MOST: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// Writes messages to standard error, and counts those that are too many.
#[derive(Debug)]
pub(super) struct Refusals {
    began: Instant,
    written: u32,
    left_out: u64,
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            written: 0,
            left_out: 0,
        }
    }
}

impl Refusals {
    pub(super) fn report(&mut self, message: fmt::Arguments<'_>) {
        // Nothing can be reported if standard error is closed.
        let _ = self.write(&mut io::stderr(), Instant::now(), message);
    }

    fn write(&mut self, out: &mut impl Write, now: Instant, message: fmt::Arguments<'_>) -> io::Result<()> {
        if now.saturating_duration_since(self.began) >= PERIOD {
            (self.began, self.written) = (now, 0);
        }
        if self.written >= MOST {
            self.left_out += 1;
            return Ok(());
        }
        self.written += 1;
        match std::mem::take(&mut self.left_out) {
            0 => writeln!(out, "rdma-health-verbs: {message}"),
            more => writeln!(
                out,
                "rdma-health-verbs: {message} ({more} messages before it were left out)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_refused_often_causes_few_lines() {
        let mut refusals = Refusals::default();
        let (mut out, start) = (Vec::new(), refusals.began);
        for _ in 0..1000 {
            refusals.write(&mut out, start, format_args!("closed")).unwrap();
        }
        refusals
            .write(&mut out, start + PERIOD, format_args!("closed"))
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 11);
        assert!(
            text.ends_with("closed (990 messages before it were left out)\n"),
            "{text}"
        );
    }
}
