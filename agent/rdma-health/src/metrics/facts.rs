//! Writes what is known about the machine.

use std::collections::BTreeMap;

use rdma_health_node::{
    Fact, Node,
    cmdline::Domain,
    limits::Memlock,
    modules::{KNOWN, Modules},
    nvidia::PeerMemory,
    pci::{Function, Role},
};

use super::{catalogue::facts as family, sink::Sink};

pub(super) fn write(node: &Node, sink: &mut Sink<'_>) {
    host(node, sink);
    iommu(node, sink);
    modules(&node.modules, sink);
    if let Some(path) = node.peer_memory.known() {
        sink.family(&family::PEER_MEMORY)
            .sample([peer_memory(*path)], 1_u8);
    }
    if let Some(functions) = node.pci.functions.known() {
        pci(node, functions, sink);
    }
    memlock(node, sink);
}

/// The text of a fact; empty, which Prometheus takes as no label, where there is none.
pub(super) fn text(fact: &Fact<String>) -> &str {
    fact.known().map_or("", String::as_str)
}

fn host(node: &Node, sink: &mut Sink<'_>) {
    let host = &node.host;
    let stack = match node.modules.is_ofed() {
        Some(true) => "ofed",
        Some(false) => "kernel",
        None => "",
    };
    let driver = node
        .pci
        .nvidia_driver
        .known()
        .map_or("", |driver| &driver.version);
    let labels = [text(&host.hostname), text(&host.kernel), stack, driver];
    if labels.iter().any(|label| !label.is_empty()) {
        sink.family(&family::NODE_INFO).sample(labels, 1_u8);
    }
    sink.single(&family::NODE_VIRTUAL, host.virtual_machine.known().copied());
}

fn iommu(node: &Node, sink: &mut Sink<'_>) {
    if let Some(arguments) = node.host.iommu_arguments.known() {
        let domain = match (arguments.off, arguments.domain) {
            (true, _) => "off",
            (false, Some(Domain::Passthrough)) => "passthrough",
            (false, Some(Domain::Translated)) => "translated",
            (false, None) => "default",
        };
        let invalidation = match arguments.strict {
            Some(true) => "strict",
            Some(false) => "lazy",
            None => "default",
        };
        sink.family(&family::IOMMU_CONFIGURED)
            .sample([domain, invalidation], 1_u8);
    }
    sink.single(&family::IOMMU_UNITS, node.iommu.units.known().map(Vec::len));
    let Some(groups) = node.iommu.groups.known() else {
        return;
    };
    sink.single(&family::IOMMU_GROUPS, Some(groups.len()));

    // One pass over the groups: asking for the group of each function would go over all of them each time.
    let mut group_of = BTreeMap::new();
    for (number, group) in groups {
        for device in group.devices.known().into_iter().flatten() {
            group_of.insert(device.as_str(), (*number, group));
        }
    }
    let functions = functions_of_interest(node);
    let found: Vec<_> = functions
        .iter()
        .filter_map(|(address, device, role)| {
            let (number, group) = group_of.get(address)?;
            Some((
                [*address, *device, *role],
                number.to_string(),
                group.domain.known()?,
            ))
        })
        .collect();
    let mut info = sink.family(&family::IOMMU_GROUP_INFO);
    for ([address, device, role], number, domain) in &found {
        info.sample([address, device, role, number, domain.as_str()], 1_u8);
    }
    let mut translated = sink.family(&family::IOMMU_TRANSLATED);
    for (labels, _, domain) in &found {
        translated.sample(*labels, domain.is_translated());
    }
}

/// Address, RDMA device and role of each RDMA device's function and of each GPU.
fn functions_of_interest(node: &Node) -> Vec<(&str, &str, &'static str)> {
    let rdma = node
        .hcas()
        .filter_map(|hca| Some((hca.pci_address.known()?.as_str(), hca.name.as_str(), "rdma")));
    let gpus = node
        .pci
        .with_role(Role::Gpu)
        .map(|(address, _)| (address.as_str(), "", "gpu"));
    rdma.chain(gpus).collect()
}

fn modules(modules: &Modules, sink: &mut Sink<'_>) {
    let Some(loaded) = modules.loaded.known() else {
        return;
    };
    let mut series = sink.family(&family::MODULE_LOADED);
    for name in KNOWN {
        series.sample([name], loaded.contains_key(name));
    }
    let mut series = sink.family(&family::MODULE_INFO);
    for (name, module) in loaded {
        if let Some(version) = module.version.known() {
            series.sample([name, version], 1_u8);
        }
    }
}

