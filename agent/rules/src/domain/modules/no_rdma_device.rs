//! Functions that support RDMA and have no RDMA device: whether that matters, and why it is so.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{Function, Node, boot::Load, kmsg::EventKind, pci::Role, peers::exceptions};

use crate::{FindingCase, Subject, domain::lost, draft::Draft};

use super::{
    EQUALS_HAVE_ONE, ETHERNET, GPUS_WITHOUT_RDMA, NEXT_TO_GPU, RDMA_MODULES_MISSING, WANTED,
    kernel_module::{makes_devices, module_of, places},
    needed::Module,
};

/// Every function that supports RDMA, is in use by the host and has no RDMA device.
pub(super) fn functions(node: &Node) -> Vec<Draft> {
    let functions = node.functions();
    let lost: BTreeSet<&str> = lost::detached(node)
        .into_iter()
        .map(|(function, ..)| function.address)
        .collect();
    let context = Context {
        node,
        // If devices disappeared, those that never had one are not the reason that there is none.
        gpus_without_rdma: lost.is_empty() && adapters_serve_gpus(node, &functions),
        behind: behind_equals(node),
        need: Need::of(node, &lost),
        is_without_rdma: lost.is_empty() && node.hcas.unread().is_none() && node.hcas().next().is_none(),
        lost,
    };
    let found = functions
        .iter()
        .filter(|function| !context.lost.contains(function.address))
        .filter_map(|function| without_device(&context, function));
    found.collect()
}

/// What decides how severe a missing RDMA device is.
struct Context<'a> {
    node: &'a Node,
    /// Whether no RDMA device exists although GPUs have adapters.
    gpus_without_rdma: bool,
    /// Functions whose equals have RDMA devices, with the share that has.
    behind: BTreeMap<String, String>,
    need: Need,
    /// Whether there is no RDMA device, and none disappeared.
    is_without_rdma: bool,
    /// Functions whose RDMA device disappeared, which `device-lost` reports.
    lost: BTreeSet<&'a str>,
}

/// What shows that the node needs an RDMA device, if it has none in hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Nothing.
    None,
    /// The modules for programs are loaded without a driver that needs them.
    Programs,
    /// Something that needs one.
    Wanted,
}

impl Need {
    fn of(node: &Node, lost: &BTreeSet<&str>) -> Self {
        if !lost.is_empty() {
            Self::None
        } else if is_rdma_wanted(node) {
            Self::Wanted
        } else if is_for_programs(node) {
            Self::Programs
        } else {
            Self::None
        }
    }
}

/// Whether the node has software for RDMA that no one loads without a need for it, and no RDMA device in hardware: modules for storage that no
/// package loads by default, or an RDMA device in software.
fn is_rdma_wanted(node: &Node) -> bool {
    const STORAGE: [&str; 5] = ["nvme_rdma", "nvmet_rdma", "ko2iblnd", "rds_rdma", "ib_srp"];
    let has_storage = STORAGE.iter().any(|name| node.modules.has(name) == Some(true));
    node.hcas.unread().is_none()
        && node.hcas().all(|hca| hca.is_software())
        && (has_storage || node.hcas().next().is_some())
}

/// Whether `ib_uverbs` was loaded for its own sake, and the node has no RDMA device: no driver that makes one is loaded, with which it comes.
fn is_for_programs(node: &Node) -> bool {
    let Some(loaded) = node.modules.loaded.known() else {
        return false;
    };
    loaded.contains_key("ib_uverbs")
        && !loaded.keys().any(|name| makes_devices(name))
        && node.hcas.unread().is_none()
        && node.hcas().next().is_none()
}

