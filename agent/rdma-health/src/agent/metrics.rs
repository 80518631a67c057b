//! What is counted of the agent's loop, and the metrics of all its parts.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use prometheus::{GaugeVec, Histogram, HistogramVec, IntCounterVec};
use rdma_health_config as config;
use rdma_health_helper as helper;
use rdma_health_instrument::{Entry, Group, Registry, Reloads, families};
use rdma_health_kubernetes as kubernetes;
use rdma_health_time::since_1970;
use rdma_health_web as web;

families! {
    SCRAPE: Histogram "rdma_health_scrape_seconds" ["seconds"] {}
        "Time to answer a scrape in seconds, including the reads that it waited for.";
    REFRESH: Histogram "rdma_health_refresh_seconds" ["seconds"] {"scope"}
        "Time to read the node in seconds, by scope: all or ports.";
    PROBE_RUNS: Counter "rdma_health_probe_runs_total" [""] {"result"}
        "Number of probes by result: success, failure, skipped, or helper if the helper did not answer.";
    PROBE_INTERVAL: Gauge "rdma_health_probe_interval_seconds" ["seconds"] {}
        "How often each active port is probed, in seconds; absent if probes are disabled.";
    EVENTS: Counter "rdma_health_events_total" [""] {"source"}
        "Number of kernel messages that triggered an early read, by source: uevent, rtnetlink or verbs.";
    STATE_SAVES: Counter "rdma_health_state_saves_total" [""] {"result"}
        "Number of times that the history was saved to the state file, by result: success or failure.";
    STATE_SAVED: Gauge "rdma_health_state_last_save_success_timestamp_seconds" ["seconds since 1970"] {}
        "Time at which the history was last saved to the state file, in seconds since 1970; absent before.";
}

/// From half a millisecond to eight seconds: a reading takes one millisecond on a healthy node.
const BUCKETS: [f64; 8] = [0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25, 1.0, 8.0];

/// Every family that is exported, group by group.
pub(crate) fn catalogue() -> Vec<Group> {
    rdma_health_metrics::catalogue::groups(&counted())
}

/// The families that are counted as things happen, of every part.
fn counted() -> Vec<&'static Entry> {
    [
        ALL,
        web::Metrics::families(),
        helper::Metrics::families(),
        config::metrics::families(),
        kubernetes::Metrics::families(),
    ]
    .concat()
}

/// What is counted as it happens, part by part.
#[derive(Debug)]
pub(super) struct Metrics {
    scrape_seconds: Histogram,
    refresh_seconds: HistogramVec,
    probe_runs: IntCounterVec,
    probe_interval: GaugeVec,
    events: IntCounterVec,
    state_saves: IntCounterVec,
    state_saved: GaugeVec,
    pub(super) web: Arc<web::Metrics>,
    pub(super) helper: helper::Metrics,
    pub(super) config: Reloads,
    pub(super) kubernetes: Arc<kubernetes::Metrics>,
}

/// What came of an attempt to probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeRun {
    /// It worked.
    Success,
    /// It failed.
    Failure,
    /// The port was busy, not active or gone.
    Skipped,
    /// The helper did not answer.
    Helper,
}

impl ProbeRun {
    const ALL: [Self; 4] = [Self::Success, Self::Failure, Self::Skipped, Self::Helper];

    fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Skipped => "skipped",
            Self::Helper => "helper",
        }
    }
}

impl Metrics {
    /// Registers them, and those of every part.
    pub(super) fn new(registry: &Registry) -> Self {
        let metrics = Self {
            scrape_seconds: SCRAPE.histogram(registry, &BUCKETS),
            refresh_seconds: REFRESH.histograms(registry, &BUCKETS),
            probe_runs: PROBE_RUNS.counters(registry),
            probe_interval: PROBE_INTERVAL.gauges(registry),
            events: EVENTS.counters(registry),
            state_saves: STATE_SAVES.counters(registry),
            state_saved: STATE_SAVED.gauges(registry),
            web: Arc::new(web::Metrics::new(registry)),
            helper: helper::Metrics::new(registry),
            config: config::metrics::reloads(registry),
            kubernetes: Arc::new(kubernetes::Metrics::new(registry)),
        };
        // Series that exist from the start: an increase from nothing is none to Prometheus.
        metrics.web.count_from_zero("/metrics", 200);
        for scope in ["all", "ports"] {
            metrics.refresh_seconds.with_label_values(&[scope]);
        }
        for run in ProbeRun::ALL {
            metrics.probe_runs.with_label_values(&[run.name()]);
        }
        for source in ["uevent", "rtnetlink", "verbs"] {
            metrics.events.with_label_values(&[source]);
        }
        metrics
    }

    /// A scrape was answered.
    pub(super) fn scraped(&self, took: Duration) {
        self.scrape_seconds.observe(took.as_secs_f64());
    }

    /// The node was read: all of it, or only its ports.
    pub(super) fn refreshed(&self, everything: bool, took: Duration) {
        let scope = if everything { "all" } else { "ports" };
        self.refresh_seconds
            .with_label_values(&[scope])
            .observe(took.as_secs_f64());
    }

    /// Probes are enabled, at this interval, or disabled.
    pub(super) fn probes_every(&self, interval: Option<Duration>) {
        match interval {
            Some(interval) => self
                .probe_interval
                .with_label_values::<&str>(&[])
                .set(interval.as_secs_f64()),
            None => self.probe_interval.reset(),
        }
    }

    /// A probe was tried.
    pub(super) fn probe_ran(&self, result: ProbeRun) {
        self.probe_runs.with_label_values(&[result.name()]).inc();
    }

    /// The history is kept in a file: counts from zero.
    pub(super) fn keeps_state(&self) {
        for result in ["success", "failure"] {
            self.state_saves.with_label_values(&[result]);
        }
    }

    /// The history was saved, or could not be saved.
    pub(super) fn state_saved(&self, ok: bool) {
        let result = if ok { "success" } else { "failure" };
        self.state_saves.with_label_values(&[result]).inc();
        if ok {
            let now = since_1970(SystemTime::now()).as_secs_f64();
            self.state_saved.with_label_values::<&str>(&[]).set(now);
        }
    }

    /// A message led to a reading before its time.
    pub(super) fn event(&self, source: &'static str) {
        self.events.with_label_values(&[source]).inc();
    }
}

#[cfg(test)]
mod tests;