fn peer_memory(path: PeerMemory) -> &'static str {
    match path {
        PeerMemory::NvidiaPeermem => "nvidia_peermem",
        PeerMemory::NvPeerMem => "nv_peer_mem",
        PeerMemory::EfaNvPeermem => "efa_nv_peermem",
        PeerMemory::DmaBuf => "dma_buf",
        PeerMemory::None => "none",
    }
}

fn role(function: &Function) -> &'static str {
    match function.role {
        Role::Rdma => "rdma",
        Role::Gpu => "gpu",
        Role::Bridge => "bridge",
        Role::Capable => "capable",
    }
}

fn pci(node: &Node, functions: &BTreeMap<String, Function>, sink: &mut Sink<'_>) {
    let mut info = sink.family(&family::PCI_INFO);
    for (address, function) in functions {
        let id = |id: &Fact<u16>| id.known().map_or(String::new(), |id| format!("{id:#06x}"));
        let (vendor, device) = (id(&function.vendor), id(&function.device));
        let (driver, physical) = (text(&function.driver), text(&function.physical_function));
        info.sample(
            [address, role(function), &vendor, &device, driver, physical],
            1_u8,
        );
    }

    let mut each = |family, value: &dyn Fn(&Function) -> Option<u64>| {
        let mut series = sink.family(family);
        for (address, function) in functions {
            if let Some(value) = value(function) {
                series.sample([address, role(function)], value);
            }
        }
    };
    let known = |fact: &Fact<u32>| fact.known().map(|value| u64::from(*value));
    // The kernel's unit is GT/s, the reader's MT/s, the base unit transfers per second.
    let transfers = |speed: u32| u64::from(speed) * 1_000_000;
    each(&family::PCI_NUMA, &|f| known(&f.numa_node));
    each(&family::PCI_SPEED, &|f| {
        f.link.speed.known().copied().map(transfers)
    });
    each(&family::PCI_BEST_SPEED, &|f| {
        node.pci.best_link(f).0.map(transfers)
    });
    each(&family::PCI_WIDTH, &|f| known(&f.link.width));
    each(&family::PCI_BEST_WIDTH, &|f| {
        node.pci.best_link(f).1.map(u64::from)
    });
    each(&family::PCI_READ_REQUEST, &|f| {
        f.capabilities.known()?.max_read_request.map(u64::from)
    });
    each(&family::PCI_PAYLOAD, &|f| {
        f.capabilities.known()?.max_payload.map(u64::from)
    });
    each(&family::PCI_ACS, &|f| {
        Some(f.capabilities.known()?.acs?.redirects().into())
    });

    let mut active = sink.family(&family::PCI_VFS);
    for (address, sriov) in functions
        .iter()
        .filter_map(|(address, f)| Some((address, f.sriov.known()?)))
    {
        active.sample([address], sriov.active);
    }
    let mut possible = sink.family(&family::PCI_VFS_POSSIBLE);
    for (address, sriov) in functions
        .iter()
        .filter_map(|(address, f)| Some((address, f.sriov.known()?)))
    {
        possible.sample([address], sriov.possible);
    }
}

fn memlock(node: &Node, sink: &mut Sink<'_>) {
    let runtimes = node.limits.runtimes.known().into_iter().flatten();
    let all = runtimes
        .map(|runtime| (runtime.name.as_str(), &runtime.memlock))
        .chain([("rdma-health", &node.limits.own)]);
    // `None` is unlimited, which is more than any number of bytes.
    let bytes = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let mut least: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (name, limit) in all {
        let Some(Memlock { soft, hard }) = limit.known() else {
            continue;
        };
        let entry = least.entry(name).or_insert((u64::MAX, u64::MAX));
        *entry = (entry.0.min(bytes(*soft)), entry.1.min(bytes(*hard)));
    }
    let mut series = sink.family(&family::MEMLOCK);
    for (name, (soft, hard)) in least {
        for (kind, limit) in [("soft", soft), ("hard", hard)] {
            if limit == u64::MAX {
                series.sample([name, kind], f64::INFINITY);
            } else {
                series.sample([name, kind], limit);
            }
        }
    }
}
