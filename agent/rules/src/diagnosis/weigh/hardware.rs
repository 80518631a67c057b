//! The adapter's slot, and the processor beside it.

use rdma_health_node::infiniband::CLASS;

use super::{Case, Scales};

pub(in crate::diagnosis) fn pci_path(case: &Case<'_>, scales: &mut Scales) {
    if scales.supported() {
        return;
    }
    let functions = case.node.pci.functions.known();
    for hca in case.devices() {
        // A virtual function has no link of its own.
        let address = hca.physical_function.known().or(hca.pci_address.known());
        let Some((address, link)) =
            address.and_then(|address| Some((address, &functions?.get(address)?.link)))
        else {
            scales.unseen(format!("the PCIe link of {}", hca.name));
            continue;
        };
        match (link.speed.known(), link.width.known()) {
            // Were it less than it could be, that would be a finding.
            (Some(speed), Some(width)) => scales.against(
                format!("/sys/bus/pci/devices/{address}/current_link_speed"),
                format!(
                    "{}.{} GT/s, {width} lanes, no less than both ends can",
                    speed / 1000,
                    speed % 1000 / 100
                ),
            ),
            // Software devices, and those of virtual machines, have no link.
            _ => scales.unseen(format!("the PCIe link of {address}")),
        }
    }
    // One fact is enough to speak against it.
    scales.contradicts.truncate(1);
    scales.score = scales.score.max(super::AGAINST);
}

pub(in crate::diagnosis) fn host_load(case: &Case<'_>, scales: &mut Scales) {
    for probe in &case.node.probes {
        let report = &probe.report;
        let own = case.devices().into_iter().find(|hca| hca.name == report.device);
        let near = own.and_then(|hca| hca.numa_node.known().copied());
        if let (Some(used), Some(near)) = (report.numa_node, near)
            && used != near
        {
            scales.fits(
                format!("probe of {}", report.device),
                format!("made on NUMA node {used}, the adapter is on {near}"),
            );
        }
    }
    scales.unseen("load and power settings of the processor: cpupower idle-info, uptime");
}

pub(in crate::diagnosis) fn software(case: &Case<'_>, scales: &mut Scales) {
    let devices = case.devices();
    if scales.supported() || devices.is_empty() {
        return;
    }
    match devices.iter().find(|hca| hca.is_software()) {
        Some(hca) => scales.shows(format!("{CLASS}/{}", hca.name), "made by software"),
        None => scales.against(CLASS, "each device has a driver for hardware"),
    }
}
