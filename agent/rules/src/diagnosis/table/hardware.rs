//! Adapters, what drives them, and the machine around them.

use super::{FATAL, RETRY_EXC};
use crate::diagnosis::symptom::SymptomKind::{
    BandwidthLow, CallFailed, CollectiveTimeout, ConnectInvalid, Corrupted, CreateFailed, DeviceFatal,
    DeviceGone, LatencyHigh, NoDevice, NoProvider, OpenFailed, ProbeFailed, ProbeTimedOut, SocketFallback,
};
use crate::diagnosis::{known::KnownCause, weigh};

pub(super) static RDMA_MODULES: KnownCause = KnownCause {
    id: "rdma-modules",
    title: "RDMA kernel modules are missing",
    explanation: "Without ib_uverbs there is no /dev/infiniband/uverbs*, without the adapter's module no RDMA device at all.",
    next_step: "Load them: modprobe ib_uverbs, and the adapter's module (mlx5_ib, irdma, bnxt_re).",
    rules: &["rdma-modules-missing", "helper-unhealthy"],
    often: &[NoDevice, OpenFailed],
    sometimes: &[SocketFallback, NoProvider, ProbeFailed, CallFailed],
    weigh: weigh::modules,
};

pub(super) static VIRTUAL_FUNCTIONS: KnownCause = KnownCause {
    id: "virtual-functions",
    title: "Virtual functions are missing or not set up",
    explanation: "A pod gets a virtual function. One that does not exist, has no driver or a GUID of zero cannot be used.",
    next_step: "Compare sriov_numvfs with what is configured, and look at the GUIDs: ip -d link show.",
    rules: &[
        "vfs-missing",
        "vf-without-driver",
        "vf-guid-zero",
        "vf-mac-zero",
        "vf-trust",
    ],
    often: &[NoDevice],
    sometimes: &[SocketFallback, DeviceGone, OpenFailed, RETRY_EXC, ConnectInvalid],
    weigh: weigh::nothing,
};

pub(super) static NO_RDMA_DEVICE: KnownCause = KnownCause {
    id: "no-rdma-device",
    title: "The node has no RDMA device",
    explanation: "There is nothing under /sys/class/infiniband.",
    next_step: "Look for the adapter: lspci | grep -i -e mellanox -e infiniband, and at the kernel's log for its driver.",
    rules: &[],
    often: &[NoDevice, SocketFallback],
    sometimes: &[],
    weigh: weigh::no_device,
};

pub(super) static DEVICES_MISSING: KnownCause = KnownCause {
    id: "devices-missing",
    title: "An RDMA device that should be there is not",
    explanation: "A device fell off the bus, was removed, or never came up; jobs use those that are left, or none.",
    next_step: "Look at lspci and at the kernel's log around the time the device was last there; a power cycle often brings \
        it back.",
    rules: &["hcas-missing"],
    often: &[DeviceGone, NoDevice],
    sometimes: &[SocketFallback, OpenFailed],
    weigh: weigh::nothing,
};

pub(super) static HOST_LOAD: KnownCause = KnownCause {
    id: "host-load",
    title: "The processor is busy, saves power, or is far from the adapter",
    explanation: "A small operation takes about as long as the processor needs to notice that it has ended: deep sleep (C-states), \
        power saving of the PCIe link (ASPM), other load, or memory of another NUMA node make it longer.",
    next_step: "Look at what changed since: cpupower idle-info and frequency-info, the kernel's arguments for idle states and ASPM, \
        the load of the adapter's NUMA node; then probe again: rdma-health check --probe.",
    rules: &[],
    often: &[LatencyHigh],
    sometimes: &[BandwidthLow],
    weigh: weigh::host_load,
};

pub(super) static PCI_PATH: KnownCause = KnownCause {
    id: "pci-path",
    title: "The adapter's PCIe link does less than it could",
    explanation: "Speed, width and the largest read request of the PCIe link bound what the port can do.",
    next_step: "Compare LnkSta with LnkCap: lspci -vv -s ADDRESS; reseat the adapter where both ends can do more.",
    rules: &["pci-link-degraded", "pci-max-read-request"],
    often: &[BandwidthLow],
    sometimes: &[LatencyHigh],
    weigh: weigh::pci_path,
};

pub(super) static PCI_ERRORS: KnownCause = KnownCause {
    id: "pci-errors",
    title: "The adapter's PCIe link has errors",
    explanation: "Advanced Error Reporting counts errors between the adapter and its slot; uncorrectable ones take it away.",
    next_step: "Reseat or replace adapter and riser; look at the kernel's log for AER.",
    rules: &["pci-aer-errors"],
    often: &[DeviceFatal, DeviceGone],
    sometimes: &[BandwidthLow, LatencyHigh, Corrupted, FATAL],
    weigh: weigh::nothing,
};

pub(super) static DEVICE_FAULT: KnownCause = KnownCause {
    id: "device-fault",
    title: "The adapter or its firmware does not work",
    explanation: "The device went away, reported a fatal error or answers no more.",
    next_step: "Look at the kernel's log for the driver's words (dmesg | grep -e mlx5 -e irdma -e bnxt), then, once the node \
        is empty of jobs, update the firmware or reset the adapter.",
    rules: &[],
    often: &[DeviceFatal, DeviceGone, FATAL, Corrupted],
    sometimes: &[ProbeTimedOut, CreateFailed, CallFailed, OpenFailed],
    weigh: weigh::device_fault,
};

pub(super) static DEVICE_STALLED: KnownCause = KnownCause {
    id: "device-stalled",
    title: "A device or its driver does not answer",
    explanation: "Calls that touch the device hang: its driver waits for firmware that does not answer.",
    next_step: "Look at the kernel's log for hung tasks and command timeouts of the driver; the node needs a reset of the \
        adapter or a reboot, which cut every job's connections.",
    rules: &["helper-unhealthy"],
    often: &[ProbeTimedOut],
    sometimes: &[CollectiveTimeout],
    weigh: weigh::stalled,
};

pub(super) static DRIVER_FIRMWARE: KnownCause = KnownCause {
    id: "driver-firmware",
    title: "Driver or firmware is not the expected one, or not that of the other adapters",
    explanation: "One adapter behaves unlike its siblings: features differ, and faults appear on one rail only.",
    next_step: "Bring all adapters of one kind to the same driver and firmware.",
    rules: &["driver-unexpected", "firmware-mixed"],
    often: &[],
    sometimes: &[DeviceFatal, RETRY_EXC, BandwidthLow],
    weigh: weigh::nothing,
};

pub(super) static SOFTWARE_RDMA: KnownCause = KnownCause {
    id: "software-rdma",
    title: "RDMA is done in software",
    explanation: "rdma_rxe and siw move data by the CPU: right for tests, a tenth of the speed of an adapter.",
    next_step: "Use the adapter's own RDMA device; remove the software device: rdma link delete NAME.",
    rules: &["softroce-in-use"],
    often: &[BandwidthLow],
    sometimes: &[LatencyHigh],
    weigh: weigh::software,
};
