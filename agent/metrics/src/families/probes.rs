//! The last loopback probe of each port.

use rdma_health_node::{
    Node, Port,
    history::{Measured, PortHistory},
    node::Probe,
};
use rdma_health_protocol::{Peer, ProbeFailure};

use crate::table::{Labelled, Samples, table};

table! {
    /// Families of each port whose last probe ran.
    PROBES {"device", "port"}: &Probe;

    Gauge "rdma_probe_success" [""] {}
        "Whether the last probe of a port succeeded."
        => value(|probe| Some(probe.report.failure.is_none()));
    Gauge "rdma_probe_stage_info" [""] {"stage"}
        "Last stage that the last probe of a port reached; done means that it completed."
        => samples(|probe, samples| samples.info([probe.report.stage.name()]));
    Gauge "rdma_probe_failure_info" [""] {"stage", "reason", "vendor_error"}
        "Why the last probe of a port failed: an errno symbol, a completion status, timed_out, no_gid or corrupted."
        => samples(|probe, samples| failure(probe, samples));
    Gauge "rdma_probe_last_timestamp_seconds" ["seconds since 1970"] {}
        "Time at which the last probe of a port ended, in seconds since 1970."
        => value(|probe| Some(probe.time));
    Gauge "rdma_probe_duration_seconds" ["seconds"] {}
        "Duration of the last probe of a port in seconds, including its setup."
        => value(|probe| Some(seconds(probe.report.elapsed_us)));
    Gauge "rdma_probe_bandwidth_bytes_per_second" ["bytes/s"] {}
        "Bandwidth that the last probe of a port measured, in bytes per second."
        => value(|probe| Some(probe.report.bandwidth.as_ref()?.bytes_per_second));
    Gauge "rdma_probe_written_bytes" ["bytes"] {}
        "Number of bytes that the last probe of a port wrote to measure the bandwidth."
        => value(|probe| Some(probe.report.bandwidth.as_ref()?.bytes));
    Gauge "rdma_probe_latency_seconds" ["seconds"] {"statistic"}
        "Latency of small writes that the last probe of a port measured, in seconds; statistic is min, median or p99."
        => samples(|probe, samples| {
            if let Some(latency) = &probe.report.latency {
                samples.add(["min"], latency.min);
                samples.add(["median"], latency.median);
                samples.add(["p99"], latency.p99);
            }
        });
    Gauge "rdma_probe_gid_index" [""] {}
        "Index of the GID that the last probe of a port used."
        => value(|probe| Some(probe.report.gid.as_ref()?.index));
}

table! {
    /// Families of each port whose last probe was skipped.
    SKIPPED {"device", "port"}: &ProbeFailure;

    Gauge "rdma_probe_skipped" [""] {"reason"}
        "Why the last probe of a port was skipped: busy, not_active or no_such_port."
        => samples(|reason, samples| samples.info([reason.kind()]));
}

table! {
    /// Families of each port of which earlier probes are remembered.
    BASELINES {"device", "port"}: Baseline<'_>;

    Gauge "rdma_probe_baseline_bandwidth_bytes_per_second" ["bytes/s"] {}
        "Median bandwidth of the earlier probes of a port at its present rate, in bytes per second: what the last probe is compared with."
        => value(|baseline| baseline.median(|measured| measured.bytes_per_second));
    Gauge "rdma_probe_baseline_latency_seconds" ["seconds"] {}
        "Median of the median latencies of the earlier probes of a port, in seconds."
        => value(|baseline| baseline.median(|measured| measured.latency));
    Gauge "rdma_probe_baseline_measurements" [""] {}
        "Number of earlier probes behind the baseline of a port; with fewer than five, nothing is compared."
        => value(|baseline| Some(baseline.past.median(&Peer::Loopback, baseline.before, |measured| measured.bytes_per_second)?.1));
}

/// What a port measured before.
pub(crate) struct Baseline<'a> {
    past: &'a PortHistory,
    /// The time of the last probe, which is not compared with itself; without one, that of the facts.
    before: u64,
}

impl Baseline<'_> {
    fn median(&self, of: impl Fn(&Measured) -> Option<f64>) -> Option<f64> {
        Some(self.past.median(&Peer::Loopback, self.before, of)?.0)
    }
}

/// The ports with earlier measurements.
pub(crate) fn baselines<'a>(node: &'a Node, ports: &[Labelled<Port<'a>>]) -> Vec<Labelled<Baseline<'a>>> {
    let baseline = |port: &Labelled<Port<'a>>| {
        let (hca, number) = (port.of.hca, port.of.number);
        let of_port = |probe: &&Probe| device(probe) == hca.name && probe.report.path.from.port == number;
        let last = node.loopbacks().find(of_port);
        Some(Labelled {
            labels: port.labels.clone(),
            of: Baseline {
                past: node.history.as_ref()?.port(hca, number)?,
                before: last.map_or(node.time, |probe| probe.time),
            },
        })
    };
    ports.iter().filter_map(baseline).collect()
}

/// The probes that ran.
pub(crate) fn ran(node: &Node) -> Vec<Labelled<&Probe>> {
    let ran = node.loopbacks().filter(|probe| skip(probe).is_none());
    ran.map(|probe| PROBES.labelled(&[device(probe), &port(probe)], probe))
        .collect()
}

/// The reasons of the probes that were skipped.
pub(crate) fn skipped(node: &Node) -> Vec<Labelled<&ProbeFailure>> {
    let labelled = |probe| {
        let reason = skip(probe)?;
        Some(SKIPPED.labelled(&[device(probe), &port(probe)], reason))
    };
    node.loopbacks().filter_map(labelled).collect()
}

fn device(probe: &Probe) -> &str {
    &probe.report.path.from.device
}

fn port(probe: &Probe) -> String {
    probe.report.path.from.port.to_string()
}

/// Why nothing was measured, if that is not a failure.
fn skip(probe: &Probe) -> Option<&ProbeFailure> {
    let failure = probe.report.failure.as_ref();
    failure.filter(|failure| failure.is_not_probed())
}

/// A failure as labels with a bounded number of values: the stage, a word, and the vendor's code of a completion.
fn failure(probe: &Probe, samples: &mut Samples<'_, '_, 3>) {
    let stage = probe.report.stage.name();
    match &probe.report.failure {
        None => {}
        Some(ProbeFailure::Errno { name, .. }) => samples.info([stage, name, ""]),
        Some(ProbeFailure::Completion(completion)) => {
            let vendor_error = format!("{:#x}", completion.vendor_error);
            samples.info([stage, &completion.name, &vendor_error]);
        }
        Some(other) => samples.info([stage, other.kind(), ""]),
    }
}

// Microseconds of a probe are far below 2^53.
#[allow(clippy::cast_precision_loss)]
fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}
