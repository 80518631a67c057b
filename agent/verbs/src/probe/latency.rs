//! Latency: half of the time of a round trip.
//!
//! It is what `ib_write_lat` measures: one end writes a few bytes to the other's memory, which the other polls for
//! the last byte, and then writes back. Each end has its own thread, as the two processes of perftest have, also where
//! both ends are here: the receiver answers while the sender is still busy with acknowledgement and completion. (Polled by
//! one thread, `SoftRoCE`, which does that work in the sender's thread, takes twice as long.)

use std::{
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Relaxed, Release},
    },
    thread,
    time::Instant,
};

use rdma_health_protocol::{Latency, ProbeFailure, ProbeRequest};
use rustix::io::Errno;

use super::{end::End, errno, measure::Far, quantile, shares::Shares, signal, watch::Watch};
use crate::sys::{PollBuffer, Remote};

/// Turns of a waiting loop between two looks for a failed completion.
const TURNS: u32 = 1024;

/// How many round trips to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trips {
    /// Length of a message in bytes.
    pub(super) size: u32,
    /// Round trips before the measured ones.
    pub(super) warm_up: u32,
    /// Measured round trips.
    pub(super) measured: u32,
}

impl Trips {
    /// Those that the budget allows.
    pub(super) fn of(request: &ProbeRequest, shares: &Shares) -> Self {
        Self {
            size: request.latency_size,
            warm_up: shares.warm_up,
            measured: shares.round_trips,
        }
    }

    /// Bytes that all of them write.
    pub(super) fn bytes(self) -> u64 {
        2 * u64::from(self.size) * (u64::from(self.warm_up) + u64::from(self.measured))
    }

    /// What each trip writes as its last byte: never what the one before wrote, nor the zero that stands there first.
    fn marks(self) -> impl Iterator<Item = u8> {
        (1..=u8::MAX)
            .cycle()
            .take(self.warm_up as usize + self.measured as usize)
    }
}

/// Makes the round trips from `near`; `None` where there are none to make. Takes half of the remaining time at most, but one
/// measured round trip at least.
pub(super) fn measure(
    near: &mut End,
    far: &mut Far<'_>,
    trips: Trips,
    watch: &Watch,
) -> Result<Option<Latency>, ProbeFailure> {
    let samples = match far {
        Far::Here(far) => both(near, far, trips, watch)?,
        Far::Elsewhere => {
            let samples = Player::new(near, trips, Stop::Signal, watch)?.ask(trips)?;
            signal::send(near, signal::TRIPS_OVER, 0, watch)?;
            samples
        }
    };
    Ok(quantile::latency(samples))
}

/// Answers the round trips that another process makes.
pub(super) fn answer(end: &mut End, trips: Trips, watch: &Watch) -> Result<(), ProbeFailure> {
    Player::new(end, trips, Stop::Signal, watch)?.answer(trips)
}

/// Makes the round trips between two ends that are both here; the samples.
fn both(near: &mut End, far: &mut End, trips: Trips, watch: &Watch) -> Result<Vec<u64>, ProbeFailure> {
    let stop = AtomicBool::new(false);
    let ping = Player::new(near, trips, Stop::Shared(&stop), watch)?;
    let echo = Player::new(far, trips, Stop::Shared(&stop), watch)?;
    let (samples, echoed) = thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("probe-echo".into())
            .spawn_scoped(scope, || echo.answer(trips));
        let Ok(thread) = thread else {
            return (Err(errno(Errno::AGAIN)), Ok(()));
        };
        let samples = ping.ask(trips);
        let echoed = thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (samples, echoed)
    });
    match (samples, echoed) {
        // A completion names the cause; that the other end then waited in vain does not.
        (_, Err(failure @ ProbeFailure::Completion(_))) | (Ok(_), Err(failure)) | (Err(failure), _) => {
            Err(failure)
        }
        (Ok(samples), Ok(())) => Ok(samples),
    }
}

