//! What surrounds the adapter: the memory of the host, its PCI address ranges, files of firmware, signatures of modules, virtual machines.

use rdma_health_rules::{
    FindingCase,
    domain::{adapter_events, gpu_events, modules},
};

use crate::{
    known::KnownCause,
    symptom::SymptomKind::{
        AdapterNotStarted, AssignRefused, CreateFailed, DriverNotReady, FirmwareMissing, FirmwareRefused,
        FunctionUnconfigured, HostMemory, MapNoMemory, ModuleInUse, ModuleUnsigned, NoMemory, PciRoom,
        RankFailed, RegMrNoMemory, ToolNoAccess,
    },
    weigh,
};

pub(super) static HOST_MEMORY: KnownCause = KnownCause {
    id: "host-memory",
    title: "The node has too little free memory",
    explanation: "The kernel could not allocate memory for queues or buffers of RDMA, or ended a process to free some. A large contiguous block \
    can be missing although much memory is free: the order in the message is its size as a power of two of pages.",
    next_step: "Compare what uses the memory: free -g, and the largest processes. If the order in the kernel log is 4 or more, the free memory \
    is fragmented: cat /proc/buddyinfo, raise vm.min_free_kbytes, and use fewer or shorter queues. If the limit of a cgroup ended the \
    process, raise that limit.",
    rules: &[],
    cases: &[],
    often: &[HostMemory],
    sometimes: &[
        NoMemory,
        CreateFailed,
        RegMrNoMemory,
        MapNoMemory,
        RankFailed,
        AdapterNotStarted,
    ],
    weigh: weigh::host_memory,
};

pub(super) static TOOL_ACCESS: KnownCause = KnownCause {
    id: "firmware-tool-access",
    title: "A tool for the adapter's firmware cannot reach the adapter",
    explanation: "mstflint and the tools of MFT read the adapter over its PCI configuration space or over the modules of mst. With kernel lockdown, \
    which Secure Boot switches on, the first is forbidden; without the modules, /dev/mst is empty. RDMA itself is not affected.",
    next_step: "With MFT, load its modules and list the devices: mst start; mst status -v. Then give the tool the name or PCI address that it \
    lists. Under lockdown (cat /sys/kernel/security/lockdown), use signed modules of mst, or devlink dev info and devlink dev flash, which go \
    through the driver, or switch Secure Boot off for the update.",
    rules: &[],
    cases: &[],
    often: &[ToolNoAccess],
    sometimes: &[],
    weigh: weigh::tool_access,
};

pub(super) static FIRMWARE_TOOL: KnownCause = KnownCause {
    id: "firmware-tool-refused",
    title: "The adapter's firmware could not be written, or a setting of it not changed",
    explanation: "An image belongs to one PSID, the number of a board and its maker: an adapter of a computer maker (Lenovo, Dell, HPE) needs that \
    maker's images. Signed firmware accepts only images with its key, and older versions may be forbidden. The adapter goes on with the \
    firmware and the settings that it has.",
    next_step: "Compare the PSID and version of the adapter with those of the image: flint -d DEVICE query, flint -i IMAGE query. Take the image for \
    this PSID from the maker of the adapter or of the computer. mlxconfig -d DEVICE query lists the settings that its firmware has. Do not change \
    the PSID (-allow_psid_change) unless the maker asks for it: a wrong image can leave the adapter without firmware.",
    rules: &[],
    cases: &[],
    often: &[FirmwareRefused],
    sometimes: &[],
    weigh: weigh::firmware_tool,
};

pub(super) static MODULE_SIGNATURE: KnownCause = KnownCause {
    id: "module-signature",
    title: "The kernel refuses a module of the RDMA stack because of its signature",
    explanation: "With Secure Boot, or with lockdown, the kernel loads only modules that are signed with a key that it trusts. Modules of a \
    driver package that were built on the node are not, until their key is enrolled.",
    next_step: "Enrol the key that signed the module: mokutil --import KEY.der, restart, and confirm it in the firmware's menu; DKMS keeps its key \
    in /var/lib/dkms/mok.pub. Or install the signed packages of the driver, or switch Secure Boot off. mokutil --sb-state shows the \
    state, modinfo -F signer MODULE the signer.",
    rules: &[&modules::RDMA_MODULES_MISSING],
    cases: &[FindingCase::Unsigned],
    often: &[ModuleUnsigned],
    sometimes: &[],
    weigh: weigh::logged,
};

