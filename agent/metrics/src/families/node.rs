//! The machine: kernel, IOMMU settings, modules and limits.

use std::collections::BTreeMap;

use rdma_health_node::{DmaMode, Node, cmdline::Domain, limits::Memlock, modules::KNOWN, nvidia::PeerMemory};

use super::text;
use crate::table::{Labelled, Samples, table};

table! {
    /// Families of the node as a whole.
    NODE {}: &Node;

    Gauge "rdma_node_info" [""] {"hostname", "kernel", "rdma_stack", "nvidia_driver"}
        "Host name, kernel release, RDMA stack (kernel or ofed) and NVIDIA driver version of the node."
        => samples(|node, samples| info(node, samples));
    Gauge "rdma_node_virtual_machine" [""] {}
        "Whether the node is a virtual machine (x86 only)."
        => value(|node| node.host.virtual_machine.known().copied());
    Gauge "rdma_iommu_configured_info" [""] {"domain", "invalidation"}
        "IOMMU settings of the kernel command line: domain is passthrough, translated, off or default; invalidation is strict, lazy or default. rdma_iommu_group_info has the active type of each group."
        => samples(|node, samples| iommu_configured(node, samples));
    Gauge "rdma_iommu_mode_info" [""] {"mode"}
        "IOMMU mode of the RDMA functions and GPUs that the host uses: passthrough only if all of them have it, translated if one of them is, no_iommu, other, or unknown if it could not be read."
        => samples(|node, samples| {
            let unknown = || node.hcas().next().map(|_| "unknown");
            if let Some(mode) = node.dma_mode().map(DmaMode::name).or_else(unknown) {
                samples.info([mode]);
            }
        });
    Gauge "rdma_iommu_previous_boot_info" [""] {"mode", "kernel"}
        "IOMMU mode and kernel release of the last boot before this one that the history has; mode is empty if it was not known."
        => samples(|node, samples| {
            if let Some(boot) = node.previous_boot() {
                let mode = boot.dma_mode().map_or("", DmaMode::name);
                samples.info([mode, boot.kernel.as_deref().unwrap_or_default()]);
            }
        });
    Gauge "rdma_iommu_units" [""] {}
        "Number of IOMMU units that the kernel uses."
        => value(|node| node.iommu.units.known().map(Vec::len));
    Gauge "rdma_iommu_groups" [""] {}
        "Number of IOMMU groups of all devices; 0 if there is no IOMMU or it is off."
        => value(|node| node.iommu.groups.known().map(BTreeMap::len));
    Gauge "rdma_kernel_module_loaded" [""] {"module"}
        "Whether a kernel module is loaded. A module that is built into the kernel counts as not loaded."
        => samples(|node, samples| {
            if let Some(loaded) = node.modules.loaded.known() {
                for name in KNOWN {
                    samples.add([name], loaded.contains_key(name));
                }
            }
        });
    Gauge "rdma_kernel_module_info" [""] {"module", "version"}
        "Version of a loaded kernel module, if it reports one."
        => samples(|node, samples| {
            for (name, module) in node.modules.loaded.known().into_iter().flatten() {
                if let Some(version) = module.version.known() {
                    samples.info([name, version]);
                }
            }
        });
    Gauge "rdma_peer_memory_info" [""] {"path"}
        "How a NIC can reach GPU memory: nvidia_peermem, nv_peer_mem, efa_nv_peermem, dma_buf or none."
        => samples(|node, samples| {
            if let Some(path) = node.peer_memory.known() {
                samples.info([peer_memory(*path)]);
            }
        });
    Gauge "rdma_memlock_limit_bytes" ["bytes"] {"process", "limit"}
        "Memlock limit in bytes, soft or hard, of the agent and of the container runtimes and kubelet, from which pods inherit it; the lowest if several processes have the same name. +Inf means unlimited."
        => samples(|node, samples| memlock(node, samples));
    Gauge "rdma_devices" [""] {}
        "Number of RDMA devices, without excluded ones."
        => value(|node| node.hcas.known().map(BTreeMap::len));
}

/// The node as the subject of its families.
pub(crate) fn subject(node: &Node) -> [Labelled<&Node>; 1] {
    [NODE.labelled(&[], node)]
}

fn info(node: &Node, samples: &mut Samples<'_, '_, 4>) {
    let stack = match node.modules.is_ofed() {
        Some(true) => "ofed",
        Some(false) => "kernel",
        None => "",
    };
    let driver = node.pci.nvidia_driver.known();
    let driver = driver.map_or("", |driver| &driver.version);
    let labels = [text(&node.host.hostname), text(&node.host.kernel), stack, driver];
    if labels.iter().any(|label| !label.is_empty()) {
        samples.info(labels);
    }
}

fn iommu_configured(node: &Node, samples: &mut Samples<'_, '_, 2>) {
    let Some(arguments) = node.host.iommu_arguments.known() else {
        return;
    };
    let domain = match (arguments.off, arguments.domain) {
        (true, _) => "off",
        (false, Some(Domain::Passthrough)) => "passthrough",
        (false, Some(Domain::Translated)) => "translated",
        (false, None) => "default",
    };
    let invalidation = match arguments.strict {
        Some(true) => "strict",
        Some(false) => "lazy",
        None => "default",
    };
    samples.info([domain, invalidation]);
}

fn peer_memory(path: PeerMemory) -> &'static str {
    match path {
        PeerMemory::NvidiaPeermem => "nvidia_peermem",
        PeerMemory::NvPeerMem => "nv_peer_mem",
        PeerMemory::EfaNvPeermem => "efa_nv_peermem",
        PeerMemory::DmaBuf => "dma_buf",
        PeerMemory::None => "none",
    }
}

fn memlock(node: &Node, samples: &mut Samples<'_, '_, 2>) {
    let runtimes = node.limits.runtimes.known().into_iter().flatten();
    let all = runtimes
        .map(|runtime| (runtime.name.as_str(), &runtime.memlock))
        .chain([("rdma-health", &node.limits.own)]);
    // `None` is unlimited, which is more than any number of bytes.
    let bytes = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let mut lowest: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (name, limit) in all {
        let Some(Memlock { soft, hard }) = limit.known() else {
            continue;
        };
        let entry = lowest.entry(name).or_insert((u64::MAX, u64::MAX));
        *entry = (entry.0.min(bytes(*soft)), entry.1.min(bytes(*hard)));
    }
    for (name, (soft, hard)) in lowest {
        for (kind, limit) in [("soft", soft), ("hard", hard)] {
            match limit {
                u64::MAX => samples.add([name, kind], f64::INFINITY),
                limit => samples.add([name, kind], limit),
            }
        }
    }
}
