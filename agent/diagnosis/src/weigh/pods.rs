//! What to do where a pod or container does not get its devices, as far as the message shows. The texts are in lower case.

use super::refused;
use crate::{log, symptom::Symptom};

/// Words of a message, one of which must be there, and what to do.
type Step = (&'static [&'static str], &'static str);

/// What to do by the first entry of which a text has one of the words.
fn first(steps: &[Step], text: &str) -> Option<&'static str> {
    let found = steps
        .iter()
        .find(|(words, _)| words.iter().any(|word| text.contains(word)));
    found.map(|(_, step)| *step)
}

/// Words of the state of a component's pod that does not run.
const NOT_RUNNING: &[&str] = &[
    "crashloopbackoff",
    "back-off",
    "imagepull",
    "pull image",
    "init:error",
    "containererror",
    "containerconfigerror",
];

/// A resource that no node offers, or that a quota does not leave.
pub(super) fn resource(text: &str) -> Option<&'static str> {
    const STEPS: &[Step] = &[
        (
            &["runasnonroot"],
            "Let the device plugin's own pod run as root: in its DaemonSet, set runAsNonRoot: false and runAsUser: 0, or exempt its namespace from the policy \
            that adds runAsNonRoot. Until it runs, its node offers no RDMA devices: kubectl describe node NODE (Allocatable).",
        ),
        (
            NOT_RUNNING,
            "Start the device plugin's own pod first: kubectl describe pod and kubectl logs --previous of that pod say why it does not run. Until it does, \
            its node offers no RDMA devices, and pods that request them wait.",
        ),
        (
            &["driver failed to start"],
            "Mount the kubelet's directories plugins and plugins_registry (hostPath, type DirectoryOrCreate) into the DRA driver's pod with the same path as on the \
            node. The driver ended when it started, so the node offers no devices of it. If the kubelet has another --root-dir, name that; dynamic resource \
            allocation must be on in kubelet and API server; then restart the driver's pod.",
        ),
        (
            &["topology locality", "topologyaffinity"],
            "Let the pod request what one NUMA node has: the kubelet's topology manager (policy single-numa-node or restricted) found none with all of its CPUs, GPUs and \
            adapters free. Compare nvidia-smi topo -m and cat /sys/class/infiniband/*/device/numa_node with the pod's limits, and request fewer of each, or devices of one \
            node; or set topologyManagerPolicy: best-effort for the kubelet and restart it. Then delete the failed pod.",
        ),
        (
            &["exceeded quota"],
            "Raise the quota, or end a pod that uses it: kubectl describe resourcequota -n NAMESPACE shows what is used and the limit. The nodes may \
            have free devices; the namespace may not take more.",
        ),
        (
            &["unused quota", "insufficient quota"],
            "Raise the nominal quota of the resource in the ClusterQueue, or wait for a workload to end: kubectl describe clusterqueue. It must list the RDMA \
            resource among coveredResources, with a quota in the flavor of the job.",
        ),
        (
            &["nicclusterpolicy"],
            "Correct the field of the NicClusterPolicy that the message names, and apply it again: until then the Network Operator deploys nothing of it. config is JSON text; a \
            resource name has letters, digits, - and _ only, and its prefix is a domain. kubectl get nicclusterpolicies -o yaml shows the state of each part.",
        ),
        (
            &["cdi json", "cdi spec"],
            "Give the pool devices that have files: the plugin could not describe one of them for the runtime (empty device edits: the function has no file to pass \
            on). For RDMA set isRdma: true in the SriovNetworkNodePolicy and load the RDMA driver (modprobe mlx5_ib; rdma link show lists the function), for DPDK bind it to \
            vfio-pci. If the pool is of plain network devices, set useCDI: false in SriovOperatorConfig.",
        ),
    ];
    first(STEPS, text)
}

