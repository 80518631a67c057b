//! Metrics: the catalogue of everything that is exported, and how a view is written as Prometheus text.
//!
//! Facts, findings and probes are written from the [`View`] by [`render`]; nothing is kept between two scrapes. What is
//! counted as it happens is kept in [`OwnMetrics`].

pub(crate) mod catalogue;
mod counters;
mod facts;
mod legacy;
mod own;
mod ports;
mod process;
mod sink;
mod verdict;

use crate::view::View;

pub(crate) use own::{OwnMetrics, ProbeRun};
use sink::Sink;

/// The content type of what [`render`] writes.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How to render.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RenderOptions {
    /// Whether the families of the Prometheus node exporter are written, too.
    pub(crate) node_exporter_names: bool,
}

/// Appends every metric to `buffer`. Without a view (before the first reading) only the agent's own.
pub(crate) fn render(view: Option<&View>, options: RenderOptions, own: &OwnMetrics, buffer: &mut Vec<u8>) {
    let mut sink = Sink::new(buffer);
    if let Some(view) = view {
        let ports = ports::list(&view.node);
        facts::write(&view.node, &mut sink);
        ports::write(&view.node, &ports, &mut sink);
        let values = counters::collect(&ports);
        values.write(&ports, &mut sink);
        if options.node_exporter_names {
            legacy::write(&view.node, &ports, &values, &mut sink);
        }
        verdict::write(view, &mut sink);
        process::write_view(view, &mut sink);
    }
    process::write(own.started(), &mut sink);
    own.write(buffer);
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
