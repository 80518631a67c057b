//! Kernel modules, drivers and firmware of RDMA devices.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{Function, Node, infiniband::CLASS, pci::Role, peers::exceptions, words::count};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, domain::lost,
    draft::Draft, policy::Exception, remedy::load_module,
};

/// `rdma-modules-missing`.
pub static RDMA_MODULES_MISSING: Rule = Rule {
    id: "rdma-modules-missing",
    domain: Domain::Modules,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical)).except(&[
        &GPUS_WITHOUT_RDMA,
        &EQUALS_HAVE_ONE,
        &ETHERNET,
    ]),
    title: "A kernel module for RDMA is missing",
    explanation: "A network function that supports RDMA has no RDMA device, because its RDMA module (mlx5_ib, irdma, \
        bnxt_re, …) is not loaded or did not bind to it. Or RDMA devices exist but ib_uverbs is not loaded, so no \
        program can use them: /dev/infiniband/uverbs* does not exist and ibv_open_device fails. Or rdma_ucm is not loaded: \
        /dev/infiniband/rdma_cm does not exist, programs that connect with rdma_cm fail, and device plugins offer no device.",
    remedy: Remedy {
        any: "Load the module that the message names with modprobe, and read what the driver logs: journalctl -k. If \
            the module is loaded and no device appears, RDMA may be disabled for the function: devlink dev param \
            show pci/ADDRESS, or mlxconfig -d ADDRESS query.",
        openshift: "Load the modules at boot with a MachineConfig that writes /etc/modules-load.d/rdma.conf. With \
            the NVIDIA Network Operator, let its OFED pod load them.",
        kubernetes: "If the NVIDIA Network Operator manages OFED, check its pod, because it unloads the modules of \
            the kernel first.",
        host: LOAD_ON_A_HOST,
    },
    false_alarms: "Not judged: functions bound to vfio-pci, which are meant for another user; functions without a driver, \
        unless they are the adapters of GPUs and no RDMA device exists; rdma_ucm on nodes with EFA or Omni-Path only; \
        virtual functions, which may be in the network namespace of a pod; functions of a RoCE bond, which share one \
        RDMA device; functions whose device may be in the network namespace of a pod (exclusive RDMA \
        namespaces); and devices that the configuration excludes.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: rdma_modules_missing,
};

const LOAD_ON_A_HOST: &str = "modprobe -a ib_uverbs MODULE; printf 'ib_uverbs\\nMODULE\\n' > /etc/modules-load.d/rdma.conf. Some \
    distributions ship the modules in the package linux-modules-extra (Ubuntu) or kernel-modules-extra (RHEL, Fedora).";

/// What to do where the module of an adapter by another vendor than NVIDIA is not loaded.
const LOAD_OF_OTHERS: Remedy = Remedy {
    any: "Load MODULE, and read what the driver logs: journalctl -k | grep ADDRESS.",
    openshift: "Load MODULE at boot with a MachineConfig that writes /etc/modules-load.d/rdma.conf.",
    host: LOAD_ON_A_HOST,
    ..Remedy::all("")
};

/// What to do where the module is loaded and its adapter has no RDMA device.
const DID_NOT_BIND: Remedy = Remedy {
    any: "Read why MODULE did not bind: journalctl -k | grep -e ADDRESS -e MODULE. RDMA may be disabled for the function: \
        devlink dev param show pci/ADDRESS name enable_rdma (for RoCE: name enable_roce). If it is enabled, unload and load the module.",
    host: "modprobe -r MODULE; modprobe MODULE",
    ..Remedy::all("")
};

/// What to do where programs cannot use the RDMA devices.
const LOAD_IB_UVERBS: Remedy = Remedy {
    any: "Load ib_uverbs, now and at each boot.",
    openshift: "Apply a MachineConfig that writes ib_uverbs to /etc/modules-load.d/rdma.conf.",
    host: "modprobe ib_uverbs; echo ib_uverbs > /etc/modules-load.d/ib_uverbs.conf. Install rdma-core, which loads it when a \
        device appears.",
    ..Remedy::all("")
};

/// What to do, with the commands that load modules on this node; `None` if too little is known about it.
fn load_here(node: &Node, any: &str, modules: &[&str]) -> Option<String> {
    let commands = load_module::commands(modules, node.platform())?;
    Some(format!("{any}\n{commands}"))
}

static GPUS_WITHOUT_RDMA: Exception = Exception {
    condition: "on a node with GPUs and adapters for them, if there is no RDMA device or no program can use one",
    severities: Severities::CRITICAL,
};

