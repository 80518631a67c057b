//! Metrics of the requests to the API server.

use std::time::SystemTime;

use prometheus::{Gauge, GaugeVec, IntCounterVec, IntGauge};
use rdma_health_instrument::{Entry, Registry, families};
use rdma_health_time::since_1970;

use super::{Permission, kind::READY};

families! {
    KUBERNETES_ENABLED: Gauge "rdma_health_kubernetes_enabled" [""] {}
        "Whether publishing to Kubernetes is enabled.";
    KUBERNETES_REQUESTS: Counter "rdma_health_kubernetes_requests_total" [""] {"verb", "resource", "code"}
        "Number of requests to the API server by verb, resource and code: ok, an HTTP status, unreachable, timed_out, configuration or malformed.";
    KUBERNETES_SUCCESS: Gauge "rdma_health_kubernetes_last_success_timestamp_seconds" ["seconds since 1970"] {}
        "Time at which the agent last confirmed the conditions of its Node, in seconds since 1970; 0 if it never did.";
    KUBERNETES_CONTESTED: Gauge "rdma_health_kubernetes_condition_contested" [""] {"condition"}
        "Whether the agent does not write this condition because another controller manages it.";
}

/// The metrics of publishing to Kubernetes.
#[derive(Debug)]
pub struct Metrics {
    enabled: IntGauge,
    requests: IntCounterVec,
    last_success: Gauge,
    contested: GaugeVec,
}

impl Metrics {
    /// Registers them, with the values for disabled publishing.
    pub fn new(registry: &Registry) -> Self {
        let metrics = Self {
            enabled: KUBERNETES_ENABLED.integer_gauge(registry),
            requests: KUBERNETES_REQUESTS.counters(registry),
            last_success: KUBERNETES_SUCCESS.gauge(registry),
            contested: KUBERNETES_CONTESTED.gauges(registry),
        };
        // Start at zero, because Prometheus does not see an increase of a series that did not exist.
        metrics
            .requests
            .with_label_values(&["patch", "nodes/status", "ok"]);
        metrics.contested(READY, false);
        metrics
    }

    /// All families.
    pub fn families() -> &'static [&'static Entry] {
        ALL
    }

    /// Records that publishing is enabled.
    pub(crate) fn enabled(&self) {
        self.enabled.set(1);
    }

    /// Counts a request. `code` must be from a bounded vocabulary.
    pub(crate) fn count_request(&self, permission: Permission, code: &str) {
        self.requests
            .with_label_values(&[permission.verb, permission.resource, code])
            .inc();
    }

    /// Records whether another controller manages a condition of this type.
    pub(crate) fn contested(&self, condition: &str, contested: bool) {
        self.contested
            .with_label_values(&[condition])
            .set(f64::from(u8::from(contested)));
    }

    /// Records that the Node's conditions are up to date.
    pub(crate) fn succeeded(&self) {
        self.last_success.set(since_1970(SystemTime::now()).as_secs_f64());
    }
}
