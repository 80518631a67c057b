//! Adapters that their driver could not start.

use std::collections::BTreeSet;

use rdma_health_node::{
    DeviceEvent, Node,
    kmsg::{Device, EventKind},
};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Severity, Writer, draft::Draft,
};

use super::{FALSE_ALARMS, OF_A_GUEST, STARTED_AGAIN, adapter_faults, remedy_for};
use crate::domain::{
    logged::said,
    modules::{FOREIGN_CORE, on_foreign_core, outdated},
};

/// `adapter-not-started`.
pub static ADAPTER_NOT_STARTED: Rule = Rule {
    id: "adapter-not-started",
    domain: Domain::Kernel,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical)).except(&[&STARTED_AGAIN]),
    title: "The driver could not start an adapter",
    explanation: "The firmware of the adapter did not finish its initialisation, the driver did not find a file that it loads into the adapter, or it gave up on the device for another \
        reason. There is no RDMA device for this adapter, or one that does not work.",
    remedy: Remedy::all(
        "Read why: journalctl -k -b | grep ADDRESS. Power-cycle the node, because a reboot does not always reset the \
        adapter. If the firmware still does not start, write it again (flint or mstflint for ConnectX) or replace the adapter.",
    ),
    false_alarms: FALSE_ALARMS,
    inputs: &[Writer::Hardware],
    judge: adapter_not_started,
};

fn adapter_not_started(node: &Node, _: &Expectations) -> Vec<Draft> {
    let kinds = [EventKind::FirmwareInit, EventKind::ProbeFailed];
    let mut found = adapter_faults(node, &ADAPTER_NOT_STARTED, &kinds, |fault, finding| {
        let finding = finding.exception(fault.is_over.then_some(&STARTED_AGAIN));
        if let Some(line) = without_range(node, fault) {
            let finding = finding.case(FindingCase::NoAddressRange);
            return Some(finding.remedy(NO_ADDRESS_RANGE).evidence("/dev/kmsg", line));
        }
        if let Some(line) = without_file(node, fault) {
            let name = file_named(line);
            let what = match name {
                Some(name) => {
                    format!("the driver did not find the file {name}, which it loads into the adapter")
                }
                None => "the driver did not find a file that it loads into the adapter".to_owned(),
            };
            let finding = finding
                .case(FindingCase::FirmwareFile)
                .message(said(fault, &what));
            let finding = finding.remedy(match (name, line.contains("ice ")) {
                (Some(_), _) => NAMED_FILE,
                (None, true) => DDP_PACKAGE,
                (None, false) => FIRMWARE_FILE,
            });
            let finding = match name {
                Some(name) => finding.fill("FILE", name.rsplit('/').next().unwrap_or(name)),
                None => finding,
            };
            return Some(if line == fault.event.message {
                finding
            } else {
                finding.evidence("/dev/kmsg", line)
            });
        }
        if let Some(line) = without_resources(node, fault) {
            let finding = finding.case(FindingCase::WithoutResources).remedy(NO_RESOURCES);
            return Some(finding.evidence("/dev/kmsg", line));
        }
        if fault.event.driver == "infiniband" {
            return without_core(node, fault, finding);
        }
        if let Some(line) = on_foreign_core(node, &fault.event.driver) {
            let what = "the driver could not start the device on the RDMA core of MLNX_OFED or DOCA-OFED, of which it is not a part";
            let finding = finding
                .case(FindingCase::ModuleRefused)
                .message(said(fault, what))
                .fill("MODULE", &fault.event.driver)
                .reason(line);
            return Some(finding.remedy(FOREIGN_CORE));
        }
        if let Some(line) = without_interrupts(node, fault) {
            let what = "the driver could not start the device, because it got no interrupts from the host";
            let finding = finding.case(FindingCase::Refused).message(said(fault, what));
            return Some(finding.remedy(NO_INTERRUPTS).evidence("/dev/kmsg", line));
        }
        if let Some(line) = address_of(fault).and_then(|address| outdated(node, address)) {
            let what =
                "the driver gave the device up, because its firmware is older than the driver supports";
            let finding = finding
                .case(FindingCase::Refused)
                .message(said(fault, what))
                .reason(line);
            return Some(finding.remedy(OLD_FIRMWARE).evidence("/dev/kmsg", line));
        }
        if let Some(line) = refused(node, fault) {
            let finding = finding
                .case(FindingCase::Refused)
                .remedy(versions_or_host(node, fault));
            return Some(if line == fault.event.message {
                finding
            } else {
                finding.evidence("/dev/kmsg", line)
            });
        }
        if is_without_memory(node, fault) {
            return Some(finding.case(FindingCase::WithoutResources).remedy(NO_MEMORY));
        }
        let finding = finding.case(FindingCase::NotStarted);
        if !node.is_virtual_machine()
            && let Some(line) = not_ready(node, fault)
        {
            return Some(finding.remedy(NOT_READY).evidence("/dev/kmsg", line));
        }
        Some(finding.remedy(remedy_for(node, &ADAPTER_NOT_STARTED)))
    });
    // A missing file is logged where it is missed, and where the driver gives up.
    let mut named = BTreeSet::new();
    found.retain(|finding| !finding.is(FindingCase::FirmwareFile) || named.insert(finding.subject().clone()));
    found
}

