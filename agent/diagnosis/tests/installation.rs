//! What installs, starts and builds the parts of RDMA: services, modules, tools of firmware, hypervisors.

mod common;

use rdma_health_diagnosis::symptom::SymptomKind as K;

use common::{each_is, kinds};

#[test]
fn a_service_that_does_not_start_names_its_log() {
    each_is(&[
        (
            "systemd[1]: openibd.service: Main process exited, code=exited, status=1/FAILURE\n\
             systemd[1]: Failed to start openibd - configure Mellanox devices.",
            "rdma-modules",
            "journalctl -b -u openibd",
        ),
        (
            "systemd[1]: opensm.service: Failed with result 'exit-code'.",
            "no-subnet-manager",
            "journalctl -u opensm",
        ),
        (
            "systemd-modules-load[512]: Failed to find module 'ib_umad'",
            "rdma-modules",
            "contains the module ib_umad",
        ),
        (
            "[ 20.1] rxe0: failed to allocate crc algorithm err:-2",
            "rdma-modules",
            "modprobe crc32_generic",
        ),
    ]);
    // Its program was removed with its package.
    let removed = "systemd[1]: opensm.service: Failed at step EXEC spawning /usr/sbin/opensm: No such file or directory";
    assert!(!kinds(removed).contains(&K::ManagerNotStarted));
}

#[test]
fn a_module_is_known_by_the_functions_that_it_calls() {
    each_is(&[
        (
            "[  +0.000016] nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)",
            "kernel-module-build",
            "modprobe nvidia",
        ),
        (
            "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.8.0-40-generic",
            "peer-memory-path",
            "Install the module",
        ),
        (
            "nvidia-peermem nv_mem_get_pages: ERROR invalid page_table",
            "peer-memory-path",
            "Update the NVIDIA driver",
        ),
        (
            "efa_nv_peermem.o: error: objtool: cleanup_module(): Magic init_module() function name is deprecated",
            "kernel-module-build",
            "",
        ),
        (
            "rmmod: ERROR: Module nvidia is in use by: gdrdrv nvidia_uvm",
            "modules-in-use",
            "modprobe -r gdrdrv nvidia_uvm",
        ),
    ]);
    assert_eq!(
        kinds("[ 1.0] nvidia_drm: Unknown symbol drm_gem_prime_export (err -2)"),
        []
    );
}

#[test]
fn a_tool_or_hypervisor_that_is_refused_gets_its_own_step() {
    each_is(&[
        (
            "-E- Burning FS4 image failed: MFE_CMDIF_TIMEOUT_ERR",
            "firmware-tool-refused",
            "did not answer the tool in time",
        ),
        (
            "[ 363.9] Lockdown: mstflint: Direct PCI access is restricted; see man kernel_lockdown.7",
            "firmware-tool-access",
            "",
        ),
        (
            "qemu-kvm: -device vfio-pci,host=0000:3b:00.1: vfio 0000:3b:00.1: failed to open /dev/vfio/vfio: Permission denied",
            "device-assignment",
            "ls -lZ /dev/vfio",
        ),
        (
            "qemu-kvm: vfio 0000:41:00.0: failed to setup container for group 61: memory listener\ninitialization failed: Region ram-node0: \
             vfio_container_dma_map(0x55d6, 0x0, 0x180000000, 0x7f2e) = -12\n(Cannot allocate memory)",
            "memlock-limit",
            "hard_limit",
        ),
        (
            "[ 812.3] ice 0000:16:00.0: Only 0 MSI-X interrupts available for SR-IOV. Not enough to support minimum of 2 MSI-X interrupts per VF for 8 VFs",
            "virtual-functions",
            "",
        ),
        (
            "error: internal error: unable to execute QEMU command 'migrate-incoming': unknown migration protocol: rdma:0.0.0.0:49152",
            "communication-library",
            "--enable-rdma",
        ),
        ("[ 80.1] scsi host12: REJ reason 0x3", "hca-resources", "ch_count"),
        (
            "called `Result::unwrap()` on an `Err` value: CreateTarget { msg: \"Network interface 'ibp20s0' has no IPv4 address configured\" }",
            "addressing",
            "ip -brief address show ibp20s0",
        ),
    ]);
    // Another program, for another device.
    assert_eq!(
        kinds("[ 363.9] Lockdown: pf_bb_config: Direct PCI access is restricted; see man kernel_lockdown.7"),
        []
    );
}

#[test]
fn a_failure_that_names_nothing_of_rdma_is_not_recognised_unless_work_goes_on() {
    let failed = "[2026-03-01 10:00:00] [error] could not open the shard list";
    assert_eq!(kinds(failed), [K::Unrecognised]);
    assert_eq!(kinds(&format!("{failed}\nstep 12 loss 2.31")), []);
    // The kernel complains of much that no job needs.
    assert_eq!(kinds("[ 1.0] ACPI Error: AE_NOT_FOUND, evaluation failed"), []);
    // A limit that is printed is a fact.
    assert_eq!(kinds("max locked memory       (kbytes, -l) unlimited"), []);
    assert_eq!(
        kinds("max locked memory       (kbytes, -l) 64"),
        [K::MemlockWarning]
    );
}

#[test]
fn a_package_that_dkms_does_not_build_is_a_matter_of_the_host() {
    const PACKAGE: &str =
        "Setting up nvidia-peer-memory-dkms (1.2-0) ...\nLoading new nv_peer_mem-1.2 DKMS files...\n";
    // The peer-memory module, which needs no build any more, whatever stops its build.
    for end in [
        "Error! Bad return status for module build on kernel: 5.15.0-88-generic (x86_64)",
        "Error! Your kernel headers for kernel 5.15.0-88-generic cannot be found at /lib/modules/5.15.0-88-generic/build",
        "/var/lib/dkms/nv_peer_mem/1.3/build/nv_peer_mem.c:477:15: error: unknown field 'client' specified in initializer",
        "Error! The directory /var/lib/dkms/nv_peer_mem/1.1/source/ does not appear to have module source located within it. Build halted.",
    ] {
        let text = format!("{PACKAGE}{end}");
        each_is(&[(
            &text,
            "kernel-module-build",
            "load nvidia_peermem, which comes with the driver",
        )]);
        assert!(!kinds(&text).contains(&K::PeerMemoryError), "{text}");
    }
    each_is(&[
        (
            "DKMS make.log for nvidia-peer-memory-1.1 for kernel 4.2.0-27-generic (x86_64)\ncp -rf /Module.symvers .\n\
             cp: cannot stat '/Module.symvers': No such file or directory",
            "kernel-module-build",
            "dkms autoinstall",
        ),
        (
            "make[2]: *** [scripts/Makefile.build:243: /var/lib/dkms/irdma/1.14.33/build/src/main.o] Error 1",
            "kernel-module-build",
            "dkms autoinstall",
        ),
    ]);
    // A module of something else.
    assert_eq!(
        kinds(
            "make[2]: *** [scripts/Makefile.build:243: /var/lib/dkms/v4l2loopback/0.12/build/v4l2loopback.o] Error 1"
        ),
        [K::Unrecognised]
    );
}
