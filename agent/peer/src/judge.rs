//! The verdict on each rail: whether it works in both directions, and whether it is as fast as its ports and its equals.

use rdma_health_node::{
    failure::in_words,
    words::{bandwidth, count_of, gigabits, latency},
};
use rdma_health_protocol::{Errno, Latency, ProbeFailure, ProbeReport, Stage, WcStatus, queue_pairs_for};
use rdma_health_rules::Status;
use serde::Serialize;

use crate::measured::{Direction, EndResult, Measurement, RailResult};

/// A software device shares the CPU with everything else: only less than this share of the best equal rail is slow, in percent.
const SOFTWARE_PERCENT: f64 = 50.0;
/// A latency is high from this many times the lowest of the equal rails on, if it is also [`HIGHER`] by this many seconds.
const TIMES_HIGHER: f64 = 3.0;
const HIGHER: f64 = 10e-6;
/// The highest median latency of a network within one site, in seconds; of adapters, and of software devices.
const SITE_LATENCY: f64 = 1e-3;
const SOFTWARE_SITE_LATENCY: f64 = 5e-3;
/// A round trip of which a packet was lost takes at least the time to an acknowledgement (67 ms, `ibv_qp_attr.timeout` 14). Half of that,
/// less a tenth, in seconds.
const RETRANSMITTED: f64 = 0.030;

/// Shares in percent below which a bandwidth is low.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of what ports and PCIe links allow.
    pub percent_of_capacity: u32,
    /// Of the best equal rail.
    pub percent_of_equals: u32,
}

/// The verdict on one rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RailVerdict {
    /// Its status.
    pub status: Status,
    /// What is wrong, or could not be judged.
    pub messages: Vec<String>,
}

/// The verdict on all rails between two nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The worst of all; critical before warning before unknown.
    pub status: Status,
    /// For each rail, in order.
    pub rails: Vec<RailVerdict>,
}

/// Judges all rails. A port that could not be measured because it has no counterpart makes an otherwise good result unknown.
pub fn judge(measurement: &Measurement, limits: Limits) -> Verdict {
    let rails: Vec<_> = measurement
        .rails
        .iter()
        .map(|rail| of_rail(rail, measurement, limits))
        .collect();
    let not_measured = measurement.only_here.len() + measurement.only_there.len() > 0 || rails.is_empty();
    let own = if not_measured { Status::Unknown } else { Status::Ok };
    let worst = rails.iter().map(|rail| rail.status).fold(own, worse);
    Verdict { status: worst, rails }
}

fn worse(a: Status, b: Status) -> Status {
    let rank = |status| match status {
        Status::Ok => 0,
        Status::Unknown => 1,
        Status::Warning => 2,
        Status::Critical => 3,
    };
    if rank(a) >= rank(b) { a } else { b }
}

/// One direction of a rail, with names for messages.
struct Way<'a> {
    rail: &'a RailResult,
    from: &'a str,
    to: &'a str,
    direction: &'a Direction,
    /// The same direction of another rail.
    of: fn(&RailResult) -> Option<&Direction>,
}

fn out(rail: &RailResult) -> Option<&Direction> {
    rail.out.as_ref()
}

fn back(rail: &RailResult) -> Option<&Direction> {
    rail.back.as_ref()
}

fn of_rail(rail: &RailResult, all: &Measurement, limits: Limits) -> RailVerdict {
    let ways = [
        (
            &rail.out,
            &all.here,
            &all.there,
            out as fn(&RailResult) -> Option<&Direction>,
        ),
        (&rail.back, &all.there, &all.here, back),
    ];
    let ways = ways.into_iter().filter_map(|(direction, from, to, of)| {
        Some(Way {
            rail,
            from,
            to,
            direction: direction.as_ref()?,
            of,
        })
    });
    let mut verdict = RailVerdict {
        status: Status::Ok,
        messages: Vec::new(),
    };
    for way in ways {
        let (status, messages) = match way.failed() {
            Some((status, message)) => (status, vec![message]),
            None => way.slow(all, limits),
        };
        verdict.status = worse(verdict.status, status);
        for message in messages {
            if !verdict.messages.contains(&message) {
                verdict.messages.push(message);
            }
        }
    }
    if rail.out.is_none() && rail.back.is_none() {
        verdict.status = worse(verdict.status, Status::Unknown);
        verdict.messages.push("not measured".into());
    }
    verdict
}