/// What says that the other end makes no more round trips.
enum Stop<'a> {
    /// Both ends are here: set when either is done, for whatever reason.
    Shared(&'a AtomicBool),
    /// The other end is in another process: its signal.
    Signal,
}

/// One end of the round trips.
struct Player<'a> {
    end: &'a mut End,
    /// Where messages arrive at the other end.
    remote: Remote,
    /// Where they are sent from and arrive at this end.
    from: usize,
    to: usize,
    size: usize,
    stop: Stop<'a>,
    watch: Watch,
    buffer: PollBuffer,
}

impl<'a> Player<'a> {
    fn new(end: &'a mut End, trips: Trips, stop: Stop<'a>, watch: &Watch) -> Result<Self, ProbeFailure> {
        let [from, to] = end.layout.small;
        Ok(Self {
            remote: end.remote(to)?,
            end,
            from,
            to,
            size: trips.size as usize,
            stop,
            watch: watch.clone(),
            buffer: PollBuffer::default(),
        })
    }

    /// Starts each trip and times it, in nanoseconds of half a trip.
    fn ask(mut self, trips: Trips) -> Result<Vec<u64>, ProbeFailure> {
        let mut samples = Vec::with_capacity(trips.measured as usize);
        let until = Instant::now() + self.watch.left() / 2;
        for (trip, mark) in trips.marks().enumerate() {
            let started = Instant::now();
            self.send(mark)?;
            if !self.receive(mark)? {
                break;
            }
            let elapsed = started.elapsed();
            self.end.drain(&mut self.buffer, &self.watch)?;
            if trip >= trips.warm_up as usize {
                samples.push(u64::try_from(elapsed.as_nanos() / 2).unwrap_or(u64::MAX));
                if started > until {
                    break;
                }
            }
        }
        Ok(samples)
    }

    /// Answers each trip.
    fn answer(mut self, trips: Trips) -> Result<(), ProbeFailure> {
        for mark in trips.marks() {
            if !self.receive(mark)? {
                break;
            }
            self.send(mark)?;
            self.end.drain(&mut self.buffer, &self.watch)?;
        }
        Ok(())
    }

    fn send(&self, mark: u8) -> Result<(), ProbeFailure> {
        self.end.region.bytes()[self.from + self.size - 1].store(mark, Relaxed);
        self.end.post_small(self.from..self.from + self.size, self.remote)
    }

    /// Waits for the other end's message; false where the other end has stopped.
    fn receive(&mut self, mark: u8) -> Result<bool, ProbeFailure> {
        let last = &self.end.region.bytes()[self.to + self.size - 1];
        let mut turns = 0u32;
        while last.load(Acquire) != mark {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(TURNS) {
                // What failed to be sent is never answered.
                self.end.reap(0, &mut self.buffer)?;
                if self.is_stopped() {
                    // It may have stopped after its last message.
                    return Ok(last.load(Acquire) == mark);
                }
            }
            self.watch.turn()?;
        }
        Ok(true)
    }

    fn is_stopped(&self) -> bool {
        match self.stop {
            Stop::Shared(stop) => stop.load(Acquire),
            Stop::Signal => signal::arrived(self.end, signal::TRIPS_OVER).is_some(),
        }
    }
}

impl Drop for Player<'_> {
    fn drop(&mut self) {
        if let Stop::Shared(stop) = self.stop {
            stop.store(true, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_differ_from_trip_to_trip_and_from_zero() {
        let trips = Trips {
            size: 8,
            warm_up: 16,
            measured: 1000,
        };
        let marks: Vec<_> = trips.marks().collect();
        assert_eq!(marks.len(), 1016);
        assert!(marks.windows(2).all(|pair| pair[0] != pair[1]) && !marks.contains(&0));
        assert_eq!(trips.bytes(), 2 * 8 * 1016);
    }
}
