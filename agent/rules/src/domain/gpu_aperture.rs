//! How much of a GPU's memory other devices reach.

use rdma_health_node::{Function, Node, words::size};

use crate::{
    Domain, Expectations, Policy, Profile, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
};

/// `gpu-aperture-small`.
pub static APERTURE_SMALL: Rule = Rule {
    id: "gpu-aperture-small",
    domain: Domain::GpuDirect,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Warning)),
    title: "A GPU shows other devices only a small part of its memory",
    explanation: "GPUDirect RDMA reaches the memory of a GPU through its largest PCIe address range (BAR1 of NVIDIA's). On data-center GPUs with \
        HBM (V100, A100, H100, B200 and later) it covers the whole memory. With less, registering GPU memory for RDMA fails \
        with ENOMEM as soon as the range is full. The firmware of the machine had no room for a larger range, or it was resized.",
    remedy: Remedy {
        any: "In the firmware setup of the machine, enable Above 4G Decoding and Resizable BAR, raise the MMIO size (MMIO High Size), and update \
            that firmware. If it has no such setting, boot with pci=realloc.",
        host: "nvidia-smi -q -d MEMORY | grep -A3 BAR1; lspci -vv -s ADDRESS | grep -e Region -e BAR",
        ..Remedy::all("")
    },
    false_alarms: "Only GPUs are judged whose range covers their whole memory as they are delivered, if it is smaller than 4 GiB. Most others, such as \
        T4, have 256 MiB by design. Virtual machines are not judged: a virtual GPU has a small range.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: aperture_small,
};

/// The smallest range that is not reported.
const LEAST: u64 = 4 << 30;

/// Whether NVIDIA delivers the GPU with a range for its whole memory: GV100, GA100, GH100, GB100, GB110 (the PCI ID Repository).
fn covers_its_memory(function: &Function<'_>) -> bool {
    const NVIDIA: u16 = 0x10de;
    let pci = function.pci;
    let vendor = pci.and_then(|pci| pci.vendor.known());
    let device = pci.and_then(|pci| pci.device.known());
    let is_known = device.is_some_and(|device| {
        matches!(device, 0x1db1..=0x1dbf | 0x20b0..=0x20ff | 0x2321..=0x23ff | 0x2901..=0x29ff | 0x3180..=0x31ff)
    });
    vendor == Some(&NVIDIA) && is_known
}

fn aperture_small(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let has_adapter = node.hcas().any(|hca| !hca.is_software());
    if node.is_virtual_machine() || !has_adapter && expectations.profile != Profile::GpuDirect {
        return Vec::new();
    }
    let found = node.gpus().filter(covers_its_memory).filter_map(|gpu| {
        let range = *gpu.pci?.aperture.known().filter(|range| **range < LEAST)?;
        let message = format!(
            "{} shows other devices {} of its memory at once: GPUDirect RDMA cannot register more",
            gpu.title(),
            size(range)
        );
        let file = format!("/sys/bus/pci/devices/{}/resource", gpu.address);
        Some(
            Draft::new(&APERTURE_SMALL, Subject::device(gpu.subject()), message)
                .evidence(file, format!("largest region {}", size(range))),
        )
    });
    found.collect()
}
