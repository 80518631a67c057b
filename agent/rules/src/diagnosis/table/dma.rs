//! The path of DMA: IOMMU, PCIe bridges, GPU memory.

use super::{GENERAL, LOC_ACCESS, LOC_PROT, REM_OP, RETRY_EXC, WR_FLUSH};
use crate::diagnosis::symptom::SymptomKind::{
    BandwidthLow, Corrupted, GdrDisabled, GdrTooFar, IommuFault, LatencyHigh, PeerMemorySymbol,
    ProbeTimedOut, RegMrFailed,
};
use crate::diagnosis::{known::KnownCause, weigh};

pub(super) static IOMMU_TRANSLATION: KnownCause = KnownCause {
    id: "iommu-translation",
    title: "The IOMMU translates the DMA addresses of RDMA functions or GPUs",
    explanation: "In translation mode an adapter that is handed a peer's physical address reaches nothing, or the IOMMU \
        refuses the transfer: GPU memory over RDMA ends with IBV_WC_LOC_PROT_ERR. Host memory works and is slower.",
    next_step: "Look at the types under /sys/kernel/iommu_groups: only identity is passthrough. Boot with \
        iommu=pt (on arm64 iommu.passthrough=1).",
    rules: &[
        "iommu-memory-encryption",
        // Before the rule that says to ask for passthrough: it is asked for.
        "iommu-cmdline-mismatch",
        "iommu-group-translated",
        "iommu-faults",
        "iommu-regressed",
    ],
    often: &[LOC_PROT, IommuFault],
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
    explanation: "With request or completion redirect on, a bridge sends peer-to-peer traffic up to the root complex instead \
        of straight to the peer. That ends with IBV_WC_LOC_PROT_ERR, or at a fraction of the speed.",
    next_step: "As root, look at ACSCtl of the bridges above GPU and NIC: lspci -vvv | grep ACSCtl. ReqRedir+ or CmpltRedir+ \
        on bare metal: switch ACS off in the firmware or with setpci.",
    rules: &["acs-redirect"],
    often: &[LOC_PROT],
    sometimes: &[REM_OP, RETRY_EXC, WR_FLUSH, BandwidthLow],
    weigh: weigh::acs,
};

pub(super) static PEER_MEMORY_PATH: KnownCause = KnownCause {
    id: "peer-memory-path",
    title: "There is no working path between GPU memory and the NIC",
    explanation: "A NIC registers GPU memory through nvidia_peermem or DMA-BUF. Without either, registration fails, or NCCL \
        copies through host memory.",
    next_step: "Run modprobe nvidia_peermem and read what it says; on Kubernetes set driver.rdma.enabled=true in the GPU \
        Operator.",
    rules: &[
        "peer-memory-install-order",
        "peer-memory-missing",
        "nv-peer-mem-legacy",
    ],
    often: &[GdrDisabled, PeerMemorySymbol, RegMrFailed],
    sometimes: &[LOC_PROT, REM_OP],
    weigh: weigh::peer_memory,
};

pub(super) static GPU_NIC_DISTANCE: KnownCause = KnownCause {
    id: "gpu-nic-distance",
    title: "A GPU has no NIC near it",
    explanation: "Traffic between a GPU and a NIC below another CPU socket crosses the link between sockets; NCCL then leaves \
        GPUDirect off.",
    next_step: "Look at nvidia-smi topo -m and choose for each GPU a NIC below the same PCIe switch or root port.",
    rules: &["gpu-without-local-nic"],
    often: &[GdrTooFar],
    sometimes: &[BandwidthLow, GdrDisabled],
    weigh: weigh::gpu_only,
};

pub(super) static IOMMU_NEXT_BOOT: KnownCause = KnownCause {
    id: "iommu-next-boot",
    title: "The IOMMU mode in effect is not the one on the kernel command line",
    explanation: "Passthrough is in effect though the command line asks for translation: the next boot may undo it.",
    next_step: "Put iommu=pt on the kernel command line.",
    rules: &["iommu-cmdline-mismatch"],
    often: &[],
    sometimes: &[],
    weigh: weigh::nothing,
};
