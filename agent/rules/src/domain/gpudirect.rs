//! The path between GPU memory and NICs.

use rdma_health_node::{Node, nvidia::PeerMemory};

use super::common::{count, gpus};
use crate::{Domain, Expectations, Finding, Profile, Remedy, Rule, Severity, Subject};

/// `peer-memory-missing`.
pub(crate) static PEER_MEMORY_MISSING: Rule = Rule {
    id: "peer-memory-missing",
    domain: Domain::GpuDirect,
    severity: Severity::Warning,
    title: "NVIDIA GPUs and RDMA functions are there, but no path between them",
    explanation: "A NIC reaches GPU memory through the module nvidia_peermem (or its predecessor nv_peer_mem), or through \
        DMA-BUF, which needs the open GPU kernel module and Linux 5.12 or later. With neither, NCCL copies through host \
        memory or falls back. Critical where GPUDirect is expected (profile gpudirect).",
    remedy: Remedy {
        any: "Load the module nvidia_peermem, or use the open GPU kernel module on Linux 5.12 or later.",
        openshift: "In the ClusterPolicy of the NVIDIA GPU Operator set driver.rdma.enabled to true (and \
            driver.rdma.useHostMofed where OFED is on the host).",
        kubernetes: "The same, or with Helm: --set driver.rdma.enabled=true.",
        host: "modprobe nvidia_peermem, and nvidia_peermem in /etc/modules-load.d/. Where modprobe says 'Invalid argument', see \
            peer-memory-install-order.",
    },
    false_alarms: "Silent without NVIDIA GPUs, without their driver, without RDMA functions in hardware, where the profile says \
        that GPUDirect is not expected, and where peer-memory-install-order names the cause.",
    judge: peer_memory_missing,
};

/// How bad a missing path is; `None` where GPUDirect is not expected.
fn severity(expectations: &Expectations) -> Option<Severity> {
    match expectations.profile {
        Profile::GpuDirect => Some(Severity::Critical),
        Profile::Auto => Some(Severity::Warning),
        Profile::Rdma | Profile::TcpOnly => None,
    }
}

fn peer_memory_missing(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    const NVIDIA: u16 = 0x10de;
    let Some(severity) = severity(expectations).filter(|_| load_failure(node).is_none()) else {
        return Vec::new();
    };
    let gpus = gpus(node)
        .filter(|(_, gpu)| gpu.vendor.known() == Some(&NVIDIA))
        .count();
    let nics = node.hcas().filter(|hca| !hca.is_software()).count();
    let driver = match node.pci.nvidia_driver.known() {
        Some(driver) => format!(
            "{}{}",
            driver.version,
            if driver.open { ", open" } else { ", proprietary" }
        ),
        // A GPU without a driver is handed to a virtual machine, or not in use.
        None if expectations.profile == Profile::Auto => return Vec::new(),
        None => "none loaded".into(),
    };
    if gpus == 0 || nics == 0 || node.peer_memory.known() != Some(&PeerMemory::None) {
        return Vec::new();
    }
    let kernel = node.host.kernel.known().map_or("unread", String::as_str);
    let finding = Finding::new(
        &PEER_MEMORY_MISSING,
        Subject::node(),
        format!(
            "{} and {}, but neither nvidia_peermem nor DMA-BUF joins them",
            count(gpus, "GPU"),
            count(nics, "RDMA device")
        ),
    )
    .severity(severity)
    .evidence("/proc/modules", "neither nvidia_peermem nor nv_peer_mem")
    .evidence("/proc/driver/nvidia/version", driver)
    .evidence("/proc/sys/kernel/osrelease", kernel);
    vec![finding]
}