static EQUALS_HAVE_ONE: Exception = Exception {
    condition: "if equal adapters have an RDMA device, or only rdma_ucm is missing",
    severities: Severities::WARNING.rdma_expected(Severity::Critical),
};

static ETHERNET: Exception = Exception {
    condition: "for Ethernet adapters, many of which are never used for RDMA",
    severities: Severities::INFO.rdma_expected(Severity::Critical),
};

fn rdma_modules_missing(node: &Node, _: &Expectations) -> Vec<Draft> {
    let functions = node.functions();
    let context = Context {
        node,
        gpus_without_rdma: adapters_serve_gpus(node, &functions),
        behind: behind_equals(node),
    };
    let without_device = functions
        .iter()
        .filter_map(|function| without_device(&context, function));
    user_verbs_missing(node)
        .into_iter()
        .chain(rdma_cm_missing(node))
        .chain(without_device)
        .collect()
}

/// What decides how severe a missing RDMA device is.
struct Context<'a> {
    node: &'a Node,
    /// Whether no RDMA device exists although GPUs have adapters.
    gpus_without_rdma: bool,
    /// Functions whose equals have RDMA devices, with the share that has.
    behind: BTreeMap<String, String>,
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
            let is_fabric = pci
                .class
                .known()
                .is_some_and(|class| FABRIC.contains(&(class >> 8)));
            let width = pci.link.max_width.known().copied();
            let speed = pci.link.max_speed.known().copied();
            let is_fast = width >= Some(FAST.0) && speed >= Some(FAST.1);
            is_fabric
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

/// `rdma_ucm` is missing although devices exist that programs connect to with `rdma_cm`.
fn rdma_cm_missing(node: &Node) -> Option<Draft> {
    /// Drivers of devices without `rdma_cm`.
    const WITHOUT: [&str; 3] = ["efa", "hfi1", "usnic_verbs"];
    let uses = |driver: &String| !WITHOUT.contains(&driver.as_str());
    let is_concerned = node
        .hcas()
        .any(|hca| !hca.is_software() && hca.driver.known().is_some_and(uses));
    // If the kernel has the RDMA stack built in, the list of modules does not show it.
    let is_modular = node.modules.has("ib_core") == Some(true);
    let is_missing = node.modules.user_rdma_cm.known() == Some(&false);
    // Without ib_uverbs nothing works, which is reported instead.
    let has_verbs = node.modules.user_verbs.known() == Some(&true);
    if !(is_concerned && is_modular && is_missing && has_verbs) {
        return None;
    }
    let message =
        "rdma_ucm is not loaded: /dev/infiniband/rdma_cm does not exist, so programs cannot use rdma_cm";
    let finding = Draft::new(&RDMA_MODULES_MISSING, Subject::node(), message)
        .exception(&EQUALS_HAVE_ONE)
        .remedy(LOAD_RDMA_UCM)
        .written_remedy(load_here(node, LOAD_RDMA_UCM.any, &["rdma_ucm"]))
        .evidence("/proc/modules", "no rdma_ucm")
        .evidence("/sys/class/misc/rdma_cm", "no such directory");
    Some(finding)
}

const LOAD_RDMA_UCM: Remedy = Remedy {
    any: "Load rdma_ucm, now and at each boot.",
    openshift: "Apply a MachineConfig that writes rdma_ucm to /etc/modules-load.d/rdma.conf.",
    host: "modprobe rdma_ucm; echo rdma_ucm > /etc/modules-load.d/rdma_ucm.conf. Install rdma-core, which loads it when a \
        device appears.",
    ..Remedy::all("")
};

fn user_verbs_missing(node: &Node) -> Option<Draft> {
    if node.hcas().next().is_none() || node.modules.user_verbs.known() != Some(&false) {
        return None;
    }
    let message = "RDMA devices exist, but ib_uverbs is not loaded: no program can use them";
    let gpus = node.gpus().count();
    let serve_gpus = gpus > 0 && node.hcas().filter(|hca| !hca.is_software()).count() * 2 >= gpus;
    let finding = Draft::new(&RDMA_MODULES_MISSING, Subject::node(), message)
        .exception(serve_gpus.then_some(&GPUS_WITHOUT_RDMA))
        .remedy(LOAD_IB_UVERBS)
        .written_remedy(load_here(node, LOAD_IB_UVERBS.any, &["ib_uverbs"]))
        .evidence("/proc/modules", "no ib_uverbs")
        .evidence("/sys/class/infiniband_verbs", "no such directory");
    Some(finding)
}