/// Steps for an interface that a plugin could not find, name or move into a pod.
const OF_INTERFACE: &[Step] = &[
    (
        &["podresourceslister", "pod resources", "pod-resources"],
        "Let Multus ask kubelet which device it gave to the pod: /var/lib/kubelet/pod-resources/kubelet.sock must exist on the node (kubelet before 1.20 needs the feature gate \
        KubeletPodResources=true), and its directory must be mounted in the pod of Multus. A newer Multus and an older kubelet may not understand each other: install the release of \
        Multus for this Kubernetes.",
    ),
    (
        &[
            "to netns: file exists",
            "to container netns: file exists",
            "to pod netns: file exists",
        ],
        "Give the interface another name: the network namespace of the pod already has one with this name. Look for two entries for one network or one name \
        in the annotation k8s.v1.cni.cncf.io/networks, and for a function on the host that has the name of a pod's interface (ip -br link: eth0, net1). Then delete the failed pod.",
    ),
    (
        &["could not get network namespace handle", "into network namespace"],
        "Update the driver that moves the interface (dranet, the DRA driver for networks): it could not enter the network namespace of the pod. Its own pod needs hostNetwork: true, hostPID: true and the directory of the \
        namespaces with mount propagation (/var/run/netns, HostToContainer), and must run privileged. Then restart it and delete the failed pod.",
    ),
    (
        &["failed to rename", "error renaming"],
        "Find out what holds or renames the virtual function on the node: ip -br link and journalctl -k | grep renamed. An interface that is up, or that NetworkManager or a rule of udev \
        renames at the same time, cannot be renamed: let them leave virtual functions alone (unmanaged-devices), and update sriov-cni.",
    ),
    (
        &[
            "link not found for interface",
            "netlink to interface",
            "network interface name for",
        ],
        "Look where the device is: ip link and rdma link show on the node. If a pod that ended still has it, delete that pod (lsns -t net lists the \
        namespaces); then restart the DRA driver's pod, so that it lists the devices again, and delete the failed pod.",
    ),
];

/// What to do where a pod names a network that is not there.
const NO_NETWORK: &str = "Create the network, or correct its name: the pod's annotation k8s.v1.cni.cncf.io/networks names one that its namespace does not have. kubectl get \
    network-attachment-definitions -A lists all; write NAMESPACE/NAME for one of another namespace. An operator makes it from a SriovNetwork, \
    HostDeviceNetwork or MacvlanNetwork, in the namespace that networkNamespace names.";