/// What loads one of these modules, or one that all RDMA devices need, at each boot: an administrator or an installer wants RDMA on the node. MLNX_OFED
/// and DOCA-OFED are for the adapters of NVIDIA.
fn loaded_at_boot<'a>(node: &'a Node, modules: &[Option<&str>]) -> Option<&'a Load> {
    const FOR_ALL: [&str; 6] = [
        "ib_core",
        "ib_uverbs",
        "ib_umad",
        "ib_ipoib",
        "rdma_cm",
        "rdma_ucm",
    ];
    let is_of_nvidia = modules.iter().flatten().any(|name| name.starts_with("mlx"));
    let mut loads = node.boot.loads.known()?.iter();
    loads.find(|load| {
        let module = load.module.as_str();
        modules.contains(&Some(module)) || FOR_ALL.contains(&module) || is_of_nvidia && module == "openibd"
    })
}

impl Context<'_> {
    /// Whether a function without a driver should have one: it has no other use than RDMA, or it is an adapter of NVIDIA and no other one of
    /// the node is in use. An adapter next to others that work may be left out on purpose.
    fn is_expected_to_have_driver(&self, function: &Function<'_>) -> bool {
        let is_without_rdma = || {
            let mut hardware = self.node.hcas().filter(|hca| !hca.is_software());
            self.node.hcas.unread().is_none() && hardware.next().is_none()
        };
        // What the driver logged is a finding of its start, which says more.
        let has_logged = || {
            let events = self.node.device_events();
            events.iter().any(|event| {
                matches!(event.event.kind, EventKind::FirmwareInit | EventKind::ProbeFailed)
                    && event.subject() == function.subject()
            })
        };
        self.gpus_without_rdma
            || is_only_for_rdma(function)
            || ((is_of_fabric(function) || self.is_unused_card(function))
                && is_without_rdma()
                && !has_logged())
    }

    /// Whether a function is an adapter of NVIDIA, and no driver holds any of these on the node, be it for Ethernet or for a virtual machine.
    fn is_unused_card(&self, function: &Function<'_>) -> bool {
        let functions = self.node.functions();
        let mut cards = functions
            .iter()
            .filter(|one| one.role == Role::Capable && is_of_nvidia(one));
        is_of_nvidia(function) && cards.all(|one| one.driver.is_none())
    }
}

/// Whether the node has no RDMA device although its adapters serve GPUs: InfiniBand, EFA, or fast adapters, at least one for
/// two GPUs. A GPU node with a slow network adapter may do without RDMA.
fn adapters_serve_gpus(node: &Node, functions: &[Function<'_>]) -> bool {
    const AMAZON: u16 = 0x1d0f;
    /// What 200 Gb/s need: lanes and megatransfers per second.
    const FAST: (u32, u32) = (16, 16_000);
    if node.hcas.unread().is_some() || node.hcas().any(|hca| !hca.is_software()) {
        return false;
    }
    let gpus = node.gpus().count();
    let serves = |function: &&Function<'_>| {
        let is_adapter =
            function.role == Role::Capable && function.lent_to.is_none() && !function.is_virtual();
        function.pci.filter(|_| is_adapter).is_some_and(|pci| {
            let width = pci.link.max_width.known().copied();
            let speed = pci.link.max_speed.known().copied();
            let is_fast = width >= Some(FAST.0) && speed >= Some(FAST.1);
            is_of_fabric(function)
                || pci.vendor.known() == Some(&AMAZON)
                || is_fast
                || (node.is_virtual_machine() && width.is_none())
        })
    };
    let adapters = functions.iter().filter(serves).count();
    gpus > 0 && adapters * 2 >= gpus
}

/// Functions with a driver and without an RDMA device whose equals have one, with the share that has.
fn behind_equals(node: &Node) -> BTreeMap<String, String> {
    let mut behind = BTreeMap::new();
    for adapters in node.equal_adapters() {
        let all: Vec<_> = adapters.iter().collect();
        if let Some(found) = exceptions(&all, |function: &Function<'_>| Some(function.role == Role::Rdma)) {
            let share = found.share();
            let without = found.without.into_iter();
            behind.extend(without.map(|function| (function.address.to_owned(), share.clone())));
        }
    }
    behind
}

/// Network controllers for InfiniBand and for other fabrics, and InfiniBand among serial buses, by PCI class and subclass.
const FABRIC: [u32; 3] = [0x0207, 0x0208, 0x0c06];
/// Network controllers of another kind.
const OTHER: u32 = 0x0280;