/// Network controllers for InfiniBand and for other fabrics, by PCI class and subclass.
const FABRIC: [u32; 2] = [0x0207, 0x0208];

/// A function that supports RDMA, is in use by the host and has no RDMA device.
fn without_device(context: &Context<'_>, function: &Function<'_>) -> Option<Draft> {
    let node = context.node;
    let (address, pci) = (function.address, function.pci?);
    if function.role != Role::Capable
        || function.lent_to.is_some()
        || function.is_virtual()
        || is_bonded(node, address)
        || (function.driver.is_none() && !context.gpus_without_rdma)
        || may_be_elsewhere(node, function)
    {
        return None;
    }
    let class = pci.class.known();
    let is_fabric = class.is_some_and(|class| FABRIC.contains(&(class >> 8)));
    let share = context.behind.get(address);
    let exception = match share {
        _ if context.gpus_without_rdma => Some(&GPUS_WITHOUT_RDMA),
        Some(_) => Some(&EQUALS_HAVE_ONE),
        None => (!is_fabric).then_some(&ETHERNET),
    };
    let module = match function.driver {
        Some(driver) => module_of(driver),
        None => pci.vendor.known().and_then(|vendor| module_of_vendor(*vendor)),
    };
    let loaded = module.and_then(|module| node.modules.has(module));
    let state = match (module, loaded) {
        (Some(module), Some(false)) => format!("{module} is not loaded"),
        (Some(module), Some(true)) => format!("{module} is loaded but did not bind to it"),
        _ => "no module bound to it".into(),
    };
    let driver = function.driver.unwrap_or("no driver");
    let equals = share.map_or_else(String::new, |share| format!("; {share} equal adapters have one"));
    let message = format!("{address} ({driver}) supports RDMA but has no RDMA device: {state}{equals}");
    let remedy = match (module, loaded) {
        (_, Some(true)) => DID_NOT_BIND,
        (None | Some("mlx5_ib" | "mlx4_ib"), _) => RDMA_MODULES_MISSING.remedy,
        _ => LOAD_OF_OTHERS,
    };
    let written = module.filter(|_| loaded == Some(false)).and_then(|module| {
        let any = format!(
            "Load {module}, and read what the driver logs: journalctl -k | grep ADDRESS. If a pod of the NVIDIA Network Operator \
             manages OFED, check that pod, because it unloads the modules of the kernel first."
        );
        load_here(node, &any, &["ib_uverbs", module])
    });
    let mut finding = Draft::new(&RDMA_MODULES_MISSING, Subject::device(address), message)
        .exception(exception)
        .remedy(remedy)
        .written_remedy(written)
        .fill("MODULE", module.unwrap_or("MODULE"))
        .evidence(
            format!("/sys/bus/pci/devices/{address}/infiniband"),
            "no such directory",
        );
    if let Some(module) = module {
        let words = match loaded {
            Some(true) => format!("{module} is loaded"),
            Some(false) => format!("no {module}"),
            None => "could not be read".into(),
        };
        finding = finding.evidence("/proc/modules", words);
    }
    Some(finding)
}

/// Whether another function of the same card has an RDMA device: the functions of a RoCE bond share one.
fn is_bonded(node: &Node, address: &str) -> bool {
    let card = |address: &str| address.rsplit_once('.').map(|(card, _)| card.to_owned());
    let mut hcas = node.hcas().filter_map(|hca| hca.pci_address.known());
    hcas.any(|other| card(other) == card(address))
}

/// The module that creates the RDMA device of a function with this driver.
fn module_of(driver: &str) -> Option<&'static str> {
    Some(match driver {
        "mlx5_core" => "mlx5_ib",
        "mlx4_core" => "mlx4_ib",
        "ice" | "i40e" | "idpf" => "irdma",
        "bnxt_en" => "bnxt_re",
        "mana" => "mana_ib",
        "qede" => "qedr",
        "ionic" => "ionic_rdma",
        "cxgb4" => "iw_cxgb4",
        _ => return None,
    })
}

/// Whether its RDMA device may be in the network namespace of a pod, where this process does not see it.
fn may_be_elsewhere(node: &Node, function: &Function<'_>) -> bool {
    let loaded = function
        .driver
        .and_then(module_of)
        .and_then(|module| node.modules.has(module));
    node.modules.exclusive_namespaces.known() == Some(&true) && loaded == Some(true)
}

