//! The clock of the node as evidence, not truth: it may be years ahead or behind until something sets it.
//!
//! Within one boot, the kernel counts seconds that no one can set (`/proc/uptime`). So a step of the clock shows as another
//! time of boot, and what was recorded in this boot moves with it. What an earlier boot recorded with a wrong clock cannot be
//! corrected: it is ignored while it is in the future, and dropped once the clock is trusted.

use serde::{Deserialize, Serialize};

use super::{History, PortHistory};
use rdma_health_kernel::Facts;

/// A step of the clock by less than this, in seconds, does not matter to any rule.
const TOLERANCE: u64 = 60;
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

impl History {
    /// Moves what was recorded in this boot if the clock, now `now` seconds after 1970, was set since. Returns whether the clock is trusted: only then may
    /// its time decide what is forgotten.
    pub fn align(&mut self, node: &Facts, now: u64) -> bool {
        let (Some(boot), Some(uptime)) = (node.host.boot_id.known(), node.host.uptime.known().copied())
        else {
            return true;
        };
        // The uptime in a captured tree does not belong to this clock.
        if !node.live {
            return true;
        }
        // The uptime was read with the host, which may be older than the other facts.
        let host = node.sources.get("host").and_then(|status| status.time);
        let read = now.saturating_sub(host.map_or(0, |host| node.time.saturating_sub(host)));
        let booted = signed(read) - signed(uptime);
        let before = self.clock.take().filter(|clock| clock.boot == super::short(boot));
        let mut set = before.as_ref().map_or(0, |clock| clock.set);
        if let Some(clock) = before {
            let step = booted - clock.booted;
            if step.unsigned_abs() > TOLERANCE {
                set = uptime;
                let recorded = clock.booted..=signed(clock.read.saturating_add(TOLERANCE));
                self.times(|time| {
                    if recorded.contains(&signed(*time)) {
                        *time = time.saturating_add_signed(step);
                    }
                });
            }
        }
        self.clock = Some(Clock {
            boot: super::short(boot).to_owned(),
            booted,
            read,
            set,
        });
        uptime.saturating_sub(set) >= TRUSTED_AFTER
    }

    /// Drops what is in the future. A device that was last seen then may have been gone for any time.
    pub fn drop_future(&mut self, now: u64) {
        let latest = now.saturating_add(TOLERANCE);
        for port in self.ports.values_mut() {
            port.downs.retain(|time| *time <= latest);
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
            port.downs.iter_mut().for_each(&mut change);
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
