//! Expectations taken from the current state of a node.

use std::collections::BTreeSet;

use rdma_health_node::{DmaMode, Node, Port, nvidia::PeerMemory, pci::Role};

use super::{Expectations, MTUS, Profile, is_device_or_port};

impl Expectations {
    /// The current state of `node` as what is expected of it from now on. What is unknown, or differs between ports, is not
    /// expected; neither are [`unnameable_ports`].
    pub fn baseline(node: &Node) -> Self {
        let hardware: Vec<_> = node
            .hcas()
            .filter(|hca| !hca.is_software() && !hca.is_virtual())
            .collect();
        let active: Vec<_> = active(node).collect();
        let rates = active.iter().filter_map(|port| port.rate.known());
        let mtus = active.iter().filter_map(|port| {
            let mtu = port.verbs?.active_mtu;
            MTUS.contains(&mtu).then_some(mtu)
        });
        let indices = active
            .iter()
            .filter(|port| port.is_ethernet())
            .filter_map(Port::routable_gid)
            .map(|gid| gid.index);
        let vfs: u32 = node
            .functions()
            .iter()
            .filter(|function| function.role == Role::Rdma)
            .filter_map(|function| Some(function.pci?.sriov.known()?.active))
            .sum();
        Self {
            profile: profile(node, !hardware.is_empty()),
            ports_up: active
                .iter()
                .map(ToString::to_string)
                .filter(|port| is_device_or_port(port))
                .collect(),
            hcas: u32::try_from(hardware.len()).ok().filter(|count| *count > 0),
            rate_gbps: rates
                .map(|rate| rate.bits_per_second / 1_000_000_000)
                .min()
                .and_then(|rate| u32::try_from(rate).ok()),
            mtu: mtus.min(),
            driver: only(hardware.iter().filter_map(|hca| hca.driver.known().cloned())),
            gid_index: only(indices),
            passthrough: match node.dma_mode() {
                Some(DmaMode::Passthrough) => Some(true),
                Some(DmaMode::Translated) => Some(false),
                Some(DmaMode::NoIommu | DmaMode::Other) | None => None,
            },
            vfs: (vfs > 0).then_some(vfs),
            ..Self::default()
        }
    }
}

/// Active ports that no expectation can name, because an administrator gave their device a name with unusual characters
/// (`rdma dev set DEVICE name NAME` allows all but `/`).
pub fn unnameable_ports(node: &Node) -> impl Iterator<Item = String> {
    active(node)
        .map(|port| port.to_string())
        .filter(|port| !is_device_or_port(port))
}

/// The active ports in hardware that the host uses.
fn active(node: &Node) -> impl Iterator<Item = Port<'_>> {
    node.active_ports()
        .filter(|port| !port.hca.is_software() && !port.hca.is_virtual())
}

fn profile(node: &Node, hardware: bool) -> Profile {
    let gpus = node.gpus().next().is_some();
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

/// The value, if all are the same.
fn only<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut values: BTreeSet<T> = values.collect();
    let first = values.pop_first()?;
    values.is_empty().then_some(first)
}
