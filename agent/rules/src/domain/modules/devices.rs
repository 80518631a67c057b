//! The RDMA devices of a node: how many there are, with which drivers and firmware, and whether one is software.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{
    Function, Node,
    infiniband::{CLASS, Hca},
    pci::Role,
    words::count,
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, domain::lost,
    draft::Draft, policy::Exception,
};

use super::kernel_module::module_of;

/// `hcas-missing`.
pub static HCAS_MISSING: Rule = Rule {
    id: "hcas-missing",
    domain: Domain::Modules,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical)).except(&[
        &FEWER_THAN_EXPECTED,
        &SET_ASIDE,
        &ALL_SET_ASIDE,
    ]),
    title: "RDMA devices are missing",
    explanation: "There are fewer physical RDMA devices than the configuration expects (expect.hcas). Or an adapter \
        has no driver, but adapters of the same kind have RDMA devices. Or one PCIe switch with GPUs has no adapter, and all others have one. Or a virtual \
        machine with 4, 8 or 16 GPUs has one adapter less. Or \
        all adapters are bound to vfio-pci, although the host uses GPUs or has loaded the RDMA stack.",
    remedy: Remedy {
        any: "Compare the adapters that lspci shows with those that were installed. Read the kernel log (AER, 'Device \
            unreachable', 'health compromised', 'pciehp', 'hotplug'). If its slot or the board removed the adapter, plug card and cable in and restart the \
            node. Otherwise rescan the bus; if the adapter does not appear, power-cycle the node.",
        host: "lspci -nn | grep -e 02[08]0 -e 0207; journalctl -k -b | grep -i -e pciehp -e hotplug; echo 1 > /sys/bus/pci/rescan",
        ..Remedy::all("")
    },
    false_alarms: "Virtual functions, software devices, devices that the configuration excludes and functions that are bound \
        to vfio-pci are not missing; if only a few of the adapters of GPUs are, that is information, and so it is if all are on a host that uses \
        no GPUs. Adapters are compared only with at least three equal ones that are attached alike, of \
        which three quarters must have a device. Switches are not compared in a virtual machine.",
    inputs: &[Writer::Hardware, Writer::HostRoot, Writer::Configuration],
    judge: hcas_missing,
};

static FEWER_THAN_EXPECTED: Exception = Exception {
    condition: "if there are fewer devices than expect.hcas",
    severities: Severities::always(Severity::Critical),
};

/// Of an adapter that `vfio-pci` holds.
pub(in super::super) static SET_ASIDE: Exception = Exception {
    condition: "if an adapter of GPUs is bound to vfio-pci, although most equal adapters and its GPU are not",
    severities: Severities::INFO,
};

static ALL_SET_ASIDE: Exception = Exception {
    condition: "if all adapters are bound to vfio-pci, on a host that uses no GPUs",
    severities: Severities::INFO,
};

fn hcas_missing(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    if node.hcas.unread().is_some() {
        return Vec::new();
    }
    let fewer = expectations
        .hcas
        .and_then(|expected| fewer_than_expected(node, expected));
    fewer
        .or_else(|| all_set_aside(node))
        .or_else(|| one_fewer_than_gpus(node))
        .into_iter()
        .chain(lost::missing_by_symmetry(node))
        .collect()
}

