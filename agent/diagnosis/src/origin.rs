//! Whether a log was written on the node whose facts are known. The facts of another machine say nothing about a failure.

use rdma_health_kernel_log::is_adapter;
use rdma_health_node::{Node, pci::Role};

use crate::{
    log::Log,
    symptom::{Grade, Software, Symptom, SymptomKind},
};

/// Where a log was written, as far as it and the node show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// On this node, or nothing shows that it was elsewhere.
    Here,
    /// Its lines name other hosts. These may be other nodes, or pods of this one: a fault that is found here may explain it, but what is in
    /// order here refutes nothing.
    Unsure,
    /// On another node, with the reason.
    Elsewhere(String),
    /// Unknown, and nothing of the node was read: the tree has neither the kernel's version nor a device.
    Unread,
}

/// Where the log was written. `symptoms` are those of the log.
pub(crate) fn of(node: &Node, log: &Log) -> Origin {
    // The process that was named runs here.
    if node.job.is_some() {
        return Origin::Here;
    }
    if is_unread(node) {
        return Origin::Unread;
    }
    let own = node.host.hostname.known().map(String::as_str);
    let is_own = |host: &String| own.is_some_and(|own| short(own) == short(host));
    if log.hosts.iter().any(is_own) || is_of_own_pod(node, log) {
        return Origin::Here;
    }
    let foreign = own.is_some() && !log.hosts.is_empty();
    if let Some(address) = missing_function(node, log) {
        return Origin::Elsewhere(format!(
            "it names the PCI function {address}, which this node does not have"
        ));
    }
    if let Some(device) = missing_device(node, log, foreign) {
        return Origin::Elsewhere(format!("it names {device}, which this node does not have"));
    }
    // The log misses what this node does not have.
    if is_without_rdma(node) && !foreign && !log.marks.shows_adapter && misses_devices(log) {
        return Origin::Here;
    }
    if is_without_rdma(node) {
        return Origin::Elsewhere(if foreign {
            "this node has no RDMA device".to_owned()
        } else {
            "this node has neither an RDMA adapter nor a GPU. If it is from this node, that is the cause"
                .to_owned()
        });
    }
    if foreign { Origin::Unsure } else { Origin::Here }
}

/// The name of a host without its domain.
pub(crate) fn short(host: &str) -> &str {
    host.split('.').next().unwrap_or_default()
}

/// Whether a host of the log is a pod of this node: the host name of a pod is its name.
fn is_of_own_pod(node: &Node, log: &Log) -> bool {
    let allocations = node.allocations();
    let shared = node.shared_uses();
    let mut pods = allocations
        .iter()
        .map(|allocation| allocation.container.pod)
        .chain(shared.iter().map(|shared| shared.container.pod));
    pods.any(|pod| log.hosts.iter().any(|host| host == pod))
}

/// A PCI function that the log names and that is not on this node.
fn missing_function<'a>(node: &Node, log: &'a Log) -> Option<&'a str> {
    let named = log
        .symptoms
        .iter()
        .filter(|symptom| symptom.grade > Grade::Note && !is_of_platform(symptom))
        .filter(|symptom| !may_be_gone(symptom) || is_of_other_driver(node, symptom));
    let mut functions = named.filter_map(|symptom| symptom.named.function.as_deref());
    functions.find(|address| node.pci.has(address) == Some(false))
}

/// An RDMA device that the log names, of which none is on this node. A device of this host or of its kind may be gone since.
fn missing_device<'a>(node: &Node, log: &'a Log, foreign: bool) -> Option<&'a str> {
    let known = node.hcas.known().filter(|hcas| !hcas.is_empty())?;
    let named: Vec<&str> = log
        .symptoms
        .iter()
        .filter(|symptom| !may_be_gone(symptom))
        .filter_map(|symptom| symptom.named.device.as_deref())
        .collect();
    let is_here = |name: &&str| {
        if is_netdev(node, name) {
            true
        } else if foreign {
            known.contains_key(*name)
        } else {
            known.keys().any(|own| family(own) == family(name))
        }
    };
    named.first().copied().filter(|_| !named.iter().any(is_here))
}

/// Whether a name is that of a network device of the node, as programs call their ports, too.
pub fn is_netdev(node: &Node, name: &str) -> bool {
    node.network.netdevs.contains_key(name) || of_ports(node, name)
}

