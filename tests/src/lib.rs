//! What spans the crates of this workspace and what their tests share.
//!
//! - [`tree`]: a captured node as one text file that unpacks to a directory.
//! - [`api_server`]: a real kube-apiserver and etcd.
//! - [`capture`]: makes such a file from the machine it runs on.
//! - [`fault_bench`]: breaks nodes in known ways and scores what `rdma-health check` makes of it.
//! - [`measured()`]: what a probe measured.
//! - [`scrape`]: what a Prometheus would see.
//! - [`virtual_node`]: a throw-away machine with an IOMMU and RDMA devices, driven step by step.

pub mod api_server;
pub mod capture;
pub mod fault_bench;
mod measured;
pub mod scrape;
pub mod tree;
pub mod virtual_node;

pub use measured::measured;