/// What the RDMA core could not set up for a device: one of its queues, because the firmware refused it or did not answer. If it did not answer, that is
/// reported, and this follows from it.
fn without_core(node: &Node, fault: &DeviceEvent<'_>, finding: Draft) -> Option<Draft> {
    let subject = fault.subject();
    let events = node.device_events();
    let of_device = || events.iter().filter(|other| other.subject() == subject);
    let is_dead = |other: &DeviceEvent<'_>| {
        let kind = other.event.kind;
        matches!(kind, EventKind::AdapterHealth | EventKind::CommandTimeout) && !other.is_over
    };
    if of_device().any(is_dead) {
        return None;
    }
    let was_silent = of_device().any(|other| other.event.kind == EventKind::CommandTimeout);
    let what =
        "the RDMA core could not set up the device, so programs that connect with rdma_cm cannot use it";
    let finding = finding.message(said(fault, what));
    let reason = of_device()
        .filter(|other| other.event.kind == EventKind::DriverError)
        .map(|other| &other.event.message)
        .next_back();
    let finding = match reason {
        Some(reason) => finding.evidence("/dev/kmsg", reason),
        None => finding,
    };
    Some(if was_silent {
        let finding = finding.case(FindingCase::NotStarted);
        finding.remedy(remedy_for(node, &ADAPTER_NOT_STARTED))
    } else {
        finding
            .case(FindingCase::Refused)
            .remedy(versions_or_host(node, fault))
    })
}

/// The message of the driver that it got no interrupts: the first line of the chain says why it gave up, the last only that it did.
fn without_interrupts<'a>(node: &'a Node, fault: &DeviceEvent<'_>) -> Option<&'a str> {
    let address = address_of(fault)?;
    let says = |line: &&String| {
        let lower = line.to_ascii_lowercase();
        let is_of_interrupts = ["irq", "msi-x", "msix"].iter().any(|word| lower.contains(word));
        let is_refused = ["fail", "unable", "can't", "could not"]
            .iter()
            .any(|word| lower.contains(word));
        lower.contains(address) && is_of_interrupts && is_refused && !lower.contains("sr-iov")
    };
    node.kernel_lines().iter().find(says).map(String::as_str)
}

/// What to do about an adapter whose driver got no interrupts.
const NO_INTERRUPTS: Remedy = Remedy {
    any: "The adapter is not faulty: the kernel or the hypervisor gave its driver no interrupts (MSI-X vectors). Read what was logged about MSI before it, check that MSI is on (no \
        pci=nomsi on the kernel command line) and how many vectors the function has. If it worked before an update, start the earlier kernel, and report the change.",
    host: "journalctl -k -b | grep -i -e msi -e irq; cat /proc/cmdline; lspci -vv -s ADDRESS | grep MSI-X",
    ..Remedy::all("")
};

