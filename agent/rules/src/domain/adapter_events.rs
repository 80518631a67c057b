//! What the kernel logged about adapters: faults that neither sysfs nor a counter shows.

use rdma_health_node::{
    DeviceEvent, Function, Node,
    kmsg::{Device, EventKind},
    pci::Role,
    words::listed,
};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Severity, Writer,
    domain::logged::{self, Part, STARTED_AGAIN, faults, slot_losses},
    draft::Draft,
    policy::Exception,
};

/// Until how long after boot a missing cable is the state in which the node started, in seconds.
const START: u64 = 600;
/// The same after the driver started the device.
const START_OF_DRIVER: u64 = 120;

static PAST: Exception = Exception {
    condition: "if the last message is more than a day old and all ports of the device are ACTIVE",
    severities: Severities::INFO,
};

mod driver_errors;
mod not_started;

pub(super) use self::not_started::{is_refusal, without_range};
pub use self::{driver_errors::DRIVER_ERRORS, not_started::ADAPTER_NOT_STARTED};

const FALSE_ALARMS: &str = "Only messages that the kernel itself wrote count, not those that a process wrote to the kernel log, \
    and only those about RDMA adapters. A fault that the driver reported as over is info.";

/// `adapter-failed`.
pub static ADAPTER_FAILED: Rule = Rule {
    id: "adapter-failed",
    domain: Domain::Kernel,
    policy: Policy::of(Severities::CRITICAL).except(&[&STARTED_AGAIN]),
    title: "The driver reports that an adapter or its firmware failed",
    explanation: "The kernel log contains a message of the adapter's driver about a fatal state: the health counter of \
        the firmware stopped, the firmware reported an internal or hardware error, or the device did not come back \
        after a reset. The ports often stay ACTIVE, but transfers and calls fail or hang.",
    remedy: Remedy::all(
        "Drain the node. Keep the log for the vendor: journalctl -k -b | grep ADDRESS. Then reset the adapter \
        (mlxfwreset -d ADDRESS reset for ConnectX) or power-cycle the node, and update the firmware. If it happens \
        again, replace the adapter.",
    ),
    false_alarms: FALSE_ALARMS,
    inputs: &[Writer::Hardware],
    judge: adapter_failed,
};

fn adapter_failed(node: &Node, _: &Expectations) -> Vec<Draft> {
    let kinds = [EventKind::AdapterHealth];
    adapter_faults(node, &ADAPTER_FAILED, &kinds, |fault, finding| {
        let finding = finding.remedy(remedy_for(node, &ADAPTER_FAILED));
        Some(finding.exception(fault.is_over.then_some(&STARTED_AGAIN)))
    })
}

/// What to do about an adapter that does not work: in a virtual machine, it cannot be reset or replaced from inside.
fn remedy_for(node: &Node, rule: &Rule) -> Remedy {
    if node.is_virtual_machine() {
        OF_A_GUEST
    } else {
        rule.remedy
    }
}

/// What to do in a virtual machine, whose hardware belongs to the provider or the host.
const OF_A_GUEST: Remedy = Remedy::all(
    "Drain the node. Keep the log: journalctl -k -b | grep ADDRESS. Stop and start the instance (a reboot keeps it on the same host), \
    or detach and attach the adapter. If it happens again, report it to the provider or the administrator of the host.",
);

/// `adapter-timeout`.
pub static ADAPTER_TIMEOUT: Rule = Rule {
    id: "adapter-timeout",
    domain: Domain::Kernel,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical))
        .except(&[&STARTED_AGAIN, &PAST]),
    title: "An adapter did not answer a command or did not send packets in time",
    explanation: "The firmware did not answer a command of the driver in time, or the adapter did not send queued \
        packets in time. Each lost command also costs a slot of the command queue. Processes that create or destroy RDMA \
        objects hang or fail, even if the ports are ACTIVE.",
    remedy: Remedy::all(
        "Drain the node and reset the adapter (mlxfwreset -d ADDRESS reset for ConnectX) or reboot. Look for the first \
        message: journalctl -k -b | grep ADDRESS. If it happens again, update firmware and driver.",
    ),
    false_alarms: FALSE_ALARMS,
    inputs: &[Writer::Hardware],
    judge: adapter_timeout,
};

