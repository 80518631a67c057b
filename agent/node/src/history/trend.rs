//! What a port did during the last day, in few points, for people to look at. No rule reads it.

use rdma_health_kernel::infiniband::{Counter, Port};
use serde::{Deserialize, Serialize};

use super::record::COUNTERS;

/// Seconds that one point covers.
pub const SPACING: u64 = 600;
/// Maximum number of points: one day.
pub const MAX_POINTS: usize = 144;
/// Two readings with more seconds between them are not compared: the agent did not run between them.
const MAX_GAP: u64 = 2 * SPACING;
/// Seconds from the first to the last point that is kept.
const SPAN: u64 = SPACING * MAX_POINTS as u64;

/// What a port did during the last day, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The points; a time for which there is none was not observed.
    pub points: Vec<Point>,
    /// The counters at the last reading of this boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<Counts>,
}

/// What a port did during [`SPACING`] seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its beginning, in seconds since 1970.
    pub time: u64,
    /// Seconds between the readings that `bytes` was counted in.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seconds: u64,
    /// Bytes in the busier direction; `None` if the counters could not be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Rise of the error counters; `None` if they could not be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// The lowest bandwidth that a probe of the port measured, in bytes per second; `None` without a probe that passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<f64>,
    /// Whether a probe failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub probe_failed: bool,
    /// Whether the port was seen inactive.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub down: bool,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The outcome of a probe of the port by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probed {
    /// When it ended, in seconds since 1970.
    pub time: u64,
    /// Bytes per second; `None` if it failed.
    pub bytes_per_second: Option<f64>,
}

/// The counters at one reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    time: u64,
    /// Received and transmitted.
    bytes: Option<[u64; 2]>,
    errors: Option<u64>,
}

impl Point {
    /// Mean bytes per second in the busier direction.
    #[allow(clippy::cast_precision_loss)] // a drawing needs no 53 bits
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.seconds > 0).then_some(self.bytes? as f64 / self.seconds as f64)
    }
}

impl Trend {
    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Adds what the port shows at `now`, in seconds since 1970.
    pub(super) fn see(&mut self, port: &Port, probed: Option<Probed>, now: u64) {
        let counts = Counts::of(port, now);
        let before = self
            .last
            .replace(counts)
            .filter(|before| (1..=MAX_GAP).contains(&now.saturating_sub(before.time)));
        let start = now - now % SPACING;
        // Points of the future were recorded with a wrong clock.
        self.points
            .retain(|point| point.time <= now && now - point.time < SPAN);
        if self.points.last().is_none_or(|last| last.time < start) {
            self.points.push(Point {
                time: start,
                ..Point::default()
            });
            let surplus = self.points.len().saturating_sub(MAX_POINTS);
            self.points.drain(..surplus);
        }
        let Some(point) = self.points.last_mut() else {
            return;
        };
        if let Some(before) = before {
            if let Some(bytes) = counts.bytes_since(&before) {
                point.bytes = Some(point.bytes.unwrap_or(0).saturating_add(bytes));
                point.seconds = point.seconds.saturating_add(now - before.time);
            }
            if let Some(errors) = counts.errors_since(&before) {
                point.errors = Some(point.errors.unwrap_or(0).saturating_add(errors));
            }
        }
        if let Some(probed) = probed.filter(|probed| probed.time >= point.time && probed.time <= now) {
            match probed.bytes_per_second {
                Some(rate) => point.probe = Some(point.probe.map_or(rate, |lowest| lowest.min(rate))),
                None => point.probe_failed = true,
            }
        }
        point.down |= port.is_active() == Some(false);
    }

    /// Forgets the counters, which began again.
    pub(super) fn rebooted(&mut self) {
        self.last = None;
    }

    /// Applies `change` to every time.
    pub(super) fn times(&mut self, mut change: impl FnMut(&mut u64)) {
        self.points.iter_mut().for_each(|point| change(&mut point.time));
        self.last.iter_mut().for_each(|counts| change(&mut counts.time));
    }

    /// Whether it keeps the limits of [`Trend::see`], as far as a file can exceed them.
    pub(super) fn is_within_limits(&self) -> bool {
        let numbers = self.points.iter().filter_map(|point| point.probe);
        self.points.len() <= MAX_POINTS && numbers.clone().all(f64::is_finite)
    }
}