/// The same for a function without a driver, by vendor.
fn module_of_vendor(vendor: u16) -> Option<&'static str> {
    Some(match vendor {
        0x15b3 => "mlx5_ib",
        0x8086 => "irdma",
        0x14e4 => "bnxt_re",
        0x1d0f => "efa",
        0x1414 => "mana_ib",
        0x1dd8 => "ionic_rdma",
        _ => return None,
    })
}

/// `firmware-mixed`.
pub static FIRMWARE_MIXED: Rule = Rule {
    id: "firmware-mixed",
    domain: Domain::Modules,
    policy: Policy::of(Severities::INFO.rdma_expected(Severity::Warning)),
    title: "Equal adapters run different firmware",
    explanation: "Adapters of one board type run different firmware versions. They usually work together, but bugs \
        and defaults differ, and a fault that affects only some ports is often caused by this.",
    remedy: Remedy::all(
        "Drain the node, because this cuts every connection. Update all adapters to one version (mlxfwmanager, \
        mlxup, or the tool of the vendor) and reset them or reboot.",
    ),
    false_alarms: "Only adapters with the same driver and board id are compared. Virtual functions are not. For information on a node of \
        which nothing is expected: vendors support releases side by side, replaced adapters come with newer ones, and the first number of a \
        version is that of the adapter's generation, which is the same for one board.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: firmware_mixed,
};

fn firmware_mixed(node: &Node, _: &Expectations) -> Vec<Draft> {
    let mut boards: BTreeMap<(&str, &str), BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for hca in node.hcas().filter(|hca| !hca.is_virtual() && !hca.is_software()) {
        let (Some(driver), Some(board), Some(firmware)) =
            (hca.driver.known(), hca.board_id.known(), hca.firmware.known())
        else {
            continue;
        };
        boards
            .entry((driver, board))
            .or_default()
            .entry(firmware)
            .or_default()
            .push(&hca.name);
    }
    let mixed = boards.iter().filter(|(_, versions)| versions.len() > 1);
    let found = mixed.map(|((_, board), versions)| {
        let words: Vec<_> = versions
            .iter()
            .map(|(version, names)| format!("{version} on {}", names.join(", ")))
            .collect();
        let message = format!(
            "adapters of board {board} run different firmware: {}",
            words.join("; ")
        );
        let mut finding = Draft::new(&FIRMWARE_MIXED, Subject::node(), message);
        for (version, names) in versions {
            finding = finding.evidence(format!("{CLASS}/{}/fw_ver", names[0]), version);
        }
        finding
    });
    found.collect()
}

/// `softroce-in-use`.
pub static SOFTROCE_IN_USE: Rule = Rule {
    id: "softroce-in-use",
    domain: Domain::Modules,
    policy: Policy::of(Severities::INFO.rdma_expected(Severity::Warning))
        .except(&[&HARDWARE_UNUSED, &WITH_HARDWARE]),
    title: "RDMA runs in software",
    explanation: "The device is rdma_rxe (SoftRoCE) or siw: the CPU does the work of an adapter. Everything works, \
        but at the speed and cost of TCP, and without GPUDirect.",
    remedy: Remedy::all(
        "Find out why the adapter has no RDMA device (rdma-modules-missing), then remove the software device: rdma \
        link delete NAME",
    ),
    false_alarms: "Software RDMA is normal on a test machine without RDMA hardware.",
    inputs: &[Writer::HostRoot],
    judge: softroce_in_use,
};

static HARDWARE_UNUSED: Exception = Exception {
    condition: "if no adapter has an RDMA device, although one supports RDMA",
    severities: Severities::WARNING,
};

static WITH_HARDWARE: Exception = Exception {
    condition: "if an adapter has an RDMA device too",
    severities: Severities::INFO,
};