fn adapter_timeout(node: &Node, _: &Expectations) -> Vec<Draft> {
    let kinds = [EventKind::CommandTimeout, EventKind::TxTimeout];
    adapter_faults(node, &ADAPTER_TIMEOUT, &kinds, |fault, finding| {
        let finding = finding.remedy(remedy_for(node, &ADAPTER_TIMEOUT));
        Some(finding.exception(past_of(node, fault)))
    })
}

/// `pci-fault-logged`.
pub static PCI_FAULT: Rule = Rule {
    id: "pci-fault-logged",
    domain: Domain::Kernel,
    policy: Policy::of(Severities::CRITICAL).except(&[&STARTED_AGAIN, &NONFATAL, &PAST]),
    title: "The kernel logged a PCIe error that takes an adapter offline",
    explanation: "An uncorrectable fatal PCIe error, a link that the PCIe port shut down (Downstream Port Containment), or a device \
        that left the bus. The driver stops the adapter; if it cannot recover, the RDMA device is gone until a reboot.",
    remedy: Remedy::all(
        "Read the messages before and after: journalctl -k -b | grep -e AER -e DPC -e EEH -e pciehp -e ADDRESS. Drain the node, \
        power-cycle it, and reseat the adapter, its riser and cables. If the error returns, replace the part.",
    ),
    false_alarms: FALSE_ALARMS,
    inputs: &[Writer::Hardware],
    judge: pci_fault,
};

static NONFATAL: Exception = Exception {
    condition: "if no error was fatal",
    severities: Severities::WARNING,
};

fn pci_fault(node: &Node, _: &Expectations) -> Vec<Draft> {
    let kinds = [EventKind::PciFatal, EventKind::PciNonfatal];
    let events = node.device_events();
    adapter_faults(node, &PCI_FAULT, &kinds, |fault, finding| {
        let nonfatal = fault.event.kind == EventKind::PciNonfatal;
        // Of an error that the firmware of the machine reports, the kernel writes both.
        let is_repeated = events.iter().any(|other| {
            let is_worse = other.event.kind == EventKind::PciFatal && other.event.driver == "APEI";
            nonfatal && is_worse && other.subject() == fault.subject()
        });
        if is_repeated {
            return None;
        }
        let past = past_of(node, fault);
        let mut finding = finding;
        if fault.is_above && fault.function.is_none() {
            let titles: Vec<_> = below(node, fault).iter().map(Function::title).collect();
            let below = listed(titles.iter().map(String::as_str));
            finding.extend_message(&format!(
                "; which of the devices below it failed is not logged: {below}"
            ));
        }
        let finding = lost_links(node, fault)
            .iter()
            .fold(finding, |finding, line| finding.evidence("/dev/kmsg", line));
        Some(finding.exception(past.or(nonfatal.then_some(&NONFATAL))))
    })
}

/// The adapters and GPUs below the PCIe port of a message.
fn below<'a>(node: &'a Node, fault: &DeviceEvent<'_>) -> Vec<Function<'a>> {
    let Device::Pci(port) = &fault.event.device else {
        return Vec::new();
    };
    let functions = node.functions().into_iter();
    functions
        .filter(|function| {
            matches!(function.role, Role::Rdma | Role::Gpu) && function.bridges().contains(port)
        })
        .collect()
}

/// What the hotplug driver logged of slots that lost their link or card, if the adapter of the fault is gone: the port above it is known no more.
fn lost_links<'a>(node: &'a Node, fault: &DeviceEvent<'_>) -> Vec<&'a str> {
    const MOST: usize = 2;
    let is_gone = match &fault.event.device {
        Device::Pci(address) => node.pci.has(address) == Some(false),
        _ => false,
    };
    if !is_gone {
        return Vec::new();
    }
    let functions = node.functions();
    let has_adapter = |line: &str| {
        let ports = functions.iter().flat_map(Function::bridges);
        ports.into_iter().any(|port| line.contains(port.as_str()))
    };
    slot_losses(node)
        .filter(|line| !has_adapter(line))
        .take(MOST)
        .collect()
}

