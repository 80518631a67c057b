//! What spans the crates of this workspace and what their tests share.
//!
//! - [`acts`]: several acts on one stage that is slow to set up.
//! - [`tree`]: a captured node as one text file that unpacks to a directory.
//! - [`api_server`]: a real kube-apiserver and etcd.
//! - [`capture`]: makes such a file from the machine it runs on.
//! - [`cluster`]: a control plane and a node with a kubelet.
//! - [`fake_kubelet`]: the kubelet's pod-resources service, served by gRPC's own library.
//! - [`fault_bench`]: breaks nodes in known ways and scores what `rdma-health check` makes of it.
//! - [`fleet`]: the tree of a node with 16 HCAs, for measurements.
//! - [`measured()`]: what a probe measured.
//! - [`monitoring`]: a Prometheus and an Alertmanager with the rules and routes of `dashboards/`.
//! - [`notifications`]: a receiver of Alertmanager's notifications.
//! - [`promtool`]: what Prometheus' own checker makes of a scrape.
//! - [`rails`]: measures the rails between two nodes as `rdma-health probe` does.
//! - [`running`]: programs that run for as long as a test.
//! - [`scrape`]: what a Prometheus would see.
//! - [`server`]: a server whose CPU time and memory are measured.
//! - [`view`]: what publishers show, made up: a node that has a bit of everything, and one with nothing.
//! - [`virtual_node`]: a throw-away machine with an IOMMU and RDMA devices, driven step by step.

pub mod acts;
pub mod api_server;
pub mod capture;
pub mod cluster;
pub mod fake_kubelet;
pub mod fault_bench;
pub mod fleet;
mod measured;
pub mod monitoring;
pub mod notifications;
pub mod promtool;
pub mod rails;
pub mod running;
pub mod scrape;
pub mod server;
pub mod tree;
pub mod tunnel;
pub mod view;
pub mod virtual_node;

pub use measured::measured;
