//! Pods and containers that do not get their network, devices or limits: the cause, and the step that fits what the message names.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::symptom::{Grade, SymptomKind as K};

use common::{each_is, kinds, read};

/// The event of a pod whose additional network failed with a message.
fn event(network: &str, message: &str) -> String {
    format!(
        "  Normal   AddedInterface          10s  multus   Add eth0 [10.244.3.17/24] from k8s-pod-network\n  \
         Warning  FailedCreatePodSandBox  9s   kubelet  Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for \
         sandbox \"b2b1\": plugin type=\"multus\" name=\"multus-cni-network\" failed (add): [ml/worker-0/0b7c:{network}]: error adding container to \
         network \"{network}\": {message}\n"
    )
}

#[test]
fn a_network_that_cannot_be_attached_has_the_step_for_what_its_plugin_reports() {
    for (network, message, step) in [
        ("macvlan-rail0", "Link not found", "ip -d link show MASTER"),
        (
            "macvlan-rail0",
            "failed to lookup master \"ens5f0\": Link not found",
            "ip -d link show MASTER",
        ),
        (
            "macvlan-rail0",
            "no IP addresses available in range set: 20.10.1.20-20.10.3.50",
            "more addresses",
        ),
        (
            "hostdev-rail3",
            "rpc error: code = ResourceExhausted desc = no free addresses in the pool \"rail-3\", poolType \"ippool\"",
            "more addresses",
        ),
        (
            "hostdev-rail3",
            "rpc error: code = NotFound desc = configuration for pool \"rail-3\", poolType \"ippool\" not found",
            "nodeSelector must select the node",
        ),
        (
            "ib-sriov-net",
            "failed to find plugin \"ib-sriov\" in path [/opt/cni/bin]",
            "/opt/cni/bin",
        ),
        (
            "ib-sriov-net",
            "infiniBand SRI-OV CNI failed to configure VF \"failed to get RDMA devices for PCI device: 0000:c1:00.2. No RDMA devices found\"",
            "modprobe mlx5_ib",
        ),
        (
            "sriov-rail3",
            "SRIOV-CNI failed to load netconf: pci address 0000:07:01.2 is already allocated",
            "/var/lib/cni/sriov/pci/",
        ),
    ] {
        each_is(&[(&event(network, message), "pod-network", step)]);
    }
    each_is(&[
        (
            "error configuring pod [ml/nccl-0] networking: Multus: [ml/nccl-0/0b7c]: error loading k8s delegates k8s args: TryLoadPodDelegates: \
             GetNetworkDelegates: failed getting the delegate: cannot find a network-attachment-definition (rail-0) in namespace (ml)",
            "pod-network",
            "get network-attachment-definitions -A",
        ),
        (
            "Multus: [nccl/worker-0/4f5a]: error waiting for pod: Unauthorized",
            "pod-network",
            "Restart the pod of Multus",
        ),
        (
            "ERR failed to config pKey with subnet manager ufm error=\"failed to add guids [02:00:00:00:00:00:00:01] to PKey 0x7FF1\"",
            "pod-network",
            "secret",
        ),
    ]);
}

#[test]
fn the_first_network_of_a_pod_is_not_that_of_its_rdma() {
    for text in [
        "Failed to create pod sandbox: plugin type=\"calico\" failed (add): error getting ClusterInformation: connection is unauthorized",
        "Multus: [web/shop-0/4f5a]: error waiting for pod: Unauthorized",
    ] {
        assert!(!kinds(text).contains(&K::NetworkAttachFailed), "{text}");
    }
    let event = "  Warning  FailedCreatePodSandBox  5s  kubelet  Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network \
         for sandbox \"b2\": plugin type=\"cilium-cni\" failed (add): unable to create endpoint: Cilium API client timeout exceeded";
    assert_eq!(kinds(event), []);
}