pub(super) static MODULES_IN_USE: KnownCause = KnownCause {
    id: "modules-in-use",
    title: "Modules of the RDMA stack are in use and cannot be replaced",
    explanation: "A restart of the driver (openibd, the driver container of the Network Operator) unloads the RDMA modules first. Storage \
    modules, mounted file systems and programs that have an RDMA device open keep them loaded, so the old driver stays or only a \
    part of it is left.",
    next_step: "Unload first what uses them, which the lines name. Stop storage over RDMA (umount NFS and Lustre, nvme disconnect-all), then \
    modprobe -r nvme_rdma rpcrdma ib_isert and restart the driver. In the Network Operator, set UNLOAD_STORAGE_MODULES=true for \
    the driver container and drain the node first. fuser -v /dev/infiniband/* shows programs that use a device.",
    rules: &[],
    cases: &[],
    often: &[ModuleInUse],
    sometimes: &[DriverNotReady],
    weigh: weigh::in_use,
};

pub(super) static FIRMWARE_FILE: KnownCause = KnownCause {
    id: "firmware-file",
    title: "A file that the adapter's driver loads into the adapter is missing",
    explanation: "Some drivers load firmware or a package from /lib/firmware at each start: ice without its DDP package has no RDMA, hfi1 and \
    cxgb4 do not start. The file is missing there, or in the initramfs from which the driver starts.",
    next_step: "Install the package of firmware (linux-firmware, or the one of the driver), check that the file that the log names is below \
    /lib/firmware, and rebuild the initramfs: update-initramfs -u, or dracut -f. Then reload the driver or restart the node.",
    rules: &[&adapter_events::ADAPTER_NOT_STARTED],
    cases: &[FindingCase::FirmwareFile],
    often: &[FirmwareMissing],
    sometimes: &[],
    weigh: weigh::firmware_file,
};

pub(super) static PCI_RESOURCES: KnownCause = KnownCause {
    id: "pci-resources",
    title: "The host's firmware leaves no room for the adapter's PCI address ranges or functions",
    explanation: "Each function needs address ranges (BAR) and a number on its bus. The firmware of the host assigns them at boot. If they do not \
    fit, the driver cannot start the adapter, or its virtual functions cannot be created.",
    next_step: "In the firmware setup of the host, enable Above 4G Decoding, SR-IOV and, for virtual functions, ARI; raise the MMIO size. Update that \
    firmware. If it has no such setting, boot with pci=realloc; for bus numbers with pci=assign-busses. lspci -vv -s ADDRESS shows what \
    is assigned.",
    rules: &[
        &adapter_events::ADAPTER_NOT_STARTED,
        &adapter_events::DRIVER_ERRORS,
        &gpu_events::GPU_FAILED,
    ],
    cases: &[FindingCase::NoAddressRange, FindingCase::NoRoomForVfs],
    often: &[PciRoom],
    sometimes: &[FunctionUnconfigured],
    weigh: weigh::logged,
};

pub(super) static DEVICE_ASSIGNMENT: KnownCause = KnownCause {
    id: "device-assignment",
    title: "A PCI function cannot be given to a virtual machine",
    explanation: "VFIO gives away whole IOMMU groups only, and none with memory that the host's firmware reserves (RMRR). Every function of the group \
    must be bound to vfio-pci or to no driver.",
    next_step: "List the group: ls /sys/bus/pci/devices/ADDRESS/iommu_group/devices. Bind all its functions to vfio-pci, or move the adapter to a slot \
    whose bridge isolates it (ACS). For a message about RMRR, disable in the host's firmware what reserves memory for this slot. Without \
    any group, the IOMMU is off: boot with intel_iommu=on or amd_iommu=on.",
    rules: &[],
    cases: &[],
    often: &[AssignRefused],
    sometimes: &[],
    weigh: weigh::device_assignment,
};
