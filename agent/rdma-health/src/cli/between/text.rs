//! The rails between two nodes as text: one line for each, and under it what is wrong.

use std::io::Write;

use rdma_health_node::words::{self, count, printable};
use rdma_health_peer::{Direction, EndResult, Measurement, PortOffer, RailResult, Verdict};
use rdma_health_protocol::{Latency, ProbeReport};
use rdma_health_report::status_colour;
use rdma_health_rules::Status;

/// Writes all rails, and a line that sums them up.
pub(super) fn write(
    out: &mut impl Write,
    measurement: &Measurement,
    verdict: &Verdict,
) -> std::io::Result<()> {
    let Measurement { here, there, .. } = measurement;
    let summary = format!(
        "{here} and {there}: {}, {} without a fault",
        count(measurement.rails.len(), "rail"),
        verdict
            .rails
            .iter()
            .filter(|rail| rail.status == Status::Ok)
            .count()
    );
    let paint = status_colour(verdict.status);
    writeln!(
        out,
        "{paint}{:<8}{paint:#} {}",
        verdict.status.name().to_uppercase(),
        printable(&summary)
    )?;
    for (rail, judged) in measurement.rails.iter().zip(&verdict.rails) {
        let paint = status_colour(judged.status);
        let word = match judged.status {
            Status::Ok => "ok",
            Status::Warning => "slow",
            Status::Critical => "failed",
            Status::Unknown => "not measured",
        };
        let ports = format!("{} → {}", rail.here.port, rail.there.port);
        writeln!(
            out,
            "{}  {paint}{word}{paint:#}  {}",
            printable(&ports),
            printable(&figures(rail).join(", "))
        )?;
        for message in &judged.messages {
            writeln!(out, "  {}", printable(message))?;
        }
    }
    let alone = [
        (&measurement.only_here, here, there),
        (&measurement.only_there, there, here),
    ];
    for (ports, node, other) in alone {
        for port in ports {
            let paint = status_colour(Status::Unknown);
            let line = format!("{other} has no counterpart for it ({})", reach(port));
            writeln!(
                out,
                "{}  {paint}not measured{paint:#}  {}",
                printable(&format!("{} of {node}", port.port)),
                printable(&line)
            )?;
        }
    }
    Ok(())
}

fn reach(port: &PortOffer) -> String {
    let mut reach = vec![port.link_layer.name().to_owned()];
    reach.extend(port.subnets.iter().cloned());
    reach.join(", ")
}

/// What was measured on a rail, and what it was measured with.
fn figures(rail: &RailResult) -> Vec<String> {
    let passed = |direction: &Option<Direction>| -> Option<ProbeReport> {
        let writer = match &direction.as_ref()?.writer {
            EndResult::Report(report) => report,
            EndResult::Error(_) | EndResult::NotRun => return None,
        };
        writer.failure.is_none().then(|| (**writer).clone())
    };
    let (out, back) = (passed(&rail.out), passed(&rail.back));
    let mut figures = Vec::new();
    for (name, report) in [("out", &out), ("in", &back)] {
        let measured = report.as_ref().and_then(|report| report.bandwidth.as_ref());
        figures.extend(
            measured.map(|measured| format!("{name} {}", words::bandwidth(measured.bytes_per_second))),
        );
    }
    let latency = [&out, &back]
        .into_iter()
        .find_map(|report| report.as_ref()?.latency.as_ref());
    figures.extend(latency.map(|latency: &Latency| {
        format!(
            "latency {} (p99 {})",
            words::latency(latency.median),
            words::latency(latency.p99)
        )
    }));
    let rates = [rail.here.rate, rail.there.rate].into_iter().flatten();
    figures.extend(rates.min().map(|rate| format!("link {}", words::gigabits(rate))));
    figures.push(words::count_of(u64::from(rail.queue_pairs), "queue pair"));
    figures.push(rail.matched_by.to_string());
    figures
}
