//! The ports that a job can use, and why others are refused.

use std::collections::BTreeSet;

use rdma_health_node::{
    Node, Port,
    access::Access,
    infiniband::Hca,
    pci::Role,
    topology::{Path, Topology},
};
use rdma_health_protocol::{Gid, best_gid};

use crate::given::{Given, Grant};

/// The ports that a job can use.
#[derive(Debug)]
pub struct Rails<'a> {
    /// How the devices are known.
    pub origin: Origin,
    /// Usable ports, in order of the PCI address of their physical function, then of device and port.
    pub rails: Vec<Rail<'a>>,
    /// Usable EFA devices, which libfabric uses and `NCCL_IB_HCA` does not name.
    pub efa: Vec<&'a Hca>,
    /// Devices and ports that were given or found but cannot be used.
    pub refused: Vec<Refused>,
}

/// How the devices of a job are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// An allocator gave them to the pod.
    Given,
    /// This container can open them: the plugin for shared RDMA devices, a privileged pod, or a host.
    Visible,
}

/// One usable port.
#[derive(Debug)]
pub struct Rail<'a> {
    /// The port.
    pub port: Port<'a>,
    /// The GID that a connection should use; `None` on InfiniBand.
    pub gid: Option<&'a Gid>,
    /// The GIDs of network devices in this network namespace.
    pub gids: Vec<Gid>,
    /// The number of its rail: the position of its adapter among the adapters of the node, the same on equal nodes.
    pub number: usize,
    /// The variable or file that names it; empty for [`Origin::Visible`].
    pub source: String,
}

/// A device or port that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name, and the source of the name.
    pub what: String,
    /// The reason.
    pub why: String,
    /// Whether this can change.
    pub prospect: Prospect,
}

/// Whether a device that cannot be used now can be used later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prospect {
    /// It can: a link comes up, an address is assigned, a driver is loaded.
    Later,
    /// Not in this container.
    Never,
    /// It is not meant for RDMA traffic of this job, so the job does not need it.
    NotNeeded,
}

impl<'a> Rails<'a> {
    /// Finds the ports of the given devices; without given devices, those that this container can open.
    ///
    /// If devices were given but none of them could be understood, there is none: the visible devices can belong to others.
    pub fn find(node: &'a Node, access: &Access, given: &Given) -> Self {
        // DRA drivers describe GPUs in the same form.
        let grants: Vec<_> = given.grants.iter().filter(|grant| !is_gpu(node, grant)).collect();
        let origin = if grants.is_empty() && !given.incomplete {
            Origin::Visible
        } else {
            Origin::Given
        };
        let mut rails = Self {
            origin,
            rails: Vec::new(),
            efa: Vec::new(),
            refused: Vec::new(),
        };
        let devices = match origin {
            Origin::Given => rails.given(node, &grants),
            Origin::Visible => rails.visible(node),
        };
        for (hca, grant) in devices {
            rails.take(node, access, hca, grant);
        }
        if grants.is_empty() && given.incomplete {
            rails.refuse(
                "what this pod was given".into(),
                given.problems.join("; "),
                Prospect::Never,
            );
        }
        let adapters: BTreeSet<_> = node.hcas().map(|hca| hca.adapter()).collect();
        for rail in &mut rails.rails {
            let own = rail.port.hca.adapter();
            rail.number = adapters.range(..own).count();
        }
        let order = |rail: &Rail<'_>| (rail.number, rail.port.hca.name.clone(), rail.port.number);
        rails.rails.sort_by_key(order);
        rails
    }

    /// Whether there is a port or device to use.
    pub fn is_empty(&self) -> bool {
        self.rails.is_empty() && self.efa.is_empty()
    }

    /// Number of ports and devices to use.
    pub fn count(&self) -> usize {
        self.rails.len() + self.efa.len()
    }

    fn given<'g>(&mut self, node: &'a Node, grants: &[&'g Grant]) -> Vec<(&'a Hca, Option<&'g Grant>)> {
        let mut found: Vec<(&Hca, Option<&Grant>)> = Vec::new();
        for grant in grants {
            let hcas: Vec<&Hca> = node
                .hcas()
                .map(|hca| &**hca)
                .filter(|hca| is(node, hca, grant))
                .collect();
            if hcas.is_empty() {
                let (why, prospect) = no_device(node, grant);
                self.refuse(format!("{} ({})", name(grant), grant.source), why, prospect);
            }
            for hca in hcas {
                if !found.iter().any(|(known, _)| known.name == hca.name) {
                    found.push((hca, Some(grant)));
                }
            }
        }
        found
    }

