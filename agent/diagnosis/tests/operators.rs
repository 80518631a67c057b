//! Operators, driver containers and libraries whose general message follows from a specific one.

#![allow(missing_docs)]

mod common;

use common::each_is;

#[test]
fn a_driver_that_cannot_be_built_is_named_with_what_it_needs() {
    each_is(&[
        (
            "No OFED driver found for kernel 5.14.0-284.40.1.el9_2.x86_64\n\
             Unable to read consumer identity\n\
             Error: Failed to download metadata for repo 'rhel-9-for-x86_64-appstream-rpms': Cannot download repomd.xml",
            "kernel-module-build",
            "entitlement",
        ),
        (
            "[24-Jul-25_11:00:30] No OFED driver found for kernel 6.8.0-1029\n\
             [24-Jul-25_11:00:31] Command \"apt-get -yq install linux-headers-6.8.0-1029\" failed with exit code: 100",
            "kernel-module-build",
            "linux-headers",
        ),
        (
            "  - name: state-OFED\n    state: notReady\n  - name: state-RDMA-device-plugin\n    state: notReady",
            "kernel-module-build",
            "logs POD",
        ),
    ]);
}

#[test]
fn the_reason_for_missing_modules_comes_first() {
    each_is(&[
        (
            "Loading HCA driver and Access Layer:    [FAILED]\n\
             modprobe: ERROR: could not insert 'mlx5_core': Key was rejected by service",
            "module-signature",
            "mokutil",
        ),
        (
            "rmmod: ERROR: Module ib_core is in use by: nvidia_peermem ib_uverbs\n\
             [10-May-25_01:03:11] Command \"/etc/init.d/openibd restart\" failed with exit code: 1",
            "modules-in-use",
            "Unload first",
        ),
    ]);
}

#[test]
fn claims_and_functions_that_an_operator_cannot_give_are_named() {
    each_is(&[
        (
            "kubelet[14067]: E0114 22:32:39.849988 14067 kuberuntime_manager.go:1323] \"Failed to prepare dynamic resources\" \
             err=\"prepare dynamic resources: DRA driver dra.net is not registered\" pod=\"default/worker-0\"",
            "device-not-given",
            "resourceslices",
        ),
        (
            "Fail to config vfs for ndev = enp96s0f0\nFail to configure sriov; error =  Link not found",
            "virtual-functions",
            "in the namespace of a pod that ended",
        ),
        (
            "I0907 09:51:27.066132 2912728 utils.go:749] RunCommand(): -E- Failed to open the device",
            "firmware-tool-access",
            "lockdown",
        ),
    ]);
}

#[test]
fn the_line_before_a_general_failure_decides() {
    each_is(&[
        (
            "W0302 10:02:56.100112 72983 rdma_context.cpp:641] No suitable GID found on rocep153s0/1\n\
             E0302 10:02:56.100180 72983 rdma_context.cpp:115] Failed to open device rocep153s0 on port 1 with GID 0",
            "gid-missing",
            "",
        ),
        (
            "a:1:2 [0] NCCL WARN NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument",
            "gid-other-namespace",
            "ndevs",
        ),
        (
            "libibverbs: Warning: couldn't load driver 'mlx5': /x/libibverbs.so.1: version `IBVERBS_PRIVATE_22' not found (required by \
             /usr/lib64/libibverbs/libmlx5-rdmav2.so)",
            "userspace-libraries",
            "",
        ),
        (
            "ImportError: /x/mooncake/engine.so: /lib/libibverbs.so.1: version `IBVERBS_1.14' not found (required by /x/mooncake/engine.so)",
            "userspace-libraries",
            "Update rdma-core",
        ),
        (
            "E0417 3:25:46.1 1 src/brpc/rdma/rdma_helper.cpp:512] Fail to ibv_fork_init: Invalid argument",
            "job-settings",
            "RDMAV_FORK_SAFE=1 (IBV",
        ),
        (
            "E1 12:01:09.1 1 gpunetio_backend.cpp:1105] Can't register memory for unknown device 3",
            "job-settings",
            "gpu_devices",
        ),
        (
            "As a result, the Libfabric EFA provider is operating in\na condition that could result in memory corruption or\n",
            "job-settings",
            "FORK_SAFE",
        ),
    ]);
}

#[test]
fn a_container_of_an_operator_that_ends_is_named_with_what_it_would_have_done() {
    each_is(&[
        (
            "nvidia-peermem-ctr: /usr/local/bin/nvidia-driver: line 769: RHEL_VERSION: unbound variable",
            "peer-memory-path",
            "logs POD",
        ),
        (
            "  nvidia-peermem-ctr:\n    State:          Waiting\n      Reason:       CrashLoopBackOff",
            "peer-memory-path",
            "modprobe nvidia_peermem",
        ),
        (
            "Error: CONFIG_MLX5_ESWITCH not support kernel version 5.6 or higher (current: 5.15.0-1022-azure).",
            "kernel-module-build",
            "whose release notes name this kernel",
        ),
    ]);
}

#[test]
fn a_function_without_a_driver_and_a_plugin_that_finds_only_software_are_named() {
    each_is(&[
        (
            "E1213 07:34:10.278984  110908 manager.go:230] discoverDevices() error adding new device: \"error getting driver info for device \
             0000:1a:00.0 readlink /sys/bus/pci/devices/0000:1a:00.0/driver: no such file or directory\"",
            "virtual-functions",
            "Bind the function to a driver",
        ),
        (
            "I0520 10:03:24.137327   30847 main.go:39] No devices found.\nibvDevList:  [{rxe0 uverbs0}] <nil>\nk8s-rdma-device-plugin",
            "device-not-given",
            "software devices",
        ),
        (
            "# kubectl exec -it job-0 -- ibdev2netdev\nmlx5_3 port 1 ==> net1 (Down)",
            "port-down",
            "linkState",
        ),
    ]);
}

#[test]
fn a_container_without_access_is_told_from_the_host_above_it() {
    const HOST: &str =
        "hca_id: mlx5_0\n        port:   1\n                state:                  PORT_ACTIVE (4)\n";
    let inside = format!("{HOST}[user@n1 ~]$ sarus run image ibv_devinfo\nFailed to open device\n");
    assert_ne!(common::first(&inside).0, "", "{inside}");
    let same = format!("{HOST}[user@n1 ~]$ ibv_devinfo\nFailed to open device\n");
    assert_eq!(common::first(&same).0, "", "{same}");
}

#[test]
fn a_provider_that_does_not_fit_its_library_and_a_launcher_without_tcp_are_named() {
    each_is(&[
        (
            "libibverbs: Warning: couldn't load driver 'mlx5': /lib64/libmlx5-rdmav2.so: symbol ibv_exp_cmd_create_srq, version IBVERBS_1.1 not \
             defined in file libibverbs.so.1 with link time reference",
            "userspace-libraries",
            "",
        ),
        (
            "------------------------------------------------------------\nA process or daemon was unable to complete a TCP connection\n\
             to another process:\n  Local host:    c001\n  Remote host:   c001",
            "tcp-connection",
            "nc -vz NAME PORT",
        ),
    ]);
}