impl Way<'_> {
    /// Why the direction was not measured, if so.
    fn failed(&self) -> Option<(Status, String)> {
        let Direction { writer, responder } = self.direction;
        let ends = [(writer, self.from), (responder, self.to)];
        for (end, node) in ends {
            if let EndResult::Error(error) = end {
                return Some((Status::Unknown, format!("not measured: {node}: {error}")));
            }
        }
        let failures: Vec<_> = ends
            .into_iter()
            .filter_map(|(end, node)| {
                let report = end.report()?;
                Some((report, report.failure.as_ref()?, node))
            })
            .collect();
        let idle = failures.iter().find(|(_, failure, _)| failure.is_not_probed());
        if let Some((report, failure, node)) = idle {
            let message = format!(
                "not measured: {} of {node}: {}",
                report.path.from,
                in_words(failure)
            );
            return Some((Status::Unknown, message));
        }
        // A completion names the cause; that the other end then waited in vain does not.
        let (report, failure, node) = failures
            .iter()
            .find(|(_, failure, _)| matches!(failure, ProbeFailure::Completion(_)))
            .or(failures.first())?;
        let at = format!(
            "{} of {node} failed at {}: {}",
            report.path.from,
            report.stage.name(),
            in_words(failure)
        );
        let arrived = failures.iter().find_map(|(_, failure, _)| match failure {
            ProbeFailure::Silent { arrived } => Some(*arrived),
            _ => None,
        });
        let why = self.why(report, failure, arrived);
        Some((
            Status::Critical,
            if why.is_empty() {
                at
            } else {
                format!("{at}; {why}")
            },
        ))
    }

    /// What a failure means, as far as both ends show it.
    fn why(&self, report: &ProbeReport, failure: &ProbeFailure, arrived: Option<u64>) -> String {
        let Self { from, to, .. } = self;
        let lost = failure.status() == Some(WcStatus::RetryExcErr)
            || matches!(failure, ProbeFailure::TimedOut | ProbeFailure::Silent { .. });
        let check = "check routes, firewalls (RoCE v2 is UDP port 4791) and the switches between them";
        match (report.stage, failure.errno(), arrived) {
            (Stage::Write | Stage::Poll | Stage::Verify, _, Some(0)) if lost => format!(
                "the control connection works and both queue pairs are connected, but no RDMA packet from {from} arrives at {to}: {check}"
            ),
            (Stage::Write | Stage::Poll | Stage::Verify, _, Some(arrived)) if lost => format!(
                "the control connection works and RDMA packets from {from} arrive at {to} ({arrived} bytes), but the acknowledgements \
                 from {to} do not arrive at {from}: {check}"
            ),
            (Stage::Write | Stage::Poll | Stage::Verify, _, None) if lost => {
                format!("the first packets arrived, later ones were lost: {check}")
            }
            (Stage::Rtr, Some(Errno::ETIMEDOUT), _) => {
                "the address of the other port does not resolve: check the link, VLAN and ARP (ip neigh)".into()
            }
            (Stage::Rtr, Some(Errno::ENETUNREACH | Errno::EHOSTUNREACH), _) => {
                "no route leads to the address of the other port: check its subnet (ip route get)".into()
            }
            (Stage::Rtr, Some(Errno::EPROTONOSUPPORT), _) => {
                "the types of the two GIDs differ (RoCE v1 and v2): check the GID tables (show_gids), or choose one with --gid-index".into()
            }
            _ => String::new(),
        }
    }

    /// What is slow in this direction, and what could not be judged.
    fn slow(&self, all: &Measurement, limits: Limits) -> (Status, Vec<String>) {
        let Some(report) = self.direction.writer.report() else {
            return (Status::Unknown, vec!["not measured".into()]);
        };
        let mut warnings = Vec::new();
        let mut notes = Vec::new();
        if let Some(measured) = &report.bandwidth {
            match self.below_capacity(measured.bytes_per_second * 8.0, measured.queue_pairs, limits) {
                Capacity::Low(message) => warnings.push(message),
                Capacity::NotJudged(message) => notes.push(message),
                Capacity::Fine => {}
            }
            warnings.extend(self.below_equals(measured.bytes_per_second, all, limits));
        }
        if let Some(measured) = &report.latency {
            warnings.extend(self.high_latency(measured, all));
        }
        let status = if warnings.is_empty() {
            Status::Ok
        } else {
            Status::Warning
        };
        warnings.extend(notes);
        (status, warnings)
    }

    fn is_software(&self) -> bool {
        self.rail.here.software || self.rail.there.software
    }

    fn below_capacity(&self, bits: f64, queue_pairs: u32, limits: Limits) -> Capacity {
        let least = [&self.rail.here, &self.rail.there]
            .into_iter()
            .filter_map(|port| Some((port.capacity?, port)))
            .min_by_key(|(capacity, _)| *capacity);
        let Some((capacity, port)) = least.filter(|_| !self.is_software()) else {
            return Capacity::Fine;
        };
        #[allow(clippy::cast_precision_loss)] // compared to a few percent
        let possible = capacity as f64;
        if bits >= possible * f64::from(limits.percent_of_capacity) / 100.0 {
            return Capacity::Fine;
        }
        let needed = queue_pairs_for(capacity);
        if queue_pairs < needed {
            return Capacity::NotJudged(format!(
                "not compared with {} ({} of {}): used {}, needs {needed} (--queue-pairs {needed})",
                gigabits(capacity),
                port.limited_by,
                port.port,
                count_of(u64::from(queue_pairs), "queue pair")
            ));
        }
        Capacity::Low(format!(
            "{} from {} to {} is {:.0}% of {} ({} of {})",
            bandwidth(bits / 8.0),
            self.from,
            self.to,
            bits / possible * 100.0,
            gigabits(capacity),
            port.limited_by,
            port.port
        ))
    }

    /// What the same direction of the equal rails reported: those with ports of the same rates.
    fn equals<'b>(&self, all: &'b Measurement) -> impl Iterator<Item = (&'b RailResult, &'b ProbeReport)> {
        let (rail, of) = (self.rail, self.of);
        all.rails
            .iter()
            .filter(move |other| {
                !std::ptr::eq(*other, rail)
                    && other.here.rate == rail.here.rate
                    && other.there.rate == rail.there.rate
            })
            .filter_map(move |other| Some((other, of(other)?.writer.report()?)))
    }

    fn below_equals(&self, bytes: f64, all: &Measurement, limits: Limits) -> Option<String> {
        let equals = self.equals(all);
        let (best, rail) = equals
            .filter_map(|(rail, report)| Some((report.bandwidth.as_ref()?.bytes_per_second, rail)))
            .max_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let percent = if self.is_software() {
            SOFTWARE_PERCENT
        } else {
            f64::from(limits.percent_of_equals)
        };
        (bytes < best * percent / 100.0).then(|| {
            format!(
                "{} from {} to {} is {:.0}% of {} on the equal rail of {}",
                bandwidth(bytes),
                self.from,
                self.to,
                bytes / best * 100.0,
                bandwidth(best),
                rail.here.port
            )
        })
    }

    fn high_latency(&self, measured: &Latency, all: &Measurement) -> Vec<String> {
        let mut found = Vec::new();
        let between = format!("between {} and {}", all.here, all.there);
        let lowest = self
            .equals(all)
            .filter_map(|(rail, report)| Some((report.latency.as_ref()?.median, rail)))
            .min_by(|(a, _), (b, _)| a.total_cmp(b));
        let site = if self.is_software() {
            SOFTWARE_SITE_LATENCY
        } else {
            SITE_LATENCY
        };
        let higher = lowest.filter(|(lowest, _)| {
            measured.median > lowest * TIMES_HIGHER && measured.median > lowest + HIGHER
        });
        if let Some((lowest, rail)) = higher {
            found.push(format!(
                "the latency {between} is {}, that of the equal rail of {} is {}",
                latency(measured.median),
                rail.here.port,
                latency(lowest)
            ));
        } else if measured.median > site {
            found.push(format!(
                "the latency {between} is {}; within one site it is below {}",
                latency(measured.median),
                latency(site)
            ));
        }
        if measured.p99 >= RETRANSMITTED && measured.median < measured.p99 / 10.0 {
            found.push(format!(
                "packets between {} and {} are lost: the latency is {}, but 1 of 100 small writes took {}, the time to a retransmission",
                all.here,
                all.there,
                latency(measured.median),
                latency(measured.p99)
            ));
        }
        found
    }
}

/// A bandwidth compared with what the hardware allows.
enum Capacity {
    Fine,
    Low(String),
    NotJudged(String),
}

#[cfg(test)]
mod tests;
