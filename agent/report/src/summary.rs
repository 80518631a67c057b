//! The facts of each domain in one line.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use rdma_health_node::{
    DeviceEvent, Node,
    fact::Unread,
    iommu::DomainType,
    kmsg::{EventClass, EventKind},
    model,
    nvidia::PeerMemory,
    pci::Role,
    words::{bandwidth, count, latency, listed, size},
};
use rdma_health_rules::Domain;

/// The line of one domain.
enum Line {
    /// The facts, or why they are not known.
    There(String),
    /// There are none, worded for a running node.
    Nothing(&'static str),
}

use Line::{Nothing, There};

impl Line {
    fn unread(unread: &Unread) -> Self {
        There(format!("unread: {unread}"))
    }
}

/// The facts of a domain in one line, if they say more than that there is nothing.
pub(super) fn notable(domain: Domain, node: &Node) -> Option<String> {
    let is_empty = match domain {
        Domain::Probe => node.loopbacks().next().is_none(),
        Domain::Reading => node.unread().next().is_none() && node.verbs.unread().is_none(),
        _ => false,
    };
    match line(domain, node) {
        There(line) if !is_empty => Some(line),
        _ => None,
    }
}

/// The facts of a domain in one line.
pub(super) fn of(domain: Domain, node: &Node) -> String {
    match line(domain, node) {
        There(line) => line,
        Nothing(nothing) if node.live => nothing.to_owned(),
        // The copy of a node's files may be incomplete.
        Nothing(nothing) => format!("{nothing}, or not in this tree"),
    }
}

fn line(domain: Domain, node: &Node) -> Line {
    match domain {
        Domain::Iommu => iommu(node),
        Domain::Pci => pci(node),
        Domain::GpuDirect => gpudirect(node),
        Domain::Modules => modules(node),
        Domain::Kernel => kernel(node),
        Domain::Link => link(node),
        Domain::Gids => gids(node),
        Domain::Sriov => sriov(node),
        Domain::Network => network(node),
        Domain::Limits => limits(node),
        Domain::Probe => There(probe(node)),
        Domain::Reading => There(reading(node)),
    }
}

/// What the kernel logged about adapters.
fn kernel(node: &Node) -> Line {
    if let Some(unread) = node.kernel_log.unread() {
        return Line::unread(unread);
    }
    if node.kernel_log.is_absent() {
        return Nothing("no kernel log");
    }
    let events = node.device_events();
    let (harmless, faults): (Vec<_>, Vec<_>) = events
        .iter()
        .filter(|found| found.event.kind.class() == EventClass::Fault && !found.is_over)
        .partition(|found| {
            found.event.kind == EventKind::PciPower && node.has_usual_power(&found.event.message)
        });
    let names: BTreeSet<_> = faults.iter().map(|fault| fault.subject()).collect();
    if !names.is_empty() {
        let names = listed(names.iter().map(String::as_str));
        return There(format!("faults of {names} in the log"));
    }
    let unknown: BTreeSet<_> = events
        .iter()
        .filter(|found| found.event.kind == EventKind::DriverError && !found.is_over)
        .map(DeviceEvent::subject)
        .collect();
    There(if unknown.is_empty() && !harmless.is_empty() {
        "no fault of an adapter in the log; the low power that the board announces is normal for a GB10"
            .to_owned()
    } else if unknown.is_empty() {
        "no fault of an adapter in the log".to_owned()
    } else {
        let names = listed(unknown.iter().map(String::as_str));
        format!("errors of {names} in the log that this program does not know")
    })
}

/// The line if the PCI functions are not known.
fn without_functions(node: &Node, nothing: &'static str) -> Option<Line> {
    match (node.pci.functions.known(), node.pci.functions.unread()) {
        (Some(_), _) => None,
        (None, Some(unread)) => Some(Line::unread(unread)),
        (None, None) => Some(Nothing(nothing)),
    }
}

fn iommu(node: &Node) -> Line {
    let groups = match (node.iommu.groups.known(), node.iommu.groups.unread()) {
        (_, Some(unread)) => return Line::unread(unread),
        (Some(groups), _) if !groups.is_empty() => groups,
        _ => return Nothing("no active IOMMU"),
    };
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for function in node.dma_functions().filter(|function| function.group.is_some()) {
        let domain = function.dma.map_or("unknown", DomainType::as_str);
        *types.entry(domain).or_default() += function.names.len().max(1);
    }
    if types.is_empty() {
        return There(format!(
            "{}, none with an RDMA function or a GPU",
            count(groups.len(), "group")
        ));
    }
    let types: Vec<_> = types
        .iter()
        .map(|(domain, number)| format!("{number} of type {domain}"))
        .collect();
    There(format!("RDMA functions and GPUs: {}", types.join(", ")))
}

fn gpudirect(node: &Node) -> Line {
    if let Some(line) = without_functions(node, "no GPU") {
        return line;
    }
    let gpus = node.gpus().count();
    if gpus == 0 {
        return Nothing("no GPU");
    }
    let is_nvidia = |gpu: &rdma_health_node::Function<'_>| {
        gpu.pci
            .is_some_and(|pci| pci.vendor.known() == Some(&model::NVIDIA))
    };
    // Other drivers serve NICs without a separate module, which is not judged.
    if !node.gpus().any(|gpu| is_nvidia(&gpu)) {
        return There(count(gpus, "GPU"));
    }
    let path = match node.peer_memory.known() {
        Some(PeerMemory::NvidiaPeermem) => "nvidia_peermem",
        Some(PeerMemory::NvPeerMem) => "nv_peer_mem",
        Some(PeerMemory::EfaNvPeermem) => "efa_nv_peermem",
        Some(PeerMemory::DmaBuf) => "DMA-BUF",
        Some(PeerMemory::None) => "no path to NICs",
        None => "path to NICs unread",
    };
    There(format!("{}, {path}", count(gpus, "GPU")))
}