fn softroce_in_use(node: &Node, _: &Expectations) -> Vec<Draft> {
    let software: Vec<_> = node.hcas().filter(|hca| hca.is_software()).collect();
    let Some(first) = software.first() else {
        return Vec::new();
    };
    let hardware = node.hcas().any(|hca| !hca.is_software());
    let capable = node.functions().iter().any(|function| {
        function.role == Role::Capable && function.driver.is_some() && function.lent_to.is_none()
    });
    let exception = match (hardware, capable) {
        (true, _) => Some(&WITH_HARDWARE),
        (false, true) => Some(&HARDWARE_UNUSED),
        (false, false) => None,
    };
    let names: BTreeSet<&str> = software.iter().map(|hca| hca.name.as_str()).collect();
    let names: Vec<_> = names.into_iter().take(8).collect();
    let driver = first.driver.known().map_or("", String::as_str);
    let finding = Draft::new(
        &SOFTROCE_IN_USE,
        Subject::node(),
        format!(
            "{} in software ({driver}): {}",
            count(software.len(), "RDMA device"),
            names.join(", ")
        ),
    );
    let parent = first.parent_netdev.known().map_or("unknown", String::as_str);
    vec![
        finding
            .exception(exception)
            .evidence(format!("{CLASS}/{}/parent", first.name), parent),
    ]
}

/// `hcas-missing`.
pub static HCAS_MISSING: Rule = Rule {
    id: "hcas-missing",
    domain: Domain::Modules,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical)).except(&[&FEWER_THAN_EXPECTED]),
    title: "RDMA devices are missing",
    explanation: "There are fewer physical RDMA devices than the configuration expects (expect.hcas). Or an adapter \
        has no driver, but adapters of the same kind have RDMA devices. Or one PCIe switch with GPUs has no adapter, and all others have one.",
    remedy: Remedy {
        any: "Compare the adapters that lspci shows with those that were installed. Read the kernel log (AER, 'Device \
            unreachable', 'health compromised') and rescan the bus. If the adapter does not appear, power-cycle the node.",
        host: "lspci -nn | grep -e 02[08]0 -e 0207; echo 1 > /sys/bus/pci/rescan",
        ..Remedy::all("")
    },
    false_alarms: "Virtual functions, software devices, devices that the configuration excludes and functions that are bound \
        to vfio-pci are not missing. Adapters are compared only with at least three equal ones that are attached alike, of \
        which three quarters must have a device. Switches are not compared in a virtual machine.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Configuration],
    judge: hcas_missing,
};

static FEWER_THAN_EXPECTED: Exception = Exception {
    condition: "if there are fewer devices than expect.hcas",
    severities: Severities::always(Severity::Critical),
};

fn hcas_missing(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    if node.hcas.unread().is_some() {
        return Vec::new();
    }
    let fewer = expectations
        .hcas
        .and_then(|expected| fewer_than_expected(node, expected));
    fewer.into_iter().chain(lost::missing_by_symmetry(node)).collect()
}

fn fewer_than_expected(node: &Node, expected: u32) -> Option<Draft> {
    let names: Vec<_> = node
        .hcas()
        .filter(|hca| !hca.is_software() && !hca.is_virtual())
        .map(|hca| hca.name.as_str())
        .collect();
    if names.len() >= expected as usize {
        return None;
    }
    let message = format!(
        "{}, expected {expected}",
        count(names.len(), "physical RDMA device")
    );
    let listed = if names.is_empty() {
        "none".into()
    } else {
        names.join(", ")
    };
    let finding = Draft::new(&HCAS_MISSING, Subject::node(), message)
        .exception(&FEWER_THAN_EXPECTED)
        .evidence(CLASS, listed)
        .evidence("configuration, expect.hcas", expected);
    Some(finding)
}

/// `driver-unexpected`.
pub static DRIVER_UNEXPECTED: Rule = Rule {
    id: "driver-unexpected",
    domain: Domain::Modules,
    policy: Policy::of(Severities::always(Severity::Warning)),
    title: "An RDMA device has another driver than expected",
    explanation: "The driver of a physical RDMA device is not the one in the configuration (expect.driver).",
    remedy: Remedy::all("Identify the adapter (lspci -s ADDRESS), then correct the node or the expectation."),
    false_alarms: "Silent without expect.driver. Software devices are reported by softroce-in-use.",
    inputs: &[Writer::HostRoot, Writer::Configuration],
    judge: driver_unexpected,
};

fn driver_unexpected(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let Some(expected) = &expectations.driver else {
        return Vec::new();
    };
    let hardware = node.hcas().filter(|hca| !hca.is_software());
    let found = hardware.filter_map(|hca| {
        let driver = hca.driver.known().filter(|driver| *driver != expected)?;
        Some(
            Draft::new(
                &DRIVER_UNEXPECTED,
                Subject::device(&hca.name),
                format!("{} has driver {driver}, expected {expected}", hca.name),
            )
            .evidence(format!("{CLASS}/{}/device/driver", hca.name), driver)
            .evidence("configuration, expect.driver", expected),
        )
    });
    found.collect()
}
