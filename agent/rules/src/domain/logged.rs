//! Findings about what the kernel logged of devices.
//!
//! A message reports an event, not a state. Each rule says what ends it: the driver reports that the device works again
//! ([`STARTED_AGAIN`]), or nothing more is logged for a day ([`PAST`], or a condition of the rule that adds what must work now). Rules
//! whose fault only a reset, a reboot or another setting ends name neither.

use rdma_health_node::{
    DeviceEvent, Node,
    kmsg::{Event, EventKind},
    words::{count_of, duration},
};

use crate::{Rule, Severities, Subject, draft::Draft, policy::Exception};

/// A fault of which nothing was logged for a day.
pub(super) static PAST: Exception = Exception {
    condition: "if the last message is more than a day old",
    severities: Severities::INFO,
};

/// What rules of the kernel log are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// RDMA adapters, and the peer-memory modules.
    Adapters,
    /// GPUs and `NVSwitches`.
    Gpus,
}

/// A fault that is over.
pub(super) static STARTED_AGAIN: Exception = Exception {
    condition: "if the driver reported later that the device works again",
    severities: Severities::INFO,
};

/// One finding for each kind of event on each device. `complete` adds the exception of the policy that applies, or drops the
/// finding.
pub(super) fn faults(
    node: &Node,
    rule: &'static Rule,
    part: Part,
    kinds: &[EventKind],
    complete: impl Fn(&DeviceEvent<'_>, Draft) -> Option<Draft>,
) -> Vec<Draft> {
    let events = node.device_events();
    let of_these = events
        .iter()
        .filter(|fault| kinds.contains(&fault.event.kind) && fault.is_of_gpu() == (part == Part::Gpus));
    let found = of_these.filter_map(|fault| {
        let event = fault.event;
        let message = said(fault, words(event.kind));
        let source = event
            .last
            .map_or_else(|| "/dev/kmsg".to_owned(), |last| format!("/dev/kmsg at {last} s"));
        let finding = Draft::new(rule, Subject::device(fault.subject()), message);
        complete(fault, finding.evidence(source, &event.message))
    });
    found.collect()
}

/// The sentence of a finding: the device, what happened to it, how often and when.
pub(super) fn said(fault: &DeviceEvent<'_>, what: &str) -> String {
    format!(
        "{}: {what} ({})",
        fault.title(),
        when(&count_of(fault.event.count, "message"), fault.event)
    )
}

/// What the hotplug driver logged of slots that lost their link or card, oldest first.
pub(super) fn slot_losses(node: &Node) -> impl DoubleEndedIterator<Item = &str> {
    const LOST: [&str; 3] = ["link down", "card not present", "power fault"];
    let is_loss = |line: &&str| {
        let lower = line.to_ascii_lowercase();
        lower.contains("pciehp: slot") && LOST.iter().any(|words| lower.contains(words))
    };
    node.kernel_lines().iter().map(String::as_str).filter(is_loss)
}

/// How often something was logged (`3 messages`), and when this last message was.
pub(super) fn when(how_often: &str, last: &Event) -> String {
    let when = last.last.map_or_else(String::new, |last| {
        format!(", last {} after boot", duration(last))
    });
    format!("{how_often} in the kernel log{when}")
}

/// Whether the last message of an event is older than so many seconds; not, if it has no time.
pub(super) fn is_older(node: &Node, event: &Event, seconds: u64) -> bool {
    let times = node.host.uptime.known().zip(event.last);
    times.is_some_and(|(uptime, last)| uptime.saturating_sub(last) > seconds)
}

/// Whether the last message of a fault is more than a day old.
pub(super) fn is_past(node: &Node, fault: &DeviceEvent<'_>) -> bool {
    const DAY: u64 = 86_400;
    is_older(node, fault.event, DAY)
}

/// What happened, after the name of the device.
fn words(kind: EventKind) -> &'static str {
    match kind {
        EventKind::AdapterHealth => "the driver reported a fatal state of the adapter or its firmware",
        EventKind::AdapterTemperature => "the adapter is too hot",
        EventKind::CommandTimeout => "the firmware did not answer a command in time",
        EventKind::TxTimeout => "the adapter did not send queued packets in time",
        EventKind::FirmwareInit => "the firmware did not finish its initialisation",
        EventKind::ProbeFailed => "the driver could not start the device",
        EventKind::PciFatal => "a fatal PCIe error",
        EventKind::PciNonfatal => "an uncorrectable PCIe error that is not fatal",
        EventKind::BounceFull => "the bounce buffers for DMA (SWIOTLB) are full",
        EventKind::AccessDenied => "the kernel denied a process the access",
        EventKind::PciPower => "the PCIe slot offers too little power",
        EventKind::IommuFault => "the IOMMU blocked a memory access",
        EventKind::ModuleFault => "an error of the cable or transceiver",
        EventKind::ModuleUnplugged => "the cable or transceiver was unplugged",
        EventKind::PauseStorm => "the adapter reports a pause storm: pause frames stopped a port for long",
        EventKind::LinkDown => "the link went down",
        EventKind::ResourceLimit => "the firmware refused a request: no resources are left",
        EventKind::FunctionsRefused => "the kernel created no virtual functions",
        EventKind::PeerMemory => "an error of the module for GPU memory",
        EventKind::ModuleMismatch => {
            "the kernel refused this module: it does not match the modules that are loaded"
        }
        EventKind::ModuleCrashed => "the kernel crashed in this module",
        EventKind::ModuleHung => "a task hangs in this module",
        EventKind::GpuFailed => "the GPU does not work until it is reset or the node restarts",
        EventKind::GpuLinkError => "an NVLink or xGMI connection between GPUs failed",
        EventKind::GpuError => "an error of the GPU or of an application on it",
        EventKind::DriverError => "errors that this program does not know",
        EventKind::ModulePlugged => "a cable or transceiver was inserted",
        EventKind::LinkUp => "the link came up",
        EventKind::Started => "the driver started the device",
    }
}
