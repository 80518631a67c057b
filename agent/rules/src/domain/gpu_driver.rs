//! GPUs without their driver.

use rdma_health_node::{Function, Node, model, words::count};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    policy::Exception, remedy::kernel_argument,
};

/// `gpu-without-driver`.
pub static GPU_WITHOUT_DRIVER: Rule = Rule {
    id: "gpu-without-driver",
    domain: Domain::GpuDirect,
    policy: Policy::of(Severities::WARNING.gpudirect(Severity::Critical).not_rdma()).except(&[&WITHOUT_RDMA]),
    title: "The GPU driver is not bound to a GPU",
    explanation: "The GPU or accelerator has no driver, or one that cannot compute (nouveau). Programs do not see it, and GPUDirect does not \
        work. The driver was not installed or not loaded, was built for another kernel, or failed on this GPU.",
    remedy: Remedy {
        any: "Load the driver and read why it did not bind: journalctl -k | grep -e NVRM -e nvidia.",
        kubernetes: "With the GPU Operator, check its driver pod on this node: kubectl -n gpu-operator get pods -o wide",
        host: "dkms status; modprobe nvidia; nvidia-smi",
        ..Remedy::all("")
    },
    false_alarms: "GPUs that are bound to vfio-pci or another driver that hands them to virtual machines are not judged. Accelerators of other \
        vendors than NVIDIA, AMD, Habana (Gaudi) and Intel are judged only if an equal one of the node has a driver.",
    inputs: &[Writer::Hardware, Writer::HostRoot],
    judge: gpu_without_driver,
};

/// What to do about an AMD GPU.
const OF_AMD: Remedy = Remedy {
    any: "Load the driver and read why it did not bind: journalctl -k | grep amdgpu.",
    kubernetes: "With the AMD GPU Operator, check its pods on this node: kubectl -n kube-amd-gpu get pods -o wide",
    host: "dkms status; modprobe amdgpu; rocm-smi",
    ..Remedy::all("")
};

/// What to do about a Gaudi card.
const OF_GAUDI: Remedy = Remedy {
    any: "Load the driver and read why it did not bind: journalctl -k | grep habanalabs.",
    kubernetes: "With the Gaudi Base Operator, check its pods on this node: kubectl get pods -A -o wide | grep -i habana",
    host: "dkms status; modprobe habanalabs; hl-smi",
    ..Remedy::all("")
};

/// What to do about a GPU of Intel.
const OF_INTEL: Remedy = Remedy {
    any: "Load the driver and read why it did not bind: journalctl -k | grep -e i915 -e xe -e ADDRESS. A kernel that does not know the GPU needs Intel's driver package, \
        or a newer release.",
    kubernetes: "With Intel's GPU plugin, check its pods on this node: kubectl get pods -A -o wide | grep -i gpu",
    host: "dkms status; modprobe i915; lspci -k -s ADDRESS; xpu-smi discovery",
    ..Remedy::all("")
};

/// What to do about another accelerator.
const OF_ANOTHER: Remedy = Remedy {
    any: "An equal accelerator of the node has a driver and this one has none: read why it did not bind: journalctl -k | grep ADDRESS.",
    host: "lspci -k -s ADDRESS; journalctl -k -b | grep ADDRESS",
    ..Remedy::all("")
};

/// What to do where the driver of the kernel holds an NVIDIA GPU.
const INSTEAD_OF_NOUVEAU: Remedy = Remedy {
    any: NO_NOUVEAU,
    kubernetes: "With the GPU Operator, check its driver pod on this node afterwards: kubectl -n gpu-operator get pods -o wide",
    host: "After the reboot: dkms status; modprobe nvidia; nvidia-smi",
    ..Remedy::all("")
};

const NO_NOUVEAU: &str = "Keep nouveau from being loaded, because NVIDIA's driver does not start next to it: boot with \
    module_blacklist=nouveau. If nvidia-smi fails then, install NVIDIA's driver.";

static WITHOUT_RDMA: Exception = Exception {
    condition: "on a node without RDMA hardware",
    severities: Severities::INFO,
};

/// The commands that keep nouveau from being loaded, if it holds the GPU.
fn of_nouveau(node: &Node, gpu: &Function<'_>) -> Option<String> {
    is_of_nouveau(node, gpu)
        .then(|| kernel_argument::added(node, NO_NOUVEAU, "module_blacklist=nouveau"))
        .flatten()
}

