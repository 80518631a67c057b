//! The path between GPU memory and NICs.

use rdma_health_node::{Node, nvidia::PeerMemory, pci::Role};

use crate::{Domain, Expectations, Finding, Profile, Rule, Severity, Subject};

/// `peer-memory-missing`.
pub(crate) static PEER_MEMORY_MISSING: Rule = Rule {
    id: "peer-memory-missing",
    domain: Domain::GpuDirect,
    severity: Severity::Warning,
    title: "NVIDIA GPUs and RDMA functions are there, but no path between them",
    explanation: "A NIC reaches GPU memory through the module nvidia_peermem (or its predecessor nv_peer_mem), or through \
        DMA-BUF, which needs the open GPU kernel module and Linux 5.12 or later. With neither, NCCL copies through host \
        memory or falls back. Critical where GPUDirect is expected (profile gpudirect).",
    remedy: "Run modprobe nvidia_peermem. On Kubernetes set driver.rdma.enabled=true in the NVIDIA GPU Operator. Where \
        modprobe says 'Invalid argument', the GPU driver was installed before OFED/DOCA: reinstall it after. Or use the open \
        GPU kernel module.",
    false_alarms: "Silent without NVIDIA GPUs, without their driver, without RDMA functions in hardware, and where the \
        profile says that GPUDirect is not expected.",
    judge: peer_memory_missing,
};

fn peer_memory_missing(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    const NVIDIA: u16 = 0x10de;
    let severity = match expectations.profile {
        Profile::GpuDirect => Severity::Critical,
        Profile::Auto => Severity::Warning,
        Profile::Rdma | Profile::TcpOnly => return Vec::new(),
    };
    let gpus = node
        .pci
        .with_role(Role::Gpu)
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
        format!("{gpus} GPUs and {nics} RDMA devices, but neither nvidia_peermem nor DMA-BUF joins them"),
    )
    .severity(severity)
    .evidence("/proc/modules", "neither nvidia_peermem nor nv_peer_mem")
    .evidence("/proc/driver/nvidia/version", driver)
    .evidence("/proc/sys/kernel/osrelease", kernel);
    vec![finding]
}
