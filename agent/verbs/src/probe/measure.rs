//! The writes themselves: one that is verified, small ones for latency (see `latency`), many for bandwidth.

use std::time::{Duration, Instant};

use rdma_health_protocol::{Bandwidth, ProbeFailure, ProbeReport, ProbeRequest, Stage};
use rustix::io::Errno;

use super::{
    errno,
    latency::{self, Trips},
    pair::Pair,
    pattern::Pattern,
    watch::Watch,
};
use crate::sys::{POST_LIST, PollBuffer, Write};

/// Most bytes of a message that are compared. More would cost time that the measurements need.
const MAX_VERIFIED: u64 = 16 << 20;

/// Round trips before the measured ones.
const WARM_UP: u32 = 16;

/// Bytes that may still be written. Every post takes its bytes from here first.
#[derive(Debug)]
struct Budget(u64);

impl Budget {
    fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    fn take(&mut self, bytes: u64) -> Result<(), ProbeFailure> {
        self.0 = self.0.checked_sub(bytes).ok_or_else(|| errno(Errno::DQUOT))?;
        Ok(())
    }
}

/// How the byte budget is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    /// Length of the first, verified write.
    verified: u32,
    /// Round trips that are measured, and those before them.
    round_trips: u32,
    warm_up: u32,
    /// Full bandwidth messages, and their length.
    messages: u64,
    message: u32,
}

impl Shares {
    /// An eighth at most goes to the verified write, a quarter of the rest to latency, and the remainder to
    /// bandwidth: whole messages, or one shorter message where there is not enough for one.
    fn of(request: &ProbeRequest) -> Self {
        let size = u64::from(request.message_size);
        let verified = size.min((request.byte_budget / 8).max(1)).min(MAX_VERIFIED);
        let left = request.byte_budget - verified;
        let round_trip = 2 * u64::from(request.latency_size.max(1));
        let affordable = left / 4 / round_trip;
        let samples = u64::from(request.latency_samples);
        let warm_up = u64::from(WARM_UP).min(samples).min(affordable / 8);
        let round_trips = samples.min(affordable - warm_up);
        let left = left - (warm_up + round_trips) * round_trip;
        let message = size.min(left);
        // All of them were bounded by a u32.
        let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            verified: small(verified),
            round_trips: small(round_trips),
            warm_up: small(warm_up),
            messages: left.checked_div(message).unwrap_or(0),
            message: small(message),
        }
    }
}

/// Makes all writes; `report` tells how far they got and what was measured.
pub(super) fn run(
    pair: &mut Pair,
    request: &ProbeRequest,
    max_message: u32,
    watch: &Watch,
    report: &mut ProbeReport,
) -> Result<(), ProbeFailure> {
    let shares = Shares::of(request);
    let mut budget = Budget::new(request.byte_budget);
    report.stage = Stage::Write;
    if request.message_size > max_message {
        return Err(errno(Errno::MSGSIZE));
    }
    let first = Pattern::new();
    first.lay_out(&pair.a.region, &pair.b.region, shares.verified as usize);
    let write = bulk_write(pair, shares.verified)?;
    budget.take(u64::from(shares.verified))?;
    pair.a.post(&write, 1)?;
    report.stage = Stage::Poll;
    pair.a.drain(&mut PollBuffer::default(), watch)?;
    verify(pair, first, shares.verified, report)?;

    if shares.round_trips > 0 {
        report.stage = Stage::Poll;
        let trips = Trips {
            size: request.latency_size,
            warm_up: shares.warm_up,
            measured: shares.round_trips,
        };
        budget.take(trips.bytes())?;
        report.latency = latency::measure(pair, trips, watch)?;
    }
    if shares.messages > 0 {
        let compared = shares
            .message
            .min(u32::try_from(MAX_VERIFIED).unwrap_or(u32::MAX));
        let second = Pattern::new();
        second.lay_out(&pair.a.region, &pair.b.region, compared as usize);
        report.stage = Stage::Poll;
        report.bandwidth = Some(bandwidth(pair, request.depth, &shares, watch, &mut budget)?);
        verify(pair, second, compared, report)?;
    }
    report.stage = Stage::Done;
    Ok(())
}

fn verify(pair: &Pair, pattern: Pattern, length: u32, report: &mut ProbeReport) -> Result<(), ProbeFailure> {
    report.stage = Stage::Verify;
    match pattern.first_difference(&pair.b.region, length as usize) {
        Some(offset) => Err(ProbeFailure::Corrupted {
            offset: offset as u64,
        }),
        None => Ok(()),
    }
}