/// Whether a name is that of the network device of an RDMA port.
fn of_ports(node: &Node, name: &str) -> bool {
    let mut ports = node.hcas().flat_map(|hca| hca.ports.values());
    ports.any(|port| port.netdev.known().is_some_and(|netdev| netdev.name == name))
}

/// Whether a log reports nothing but missing RDMA devices. One that cannot be opened is there, and libfabric has nothing (`fi_getinfo: -61`) also
/// where the job asks for a provider or a capability that the devices do not have.
fn misses_devices(log: &Log) -> bool {
    let counts = |symptom: &&Symptom| symptom.grade > Grade::Unrecognised;
    let is_absence = |symptom: &Symptom| {
        let is_of_provider = matches!(symptom.software, Some(Software::Libfabric | Software::Mpi));
        !is_of_provider
            && matches!(
                symptom.kind,
                SymptomKind::NoDevice | SymptomKind::DeviceAbsent | SymptomKind::SocketFallback
            )
    };
    // The hook runs where a container asks for adapters, and fails for many reasons.
    let is_of_hook =
        |symptom: &Symptom| symptom.text.contains("hooks.d/") && symptom.text.contains("mellanox");
    let names_one = |symptom: &Symptom| {
        is_of_hook(symptom) || symptom.named.device.is_some() || symptom.named.function.is_some()
    };
    let mut all = log.symptoms.iter().filter(counts).peekable();
    all.peek().is_some() && all.all(|symptom| is_absence(symptom) && !names_one(symptom))
}

/// The letters with which the names of a driver's devices begin: `mlx`, `rocep`, `bnxt`.
fn family(device: &str) -> &str {
    device
        .split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or_default()
}

/// Whether the message itself says that the device is not there, or not any more.
fn may_be_gone(symptom: &Symptom) -> bool {
    matches!(
        symptom.kind,
        SymptomKind::DeviceGone
            | SymptomKind::DeviceAbsent
            | SymptomKind::DeviceFatal
            | SymptomKind::NoDevice
            | SymptomKind::OpenFailed
            | SymptomKind::SettingUnmatched
            | SymptomKind::AdapterNotStarted
            | SymptomKind::PciFault
            | SymptomKind::Unrecognised
    )
}

/// Whether the driver of adapters that wrote a line is that of no adapter of the node, which has others: a function of it was never here.
fn is_of_other_driver(node: &Node, symptom: &Symptom) -> bool {
    let driver = symptom.named.function.as_deref().and_then(|address| {
        let (before, _) = symptom.text.split_once(address)?;
        before.trim_end().rsplit(' ').next()
    });
    let functions = node.functions();
    let mut drivers = functions
        .iter()
        .filter(|function| matches!(function.role, Role::Rdma | Role::Capable))
        .filter_map(|function| function.driver)
        .peekable();
    driver.is_some_and(|driver| {
        is_adapter(driver) && drivers.peek().is_some() && drivers.all(|own| own != driver)
    })
}

/// Whether the line may name a part of the chipset or of the platform: the IOMMU names the function of any driver, a switch between GPUs is a
/// function between them. What was read of the node may not have these.
fn is_of_platform(symptom: &Symptom) -> bool {
    let of_chipset = || {
        symptom
            .named
            .function
            .as_deref()
            .is_some_and(|function| function.starts_with("0000:00:"))
    };
    symptom.kind == SymptomKind::GpuLinkError || symptom.kind == SymptomKind::IommuFault && of_chipset()
}

/// Whether nothing on this node is about RDMA: no device, no adapter, and no GPU that would need one.
fn is_without_rdma(node: &Node) -> bool {
    is_without_adapter(node) && !node.functions().iter().any(|function| function.role == Role::Gpu)
}

/// Whether a node has neither an RDMA device nor hardware for one.
pub(crate) fn is_without_adapter(node: &Node) -> bool {
    let has_adapter = || {
        node.functions()
            .iter()
            .any(|function| matches!(function.role, Role::Rdma | Role::Capable))
    };
    node.pci.functions.known().is_some()
        && node.hcas.unread().is_none()
        && node.hcas().next().is_none()
        && !has_adapter()
}

/// Whether the tree has nothing of a node, such as an empty directory. What is not there was not read, and is not missing.
fn is_unread(node: &Node) -> bool {
    node.host.kernel.unread().is_some()
        && node.hcas().next().is_none()
        && node.pci.functions.known().is_none()
}
