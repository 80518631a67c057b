//! Facts without which a domain cannot be judged: that no finding mentions them means nothing.

use rdma_health_node::Node;

use crate::Domain;

/// Why a domain cannot be judged completely, if a fact that it requires could not be read.
pub fn unread_of(node: &Node, domain: Domain) -> Option<String> {
    match domain {
        Domain::Iommu => iommu_mode(node),
        Domain::Gids => gids(node),
        Domain::Limits => memlock(node),
        Domain::Link => port_state(node),
        Domain::Kernel
        | Domain::Pci
        | Domain::Modules
        | Domain::Sriov
        | Domain::GpuDirect
        | Domain::Network
        | Domain::Probe
        | Domain::Reading => None,
    }
}

/// The first domain that cannot be judged completely.
pub(crate) fn unread(node: &Node) -> Option<String> {
    Domain::ALL.into_iter().find_map(|domain| unread_of(node, domain))
}

fn iommu_mode(node: &Node) -> Option<String> {
    let groups = node.iommu.groups.known()?;
    node.dma_functions().find_map(|function| {
        let unread = groups.get(&function.group?)?.domain.unread()?;
        Some(format!(
            "the IOMMU mode of {} could not be read: {unread}",
            function.title()
        ))
    })
}

/// Every device has a port, and every kernel the state of each port.
fn port_state(node: &Node) -> Option<String> {
    if let Some(hca) = node.hcas().find(|hca| hca.ports.is_empty()) {
        return Some(format!("/sys/class/infiniband/{}/ports has no port", hca.name));
    }
    let port = node.ports().find(|port| port.state.known().is_none())?;
    let why = port.state.unread().map_or_else(
        || format!("{} is missing", port.file("state")),
        ToString::to_string,
    );
    Some(format!("the state of {port} could not be read: {why}"))
}

fn gids(node: &Node) -> Option<String> {
    node.active_ports().find_map(|port| {
        let unread = port.gids_unread()?;
        Some(format!("the GIDs of {port} could not be read: {unread}"))
    })
}

fn memlock(node: &Node) -> Option<String> {
    node.limits.runtimes.known()?.iter().find_map(|runtime| {
        let unread = runtime.memlock.unread()?;
        Some(format!(
            "the memlock limit of {} could not be read: {unread}",
            runtime.name
        ))
    })
}
