//! Messages of pods that wait or were refused, as users have posted them.

use super::*;

/// Of the kubelet, Multus and CNI plugins, about a pod that is being created.
#[test]
fn events_of_pods_that_are_being_created_have_their_cause() {
    for (message, rule, words) in [
        (
            "error adding container to network \"sriov-network\": SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required, \
             failed to clean up sandbox container",
            "attachment-without-resource",
            "request the resource",
        ),
        (
            "error adding container to network \"example-sriov-ib-network\": infiniBand SRI-OV CNI failed to configure VF \"VF ib2 GUID is \
             not valid\"",
            "guid-missing",
            "ib-kubernetes",
        ),
        (
            "infiniBand SRIOV-CNI failed, InfiniBand status \"mellanox.infiniband.app\" is not \"configured\" please check mellanox \
             ib-kubernetes",
            "guid-missing",
            "subnet manager",
        ),
        (
            "plugin type=\"multus\" name=\"multus-cni-network\" failed (add): [pi/testpod1/8db9d7e8:infiniband-net1]: error adding \
             container to network \"infiniband-net1\": failed to get original vf information: failed to find vf 2",
            "virtual-function-gone",
            "restart the device plugin",
        ),
        (
            "failed to set up IPAM plugin type \"whereabouts\" from the device \"p2p1\": Error at storage engine: Could not allocate IP in \
             range: ip: 172.29.44.70 / - 172.29.44.120 / range: net.IPNet{IP:net.IP{0xac, 0x1d, 0x2c, 0x0}}",
            "addresses-exhausted",
            "enlarge the range",
        ),
        (
            "failed to set up IPAM plugin type \"host-local\" from the device \"ens1f0\": failed to allocate for range 0: no IP addresses \
             available in range set: 10.0.103.1-10.0.103.254",
            "addresses-exhausted",
            "host-local",
        ),
        (
            "CNI request failed with status 400: failed to find plugin \"sriov\" in path [/opt/cni/bin]",
            "cni-plugin-missing",
            "sriov-cni",
        ),
        (
            "error adding container to network \"ib\": failed to find plugin \"ib-sriov\" in path [/opt/cni/bin /usr/lib/cni]",
            "cni-plugin-missing",
            "ib-sriov",
        ),
        (
            "error adding container to network \"rail0\": RDMA subsystem namespace awareness mode is set to shared, expecting it to be set \
             to exclusive, invalid system configurations",
            "rdma-namespace-mode",
            "netns_mode=0",
        ),
    ] {
        let mut cluster = cluster();
        let message = format!("Failed to create pod sandbox: rpc error: code = Unknown desc = {message}");
        read(&mut cluster.events).push(event("Pod", "h-kim-0", &message));
        let mut pod = pending("");
        pod["status"] = json!({"phase": "Pending"});
        read(&mut cluster.pods).push(pod);
        let report = run(&cluster);
        let found = one(&report, rule);
        assert!(found.remedy.contains(words), "{found:?}");
        assert_eq!(report.exit_status(), 2);
    }
}

#[test]
fn the_scheduler_is_explained_also_where_no_device_is_missing() {
    for (message, words, remedy) in [
        (
            "0/3 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, 2 node(s) didn't match Pod's node \
             affinity/selector. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            "nodes have a taint that it does not tolerate; its nodeSelector or nodeAffinity excludes nodes",
            "add the toleration",
        ),
        (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "a volume of it is not bound",
            "kubectl get pvc",
        ),
        (
            "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
            "its anti-affinity excludes nodes",
            "use fewer pods",
        ),
        (
            "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable",
            "no node has free devices for its resource claims",
            "resourceslices",
        ),
        (
            "0/4 nodes are available: 4 node(s) were unschedulable.",
            "nodes are cordoned",
            "kubectl uncordon",
        ),
        (
            "something new",
            "the scheduler found no node",
            "kubectl -n team-a describe pod h-kim-0",
        ),
    ] {
        let mut cluster = cluster();
        read(&mut cluster.pods).push(pending(message));
        let report = run(&cluster);
        let found = one(&report, "pod-pending");
        assert!(
            found.summary.contains(words) && found.remedy.contains(remedy),
            "{found:?}"
        );
        assert_eq!(found.evidence, [format!("scheduler: {message}")]);
    }
}

/// The kubelet refuses a pod for good: it fails, and its controller creates the next one.
#[test]
fn a_pod_that_the_kubelet_refused_is_explained() {
    let refused = |reason: &str, message: &str| {
        let mut pod = pending("");
        pod["status"] = json!({"phase": "Failed", "reason": reason, "message": message});
        pod
    };
    let admission = "UnexpectedAdmissionError";
    for (reason, message, rule, words) in [
        (
            admission,
            "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices \
             openshift.io/eno5np0rdma, which is unexpected",
            "device-plugin-failed",
            "every device of the resource as unhealthy",
        ),
        (
            admission,
            "Pod Allocate failed due to requested number of devices unavailable for openshift.io/eno5np0rdma. Requested: 1, Available: 0, \
             which is unexpected",
            "device-plugin-failed",
            "could not give the pod its devices",
        ),
        (
            admission,
            "Pod Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unknown",
            "device-plugin-failed",
            "could not give the pod its devices",
        ),
        (
            "TopologyAffinityError",
            "Pod was rejected: Resources cannot be allocated with Topology locality",
            "topology-refused",
            "no NUMA node with all devices",
        ),
        (
            admission,
            "something new",
            "pod-refused-by-kubelet",
            "the kubelet refused the pod",
        ),
    ] {
        let mut cluster = cluster();
        // A controller leaves many of them behind.
        read(&mut cluster.pods).extend([refused(reason, message), refused(reason, message)]);
        let report = run(&cluster);
        let found = one(&report, rule);
        assert_eq!(
            (found.subject.as_str(), found.severity),
            ("StatefulSet team-a/h-kim", Severity::Critical)
        );
        assert!(found.summary.contains(words), "{found:?}");
        assert!(
            found.evidence[0].contains(&format!("pod h-kim-0: {reason}: ")),
            "{found:?}"
        );
        assert!(
            found.remedy.contains("the kubelet does not try again"),
            "{found:?}"
        );
        // All pods run by now: others have replaced it.
        let mut replaced = cluster.clone();
        set_job(&mut replaced, |job| job["status"]["replicas"] = 2.into());
        assert_eq!(run(&replaced).exit_status(), 0);
        // Without a controller, no one replaces it.
        let mut alone = cluster.clone();
        for pod in read(&mut alone.pods) {
            pod["metadata"]["ownerReferences"] = json!([]);
        }
        let report = run(&alone);
        let found = one(&report, rule);
        assert_eq!(
            (found.subject.as_str(), found.severity),
            ("Pod team-a/h-kim-0", Severity::Warning)
        );
    }
    let mut cluster = cluster();
    read(&mut cluster.pods).push(refused("Error", "the program failed"));
    assert_eq!(run(&cluster).exit_status(), 0, "not refused by the kubelet");
}