/// What to do about a network that could not be attached.
const OF_NETWORK: &[Step] = &[
    (
        NOT_RUNNING,
        "Start the pod of the network plugin on this node first: kubectl describe pod and kubectl logs --previous of that pod say why it does not run (an image that the registry \
        does not have, a missing secret or right). Until it runs, pods with its networks do not start there.",
    ),
    (
        &["not of type ipoib"],
        "Use macvlan, ipvlan or host-device for this network: ipoib-cni stands only on an interface of IP over InfiniBand, and the master is another \
        one (ip -d link show MASTER). If the adapter shall run InfiniBand, change the port: mlxconfig -d ADDRESS set LINK_TYPE_P1=1, then restart the node.",
    ),
    (
        &["no net directory"],
        "Bind the function to its network driver again (mlx5_core) in place of vfio-pci, or remove vfio-pci from the selectors of this pool: host-device \
        and rdma-cni need a network device. lspci -nnk -s ADDRESS shows the driver in use.",
    ),
    (&["network-attachment-definition"], NO_NETWORK),
    (
        &["failed to find plugin"],
        "Install the plugin on this node: its program is not in the directory that the message names (ls /opt/cni/bin). A DaemonSet puts it there (cni-plugins, \
        sriov-cni, ib-sriov-cni, rdma-cni, whereabouts, nv-ipam): kubectl get ds -A shows whether its pod runs on this node. K3s and RKE2 have other \
        directories, which the DaemonSet must mount.",
    ),
    (
        &[
            "no free addresses",
            "no ip addresses available",
            "allocate ip in range",
        ],
        "Give the network more addresses: the IPAM plugin has none left, and each pod needs one for each of its interfaces. List what is taken: kubectl get \
        ippools.whereabouts.cni.cncf.io -A -o yaml, kubectl get ippools.nv-ipam.nvidia.com,cidrpools.nv-ipam.nvidia.com -A -o yaml, ls /var/lib/cni/networks (host-local). \
        Enlarge the range, or delete reservations of pods that no longer exist.",
    ),
    (
        &["configuration for pool"],
        "Create the pool of addresses that the network names, or let it include this node: kubectl get ippools.nv-ipam.nvidia.com,cidrpools.nv-ipam.nvidia.com \
        -A -o yaml. poolName and poolType in the network must be those of a pool, its nodeSelector must select the node, and status.allocations must \
        list the node. Then read the log of the pods nv-ipam-controller and nv-ipam-node.",
    ),
    (
        &["is already allocated"],
        "Find the pod that has the function: cat /var/lib/cni/sriov/pci/ADDRESS on the node names its network namespace. If that pod has ended, delete its sandbox (crictl \
        pods, crictl stopp and rmp) or the namespace that is left, then that file; otherwise restart the pod of the SR-IOV device plugin, which then gives out only free functions.",
    ),
    (
        &["no rdma devices found", "rdma devices for pci"],
        "Give the function an RDMA device: ls /sys/bus/pci/devices/ADDRESS/infiniband must list one. Load the RDMA driver on the node (modprobe mlx5_ib) and bind \
        the function to its network driver again (driver/unbind, driver/bind). If rdma link show lists the device on the host under another pod's namespace, \
        delete that pod.",
    ),
    (
        &["unauthorized"],
        "Restart the pod of Multus on this node: its access to the API server has expired, or its service account was made again. kubectl -n kube-system rollout restart \
        ds/kube-multus-ds (in the operator's namespace where an operator deploys it). It writes /etc/cni/net.d/multus.d/multus.kubeconfig again; older releases \
        do not renew it by themselves, so update Multus.",
    ),
    (
        &["no networks found in"],
        "Let Multus find the configuration of the pod's first network: ls /etc/cni/net.d on the node must have the file of the cluster's own plugin, and the pod of Multus must mount \
        that directory. K3s, RKE2 and MicroK8s have another one. Then restart the pod of Multus.",
    ),
    (
        &["claim host devices"],
        "Remove hostNetwork: true from the pod, or the claim: the driver moves a device into the pod's own network namespace, and a pod on the host's network has none.",
    ),
    (
        &["at storage engine", "overlappingrange"],
        "Read why the API server refuses what whereabouts stores. A field that is required or unknown shows definitions (CRDs) of another release: apply those of the \
        installed whereabouts (kubectl get crd | grep whereabouts). A missing right (forbidden) or a timeout concerns its service account and its kubeconfig.",
    ),
    (
        &["guid must be provided", "infiniband status"],
        "Let ib-kubernetes set the pod up before its network: it gives the GUID, and marks the network as configured. Check that its pod runs and that its log names this pod (kubectl -n kube-system \
        logs -l app=ib-kubernetes), that it reaches the subnet manager (address and password of UFM in its secret), and that the network has the annotation of the SR-IOV resource. Without \
        ib-kubernetes, set ibKubernetesEnabled: false in the network's configuration.",
    ),
    (
        &["invalid guid", "guid is not valid"],
        "Give the virtual function a GUID: it has zeros. ip link show PF lists those of its functions; set both: ip link set PF vf N node_guid GUID and port_guid GUID, then bind the function to its driver \
        again. The SR-IOV operator does it for linkType: ib; ib-kubernetes gives each pod one.",
    ),
    (
        &["not bound to vfio-pci"],
        "Bind the function to vfio-pci (driverctl set-override ADDRESS vfio-pci; lspci -nnk -s ADDRESS shows the driver), with deviceType: vfio-pci in the SriovNetworkNodePolicy where the operator manages it. \
        If the pod shall use RDMA in a container, leave vfioPciMode out of the network instead: that needs the function's own driver.",
    ),
    (
        &["guid pool", "allocate guid", "requested guid"],
        "Enlarge the range of GUIDs of ib-kubernetes (GUID_POOL_RANGE_START and GUID_POOL_RANGE_END in its ConfigMap), or end pods that have GUIDs, and restart its pod. A \
        GUID that a pod requests itself must not be in use.",
    ),
    (
        &["pkey", "add guids"],
        "Let ib-kubernetes reach the subnet manager: check address, user and password of UFM in its secret (status 401 or 403: they are wrong), and that UFM has this partition key. Read its \
        log: kubectl -n kube-system logs -l app=ib-kubernetes. Until it succeeds, pods of this network are not in the partition.",
    ),
    (
        &["bringing interface up", "bring interface up", "set interface up"],
        "Look in the kernel log of the node for why the driver could not bring the virtual function up in the pod: journalctl -k | grep -e PF -e ADDRESS. If the function is busy, an \
        earlier attempt or another pod still uses it: delete the failed pod, so that it is tried again, and end what holds the function. If it happens when many pods start \
        at the same time, update sriov-cni and the adapter's driver and firmware.",
    ),
    // Multus says why it did not get the network after these words, or nothing more.
    (&["getting the delegate"], NO_NETWORK),
];

/// A network that could not be attached.
pub(super) fn network(text: &str) -> Option<&'static str> {
    // A driver that does not have an operation refuses it for every pod.
    let of_function = || {
        let is_one = text.contains(" vf ") && !text.contains("vlan");
        is_one.then(|| refused::step(text)).flatten()
    };
    first(OF_INTERFACE, text)
        .or_else(of_function)
        .or_else(|| first(OF_NETWORK, text))
}