fn link(node: &Node) -> Line {
    if let Some(unread) = node.hcas.unread() {
        return Line::unread(unread);
    }
    let devices = node.hcas().count();
    if devices == 0 {
        return Nothing("no RDMA device");
    }
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for port in node.hcas().flat_map(|hca| hca.ports.values()) {
        *states
            .entry(port.state.known().map_or("unread", |state| state.name.as_str()))
            .or_default() += 1;
    }
    let states: Vec<_> = states
        .iter()
        .map(|(state, number)| format!("{number} {state}"))
        .collect();
    let devices = count(devices, "RDMA device");
    if states.is_empty() {
        return There(format!("{devices}, no ports"));
    }
    let efa_note = if node.ports().all(|port| port.reports_link_state()) {
        ""
    } else {
        " (the driver efa always reports ACTIVE)"
    };
    There(format!("{devices}, ports: {}{efa_note}", states.join(", ")))
}

fn pci(node: &Node) -> Line {
    let Some(functions) = node.pci.functions.known() else {
        return match node.pci.functions.unread() {
            Some(unread) => Line::unread(unread),
            None => Nothing("no PCI"),
        };
    };
    let number = |role| {
        functions
            .values()
            .filter(|function| function.role == role)
            .count()
    };
    let links = functions
        .values()
        .filter(|function| function.link.speed.known().is_some())
        .count();
    There(format!(
        "{}, {}, {} above them, PCIe link known for {links}",
        count(number(Role::Rdma), "RDMA function"),
        count(number(Role::Gpu), "GPU"),
        count(number(Role::Bridge), "bridge")
    ))
}

