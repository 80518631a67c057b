//! The part of the end that writes: one write that is verified, small ones for latency (see `latency`), many for bandwidth.

use std::time::{Duration, Instant};

use rdma_health_protocol::{Bandwidth, ProbeFailure, ProbeReport, ProbeRequest, Stage};
use rustix::io::Errno;

use super::{
    end::End,
    errno,
    latency::{self, Trips},
    pattern::Pattern,
    respond,
    shares::{Budget, Shares},
    signal,
    watch::Watch,
};
use crate::sys::{POST_LIST, PollBuffer};

/// The end that is written to.
pub(super) enum Far<'a> {
    /// It is here too, so that its part is done here.
    Here(&'a mut End),
    /// It is in another process, which does its part (see `respond`).
    Elsewhere,
}

impl Far<'_> {
    /// Whether the first `length` bytes arrived: looks for itself, or asks the other process by the signal of this number.
    fn verify(
        &self,
        near: &End,
        number: u64,
        pattern: Pattern,
        length: u32,
        watch: &Watch,
    ) -> Result<(), ProbeFailure> {
        let verdict = match self {
            Self::Here(far) => signal::verdict(pattern.first_difference(&far.region, length as usize)),
            Self::Elsewhere => {
                signal::send(near, number, 0, watch)?;
                signal::wait(near, number, watch)?
            }
        };
        signal::judge(verdict)
    }
}

/// Makes all writes from `near` to `far`, which are connected; `report` shows how far they got and what was measured. Between
/// two processes a few signals of 16 bytes come on top of the byte budget.
pub(super) fn run(
    near: &mut End,
    mut far: Far<'_>,
    request: &ProbeRequest,
    watch: &Watch,
    report: &mut ProbeReport,
) -> Result<(), ProbeFailure> {
    let shares = Shares::of(request);
    let mut budget = Budget::new(request.byte_budget);
    report.stage = Stage::Write;
    if request.message_size > near.max_message() {
        return Err(errno(Errno::MSGSIZE));
    }
    let (first, second) = (near.pattern, near.pattern.complement());
    first.fill(&near.region, shares.verified as usize);
    if let Far::Here(far) = &far {
        respond::lay_out(far, first, &shares);
    }
    let write = near.bulk_write(shares.verified)?;
    budget.take(u64::from(shares.verified))?;
    near.post(0, &write, 1)?;
    report.stage = Stage::Poll;
    near.drain(&mut PollBuffer::default(), watch)?;
    report.stage = Stage::Verify;
    far.verify(near, signal::FIRST_WRITTEN, first, shares.verified, watch)?;

    if shares.round_trips > 0 {
        report.stage = Stage::Poll;
        let trips = Trips::of(request, &shares);
        budget.take(trips.bytes())?;
        report.latency = latency::measure(near, &mut far, trips, watch)?;
    }
    if shares.messages > 0 {
        second.fill(&near.region, shares.compared() as usize);
        report.stage = Stage::Poll;
        report.bandwidth = Some(bandwidth(near, request.depth, &shares, watch, &mut budget)?);
    }
    report.stage = Stage::Verify;
    far.verify(near, signal::ALL_WRITTEN, second, shares.compared(), watch)?;
    report.stage = Stage::Done;
    Ok(())
}

/// The writes of one queue pair.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    posted: u64,
    completed: u64,
}

/// Keeps up to `depth` writes under way on each queue pair until all are written. Stops posting when a fifth of the probe's time is
/// left; what has not completed by its end does not count. It timed out where nothing completed in that last fifth.
fn bandwidth(
    end: &End,
    depth: u32,
    shares: &Shares,
    watch: &Watch,
    budget: &mut Budget,
) -> Result<Bandwidth, ProbeFailure> {
    let (mut write, mut buffer) = (end.bulk_write(shares.message)?, PollBuffer::default());
    let depth = u64::from(depth);
    // Four lists within the depth at least, so that the queue does not run dry while one is awaited.
    let list = (depth / 4).clamp(1, POST_LIST as u64);
    let mut lanes = vec![Progress::default(); end.lanes()];
    let (mut posted, mut completed, mut wanted) = (0, 0, shares.messages);
    let started = Instant::now();
    let stop_posting = started + watch.left().saturating_sub(watch.budget() / 5);
    let mut finished = started;
    while completed < wanted {
        let mut progress = false;
        for (at, lane) in lanes.iter_mut().enumerate() {
            let count = list.min(wanted - posted);
            if count > 0 && lane.posted + count - lane.completed <= depth {
                budget.take(count * u64::from(shares.message))?;
                posted += count;
                lane.posted += count;
                write.id = lane.posted;
                end.post(at, &write, usize::try_from(count).unwrap_or(POST_LIST))?;
            }
            if let Some(id) = end.reap(at, &mut buffer)? {
                completed += id - lane.completed;
                lane.completed = id;
                progress = true;
            }
        }
        let checked = if progress {
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
    #[allow(clippy::cast_precision_loss)] // a probe writes less than 2^53 bytes
    let bytes_per_second = bytes as f64 / seconds;
    Ok(Bandwidth {
        bytes,
        seconds,
        bytes_per_second,
        message_size: shares.message,
        queue_pairs: u32::try_from(lanes.len()).unwrap_or(u32::MAX),
    })
}