#[test]
fn a_network_that_the_next_attempt_attached_is_no_alarm() {
    let failed = event(
        "ib-sriov-net",
        "infiniBand SRI-OV CNI failed to configure VF \"VF ib2 GUID is not valid\"",
    );
    let started = "  Normal   Started                 5s   kubelet  Started container nccl\n";
    assert_eq!(kinds(&failed), [K::FunctionUnconfigured]);
    assert_eq!(kinds(&format!("{failed}{started}")), []);
    assert_eq!(kinds(&format!("{started}{failed}")), [K::FunctionUnconfigured]);
}

#[test]
fn a_refused_policy_has_the_step_for_what_it_refuses() {
    each_is(&[
        (
            "admission webhook \"validation.gatekeeper.sh\" denied the request: [psp-capabilities] container <nccl> has a disallowed capability",
            "admission-policy",
            "LimitMEMLOCK=infinity",
        ),
        (
            "error when creating \"nccl.yaml\": admission webhook \"warden-validating.gke.io\" denied the request: GKE Warden rejected the request because it violates constraints.\n\
             Violations details: {\"[denied by autogke-disallow-hostnamespaces]\":[\"enabling hostNetwork is not allowed in Autopilot.\"]}\n\
             pods \"nccl-0\"",
            "admission-policy",
            "mode Standard",
        ),
        (
            "pods \"nccl-0\" is forbidden: PodSecurityPolicy: unable to admit pod: [hostNetwork: Invalid value: true]",
            "admission-policy",
            "hostNetwork",
        ),
        (
            "admission webhook \"operator-webhook.sriovnetwork.openshift.io\" denied the request: no supported NIC is selected by the nicSelector in CR p",
            "virtual-functions",
            "supported-nic-ids",
        ),
        (
            "cannot config SRIOV device: NumVfs (16) is larger than TotalVfs (8)",
            "virtual-functions",
            "NUM_OF_VFS",
        ),
        (
            "  lastSyncError: 'mellanox device detected when in lockdown mode'",
            "firmware-tool-access",
            "disablePlugins",
        ),
    ]);
}

#[test]
fn a_runtime_that_may_not_raise_the_memlock_limit_is_named() {
    each_is(&[
        (
            "runc create failed: unable to start container process: error during container init: error setting rlimits for ready process: error \
             setting rlimit type 8: operation not permitted: unknown",
            "memlock-limit",
            "user@.service",
        ),
        (
            "Error: crun: setrlimit `RLIMIT_MEMLOCK`: Operation not permitted: OCI permission denied",
            "memlock-limit",
            "user@.service",
        ),
    ]);
    // It keeps the container from its start; whether of RDMA, the command shows.
    let message = "Error: crun: setrlimit `RLIMIT_MEMLOCK`: Operation not permitted";
    let grade = |text: &str| read(text).symptoms.first().map(|symptom| symptom.grade);
    let command = "$ podman run --device=/dev/infiniband --ulimit memlock=-1:-1 rdma-test";
    assert_eq!(grade(&format!("{command}\n{message}")), Some(Grade::Failure));
    assert_eq!(grade(message), Some(Grade::Degraded));
    // The number of open files.
    let other = kinds("error setting rlimit type 7: operation not permitted");
    assert!(!other.contains(&K::MemlockWarning), "{other:?}");
}

#[test]
fn drivers_and_libraries_of_containers_are_named_in_the_words_of_their_scripts() {
    each_is(&[
        (
            "[24-Apr-25_09:28:20] Module nvidia_peermem is used and will FAIL driver reload, aborting execution.",
            "modules-in-use",
            "Unload first",
        ),
        (
            "modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service\nfailed to load nvidia-peermem module",
            "module-signature",
            "mokutil",
        ),
        (
            "ImportError: /usr/lib/libibverbs.so.1:\nversion `IBVERBS_PRIVATE_34' not found\n(required by /usr/lib/libmlx5.so.1)",
            "userspace-libraries",
            "one release",
        ),
        (
            "E0314 cdi.go:85] CreateCDISpecForPool(): can not create CDI json: invalid CDI Spec: failed add device \"0000:af:02.0\": invalid device, empty device edits",
            "device-not-given",
            "isRdma: true",
        ),
    ]);
}

