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
    explanation: "No driver is bound to the GPU, or one that cannot compute (nouveau). Programs do not see it, and there is no \
        GPUDirect. The driver was not installed or not loaded, was built for another kernel, or failed on this GPU.",
    remedy: Remedy {
        any: "Load the driver and read why it did not bind: journalctl -k | grep -e NVRM -e nvidia.",
        kubernetes: "With the GPU Operator, check its driver pod on this node: kubectl -n gpu-operator get pods -o wide",
        host: "dkms status; modprobe nvidia; nvidia-smi",
        ..Remedy::all("")
    },
    false_alarms: "GPUs that are bound to vfio-pci or another driver that hands them to virtual machines are not judged.",
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

/// What to do where the driver of the kernel holds an NVIDIA GPU.
const INSTEAD_OF_NOUVEAU: Remedy = Remedy {
    any: NO_NOUVEAU,
    kubernetes: "With the GPU Operator, check its driver pod on this node afterwards: kubectl -n gpu-operator get pods -o wide",
    host: "After the reboot: dkms status; modprobe nvidia; nvidia-smi",
    ..Remedy::all("")
};

const NO_NOUVEAU: &str = "Keep nouveau from being loaded, because it holds the GPU and NVIDIA's driver cannot bind to it: boot with \
    module_blacklist=nouveau. If nvidia-smi fails then, install NVIDIA's driver.";

static WITHOUT_RDMA: Exception = Exception {
    condition: "on a node without RDMA hardware",
    severities: Severities::INFO,
};

/// The commands that keep nouveau from being loaded, if it holds the GPU.
fn of_nouveau(node: &Node, gpu: &Function<'_>) -> Option<String> {
    (gpu.driver == Some("nouveau"))
        .then(|| kernel_argument::added(node, NO_NOUVEAU, "module_blacklist=nouveau"))
        .flatten()
}

fn gpu_without_driver(node: &Node, _: &Expectations) -> Vec<Draft> {
    const NVIDIA: u16 = 0x10de;
    let gpus: Vec<_> = node.gpus().collect();
    let is_known = |gpu: &&Function<'_>| {
        let vendor = gpu.pci.and_then(|pci| pci.vendor.known());
        // Whether another driver computes is known for these only.
        vendor.is_some_and(|vendor| matches!(*vendor, NVIDIA | model::AMD))
    };
    let is_driven = |gpu: &Function<'_>| match gpu.driver {
        Some(driver) => Some(driver != "nouveau"),
        None => gpu.pci?.driver.is_absent().then_some(false),
    };
    let judged: Vec<_> = gpus.iter().filter(is_known).collect();
    let driven = judged.iter().filter(|gpu| is_driven(gpu) == Some(true)).count();
    let has_rdma = node.hcas().any(|hca| !hca.is_software());
    let found = judged
        .iter()
        .filter(|gpu| is_driven(gpu) == Some(false))
        .map(|gpu| {
            let held = gpu
                .driver
                .map_or("no driver".to_owned(), |driver| format!("driver {driver}"));
            let message = format!(
                "{} has {held}; {driven} of {} have their driver",
                gpu.title(),
                count(judged.len(), "GPU")
            );
            let is_amd = gpu.pci.is_some_and(|pci| pci.vendor.known() == Some(&model::AMD));
            let remedy = match gpu.driver {
                _ if is_amd => OF_AMD,
                Some("nouveau") => INSTEAD_OF_NOUVEAU,
                _ => GPU_WITHOUT_DRIVER.remedy,
            };
            Draft::new(&GPU_WITHOUT_DRIVER, Subject::device(gpu.address), message)
                .remedy(remedy)
                .written_remedy(of_nouveau(node, gpu).filter(|_| !is_amd))
                .exception((!has_rdma).then_some(&WITHOUT_RDMA))
                .evidence(
                    format!("/sys/bus/pci/devices/{}/driver", gpu.address),
                    gpu.driver.unwrap_or("no such link"),
                )
        });
    found.collect()
}
