//! What hypervisors, tools of the firmware and shells say of an adapter: the cause is named, and the next step fits the refusal.

#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::disallowed_methods)] // tests read trees; only rules and causes do no I/O

#[path = "common/healthy.rs"]
mod healthy;

use healthy::{causes, node};
use rdma_health_tests::tree::Tree;

/// The first cause of each log, and words of its next step.
fn expect(cases: &[(&str, &str, &str)]) {
    let node = node();
    for (log, id, step) in cases {
        let found = causes(&node, log);
        let first = found.first().unwrap_or_else(|| panic!("no cause: {log}"));
        assert_eq!(first.id, *id, "{log}");
        assert!(first.next_step.contains(step), "{log}: {}", first.next_step);
    }
}

#[test]
fn a_refused_assignment_gets_the_step_for_its_reason() {
    expect(&[
        (
            "mlx5 VF: error: Requested operation is not valid: PCI device 0000:3b:00.2 is in use by driver QEMU, domain vm2",
            "device-assignment",
            "Another virtual machine",
        ),
        (
            "libvirt: error : Failed to add driver 'vfio-pci' to driver_override interface of PCI device '0000:1b:10.6' (mlx5): Permission denied",
            "device-assignment",
            "apparmor",
        ),
        (
            "TASK ERROR: cannot prepare PCI pass-through, IOMMU not present",
            "device-assignment",
            "intel_iommu=on",
        ),
        (
            "vfio_iommu_type1_attach_group: No interrupt remapping support. Use the module param \"allow_unsafe_interrupts\" to enable VFIO IOMMU \
             support on this platform",
            "device-assignment",
            "interrupt remapping on in its setup",
        ),
        (
            "nova.exception.PciDeviceRequestFailed: PCI device request [InstancePCIRequest(alias_name=mlx5,count=1)] failed",
            "device-assignment",
            "device_spec",
        ),
        (
            "qemu-system-x86_64: -device vfio-pci,host=3b:00.2: vfio 0000:3b:00.2: failed to setup container for group 4: memory listener \
             initialization failed: vfio_dma_map(0x5, 0x0, 0xa0000, 0x7f) = -14 (Bad address) mlx5",
            "device-assignment",
            "postcopy",
        ),
        (
            "mlx5 EAL: Cannot set up DMA remapping, error 22 (Invalid argument)",
            "device-assignment",
            "beyond what the IOMMU can reach",
        ),
        (
            "mlx5 VF: Failed to hotplug device error: 500 reason: VfioMapRegion(DmaMap(IommuDmaMap(Error(17))))",
            "device-assignment",
            "File exists",
        ),
        (
            "dpdk EAL: Cannot open /dev/vfio/151: Device or resource busy\ndpdk EAL: Failed to open VFIO group 151",
            "device-assignment",
            "fuser -v /dev/vfio/N",
        ),
        (
            "Failed to open /dev/vfio/20: [Errno 16] Device or resource busy: '/dev/vfio/20'",
            "device-assignment",
            "fuser -v /dev/vfio/N",
        ),
        (
            "Failed to create pod sandbox: failed to create shim task: cold_plug_vfio= or hot_plug_vfio= port is not set for device 0000:5e:02.1 \
             (BridgePort | RootPort | SwitchPort): unknown",
            "device-assignment",
            "cold_plug_vfio = \"root-port\"",
        ),
    ]);
}

#[test]
fn memory_that_vfio_may_not_lock_gets_the_step_for_its_program() {
    expect(&[
        (
            "dma_map_slab:200 VFIO_IOMMU_MAP_DMA failed va=7f8709cca000 iova=200000 size=200000 -- errno=12",
            "memlock-limit",
            "IPC_LOCK",
        ),
        (
            "EAL: Cannot set up DMA remapping, error 12 (Cannot allocate memory)",
            "memlock-limit",
            "/proc/PID/limits",
        ),
        (
            "qemu-system-x86_64: -device vfio-pci,host=3b:00.2: vfio 0000:3b:00.2: VFIO_MAP_DMA failed: Cannot allocate memory",
            "memlock-limit",
            "hard_limit",
        ),
    ]);
}

