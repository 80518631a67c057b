//! The path between GPUs and NICs through the PCIe fabric.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{
    Function, Node,
    topology::Distance,
    words::{and_more, count},
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, domain::lost,
    draft::Draft, policy::Exception, remedy::kernel_argument,
};

const DEVICES: &str = "/sys/bus/pci/devices";

/// `acs-redirect`.
pub static ACS_REDIRECT: Rule = Rule {
    id: "acs-redirect",
    domain: Domain::Pci,
    policy: Policy::of(Severities::WARNING.not_rdma()),
    title: "ACS redirects traffic between a GPU and its NIC through the root complex",
    explanation: "Access Control Services (ACS) at a PCIe port between GPU and NIC redirect peer-to-peer requests or \
        completions. The transfer then crosses the root complex of the processor twice: GPUDirect runs at a fraction \
        of its bandwidth, and with an IOMMU in the path it may fail with IBV_WC_LOC_PROT_ERR(4) vendor_err=81. While \
        an IOMMU is on, the kernel enables ACS at every port that supports it, to keep IOMMU groups small. The \
        firmware of many servers enables it too.",
    remedy: Remedy {
        any: "If the node does not pass devices to virtual machines, disable ACS redirection in the firmware setup \
            (ACS control) or with a kernel argument: pci=config_acs=xxx000x@PORT (Linux 6.11 or later) or \
            pci=disable_acs_redir=PORT (Linux 4.19 or later). Separate several ports with semicolons. With the IOMMU \
            off, the kernel does not enable ACS.",
        openshift: "Add the argument to the kernelArguments of a MachineConfig.",
        host: "Until the next boot, for each port: setpci -s PORT ECAP_ACS+6.w=0000",
        ..Remedy::all("")
    },
    false_alarms: "Virtual machines need ACS and are not judged. Only ports between a GPU and an RDMA device below \
        one switch are judged. GPUs that are bound to vfio-pci for a virtual machine are ignored.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: acs_redirect,
};

fn acs_redirect(node: &Node, _: &Expectations) -> Vec<Draft> {
    if node.is_virtual_machine() {
        return Vec::new();
    }
    let Some(functions) = node.pci.functions.known() else {
        return Vec::new();
    };
    // Each port that redirects, with the GPUs and NICs on either side of it.
    let mut found: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for gpu in node.topology().gpus {
        for path in gpu.paths {
            for bridge in path.acs_redirect {
                let pair = (gpu.function.address, path.nic);
                found.entry(bridge).or_default().insert(pair);
            }
        }
    }
    let ports: Vec<&str> = found.keys().copied().collect();
    let remedy = without_redirection(node, &ports);
    let iommu = node.iommu.groups.known().is_some_and(|groups| !groups.is_empty());
    let judged = found.into_iter().map(|(bridge, pairs)| {
        let names: Vec<_> = pairs
            .iter()
            .take(4)
            .map(|(gpu, nic)| format!("GPU {gpu} and NIC {nic}"))
            .collect();
        let message = format!(
            "PCIe port {bridge} redirects peer-to-peer traffic (ACS) between {}{}",
            names.join(", "),
            and_more(pairs.len() - names.len())
        );
        let acs = functions
            .get(bridge)
            .and_then(|bridge| bridge.capabilities.known()?.acs);
        let control = acs.map_or(0, |acs| acs.control);
        let mut finding = Draft::new(&ACS_REDIRECT, Subject::device(bridge), message)
            .written_remedy(remedy.clone())
            .evidence(
                format!("{DEVICES}/{bridge}/config"),
                format!("ACS control {control:#06x}"),
            );
        if iommu {
            finding = finding.evidence(
                "/sys/kernel/iommu_groups",
                "an IOMMU is on, so the kernel enables ACS wherever it can",
            );
        }
        finding
    });
    judged.collect()
}

/// How to disable ACS redirection at these ports, now and at the next boot; `None` if too little is known about the node.
fn without_redirection(node: &Node, ports: &[&str]) -> Option<String> {
    /// More ports than a kernel command line should name.
    const MOST: usize = 32;
    let platform = node.platform();
    if ports.len() > MOST {
        return None;
    }
    let argument = format!("pci=disable_acs_redir={}", ports.join(";"));
    // A boot loader's configuration takes a semicolon for the end of a command.
    let commands = match ports {
        [_] => kernel_argument::add(&argument, platform),
        _ => format!("# kernel argument, with the semicolons quoted as the boot loader needs it: {argument}"),
    };
    Some(format!(
        "If the node does not pass devices to virtual machines, disable ACS redirection: in the firmware setup (ACS control), \
        until the next boot with the first command, or with a kernel argument.\n\
        for port in {}; do setpci -s $port ECAP_ACS+6.w=0000; done\n{commands}",
        ports.join(" ")
    ))
}