fn modules(node: &Node) -> Line {
    let Some(loaded) = node.modules.loaded.known() else {
        return match node.modules.loaded.unread() {
            Some(unread) => Line::unread(unread),
            None => Nothing("kernel without loadable modules"),
        };
    };
    let stack = if node.modules.is_ofed() == Some(true) {
        "MLNX_OFED or DOCA"
    } else {
        "in-kernel"
    };
    let mut drivers: Vec<_> = node
        .hcas()
        .filter_map(|hca| hca.driver.known())
        .map(String::as_str)
        .collect();
    drivers.sort_unstable();
    drivers.dedup();
    if drivers.is_empty() {
        return There(format!(
            "{} for RDMA or GPUs loaded",
            count(loaded.len(), "module")
        ));
    }
    let namespaces = match node.modules.exclusive_namespaces.known() {
        Some(true) => ", each network namespace has its own RDMA devices",
        _ => "",
    };
    There(format!(
        "RDMA stack: {stack}, drivers: {}{namespaces}",
        drivers.join(", ")
    ))
}

fn gids(node: &Node) -> Line {
    let (mut ports, mut entries) = (0, 0);
    for table in node.ports().filter_map(|port| port.gids()) {
        ports += 1;
        entries += table.len();
    }
    if ports == 0 {
        return Nothing("no GID table");
    }
    There(format!("{} on {}", count(entries, "GID"), count(ports, "port")))
}

fn sriov(node: &Node) -> Line {
    if let Some(line) = without_functions(node, "no RDMA function with SR-IOV") {
        return line;
    }
    let functions = node.functions();
    let sriov = functions
        .iter()
        .filter(|function| function.role == Role::Rdma)
        .filter_map(|function| function.pci?.sriov.known());
    let (mut physical, mut active) = (0, 0);
    for one in sriov {
        physical += 1;
        active += one.functions.len();
    }
    if physical == 0 {
        return Nothing("no RDMA function with SR-IOV");
    }
    There(format!(
        "{} on {}",
        count(active, "virtual function"),
        count(physical, "physical function")
    ))
}

fn network(node: &Node) -> Line {
    match (node.network.subnets.known(), node.network.subnets.unread()) {
        (_, Some(unread)) => Line::unread(unread),
        (Some(subnets), _) if !subnets.is_empty() => {
            let different: BTreeSet<_> = subnets
                .iter()
                .map(|subnet| (subnet.address, subnet.prefix))
                .collect();
            There(format!(
                "{} on RDMA network devices",
                count(different.len(), "IPv4 subnet")
            ))
        }
        _ => Nothing("no IPv4 subnet on RDMA network devices"),
    }
}

fn limits(node: &Node) -> Line {
    if let Some(unread) = node.limits.runtimes.unread() {
        return Line::unread(unread);
    }
    let Some(runtimes) = node.limits.runtimes.known().filter(|all| !all.is_empty()) else {
        return Nothing("no container runtime");
    };
    let one = |runtime: &rdma_health_node::limits::Runtime| {
        let limit = match runtime.memlock.known() {
            Some(limit) => limit.soft.map_or("unlimited".into(), size),
            None => "unread".into(),
        };
        format!("{}: memlock {limit}", runtime.name)
    };
    There(runtimes.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn probe(node: &Node) -> String {
    if node.loopbacks().next().is_none() {
        return "no probe has run".into();
    }
    let rates = || {
        node.loopbacks()
            .filter_map(|probe| Some(probe.report.bandwidth.as_ref()?.bytes_per_second))
    };
    let latencies = || {
        node.loopbacks()
            .filter_map(|probe| Some(probe.report.latency.as_ref()?.median))
    };
    let good = node
        .loopbacks()
        .filter(|probe| probe.report.failure.is_none())
        .count();
    let mut words = format!(
        "{good} of {} passed",
        count(node.loopbacks().count(), "loopback write")
    );
    if good > 0 {
        let slowest = rates().fold(f64::INFINITY, f64::min);
        let longest = latencies().fold(0.0, f64::max);
        // Writing to a string cannot fail.
        let _ = write!(
            words,
            ", at least {}, latency at most {}",
            bandwidth(slowest),
            latency(longest)
        );
    }
    words
}

fn reading(node: &Node) -> String {
    let unread = node.unread().count() + usize::from(node.verbs.unread().is_some());
    if unread == 0 {
        let all = if node.live {
            "all facts"
        } else {
            "all files of this tree"
        };
        format!("{all} could be read")
    } else {
        format!("{} could not be read", count(unread, "fact"))
    }
}