/// Whether a function has no other use than RDMA: those that clouds and hypervisors attach for it (EFA, erdma, PVRDMA).
/// The network of a Gaudi has none either, and is an adapter only if that of another one has an RDMA device.
fn is_only_for_rdma(function: &Function<'_>) -> bool {
    const VENDORS: [u16; 3] = [0x1d0f, 0x1ded, 0x15ad];
    let vendor = function.pci.and_then(|pci| pci.vendor.known());
    let is_only = vendor.is_some_and(|vendor| VENDORS.contains(vendor)) || function.is_gaudi();
    function.role == Role::Capable && is_only
}

/// Whether a function is for InfiniBand or another fabric: by its PCI class, or, if the class is that of network controllers of any kind (ConnectX-3,
/// whose ports are one or the other), because it has no network device, which each Ethernet port has.
fn is_of_fabric(function: &Function<'_>) -> bool {
    let Some(pci) = function.pci else { return false };
    pci.class.known().is_some_and(|class| match class >> 8 {
        OTHER => is_of_nvidia(function) && pci.netdevs.is_absent(),
        class => FABRIC.contains(&class),
    })
}

/// Whether a function is an adapter of NVIDIA, formerly Mellanox.
fn is_of_nvidia(function: &Function<'_>) -> bool {
    const MELLANOX: u16 = 0x15b3;
    function
        .pci
        .is_some_and(|pci| pci.vendor.known() == Some(&MELLANOX))
}

/// Whether a function shares a PCIe switch with a GPU, and the node has RDMA devices in hardware.
fn is_next_to_gpu(node: &Node, function: &Function<'_>) -> bool {
    // A function that is directly below a root port has no switch above it.
    let has_switch = function.bridges().len() > 1;
    has_switch && node.hcas().any(|hca| !hca.is_software()) && node.gpu_below_root_of(function).is_some()
}

/// Whether a function is an Ethernet port of the chipset (X722), which is on the board of the machine.
fn is_on_board(function: &Function<'_>) -> bool {
    function
        .ids()
        .is_some_and(|ids| matches!(ids, (0x8086, 0x37d0..=0x37d3)))
}

/// Whether the node has an adapter for RDMA that is not one of the chipset: that is the one to look at.
fn has_card(node: &Node) -> bool {
    let functions = node.functions();
    functions.iter().any(|function| {
        matches!(function.role, Role::Rdma | Role::Capable) && !function.is_software && !is_on_board(function)
    })
}

/// Whether its RDMA device may be in the network namespace of a pod, where this process does not see it.
pub(in super::super) fn may_be_elsewhere(node: &Node, function: &Function<'_>) -> bool {
    let loaded = function
        .driver
        .and_then(module_of)
        .and_then(|module| node.modules.has(module));
    node.has_exclusive_namespaces() && loaded == Some(true)
}

