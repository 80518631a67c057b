//! Adapters, their drivers and firmware, and the hardware around them.

use rdma_health_rules::{
    FindingCase,
    domain::{
        adapter_events, device_node, devlink, gpu_events, kernel_modules, lost, modules, pci_link, pci_rate,
        reading, sriov,
    },
};

use super::{FATAL, MW_BIND, RETRY_EXC};
use crate::symptom::SymptomKind::{
    AdapterHot, AdapterNotStarted, BandwidthLow, CmUnavailable, CollectiveTimeout, CommandRefused,
    ConnectFailed, ConnectInvalid, ConnectNoDevice, ConnectTimedOut, Corrupted, CqError, CreateFailed,
    CreateRefused, CreateUnexplained, DeviceAbsent, DeviceFatal, DeviceGone, DeviceStalled, DriverCrashed,
    DriverNotBuilt, DriverNotReady, DriverWarned, FirmwareMismatch, FunctionUnconfigured, GpuError,
    GpuLinkError, GpuNotStarted, GpuStopped, InitRefused, LatencyHigh, ModuleMismatch, ModuleMissing,
    NetworkAttachFailed, NoDevice, NoProvider, OpenFailed, PciFault, PciLimited, PeerMemoryError,
    PortInitializing, PortNotActive, PostRefused, ProbeFailed, ProbeTimedOut, QueueError, QueueFatal,
    RegMrFailed, RegMrNoMemory, ResourceUnavailable, RtsRefused, SlotPower, SocketFallback, VersionMismatch,
};
use crate::{known::KnownCause, weigh};

pub(super) static RDMA_MODULES: KnownCause = KnownCause {
    id: "rdma-modules",
    title: "RDMA kernel modules are missing or hold no adapter",
    explanation: "Without ib_uverbs there is no /dev/infiniband/uverbs*; without the adapter's module there is no RDMA device.",
    next_step: "Load them: run modprobe ib_uverbs, and modprobe for the adapter's module: mlx5_ib, mlx4_ib (ConnectX-3 and older), bnxt_re (Broadcom), irdma (Intel), iw_cxgb4 (Chelsio), qedr (Marvell), efa or \
    mana_ib. lspci -nnk shows the adapter and its modules.",
    rules: &[&modules::RDMA_MODULES_MISSING, &reading::HELPER_UNHEALTHY],
    cases: &[FindingCase::KernelPartMissing, FindingCase::ModuleMissing],
    often: &[NoDevice, OpenFailed, ModuleMissing, CmUnavailable],
    sometimes: &[
        SocketFallback,
        NoProvider,
        ProbeFailed,
        DeviceAbsent,
        ResourceUnavailable,
        DriverNotReady,
    ],
    weigh: weigh::modules,
};

pub(super) static DEVICE_NODE: KnownCause = KnownCause {
    id: "device-node",
    title: "The device node of an RDMA device is missing, or programs cannot open it",
    explanation: "Programs open an RDMA device through /dev/infiniband/uverbsN. The kernel has the device, but the file is not there, or its mode lets only \
    root open it.",
    next_step: "Compare ls /dev/infiniband with ls /sys/class/infiniband_verbs, and create the node that is missing with mknod and the number \
    in /sys/class/infiniband_verbs/uverbsN/dev.",
    rules: &[&device_node::UVERBS_NODE_MISSING],
    cases: &[],
    often: &[],
    sometimes: &[OpenFailed, DeviceAbsent, NoDevice, ProbeFailed],
    weigh: weigh::nothing,
};

