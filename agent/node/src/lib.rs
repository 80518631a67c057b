//! One joined node: the value that rules evaluate and publishers show.
//!
//! It joins the facts of the kernel ([`rdma_health_kernel`]), of libibverbs and of probes in one place: no crate above
//! this one combines facts of two sources, and this one does no I/O and makes no judgement.

#![forbid(unsafe_code)]

pub mod adapters;
pub mod bond;
pub mod cable;
mod configured;
pub mod events;
pub mod failure;
pub mod function;
pub mod history;
pub mod job;
pub mod model;
pub mod netdev;
pub mod node;
mod nvswitch;
pub mod peers;
pub mod platform;
pub mod pods;
pub mod port;
pub mod timeline;
pub mod topology;
pub mod words;

pub use cable::{Cable, CableRate};
pub use events::DeviceEvent;
pub use function::{DmaMode, Function};
pub use node::Node;
pub use port::Port;
pub use rdma_health_kernel::{
    Fact, SourceStatus, Unread, UnreadKind, access, boot, cmdline, drivers, fact, host, infiniband, iommu,
    ipoib, kmsg, kubelet, limits, lldp, mlx4, modprobe, modules,
    netlink::{dcb, devlink, ethtool, interfaces, neighbours, rdma, transceiver},
    network, nvidia, objects, os_release, pattern, pci, process,
};
