//! Expectations taken from a node as it is now.

use std::collections::BTreeSet;

use rdma_health_node::{Node, nvidia::PeerMemory, pci::Role};
use rdma_health_protocol::GidType;

use super::{Expectations, MTUS, Profile};
use crate::domain::common::{is_ethernet, is_virtual};

impl Expectations {
    /// What `node` is like now, as what is expected of it from now on. What cannot be told, or differs between ports, is
    /// not expected.
    pub fn baseline(node: &Node) -> Self {
        let hardware: Vec<_> = node
            .hcas()
            .filter(|hca| !hca.is_software() && !is_virtual(hca))
            .collect();
        let active: Vec<_> = node
            .active_ports()
            .filter(|(hca, ..)| !hca.is_software() && !is_virtual(hca))
            .collect();
        let rates = active.iter().filter_map(|(.., port)| port.rate.known());
        let mtus = active.iter().filter_map(|(hca, number, _)| {
            let mtu = node.verbs_port(&hca.name, *number)?.active_mtu;
            MTUS.contains(&mtu).then_some(mtu)
        });
        let indices = active
            .iter()
            .filter(|(.., port)| is_ethernet(port))
            .filter_map(|(hca, number, _)| {
                let mut gids = node.gids(&hca.name, *number)?.iter();
                gids.find(|gid| gid.kind == GidType::RoceV2 && gid.is_ipv4_mapped())
                    .map(|gid| gid.index)
            });
        let vfs: u32 = node
            .pci
            .with_role(Role::Rdma)
            .filter_map(|(_, function)| Some(function.sriov.known()?.active))
            .sum();
        Self {
            profile: profile(node, !hardware.is_empty()),
            ports_up: active
                .iter()
                .map(|(hca, number, _)| format!("{}:{number}", hca.name))
                .collect(),
            hcas: u32::try_from(hardware.len()).ok().filter(|count| *count > 0),
            rate_gbps: rates
                .map(|rate| rate.bits_per_second / 1_000_000_000)
                .min()
                .and_then(|rate| u32::try_from(rate).ok()),
            mtu: mtus.min(),
            driver: only(hardware.iter().filter_map(|hca| hca.driver.known().cloned())),
            gid_index: only(indices),
            passthrough: passthrough(node),
            vfs: (vfs > 0).then_some(vfs),
            ..Self::default()
        }
    }
}

fn profile(node: &Node, hardware: bool) -> Profile {
    let gpus = node.pci.with_role(Role::Gpu).next().is_some();
    let path = node
        .peer_memory
        .known()
        .is_some_and(|path| *path != PeerMemory::None);
    match (hardware, gpus && path) {
        (true, true) => Profile::GpuDirect,
        (true, false) => Profile::Rdma,
        (false, _) if node.hcas.unread().is_none() && node.hcas().next().is_none() => Profile::TcpOnly,
        (false, _) => Profile::Auto,
    }
}

/// Whether all groups of RDMA functions and GPUs are passthrough; `None` where none is known.
fn passthrough(node: &Node) -> Option<bool> {
    let rdma = node.hcas().filter_map(|hca| hca.pci_address.known());
    let gpus = node.pci.with_role(Role::Gpu).map(|(address, _)| address);
    let translated: Vec<bool> = rdma
        .chain(gpus)
        .filter_map(|address| Some(node.iommu.group_of(address)?.1.domain.known()?.is_translated()))
        .collect();
    (!translated.is_empty()).then(|| !translated.contains(&true))
}

/// The value, where all are the same.
fn only<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: BTreeSet<T> = values.collect();
    let first = values.pop_first()?;
    values.is_empty().then_some(first)
}
