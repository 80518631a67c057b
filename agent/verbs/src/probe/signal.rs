//! Signals between the two ends of a measurement: short writes that follow the data on the same connection.
//!
//! The end that writes numbers its signals; the end that responds answers with the same number. They need no other channel
//! than the connection itself, which keeps the order: what was written before a signal is there when the signal is.

use std::{
    sync::atomic::Ordering::{Acquire, Relaxed},
    thread,
    time::Duration,
};

use rdma_health_protocol::ProbeFailure;

use super::{end::End, watch::Watch};
use crate::sys::PollBuffer;

/// The first, verified write is done. The answer is a [`verdict`].
pub(super) const FIRST_WRITTEN: u64 = 1;
/// There are no more round trips. It has no answer.
pub(super) const TRIPS_OVER: u64 = 2;
/// All is written. The answer is a [`verdict`].
pub(super) const ALL_WRITTEN: u64 = 3;

/// Length of a signal: a value, then its number, both little-endian. The number arrives last, for an HCA places the bytes of
/// a cache line in order.
const LENGTH: usize = 16;

/// Time between two looks for a signal. Nothing that is measured waits for one.
const INTERVAL: Duration = Duration::from_micros(200);

/// Sends a signal, and waits until it has arrived.
pub(super) fn send(end: &End, number: u64, value: u64, watch: &Watch) -> Result<(), ProbeFailure> {
    let [from, to] = end.layout.signal;
    let words = &end.region.words()[from / 8..];
    words[0].store(value.to_le(), Relaxed);
    words[1].store(number.to_le(), Relaxed);
    end.post_small(from..from + LENGTH, end.remote(to)?)?;
    end.drain(&mut PollBuffer::default(), watch)
}

/// The value of the signal of this number or a later one; `None` where none has arrived.
pub(super) fn arrived(end: &End, number: u64) -> Option<u64> {
    let words = &end.region.words()[end.layout.signal[1] / 8..];
    let newest = u64::from_le(words[1].load(Acquire));
    (newest >= number).then(|| u64::from_le(words[0].load(Relaxed)))
}

/// Waits for the signal of this number or a later one; its value.
pub(super) fn wait(end: &End, number: u64, watch: &Watch) -> Result<u64, ProbeFailure> {
    loop {
        if let Some(value) = arrived(end, number) {
            return Ok(value);
        }
        watch.check()?;
        thread::sleep(INTERVAL);
    }
}

/// Whether the bytes that arrived are those sent, as the value of a signal: 0, or one more than the offset of the first
/// difference.
pub(super) fn verdict(difference: Option<usize>) -> u64 {
    difference.map_or(0, |offset| offset as u64 + 1)
}

/// The failure that a verdict stands for. It came from the other end and may be anything.
pub(super) fn judge(verdict: u64) -> Result<(), ProbeFailure> {
    match verdict.checked_sub(1) {
        None => Ok(()),
        Some(offset) => Err(ProbeFailure::Corrupted { offset }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_carries_the_offset() {
        assert_eq!(judge(verdict(None)), Ok(()));
        for offset in [0, 4711] {
            let expected = ProbeFailure::Corrupted {
                offset: offset as u64,
            };
            assert_eq!(judge(verdict(Some(offset))), Err(expected));
        }
    }
}