#[test]
fn virtual_functions_that_could_not_be_set_up_get_the_step_for_their_reason() {
    expect(&[
        (
            "# echo 16 > /sys/class/net/ens1f0/device/sriov_numvfs\n-bash: echo: write error: Numerical result out of range",
            "virtual-functions",
            "sriov_totalvfs",
        ),
        (
            "tee: /sys/class/net/ens1f0/device/sriov_numvfs: No such file or directory",
            "virtual-functions",
            "switched off in the adapter's firmware",
        ),
        (
            "error: internal error: Unable to configure VF 3 of PF 'ens1f0' because the PF is not online. Please change host network config",
            "virtual-functions",
            "ip link set PF up",
        ),
        (
            "Error: mlx5_core: Can't change mode when there are active VFs.",
            "virtual-functions",
            "echo 0 > ",
        ),
    ]);
}

#[test]
fn a_tool_of_the_firmware_gets_the_step_for_what_it_lacks() {
    expect(&[
        (
            "# mlxfwmanager\n-E- No devices found or specified, mst might be stopped, run 'mst start' to load MST modules",
            "firmware-tool-access",
            "mst start",
        ),
        (
            "-E- Burning FS4 image failed: The firmware image was already updated on flash, pending reset.",
            "firmware-tool-refused",
            "mlxfwreset",
        ),
        (
            "-E- The Device doesn't support ADVANCED_PCI_SETTINGS parameter",
            "firmware-tool-refused",
            "query",
        ),
    ]);
}

#[test]
fn a_mount_over_rdma_that_is_refused_names_what_is_missing() {
    let mount = "$ sudo mount -o rdma,port=20049 srv:/data /mnt/data\n";
    expect(&[
        (
            &format!("{mount}mount.nfs: Protocol not supported"),
            "rdma-modules",
            "modprobe",
        ),
        (
            &format!("{mount}mount.nfs: mount(2): Connection refused"),
            "no-listener",
            "",
        ),
    ]);
    let node = node();
    // One that works, and one over TCP after it, which is not a matter of RDMA.
    assert!(causes(&node, &format!("{mount}$ df -h /mnt/data")).is_empty());
    let over_tcp =
        format!("{mount}$ sudo mount -t nfs -o tcp srv:/a /mnt/a\nmount.nfs: Connection timed out");
    assert!(causes(&node, &over_tcp).is_empty());
}

#[test]
fn a_hypervisor_that_cannot_open_vfio_gives_no_function_to_its_guest() {
    let node = node();
    for line in [
        "00:00:01.128000 VFIO: Could not open VFIO Container",
        "qemu-kvm: failed to open /dev/vfio/12: No such file or directory",
    ] {
        let found = causes(&node, line);
        assert_eq!(
            found.first().map(|cause| cause.id),
            Some("device-assignment"),
            "{line}"
        );
    }
    assert!(causes(&node, "VFIO: opened VFIO container").is_empty());
}

#[test]
fn a_fault_of_a_function_that_a_guest_has_is_none_of_passthrough() {
    let lent = healthy::of(&Tree::fixture("connectx6-vfs").unwrap());
    let function = lent
        .functions()
        .into_iter()
        .find(|function| function.lent_to.is_some())
        .map(|function| function.address.to_owned())
        .unwrap();
    for fault in [
        format!(
            "DMAR: [DMA Write NO_PASID] Request device [{}] fault addr 0xff [fault reason 0x05] PTE Write access is not set\n",
            &function[5..]
        ),
        format!(
            "vfio-pci {function}: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x001b address=0x3000 flags=0x0050]\n"
        ),
    ] {
        let found = causes(&lent, &fault);
        let step = found
            .first()
            .map(|cause| cause.next_step.as_str())
            .unwrap_or_default();
        assert!(!step.contains("boot with iommu=pt"), "{fault}: {step}");
        let own = causes(
            &node(),
            &fault
                .replace(&function, "0000:18:00.0")
                .replace(&function[5..], "18:00.0"),
        );
        assert_ne!(
            own.first().map(|cause| cause.next_step.as_str()),
            Some(step),
            "{fault}"
        );
    }
}

#[test]
fn the_limit_of_a_virtual_machine_is_raised_by_what_starts_it() {
    expect(&[
        (
            "[  365.159219] vfio_pin_pages_remote: RLIMIT_MEMLOCK (4194304) exceeded\n",
            "memlock-limit",
            "hard_limit",
        ),
        (
            "libvirt: error : cannot limit locked memory of process 111 to 9007199254740991: Operation not permitted\n",
            "memlock-limit",
            "CAP_SYS_RESOURCE",
        ),
    ]);
}
