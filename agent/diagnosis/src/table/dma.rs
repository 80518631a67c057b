//! The path of DMA: IOMMU, PCIe bridges, GPU memory.

use rdma_health_rules::{
    FindingCase,
    domain::{gpu_driver, gpu_events, gpudirect, iommu, iommu_events, pci_path},
};

use super::{GENERAL, LOC_ACCESS, LOC_PROT, REM_OP, RETRY_EXC, WR_FLUSH};
use crate::symptom::SymptomKind::{
    AcsRedirected, BackendFailed, BackendMissing, BandwidthLow, Corrupted, DmaBufUnsupported, GdrDisabled,
    GdrTooFar, GpuDoorbellFailed, IommuFault, LatencyHigh, PassthroughMissing, PeerMemoryError,
    PeerMemorySymbol, ProbeTimedOut, RegMrFailed,
};
use crate::{known::KnownCause, weigh};

pub(super) static IOMMU_TRANSLATION: KnownCause = KnownCause {
    id: "iommu-translation",
    title: "The IOMMU translates the DMA addresses of RDMA functions or GPUs",
    explanation: "In translation mode, a peer's physical address is not a valid DMA address for the adapter, or the IOMMU \
    blocks the transfer: RDMA on GPU memory fails with IBV_WC_LOC_PROT_ERR. RDMA on host memory works but is slower.",
    next_step: "Check the group types: grep . /sys/kernel/iommu_groups/*/type. Only identity is passthrough. Boot with \
    iommu=pt (on arm64 with iommu.passthrough=1); if the command line has it, find what overrides it.",
    rules: &[
        &iommu_events::MEMORY_ENCRYPTION,
        // Before the rule whose remedy is to configure passthrough, because here it is already configured.
        &iommu::CMDLINE_MISMATCH,
        &iommu::GROUP_TRANSLATED,
        &iommu_events::FAULTS,
        &iommu_events::REGRESSED,
    ],
    cases: &[FindingCase::PassthroughNotActive],
    often: &[LOC_PROT, IommuFault, PassthroughMissing],
    sometimes: &[
        REM_OP,
        LOC_ACCESS,
        RETRY_EXC,
        WR_FLUSH,
        GENERAL,
        BandwidthLow,
        LatencyHigh,
        Corrupted,
        ProbeTimedOut,
    ],
    weigh: weigh::iommu,
};

pub(super) static ACS_REDIRECT: KnownCause = KnownCause {
    id: "acs-redirect",
    title: "PCIe Access Control Services redirect traffic between GPU and NIC",
    explanation: "With request or completion redirect enabled, a bridge sends peer-to-peer traffic up to the root complex \
    instead of directly to the peer. Transfers then fail with IBV_WC_LOC_PROT_ERR or run at a fraction of the speed.",
    next_step: "As root, check ACSCtl of the bridges above GPU and NIC: lspci -vvv | grep ACSCtl. If it shows ReqRedir+ or \
    CmpltRedir+ on bare metal, disable ACS in the firmware or with setpci.",
    rules: &[&pci_path::ACS_REDIRECT],
    cases: &[],
    often: &[LOC_PROT, AcsRedirected],
    sometimes: &[REM_OP, RETRY_EXC, WR_FLUSH, BandwidthLow],
    weigh: weigh::acs,
};

pub(super) static PEER_MEMORY_PATH: KnownCause = KnownCause {
    id: "peer-memory-path",
    title: "There is no working path between GPU memory and the NIC",
    explanation: "A NIC registers GPU memory through nvidia_peermem or DMA-BUF. Without them, registration fails, or NCCL \
    copies through host memory.",
    next_step: "Run modprobe nvidia_peermem and check its error message. On Kubernetes, set driver.rdma.enabled=true in the \
    GPU Operator.",
    rules: &[
        &gpu_driver::GPU_WITHOUT_DRIVER,
        &gpudirect::PEER_MEMORY_INSTALL_ORDER,
        &gpudirect::PEER_MEMORY_MISSING,
        &gpudirect::NV_PEER_MEM_LEGACY,
        &gpu_events::GPU_ERRORS,
    ],
    cases: &[FindingCase::PeerMemoryError],
    often: &[
        GdrDisabled,
        PeerMemorySymbol,
        RegMrFailed,
        PeerMemoryError,
        DmaBufUnsupported,
    ],
    sometimes: &[LOC_PROT, REM_OP, BackendMissing, BackendFailed, GpuDoorbellFailed],
    weigh: weigh::peer_memory,
};

pub(super) static GPU_BAR_ADDRESS: KnownCause = KnownCause {
    id: "gpu-bar-address",
    title: "The GPU's memory is at a PCIe address that the adapter cannot reach",
    explanation: "The firmware of the host places the memory BAR of a GPU at a high address (MMIO base, such as 56 TB). Some GPUs and adapters \
    decode fewer address bits, and RDMA to GPU memory then fails with IBV_WC_LOC_PROT_ERR although host memory works.",
    next_step: "Compare the address of the GPU's largest memory region with other nodes: lspci -vv -s GPU | grep Memory. Lower the MMIO base (MMIO \
    high base, MMIOH) in the firmware setup of the host, for instance to 12 TB, and repeat the test with host memory for comparison.",
    rules: &[],
    cases: &[],
    often: &[],
    sometimes: &[LOC_PROT],
    weigh: weigh::gpu_address,
};

pub(super) static GPU_NIC_DISTANCE: KnownCause = KnownCause {
    id: "gpu-nic-distance",
    title: "A GPU has no NIC near it",
    explanation: "Traffic between a GPU and a NIC of another CPU socket crosses the link between the sockets; NCCL then does \
    not use GPUDirect.",
    next_step: "Run nvidia-smi topo -m, and use for each GPU a NIC below the same PCIe switch or root port.",
    rules: &[&pci_path::GPU_WITHOUT_LOCAL_NIC],
    cases: &[],
    often: &[GdrTooFar],
    sometimes: &[BandwidthLow, GdrDisabled],
    weigh: weigh::gpu_only,
};

pub(super) static IOMMU_NEXT_BOOT: KnownCause = KnownCause {
    id: "iommu-next-boot",
    title: "The active IOMMU mode differs from the kernel command line",
    explanation: "Passthrough is active although the kernel command line configures translation: the next boot may enable \
    translation.",
    next_step: "Add iommu=pt to the kernel command line.",
    rules: &[&iommu::CMDLINE_MISMATCH],
    cases: &[FindingCase::PassthroughNotConfigured],
    often: &[],
    sometimes: &[],
    weigh: weigh::nothing,
};