/// `peer-memory-install-order`.
pub(crate) static PEER_MEMORY_INSTALL_ORDER: Rule = Rule {
    id: "peer-memory-install-order",
    domain: Domain::GpuDirect,
    severity: Severity::Warning,
    title: "nvidia_peermem cannot be loaded: the GPU driver was built for another RDMA stack",
    explanation: "The kernel refused nvidia_peermem because it does not find, or does not recognise, \
        ib_register_peer_memory_client: the GPU driver was installed before MLNX_OFED or DOCA (modprobe then says 'Invalid \
        argument'), or the stack was replaced since. Without it there is no path to GPU memory, unless DMA-BUF is one. Critical \
        where GPUDirect is expected (profile gpudirect).",
    remedy: Remedy {
        any: "Install the GPU driver again, after MLNX_OFED or DOCA, so that nvidia_peermem is built against it; then modprobe \
            nvidia_peermem. Or use the open GPU kernel module with DMA-BUF, which needs neither.",
        openshift: "Let the NVIDIA Network Operator's OFED pod be ready before the GPU Operator's driver pod starts: delete the \
            driver pod of the node, it waits for OFED where driver.rdma.enabled is true.",
        kubernetes: "As on OpenShift.",
        host: "dkms remove and dkms install of the nvidia module, or the installer once more.",
    },
    false_alarms: "Lines of an earlier attempt do not count once nvidia_peermem, nv_peer_mem or DMA-BUF is there.",
    judge: peer_memory_install_order,
};

/// The line of the kernel's log that says why `nvidia_peermem` was refused, where no path exists.
fn load_failure(node: &Node) -> Option<&str> {
    const SYMBOL: &str = "ib_register_peer_memory_client";
    if node.peer_memory.known() != Some(&PeerMemory::None) {
        return None;
    }
    let lines = node.kernel_log.known()?;
    let refused = |line: &&String| {
        let peermem = line.contains("nvidia_peermem") || line.contains("nv_peer_mem");
        let symbol = line.contains(SYMBOL) || line.contains("ib_unregister_peer_memory_client");
        peermem
            && ((symbol && (line.contains("nknown symbol") || line.contains("disagrees about version")))
                || line.contains("Invalid argument"))
    };
    lines.iter().rev().find(refused).map(String::as_str)
}

fn peer_memory_install_order(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let (Some(line), Some(severity)) = (load_failure(node), severity(expectations)) else {
        return Vec::new();
    };
    let stack = match node.modules.is_ofed() {
        Some(true) => "mlx_compat is loaded: the RDMA stack is MLNX_OFED or DOCA",
        Some(false) => "no mlx_compat: the RDMA stack is the kernel's own, which has no such symbol",
        None => "unread",
    };
    let finding = Finding::new(
        &PEER_MEMORY_INSTALL_ORDER,
        Subject::node(),
        "the kernel refused nvidia_peermem: the GPU driver was built for another RDMA stack",
    );
    vec![
        finding
            .severity(severity)
            .evidence("/dev/kmsg", line)
            .evidence("/proc/modules", stack),
    ]
}

/// `nv-peer-mem-legacy`.
pub(crate) static NV_PEER_MEM_LEGACY: Rule = Rule {
    id: "nv-peer-mem-legacy",
    domain: Domain::GpuDirect,
    severity: Severity::Info,
    title: "The path to GPU memory is the unmaintained module nv_peer_mem",
    explanation: "nv_peer_mem was replaced by nvidia_peermem, which comes with the GPU driver since release 470. It still works \
        with old drivers and is not kept up with new kernels. A warning where both are loaded: the two serve the same memory, and \
        which of them answers is chance.",
    remedy: Remedy {
        any: "Remove nv_peer_mem and load nvidia_peermem of the GPU driver.",
        host: "rmmod nv_peer_mem; remove the package nvidia-peer-memory(-dkms); modprobe nvidia_peermem.",
        ..Remedy::all("")
    },
    false_alarms: "For information where it is the only path.",
    judge: nv_peer_mem_legacy,
};

fn nv_peer_mem_legacy(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    if node.modules.has("nv_peer_mem") != Some(true) || expectations.profile == Profile::TcpOnly {
        return Vec::new();
    }
    let both = node.modules.has("nvidia_peermem") == Some(true);
    let (severity, message) = if both {
        (
            Severity::Warning,
            "nv_peer_mem and nvidia_peermem are both loaded",
        )
    } else {
        (
            Severity::Info,
            "nv_peer_mem serves GPU memory; nvidia_peermem replaced it",
        )
    };
    let finding = Finding::new(&NV_PEER_MEM_LEGACY, Subject::node(), message);
    vec![
        finding
            .severity(severity)
            .evidence("/proc/modules", "nv_peer_mem"),
    ]
}
