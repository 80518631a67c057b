//! What messages of the API server, the kubelet, Multus and CNI plugins mean.

/// A message that is known.
pub(super) struct Known {
    /// A part of it.
    part: &'static str,
    /// The problem.
    pub(super) rule: &'static str,
    /// The problem in words.
    pub(super) summary: &'static str,
    /// What to do; `NAMESPACE` is to be replaced.
    pub(super) remedy: &'static str,
}

/// The first that fits.
pub(super) fn explained(message: &str) -> Option<&'static Known> {
    MESSAGES.iter().find(|known| message.contains(known.part))
}

const MESSAGES: &[Known] = &[
    Known {
        part: "violates PodSecurity",
        rule: "refused-by-pod-security",
        summary: "PodSecurity of the namespace refuses the pod",
        remedy: "kubectl label namespace NAMESPACE pod-security.kubernetes.io/enforce=privileged --overwrite; on OpenShift first \
                 security.openshift.io/scc.podSecurityLabelSync=false",
    },
    Known {
        part: "exceeded quota",
        rule: "refused-by-quota",
        summary: "a quota of the namespace refuses the pod",
        remedy: "use fewer pods or devices, stop others, or ask the administrator to raise the quota",
    },
    Known {
        part: "must specify",
        rule: "refused-by-quota",
        summary: "a quota of the namespace requires values that the pod does not set",
        remedy: "set the resources that the message names",
    },
    Known {
        part: "error looking up service account",
        rule: "service-account-missing",
        summary: "the service account of the pod does not exist",
        remedy: "kubectl -n NAMESPACE create serviceaccount with the name in the message, or correct serviceAccountName",
    },
    Known {
        part: "cannot find a network-attachment-definition",
        rule: "attachment-missing",
        summary: "Multus does not find a network attachment of the pod",
        remedy: "create it in the namespace that the message names, or correct the annotation of the pod",
    },
    Known {
        part: "VF pci addr is required",
        rule: "attachment-without-resource",
        summary: "the CNI plugin got no device: the network attachment names no resource, or the pod does not request it",
        remedy: "set k8s.v1.cni.cncf.io/resourceName on the network attachment, and request the resource in the pod",
    },
    Known {
        part: "failed to find plugin \"sriov\"",
        rule: "cni-plugin-missing",
        summary: "the SR-IOV CNI plugin is not installed on the node",
        remedy: "install sriov-cni on the node (on OpenShift: the SR-IOV network operator)",
    },
    Known {
        part: "failed to find plugin",
        rule: "cni-plugin-missing",
        summary: "a CNI plugin that a network attachment names is not installed on the node",
        remedy: "install the plugin that the message names (ib-sriov, rdma, whereabouts, macvlan) in the CNI directory of the node, or correct the type in the \
                 network attachment",
    },
    Known {
        part: "requested number of devices unavailable",
        rule: "device-plugin-failed",
        summary: "the device plugin could not give the pod its devices",
        remedy: "look at the device plugin's pod on the node; run rdma-health check there",
    },
    Known {
        part: "cannot allocate unhealthy devices",
        rule: "device-plugin-failed",
        summary: "the device plugin reports every device of the resource as unhealthy: it has not started yet, or the links of the ports are down",
        remedy: "look at the device plugin's pod on the node; run rdma-health check there",
    },
    Known {
        part: "Allocate failed due to",
        rule: "device-plugin-failed",
        summary: "the device plugin could not give the pod its devices",
        remedy: "look at the device plugin's pod on the node; run rdma-health check there",
    },
    Known {
        part: "cannot be allocated with Topology locality",
        rule: "topology-refused",
        summary: "the kubelet found no NUMA node with all devices of the pod",
        remedy: "request as many devices as one NUMA node has, or set the kubelet's topologyManagerPolicy to best-effort",
    },
    Known {
        part: "GUID is not valid",
        rule: "guid-missing",
        summary: "the InfiniBand virtual function of the pod has no valid GUID",
        remedy: "set a GUID for each virtual function: guid in the network attachment, ib-kubernetes, or the SR-IOV network operator",
    },
    Known {
        part: "please check mellanox ib-kubernetes",
        rule: "guid-missing",
        summary: "ib-kubernetes has not configured the pod's InfiniBand network",
        remedy: "look at the log of ib-kubernetes; it needs the subnet manager",
    },
    Known {
        part: "failed to find vf",
        rule: "virtual-function-gone",
        summary: "the virtual function that the pod was given is not on the adapter any more",
        remedy: "restart the device plugin's pod on the node, which then lists the functions again; run rdma-health check there",
    },
    Known {
        part: "failed to get VF information",
        rule: "virtual-function-gone",
        summary: "the CNI plugin does not find the virtual function that the pod was given, or it is bound to another driver",
        remedy: "restart the device plugin's pod on the node, which then lists the functions again; run rdma-health check there",
    },
    Known {
        part: "Could not allocate IP in range",
        rule: "addresses-exhausted",
        summary: "whereabouts has no free address for the pod",
        remedy: "enlarge the range of the network attachment, or delete what is left over: kubectl -n kube-system get ippools.whereabouts.cni.cncf.io",
    },
    Known {
        part: "no IP addresses available in range",
        rule: "addresses-exhausted",
        summary: "the IPAM plugin has no free address for the pod",
        remedy: "enlarge the range of the network attachment; host-local keeps addresses of pods that are gone in /var/lib/cni/networks on the node",
    },
    Known {
        part: "RDMA subsystem namespace awareness mode",
        rule: "rdma-namespace-mode",
        summary: "the RDMA CNI plugin requires the exclusive mode of network namespaces, and the node has the shared mode",
        remedy: "set it on the node before the drivers are loaded: options ib_core netns_mode=0; or remove the rdma plugin from the network attachment",
    },
];