/// Whether the driver gave up because it got no memory (ENOMEM), and the adapter answered all of its commands.
fn is_without_memory(node: &Node, fault: &DeviceEvent<'_>) -> bool {
    let subject = fault.subject();
    let message = fault.event.message.trim_end_matches(['.', ')', '\n']);
    let is_dead = |other: &DeviceEvent<'_>| {
        let kinds = [
            EventKind::AdapterHealth,
            EventKind::CommandTimeout,
            EventKind::FirmwareInit,
            EventKind::PciFatal,
        ];
        kinds.contains(&other.event.kind) && other.subject() == subject
    };
    fault.event.kind == EventKind::ProbeFailed
        && message.ends_with("-12")
        && !node.device_events().iter().any(is_dead)
}

/// The message that says that the firmware was still starting when the driver gave up: a DPU starts an operating system of its own.
fn not_ready<'a>(node: &'a Node, fault: &DeviceEvent<'_>) -> Option<&'a str> {
    let address = address_of(fault)?;
    let is_early = |line: &&String| line.contains(address) && line.contains("pre-initializing state");
    node.kernel_lines().iter().find(is_early).map(String::as_str)
}

/// What to do about an adapter whose firmware was not ready.
const NOT_READY: Remedy = Remedy {
    any: "The firmware was still starting when the driver gave up. A BlueField needs minutes to start: wait until it is up (its console, or its state in the BMC), then let the driver try again. If it fails again, power-cycle the node and update the firmware of the adapter.",
    host: "echo ADDRESS > /sys/bus/pci/drivers_probe; journalctl -k -b | grep ADDRESS",
    ..Remedy::all("")
};

/// The message that says that a function got no address range for its registers.
pub(in crate::domain) fn without_range<'a>(node: &'a Node, fault: &DeviceEvent<'_>) -> Option<&'a str> {
    let address = address_of(fault)?;
    let says = |line: &&String| {
        let Some((_, rest)) = line.split_once(address) else {
            return false;
        };
        // The ranges from number 6 on are those of virtual functions and the boot code, without which a function works.
        let is_own = rest
            .split_once(" BAR ")
            .and_then(|(before, rest)| (!before.ends_with("VF")).then(|| rest.chars().next())?)
            .is_some_and(|number| ('0'..='5').contains(&number));
        let has_none = ["can't assign", "failed to assign", "no space for"]
            .iter()
            .any(|words| rest.contains(words));
        is_own && has_none && rest.contains("[mem") || rest.contains("Missing registers BAR")
    };
    node.kernel_lines().iter().find(says).map(String::as_str)
}

/// The message that says that the driver did not find a file that it loads into the adapter: `ice` without its DDP package starts in Safe
/// Mode, without RDMA. It is the message of the fault, or another one about the same function.
fn without_file<'a>(node: &'a Node, fault: &DeviceEvent<'a>) -> Option<&'a str> {
    let own = fault.event.message.as_str();
    let of_own = names_missing_file(own).then_some(own);
    if of_own.is_some_and(|own| file_named(own).is_some()) {
        return of_own;
    }
    let Some(address) = address_of(fault) else {
        return of_own;
    };
    let lines = node.kernel_lines().iter().map(String::as_str);
    let mut others = lines.filter(|line| line.contains(address) && names_missing_file(line));
    // The line with the name of the file says most.
    let first = others.next();
    let named = first
        .into_iter()
        .chain(others)
        .find(|line| file_named(line).is_some());
    named.or(of_own).or(first)
}

/// The file that a line names, below `/lib/firmware`: `hfi1_dc8051.fw`, `intel/ice/ddp/ice.pkg`.
fn file_named(line: &str) -> Option<&str> {
    const ENDINGS: [&str; 6] = [".fw", ".pkg", ".bin", ".sbin", ".mfa2", ".img"];
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let words = line.split(|c| !is_part(c));
    let mut words = words.map(|word| word.trim_end_matches('.'));
    words.find(|word| {
        ENDINGS
            .iter()
            .any(|ending| word.len() > ending.len() && word.ends_with(ending))
    })
}