/// A container that did not start because of its devices.
pub(super) fn start(text: &str) -> Option<&'static str> {
    const STEPS: &[Step] = &[
        (
            &["unknown mellanox device"],
            "MELLANOX_VISIBLE_DEVICES of the job or of the image names an adapter that this node does not have: the number counts those of ls /sys/class/infiniband, from 0. \
            Correct it or leave it out (env | grep MELLANOX, srun --export); all gives every adapter, none starts the container without RDMA.",
        ),
        (
            &["mellanox.sh: line"],
            "Name the adapters for the container: MELLANOX_VISIBLE_DEVICES=0,1 (those of ibv_devices), or none to start without RDMA. The hook of enroot \
            found a PCI function that has a verbs file but no device in this namespace: compare ls /sys/class/infiniband with ls /sys/class/infiniband_verbs.",
        ),
        (
            &["mounted nodev"],
            "Put the devices directory of Incus or LXD on a file system without nodev, because device files do not work there: zfs set devices=on DATASET, or mount -o \
            remount,dev of the file system that has /var/lib/incus or /var/lib/lxd. Then start the container again.",
        ),
        (
            &["failed to start device"],
            "Compare the device of the container with the host: incus config device show NAME (or lxc), ip -brief link, ls /sys/class/infiniband. The parent must \
            exist on the host under this name, not be in another container, and for nictype=sriov have free virtual functions.",
        ),
        (
            &["ibvdevlist"],
            "Look for a hardware adapter on the node: lspci -nnk, ls /sys/class/infiniband. The plugin lists only \
            software devices (rxe, siw) or none, and it offers only hardware adapters, and those whose network device it lists.",
        ),
    ];
    first(STEPS, text)
}

