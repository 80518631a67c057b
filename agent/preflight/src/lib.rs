//! Finds in the objects of a cluster why an RDMA pod will not start, before it is stuck, and explains one that is.
//!
//! [`preflight`] is a pure function: it does no I/O. `agent/kubernetes` reads the [`Cluster`] from the API server. What could not
//! be read is in the report with the reason, so no finding never means that nothing was looked at.

#![forbid(unsafe_code)]

mod check;
mod cluster;
mod pod;
mod quantity;
mod report;
mod templates;
mod workload;

pub use check::preflight;
pub use check::scc::reviews;
pub use cluster::{Cluster, Listed, Usage};
pub use report::{Finding, NotChecked, Report};
pub use workload::Workload;

#[cfg(test)]
mod tests;
