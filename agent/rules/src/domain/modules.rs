//! Kernel modules and firmware that make RDMA devices of hardware.

use std::collections::{BTreeMap, BTreeSet};

use rdma_health_node::{
    Node,
    infiniband::CLASS,
    pci::{Function, Role},
};

use super::common::{count, is_virtual, severity};
use crate::{Domain, Expectations, Finding, Profile, Remedy, Rule, Severity, Subject};

/// `rdma-modules-missing`.
pub(crate) static RDMA_MODULES_MISSING: Rule = Rule {
    id: "rdma-modules-missing",
    domain: Domain::Modules,
    severity: Severity::Warning,
    title: "The hardware can do RDMA, but a kernel module for it is missing",
    explanation: "A network function whose hardware can do RDMA has no RDMA device: its RDMA module (mlx5_ib, irdma, bnxt_re, …) \
        is not loaded or did not take it. Or RDMA devices are there, but ib_uverbs is not, so that no program can use them: \
        /dev/infiniband/uverbs* does not exist and ibv_open_device fails. Critical where RDMA is expected by the profile. \
        Without a profile a warning for InfiniBand adapters and for a missing ib_uverbs, for information for Ethernet adapters, \
        many of which never do RDMA.",
    remedy: Remedy {
        any: "Load what the message names with modprobe and look at the kernel's log for what the driver says. Where it loads \
            and no device comes, RDMA may be switched off for the function: devlink dev param show, mlxconfig.",
        openshift: "Load modules at boot with a MachineConfig that writes /etc/modules-load.d/rdma.conf; with the NVIDIA Network \
            Operator let its OFED pod load them.",
        kubernetes: "Where the NVIDIA Network Operator drives OFED, look at its pod: it unloads the kernel's own modules first.",
        host: "modprobe -a ib_uverbs mlx5_ib; keep it with /etc/modules-load.d/rdma.conf. The package linux-modules-extra or \
            kernel-modules-extra holds them on some distributions.",
    },
    false_alarms: "A function that no driver, or vfio-pci, holds is handed to somebody else. A virtual function may be in a pod's \
        network namespace. The functions of a RoCE bond share one RDMA device. None of them is judged, nor is a device that the \
        configuration leaves out.",
    judge: rdma_modules_missing,
};

fn rdma_modules_missing(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    const FABRIC: [u32; 2] = [0x0207, 0x0208];
    let mut findings = Vec::new();
    if node.hcas().next().is_some()
        && node.modules.user_verbs.known() == Some(&false)
        && let Some(severity) = severity(expectations, Severity::Warning, Severity::Critical)
    {
        let message = "RDMA devices are there, but ib_uverbs is not loaded: no program can use them";
        findings.push(
            Finding::new(&RDMA_MODULES_MISSING, Subject::node(), message)
                .severity(severity)
                .evidence("/proc/modules", "no ib_uverbs")
                .evidence("/sys/class/infiniband_verbs", "there is no such directory"),
        );
    }
    for (address, function) in node.pci.with_role(Role::Capable) {
        let handed_on = function
            .driver
            .known()
            .is_none_or(|driver| driver.starts_with("vfio"));
        if handed_on || function.physical_function.known().is_some() || is_bonded(node, address) {
            continue;
        }
        let fabric = function
            .class
            .known()
            .is_some_and(|class| FABRIC.contains(&(class >> 8)));
        let auto = if fabric { Severity::Warning } else { Severity::Info };
        let Some(severity) = severity(expectations, auto, Severity::Critical) else {
            continue;
        };
        let module = module_for(function);
        let loaded = module.and_then(|module| node.modules.has(module));
        let state = match (module, loaded) {
            (Some(module), Some(false)) => format!("{module} is not loaded"),
            (Some(module), Some(true)) => format!("{module} is loaded but did not take it"),
            _ => "no module took it".into(),
        };
        let driver = function.driver.known().map_or("", String::as_str);
        let message = format!("{address} ({driver}) can do RDMA but has no RDMA device: {state}");
        let mut finding = Finding::new(&RDMA_MODULES_MISSING, Subject::device(address), message)
            .severity(severity)
            .evidence(
                format!("/sys/bus/pci/devices/{address}/infiniband"),
                "there is no such directory",
            );
        if let Some(module) = module {
            let words = match loaded {
                Some(true) => format!("{module} is loaded"),
                Some(false) => format!("no {module}"),
                None => "unread".into(),
            };
            finding = finding.evidence("/proc/modules", words);
        }
        findings.push(finding);
    }
    findings
}

