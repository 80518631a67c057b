//! What to do where a hypervisor or a tool of the firmware refuses an adapter, by what its message names.

use crate::symptom::Symptom;

/// The step where the host has no active IOMMU.
const NO_IOMMU: &str = "Switch the IOMMU of the host on: enable VT-d or AMD-Vi in its firmware setup, and boot with intel_iommu=on (AMD needs no option). Then \
    ls /sys/kernel/iommu_groups must list groups. Load vfio-pci; where the hypervisor runs in a container or pod, it needs /dev/vfio/vfio and the \
    group of the function there. In a virtual machine, give the machine an IOMMU (intel-iommu or virtio-iommu).";
/// The step where the firmware of the host forbids it.
const HOST: &str = "The firmware of the host stands in the way. Without interrupt remapping, switch x2APIC or interrupt remapping on in its setup and update it; only if all guests are trusted, options vfio_iommu_type1 allow_unsafe_interrupts=1 in /etc/modprobe.d does without. An RMRR means that the host keeps memory of the device for its management: switch that off for the slot (shared memory features, on HPE by conrep or the setup), or use another slot.";
/// The step where another machine has the function.
const IN_USE: &str = "Another virtual machine, or the host, has the function. The message names it, or virsh dumpxml VM | grep -A4 hostdev shows which machine it is. \
    Take it from that one (virsh detach-device, or shut it down), or give this one a function that is free. Managers that share a host must not \
    have the same function in two pools.";
/// The step where files of the function may not be opened.
const FILES: &str = "The hypervisor may not open the files of the function. Where it runs, ls -lZ /dev/vfio /sys/bus/pci/devices/ADDRESS/config shows owner and SELinux \
    label. On Kubernetes, a pod gets /dev/vfio/vfio and the group of its function from the device plugin: compare permittedHostDevices in the \
    KubeVirt resource with the plugin's resource name. With libvirt, let it manage the function (managed='yes'), and read ausearch -m avc.";
/// The step where the driver of the function may not be changed.
const DRIVER: &str = "The hypervisor could not give the function to vfio-pci. Read who refused it: journalctl -k | grep -e apparmor -e avc -e vfio. A profile of AppArmor or \
    SELinux must allow driver_override of the function, bind and unbind of its drivers, and drivers_probe, all in /sys; for a snap, connect its \
    interface. Or bind it before the machine starts: modprobe vfio-pci; driverctl set-override ADDRESS vfio-pci, and managed='no' in libvirt.";
/// The step where the guest's address is of a further function.
const FUNCTION: &str = "The guest's address for the device has a function other than 0, and the guest has no function 0 in that slot. Give it function 0 (function='0x0' in \
    the guest's address, or leave that address out), or give the guest all functions of the adapter in one slot, the first with multifunction='on'.";
/// The step where another process has the group of the function open.
const BUSY: &str = "Another process has the IOMMU group of the function open: fuser -v /dev/vfio/N (with the number from the message) names it. It is most often a virtual machine or a DPDK program that \
    has the function, or another one of the same group (ls /sys/kernel/iommu_groups/N/devices); end it, or use a function that is free. In containers, give each one only its own group, not the whole \
    directory /dev/vfio.";
/// The step where the function shares its interrupt line with another device.
const INTERRUPT: &str = "The function has its interrupt line (INTx) together with another device of the host, and VFIO needs it alone: lspci -vv -s ADDRESS | grep Interrupt shows the line (IRQ), and /proc/interrupts \
    which driver of the host has it too. Take the driver from that device (echo ADDRESS > /sys/bus/pci/devices/ADDRESS/driver/unbind), or put the adapter into another slot. A virtual function has no INTx: \
    give the machine one in place of the whole adapter. vfio-pci nointxmask=0 and a newer firmware of the adapter can let it share the line.";
/// The steps where memory could not be mapped for the function, by the error.
const UNREACHABLE: &str = "The memory could not be mapped for the function, because the address is beyond what the IOMMU can reach, or in a range that it reserves (Invalid argument). For a virtual machine, lower the guest's addresses: \
    host-phys-bits-limit=39, or a smaller 64-bit PCI window of OVMF. For DPDK and SPDK, choose other addresses: --iova-mode=pa or --base-virtaddr. cat /sys/kernel/iommu_groups/N/reserved_regions shows the ranges.";
