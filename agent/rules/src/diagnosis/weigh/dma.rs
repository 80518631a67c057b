//! The path of DMA: IOMMU, bridges, GPU memory.

use rdma_health_node::{iommu::type_path, nvidia::PeerMemory, pci::Role};

use super::{Case, Scales};
use crate::{diagnosis::symptom::SymptomKind, domain::common::gpus};

pub(in crate::diagnosis) fn iommu(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::IommuFault]).next() {
        scales.shows(&symptom.source, &symptom.text);
    }
    let groups = &case.node.iommu.groups;
    if let Some(unread) = groups.unread() {
        return scales.unseen(format!("the IOMMU groups: {unread}"));
    }
    if groups.known().is_none_or(std::collections::BTreeMap::is_empty) {
        return scales.against("/sys/kernel/iommu_groups", "no group: no IOMMU is in use");
    }
    let rdma = case
        .devices()
        .into_iter()
        .filter_map(|hca| hca.pci_address.known());
    let gpus = gpus(case.node).map(|(address, _)| address);
    let mut passthrough = Vec::new();
    let mut translated = None;
    for address in rdma.chain(gpus) {
        let Some((number, group)) = case.node.iommu.group_of(address) else {
            continue;
        };
        match group.domain.known() {
            Some(domain) if domain.is_translated() => translated = translated.or(Some((number, domain))),
            Some(domain) => passthrough.push((number, domain)),
            None => scales.unseen(format!("{}: how group {number} is translated", type_path(number))),
        }
    }
    match (translated, passthrough.as_slice()) {
        // The finding says it already, unless the profile expects no RDMA.
        (Some((number, domain)), _) if !scales.supported() => {
            scales.shows(type_path(number), domain.as_str());
        }
        (None, [(number, domain), others @ ..]) => {
            let more = if others.is_empty() {
                String::new()
            } else {
                format!(", as are {} more", others.len())
            };
            scales.against(type_path(*number), format!("{}{more}", domain.as_str()));
        }
        (None, []) if case.node.hcas().next().is_some() && scales.unseen.is_empty() => {
            scales.against(
                "/sys/kernel/iommu_groups",
                "no group holds an RDMA function or GPU",
            );
        }
        _ => {}
    }
}

pub(in crate::diagnosis) fn acs(case: &Case<'_>, scales: &mut Scales) {
    let pci = &case.node.pci;
    if let Some(unread) = pci.functions.unread() {
        return scales.unseen(format!("the PCI bridges: {unread}"));
    }
    if case.gpus() == 0 {
        return scales.against(
            "/sys/bus/pci/devices",
            "no GPU, so no traffic between GPU and NIC",
        );
    }
    if case.node.host.virtual_machine.known() == Some(&true) {
        return scales.unseen("ACS on the host below this virtual machine");
    }
    let (mut clear, mut unknown) = (0, 0);
    for (_, bridge) in pci.with_role(Role::Bridge) {
        match bridge.capabilities.known() {
            Some(capabilities) if capabilities.complete => {
                clear += usize::from(
                    !capabilities
                        .acs
                        .is_some_and(rdma_health_node::pci::Acs::redirects),
                );
            }
            _ => unknown += 1,
        }
    }
    let bridges = pci.with_role(Role::Bridge).count();
    if unknown > 0 {
        scales.unseen(format!(
            "ACS of {unknown} of {bridges} PCI bridges: only root reads their whole configuration space"
        ));
    } else if clear == bridges && bridges > 0 && !scales.supported() {
        scales.against(
            "/sys/bus/pci/devices/*/config",
            format!("no redirect on any of {bridges} bridges"),
        );
    } else if bridges == 0 {
        scales.unseen("the PCI bridges above GPU and NIC");
    }
}

pub(in crate::diagnosis) fn peer_memory(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::PeerMemorySymbol]).next() {
        scales.shows(&symptom.source, &symptom.text);
    }
    // EFAULT at registration: a GPU's address where no peer-memory client takes it.
    if let Some(symptom) = case
        .seen(&[SymptomKind::RegMrFailed])
        .find(|symptom| symptom.named.errno == Some(14))
    {
        scales.fits(&symptom.source, "Bad address: the memory is not the host's");
    }
    if case.node.pci.functions.known().is_some() && case.gpus() == 0 {
        return scales.against("/sys/bus/pci/devices", "no GPU");
    }
    match (&case.node.peer_memory.known(), case.node.peer_memory.unread()) {
        (Some(PeerMemory::NvidiaPeermem), _) if !scales.supported() => {
            scales.against("/proc/modules", "nvidia_peermem is loaded");
        }
        (Some(PeerMemory::DmaBuf), _) if !scales.supported() => {
            scales.against(
                "/proc/driver/nvidia/version",
                "the open kernel module, which exports GPU memory as DMA-BUF",
            );
        }
        (Some(PeerMemory::None), _) if !scales.supported() => {
            scales.fits("/proc/modules", "neither nvidia_peermem nor nv_peer_mem");
        }
        (_, Some(unread)) => scales.unseen(format!("the path between GPU and NIC: {unread}")),
        _ => {}
    }
}
