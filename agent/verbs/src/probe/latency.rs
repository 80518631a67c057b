//! Latency: half of the time of a round trip.
//!
//! It is what `ib_write_lat` measures: one end writes a few bytes to the other's memory, which the other polls for
//! the last byte, and then writes back. Each end has a thread of its own, as the two processes of perftest have: the
//! receiver answers while the sender is still busy with acknowledgement and completion. (Polled by one thread,
//! `SoftRoCE`, which does that work in the sender's thread, takes twice as long.)

use std::{
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Relaxed, Release},
    },
    thread,
    time::Instant,
};

use rdma_health_protocol::{Latency, ProbeFailure};
use rustix::io::Errno;

use super::{
    errno,
    pair::{End, Pair},
    quantile,
    watch::Watch,
};
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

/// Makes the round trips; `None` where there are none to make. Takes half of the remaining time at most, but one
/// measured round trip at least.
pub(super) fn measure(pair: &mut Pair, trips: Trips, watch: &Watch) -> Result<Option<Latency>, ProbeFailure> {
    let Pair { a, b, small } = pair;
    let [from, to] = *small;
    let invalid = || errno(Errno::INVAL);
    let (at_a, at_b) = (
        a.region.remote(to).ok_or_else(invalid)?,
        b.region.remote(to).ok_or_else(invalid)?,
    );
    let stop = AtomicBool::new(false);
    let player = |end, remote| Player {
        end,
        remote,
        from,
        to,
        size: trips.size as usize,
        stop: &stop,
        watch: watch.clone(),
        buffer: PollBuffer::default(),
    };
    let (ping, echo) = (player(a, at_b), player(b, at_a));
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
        (Ok(samples), Ok(())) => Ok(quantile::latency(samples)),
    }
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
    /// Set when either end is done, for whatever reason.
    stop: &'a AtomicBool,
    watch: Watch,
    buffer: PollBuffer,
}

impl Player<'_> {
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
                self.end.reap(&mut self.buffer)?;
                if self.stop.load(Acquire) {
                    // It may have stopped after its last message.
                    return Ok(last.load(Acquire) == mark);
                }
            }
            self.watch.turn()?;
        }
        Ok(true)
    }
}

impl Drop for Player<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Release);
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