const NOT_THERE: &str = "The memory could not be mapped for the function, because it is not all there (Bad address). A function needs all of the guest's memory pinned: do without postcopy migration, ballooning and \
    memory files that are truncated, let the host have enough free memory and huge pages, and give the guest no BAR of another device as memory that this IOMMU cannot map (update QEMU or Kata).";
const MAPPED_TWICE: &str = "The memory could not be mapped for the function, because something is mapped at this address already (File exists). It is most often a second function of the machine in the same container of VFIO: update the hypervisor \
    (Cloud Hypervisor, Kata), give the machine one function only, or use QEMU.";
const MAPPINGS: &str = "The memory could not be mapped for the function, because the limit on the number of mappings is reached (No space left on device). Raise it: options vfio_iommu_type1 dma_entry_limit=262144 in a file in \
    /etc/modprobe.d, then load the module again. Huge pages need far fewer mappings.";
const MAPPING: &str = "The memory could not be mapped for the function. journalctl -k | grep -e vfio -e DMAR -e AMD-Vi shows why: the memlock limit of the process (RLIMIT_MEMLOCK exceeded), an address beyond what the IOMMU can reach, or \
    memory that is not all there.";
/// The step where the firmware does not answer what the tool asks first.
const REGISTERS: &str = "The firmware does not answer the tool's first question, so that each command of mlxconfig ends so, a query too. Switch the power of the host off and on (a BlueField needs its standby power off, \
    too): a restart is not enough after a setting or an update of the firmware. If it stays, use a newer release of the firmware tools (MFT, mstflint) that knows the adapter, and see what the driver says: \
    journalctl -k | grep mlx5_core.";
/// The step where the function does not come back.
const RESET: &str = "The function could not be reset or woken. cat /sys/bus/pci/devices/ADDRESS/reset_method shows how it can be; modprobe vfio-pci disable_idle_d3=1 keeps it \
    awake. End the machine that had it, bind its own driver and then vfio-pci again; if the adapter still does not answer, switch the power of the \
    host off and on.";
/// The step where no host has a free function.
const CAPACITY: &str = "No host has a free virtual function for this machine. On each, compare cat /sys/class/net/PF/device/sriov_numvfs with the machines that have one, and with \
    what the manager may use: for OpenStack [pci] device_spec and alias of nova.conf (vendor and product of lspci -nn; restart nova-compute after a \
    change), for Xen xe network-sriov-list params=all, whose physical interface must support it and may need a restart of the host. The number of \
    functions is limited by the adapter's firmware: mlxconfig -d ADDRESS query SRIOV_EN NUM_OF_VFS.";
/// The step where no such function is there.
const ABSENT: &str = "The host has no function at this address: lspci -D lists those that are there. Virtual functions are gone after a restart until they are created again \
    (echo N > /sys/class/net/PF/device/sriov_numvfs, at boot by udev or systemd), and move when another adapter is put in or taken out. Correct the \
    address in the machine's configuration.";
/// The step where Kata has no port for the function.
const KATA: &str = "Give Kata a PCI port for the function: in its configuration.toml set cold_plug_vfio = \"root-port\" (or hot_plug_vfio) and pcie_root_port to the \
    number of functions, with machine_type q35. The function must be bound to vfio-pci on the node, and the pod must request the pool of the \
    device plugin whose driver is vfio-pci: lspci -nnk -s ADDRESS.";