    /// Every device; on a node with GPUs only the NICs near them, so that NICs for storage and management stay out.
    fn visible<'g>(&mut self, node: &'a Node) -> Vec<(&'a Hca, Option<&'g Grant>)> {
        let topology = node.topology();
        let mut found = Vec::new();
        for hca in node.hcas() {
            match far_from_gpus(node, &topology, hca) {
                None => found.push((&**hca, None)),
                Some(why) => self.refuse(hca.name.clone(), why.to_owned(), Prospect::NotNeeded),
            }
        }
        found
    }

    /// Adds the usable ports of a device.
    fn take(&mut self, node: &'a Node, access: &Access, hca: &'a Hca, grant: Option<&Grant>) {
        if let Some(missing) = missing_node(access, hca) {
            let (why, prospect) = match grant.map(|grant| grant.for_rdma) {
                Some(Some(false)) => (
                    format!("{missing}: its resource has no isRdma in the device plugin's configuration"),
                    Prospect::NotNeeded,
                ),
                Some(_) => (missing, Prospect::Later),
                None => (missing, Prospect::NotNeeded),
            };
            return self.refuse(hca.name.clone(), why, prospect);
        }
        let is_efa = hca.driver.known().is_some_and(|driver| driver == "efa");
        if is_efa {
            return self.efa.push(hca);
        }
        for port in node.ports_of(hca) {
            match usable(&port, access) {
                Ok((gid, gids)) => self.rails.push(Rail {
                    port,
                    gid,
                    gids,
                    number: 0,
                    source: grant.map_or_else(String::new, |grant| grant.source.clone()),
                }),
                Err((why, prospect)) => self.refuse(port.to_string(), why, prospect),
            }
        }
    }

    fn refuse(&mut self, what: String, why: String, prospect: Prospect) {
        self.refused.push(Refused { what, why, prospect });
    }
}

/// Why no GPU should use a device; `None` if one should, or if the node has no GPU whose distance to a NIC is known.
///
/// Of several NICs at the same distance a GPU uses the fastest. A NIC without a link counts as fast: its speed is not known. So
/// does one at an unknown distance count as near.
fn far_from_gpus(node: &Node, topology: &Topology<'_>, hca: &Hca) -> Option<&'static str> {
    const FAR: &str = "not the nearest NIC of any GPU";
    let own = hca.pci_address.known().map(String::as_str);
    let mut why = None;
    for gpu in topology.gpus.iter().filter(|gpu| gpu.best_nic.is_some()) {
        let nearest = gpu.paths.iter().filter_map(|path| path.distance).min();
        let is_near = |path: &&Path<'_>| path.distance.is_none() || path.distance == nearest;
        let Some(near) = gpu
            .paths
            .iter()
            .filter(is_near)
            .find(|path| Some(path.nic) == own)
        else {
            why = why.or(Some(FAR));
            continue;
        };
        let all = gpu.paths.iter().filter(is_near);
        let fastest = all.filter_map(|path| speed(node, path.nic)).max();
        if speed(node, near.nic).is_none_or(|speed| Some(speed) == fastest) {
            return None;
        }
        why = Some("as near to the GPUs as faster NICs");
    }
    why
}

/// The rate of the fastest active port of a function, in bits per second.
fn speed(node: &Node, address: &str) -> Option<u64> {
    let ports = node.active_ports();
    let own = ports.filter(|port| port.hca.pci_address.known().is_some_and(|own| own == address));
    own.filter_map(|port| port.rate.known().map(|rate| rate.bits_per_second))
        .max()
}

/// Whether a device that was given is a GPU.
fn is_gpu(node: &Node, grant: &Grant) -> bool {
    let functions = node.pci.functions.known();
    let function = functions.zip(grant.pci_address.as_ref());
    function
        .and_then(|(functions, address)| functions.get(address))
        .is_some_and(|function| function.role == Role::Gpu)
}

/// Why no RDMA device belongs to a grant.
fn no_device(node: &Node, grant: &Grant) -> (String, Prospect) {
    if let Some(unread) = node.hcas.unread() {
        return (
            format!("RDMA devices could not be read: {unread}"),
            Prospect::Later,
        );
    }
    if grant.for_rdma == Some(false) {
        return (
            "it has no RDMA device, and its resource has no isRdma in the device plugin's configuration"
                .into(),
            Prospect::NotNeeded,
        );
    }
    (
        "no RDMA device on this node belongs to it: the function does not exist or does not support RDMA, its driver is not \
         loaded, or it is in another network namespace"
            .into(),
        Prospect::Later,
    )
}

/// The GID that a connection should use, and all GIDs of this network namespace.
type Gids<'a> = (Option<&'a Gid>, Vec<Gid>);

/// The best GID of a usable port, and all GIDs of this network namespace; or why the port cannot be used.
fn usable<'a>(port: &Port<'a>, access: &Access) -> Result<Gids<'a>, (String, Prospect)> {
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

/// Whether a grant names this device.
fn is(node: &Node, hca: &Hca, grant: &Grant) -> bool {
    if let Some(device) = &grant.device
        && node.hcas().any(|hca| hca.name == *device)
    {
        return hca.name == *device;
    }
    if let Some(address) = &grant.pci_address {
        return hca.pci_address.known() == Some(address);
    }
    let netdev = |port: &Port<'_>| port.netdev.known().map(|netdev| netdev.name.clone());
    grant.netdev.is_some() && node.ports_of(hca).any(|port| netdev(&port) == grant.netdev)
}

fn name(grant: &Grant) -> &str {
    let names = [&grant.device, &grant.pci_address, &grant.netdev];
    names.into_iter().flatten().next().map_or("", String::as_str)
}

/// Why a device cannot be opened here; `None` if it can, or if that is not known.
fn missing_node(access: &Access, hca: &Hca) -> Option<String> {
    let node = access.uverbs.known()?.get(&hca.name)?;
    let there = match access.nodes.known() {
        Some(nodes) => nodes.contains(node),
        None if access.nodes.is_absent() => false,
        None => return None,
    };
    (!there)
        .then(|| format!("/dev/infiniband/{node} is not in this container: the device was not given to it"))
}

#[cfg(test)]
#[path = "rails_tests.rs"]
mod tests;