/// A virtual machine with one adapter less than GPUs. Clouds give each GPU an adapter of its own, and a machine shows no PCIe switch below which one is missing.
fn one_fewer_than_gpus(node: &Node) -> Option<Draft> {
    const COMPLETE: [usize; 3] = [4, 8, 16];
    let gpus = node.gpus().count();
    let functions = node.functions();
    let may_be_elsewhere = !node.pci.left_out.is_empty()
        || functions.iter().any(|function| function.lent_to.is_some())
        || node.has_exclusive_namespaces();
    if !node.is_virtual_machine()
        || !COMPLETE.contains(&gpus)
        || may_be_elsewhere
        || !lost::gone(node).is_empty()
    {
        return None;
    }
    let groups = node.equal_adapters();
    if groups.iter().any(|group| group.len() >= gpus) {
        return None;
    }
    let rails = groups.iter().find(|group| group.len() + 1 == gpus)?;
    let names: Vec<_> = rails.iter().map(Function::subject).collect();
    let message = format!(
        "{gpus} GPUs have {} equal adapters: one is missing ({} are there)",
        rails.len(),
        names.join(", ")
    );
    let finding = Draft::new(&HCAS_MISSING, Subject::node(), message)
        .remedy(OF_CLOUD)
        .evidence(
            "/sys/bus/pci/devices",
            format!("{gpus} GPUs, {} adapters", rails.len()),
        );
    Some(finding)
}

/// What to do about an adapter that a virtual machine was not given.
const OF_CLOUD: Remedy = Remedy {
    any: "Compare with an equal machine: lspci | grep -i -e mellanox -e infiniband -e ethernet. If it has one more, the host has lost the adapter or did not assign it: stop and \
        start (deallocate) the machine, so that it moves to another host, and report the host to the provider.",
    host: "lspci -nn | grep -e 02[08]0 -e 0207; journalctl -k -b | grep -i -e pciehp -e hv_pci -e mlx5_core",
    ..Remedy::all("")
};

/// All adapters are bound to `vfio-pci`, on a host that uses GPUs or has the modules of RDMA loaded. A host that lends all it has to virtual machines
/// has no use for them.
fn all_set_aside(node: &Node) -> Option<Draft> {
    if node.hcas().next().is_some() {
        return None;
    }
    let functions = node.functions();
    let adapters: Vec<_> = functions
        .iter()
        .filter(|function| function.role == Role::Capable && !function.is_virtual() && !function.is_gaudi())
        .collect();
    let first = adapters.first()?;
    let has_gpus = node.gpus().next().is_some();
    let is_stack_loaded = ["ib_uverbs", "rdma_ucm"]
        .iter()
        .all(|name| node.modules.has(name) == Some(true));
    if adapters.iter().any(|function| function.lent_to.is_none()) || !(has_gpus || is_stack_loaded) {
        return None;
    }
    let addresses: Vec<_> = adapters.iter().take(8).map(|function| function.address).collect();
    let message = format!(
        "there is no RDMA device: {} bound to vfio-pci: {}",
        match adapters.len() {
            1 => "the only adapter that supports RDMA is".to_owned(),
            number => format!("all {number} adapter functions that support RDMA are"),
        },
        addresses.join(", ")
    );
    let driver = first.driver.unwrap_or("vfio-pci");
    let finding = Draft::new(&HCAS_MISSING, Subject::node(), message)
        .exception((!has_gpus).then_some(&ALL_SET_ASIDE))
        .remedy(GIVE_BACK)
        .fill("ADDRESS", first.address)
        .evidence(format!("/sys/bus/pci/devices/{}/driver", first.address), driver);
    Some(finding)
}

/// What to do where `vfio-pci` holds all adapters.
const GIVE_BACK: Remedy = Remedy {
    any: "If this node itself is to use RDMA, give the adapters back to their own driver, and remove what binds them to vfio-pci at boot: an override of driverctl, \
        vfio-pci.ids on the kernel command line, or a line in /etc/modprobe.d. A program with DPDK does not need vfio-pci for NVIDIA's adapters: its mlx5 driver works \
        with mlx5_core and mlx5_ib. If virtual machines use the adapters, nothing is missing here.",
    host: "driverctl list-overrides; driverctl unset-override ADDRESS; grep -r vfio /etc/modprobe.d /proc/cmdline",
    ..Remedy::all("")
};

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
    false_alarms: "Only adapters with the same driver and board id are compared; where the driver reports none, with the same PCI ids of chip and \
        board. Virtual functions are not. For information on a node of \
        which nothing is expected: vendors support releases side by side, replaced adapters come with newer ones, and the first number of a \
        version is that of the adapter's generation, which is the same for one board.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: firmware_mixed,
};

