//! From a declaration to what is counted in: each family becomes a metric of a registry.

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry, core::Collector,
};

use crate::Family;

impl Family<0> {
    /// A counter of this family.
    pub fn counter(&self, registry: &Registry) -> IntCounter {
        register(registry, IntCounter::with_opts(self.options()))
    }

    /// A gauge of whole numbers.
    pub fn integer_gauge(&self, registry: &Registry) -> IntGauge {
        register(registry, IntGauge::with_opts(self.options()))
    }

    /// A gauge.
    pub fn gauge(&self, registry: &Registry) -> Gauge {
        register(registry, Gauge::with_opts(self.options()))
    }

    /// A histogram whose buckets have these upper bounds.
    pub fn histogram(&self, registry: &Registry, buckets: &[f64]) -> Histogram {
        register(registry, Histogram::with_opts(self.histogram_options(buckets)))
    }
}

impl<const N: usize> Family<N> {
    /// Counters by label.
    pub fn counters(&self, registry: &Registry) -> IntCounterVec {
        register(registry, IntCounterVec::new(self.options(), self.entry().labels))
    }

    /// Gauges by label. Of a family without labels, one that is there or not.
    pub fn gauges(&self, registry: &Registry) -> GaugeVec {
        register(registry, GaugeVec::new(self.options(), self.entry().labels))
    }

    /// Histograms by label, whose buckets have these upper bounds.
    pub fn histograms(&self, registry: &Registry, buckets: &[f64]) -> HistogramVec {
        let options = self.histogram_options(buckets);
        register(registry, HistogramVec::new(options, self.entry().labels))
    }

    fn options(&self) -> Opts {
        Opts::new(self.entry().name, self.entry().help())
    }

    fn histogram_options(&self, buckets: &[f64]) -> HistogramOpts {
        HistogramOpts::from(self.options()).buckets(buckets.to_vec())
    }
}

// Neither can fail: tests of the catalogue check that its names are well-formed and unique.
#[allow(clippy::expect_used)]
fn register<M: Collector + Clone + 'static>(registry: &Registry, metric: prometheus::Result<M>) -> M {
    let metric = metric.expect("the catalogue's names are well-formed");
    registry
        .register(Box::new(metric.clone()))
        .expect("the catalogue's names are unique");
    metric
}
