//! What is counted of the helper.

use prometheus::{IntCounterVec, IntGauge};
use rdma_health_instrument::{Entry, Registry, families};
use rdma_health_node::fact::HelperTrouble;

use crate::State;

families! {
    HELPER_UP: Gauge "rdma_health_helper_up" [""] {}
        "Whether the verbs helper answers.";
    HELPER_RESTARTS: Counter "rdma_health_helper_restarts_total" [""] {"reason"}
        "Number of restarts of the verbs helper, by reason.";
}

/// How the helper fares, for `/metrics`.
#[derive(Debug)]
pub struct Metrics {
    up: IntGauge,
    restarts: IntCounterVec,
}

impl Metrics {
    /// Registers them, with every series that can be at zero: an increase from nothing is none to Prometheus.
    pub fn new(registry: &Registry) -> Self {
        let metrics = Self {
            up: HELPER_UP.integer_gauge(registry),
            restarts: HELPER_RESTARTS.counters(registry),
        };
        for reason in HelperTrouble::ALL.map(HelperTrouble::reason) {
            metrics.restarts.with_label_values(&[reason]);
        }
        metrics
    }

    /// Every family of these.
    pub fn families() -> &'static [&'static Entry] {
        ALL
    }

    /// Takes note of how the helper fares now.
    pub fn observe(&self, state: &State) {
        match state {
            State::Starting => {}
            State::Up => self.up.set(1),
            State::Away(failure) | State::Down(failure) => {
                self.up.set(0);
                self.restarts.with_label_values(&[failure.reason()]).inc();
            }
        }
    }
}