pub(super) static MODULE_MISMATCH: KnownCause = KnownCause {
    id: "kernel-module-build",
    title: "A kernel module does not match the running kernel or the RDMA modules that are loaded",
    explanation: "The driver package could not be built or installed for the kernel that runs. Or the module was built for the RDMA modules \
    of the kernel, and those of another driver package (MLNX_OFED, DOCA-OFED) are loaded, or the reverse: the kernel refuses to load it.",
    next_step: "Compare where the modules come from: modinfo -n ib_core, and modinfo -n with the module that the log names. Rebuild or \
    reinstall the module for this kernel and this driver package, run depmod -a, and load it again.",
    rules: &[
        &modules::RDMA_MODULES_MISSING,
        &kernel_modules::MODULE_REFUSED,
        &adapter_events::ADAPTER_NOT_STARTED,
    ],
    cases: &[FindingCase::ModuleRefused],
    often: &[ModuleMismatch, DriverNotBuilt, DriverNotReady],
    sometimes: &[ModuleMissing, NoDevice, OpenFailed],
    weigh: weigh::module_build,
};

pub(super) static GPU_FAULT: KnownCause = KnownCause {
    id: "gpu-fault",
    title: "A GPU or a connection between GPUs is faulty or not set up",
    explanation: "The driver logged that the GPU does not work any more: it has fallen off the bus, its memory has an error that it cannot \
    correct, or its system processor does not answer. RDMA transfers from and to its memory fail or hang, here and on the peers.",
    next_step: "Drain the node and read what the driver logged: journalctl -k -b | grep -e Xid -e amdgpu. Reset the GPU (nvidia-smi \
    --gpu-reset -i INDEX) or restart the node; one that has fallen off the bus needs a restart with power off. If it happens again, replace the GPU.",
    rules: &[
        &gpu_events::GPU_FAILED,
        &gpu_events::GPU_ERRORS,
        &lost::DEVICE_LOST,
    ],
    cases: &[
        FindingCase::GpuLost,
        FindingCase::GpuFailed,
        FindingCase::GpuError,
    ],
    often: &[GpuStopped, GpuLinkError, GpuNotStarted],
    sometimes: &[GpuError],
    weigh: weigh::gpu_fault,
};

pub(super) static VIRTUAL_FUNCTIONS: KnownCause = KnownCause {
    id: "virtual-functions",
    title: "Virtual functions are missing or not configured",
    explanation: "A pod uses a virtual function. It cannot use one that does not exist, has no driver, or has a GUID of zero.",
    next_step: "Compare sriov_numvfs with the configured number, and check the GUIDs: ip -d link show.",
    rules: &[
        &sriov::VFS_MISSING,
        &sriov::VF_WITHOUT_DRIVER,
        &sriov::VF_GUID_ZERO,
        &sriov::VF_MAC_ZERO,
        &sriov::VF_TRUST,
    ],
    cases: &[],
    often: &[NoDevice, FunctionUnconfigured],
    sometimes: &[
        PortInitializing,
        PortNotActive,
        SocketFallback,
        DeviceGone,
        OpenFailed,
        RETRY_EXC,
        ConnectInvalid,
        ConnectNoDevice,
        ResourceUnavailable,
        NetworkAttachFailed,
        PortNotActive,
        RegMrFailed,
        RegMrNoMemory,
        CreateFailed,
        CreateRefused,
        CreateUnexplained,
        ConnectFailed,
        ConnectTimedOut,
    ],
    weigh: weigh::virtual_functions,
};

pub(super) static NO_RDMA_DEVICE: KnownCause = KnownCause {
    id: "no-rdma-device",
    title: "The node has no RDMA device",
    explanation: "/sys/class/infiniband is empty or missing.",
    next_step: "Check that an adapter for RDMA is visible: lspci -nnk lists the network cards, their makers and drivers (Mellanox, Broadcom NetXtreme-E, Intel E810 or X722, Chelsio, Marvell, Elastic Fabric Adapter). If it is there, \
    check the kernel log for messages of its driver. If the machine has none, nothing is missing.",
    rules: &[],
    cases: &[],
    often: &[NoDevice, SocketFallback],
    sometimes: &[OpenFailed, DeviceAbsent, ModuleMissing, ResourceUnavailable],
    weigh: weigh::no_device,
};

