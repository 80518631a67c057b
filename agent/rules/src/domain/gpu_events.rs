//! What the kernel logged about GPUs and the modules that give adapters access to their memory.

use rdma_health_node::{
    DeviceEvent, Node,
    kmsg::{Device, Event, EventKind},
};

use crate::{
    Domain, Expectations, FindingCase, Policy, Remedy, Rule, Severities, Writer,
    domain::{
        adapter_events::without_range,
        logged::{Part, STARTED_AGAIN, faults, is_past, said},
    },
    draft::Draft,
    policy::Exception,
};

static LINK: Exception = Exception {
    condition: "for a connection between GPUs (NVLink, xGMI), which RDMA does not use",
    severities: Severities::WARNING,
};

static PAST: Exception = Exception {
    condition: "if the last message is more than a day old and a driver holds the GPU, or no RDMA device uses the GPUs",
    severities: Severities::INFO,
};

/// `gpu-failed`.
pub static GPU_FAILED: Rule = Rule {
    id: "gpu-failed",
    domain: Domain::GpuDirect,
    policy: Policy::of(Severities::CRITICAL).except(&[&STARTED_AGAIN, &LINK, &PAST]),
    title: "A GPU failed and does not work until it is reset",
    explanation: "The kernel log contains a message of the GPU's driver after which the GPU must be reset or the node restarted: \
        the GPU has fallen off the bus (Xid 79), an uncorrectable or uncontained memory error (Xid 48, 64, 95, 140), its system \
        processor or a micro-controller does not answer (Xid 62, 119, 120), NVLink (Xid 74, 144 to 150), a fatal PCIe error, or a \
        reset of amdgpu that did not end well. Jobs on the GPU end; RDMA transfers from and to its memory fail or hang on this \
        node and, as IBV_WC_RETRY_EXC_ERR(12) or a timeout, on its peers. The classes follow the recovery actions of NVIDIA's Xid \
        catalogue (docs.nvidia.com/deploy/xid-errors).",
    remedy: Remedy {
        any: "Drain the node, and read the messages about this GPU. Reset the GPU (nvidia-smi --gpu-reset, or amd-smi reset \
            --gpureset), or restart the node; power-cycle it if the GPU has fallen off the bus. If it happens again, run the \
            vendor's diagnosis (dcgmi diag -r 3) and replace the GPU.",
        host: "journalctl -k -b | grep -e Xid -e amdgpu -e ADDRESS",
        ..Remedy::all("")
    },
    false_alarms: "Only messages of the kernel itself count. Errors that applications cause (Xid 13, 31, 43, 45) are reported by \
        gpu-errors-logged. NVIDIA's driver before version 570 does not log that a GPU was reset, so a finding may stay for a day.",
    inputs: &[Writer::Hardware],
    judge: gpu_failed,
};

fn gpu_failed(node: &Node, _: &Expectations) -> Vec<Draft> {
    let kinds = [EventKind::GpuFailed, EventKind::GpuLinkError, EventKind::PciFatal];
    let events = node.device_events();
    let is_unnamed = |event: &Event| matches!(event.device, Device::Driver(_));
    let is_named = |other: &DeviceEvent<'_>| {
        other.event.kind == EventKind::GpuFailed && !is_unnamed(other.event) && !other.is_over
    };
    faults(node, &GPU_FAILED, Part::Gpus, &kinds, |fault, finding| {
        // The driver's checks name no GPU; another message does.
        if is_unnamed(fault.event) && events.iter().any(is_named) {
            return None;
        }
        let is_lent = fault
            .function
            .as_ref()
            .is_some_and(|function| function.lent_to.is_some());
        let exception = if fault.is_over {
            Some(&STARTED_AGAIN)
        } else if is_past(node, fault) && !is_still_without(node, fault)
            || !node.hcas().any(|hca| !hca.is_software())
        {
            Some(&PAST)
        } else {
            (fault.event.kind == EventKind::GpuLinkError).then_some(&LINK)
        };
        // Without a driver, what the PCI core had no room for explains why the driver gave up.
        let is_driven = fault
            .function
            .as_ref()
            .is_some_and(|function| function.driver.is_some());
        let unassigned = without_range(node, fault).filter(|_| !is_driven);
        let finding = match unassigned {
            Some(line) => finding.evidence("/dev/kmsg", line),
            None => finding,
        };
        let finding = if fault.event.message.contains(WITHOUT_RANGE) || unassigned.is_some() {
            let what = "the firmware of the machine gave its memory no address range (BAR), so its driver cannot use it";
            let finding = finding.message(said(fault, what));
            finding.case(FindingCase::NoAddressRange).remedy(NO_ADDRESS_RANGE)
        } else {
            finding.case(FindingCase::GpuFailed)
        };
        (!is_lent).then(|| finding.exception(exception))
    })
}