/// Whether nouveau holds the GPU, or is loaded where no driver holds it: NVIDIA's driver then does not start.
fn is_of_nouveau(node: &Node, gpu: &Function<'_>) -> bool {
    let is_alone = || {
        let has = |name| node.modules.has(name);
        gpu.driver.is_none()
            && vendor_of(gpu) == Some(model::NVIDIA)
            && has("nouveau") == Some(true)
            && has("nvidia") == Some(false)
    };
    gpu.driver == Some("nouveau") || is_alone()
}

/// What is known about the driver of an accelerator.
struct Known {
    vendor: u16,
    remedy: Remedy,
}

const KNOWN: [Known; 4] = [
    Known {
        vendor: model::NVIDIA,
        remedy: GPU_WITHOUT_DRIVER.remedy,
    },
    Known {
        vendor: model::AMD,
        remedy: OF_AMD,
    },
    Known {
        vendor: model::HABANA,
        remedy: OF_GAUDI,
    },
    Known {
        vendor: model::INTEL,
        remedy: OF_INTEL,
    },
];

fn vendor_of(gpu: &Function<'_>) -> Option<u16> {
    gpu.pci?.vendor.known().copied()
}

/// Whether an accelerator is of no use without a driver: those of the known vendors, except processing accelerators of Intel (the NPU of a processor).
fn needs_driver(gpu: &Function<'_>) -> bool {
    const DISPLAY: u32 = 0x03;
    let class = gpu.pci.and_then(|pci| pci.class.known().copied());
    let vendor = vendor_of(gpu);
    let is_known = vendor.is_some_and(|vendor| KNOWN.iter().any(|known| known.vendor == vendor));
    is_known && (vendor != Some(model::INTEL) || class.is_some_and(|class| class >> 16 == DISPLAY))
}

/// Whether a driver that computes is bound; `None` if that could not be read.
fn is_driven(gpu: &Function<'_>) -> Option<bool> {
    match gpu.driver {
        Some(driver) => Some(driver != "nouveau"),
        None => gpu.pci?.driver.is_absent().then_some(false),
    }
}

fn gpu_without_driver(node: &Node, _: &Expectations) -> Vec<Draft> {
    let gpus: Vec<_> = node.gpus().collect();
    // Of other accelerators (FPGA) it is known only if an equal one has a driver.
    let has_driven_equal = |gpu: &Function<'_>| {
        let mut equal = gpus
            .iter()
            .filter(|other| gpu.ids().is_some() && other.ids() == gpu.ids());
        equal.any(|other| is_driven(other) == Some(true))
    };
    let judged: Vec<_> = gpus
        .iter()
        .filter(|gpu| needs_driver(gpu) || has_driven_equal(gpu))
        .collect();
    let driven = judged.iter().filter(|gpu| is_driven(gpu) == Some(true)).count();
    let has_rdma = node.hcas().any(|hca| !hca.is_software());
    let found = judged
        .iter()
        .filter(|gpu| is_driven(gpu) == Some(false))
        .map(|gpu| {
            let has_nouveau = is_of_nouveau(node, gpu);
            let held = match gpu.driver {
                Some(name) => format!("driver {name}"),
                None if has_nouveau => "no driver (nouveau is loaded, nvidia is not)".to_owned(),
                None => "no driver".to_owned(),
            };
            let message = format!(
                "{} has {held}; {driven} of {} have their driver",
                gpu.title(),
                count(judged.len(), "GPU")
            );
            let known = KNOWN.iter().find(|known| vendor_of(gpu) == Some(known.vendor));
            let remedy = match known {
                Some(known) if known.vendor == model::NVIDIA && has_nouveau => INSTEAD_OF_NOUVEAU,
                Some(known) => known.remedy,
                None => OF_ANOTHER,
            };
            Draft::new(&GPU_WITHOUT_DRIVER, Subject::device(gpu.address), message)
                .remedy(remedy)
                .written_remedy(of_nouveau(node, gpu))
                .exception((!has_rdma).then_some(&WITHOUT_RDMA))
                .evidence(
                    format!("/sys/bus/pci/devices/{}/driver", gpu.address),
                    gpu.driver.unwrap_or("no such link"),
                )
        });
    found.collect()
}