fn names_missing_file(line: &str) -> bool {
    const PHRASES: [&str; 10] = [
        "package file",
        "ddp package",
        "safe mode",
        "direct firmware load",
        "failed to load firmware",
        "working firmware",
        "fw file",
        "firmware file",
        "firmware image",
        "cannot find firmware",
    ];
    let lower = line.to_ascii_lowercase();
    PHRASES.iter().any(|words| lower.contains(words))
}

/// The address of the function of a fault.
fn address_of<'a>(fault: &DeviceEvent<'a>) -> Option<&'a str> {
    match (&fault.function, &fault.event.device) {
        (Some(function), _) => Some(function.address),
        (None, Device::Pci(address)) => Some(address),
        (None, _) => None,
    }
}

/// The message about the same function in which its firmware refuses a request because it has no resources left.
fn without_resources<'a>(node: &'a Node, fault: &DeviceEvent<'_>) -> Option<&'a str> {
    let subject = fault.subject();
    let refused = node
        .device_events()
        .into_iter()
        .find(|other| other.event.kind == EventKind::ResourceLimit && other.subject() == subject)?;
    Some(&refused.event.message)
}

/// The message that says that the firmware answered and refused what the driver wanted to set, or does not have it (EINVAL, EPROTONOSUPPORT, EOPNOTSUPP,
/// ENOTSUPP): it is the message of the fault, or another one about the same function.
fn refused<'a>(node: &'a Node, fault: &DeviceEvent<'a>) -> Option<&'a str> {
    let own = fault.event.message.as_str();
    if is_refusal(own) {
        return Some(own);
    }
    // The last message may be one of the core, with the error of another attempt.
    let has_number = |line: &str| {
        line.rsplit([' ', '(', '='])
            .next()
            .is_some_and(|word| word.starts_with('-'))
    };
    if fault.event.kind != EventKind::ProbeFailed || has_number(own) {
        return None;
    }
    let address = address_of(fault)?;
    let mut lines = node.kernel_lines().iter();
    let line = lines.find(|line| line.contains(address) && is_refusal(line))?;
    Some(line)
}

/// Whether a driver says that what it wanted was refused, and not that the adapter does not answer.
pub(in crate::domain) fn is_refusal(line: &str) -> bool {
    const NUMBERS: [&str; 4] = ["-22", "-93", "-95", "-524"];
    let lower = line.to_ascii_lowercase();
    let of_capabilities = ["handle_hca_cap", "set_hca_cap", "set_hca_ctrl"];
    if lower.contains("failed") && of_capabilities.iter().any(|call| lower.contains(call)) {
        return true;
    }
    let of_start = ["probe", "load_one", "init_one"]
        .iter()
        .any(|word| lower.contains(word));
    let number = lower
        .trim_end_matches([')', '.', '\n'])
        .rsplit([' ', '(', '='])
        .next()
        .unwrap_or_default();
    of_start && lower.contains("failed") && NUMBERS.contains(&number)
}

/// What to do about a refused request. In a virtual machine where another function works with the same driver, the versions are not the reason.
fn versions_or_host(node: &Node, fault: &DeviceEvent<'_>) -> Remedy {
    let mut working = node.hcas().filter_map(|hca| hca.driver.known());
    if node.is_virtual_machine() && working.any(|driver| *driver == fault.event.driver) {
        OF_A_GUEST
    } else {
        VERSIONS
    }
}

/// What to do about an adapter that works, with a driver that does not fit its firmware.
pub(super) const VERSIONS: Remedy = Remedy {
    any: "The adapter answers, but its firmware refuses what the driver requests: compare the versions of both with those that the vendor releases together. \
        Update the firmware of an adapter that is older than the driver expects, or use a newer kernel or driver package for one that is newer. The \
        adapter need not be faulty.",
    host: "journalctl -k -b | grep ADDRESS; devlink dev info pci/ADDRESS; uname -r",
    ..Remedy::all("")
};

