//! What to do where a pod or container does not get its devices, as far as the message shows. The texts are in lower case.

use crate::symptom::Symptom;

/// Words of a message, one of which must be there, and what to do.
type Step = (&'static [&'static str], &'static str);

/// What to do by the first entry of which a text has one of the words.
fn first(steps: &[Step], text: &str) -> Option<&'static str> {
    let found = steps
        .iter()
        .find(|(words, _)| words.iter().any(|word| text.contains(word)));
    found.map(|(_, step)| *step)
}

/// A resource that no node offers, or that a quota does not leave.
pub(super) fn resource(text: &str) -> Option<&'static str> {
    const STEPS: &[Step] = &[
        (
            &["runasnonroot"],
            "Let the device plugin's own pod run as root: in its DaemonSet, set runAsNonRoot: false and runAsUser: 0, or exempt its namespace from the policy \
            that adds runAsNonRoot. Until it runs, its node offers no RDMA devices: kubectl describe node NODE (Allocatable).",
        ),
        (
            &[
                "crashloopbackoff",
                "back-off",
                "imagepull",
                "pull image",
                "containererror",
                "containerconfigerror",
            ],
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
            &["exceeded quota"],
            "Raise the quota, or end a pod that uses it: kubectl describe resourcequota -n NAMESPACE shows what is used and the limit. The nodes may \
            have free devices; the namespace may not take more.",
        ),
        (
            &["unused quota", "insufficient quota"],
            "Raise the nominal quota of the resource in the ClusterQueue, or wait for a workload to end: kubectl describe clusterqueue. It must list the RDMA \
            resource among coveredResources, with a quota in the flavor of the job.",
        ),
    ];
    first(STEPS, text)
}

/// A network that could not be attached.
pub(super) fn network(text: &str) -> Option<&'static str> {
    const STEPS: &[Step] = &[
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
        (
            &["link not found for interface"],
            "Look where the device is: ip link and rdma link show on the node. If a pod that ended still has it, delete that pod (lsns -t net lists the \
            namespaces); then restart the DRA driver's pod, so that it lists the devices again, and delete the failed pod.",
        ),
    ];
    first(STEPS, text)
}

/// A container that did not start because of its devices.
pub(super) fn start(text: &str) -> Option<&'static str> {
    const STEPS: &[Step] = &[
        (
            &["99-mellanox.sh: line"],
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
            "Look for a hardware adapter on the node: lspci -nn | grep -i -e mellanox -e infiniband, ls /sys/class/infiniband. The plugin lists only \
            software devices (rxe, siw) or none, and it offers only hardware adapters, and those whose network device it lists.",
        ),
    ];
    first(STEPS, text)
}

/// A virtual function that could not be configured.
pub(super) fn function(text: &str) -> Option<&'static str> {
    const STEPS: &[Step] = &[
        (
            &["lastsyncerror", "draining"],
            "Look for what blocks the drain of the node: kubectl get pdb -A, and the pods that the daemon's log names as not ended (Draining failed with). The SR-IOV \
            operator changes virtual functions only after that. End those pods, or set disableDrain: true in SriovOperatorConfig for a single node; \
            kubectl get sriovnetworknodestates -A -o yaml shows the state.",
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
    ];
    first(STEPS, text)
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
