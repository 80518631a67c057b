//! Metrics: what `/metrics` shows, and the catalogue of it.
//!
//! Facts, findings and probes are written from the view by [`Exporter::render`]. What it wrote is kept until anything but counters
//! changes; their values are written again at each scrape.
//! What the parts of the agent count as it happens is in the registry that the exporter gives them.
//!
//! To add a metric, add a row to a table in `families`: name, labels, help, and the function that yields its samples.

#![forbid(unsafe_code)]

pub mod catalogue;
mod counters;
mod exporter;
mod families;
mod format;
mod table;
mod template;
mod text;

pub use exporter::{Exporter, RenderOptions};
pub use format::Format;

#[cfg(test)]
mod tests;