/// `port-module-fault`.
pub static MODULE_FAULT: Rule = Rule {
    id: "port-module-fault",
    domain: Domain::Kernel,
    policy: Policy::of(Severities::WARNING).except(&[&STARTED_AGAIN, &PAST]),
    title: "A cable, a transceiver or the adapter is faulty or too hot",
    explanation: "The adapter reported an error of the cable or transceiver in its port (temperature, power budget, unreadable or \
        unsupported module), or of its own temperature. It lowers the rate or switches the port off to protect the part.",
    remedy: Remedy::all(
        "Read temperature and power of the module: ethtool -m NETDEV (ConnectX also: mlxlink -d ADDRESS -m). Check fans and air flow, \
        clean and reseat the module, and replace it if the message returns.",
    ),
    false_alarms: FALSE_ALARMS,
    inputs: &[Writer::Hardware, Writer::Fabric],
    judge: module_fault,
};

fn module_fault(node: &Node, _: &Expectations) -> Vec<Draft> {
    let kinds = [EventKind::ModuleFault, EventKind::AdapterTemperature];
    adapter_faults(node, &MODULE_FAULT, &kinds, |fault, finding| {
        let message = &fault.event.message;
        let is_hot = fault.event.kind == EventKind::AdapterTemperature
            || message.to_ascii_lowercase().contains("temperature");
        let (case, remedy) = if is_hot {
            (FindingCase::TooHot, TOO_HOT)
        } else if is_down(node, fault) {
            (FindingCase::ModuleOff, of_module(message))
        } else {
            (FindingCase::ModuleFaulty, of_module(message))
        };
        let finding = finding.exception(past_of(node, fault)).case(case);
        Some(finding.remedy(remedy))
    })
}

/// What to do about a module, by the reason that the driver gives.
fn of_module(message: &str) -> Remedy {
    let lower = message.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&[
        "power budget",
        "power class",
        "too much power",
        "insufficient power",
    ]) {
        POWER_BUDGET
    } else if has(&["unqualified", "unsupported", "not supported", "enforce"]) {
        UNQUALIFIED
    } else if has(&["cable error", "bus stuck", "i2c", "eeprom", "shorted"]) {
        FAULTY
    } else {
        MODULE_FAULT.remedy
    }
}

/// What to do about a module that needs too much power.
const POWER_BUDGET: Remedy = Remedy::all(
    "The module in the port needs more power than the adapter gives it, so the port stays off: use a module of a lower power class (a passive \
    copper cable needs none), or an adapter and slot with more power. Read what it needs: ethtool -m NETDEV | grep -i power; mlxlink -d ADDRESS -m.",
);

/// What to do about a module that the adapter rejects.
const UNQUALIFIED: Remedy = Remedy::all(
    "The adapter does not accept the module in the port, and switched it off: use a module or cable from the list of the adapter's vendor, update \
    the firmware of the adapter, or allow other modules in its settings, if the vendor offers that. Read what it is: ethtool -m NETDEV.",
);

/// What to do about a module that the adapter cannot read.
const FAULTY: Remedy = Remedy::all(
    "Replace the cable or transceiver of NETDEV (ADDRESS): the adapter cannot read it. If another one fails in the same port, too, the port of the \
    adapter is faulty. Read what the adapter knows: ethtool -m NETDEV (ConnectX also: mlxlink -d ADDRESS -m).",
);

/// What to do about a temperature.
const TOO_HOT: Remedy = Remedy::all(
    "Check the fans, the air flow and the room's temperature. Read the temperatures: sensors; ethtool -m NETDEV for the module; mlxlink -d \
    ADDRESS -m or mget_temp -d ADDRESS for ConnectX. Drain the node if they do not fall.",
);

/// `port-cable-unplugged`.
pub static CABLE_UNPLUGGED: Rule = Rule {
    id: "port-cable-unplugged",
    domain: Domain::Kernel,
    policy: Policy::of(Severities::WARNING).except(&[&PAST]),
    title: "A cable or transceiver was unplugged while the node ran",
    explanation: "The adapter reported that the module in its port was removed, and no later message says that one was inserted.",
    remedy: Remedy::all(
        "Plug the cable in again, until it clicks. If it was not removed by hand, reseat the module, then replace it.",
    ),
    false_alarms: "A port without a cable since the node or the driver started is not reported: drivers log empty ports at \
        start-up.",
    inputs: &[Writer::Hardware, Writer::Fabric],
    judge: cable_unplugged,
};

