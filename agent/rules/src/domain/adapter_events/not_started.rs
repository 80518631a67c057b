//! Adapters that their driver could not start.

use rdma_health_node::{
    DeviceEvent, Node,
    kmsg::{Device, EventKind},
};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Severity, Writer, draft::Draft,
};

use super::{FALSE_ALARMS, STARTED_AGAIN, adapter_faults, remedy_for};

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
    adapter_faults(node, &ADAPTER_NOT_STARTED, &kinds, |fault, finding| {
        let finding = finding.exception(fault.is_over.then_some(&STARTED_AGAIN));
        Some(match without_range(node, fault) {
            Some(line) => finding
                .case(FindingCase::NoAddressRange)
                .remedy(NO_ADDRESS_RANGE)
                .evidence("/dev/kmsg", line),
            None if is_without_file(fault) => finding.case(FindingCase::FirmwareFile).remedy(FIRMWARE_FILE),
            None => finding
                .case(FindingCase::NotStarted)
                .remedy(remedy_for(node, &ADAPTER_NOT_STARTED)),
        })
    })
}

/// The message that says that a function got no address range for its registers.
fn without_range<'a>(node: &'a Node, fault: &DeviceEvent<'_>) -> Option<&'a str> {
    let address = match (&fault.function, &fault.event.device) {
        (Some(function), _) => function.address,
        (None, Device::Pci(address)) => address,
        (None, _) => return None,
    };
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

/// Whether the driver did not find a file that it loads into the adapter: `ice` without its DDP package starts in Safe Mode, without RDMA.
fn is_without_file(fault: &DeviceEvent<'_>) -> bool {
    let lower = fault.event.message.to_ascii_lowercase();
    [
        "package file",
        "ddp package",
        "safe mode",
        "direct firmware load",
        "failed to load firmware",
    ]
    .iter()
    .any(|words| lower.contains(words))
}

/// What to do about a file that is missing.
const FIRMWARE_FILE: Remedy = Remedy {
    any: "Install the package of firmware (linux-firmware, or the one of the driver), write the initramfs again, and reload the driver or restart the \
        node. At each start the driver loads a file into the adapter, which it did not find below /lib/firmware (for ice: the DDP package \
        intel/ice/ddp/ice.pkg). The adapter is not faulty.",
    host: "journalctl -k -b | grep -e ADDRESS -e 'firmware load'; ls -l /lib/firmware/intel/ice/ddp; update-initramfs -u, or dracut -f",
    ..Remedy::all("")
};

/// What to do about a function without an address range.
pub(super) const NO_ADDRESS_RANGE: Remedy = Remedy {
    any: "The firmware of the machine assigned no address range (BAR) to the adapter, which is not faulty itself: in the firmware setup, enable \
        Above 4G Decoding and raise the MMIO size (MMIO High Size), and update that firmware. If it has no such setting, boot with \
        pci=realloc.",
    host: "lspci -vv -s ADDRESS | grep -e Region -e BAR; journalctl -k -b | grep -e 'no space' -e 'assign'",
    ..Remedy::all("")
};
