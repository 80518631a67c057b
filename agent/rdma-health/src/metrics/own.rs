//! Metrics of the agent itself that are counted as things happen.

use std::time::{Duration, SystemTime};

use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    Opts, Registry, TextEncoder, core::Collector,
};

use super::catalogue::{Family, own};
use crate::kubernetes::Permission;

/// From half a millisecond to eight seconds: a reading takes one millisecond on a healthy node.
const BUCKETS: [f64; 8] = [0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25, 1.0, 8.0];

/// What is counted as it happens.
#[derive(Debug)]
pub(crate) struct OwnMetrics {
    registry: Registry,
    scrape_seconds: Histogram,
    refresh_seconds: HistogramVec,
    http_requests: IntCounterVec,
    http_refused: IntCounter,
    helper_up: IntGauge,
    helper_restarts: IntCounterVec,
    reloads: IntCounterVec,
    reload_ok: IntGauge,
    reload_time: Gauge,
    web_reload_ok: IntGauge,
    certificate_expires: GaugeVec,
    probe_runs: IntCounterVec,
    events: IntCounterVec,
    kubernetes_enabled: IntGauge,
    kubernetes_requests: IntCounterVec,
    kubernetes_success: Gauge,
    started: f64,
}

/// What came of an attempt to probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeRun {
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

impl Default for OwnMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl OwnMetrics {
    /// Every metric at zero.
    pub(crate) fn new() -> Self {
        let registry = Registry::new();
        let metrics = Self {
            scrape_seconds: histogram(&registry, &own::SCRAPE),
            refresh_seconds: register(
                &registry,
                HistogramVec::new(buckets(&own::REFRESH), own::REFRESH.entry().labels),
            ),
            http_requests: counters(&registry, &own::HTTP_REQUESTS),
            http_refused: register(&registry, IntCounter::with_opts(opts(&own::HTTP_REFUSED))),
            helper_up: register(&registry, IntGauge::with_opts(opts(&own::HELPER_UP))),
            helper_restarts: counters(&registry, &own::HELPER_RESTARTS),
            reloads: counters(&registry, &own::RELOADS),
            reload_ok: register(&registry, IntGauge::with_opts(opts(&own::RELOAD_OK))),
            reload_time: register(&registry, Gauge::with_opts(opts(&own::RELOAD_TIME))),
            web_reload_ok: register(&registry, IntGauge::with_opts(opts(&own::WEB_RELOAD_OK))),
            certificate_expires: register(
                &registry,
                GaugeVec::new(
                    opts(&own::CERTIFICATE_EXPIRES),
                    own::CERTIFICATE_EXPIRES.entry().labels,
                ),
            ),
            probe_runs: counters(&registry, &own::PROBE_RUNS),
            events: counters(&registry, &own::EVENTS),
            kubernetes_enabled: register(&registry, IntGauge::with_opts(opts(&own::KUBERNETES_ENABLED))),
            kubernetes_requests: counters(&registry, &own::KUBERNETES_REQUESTS),
            kubernetes_success: register(&registry, Gauge::with_opts(opts(&own::KUBERNETES_SUCCESS))),
            started: now(),
            registry,
        };
        // Series that exist from the start: an increase from nothing is none to Prometheus.
        for scope in ["all", "ports"] {
            metrics.refresh_seconds.with_label_values(&[scope]);
        }
        for reason in [
            "unreachable",
            "version",
            "hung",
            "not_loaded",
            "ended",
            "malformed",
            "refused",
        ] {
            metrics.helper_restarts.with_label_values(&[reason]);
        }
        for result in ["success", "failure"] {
            metrics.reloads.with_label_values(&[result]);
        }
        for run in ProbeRun::ALL {
            metrics.probe_runs.with_label_values(&[run.name()]);
        }
        metrics
            .kubernetes_requests
            .with_label_values(&["patch", "nodes/status", "ok"]);
        for source in ["uevent", "rtnetlink", "verbs"] {
            metrics.events.with_label_values(&[source]);
        }
        metrics.http_requests.with_label_values(&["/metrics", "200"]);
        // The configuration that the agent started with is in effect.
        metrics.reload_ok.set(1);
        metrics.web_reload_ok.set(1);
        metrics.reload_time.set(metrics.started);
        metrics
    }

    /// A scrape was answered.
    pub(crate) fn scraped(&self, took: Duration) {
        self.scrape_seconds.observe(took.as_secs_f64());
    }