fn cable_unplugged(node: &Node, _: &Expectations) -> Vec<Draft> {
    let events = node.device_events();
    adapter_faults(
        node,
        &CABLE_UNPLUGGED,
        &[EventKind::ModuleUnplugged],
        |fault, finding| {
            let of_device = |kind| {
                let subject = fault.subject();
                events
                    .iter()
                    .find(move |other| other.event.kind == kind && other.subject() == subject)
            };
            let started = of_device(EventKind::Started).and_then(|started| started.event.last);
            let was_there = of_device(EventKind::ModulePlugged).is_some();
            let at_start = match fault.event.last {
                Some(last) => {
                    last < START || started.is_some_and(|at| (at..at + START_OF_DRIVER).contains(&last))
                }
                None => !was_there,
            };
            // What reads the memory of a module also asks ports that never had one.
            let is_query = fault.event.message.contains("Mad Status(") && !was_there;
            let is_over = fault.is_over || at_start || is_query;
            (!is_over).then(|| finding.exception(is_past(node, fault).then_some(&PAST)))
        },
    )
}

/// `pci-slot-power`.
pub static SLOT_POWER: Rule = Rule {
    id: "pci-slot-power",
    domain: Domain::Kernel,
    policy: Policy::of(Severities::WARNING).except(&[&ON_GB10]),
    title: "The PCIe slot offers less power than the adapter may draw",
    explanation: "The adapter reported insufficient power on its PCIe slot. Some adapters limit their speed then, or switch off \
        ports with optical transceivers.",
    remedy: Remedy::all(
        "Put the adapter into a slot of at least 75 W, connect its auxiliary power cable if it has one, and update the \
        firmware of the server, which advertises the power of the slot.",
    ),
    false_alarms: "Some servers advertise too little power and the adapter still works at full speed: measure with rdma-health \
        check --probe.",
    inputs: &[Writer::Hardware],
    judge: slot_power,
};

fn slot_power(node: &Node, _: &Expectations) -> Vec<Draft> {
    adapter_faults(node, &SLOT_POWER, &[EventKind::PciPower], |fault, finding| {
        let is_usual = node.has_usual_power(&fault.event.message);
        let finding = finding.exception(is_usual.then_some(&ON_GB10));
        Some(finding.remedy(if is_usual { ON_BOARD } else { SLOT_POWER.remedy }))
    })
}

/// What to do where the adapter is part of the board.
const ON_BOARD: Remedy = Remedy::all(
    "Nothing: the adapter is part of the board, there is no slot, and it works at full speed with the power that is announced. Measure with \
    rdma-health check --probe if transfers are slow.",
);

static ON_GB10: Exception = Exception {
    condition: "on a GB10 (DGX Spark), whose adapter is part of the board and works at full speed with what is announced",
    severities: Severities::INFO,
};

/// One finding for each kind of event on each adapter.
fn adapter_faults(
    node: &Node,
    rule: &'static Rule,
    kinds: &[EventKind],
    complete: impl Fn(&DeviceEvent<'_>, Draft) -> Option<Draft>,
) -> Vec<Draft> {
    faults(node, rule, Part::Adapters, kinds, complete)
}

/// The exception for a fault that is over.
fn past_of(node: &Node, fault: &DeviceEvent<'_>) -> Option<&'static Exception> {
    if fault.is_over {
        return Some(&STARTED_AGAIN);
    }
    is_past(node, fault).then_some(&PAST)
}

/// Whether a fault is long ago and its device has only active ports.
fn is_past(node: &Node, fault: &DeviceEvent<'_>) -> bool {
    logged::is_past(node, fault) && have_all(node, fault, true)
}

/// Whether the device of a fault has ports, none of which is active.
fn is_down(node: &Node, fault: &DeviceEvent<'_>) -> bool {
    have_all(node, fault, false)
}

/// Whether the device of a fault has ports, and all of them are active, or none.
fn have_all(node: &Node, fault: &DeviceEvent<'_>, active: bool) -> bool {
    let names: Vec<&str> = match &fault.function {
        Some(function) => function.names.clone(),
        None if fault.is_above => below(node, fault)
            .into_iter()
            .flat_map(|function| function.names)
            .collect(),
        None => Vec::new(),
    };
    let mut ports = node
        .ports()
        .filter(|port| names.contains(&port.hca.name.as_str()))
        .peekable();
    ports.peek().is_some() && ports.all(|port| port.is_active() == Some(active))
}