/// A write from the start of one region to the start of the other.
fn bulk_write(pair: &Pair, length: u32) -> Result<Write, ProbeFailure> {
    let invalid = || errno(Errno::INVAL);
    Ok(Write {
        id: 0,
        local: pair.a.region.segment(0, length).ok_or_else(invalid)?,
        remote: pair.b.region.remote(0).ok_or_else(invalid)?,
        signaled: true,
    })
}

/// Keeps up to `depth` writes under way until all are written. Stops posting when a fifth of the probe's time is
/// left; what has not completed by its end does not count. It timed out where nothing completed in that last fifth.
fn bandwidth(
    pair: &Pair,
    depth: u32,
    shares: &Shares,
    watch: &Watch,
    budget: &mut Budget,
) -> Result<Bandwidth, ProbeFailure> {
    let (mut write, mut buffer) = (bulk_write(pair, shares.message)?, PollBuffer::default());
    let depth = u64::from(depth);
    // Four lists within the depth at least, so that the queue does not run dry while one is awaited.
    let list = (depth / 4).clamp(1, POST_LIST as u64);
    let (mut posted, mut completed, mut wanted) = (0, 0, shares.messages);
    let started = Instant::now();
    let stop_posting = started + watch.left().saturating_sub(watch.budget() / 5);
    let mut finished = started;
    while completed < wanted {
        let count = list.min(wanted - posted);
        if count > 0 && posted + count - completed <= depth {
            budget.take(count * u64::from(shares.message))?;
            posted += count;
            write.id = posted;
            pair.a.post(&write, usize::try_from(count).unwrap_or(POST_LIST))?;
        }
        let checked = if let Some(id) = pair.a.reap(&mut buffer)? {
            completed = id;
            finished = Instant::now();
            if finished >= stop_posting {
                wanted = posted;
            }
            watch.check_at(finished)
        } else {
            watch.turn()
        };
        match checked {
            Err(ProbeFailure::TimedOut) if completed > 0 && finished >= stop_posting => break,
            other => other?,
        }
    }
    let seconds = (finished - started).max(Duration::from_nanos(1)).as_secs_f64();
    let bytes = completed * u64::from(shares.message);
    #[allow(clippy::cast_precision_loss)] // nobody writes 2^53 bytes
    let bytes_per_second = bytes as f64 / seconds;
    Ok(Bandwidth {
        bytes,
        seconds,
        bytes_per_second,
        message_size: shares.message,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::probe::request::sane;

    #[test]
    fn an_ordinary_request_gets_what_it_asks_for() {
        let shares = Shares::of(&sane());
        assert_eq!(
            shares,
            Shares {
                verified: 65536,
                round_trips: 1000,
                warm_up: 16,
                messages: 1022,
                message: 65536
            }
        );
    }

    #[test]
    fn one_byte_is_written_and_verified() {
        let shares = Shares::of(&ProbeRequest {
            byte_budget: 1,
            ..sane()
        });
        assert_eq!((shares.verified, shares.round_trips, shares.messages), (1, 0, 0));
    }

    #[test]
    fn a_budget_refuses_what_exceeds_it() {
        let mut budget = Budget::new(10);
        assert_eq!(budget.take(10), Ok(()));
        assert!(budget.take(1).is_err());
    }

    proptest! {
        #[test]
        fn shares_never_exceed_the_budget(
            byte_budget in prop_oneof![1u64..100_000, any::<u64>().prop_map(|n| n.max(1))],
            message_size in 1u32..=1 << 30,
            latency_samples in 0u32..1_000_000,
            latency_size in 1u32..=1 << 20,
        ) {
            let shares = Shares::of(&ProbeRequest { message_size, byte_budget, latency_samples, latency_size, ..sane() });
            let trips = u128::from(shares.round_trips + shares.warm_up) * 2 * u128::from(latency_size);
            let bulk = u128::from(shares.messages) * u128::from(shares.message);
            prop_assert!(u128::from(shares.verified) + trips + bulk <= u128::from(byte_budget));
            prop_assert!(shares.verified >= 1 && shares.verified <= message_size);
            prop_assert!(shares.message <= message_size);
            prop_assert!(shares.round_trips <= latency_samples);
        }
    }
}