pub(super) static DEVICES_MISSING: KnownCause = KnownCause {
    id: "devices-missing",
    title: "An expected RDMA device is missing",
    explanation: "A device fell off the bus, was removed, or never came up; jobs use the remaining devices, or none.",
    next_step: "Check lspci and the kernel log around the time when the device was last present. A power cycle often brings \
    it back.",
    rules: &[&lost::DEVICE_LOST, &modules::HCAS_MISSING],
    cases: &[FindingCase::AdapterLost],
    often: &[DeviceGone, NoDevice],
    sometimes: &[SocketFallback, OpenFailed, DeviceAbsent, ResourceUnavailable],
    weigh: weigh::devices_missing,
};

pub(super) static HOST_LOAD: KnownCause = KnownCause {
    id: "host-load",
    title: "The CPU is busy, saves power, or is on another NUMA node than the adapter",
    explanation: "The latency of a small operation is mostly the time that the CPU needs to notice its completion. Deep sleep \
    (C-states), PCIe power saving (ASPM), other load, or memory of another NUMA node increase it.",
    next_step: "Check what changed: cpupower idle-info and cpupower frequency-info, the kernel arguments for idle states and \
    ASPM, and the load of the adapter's NUMA node. Then probe again: rdma-health check --probe.",
    rules: &[],
    cases: &[],
    often: &[LatencyHigh],
    sometimes: &[BandwidthLow],
    weigh: weigh::host_load,
};

pub(super) static PCI_PATH: KnownCause = KnownCause {
    id: "pci-path",
    title: "The adapter's PCIe path is slower than it could be",
    explanation: "Speed, width and maximum read request size of the PCIe link limit the bandwidth of the port.",
    next_step: "Compare LnkSta with LnkCap: lspci -vv -s ADDRESS. If both ends support more, reseat the adapter.",
    rules: &[
        &pci_link::LINK_DEGRADED,
        &pci_rate::PCI_BELOW_PORT_RATE,
        &pci_link::MAX_READ_REQUEST,
    ],
    cases: &[],
    often: &[BandwidthLow, PciLimited],
    sometimes: &[LatencyHigh],
    weigh: weigh::pci_path,
};

pub(super) static PCI_ERRORS: KnownCause = KnownCause {
    id: "pci-errors",
    title: "The adapter's PCIe link has errors",
    explanation: "PCIe Advanced Error Reporting (AER) counts errors between the adapter and its slot; uncorrectable errors can \
    take the adapter offline.",
    next_step: "Check the kernel log for AER messages: dmesg | grep AER. Reseat or replace the adapter and its riser.",
    rules: &[&adapter_events::PCI_FAULT, &pci_link::AER_ERRORS],
    cases: &[],
    often: &[PciFault, DeviceFatal, DeviceGone],
    sometimes: &[BandwidthLow, LatencyHigh, Corrupted, FATAL],
    weigh: weigh::device_present,
};

pub(super) static SLOT_POWER: KnownCause = KnownCause {
    id: "slot-power",
    title: "The PCIe slot offers the adapter too little power",
    explanation: "The slot announces less power than the adapter may draw. The adapter then limits its ports or transceivers, or runs \
    unreliably under load.",
    next_step: "Use a slot with the power that the adapter's manual demands, and set the slot's power limit in the firmware of the server. \
    The slot's limit: lspci -vv -s ADDRESS | grep PowerLimit.",
    rules: &[&adapter_events::SLOT_POWER],
    cases: &[],
    often: &[SlotPower],
    sometimes: &[],
    weigh: weigh::slot_power,
};

pub(super) static ADAPTER_HOT: KnownCause = KnownCause {
    id: "adapter-overheating",
    title: "An adapter or its transceiver is too hot",
    explanation: "A sensor of the adapter reports a temperature above its limit. The adapter lowers its rate or switches its ports off to \
    protect itself, and links flap.",
    next_step: "Check the fans, the air flow and the room's temperature. Read the temperatures: sensors, mlxlink -d ADDRESS -m or mget_temp \
    -d ADDRESS for the adapter, ethtool -m NETDEV for its module. Drain the node if they do not fall.",
    rules: &[&adapter_events::MODULE_FAULT],
    cases: &[FindingCase::TooHot],
    often: &[AdapterHot],
    sometimes: &[],
    weigh: weigh::logged,
};

