//! What provides RDMA to the pods of a cluster and does not run, and what Kubernetes refuses a pod in words for any pod.

#![allow(missing_docs)]

mod common;

use rdma_health_diagnosis::symptom::SymptomKind as K;

use common::{each_is, kinds};

#[test]
fn a_component_that_does_not_run_is_the_cause() {
    each_is(&[
        (
            "  Warning  Failed  11m (x4 over 13m)  kubelet  Failed to pull image \
             \"nvcr.io/nvidia/mellanox/doca-driver:25.04-0.6.1.0-2-5.15.0-161-generic-ubuntu22.04-amd64\": rpc error: code = NotFound desc = not found",
            "kernel-module-build",
            "forcePrecompiled: false",
        ),
        (
            "rdma-shared-dp-ds-5gpr9   0/1   ImagePullBackOff   0   12m",
            "device-not-given",
            "device plugin's own pod",
        ),
        (
            "  Warning  Failed  10s  kubelet  Failed to pull image \"ghcr.io/k8snetworkplumbingwg/rdma-cni:v1.3.0\": pull access denied",
            "pod-network",
            "pod of the network plugin",
        ),
        (
            "nvidia-network-operator   sriov-network-config-daemon-7xk2p   2/3   CrashLoopBackOff   7 (2m ago)   12m",
            "virtual-functions",
            "kubectl logs --previous",
        ),
    ]);
}

#[test]
fn a_component_that_runs_later_is_no_alarm() {
    for (state, runs) in [
        (
            "  Warning  Unhealthy  9m  kubelet  Startup probe failed: ls: cannot access '/run/mellanox/drivers/.driver-ready': No such file or directory",
            "mofed-ubuntu22.04-ds-mpj9b   1/1   Running   0   14m",
        ),
        (
            "rdma-shared-dp-ds-5gpr9   0/1   CrashLoopBackOff   7   12m",
            "rdma-shared-dp-ds-5gpr9   1/1   Running   8   13m",
        ),
    ] {
        assert_ne!(kinds(state), [], "{state}");
        assert_eq!(kinds(&format!("{state}\n{runs}\n")), [], "{state}");
        assert_ne!(kinds(&format!("{runs}\n{state}\n")), [], "{state}");
    }
    // The image of a job is not what provides RDMA.
    let job =
        "  Warning  Failed  10s  kubelet  Failed to pull image \"registry.local/rdma-bench:1.2\": not found";
    assert_eq!(kinds(job), []);
}

#[test]
fn a_plugin_that_offers_nothing_is_the_cause() {
    let plugin = "./bin/k8s-rdma-device-plugin -master ens2f0\n";
    let nothing = "I0520 10:03:24.137327   30847 main.go:39] No devices found.\n";
    each_is(&[(&format!("{plugin}{nothing}"), "device-not-given", "selectors")]);
    assert_eq!(kinds(nothing), [], "of any program");
    let nccl = "n1:7:9 [1] NCCL INFO NET/OFI Setting provider_filter to efa\nn1:7:9 [1] NCCL INFO NET/IB : No device found.\n";
    assert!(
        !kinds(&format!("rdma/hca: 1\n{nccl}")).contains(&K::ResourceUnavailable),
        "of NCCL's search"
    );
    let other_pool = "exposing \"1000\" devices\n";
    assert_eq!(
        kinds(&format!("{plugin}exposing \"0\" devices\n{other_pool}")),
        []
    );
}

#[test]
fn a_kernel_without_the_core_of_rdma_has_no_mode_for_its_devices() {
    for text in [
        "ERROR DiscoverRDMASubsystem(): failed to get RDMA subsystem mode {\"error\": \"protocol not supported\"}",
        "failed to determine the RDMA subsystem's network namespace mode: protocol not supported",
        "Failed to open NETLINK_RDMA socket",
    ] {
        assert_eq!(kinds(text), [K::ModuleMissing], "{text}");
    }
}

