//! The way between GPUs and NICs through the PCIe fabric.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{
    Node,
    pci::{Function, Role},
};

use super::{
    common::{count, gpus, in_virtual_machine, is_virtual},
    pci_link::below_software,
};
use crate::{Domain, Expectations, Finding, Profile, Remedy, Rule, Severity, Subject};

const DEVICES: &str = "/sys/bus/pci/devices";

/// `acs-redirect`.
pub(crate) static ACS_REDIRECT: Rule = Rule {
    id: "acs-redirect",
    domain: Domain::Pci,
    severity: Severity::Warning,
    title: "A PCIe switch sends traffic between a GPU and its NIC through the root complex",
    explanation: "Access Control Services (ACS) redirect peer-to-peer requests or completions at a port between the two. The \
        transfer then crosses the processor's root complex twice: GPUDirect runs at a fraction of its bandwidth, and with an \
        IOMMU in the way it may end with IBV_WC_LOC_PROT_ERR(4) vendor_err=81. While an IOMMU is on, the kernel itself switches \
        ACS on at every port that has it, so that groups are small; firmware does it on many servers, too.",
    remedy: Remedy {
        any: "On a node whose devices are not handed to virtual machines, switch redirection off: in the machine's firmware \
            setup (ACS control), or with the kernel argument pci=config_acs=xxx000x@PORT;… (Linux 6.11) or pci=disable_acs_redir=PORT;… \
            (Linux 4.19). With the IOMMU off altogether the kernel leaves ACS alone.",
        openshift: "Put the argument into a MachineConfig's kernelArguments.",
        kubernetes: "",
        host: "Until the next boot, per port: setpci -s PORT ECAP_ACS+6.w=0000.",
    },
    false_alarms: "In a virtual machine ACS is needed and is no finding. Only ports between a GPU and an RDMA function below one \
        switch count, and no GPU that vfio-pci holds for a virtual machine. Silent where the profile says that GPUDirect is not expected.",
    judge: acs_redirect,
};

fn acs_redirect(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    if in_virtual_machine(node) || matches!(expectations.profile, Profile::Rdma | Profile::TcpOnly) {
        return Vec::new();
    }
    let Some(functions) = node.pci.functions.known() else {
        return Vec::new();
    };
    // Each port that redirects, with the GPUs and NICs that it stands between.
    let mut found: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for (gpu_address, gpu) in gpus(node) {
        for (nic_address, nic) in nics(node) {
            for bridge in between(gpu, nic) {
                let acs = functions
                    .get(bridge)
                    .and_then(|bridge| bridge.capabilities.known()?.acs);
                if acs.is_some_and(rdma_health_node::pci::Acs::redirects) {
                    found
                        .entry(bridge)
                        .or_default()
                        .insert((gpu_address, nic_address));
                }
            }
        }
    }
    let iommu = node.iommu.groups.known().is_some_and(|groups| !groups.is_empty());
    let judged = found.into_iter().map(|(bridge, pairs)| {
        let names: Vec<_> = pairs
            .iter()
            .take(4)
            .map(|(gpu, nic)| format!("GPU {gpu} and {nic}"))
            .collect();
        let more = if pairs.len() > 4 {
            format!(" and {} more", pairs.len() - 4)
        } else {
            String::new()
        };
        let message = format!(
            "PCIe port {bridge} redirects traffic between {}{more}",
            names.join(", ")
        );
        let acs = functions
            .get(bridge)
            .and_then(|bridge| bridge.capabilities.known()?.acs);
        let control = acs.map_or(0, |acs| acs.control);
        let mut finding = Finding::new(&ACS_REDIRECT, Subject::device(bridge), message).evidence(
            format!("{DEVICES}/{bridge}/config"),
            format!("ACS control {control:#06x}"),
        );
        if iommu {
            finding = finding.evidence(
                "/sys/kernel/iommu_groups",
                "an IOMMU is on, so the kernel switches ACS on wherever it can",
            );
        }
        finding
    });
    judged.collect()
}

/// RDMA functions in hardware that are no virtual functions.
fn nics(node: &Node) -> impl Iterator<Item = (&str, &Function)> {
    node.pci
        .with_role(Role::Rdma)
        .filter(|(address, function)| {
            function.physical_function.known().is_none() && !below_software(node, address)
        })
        .map(|(address, function)| (address.as_str(), function))
}

/// The ports that traffic passes between two functions below one switch: those below the last bridge that both share.
/// None where they share no bridge.
fn between<'a>(a: &'a Function, b: &'a Function) -> impl Iterator<Item = &'a str> {
    let shared = a
        .bridges
        .iter()
        .zip(&b.bridges)
        .take_while(|(a, b)| a == b)
        .count();
    let skip = if shared == 0 { usize::MAX } else { shared };
    a.bridges
        .iter()
        .skip(skip)
        .chain(b.bridges.iter().skip(skip))
        .map(String::as_str)
}

/// `gpu-without-local-nic`.
pub(crate) static GPU_WITHOUT_LOCAL_NIC: Rule = Rule {
    id: "gpu-without-local-nic",
    domain: Domain::Pci,
    severity: Severity::Info,
    title: "A GPU has no RDMA function near it",
    explanation: "No RDMA function in hardware lies below the same PCIe switch or on the same NUMA node as the GPU. Its traffic \
        crosses the link between processors, which costs bandwidth and latency and is shared by all. A warning where GPUDirect \
        is expected (profile gpudirect); for information otherwise.",
    remedy: Remedy {
        any: "Move a NIC to a slot of the GPU's side. Until then pin the job's ranks to GPUs with a near NIC first. If a NIC \
            should be there, look for rdma-modules-missing, hcas-missing and iommu groups handed to vfio-pci.",
        ..Remedy::all("")
    },
    false_alarms: "Silent in virtual machines, whose topology is made up, where the firmware names no NUMA node, and where no \
        RDMA function exists at all.",
    judge: gpu_without_local_nic,
};

fn gpu_without_local_nic(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let severity = match expectations.profile {
        Profile::GpuDirect => Severity::Warning,
        Profile::Auto => Severity::Info,
        Profile::Rdma | Profile::TcpOnly => return Vec::new(),
    };
    let nics: Vec<_> = nics(node).collect();
    if in_virtual_machine(node)
        || nics.is_empty()
        || node.hcas().all(|hca| hca.is_software() || is_virtual(hca))
    {
        return Vec::new();
    }
    let unknown = |function: &Function| function.numa_node.known().is_none();
    if nics.iter().any(|(_, nic)| unknown(nic)) {
        return Vec::new();
    }
    let lonely = gpus(node).filter(|(_, gpu)| {
        let near = |(_, nic): &(&str, &Function)| {
            nic.numa_node.known() == gpu.numa_node.known() || between(gpu, nic).next().is_some()
        };
        !unknown(gpu) && !nics.iter().any(near)
    });
    let found = lonely.map(|(address, gpu)| {
        let numa = gpu.numa_node.known().copied().unwrap_or_default();
        let message = format!(
            "GPU {address} is on NUMA node {numa}, none of {} is",
            count(nics.len(), "RDMA function")
        );
        let mut finding = Finding::new(&GPU_WITHOUT_LOCAL_NIC, Subject::device(address), message)
            .severity(severity)
            .evidence(format!("{DEVICES}/{address}/numa_node"), numa);
        for (nic, function) in nics.iter().take(4) {
            let numa = function.numa_node.known().copied().unwrap_or_default();
            finding = finding.evidence(format!("{DEVICES}/{nic}/numa_node"), numa);
        }
        finding
    });
    found.collect()
}