pub(super) static DEVICE_FAULT: KnownCause = KnownCause {
    id: "device-fault",
    title: "The adapter or its firmware does not work",
    explanation: "The device disappeared, reported a fatal error, or no longer responds.",
    next_step: "Check the kernel log for messages of the adapter's driver: journalctl -k -p warning. Then drain the node, and \
    update the firmware or reset the adapter.",
    rules: &[
        &adapter_events::ADAPTER_FAILED,
        &adapter_events::ADAPTER_TIMEOUT,
        &adapter_events::ADAPTER_NOT_STARTED,
        &adapter_events::DRIVER_ERRORS,
        &devlink::HEALTH_REPORTER_ERROR,
    ],
    cases: &[FindingCase::NotStarted, FindingCase::UnknownError],
    often: &[
        DeviceFatal,
        DeviceGone,
        FATAL,
        Corrupted,
        DeviceStalled,
        AdapterNotStarted,
        QueueFatal,
    ],
    sometimes: &[
        ProbeTimedOut,
        CreateFailed,
        OpenFailed,
        QueueError,
        PciFault,
        AdapterHot,
    ],
    weigh: weigh::device_fault,
};

pub(super) static DEVICE_STALLED: KnownCause = KnownCause {
    id: "device-stalled",
    title: "A device or its driver does not respond",
    explanation: "Calls to the device hang: its driver waits for firmware that does not respond.",
    next_step: "Check the kernel log for hung tasks and command timeouts of the driver. Drain the node, then reset the adapter \
    or reboot; both break the connections of every job.",
    rules: &[&kernel_modules::MODULE_HUNG, &reading::HELPER_UNHEALTHY],
    cases: &[FindingCase::HelperHung],
    often: &[ProbeTimedOut, DeviceStalled],
    sometimes: &[CollectiveTimeout],
    weigh: weigh::stalled,
};

pub(super) static DRIVER_FIRMWARE: KnownCause = KnownCause {
    id: "driver-firmware",
    title: "Driver, firmware or library of the adapter is faulty, or they do not fit together",
    explanation: "The firmware refuses what the driver or library requests, one adapter behaves differently from the others because its version differs, or a \
    module of the kernel made an error and crashed.",
    next_step: "Compare the versions with those that the vendor releases together, and among the adapters of one model: ethtool -i NETDEV, \
    ibv_devinfo | grep fw_ver. Read why the firmware refused it: journalctl -k -p warning.",
    rules: &[
        &modules::DRIVER_UNEXPECTED,
        &modules::FIRMWARE_MIXED,
        &devlink::FIRMWARE_PENDING,
        &adapter_events::ADAPTER_NOT_STARTED,
        &adapter_events::DRIVER_ERRORS,
        &kernel_modules::MODULE_CRASHED,
    ],
    cases: &[FindingCase::Refused],
    often: &[
        CommandRefused,
        FirmwareMismatch,
        CreateRefused,
        CqError,
        PostRefused,
        QueueFatal,
        DriverCrashed,
        DriverWarned,
    ],
    sometimes: &[
        CreateUnexplained,
        InitRefused,
        RtsRefused,
        MW_BIND,
        DeviceFatal,
        RETRY_EXC,
        BandwidthLow,
        PeerMemoryError,
        DeviceStalled,
        VersionMismatch,
        AdapterNotStarted,
    ],
    weigh: weigh::driver_firmware,
};

pub(super) static SOFTWARE_RDMA: KnownCause = KnownCause {
    id: "software-rdma",
    title: "RDMA runs in software",
    explanation: "rdma_rxe and siw move data with the CPU. They are meant for tests and reach a tenth of the speed of an adapter.",
    next_step: "Use the adapter's own RDMA device, and remove the software device: rdma link delete NAME.",
    rules: &[&modules::SOFTROCE_IN_USE],
    cases: &[],
    often: &[BandwidthLow],
    sometimes: &[LatencyHigh],
    weigh: weigh::software,
};
