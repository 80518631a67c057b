//! What is counted of the server.

use prometheus::{GaugeVec, IntCounter, IntCounterVec};
use rdma_health_instrument::{Entry, Registry, ReloadFamilies, Reloads, families};
use rdma_health_time::since_1970;

use crate::tls::Validity;

families! {
    HTTP_REQUESTS: Counter "rdma_health_http_requests_total" [""] {"path", "code"}
        "Number of HTTP requests by path and status code; unknown paths count as other.";
    HTTP_REFUSED: Counter "rdma_health_http_connections_refused_total" [""] {}
        "Number of HTTP connections refused because their client had too many open.";
    HTTP_EVICTED: Counter "rdma_health_http_connections_evicted_total" [""] {}
        "Number of HTTP connections closed to make room for others.";
    CHANGES: Counter "rdma_health_web_config_reloads_total" [""] {"result"}
        "Number of changes of the web configuration and its certificates, by result: success if applied, failure if rejected.";
    LAST_SUCCESSFUL: Gauge "rdma_health_web_config_last_reload_successful" [""] {}
        "Whether the current web configuration and its certificates are active; 1 if none is configured.";
    LAST_SUCCESS: Gauge "rdma_health_web_config_last_reload_success_timestamp_seconds" ["seconds since 1970"] {}
        "Time at which the active web configuration was loaded, in seconds since 1970.";
    LAST_LOOK: Gauge "rdma_health_web_config_last_look_timestamp_seconds" ["seconds since 1970"] {}
        "Time at which the web configuration was last read, in seconds since 1970; absent without one.";
    CERTIFICATE_EXPIRES: Gauge "rdma_health_web_config_certificate_expiry_timestamp_seconds" ["seconds since 1970"] {}
        "Expiry time of the active certificate in seconds since 1970; absent without TLS.";
    CERTIFICATE_BEGINS: Gauge "rdma_health_web_config_certificate_not_before_timestamp_seconds" ["seconds since 1970"] {}
        "Time from which the active certificate is valid, in seconds since 1970; absent without TLS.";
}

/// How the server fares, for `/metrics`.
#[derive(Debug)]
pub struct Metrics {
    requests: IntCounterVec,
    refused: IntCounter,
    evicted: IntCounter,
    /// Changes of the web configuration and of the files that it names.
    pub reloads: Reloads,
    certificate_begins: GaugeVec,
    certificate_expires: GaugeVec,
}

impl Metrics {
    /// Registers them. At the start, the current web configuration is active.
    pub fn new(registry: &Registry) -> Self {
        Self {
            requests: HTTP_REQUESTS.counters(registry),
            refused: HTTP_REFUSED.counter(registry),
            evicted: HTTP_EVICTED.counter(registry),
            reloads: Reloads::new(
                registry,
                ReloadFamilies {
                    changes: &CHANGES,
                    last_successful: &LAST_SUCCESSFUL,
                    last_success: &LAST_SUCCESS,
                    last_look: &LAST_LOOK,
                },
            ),
            certificate_begins: CERTIFICATE_BEGINS.gauges(registry),
            certificate_expires: CERTIFICATE_EXPIRES.gauges(registry),
        }
    }

    /// Every family of these.
    pub fn families() -> &'static [&'static Entry] {
        ALL
    }

    /// Counts answers of a page from zero: an increase from nothing is none to Prometheus.
    pub fn count_from_zero(&self, path: &'static str, code: u16) {
        self.requests
            .with_label_values(&[path, itoa::Buffer::new().format(code)]);
    }

    /// A request was answered. `path` must be one of few: a name of our own, not what the client wrote.
    pub(crate) fn answered(&self, path: &'static str, code: u16) {
        self.requests
            .with_label_values(&[path, itoa::Buffer::new().format(code)])
            .inc();
    }

    /// A connection was refused because its client had too many open.
    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    /// A connection was closed to make room for another one.
    pub(crate) fn evicted(&self) {
        self.evicted.inc();
    }

    /// Sets when the active certificate is valid; `None` if there is none.
    pub fn certificate(&self, validity: Option<Validity>) {
        let times = [
            (&self.certificate_begins, validity.map(|validity| validity.from)),
            (&self.certificate_expires, validity.map(|validity| validity.until)),
        ];
        for (gauge, time) in times {
            // One without labels is there or not, as a fact is.
            gauge.reset();
            if let Some(time) = time {
                gauge
                    .with_label_values::<&str>(&[])
                    .set(since_1970(time).as_secs_f64());
            }
        }
    }
}