/// A function that supports RDMA, is in use by the host and has no RDMA device.
fn without_device(context: &Context<'_>, function: &Function<'_>) -> Option<Draft> {
    let node = context.node;
    let address = function.address;
    function.pci?;
    // A device in software has the address of the adapter below it.
    let role = function
        .pci
        .filter(|_| function.is_software)
        .map_or(function.role, |pci| pci.role);
    if role != Role::Capable
        || function.lent_to.is_some()
        || function.is_virtual()
        || node.shares_rdma_device(address)
        || (function.driver.is_none() && !context.is_expected_to_have_driver(function))
        || may_be_elsewhere(node, function)
    {
        return None;
    }
    let module = Module::of(node, function);
    let load = module
        .first_missing()
        .filter(|_| context.is_without_rdma)
        .and_then(|missing| loaded_at_boot(node, &[Some(missing), module.name]));
    let is_for_programs = context.need == Need::Programs || load.is_some();
    let is_wanted = context.need == Need::Wanted || is_for_programs && module.first_missing().is_some();
    // Who keeps the driver of an Ethernet adapter from being loaded does not use the adapter on purpose.
    let is_unused = function.driver.is_none() && !module.is_off();
    let is_fabric = is_of_fabric(function) || is_only_for_rdma(function) || is_unused;
    let share = context.behind.get(address);
    let exception = match share {
        _ if context.gpus_without_rdma => Some(&GPUS_WITHOUT_RDMA),
        Some(_) => Some(&EQUALS_HAVE_ONE),
        None if is_fabric => None,
        None if module.loaded == Some(true) && is_next_to_gpu(node, function) => Some(&NEXT_TO_GPU),
        None if is_on_board(function) && has_card(node) => return None,
        None => Some(if is_wanted { &WANTED } else { &ETHERNET }),
    };
    let message = message(function, &module, share, load);
    let reason = module.foreign.or(module.given_up);
    let finding = Draft::new(&RDMA_MODULES_MISSING, Subject::device(address), message);
    let mut finding = match reason {
        Some(line) => finding.reason(line),
        None => finding,
    }
    .exception(exception)
    .remedy(module.remedy())
    .written_remedy(module.remedy_here(node))
    .fill("MODULE", module.concerned().unwrap_or("MODULE"))
    .case(if module.unsigned.is_some() {
        FindingCase::Unsigned
    } else if module.refused.is_some() || module.foreign.is_some() {
        FindingCase::ModuleRefused
    } else {
        FindingCase::ModuleMissing
    })
    .evidence(
        format!("/sys/bus/pci/devices/{address}/infiniband"),
        "no RDMA device",
    );
    if let Some(core) = module.core.filter(|_| module.core_loaded == Some(false)) {
        finding = finding.evidence("/proc/modules", format!("no {core}"));
    }
    if let Some(core) = module.core.filter(|_| module.core_loaded == Some(true)) {
        finding = finding.evidence("/proc/modules", format!("{core} is loaded"));
    } else if let Some(name) = module.name {
        let words = match module.loaded {
            Some(true) => format!("{name} is loaded"),
            Some(false) => format!("no {name}"),
            None => "could not be read".into(),
        };
        finding = finding.evidence("/proc/modules", words);
    }
    if let Some(load) = load {
        finding = finding.evidence(&load.file, &load.module);
    }
    if let Some(available) = module.without_file {
        let missing = module.first_missing().unwrap_or("the module");
        finding = finding.evidence(&available.file, format!("no {missing}"));
    }
    for line in &module.off {
        finding = finding.evidence(format!("{} line {}", line.file, line.number), &line.text);
    }
    let lines = [
        module.refused,
        module.unsigned,
        module.unsupported,
        module.outdated,
        reason,
    ];
    if let Some(line) = lines.into_iter().flatten().next() {
        finding = finding.evidence("/dev/kmsg", line);
    }
    if let Some(argument) = module.blacklisted {
        finding = finding.evidence("/proc/cmdline", argument);
    }
    Some(finding)
}

/// That a function has no RDMA device, and why; `share` of its equals have one, and `load` should load its module.
fn message(
    function: &Function<'_>,
    module: &Module<'_>,
    share: Option<&String>,
    load: Option<&Load>,
) -> String {
    let address = function.address;
    let driver = function.driver.unwrap_or("no driver");
    let equals = share.map_or_else(String::new, |share| format!("; {share} equal adapters have one"));
    let message = if let Some(argument) = &module.blacklisted {
        format!("{argument} on the command line: {address} ({driver}) has no RDMA device{equals}")
    } else if let Some(name) = module.first_missing().filter(|_| !module.off.is_empty()) {
        let places = places(&module.off);
        format!("{places} keeps {name} from being loaded: {address} ({driver}) has no RDMA device{equals}")
    } else {
        let why = module.why_not();
        // The report cuts long lines, so a module that is missing comes first.
        match module.first_missing() {
            Some(_) => format!("{why}: {address} ({driver}) supports RDMA but has no RDMA device{equals}"),
            None => format!("{address} ({driver}) supports RDMA but has no RDMA device: {why}{equals}"),
        }
    };
    match load {
        Some(load) => format!("{message}, although {} loads {} at boot", load.file, load.module),
        None => message,
    }
}
