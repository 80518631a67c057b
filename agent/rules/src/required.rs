//! Facts without which a domain cannot be judged: that no finding mentions them means nothing.

use rdma_health_node::{Function, Node, Port};

use crate::{Domain, Subject};

/// Why the node cannot be judged completely, if a fact that some domain requires could not be read.
pub fn unread_facts(node: &Node) -> Option<String> {
    devices(node).or_else(|| unread(node))
}

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

pub(crate) fn devices(node: &Node) -> Option<String> {
    let unread = node.hcas.unread()?;
    Some(format!("the RDMA devices could not be read: {unread}"))
}

/// Why the kernel log could not be read, if so. A node without one is judged by the rest.
pub fn kernel_log_unread(node: &Node) -> Option<String> {
    let unread = node.kernel_log.unread()?;
    Some(format!("the kernel log could not be read: {unread}"))
}

fn iommu_mode(node: &Node) -> Option<String> {
    node.dma_functions().find_map(|function| mode(node, &function))
}

fn mode(node: &Node, function: &Function<'_>) -> Option<String> {
    let groups = node.iommu.groups.known()?;
    let unread = groups.get(&function.group?)?.domain.unread()?;
    Some(format!(
        "the IOMMU mode of {} could not be read: {unread}",
        function.title()
    ))
}

/// Why it is not known whether a finding about `subject` is over, if a fact that it depends on could not be read.
pub(crate) fn unread_about(node: &Node, domain: Domain, subject: &Subject) -> Option<String> {
    if let (Some(unread), Some(_)) = (devices(node), &subject.device) {
        return Some(unread);
    }
    let ports = || {
        let is_meant = |port: &Port<'_>| {
            subject.device.as_ref() == Some(&port.hca.name) && subject.port.is_none_or(|of| of == port.number)
        };
        node.ports().filter(is_meant)
    };
    match domain {
        Domain::Link => ports().find_map(|port| state(&port)),
        Domain::Gids => ports().find_map(|port| state(&port).or_else(|| gids_of(&port))),
        Domain::Iommu => node
            .dma_functions()
            .filter(|function| {
                subject
                    .device
                    .as_deref()
                    .is_none_or(|device| function.subject() == device)
            })
            .find_map(|function| mode(node, &function)),
        Domain::Limits if subject.device.is_none() => memlock(node),
        Domain::Kernel => kernel_log_unread(node),
        _ => None,
    }
}

/// Every device has a port, and every kernel the state of each port.
fn port_state(node: &Node) -> Option<String> {
    if let Some(hca) = node.hcas().find(|hca| hca.ports.is_empty()) {
        return Some(format!("/sys/class/infiniband/{}/ports has no port", hca.name));
    }
    node.ports().find_map(|port| state(&port))
}

fn state(port: &Port<'_>) -> Option<String> {
    if port.state.known().is_some() {
        return None;
    }
    let why = port.state.unread().map_or_else(
        || format!("{} is missing", port.file("state")),
        ToString::to_string,
    );
    Some(format!("the state of {port} could not be read: {why}"))
}

fn gids(node: &Node) -> Option<String> {
    node.active_ports().find_map(|port| gids_of(&port))
}

fn gids_of(port: &Port<'_>) -> Option<String> {
    let unread = port.gids_unread()?;
    Some(format!("the GIDs of {port} could not be read: {unread}"))
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