/// Whether another function of the same card has an RDMA device: the functions of a RoCE bond share one.
fn is_bonded(node: &Node, address: &str) -> bool {
    let card = |address: &str| address.rsplit_once('.').map(|(card, _)| card.to_owned());
    let mut hcas = node.hcas().filter_map(|hca| hca.pci_address.known());
    hcas.any(|other| card(other) == card(address))
}

/// The module that makes an RDMA device of a function, by the driver that holds it.
fn module_for(function: &Function) -> Option<&'static str> {
    Some(match function.driver.known()?.as_str() {
        "mlx5_core" => "mlx5_ib",
        "mlx4_core" => "mlx4_ib",
        "ice" | "i40e" | "idpf" => "irdma",
        "bnxt_en" => "bnxt_re",
        "mana" => "mana_ib",
        "qede" => "qedr",
        _ => return None,
    })
}

/// `firmware-mixed`.
pub(crate) static FIRMWARE_MIXED: Rule = Rule {
    id: "firmware-mixed",
    domain: Domain::Modules,
    severity: Severity::Info,
    title: "Equal adapters run different firmware",
    explanation: "Adapters of one board type differ in their firmware version. They mostly work together, but bugs and defaults \
        differ, and a fault that only some ports show is often this. A warning where RDMA is expected by the profile; for \
        information otherwise.",
    remedy: Remedy {
        any: "Bring all to one version (mlxfwmanager, mlxup, or the vendor's tool) and reset the adapters or reboot. Empty the \
            node of jobs first: this cuts every connection.",
        ..Remedy::all("")
    },
    false_alarms: "Only adapters with the same driver and board id are compared; virtual functions are not.",
    judge: firmware_mixed,
};

fn firmware_mixed(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(severity) = severity(expectations, Severity::Info, Severity::Warning) else {
        return Vec::new();
    };
    let mut boards: BTreeMap<(&str, &str), BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for hca in node.hcas().filter(|hca| !is_virtual(hca) && !hca.is_software()) {
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
        let message = format!("adapters of type {board} run {}", words.join("; "));
        let mut finding = Finding::new(&FIRMWARE_MIXED, Subject::node(), message).severity(severity);
        for (version, names) in versions {
            finding = finding.evidence(format!("{CLASS}/{}/fw_ver", names[0]), version);
        }
        finding
    });
    found.collect()
}

/// `softroce-in-use`.
pub(crate) static SOFTROCE_IN_USE: Rule = Rule {
    id: "softroce-in-use",
    domain: Domain::Modules,
    severity: Severity::Info,
    title: "RDMA is done by software",
    explanation: "The device is rdma_rxe (SoftRoCE) or siw: the processor does what an adapter would. Everything works, at the \
        speed and cost of TCP, and GPUDirect does not. A warning where RDMA is expected by the profile and no hardware does \
        it, or where hardware that could is there; for information otherwise.",
    remedy: Remedy {
        any: "Look why the hardware has no RDMA device (rdma-modules-missing), then remove the software device: rdma link delete \
            NAME.",
        ..Remedy::all("")
    },
    false_alarms: "On a test machine without RDMA hardware it is for information.",
    judge: softroce_in_use,
};

fn softroce_in_use(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let software: Vec<_> = node.hcas().filter(|hca| hca.is_software()).collect();
    let (Some(first), false) = (software.first(), expectations.profile == Profile::TcpOnly) else {
        return Vec::new();
    };
    let hardware = node.hcas().any(|hca| !hca.is_software());
    let capable = node.pci.with_role(Role::Capable).any(|(_, function)| {
        function
            .driver
            .known()
            .is_some_and(|driver| !driver.starts_with("vfio"))
    });
    let instead = !hardware && (capable || expectations.profile.expects_rdma());
    let severity = if instead {
        Severity::Warning
    } else {
        Severity::Info
    };
    let names: BTreeSet<&str> = software.iter().map(|hca| hca.name.as_str()).collect();
    let names: Vec<_> = names.into_iter().take(8).collect();
    let driver = first.driver.known().map_or("", String::as_str);
    let finding = Finding::new(
        &SOFTROCE_IN_USE,
        Subject::node(),
        format!(
            "{} done by software ({driver}): {}",
            count(software.len(), "RDMA device"),
            names.join(", ")
        ),
    );
    let parent = first.parent_netdev.known().map_or("unknown", String::as_str);
    vec![
        finding
            .severity(severity)
            .evidence(format!("{CLASS}/{}/parent", first.name), parent),
    ]
}

