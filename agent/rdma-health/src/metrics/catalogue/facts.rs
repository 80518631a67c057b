//! Families about the machine.

use super::families;

pub(super) const NOTE: &str = "Only IOMMU groups and PCI functions of RDMA devices, of GPUs and of the bridges above them \
    are told. `device` is the RDMA device on a function, empty on a GPU.";

families! {
    NODE_INFO: Gauge "rdma_node_info" [""] {"hostname", "kernel", "rdma_stack", "nvidia_driver"}
        "The machine: its own name, kernel release, whether RDMA comes from the kernel or from OFED, and the NVIDIA driver.";
    NODE_VIRTUAL: Gauge "rdma_node_virtual_machine" [""] {}
        "Whether the node is a virtual machine (x86 only).";
    IOMMU_CONFIGURED: Gauge "rdma_iommu_configured_info" [""] {"domain", "invalidation"}
        "What the kernel command line asks of the IOMMU: domain is passthrough, translated, off or default; invalidation is strict, lazy or default. What is in effect is rdma_iommu_group_info.";
    IOMMU_UNITS: Gauge "rdma_iommu_units" [""] {}
        "IOMMU units that the kernel drives.";
    IOMMU_GROUPS: Gauge "rdma_iommu_groups" [""] {}
        "IOMMU groups of all devices; 0 where there is no IOMMU or it is off.";
    IOMMU_GROUP_INFO: Gauge "rdma_iommu_group_info" [""] {"pci_address", "device", "role", "group", "type"}
        "IOMMU group of an RDMA function or GPU and its type: identity is passthrough, DMA-FQ and DMA are translated.";
    IOMMU_TRANSLATED: Gauge "rdma_iommu_group_translated" [""] {"pci_address", "device", "role"}
        "Whether the IOMMU translates the DMA addresses of an RDMA function or GPU.";
    MODULE_LOADED: Gauge "rdma_kernel_module_loaded" [""] {"module"}
        "Whether a kernel module is loaded. A module built into the kernel counts as not loaded.";
    MODULE_INFO: Gauge "rdma_kernel_module_info" [""] {"module", "version"}
        "Version of a loaded kernel module that tells one.";
    PEER_MEMORY: Gauge "rdma_peer_memory_info" [""] {"path"}
        "How a NIC can reach GPU memory: nvidia_peermem, nv_peer_mem, efa_nv_peermem, dma_buf or none.";
    PCI_INFO: Gauge "rdma_pci_function_info" [""] {"pci_address", "role", "vendor", "device_id", "driver", "physical_function"}
        "A PCI function that matters to RDMA; role is rdma, gpu or bridge.";
    PCI_NUMA: Gauge "rdma_pci_numa_node" [""] {"pci_address", "role"}
        "NUMA node of a PCI function.";
    PCI_SPEED: Gauge "rdma_pci_link_speed_transfers_per_second" ["transfers/s and lane"] {"pci_address", "role"}
        "Speed of a PCIe link now.";
    PCI_BEST_SPEED: Gauge "rdma_pci_link_best_speed_transfers_per_second" ["transfers/s and lane"] {"pci_address", "role"}
        "The best speed that both ends of a PCIe link can do.";
    PCI_WIDTH: Gauge "rdma_pci_link_width_lanes" ["lanes"] {"pci_address", "role"}
        "Width of a PCIe link now.";
    PCI_BEST_WIDTH: Gauge "rdma_pci_link_best_width_lanes" ["lanes"] {"pci_address", "role"}
        "The best width that both ends of a PCIe link can do.";
    PCI_READ_REQUEST: Gauge "rdma_pci_max_read_request_bytes" ["bytes"] {"pci_address", "role"}
        "Largest read request that a PCI function may make.";
    PCI_PAYLOAD: Gauge "rdma_pci_max_payload_bytes" ["bytes"] {"pci_address", "role"}
        "Largest payload that a PCI function may send.";
    PCI_ACS: Gauge "rdma_pci_acs_redirect" [""] {"pci_address", "role"}
        "Whether ACS sends peer-to-peer traffic through the root complex; only functions that have ACS.";
    PCI_VFS: Gauge "rdma_pci_virtual_functions" [""] {"pci_address"}
        "Virtual functions that are switched on.";
    PCI_VFS_POSSIBLE: Gauge "rdma_pci_virtual_functions_possible" [""] {"pci_address"}
        "Virtual functions that can be switched on.";
    MEMLOCK: Gauge "rdma_memlock_limit_bytes" ["bytes"] {"process", "limit"}
        "Memory-lock limit, soft or hard, of container runtimes and kubelet, which pods inherit, and of the agent itself; +Inf is unlimited. The least one where several processes have the name.";
}