fn firmware_mixed(node: &Node, _: &Expectations) -> Vec<Draft> {
    let mut boards: BTreeMap<(&str, String), BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for hca in node.hcas().filter(|hca| !hca.is_virtual() && !hca.is_software()) {
        let (Some(driver), Some(board), Some(firmware)) =
            (hca.driver.known(), board(node, hca), hca.firmware.known())
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
        let message = format!("adapters of {board} run different firmware: {}", words.join("; "));
        let mut finding = Draft::new(&FIRMWARE_MIXED, Subject::node(), message);
        for (version, names) in versions {
            finding = finding.evidence(format!("{CLASS}/{}/fw_ver", names[0]), version);
        }
        finding
    });
    found.collect()
}

/// What makes adapters equal: the id of their board, or the PCI ids of chip and board.
fn board(node: &Node, hca: &Hca) -> Option<String> {
    if let Some(board) = hca.board_id.known() {
        return Some(format!("board {board}"));
    }
    let (_, pci) = node.link_of(hca)?;
    let (vendor, device) = (pci.vendor.known()?, pci.device.known()?);
    let model = node
        .model(hca)
        .map_or(String::new(), |model| format!("{model}, "));
    let board = match (pci.subsystem.known(), pci.subsystem.is_absent()) {
        (Some((vendor, device)), _) => format!(", board {vendor:04x}:{device:04x}"),
        (None, true) => String::new(),
        (None, false) => return None,
    };
    Some(format!("one model ({model}PCI {vendor:04x}:{device:04x}{board})"))
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
        link delete NAME.",
    ),
    false_alarms: "Software RDMA is normal on a test machine without RDMA hardware.",
    inputs: &[Writer::HostRoot],
    judge: softroce_in_use,
};

/// What to do where no adapter is there.
const WITHOUT_ADAPTER: Remedy = Remedy::all(
    "The node has no adapter that supports RDMA: if jobs need its speed, run them on a node (or a type of virtual machine) that has one. If no job \
    uses the software device, remove it: rdma link delete NAME",
);

/// What to do where the module of the adapter is not loaded.
const INSTEAD_OF_MODULE: Remedy = Remedy::all(
    "Load MODULE, which makes the RDMA device of the adapter (rdma-modules-missing has the commands), then remove the software device: rdma link \
    delete NAME",
);

/// What to do where an adapter has an RDMA device, too.
const NEXT_TO_HARDWARE: Remedy = Remedy::all(
    "Check that jobs use the RDMA devices of the adapter (NCCL_IB_HCA, UCX_NET_DEVICES). If no job uses the software device, remove it: rdma link \
    delete NAME",
);

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
    let functions = node.functions();
    // The device in software has the address of the adapter below it.
    let is_below = |function: &Function<'_>| {
        function.is_software && function.pci.is_some_and(|pci| pci.role == Role::Capable)
    };
    let mut capable = functions.iter().filter(|function| {
        (function.role == Role::Capable || is_below(function)) && function.lent_to.is_none()
    });
    let is_there = capable.clone().next().is_some();
    let module = capable
        .clone()
        .find_map(|function| module_of(function.driver?))
        .filter(|module| node.modules.has(module) == Some(false));
    let (exception, remedy) = if hardware {
        (Some(&WITH_HARDWARE), NEXT_TO_HARDWARE)
    } else if !is_there {
        (None, WITHOUT_ADAPTER)
    } else {
        let is_driven = capable.any(|function| function.driver.is_some());
        let remedy = if module.is_some() {
            INSTEAD_OF_MODULE
        } else {
            SOFTROCE_IN_USE.remedy
        };
        (is_driven.then_some(&HARDWARE_UNUSED), remedy)
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
            .remedy(remedy)
            .fill("MODULE", module.unwrap_or("MODULE"))
            .fill("NAME", &first.name)
            .evidence(format!("{CLASS}/{}/parent", first.name), parent),
    ]
}
