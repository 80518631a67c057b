//! One line per domain that says what is there.

use std::{collections::BTreeMap, fmt::Write};

use rdma_health_node::{Node, fact::Unread, nvidia::PeerMemory, pci::Role};
use rdma_health_rules::{Domain, size_in_words};

use super::{count, gigabits, seconds};

/// What one domain has to say.
enum Line {
    /// What is there, or why that is not known.
    There(String),
    /// That nothing is there, in the words for a running node.
    Nothing(&'static str),
}

use Line::{Nothing, There};

impl Line {
    fn unread(unread: &Unread) -> Self {
        There(format!("unread: {unread}"))
    }
}

/// What is there, in one line.
pub(super) fn of(domain: Domain, node: &Node) -> String {
    let line = match domain {
        Domain::Iommu => iommu(node),
        Domain::Pci => pci(node),
        Domain::GpuDirect => gpudirect(node),
        Domain::Modules => modules(node),
        Domain::Link => link(node),
        Domain::Gids => gids(node),
        Domain::Sriov => sriov(node),
        Domain::Network => network(node),
        Domain::Limits => limits(node),
        Domain::Probe => There(probe(node)),
        Domain::Reading => There(reading(node)),
    };
    match line {
        There(line) => line,
        Nothing(nothing) if node.live => nothing.to_owned(),
        // A copy may lack what its node has.
        Nothing(nothing) => format!("{nothing}, or not in this tree"),
    }
}

/// What is to be said where the PCI functions are not known.
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
        _ => return Nothing("no IOMMU in use"),
    };
    let gpus = node.pci.with_role(Role::Gpu).map(|(address, _)| address.as_str());
    let rdma = node
        .hcas()
        .filter_map(|hca| hca.pci_address.known())
        .map(String::as_str);
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for address in rdma.chain(gpus) {
        if let Some((_, group)) = node.iommu.group_of(address) {
            *types
                .entry(
                    group
                        .domain
                        .known()
                        .map_or("of unknown type", |domain| domain.as_str()),
                )
                .or_default() += 1;
        }
    }
    if types.is_empty() {
        return There(format!(
            "{}, none of an RDMA function or GPU",
            count(groups.len(), "group")
        ));
    }
    let types: Vec<_> = types
        .iter()
        .map(|(domain, number)| format!("{number} in {domain}"))
        .collect();
    There(format!("RDMA functions and GPUs: {}", types.join(", ")))
}

fn gpudirect(node: &Node) -> Line {
    if let Some(line) = without_functions(node, "no GPU") {
        return line;
    }
    let gpus = node.pci.with_role(Role::Gpu).count();
    if gpus == 0 {
        return There("no GPU".into());
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
        return There(format!("{devices}, no port of theirs"));
    }
    There(format!("{devices}, ports: {}", states.join(", ")))
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
        "{}, {}, {} above, {links} with a known link",
        count(number(Role::Rdma), "RDMA function"),
        count(number(Role::Gpu), "GPU"),
        count(number(Role::Bridge), "bridge")
    ))
}

fn modules(node: &Node) -> Line {
    let Some(loaded) = node.modules.loaded.known() else {
        return match node.modules.loaded.unread() {
            Some(unread) => Line::unread(unread),
            None => Nothing("a kernel without loadable modules"),
        };
    };
    let stack = if node.modules.is_ofed() == Some(true) {
        "MLNX_OFED or DOCA"
    } else {
        "the kernel's own"
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
            "{} of RDMA or GPUs loaded",
            count(loaded.len(), "module")
        ));
    }
    There(format!("RDMA stack is {stack}, drivers: {}", drivers.join(", ")))
}

fn gids(node: &Node) -> Line {
    let tables = node.hcas().flat_map(|hca| {
        let numbers = hca.ports.keys();
        numbers.filter_map(|number| node.gids(&hca.name, *number))
    });
    let (mut ports, mut entries) = (0, 0);
    for table in tables {
        ports += 1;
        entries += table.len();
    }
    if ports == 0 {
        return Nothing("no GID table");
    }
    There(format!("{entries} in use on {}", count(ports, "port")))
}

fn sriov(node: &Node) -> Line {
    if let Some(line) = without_functions(node, "no RDMA function with SR-IOV") {
        return line;
    }
    let sriov = node
        .pci
        .with_role(Role::Rdma)
        .filter_map(|(_, function)| function.sriov.known());
    let (mut physical, mut active) = (0, 0);
    for one in sriov {
        physical += 1;
        active += one.functions.len();
    }
    if physical == 0 {
        return There("no RDMA function with SR-IOV".into());
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
        (Some(subnets), _) if !subnets.is_empty() => There(format!(
            "{} of RDMA network devices",
            count(subnets.len(), "IPv4 subnet")
        )),
        _ => Nothing("no IPv4 subnet of an RDMA network device"),
    }
}

fn limits(node: &Node) -> Line {
    let Some(runtimes) = node.limits.runtimes.known().filter(|all| !all.is_empty()) else {
        return Nothing("no container runtime");
    };
    let one = |runtime: &rdma_health_node::limits::Runtime| {
        let limit = match runtime.memlock.known() {
            Some(limit) => limit.soft.map_or("unlimited".into(), size_in_words),
            None => "unread".into(),
        };
        format!("{} may lock {limit}", runtime.name)
    };
    There(runtimes.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn probe(node: &Node) -> String {
    if node.probes.is_empty() {
        return "none made".into();
    }
    let rates = || {
        node.probes
            .iter()
            .filter_map(|probe| Some(probe.report.bandwidth.as_ref()?.bytes_per_second))
    };
    let latencies = || {
        node.probes
            .iter()
            .filter_map(|probe| Some(probe.report.latency.as_ref()?.median))
    };
    let good = node
        .probes
        .iter()
        .filter(|probe| probe.report.failure.is_none())
        .count();
    let mut words = format!("{good} of {} passed", count(node.probes.len(), "loopback write"));
    if good > 0 {
        let slowest = rates().fold(f64::INFINITY, f64::min);
        let longest = latencies().fold(0.0, f64::max);
        // Writing to a string cannot fail.
        let _ = write!(
            words,
            ", {} or more, {} or less",
            gigabits(slowest),
            seconds(longest)
        );
    }
    words
}

fn reading(node: &Node) -> String {
    let unread = node.unread().count() + usize::from(node.verbs.unread().is_some());
    if unread == 0 {
        "everything was read".into()
    } else {
        format!("{} unread", count(unread, "fact"))
    }
}