/// What to do about an adapter whose driver says that its firmware is too old.
const OLD_FIRMWARE: Remedy = Remedy {
    any: "Update the firmware of the adapter to a release that its driver supports, with the tool of its vendor: the driver logged REASON. Or use the driver that was \
        released with this firmware. The adapter is not faulty, and a power cycle does not help.",
    host: "journalctl -k -b | grep ADDRESS; devlink dev info pci/ADDRESS; NVIDIA: mstflint -d ADDRESS query; Chelsio: cxgbtool NETDEV loadfw FILE, or newer files of linux-firmware",
    ..Remedy::all("")
};

/// What to do about an adapter whose firmware has no resources left.
const NO_RESOURCES: Remedy = Remedy {
    any: "Use fewer virtual functions (sriov_numvfs; ConnectX: NUM_OF_VFS of mlxconfig), end processes that hold many RDMA objects, and load the driver again \
        or restart the node: the firmware has no resources left (memory keys, queues or pages) for the RDMA device. The adapter is not faulty.",
    host: "journalctl -k -b | grep ADDRESS; rdma resource show",
    ..Remedy::all("")
};

/// What to do where the driver got no memory.
const NO_MEMORY: Remedy = Remedy {
    any: "The driver got no memory or no room in the adapter's tables when it started (ENOMEM); the adapter need not be faulty. Read the message before: it names what \
        is missing. Check the options of the driver, which size its tables (/etc/modprobe.d; mlx4_core: log_num_mgm_entry_size, log_num_mtt, log_num_qp), the free memory \
        of the host, and the number of virtual functions. Then load the driver again, or a release of driver or kernel that worked before.",
    host: "journalctl -k -b | grep ADDRESS; grep -r options /etc/modprobe.d; free -m",
    ..Remedy::all("")
};

/// What to do about a file that is missing.
const FIRMWARE_FILE: Remedy = Remedy {
    any: "Install the package of firmware (linux-firmware, or the one of the driver), write the initramfs again, and reload the driver or restart the \
        node. At each start the driver loads a file into the adapter, which it did not find below /lib/firmware. The adapter is not faulty.",
    host: "journalctl -k -b | grep -i -e ADDRESS -e 'firmware load' -e 'fw file'; ls -l /lib/firmware; update-initramfs -u, or dracut -f",
    ..Remedy::all("")
};

/// What to do about a file whose name is known.
const NAMED_FILE: Remedy = Remedy {
    any: "Install the package with the firmware file FILE (linux-firmware, or the one of the driver), write the initramfs again, and reload the driver or \
        restart the node. The adapter is not faulty.",
    host: "find /lib/firmware -name 'FILE*'; update-initramfs -u, or dracut -f; journalctl -k -b | grep ADDRESS",
    ..Remedy::all("")
};

/// What to do where ice starts in Safe Mode.
const DDP_PACKAGE: Remedy = Remedy {
    any: "Install the package of firmware (linux-firmware, or the one of the driver), write the initramfs again, and reload the driver or restart the \
        node. The driver did not find the DDP package, intel/ice/ddp/ice.pkg below /lib/firmware. The adapter is not faulty.",
    ..FIRMWARE_FILE
};

/// What to do about a function without an address range.
const NO_ADDRESS_RANGE: Remedy = Remedy {
    any: "The firmware of the machine assigned no address range (BAR) to the adapter, which is not faulty itself: in the firmware setup, enable \
        Above 4G Decoding and raise the MMIO size (MMIO High Size), and update that firmware. If it has no such setting, boot with \
        pci=realloc.",
    host: "lspci -vv -s ADDRESS | grep -e Region -e BAR; journalctl -k -b | grep -e 'no space' -e 'assign'",
    ..Remedy::all("")
};
