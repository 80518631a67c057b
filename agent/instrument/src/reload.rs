//! What is counted of a file that is reloaded when it changes; the same for every such file.

use std::time::SystemTime;

use prometheus::{Gauge, GaugeVec, IntCounterVec, IntGauge, Registry};
use rdma_health_time::since_1970;

use crate::Family;

/// The families of one file.
#[derive(Debug, Clone, Copy)]
pub struct ReloadFamilies {
    /// Changes by result: `success` if applied, `failure` if rejected.
    pub changes: &'static Family<1>,
    /// Whether the current content of the file is active.
    pub last_successful: &'static Family<0>,
    /// When the active content was loaded.
    pub last_success: &'static Family<0>,
    /// When the file was last read.
    pub last_look: &'static Family<0>,
}

/// How the reloading of one file went. Clones count together.
#[derive(Debug, Clone)]
pub struct Reloads {
    changes: IntCounterVec,
    last_successful: IntGauge,
    last_success: Gauge,
    last_look: GaugeVec,
}

impl Reloads {
    /// Registers them. At the start, the current content is active.
    pub fn new(registry: &Registry, families: ReloadFamilies) -> Self {
        let reloads = Self {
            changes: families.changes.counters(registry),
            last_successful: families.last_successful.integer_gauge(registry),
            last_success: families.last_success.gauge(registry),
            last_look: families.last_look.gauges(registry),
        };
        // An increase from nothing is none to Prometheus.
        for result in ["success", "failure"] {
            reloads.changes.with_label_values(&[result]);
        }
        reloads.last_successful.set(1);
        reloads.last_success.set(now());
        reloads
    }

    /// The file was read, whether or not it changed. Not set without a file that is followed.
    pub fn looked(&self) {
        self.last_look.with_label_values::<&str>(&[]).set(now());
    }

    /// A change was applied or rejected.
    pub fn reloaded(&self, applied: bool) {
        let result = if applied { "success" } else { "failure" };
        self.changes.with_label_values(&[result]).inc();
        self.last_successful.set(applied.into());
        if applied {
            self.last_success.set(now());
        }
    }
}

/// In seconds since 1970.
fn now() -> f64 {
    since_1970(SystemTime::now()).as_secs_f64()
}