impl Counts {
    fn of(port: &Port, time: u64) -> Self {
        let find = |counters: &[Counter], name: &str| {
            let counter = counters.iter().find(|counter| &*counter.name == name)?;
            counter.value.known().copied()
        };
        // The kernel counts words of four bytes; EFA has counters of its own.
        let words = ["port_rcv_data", "port_xmit_data"].map(|name| {
            let words = find(&port.counters, name)?;
            Some(words.wrapping_mul(4))
        });
        let own = ["rx_bytes", "tx_bytes"].map(|name| find(&port.hw_counters, name));
        let both = |pair: [Option<u64>; 2]| Some([pair[0]?, pair[1]?]);
        let errors = port.counters.iter().chain(&port.hw_counters);
        let errors = errors
            .filter(|counter| COUNTERS.contains(&&*counter.name))
            .filter_map(|counter| counter.value.known().copied());
        Self {
            time,
            bytes: both(words).or_else(|| both(own)),
            errors: errors.reduce(u64::saturating_add),
        }
    }

    /// The rise in the busier direction; `None` if a counter was reset.
    fn bytes_since(&self, before: &Self) -> Option<u64> {
        let ([received, sent], [received_before, sent_before]) = (self.bytes?, before.bytes?);
        let rises = [
            received.checked_sub(received_before)?,
            sent.checked_sub(sent_before)?,
        ];
        rises.into_iter().max()
    }

    fn errors_since(&self, before: &Self) -> Option<u64> {
        self.errors?.checked_sub(before.errors?)
    }
}

#[cfg(test)]
mod tests {
    use rdma_health_kernel::{Fact, infiniband::PortCode};

    use super::*;

    fn port(words: u64, errors: u64, is_active: bool) -> Port {
        let counter = |name: &str, value| Counter {
            name: name.into(),
            value: Fact::Known(value),
        };
        let (code, name) = if is_active { (4, "ACTIVE") } else { (1, "DOWN") };
        Port {
            link_layer: Fact::Absent,
            phys_state: Fact::Absent,
            rate: Fact::Absent,
            lid: Fact::Absent,
            sm_lid: Fact::Absent,
            netdev: Fact::Absent,
            hw_counters: Vec::new(),
            gids: Fact::Absent,
            partition_keys: Fact::Absent,
            state: Fact::Known(PortCode {
                code,
                name: name.into(),
            }),
            counters: vec![
                counter("port_rcv_data", words),
                counter("port_xmit_data", words * 2),
                counter("symbol_error", errors),
            ],
        }
    }

    #[test]
    fn a_point_has_the_mean_of_the_busier_direction_and_the_rise_of_errors() {
        let mut trend = Trend::default();
        for (n, time) in (600_000..600_600).step_by(60).enumerate() {
            let n = n as u64;
            trend.see(&port(1000 * n, 3 * n, n != 4), None, time);
        }
        let [point] = trend.points.as_slice() else {
            panic!("{trend:?}")
        };
        assert_eq!(point.bytes_per_second(), Some(1000.0 * 2.0 * 4.0 / 60.0));
        assert_eq!(point.errors, Some(27));
        assert!(point.down, "it was down for one reading");
    }

    #[test]
    fn what_cannot_be_compared_is_not_a_zero() {
        let mut trend = Trend::default();
        trend.see(&port(1000, 5, true), None, 600_000);
        assert_eq!(trend.points[0].bytes_per_second(), None, "the first reading");
        trend.see(&port(10, 0, true), None, 600_060);
        assert_eq!(trend.points[0].bytes_per_second(), None, "a reset");
        assert_eq!(trend.points[0].errors, None);
        trend.see(&port(1_000_000, 0, true), None, 700_000);
        let last = trend.points.last().unwrap();
        assert_eq!((last.bytes, last.errors), (None, None), "a gap of a day");
    }

    #[test]
    #[allow(clippy::cast_precision_loss)] // the times are small
    fn a_day_of_points_is_kept_and_the_lowest_probe_of_each() {
        let mut trend = Trend::default();
        for time in (0..400_000).step_by(60) {
            let probed = Probed {
                time,
                bytes_per_second: (time % 1800 != 0).then_some(1e9 + time as f64),
            };
            trend.see(&port(time, 0, true), Some(probed), time);
        }
        assert_eq!(trend.points.len(), MAX_POINTS);
        let last = trend.points.last().unwrap();
        assert_eq!(last.time % SPACING, 0);
        // The first probe of that point failed.
        assert_eq!(
            (last.probe_failed, last.probe),
            (true, Some(1e9 + (last.time + 60) as f64))
        );
        assert!(trend.points.iter().any(|point| point.probe_failed));
        // The clock was set back.
        trend.see(&port(0, 0, true), None, 1200);
        assert_eq!(trend.points.len(), 1, "{trend:?}");
    }
}