/// Whether the GPU is gone, or no driver holds it: what the kernel logged is still so, however long ago it was.
fn is_still_without(node: &Node, fault: &DeviceEvent<'_>) -> bool {
    match (&fault.function, &fault.event.device) {
        (Some(function), _) => function.driver.is_none(),
        (None, Device::Pci(address)) => node.pci.has(address) == Some(false),
        _ => false,
    }
}

/// What NVIDIA's driver writes about a GPU to whose memory the firmware of the machine gave no address range.
const WITHOUT_RANGE: &str = " is 0M @ 0x0 ";

/// What to do about such a GPU.
const NO_ADDRESS_RANGE: Remedy = Remedy {
    any: "The firmware of the machine assigned no address range (BAR) to the memory of the GPU, which is not faulty itself: in the firmware setup, \
        enable Above 4G Decoding, raise the MMIO size (MMIO High Size), and update that firmware. If it has no such setting, boot with pci=realloc. In a \
        virtual machine, give it a larger window for 64-bit addresses.",
    host: "lspci -vv -s ADDRESS | grep -e Region -e BAR; journalctl -k -b | grep -e NVRM -e 'no space'",
    ..Remedy::all("")
};

/// `gpu-errors-logged`.
pub static GPU_ERRORS: Rule = Rule {
    id: "gpu-errors-logged",
    domain: Domain::GpuDirect,
    policy: Policy::of(Severities::INFO).except(&[&PEER_MEMORY]),
    title: "The driver of a GPU or a peer-memory module logged errors",
    explanation: "The kernel log contains errors of a GPU that do not stop it: most are those of an application (Xid 13, 31, 43, 45), \
        others announce a repair at the next reset (Xid 63, 94). Or nvidia_peermem (nv_peer_mem) reports an error, which makes the \
        registration of GPU memory fail; its message about an invalid context at the end of a process has no consequence.",
    remedy: Remedy {
        any: "If a job failed at that time, search for its own error first. If nvidia_peermem reports that pages could not be pinned or mapped, \
            compare the versions of GPU driver and RDMA stack, or use DMA-BUF.",
        host: "journalctl -k -b | grep -e Xid -e peermem -e peer_mem -e amdgpu",
        ..Remedy::all("")
    },
    false_alarms: "Info only, except for errors of a peer-memory module.",
    inputs: &[Writer::Hardware, Writer::Job],
    judge: gpu_errors,
};

/// What to do about a peer-memory module that could not pin or map GPU memory.
const OF_PEER_MEMORY: Remedy = Remedy {
    any: "Programs cannot register GPU memory (EFAULT, EINVAL): the module could not pin it, or not map it for the adapter. Install the GPU driver again, so that \
        the module fits the RDMA stack that is loaded, or use DMA-BUF (open GPU kernel module, Linux 5.12 or later). If the IOMMU translates, boot with \
        passthrough.",
    host: "journalctl -k -b | grep -e peermem -e peer_mem -e NVRM; modinfo nvidia_peermem | grep -e vermagic -e depends",
    ..Remedy::all("")
};

static PEER_MEMORY: Exception = Exception {
    condition: "if a peer-memory module could not pin or map GPU memory in the last day",
    severities: Severities::WARNING,
};

fn gpu_errors(node: &Node, _: &Expectations) -> Vec<Draft> {
    let of_gpus = faults(
        node,
        &GPU_ERRORS,
        Part::Gpus,
        &[EventKind::GpuError],
        |_, finding| Some(finding.case(FindingCase::GpuError)),
    );
    let of_modules = faults(
        node,
        &GPU_ERRORS,
        Part::Adapters,
        &[EventKind::PeerMemory],
        |fault, finding| {
            let text = &fault.event.message;
            let at_exit = ["free_callback", "invalid context"]
                .iter()
                .any(|words| text.contains(words));
            let matters = !at_exit && !is_past(node, fault);
            let finding = finding.case(FindingCase::PeerMemoryError);
            let finding = if at_exit {
                finding
            } else {
                finding.remedy(OF_PEER_MEMORY)
            };
            Some(finding.exception(matters.then_some(&PEER_MEMORY)))
        },
    );
    of_gpus.into_iter().chain(of_modules).collect()
}