/// What to do about a function that could not be given to a machine.
pub(super) fn step(symptom: &Symptom) -> Option<&'static str> {
    let text = symptom.text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let denied = has(&["permission denied", "not permitted"]);
    if has(&[
        "doesn't support passthrough",
        "not supported by the host",
        "iommu not present",
        "open iommu_group",
        "no iommu",
        "iommu is enabled",
        "iommu_group",
    ]) {
        Some(NO_IOMMU)
    } else if has(&["interrupt remapping", "rmrr"]) {
        Some(HOST)
    } else if let Some(step) = mapping(&text) {
        Some(step)
    } else if has(&["busy"]) && has(&["intx"]) {
        Some(INTERRUPT)
    } else if has(&["busy"]) && has(&["/dev/vfio", "vfio group", "vfio container"]) {
        Some(BUSY)
    } else if has(&[
        "plug_vfio",
        "bus '",
        "host pci address",
        "no pci mapping",
        "hotplug",
        "hot plug",
    ]) {
        Some(KATA)
    } else if has(&[
        "driver_override",
        "failed to bind",
        "failed to unbind",
        "trigger a probe",
        "cannot bind",
        "drivers/vfio-pci/",
    ]) {
        Some(DRIVER)
    } else if denied && has(&["open"]) {
        Some(FILES)
    } else if has(&["in use by", "already in use"]) {
        Some(IN_USE)
    } else if has(&["function=0 expected"]) {
        Some(FUNCTION)
    } else if has(&["reset", "stuck in d3"]) {
        Some(RESET)
    } else if has(&["insufficient_capacity", "requestfailed", "claim pci"]) {
        Some(CAPACITY)
    } else {
        has(&["does not exist", "could not access"]).then_some(ABSENT)
    }
}

/// The step where memory could not be mapped for the function, by the error in a text in lower case.
fn mapping(text: &str) -> Option<&'static str> {
    const CALLS: [&str; 5] = ["map_dma", "dma_map", "dmamap", "dma mapping", "dma remapping"];
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if !has(&CALLS) {
        return None;
    }
    Some(if has(&["bad address", "(14)", " -14", "errno=14", "error 14"]) {
        NOT_THERE
    } else if has(&["invalid argument", "(22)", " -22", "errno=22", "error 22"]) {
        UNREACHABLE
    } else if has(&["file exists", "(17)", " -17", "errno=17", "error 17"]) {
        MAPPED_TWICE
    } else if has(&["no space left", "(28)", " -28", "errno=28", "error 28"]) {
        MAPPINGS
    } else {
        MAPPING
    })
}

/// The step for firmware that waits for a reset.
const PENDING: &str = "The new firmware is on the flash already, and the adapter goes on with the old one until it is reset: mlxfwreset -d DEVICE reset (or mstfwreset), or restart \
    the node; some adapters need the power of the host off and on. flint -d DEVICE query then shows one version, without FW Version(Running).";
/// The step for an adapter that did not answer.
const SILENT: &str = "The adapter did not answer the tool in time. End other tools of its firmware, and try again with another release of MFT or mstflint: old \
    firmware may need an older one. If the adapter still does not answer, switch the power of the host off and on.";
/// The step for a setting that the firmware does not have.
const SETTING: &str = "List the settings that this firmware has, and their values: mlxconfig -d DEVICE query (with -e also those in use). A setting that is missing belongs to \
    another model or needs newer firmware; on BlueField some are set on the Arm side only. Leave it out, or update the firmware first.";
/// The step for a reset that the tool refused.
const UNRESET: &str = "Restart the node in place of the reset, with its power off and on if the version stays the old one. mlxfwreset -d DEVICE query lists the kinds of reset that the \
    adapter and its driver support; end what uses the adapter first (modules such as nvidia_peermem, mounted file systems, jobs). An adapter that \
    several hosts share is reset from all of them, and one in DPU mode from its Arm side, too.";

/// What to do where a tool of the firmware was refused.
pub(super) fn refusal(symptom: &Symptom) -> Option<&'static str> {
    let text = symptom.text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&[
        "pending reset",
        "already updated",
        "needs a reset",
        "reset is required",
    ]) {
        Some(PENDING)
    } else if has(&["nv access registers"]) {
        Some(REGISTERS)
    } else if has(&["timeout", "timed out", "semaphore"]) {
        Some(SILENT)
    } else if has(&["reset"]) {
        Some(UNRESET)
    } else {
        let is_setting = has(&["parameter", "configuration"]) && !has(&["image", "psid", "burn"]);
        is_setting.then_some(SETTING)
    }
}
