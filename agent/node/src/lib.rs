//! Reads every fact about RDMA from one Linux node.
//!
//! One module per kernel source, each a pure reader: it knows where a fact lies and what form it has, and nothing of what
//! would be good or bad. [`collector::Collector`] runs them so that a kernel that does not answer costs one source and
//! never the whole; the outcome is a [`node::Node`]. A fact that could not be read is a [`fact::Fact::Unread`].

#![forbid(unsafe_code)]

pub mod cmdline;
pub mod collector;
pub mod fact;
pub mod history;
pub mod host;
pub mod infiniband;
pub mod iommu;
pub mod kmsg;
pub mod limits;
pub mod modules;
pub mod network;
pub mod node;
pub mod nvidia;
pub mod pattern;
pub mod pci;
mod pool;
pub mod recording;
pub mod root;

pub use fact::{Fact, Unread};
pub use node::Node;
pub use root::Root;
