//! Whether a job can use a device and its ports.

use rdma_health_node::{Node, Port, access::Access, infiniband::Hca};
use rdma_health_protocol::{Gid, GidType, best_gid};

use super::Rail;
use crate::given::Prospect;

/// Whether this process can open a device.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Openable {
    Yes,
    /// Device nodes could not be listed, or do not say to which device they belong.
    Unknown,
    /// The kernel has no device node for it, so libibverbs does not find it.
    NoVerbs,
    /// It has no device node in this container.
    NoNode(String),
    /// The device node is there and cannot be opened.
    Closed(String),
}

impl Openable {
    pub(super) fn of(access: &Access, hca: &Hca) -> Self {
        let Some(node) = access.uverbs.known().and_then(|nodes| nodes.get(&hca.name)) else {
            let is_unknown = access.uverbs_unnamed || access.uverbs.unread().is_some();
            return if is_unknown { Self::Unknown } else { Self::NoVerbs };
        };
        let there = match access.nodes.known() {
            Some(nodes) => nodes.contains(node),
            None if access.nodes.is_absent() => false,
            None => return Self::Unknown,
        };
        if !there {
            return Self::NoNode(format!("/dev/infiniband/{node} is not in this container"));
        }
        match access.closed.get(node) {
            Some(why) => Self::Closed(why.clone()),
            None => Self::Yes,
        }
    }
}

/// Why a device without a `uverbs` device cannot be used. One that shares its function with a device that has one is there for the subnet
/// manager (`smi1` of an adapter of 800 Gb/s).
pub(super) fn without_verbs(node: &Node, access: &Access, hca: &Hca, is_given: bool) -> (String, Prospect) {
    let own = hca.pci_address.known();
    let has_verbs = |other: &Hca| {
        let nodes = access.uverbs.known();
        nodes.is_some_and(|nodes| nodes.contains_key(&other.name))
    };
    let is_sibling = |other: &&Hca| own.is_some() && other.pci_address.known() == own && has_verbs(other);
    if let Some(sibling) = node.hcas().map(|hca| &**hca).find(is_sibling) {
        let why = format!(
            "the kernel offers no uverbs device for it, only for {} of the same PCI function: it is for the subnet manager",
            sibling.name
        );
        return (why, Prospect::NotNeeded);
    }
    let others = node.hcas().any(|other| has_verbs(other));
    let prospect = if is_given || !others {
        Prospect::Later
    } else {
        Prospect::NotNeeded
    };
    let why = "the kernel offers no uverbs device for it: is the module ib_uverbs loaded?";
    (why.into(), prospect)
}

/// The GID that a connection should use, and all GIDs of this network namespace.
type Gids<'a> = (Option<&'a Gid>, Vec<Gid>);

/// The best GID of a usable port, and all GIDs of this network namespace; or why the port cannot be used.
pub(super) fn usable<'a>(port: &Port<'a>, access: &Access) -> Result<Gids<'a>, (String, Prospect)> {
    let later = |why: &str| (why.to_owned(), Prospect::Later);
    let state = port.state.known().map_or("unread", |state| state.name.as_str());
    if port.is_active() != Some(true) {
        return Err(later(&format!("its state is {state}, expected ACTIVE")));
    }
    if port.is_iwarp() {
        return Err((
            "iWARP, which these libraries do not support".into(),
            Prospect::Never,
        ));
    }
    if port.is_infiniband() {
        return Ok((None, Vec::new()));
    }
    let Some(all) = port.gids() else {
        return Err(later("its GID table could not be read"));
    };
    let here = |gid: &&'a Gid| match (port.netdev_of(gid), access.netdevs.known()) {
        (Some(netdev), Some(netdevs)) => netdevs.iter().any(|here| here == netdev),
        _ => true,
    };
    let gids: Vec<Gid> = all.iter().filter(here).cloned().collect();
    // An IPv6 address is as good as an IPv4 address.
    let best = best_gid(&gids).filter(|gid| gid.is_global()).map(|gid| gid.index);
    match best.and_then(|index| all.iter().find(|gid| gid.index == index)) {
        Some(gid) => Ok((Some(gid), gids)),
        None if gids.is_empty() && !all.is_empty() => Err(later(
            "all its GIDs belong to network devices outside this network namespace",
        )),
        None => Err(later(
            "no RoCE v2 GID with a routable address: its network device has no IP address yet",
        )),
    }
}

/// Agrees on one address family: the libraries use one for all ports. It is the one of most ports, of equally many IPv4. Returns the
/// ports that have no address of it, with the reason.
pub(super) fn agree_on_family<'a>(rails: &mut Vec<Rail<'a>>) -> Vec<(Port<'a>, String)> {
    let has = |rail: &Rail<'_>, ipv4: bool| rail.gids.iter().any(|gid| is_of(gid, ipv4));
    let number = |ipv4: bool| rails.iter().filter(|rail| has(rail, ipv4)).count();
    let ipv4 = number(true) >= number(false);
    let (name, other) = if ipv4 { ("IPv4", "IPv6") } else { ("IPv6", "IPv4") };
    let mut refused = Vec::new();
    rails.retain_mut(|rail| {
        let Some(chosen) = rail.gid.filter(|gid| !is_of(gid, ipv4)) else {
            return true;
        };
        let of_family: Vec<_> = rail.gids.iter().filter(|gid| is_of(gid, ipv4)).cloned().collect();
        let best = best_gid(&of_family).map(|gid| gid.index);
        let all = rail.port.gids().unwrap_or_default();
        if let Some(gid) = best.and_then(|index| all.iter().find(|gid| gid.index == index)) {
            rail.gid = Some(gid);
            return true;
        }
        let why = format!(
            "its only routable GID is of {other} ({}), and most ports of this job have {name}; NCCL and NVSHMEM use one address \
             family for all: give its network device an {name} address",
            chosen.gid
        );
        refused.push((rail.port, why));
        false
    });
    refused
}

fn is_of(gid: &Gid, ipv4: bool) -> bool {
    gid.kind == GidType::RoceV2 && gid.is_global() && gid.is_ipv4_mapped() == ipv4
}

#[cfg(test)]
#[path = "usable_tests.rs"]
mod tests;
