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