#[test]
fn advice_that_quotes_an_error_is_not_the_error() {
    let text = "To avoid potential `UCX ERROR ibv_create_cq() failed: Cannot allocate memory`, specify `--ulimit memlock=-1`.";
    assert_eq!(kinds(text), []);
    let reported = "The job ends with `UCX ERROR ibv_create_cq() failed: Cannot allocate memory`";
    assert_eq!(kinds(reported), [K::CreateFailed]);
}

#[test]
fn what_a_driver_refuses_of_a_function_is_no_matter_of_a_drain() {
    each_is(&[
        (
            "I0309 15:43:18.827009 46366 writer.go:132] setNodeStateStatus(): syncStatus: InProgress, lastSyncError: operation not supported",
            "virtual-functions",
            "refuses what the operator sets",
        ),
        (
            "E0331 10:49:18.593679 109057 utils.go:325] configSriovDevice(): fail to configure VF admin mac address for device 0000:0c:00.1 \
             \"operation not supported\"",
            "virtual-functions",
            "linkType: ib",
        ),
        (
            "2026-01-06T10:20:47Z\tERROR\tsriov/sriov.go:632\tconfigSriovPFDevice(): fail to set NumVfs for device\t{\"device\": \"0000:3b:00.0\", \
             \"error\": \"can't set eSwitch mode to [switchdev] on device [0000:3b:00.0]: operation not supported\"}",
            "virtual-functions",
            "eSwitchMode out",
        ),
        (
            &event(
                "ml/sriov-net",
                "SRIOV-CNI failed to configure VF \"failed to set vf 28 link state to 1: operation not supported\"",
            ),
            "pod-network",
            "link_state",
        ),
        (
            "I0309 15:43:18.827009 46366 writer.go:132] setNodeStateStatus(): syncStatus: Failed, lastSyncError: draining the node timed out",
            "virtual-functions",
            "what blocks the drain",
        ),
    ]);
}

#[test]
fn what_an_operator_or_a_plugin_did_has_its_own_step() {
    let excluded =
        "netDeviceProvider.go:116] excluding interface eno1v5:  default route found: {Ifindex: 31}\n";
    let pool = "manager.go:125] no devices in device pool, skipping creating resource server for intel_sriov_netdevice\n";
    each_is(&[
        (&[excluded, pool].concat(), "device-not-given", "default route"),
        (
            "setNodeStateStatus(): syncStatus: Failed, lastSyncError: exit status 3\n",
            "virtual-functions",
            "mstconfig",
        ),
        (
            "nvidia-peermem-ctr:  CrashLoopBackOff\nmodprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.8.0-1059-azure\n",
            "peer-memory-path",
            "driver pod",
        ),
        (
            "failed to rename vf 29 device \"eth29\" to \"eth0\": device or resource busy\n",
            "pod-network",
            "NetworkManager",
        ),
        (
            " mlnx-ofed-kernel-modules : Depends: linux-modules-extra-5.15.0-130-generic but it is not installable\n",
            "kernel-module-build",
            "linux-modules-extra",
        ),
    ]);
    assert!(kinds(pool).is_empty() && kinds(excluded).is_empty());
}

#[test]
fn entries_of_other_namespaces_do_not_hide_those_of_the_pod() {
    let unread = "NCCL WARN NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument\n";
    let listed = "mlx5_0\t1\t7\t0000:0000:0000:0000:0000:ffff:0a98:000c\t10.152.0.12  \tv2\tnet1\n";
    each_is(&[
        (&[unread, listed].concat(), "gid-index", "NCCL_IB_GID_INDEX=7"),
        (unread, "gid-other-namespace", "ndevs"),
        (
            "n1:1:2 [0] graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found\n",
            "communication-library",
            "NCCL_TOPO_FILE",
        ),
    ]);
}
