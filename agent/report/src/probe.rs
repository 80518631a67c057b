//! The result of a probe in one line.

use std::io::Write;

use rdma_health_node::{failure::in_words, words};
use rdma_health_protocol::{Bandwidth, ProbeReport, Stage};
use rdma_health_rules::{Severity, Status};

use super::line::{colour, status_colour};

/// Writes the result of one probe, in one line. `capacity` is what the port can carry, in bits per second, and what limits it.
///
/// # Errors
/// If writing fails.
pub fn write(
    out: &mut impl Write,
    report: &ProbeReport,
    capacity: Option<(u64, &str)>,
) -> std::io::Result<()> {
    let port = words::printable(&report.path.to_string());
    if let Some(failure) = &report.failure {
        let paint = colour(Severity::Critical);
        let stage = report.stage.name();
        return writeln!(
            out,
            "{port}  {paint}failed{paint:#} at {stage}: {}",
            words::printable(&in_words(failure))
        );
    }
    debug_assert_eq!(report.stage, Stage::Done);
    let paint = status_colour(Status::Ok);
    write!(out, "{port}  {paint}passed{paint:#}")?;
    if let Some(bandwidth) = &report.bandwidth {
        write!(
            out,
            "  {} ({}{}, {} messages of {} bytes in {})",
            words::bandwidth(bandwidth.bytes_per_second),
            share(bandwidth, capacity),
            words::count_of(u64::from(bandwidth.queue_pairs), "queue pair"),
            bandwidth.bytes / u64::from(bandwidth.message_size.max(1)),
            bandwidth.message_size,
            words::latency(bandwidth.seconds),
        )?;
    }
    if let Some(latency) = &report.latency {
        let (min, median, p99) = (
            words::latency(latency.min),
            words::latency(latency.median),
            words::latency(latency.p99),
        );
        write!(out, "  latency min {min}, median {median}, p99 {p99}")?;
    }
    if let Some(gid) = &report.gid {
        write!(
            out,
            "  GID {} at index {} ({})",
            gid.gid,
            gid.index,
            gid.kind.name()
        )?;
    }
    writeln!(out)
}

/// `98% of 400 Gb/s, `: a bandwidth compared with what the port can carry.
fn share(bandwidth: &Bandwidth, capacity: Option<(u64, &str)>) -> String {
    let Some((capacity, limit)) = capacity.filter(|(capacity, _)| *capacity > 0) else {
        return String::new();
    };
    #[allow(clippy::cast_precision_loss)] // shown in percent
    let percent = bandwidth.bytes_per_second * 800.0 / capacity as f64;
    let by = if limit == "its rate" {
        String::new()
    } else {
        format!(" of {limit}")
    };
    format!("{percent:.0}% of {}{by}, ", words::gigabits(capacity))
}