/// What to do about a virtual function that could not be configured.
const OF_FUNCTION: &[Step] = &[
    (
        &["/driver: no such file", "/driver: file does not exist"],
        "Bind the function to a driver: it has none, so the device plugin leaves it out, and its pool may be empty. lspci -nnk -s ADDRESS shows the driver in use. For RDMA load the driver of the adapter and \
        bind the function to it (modprobe mlx5_core; echo ADDRESS > /sys/bus/pci/drivers/mlx5_core/bind), for DPDK with an adapter of Intel to vfio-pci (driverctl set-override ADDRESS vfio-pci). Then restart the \
        device plugin's pod. A device that no pool shall have needs nothing.",
    ),
    (
        &["drivers_probe: no such device", "bind default driver"],
        "Load the driver of the function on the node, so that it can be bound: modprobe mlx5_core (for other adapters the driver that lspci -nnk -s ADDRESS names). The function is there and no loaded driver \
        takes it: look for a blacklist (modprobe -c | grep blacklist), for driver_override of the function in /sys, and in journalctl -k for why the driver gave it up (probe with driver … failed).",
    ),
    (
        NOT_RUNNING,
        "Start the pod of the SR-IOV operator or its daemon first: kubectl describe pod and kubectl logs --previous of that pod say why it does not run. Until it does, no virtual \
        function is created or configured on its node.",
    ),
    (
        &[
            "lastsyncerror: exit status",
            "lastsyncerror: 'exit status",
            "lastsyncerror: \"exit status",
        ],
        "The SR-IOV operator's daemon ran a program on the node that failed, most often the tool for the adapter's firmware. Its log names it in the lines before: kubectl logs -n NAMESPACE POD of \
        sriov-network-config-daemon on that node. Run it by hand there: mstconfig -d ADDRESS query. If it may not open the adapter, lockdown (Secure Boot, cat /sys/kernel/security/lockdown) keeps it \
        out: set SRIOV_EN and NUM_OF_VFS without it, and disablePlugins: [mellanox] in SriovOperatorConfig. If it names a setting, correct that.",
    ),
    (
        &["drain", "timed out waiting", "terminating", "evict", "cordon"],
        "Look for what blocks the drain of the node: kubectl get pdb -A, and the pods that the daemon's log names as not ended (Draining failed with). The SR-IOV \
        operator changes virtual functions only after that. End those pods, or set disableDrain: true in SriovOperatorConfig for a single node; \
        kubectl get sriovnetworknodestates -A -o yaml shows the state.",
    ),
    (
        &[
            "pf failed to honor",
            "pf returned error",
            "to our request",
            "add mac filter",
            "reset but vf never",
        ],
        "The driver of the physical function on the host refuses what the virtual function asks of it, or resets it again and again. Read what the host logged at the same time: journalctl -k | grep -e ice -e \
        i40e. A MAC address or VLAN that the function sets itself needs trust: ip link set PF vf N trust on. Bring the driver and firmware of the host's adapter and the driver in the virtual machine to \
        releases that belong together; requests that the host does not know (not supported) only cost a feature.",
    ),
    (
        &["is larger than", "exceed the maximum", "is higher than the"],
        "Let the adapter offer as many functions: mlxconfig -d ADDRESS set SRIOV_EN=1 NUM_OF_VFS=N, then restart the node; cat /sys/class/net/PF/device/sriov_totalvfs \
        shows the number. Or lower numVfs in the SriovNetworkNodePolicy. On other adapters the host's firmware setup has the number.",
    ),
    (
        &["no supported nic"],
        "Compare the nicSelector of the policy with the nodes: kubectl get sriovnetworknodestates -A -o yaml lists each adapter with vendor, deviceID, name and rootDevices. If \
        the adapter is in none, the operator does not know its model: add it to the ConfigMap supported-nic-ids, or let nodeSelector select its node.",
    ),
    (
        &["isrdma"],
        "Set deviceType: netdevice together with isRdma: true in the SriovNetworkNodePolicy: RDMA in a container needs the function's own driver. vfio-pci is for DPDK and virtual \
        machines, without isRdma.",
    ),
    (
        &["denied the request"],
        "Correct the SriovNetworkNodePolicy as the message says, and apply it again. kubectl get sriovnetworknodestates -A -o yaml shows what the nodes have: adapters, their \
        numbers of functions (totalvfs) and link types; kubectl get sriovnetworknodepolicies -A shows other policies for the same adapter.",
    ),
    (
        &["in dpu mode"],
        "Leave the firmware of this BlueField to its own system: in DPU mode the host may not change it. Set the number of functions on the DPU (mlxconfig there, or \
        DOCA's tools), and externallyManaged: true in the SriovNetworkNodePolicy; or put the card into NIC mode: mlxconfig -d ADDRESS set INTERNAL_CPU_OFFLOAD_ENGINE=1, then \
        switch the power off and on.",
    ),
    (
        &["guid pool for", "guid allocation"],
        "Give the operator enough GUIDs for the functions of this adapter: its configuration of GUIDs must name the adapter by PCI address or GUID of the port, with a list or a range of \
        at least numVfs GUIDs. Without such a configuration it makes random ones.",
    ),
    (
        &["link type change"],
        "Remove linkType from the SriovNetworkNodePolicy, or set the one that the adapter has (ibstat, ip link): this model has only one. Models that have both change with mlxconfig -d \
        ADDRESS set LINK_TYPE_P1=1 (InfiniBand) or 2 (Ethernet).",
    ),
    (
        &["eswitch"],
        "Remove the functions, change the mode, then create them again: echo 0 > /sys/class/net/PF/device/sriov_numvfs, devlink dev eswitch set \
        pci/ADDRESS mode switchdev. The adapter refuses the mode while functions are in use.",
    ),
    (
        &["growing available vfs"],
        "Allow virtual functions in the adapter: mlxconfig -d ADDRESS query SRIOV_EN NUM_OF_VFS, set both, then restart the node. LXD could not create them \
        (sriov_numvfs); SR-IOV must also be on in the host's firmware setup.",
    ),
    (
        &["sriov is disabled", "sr-iov is disabled", "createnetwork:"],
        "Switch SR-IOV on in the adapter and create functions: mlxconfig -d ADDRESS set SRIOV_EN=1 NUM_OF_VFS=N (ConnectX-4 and later), restart the node, then echo N > \
        /sys/class/net/PF/device/sriov_numvfs. ConnectX-3 creates them when its driver loads: options mlx4_core num_vfs=N probe_vf=0 in /etc/modprobe.d. VT-d or AMD-Vi and SR-IOV must be on in the \
        host's firmware setup. cat /sys/class/net/PF/device/sriov_totalvfs shows what is possible.",
    ),
    (
        &["lastsyncerror"],
        "Read why the SR-IOV operator's daemon could not set the node up: kubectl get sriovnetworknodestates -A -o yaml (lastSyncError), and the lines before it in the log of the pod \
        sriov-network-config-daemon on that node, which name the adapter and the step that failed.",
    ),
];