#[test]
fn what_is_refused_to_any_pod_counts_if_the_pod_uses_rdma() {
    let topology = "  Warning  TopologyAffinityError  2s  kubelet  Resources cannot be allocated with Topology locality\n";
    let limits =
        "    Limits:\n      nvidia.com/gpu:                4\n      openshift.io/mlnx_rdma_rail0:  4\n";
    each_is(&[(
        &format!("{topology}{limits}"),
        "device-not-given",
        "topologyManagerPolicy",
    )]);
    let sandbox = "  Warning  FailedCreatePodSandBox  73s  kubelet  Failed to create pod sandbox: NetworkPlugin cni failed to set up pod \"a-1_default\" network: \
         netplugin failed but error parsing its diagnostic message \"\": unexpected end of JSON input\n";
    let network = "  \"type\": \"sriov\",\n";
    each_is(&[(
        &format!("{sandbox}{network}"),
        "pod-network",
        "Read the plugin's message",
    )]);
    let kyverno = "Error from server: admission webhook \"validate.kyverno.svc-fail\" denied the request:\n\n\
         resource Pod/hpc/osu-bw was blocked due to the following policies\n\n\
         disallow-capabilities:\n  adding-capabilities: Any capabilities added beyond the allowed list are disallowed.\n";
    each_is(&[(kyverno, "admission-policy", "IPC_LOCK")]);
    // Of another pod it is a failure, and not one of RDMA.
    for text in [topology, sandbox, &kyverno.replace("osu-bw", "shop-0")] {
        assert_eq!(kinds(text).first(), Some(&K::Unrecognised), "{text}");
    }
    // The pod started nevertheless.
    let started = "  Normal   Started  5s  kubelet  Started container web\n";
    assert_eq!(kinds(&format!("{sandbox}{started}")), []);
}

#[test]
fn an_event_that_names_nothing_of_rdma_is_not_taken_for_success() {
    for text in [
        "  Warning  FailedCreatePodSandBox  3s  kubelet  Failed to create pod sandbox: rpc error: code = DeadlineExceeded desc = context deadline exceeded",
        "Warning FailedMount 9s kubelet MountVolume.SetUp failed for volume \"scratch\"",
        "  Warning  Failed  19s (x3 over 46s)  kubelet  Error: could not configure devices: could not get device: not a device node",
    ] {
        assert_eq!(kinds(text), [K::Unrecognised], "{text}");
    }
    for text in [
        "  Warning  Unhealthy  9m  kubelet  Readiness probe failed: connection refused",
        "  Warning  NodeNotReady  9m  node-controller  Node is not ready",
    ] {
        assert_eq!(kinds(text), [], "{text}");
    }
}

#[test]
fn a_limit_that_stays_as_it_is_is_no_warning() {
    for text in [
        "[2020-07-09T09:48:32.814] [78.0] debug2: _set_limit: conf setrlimit RLIMIT_MEMLOCK no change in value: 18446744073709551615",
        "[2020-07-09T09:48:32.814] [78.0] debug2: _set_limit: RLIMIT_MEMLOCK : max:inf cur:inf req:18446744073709551615",
    ] {
        assert_eq!(kinds(text), [], "{text}");
    }
    each_is(&[(
        "slurmstepd: error: Can't propagate RLIMIT_MEMLOCK of infinity from submit host: Operation not permitted",
        "memlock-limit",
        "systemctl edit slurmd",
    )]);
}

#[test]
fn what_a_person_writes_yields_to_what_programs_print() {
    let account = "Hi, my cluster cannot establish an rdma connection without passing hostNetwork: true. This is the output:\n";
    let output = "Failed to modify QP 6814 to RTR\n Unable to Connect the HCA's through the link\n";
    assert_eq!(kinds(account), [K::CmFailed]);
    assert_eq!(kinds(&format!("{account}{output}")), [K::ConnectFailed]);
}

#[test]
fn a_plugin_that_the_kubelet_lost_is_the_cause_until_it_registers_again() {
    let lost = "E1123 12:00:01.118802 11894 client.go:101] \"ListAndWatch ended unexpectedly for device plugin\" err=\"rpc error: code = Unavailable desc = \
         error reading from server: EOF\" resource=\"rdma/hca_shared_devices_a\"\n";
    let again = "I1123 12:00:09.118802 11894 server.go:144] \"Got registration request from device plugin with resource\" resourceName=\"rdma/hca_shared_devices_a\"\n";
    each_is(&[(
        lost,
        "device-not-given",
        "The kubelet does not know the device plugin",
    )]);
    assert_eq!(kinds(&format!("{lost}{again}")), []);
    let of_gpu = lost.replace("rdma/hca_shared_devices_a", "nvidia.com/gpu");
    assert!(!kinds(&of_gpu).contains(&K::ResourceUnavailable));
}

#[test]
fn events_of_what_rdma_does_not_need_are_no_failures() {
    for text in [
        "  Warning  FailedGetResourceMetric  9m  horizontal-pod-autoscaler  failed to get cpu utilization: unable to get metrics",
        "  Warning  UnexpectedAdmissionError  9s  kubelet  Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1",
        "  Warning  FailedScheduling  9s  default-scheduler  0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
        "  Warning  FailedPreStopHook  1s  kubelet  PreStopHook failed",
        "  Warning  FailedToUpdateEndpointSlices  9m  endpoint-slice-controller  Error updating Endpoint Slices for Service ml/nccl",
    ] {
        assert_eq!(kinds(text), [], "{text}");
    }
}
