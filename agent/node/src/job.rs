//! The process of a job, joined with the node's RDMA devices.

use std::net::{IpAddr, Ipv6Addr};

use rdma_health_kernel::process::Process;
use rdma_health_protocol::Gid;

use crate::{Node, Port};

/// What a job can use of one RDMA port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It has a GID whose address is in the job's network namespace, or needs none (InfiniBand).
    Usable,
    /// None of its GIDs has an address of the job's network namespace.
    OtherNamespace,
    /// Not known: GIDs or addresses could not be read.
    Unknown,
}

impl Node {
    /// What the job can use of a port.
    pub fn reach(&self, job: &Process, port: &Port<'_>) -> Reach {
        if !port.is_ethernet() || job.host_network.known() == Some(&true) {
            return Reach::Usable;
        }
        let (Some(gids), Some(addresses)) = (port.gids(), job.addresses.known()) else {
            return Reach::Unknown;
        };
        // A link-local address says nothing: each network device has one, and they may be equal.
        let mut routable = gids
            .iter()
            .filter(|gid| !gid.gid.is_unicast_link_local())
            .peekable();
        if routable.peek().is_none() {
            return Reach::Unknown;
        }
        if routable.any(|gid| addresses.contains(&address(gid))) {
            Reach::Usable
        } else {
            Reach::OtherNamespace
        }
    }
}

/// The IP address that a RoCE GID stands for.
fn address(gid: &Gid) -> IpAddr {
    let gid: Ipv6Addr = gid.gid;
    gid.to_ipv4_mapped().map_or(IpAddr::V6(gid), IpAddr::V4)
}