/// A virtual function that could not be configured.
pub(super) fn function(text: &str) -> Option<&'static str> {
    first(OF_FUNCTION, text)
}

/// What a cluster's policy refuses, where that is one thing only.
pub(super) fn policy(text: &str) -> Option<&'static str> {
    const OF_HOST: [&str; 5] = [
        "hostnetwork",
        "host network",
        "host namespace",
        "hostpath",
        "privileged",
    ];
    if text.contains("autogke") || text.contains("warden rejected") {
        return Some(
            "Use a cluster of GKE in mode Standard for this pod, or leave out what Autopilot forbids: hostNetwork, privileged containers and host paths to write. Pods get RDMA \
            devices there by the annotation networking.gke.io/interfaces or by a claim (DRA), without the host's network.",
        );
    }
    let of_host = OF_HOST.iter().any(|word| text.contains(word));
    if !text.contains("capabilit") || of_host {
        return None;
    }
    Some(if text.contains("podsecurity") {
        "Label the namespace with the level that allows the capability IPC_LOCK: kubectl label --overwrite namespace NAMESPACE \
        pod-security.kubernetes.io/enforce=privileged. Or let the pod do without: with LimitMEMLOCK=infinity for containerd or CRI-O on the nodes no pod needs it (ulimit -l in a \
        pod prints unlimited)."
    } else {
        "Allow the pod the capability IPC_LOCK, or let it do without: with LimitMEMLOCK=infinity for containerd or CRI-O on the nodes no pod needs it (ulimit -l in a pod prints \
        unlimited). To allow it: on OpenShift an SCC with allowedCapabilities: [IPC_LOCK] for the pod's service account; with PodSecurity label the namespace \
        pod-security.kubernetes.io/enforce=privileged; with Kyverno or Gatekeeper add IPC_LOCK to the allowed capabilities of the policy that the message names, or exempt the \
        namespace."
    })
}

/// What to do where a container runtime may not raise the limit of locked memory of a container.
pub(super) fn limit(symptom: &Symptom) -> Option<&'static str> {
    let text = symptom.text.to_ascii_lowercase();
    if text.contains("propagate rlimit") {
        return Some(
            "Give slurmd the limit that jobs need: LimitMEMLOCK=infinity in a drop-in of slurmd.service (systemctl edit slurmd), then restart slurmd. It may not give a job more than it \
            has. PropagateResourceLimitsExcept=MEMLOCK in slurm.conf keeps it from taking the limit of the node where the job was submitted. srun sh -c 'ulimit -l' prints the result.",
        );
    }
    log::refuses_limit(&text).then_some(
        "Raise the limit of the container runtime itself: it may not give a container more than it has. Rootless Docker and Podman: LimitMEMLOCK=infinity in a drop-in of \
        user@.service, and '* - memlock unlimited' in a file in /etc/security/limits.d, then log in again. In a container of LXC, Incus or Proxmox: \
        lxc.prlimit.memlock = unlimited (limits.kernel.memlock) on the host. ulimit -Hl where the runtime is started shows what it has.",
    )
}

/// What to do about an access that a policy of the kernel denied.
pub(super) fn denied(symptom: &Symptom) -> &'static str {
    let text = symptom.text.to_ascii_lowercase();
    if ["device-plugins", "sriov.sock"]
        .iter()
        .any(|file| text.contains(file))
    {
        return "Let the device plugin's own pod write its socket: run its container privileged (securityContext.privileged: true, as its manifest has it), or give it the SELinux \
            type spc_t (seLinuxOptions). Then restart it; kubectl describe node NODE must show its resource.";
    }
    "SELinux or AppArmor denied the access. SELinux: setsebool -P container_use_devices=on for containers, or show and add the \
    missing rule with ausearch -m avc -ts recent | audit2allow. AppArmor: add /dev/infiniband/* rw to the profile."
}

/// Whether a program looked for a file that no Linux has: files below /dev/infiniband have the names of functions, not of devices.
pub(super) fn is_path(symptom: &Symptom) -> bool {
    symptom
        .text
        .to_ascii_lowercase()
        .contains("device path /dev/infiniband/")
}

/// What to do about [`is_path`].
pub(super) const PATH: &str = "Update the program (Mooncake): this version looks for /dev/infiniband/DEVICE, which no Linux has, and skips every adapter. The files there are uverbsN, \
    umadN and rdma_cm. If it still finds none afterwards, compare ibv_devices and ls /dev/infiniband where it runs.";