/// `gpu-without-local-nic`.
pub static GPU_WITHOUT_LOCAL_NIC: Rule = Rule {
    id: "gpu-without-local-nic",
    domain: Domain::Pci,
    policy: Policy::of(Severities::INFO.not_rdma().gpudirect(Severity::Warning)).except(&[&ELSEWHERE]),
    title: "A GPU has no RDMA device on its NUMA node or at its PCIe switch",
    explanation: "No physical RDMA device is below the same PCIe switch or on the same NUMA node as the GPU. Or the PCIe switches of all other \
        GPUs have an adapter, and the adapter that is missing here is elsewhere. RDMA traffic of the GPU crosses the link between the CPU sockets, which costs bandwidth and latency and is shared \
        by all devices.",
    remedy: Remedy::all(
        "Move a NIC to a slot on the side of the GPU. Until then, use the GPUs with a local NIC first (nvidia-smi \
        topo -m shows them). If a NIC should be there, check rdma-modules-missing, hcas-missing and devices that are \
        bound to vfio-pci.",
    ),
    false_alarms: "Silent in virtual machines, whose topology is made up, if the firmware reports no NUMA nodes, and \
        on nodes without a physical RDMA device.",
    inputs: &[Writer::Hardware],
    judge: gpu_without_local_nic,
};

static ELSEWHERE: Exception = Exception {
    condition: "if the PCIe switches of all other GPUs have an adapter, and an equal one is elsewhere",
    severities: Severities::WARNING,
};

/// The GPU whose adapter is not at its switch, as those of all other GPUs are.
fn adapter_elsewhere(node: &Node) -> Option<Draft> {
    let place = lost::empty_switch(node)?;
    let elsewhere = place.elsewhere?;
    let (gpu, root) = (place.gpu, place.root);
    let message = format!(
        "GPU {gpu} has no adapter at its PCIe switch (root port {root}); {} of {} switches with GPUs have one, and an equal adapter, {elsewhere}, \
         is elsewhere",
        place.of - 1,
        place.of
    );
    Some(
        Draft::new(&GPU_WITHOUT_LOCAL_NIC, Subject::device(gpu), message)
            .exception(&ELSEWHERE)
            .remedy(MOVE)
            .evidence(
                format!("/sys/bus/pci/devices below {root}"),
                "no network function that supports RDMA",
            )
            .evidence(format!("{DEVICES}/{elsewhere}"), "not below a switch with GPUs"),
    )
}

/// What to do about an adapter in another slot.
const MOVE: Remedy = Remedy::all(
    "Move the adapter to the slot at the GPU's switch, as for the other GPUs (nvidia-smi topo -m shows the distances). Until then, traffic of \
    this GPU crosses the CPU.",
);

fn gpu_without_local_nic(node: &Node, _: &Expectations) -> Vec<Draft> {
    let elsewhere = adapter_elsewhere(node);
    if elsewhere.is_some() {
        return elsewhere.into_iter().collect();
    }
    let nics: Vec<_> = node.nics().collect();
    if node.is_virtual_machine()
        || nics.is_empty()
        || node.hcas().all(|hca| hca.is_software() || hca.is_virtual())
    {
        return Vec::new();
    }
    let numa_file = |function: &Function<'_>| format!("{DEVICES}/{}/numa_node", function.address);
    let numa_of_nics: Option<Vec<_>> = nics.iter().map(Function::numa_node).collect();
    let Some(numa_of_nics) = numa_of_nics else {
        return Vec::new();
    };
    let others: BTreeSet<_> = numa_of_nics.iter().map(ToString::to_string).collect();
    let others: Vec<_> = others.into_iter().collect();
    let found = node.topology().gpus.into_iter().filter_map(|gpu| {
        let numa = gpu.function.numa_node()?;
        let near = |distance: Option<Distance>| distance.is_some_and(|distance| distance < Distance::Sys);
        if gpu.paths.iter().any(|path| near(path.distance)) {
            return None;
        }
        let address = gpu.function.address;
        let message = format!(
            "GPU {address} is on NUMA node {numa}, {} on NUMA node {}",
            count(nics.len(), "RDMA device"),
            others.join(" and ")
        );
        let mut finding = Draft::new(&GPU_WITHOUT_LOCAL_NIC, Subject::device(address), message)
            .evidence(numa_file(&gpu.function), numa);
        for (nic, numa) in nics.iter().zip(&numa_of_nics).take(4) {
            finding = finding.evidence(numa_file(nic), numa);
        }
        Some(finding)
    });
    found.collect()
}
