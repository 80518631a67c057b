//! How much of a GPU's memory other devices reach.

use rdma_health_node::{Function, Node, model, words::size};

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
        HBM (V100, A100, H100, B200 and later; MI100 and later) it covers the whole memory. With less, registering GPU memory for RDMA fails \
        with ENOMEM as soon as the range is full. The firmware of the machine had no room for a larger range, or it was resized.",
    remedy: Remedy {
        any: "In the firmware setup of the machine, enable Above 4G Decoding and Resizable BAR, raise the MMIO size (MMIO High Size), and update \
            that firmware. If it has no such setting, boot with pci=realloc.",
        host: "nvidia-smi -q -d MEMORY | grep -A3 BAR1; lspci -vv -s ADDRESS | grep -e Region -e BAR",
        ..Remedy::all("")
    },
    false_alarms: "Only GPUs are judged whose range covers their whole memory as they are delivered, and those of which an equal one of the node has a \
        larger range, if it is smaller than 4 GiB. Most others, such as T4, have 256 MiB by design. GeForce cards and virtual machines are not judged: GeForce offers no \
        GPUDirect, and a virtual GPU has a small range.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: aperture_small,
};

/// The smallest range that is not reported.
const LEAST: u64 = 4 << 30;

/// What to do about a GPU of AMD.
const OF_AMD: Remedy = Remedy {
    host: "journalctl -k | grep -e amdgpu -e BAR; lspci -vv -s ADDRESS | grep -e Region -e BAR",
    ..APERTURE_SMALL.remedy
};

/// Whether the GPU is delivered with a range for its whole memory: GV100, GA100, GH100, GB100, GB110; MI100, MI200, MI300 and MI350 (the PCI
/// ID Repository).
fn covers_its_memory(function: &Function<'_>) -> bool {
    let pci = function.pci;
    let vendor = pci.and_then(|pci| pci.vendor.known());
    let device = pci.and_then(|pci| pci.device.known());
    match (vendor, device) {
        (Some(&model::NVIDIA), Some(device)) => {
            matches!(device, 0x1db1..=0x1dbf | 0x20b0..=0x20ff | 0x2321..=0x23ff | 0x2901..=0x29ff | 0x3180..=0x31ff)
        }
        (Some(&model::AMD), Some(device)) => {
            matches!(device, 0x738c..=0x738e | 0x7408 | 0x740c | 0x740f | 0x74a0..=0x74ac | 0x75a0..=0x75af)
        }
        _ => false,
    }
}

fn aperture_small(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    let has_adapter = node.hcas().any(|hca| !hca.is_software());
    if node.is_virtual_machine() || !has_adapter && expectations.profile != Profile::GpuDirect {
        return Vec::new();
    }
    let gpus: Vec<_> = node.gpus().collect();
    let found = gpus.iter().filter_map(|gpu| {
        let range = *gpu.pci?.aperture.known().filter(|range| **range < LEAST)?;
        let larger = larger_of_equals(gpu, &gpus);
        if !covers_its_memory(gpu) && larger.is_none() {
            return None;
        }
        let equals = larger.map_or(String::new(), |larger| {
            format!("; an equal GPU shows {}", size(larger))
        });
        let message = format!(
            "{} shows other devices {} of its memory at once: GPUDirect RDMA cannot register more{equals}",
            gpu.title(),
            size(range)
        );
        let is_amd = gpu.ids().is_some_and(|(vendor, _)| vendor == model::AMD);
        let file = format!("/sys/bus/pci/devices/{}/resource", gpu.address);
        Some(
            Draft::new(&APERTURE_SMALL, Subject::device(gpu.subject()), message)
                .remedy(if is_amd { OF_AMD } else { APERTURE_SMALL.remedy })
                .evidence(file, format!("largest region {}", size(range))),
        )
    });
    found.collect()
}

/// The largest range of the equal GPUs of the node, if it is one that is not reported.
fn larger_of_equals(gpu: &Function<'_>, gpus: &[Function<'_>]) -> Option<u64> {
    let ids = gpu.ids().filter(|_| !gpu.is_without_gpudirect())?;
    let equals = gpus.iter().filter(|other| other.ids() == Some(ids));
    let ranges = equals.filter_map(|other| other.pci?.aperture.known().copied());
    ranges.max().filter(|range| *range >= LEAST)
}
