//! The clock of the node as evidence, not truth: it may be years ahead or behind until something sets it.
//!
//! Within one boot, the kernel counts seconds that no one can set (`/proc/uptime`). So a step of the clock shows as another
//! time of boot, and what was recorded in this boot moves with it, before the node is judged again: ages stay as they are. What an earlier
//! boot recorded keeps its times. If its clock was wrong, they cannot be corrected: they are ignored while they are in the future, and
//! dropped once the clock is trusted.
//!
//! The uptime in a captured tree does not belong to this clock. There, only a step back shows, as a reading before the last one.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{History, PortHistory, since::EARLIEST};
use rdma_health_kernel::Facts;

/// A step of the clock by less than this, in seconds, does not matter to any rule.
pub(super) const TOLERANCE: u64 = 60;
/// A clock is trusted if it was not set for this time, in seconds of uptime: a node without a battery sets it soon after boot.
const TRUSTED_AFTER: u64 = 3600;

/// The clock at the last reading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The kernel's id of the boot.
    pub boot: String,
    /// When that boot was, by the clock: seconds since 1970, negative if the clock is behind.
    pub booted: i64,
    /// The time of the last reading by the clock, in seconds since 1970.
    pub read: u64,
    /// Uptime in seconds when the clock was last set, as far as known.
    pub set: u64,
}

/// A step of the clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// By how many seconds it was set.
    by: i64,
    /// The times at which something was recorded in this boot before.
    recorded: RangeInclusive<i64>,
}

impl Step {
    /// Moves a time that was recorded in this boot before the step.
    pub fn apply(&self, time: &mut u64) {
        if self.recorded.contains(&signed(*time)) {
            *time = time.saturating_add_signed(self.by);
        }
    }
}

/// A reading of the clock, and the seconds that the kernel counted since boot.
struct Look {
    clock: Clock,
    uptime: u64,
    step: Option<Step>,
}

impl History {
    /// The step of the clock, now `now` seconds after 1970, since the last reading.
    pub fn step(&self, node: &Facts, now: u64) -> Option<Step> {
        self.look(node, now)?.step
    }

    /// Moves what was recorded in this boot if the clock, now `now` seconds after 1970, was set since. Returns whether the clock is trusted: only then may
    /// its time decide what is forgotten.
    pub fn align(&mut self, node: &Facts, now: u64) -> bool {
        let Some(Look { clock, uptime, step }) = self.look(node, now) else {
            return true;
        };
        if let Some(step) = step {
            self.times(|time| step.apply(time));
        }
        let is_set = uptime.saturating_sub(clock.set) >= TRUSTED_AFTER;
        self.clock = Some(clock);
        is_set && now >= EARLIEST
    }

    /// `None` if it is not known which boot this is, or how long ago it was.
    fn look(&self, node: &Facts, now: u64) -> Option<Look> {
        let boot = super::short(node.host.boot_id.known()?);
        let before = self.clock.as_ref().filter(|clock| clock.boot == boot);
        let (read, uptime) = if node.live {
            // The uptime was read with the host, which may be older than the other facts.
            let host = node.sources.get("host").and_then(|status| status.time);
            let read = now.saturating_sub(host.map_or(0, |host| node.time.saturating_sub(host)));
            (read, *node.host.uptime.known()?)
        } else {
            let (first, last) = before.map_or((signed(now), now), |clock| (clock.booted, clock.read));
            let latest = if now.saturating_add(TOLERANCE) < last {
                last
            } else {
                now
            };
            let since = signed(latest).saturating_sub(first);
            (now, u64::try_from(since).unwrap_or(0))
        };
        let booted = signed(read).saturating_sub(signed(uptime));
        let step = before.and_then(|clock| {
            let by = booted.saturating_sub(clock.booted);
            (by.unsigned_abs() > TOLERANCE).then(|| Step {
                by,
                recorded: clock.booted..=signed(clock.read.saturating_add(TOLERANCE)),
            })
        });
        let set = match &step {
            Some(_) => uptime,
            None => before.map_or(0, |clock| clock.set),
        };
        let clock = Clock {
            boot: boot.to_owned(),
            booted,
            read,
            set,
        };
        Some(Look { clock, uptime, step })
    }

    /// Drops what is in the future. A device that was last seen then may have been gone for any time.
    pub fn drop_future(&mut self, now: u64) {
        let latest = now.saturating_add(TOLERANCE);
        for port in self.ports.values_mut() {
            port.all_downs()
                .for_each(|downs| downs.retain(|time| *time <= latest));
            port.measured.retain(|measured| measured.time <= latest);
            port.counters.samples.retain(|sample| sample.time <= latest);
            port.trend.points.retain(|point| point.time <= latest);
        }
        for series in self.functions.values_mut() {
            series.samples.retain(|sample| sample.time <= latest);
        }
        for boot in &mut self.boots {
            boot.hcas.retain(|_, seen| seen.last <= latest);
        }
        self.times(|time| *time = (*time).min(now));
    }

    /// Applies `change` to every time.
    fn times(&mut self, mut change: impl FnMut(&mut u64)) {
        if let Some(observed) = &mut self.observed {
            observed.times(&mut change);
        }
        for boot in &mut self.boots {
            change(&mut boot.first);
            change(&mut boot.last);
            boot.hcas.values_mut().for_each(|seen| change(&mut seen.last));
        }
        for port in self.ports.values_mut() {
            change(&mut port.last);
            port.all_downs().flatten().for_each(&mut change);
            port.trend.times(&mut change);
            port.links.values_mut().for_each(|link| change(&mut link.broken));
            port.measured
                .iter_mut()
                .for_each(|measured| change(&mut measured.time));
        }
        let ports = self.ports.values_mut().map(|port| &mut port.counters);
        let samples = ports.chain(self.functions.values_mut());
        samples
            .flat_map(|series| &mut series.samples)
            .for_each(|sample| change(&mut sample.time));
        self.ports.values_mut().for_each(PortHistory::sort);
        self.changes.times(change);
    }
}

fn signed(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