    /// The node was read: all of it, or only its ports.
    pub(crate) fn refreshed(&self, everything: bool, took: Duration) {
        let scope = if everything { "all" } else { "ports" };
        self.refresh_seconds
            .with_label_values(&[scope])
            .observe(took.as_secs_f64());
    }

    /// An HTTP request was answered. `path` must be one of few: a name of our own, not what the client wrote.
    pub(crate) fn http_answered(&self, path: &'static str, code: u16) {
        self.http_requests
            .with_label_values(&[path, itoa::Buffer::new().format(code)])
            .inc();
    }

    /// An HTTP connection was turned away.
    pub(crate) fn http_refused(&self) {
        self.http_refused.inc();
    }

    /// The helper answers, or does not.
    pub(crate) fn helper_up(&self, up: bool) {
        self.helper_up.set(up.into());
    }

    /// The helper was given up and will be started again; `reason` is a word from a bounded vocabulary.
    pub(crate) fn helper_restarted(&self, reason: &'static str) {
        self.helper_restarts.with_label_values(&[reason]).inc();
    }

    /// A changed configuration file was taken over, or refused.
    pub(crate) fn config_reloaded(&self, ok: bool) {
        self.reloads
            .with_label_values(&[if ok { "success" } else { "failure" }])
            .inc();
        self.reload_ok.set(ok.into());
        if ok {
            self.reload_time.set(now());
        }
    }

    /// A changed web configuration was taken over, or refused.
    pub(crate) fn web_config_reloaded(&self, ok: bool) {
        self.web_reload_ok.set(ok.into());
    }

    /// The certificate in effect is good until then; `None` where there is none.
    pub(crate) fn certificate_expires(&self, until: Option<SystemTime>) {
        // One without labels is there or not, as a fact is.
        self.certificate_expires.reset();
        if let Some(until) = until {
            self.certificate_expires
                .with_label_values::<&str>(&[])
                .set(since_epoch(until));
        }
    }

    /// A probe was tried.
    pub(crate) fn probe_ran(&self, result: ProbeRun) {
        self.probe_runs.with_label_values(&[result.name()]).inc();
    }

    /// A message led to a reading before its time.
    pub(crate) fn event(&self, source: &'static str) {
        self.events.with_label_values(&[source]).inc();
    }

    /// The node's state is published to Kubernetes.
    pub(crate) fn kubernetes_enabled(&self) {
        self.kubernetes_enabled.set(1);
    }

    /// The API server was asked for something. `code` must be from a bounded vocabulary.
    pub(crate) fn kubernetes_asked(&self, permission: Permission, code: &str) {
        self.kubernetes_requests
            .with_label_values(&[permission.verb, permission.resource, code])
            .inc();
    }

    /// The Node's conditions are as they should be.
    pub(crate) fn kubernetes_succeeded(&self) {
        self.kubernetes_success.set(now());
    }

    /// When the agent started, in seconds since 1970.
    pub(super) fn started(&self) -> f64 {
        self.started
    }

    /// Appends all of it as text.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let length = out.len();
        // Fails for a family that is wrong in itself, which a test excludes; half of it would spoil the scrape.
        if TextEncoder::new().encode(&self.registry.gather(), out).is_err() {
            out.truncate(length);
        }
    }
}

fn opts<const N: usize>(family: &Family<N>) -> Opts {
    Opts::new(family.entry().name, family.entry().help)
}

fn buckets<const N: usize>(family: &Family<N>) -> HistogramOpts {
    HistogramOpts::from(opts(family)).buckets(BUCKETS.to_vec())
}

fn counters<const N: usize>(registry: &Registry, family: &Family<N>) -> IntCounterVec {
    register(registry, IntCounterVec::new(opts(family), family.entry().labels))
}

fn histogram(registry: &Registry, family: &Family<0>) -> Histogram {
    register(registry, Histogram::with_opts(buckets(family)))
}

// Neither can fail: names are those of the catalogue, which a test checks to be well-formed and unique.
#[allow(clippy::expect_used)]
fn register<M: Collector + Clone + 'static>(registry: &Registry, metric: prometheus::Result<M>) -> M {
    let metric = metric.expect("the catalogue's names are well-formed");
    registry
        .register(Box::new(metric.clone()))
        .expect("the catalogue's names are unique");
    metric
}

fn now() -> f64 {
    since_epoch(SystemTime::now())
}

fn since_epoch(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
