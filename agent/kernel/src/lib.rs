//! Reads every fact about RDMA from one Linux node.
//!
//! Each module is a reader for one kernel source. A reader knows where a fact is and its format, and makes no judgement.
//! `source.rs` explains how to add one. [`collector::Collector`] runs the readers so that a kernel that does not respond
//! affects only one source. The result is a [`Facts`]. A fact that could not be read is a [`fact::Fact::Unread`].

#![forbid(unsafe_code)]

pub mod access;
pub mod boot;
pub mod cmdline;
pub mod collector;
pub mod crio;
pub mod device_nodes;
pub mod drivers;
pub mod fact;
mod facts;
pub mod host;
pub mod infiniband;
pub mod iommu;
pub mod ipoib;
pub mod kmsg;
pub mod kubelet;
pub mod lacp;
pub mod limits;
pub mod lldp;
pub mod mlx4;
pub mod modprobe;
pub mod modules;
pub mod netlink;
pub mod network;
pub mod numa;
pub mod nvidia;
pub mod objects;
pub mod os_release;
pub mod pattern;
pub mod pci;
mod pool;
pub mod process;
pub mod recording;
pub mod root;
mod source;

pub use fact::{Fact, Unread, UnreadKind};
pub use facts::{Facts, SourceStatus};
pub use root::{KubeletAnswers, Privileged, Root, Scope};