/// `hcas-missing`.
pub(crate) static HCAS_MISSING: Rule = Rule {
    id: "hcas-missing",
    domain: Domain::Modules,
    severity: Severity::Warning,
    title: "There are fewer RDMA devices than expected, or one went away",
    explanation: "The configuration expects more RDMA devices in hardware (expect.hcas) than there are; or a device that was \
        there earlier in this boot is gone together with its PCI function: it fell off the bus, was removed, or its slot lost \
        power. Critical where the configuration names a number, a warning otherwise.",
    remedy: Remedy {
        any: "Look at the kernel's log around the time it was last there (AER, 'Device unreachable', 'health compromised'), and \
            at lspci. echo 1 > /sys/bus/pci/rescan may bring it back; a power cycle of the node often does.",
        ..Remedy::all("")
    },
    false_alarms: "Virtual functions and software devices come and go by design. A device that the configuration leaves out, or \
        whose PCI function is still there, has not gone away.",
    judge: hcas_missing,
};

/// A device that went away so long ago is old news, in seconds.
const WEEK: u64 = 7 * 86_400;

fn hcas_missing(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(hcas) = node
        .hcas
        .known()
        .or(node.hcas.is_absent().then_some(&BTreeMap::new()))
        .cloned()
    else {
        return findings;
    };
    let hardware: Vec<_> = hcas
        .values()
        .filter(|hca| !hca.is_software() && !is_virtual(hca))
        .collect();
    if let Some(expected) = expectations
        .hcas
        .filter(|expected| hardware.len() < *expected as usize)
    {
        let names: Vec<_> = hardware.iter().map(|hca| hca.name.as_str()).collect();
        let names = if names.is_empty() {
            "none".into()
        } else {
            names.join(", ")
        };
        findings.push(
            Finding::new(
                &HCAS_MISSING,
                Subject::node(),
                format!(
                    "{} in hardware, expected are {expected}",
                    count(hardware.len(), "RDMA device")
                ),
            )
            .severity(Severity::Critical)
            .evidence(CLASS, names)
            .evidence("configuration, expect.hcas", expected),
        );
    }
    let boot = node.host.boot_id.known();
    let past = node.history.as_ref().and_then(|history| history.boots.last());
    let Some(boot) = past.filter(|past| Some(&past.id) == boot) else {
        return findings;
    };
    let present: BTreeSet<&str> = hcas.values().map(|hca| hca.identity()).collect();
    let functions = node.pci.functions.known();
    for (identity, seen) in &boot.hcas {
        let software = seen
            .driver
            .as_deref()
            .is_none_or(|driver| matches!(driver, "rdma_rxe" | "siw"));
        let gone = !present.contains(identity.as_str())
            && functions.is_some_and(|all| !all.contains_key(identity))
            && !node.pci.left_out.contains(identity);
        if !gone || software || seen.is_virtual || node.time.saturating_sub(seen.last) > WEEK {
            continue;
        }
        if let Some(severity) = severity(expectations, Severity::Warning, Severity::Critical) {
            let ago = super::common::ago(node.time.saturating_sub(seen.last));
            findings.push(
                Finding::new(
                    &HCAS_MISSING,
                    Subject::device(&seen.name),
                    format!("{} ({identity}) was there {ago} ago and is gone", seen.name),
                )
                .severity(severity)
                .evidence(
                    format!("/sys/bus/pci/devices/{identity}"),
                    "there is no such function",
                )
                .evidence("history, last there", format!("{} s after 1970", seen.last)),
            );
        }
    }
    findings
}

/// `driver-unexpected`.
pub(crate) static DRIVER_UNEXPECTED: Rule = Rule {
    id: "driver-unexpected",
    domain: Domain::Modules,
    severity: Severity::Warning,
    title: "An RDMA device is driven by another driver than expected",
    explanation: "The configuration names the driver of the node's RDMA devices (expect.driver), and a device in hardware has \
        another.",
    remedy: Remedy::all(
        "Look which adapter it is (lspci -s ADDRESS), and correct the node or the expectation.",
    ),
    false_alarms: "Silent without an expectation. Software devices are softroce-in-use.",
    judge: driver_unexpected,
};

fn driver_unexpected(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let Some(expected) = &expectations.driver else {
        return Vec::new();
    };
    let hardware = node.hcas().filter(|hca| !hca.is_software());
    let found = hardware.filter_map(|hca| {
        let driver = hca.driver.known().filter(|driver| *driver != expected)?;
        Some(
            Finding::new(
                &DRIVER_UNEXPECTED,
                Subject::device(&hca.name),
                format!("{} is driven by {driver}, expected is {expected}", hca.name),
            )
            .evidence(format!("{CLASS}/{}/device/driver", hca.name), driver)
            .evidence("configuration, expect.driver", expected),
        )
    });
    found.collect()
}
