//! What Kubernetes could not give a pod: resources, networks, virtual functions.

use super::{Case, Scales, logged, pods, refused};
use crate::symptom::{Symptom, SymptomKind};

/// What to do about a resource that a pod requests and does not get.
pub(super) fn resource_step(symptom: &Symptom) -> &'static str {
    let text = symptom.text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if let Some(step) = pods::resource(&text) {
        step
    } else if has(&[
        "device pool",
        "devices found",
        "device found",
        "exposing",
        "0 devices",
    ]) {
        "The device plugin found no device for this pool, so no pod gets one. Its lines before this one name the interfaces that it left out and the reason: it never \
        takes one that carries the node's default route. Then compare the selectors in its ConfigMap (vendors, devices, drivers, pfNames) with lspci -nnk \
        and ip -brief link on that node."
    } else if has(&["unresolvable cdi"]) {
        "The runtime does not find the description of a device that was given to the pod: ls /var/run/cdi /etc/cdi. The driver or device plugin writes these files, \
        and after a restart of the node it must write them again: restart its pod on this node, then delete the failed pod. Check that containerd or CRI-O \
        has CDI enabled and reads this directory."
    } else if has(&["dra driver", "claim"]) {
        "The pod's claim needs a driver of dynamic resource allocation on the node. List what the drivers offer: kubectl get \
        resourceslices, and what the claim requests: kubectl describe resourceclaim. If the driver has no slice for this node, read the \
        log of its pod there: it must run, and register with the kubelet below /var/lib/kubelet/plugins_registry. If it has, compare the \
        selectors of the DeviceClass and of the claim with the attributes in the slice."
    } else if has(&[
        "regist",
        "dial device plugin",
        "listandwatch",
        "resources unhealthy",
        "endpoint stopped",
    ]) {
        "The kubelet does not know the device plugin, so the node offers nothing of it. Check that the plugin's pod mounts both directories of the \
        kubelet, device-plugins and plugins_registry, below the kubelet's own --root-dir (/var/lib/kubelet by default), and with the same path inside \
        and outside. Delete a socket there that is left of an older plugin, use a plugin whose API version the kubelet knows, and restart the \
        plugin's pod. journalctl -u kubelet | grep -i plugin shows the kubelet's reason."
    } else if has(&["allocate failed", "unavailable for", "which is unexpected"]) {
        "The scheduler counted the resource, and the kubelet had none left when the pod came. The plugin's devices are unhealthy, its pod is gone, \
        or it did not register again after a restart of the kubelet: compare Capacity with Allocatable (kubectl describe node NODE), read the log \
        of the device plugin's pod there, and restart that pod. Then delete the failed pod: it stays in this state."
    } else {
        "The pod requests the resource, and no node offers it. Compare the name with kubectl describe node NODE (Allocatable), and read \
        the log of the device plugin's pod on that node: it registers the resource only if its selectors match a device."
    }
}

/// What to do where a container did not start because of its RDMA devices.
pub(super) fn start_step(symptom: &Symptom) -> Option<&'static str> {
    let text = symptom.text.to_ascii_lowercase();
    if let Some(step) = pods::start(&text) {
        return Some(step);
    }
    if text.contains("hooks.d/") && text.contains("mellanox") {
        return Some(
            "Update enroot on the node: old versions of its hook for adapters (/etc/enroot/hooks.d/99-mellanox.sh) mount directories that newer kernels do not have. \
            MELLANOX_VISIBLE_DEVICES=none starts the container without RDMA, which shows whether the hook is the reason; the lines before name what it could not mount.",
        );
    }
    text.contains("not a device node").then_some(
        "Pass on the files, not their directory: the runtime takes /dev/infiniband/uverbsN and /dev/infiniband/rdma_cm one by one. Use a device plugin that lists \
        them, or a runtime that takes directories (containerd, CRI-O).",
    )
}

/// The namespace mode that a plugin needs, and the kind of network that an InfiniBand port can carry.
pub(crate) fn pod_network(case: &Case<'_>, scales: &mut Scales) {
    let Some(symptom) = case.seen(&[SymptomKind::NetworkAttachFailed]).next() else {
        return;
    };
    scales.fits(&symptom.source, &symptom.text);
    let text = symptom.text.to_ascii_lowercase();
    if let Some(step) = pods::network(&text) {
        scales.next_step = Some(step.into());
        return;
    }
    // k8s-rdma-shared-dev-plugin compares the mode with "shared".
    if text.contains("incorrect rdma subsystem network namespace") {
        scales.next_step = Some(
            "The device plugin for shared RDMA devices needs the shared mode: rdma system set netns shared, before any pod uses a device, and at \
            boot options ib_core netns_mode=1 in /etc/modprobe.d. If this node's pods shall have RDMA devices of their own (rdma-cni, \
            exclusive mode), remove the shared device plugin from it instead."
                .into(),
        );
    } else if text.contains("move rdma") && text.contains("busy") {
        scales.next_step = Some(
            "End what uses the RDMA device on the node: the mode is right, and the device cannot be moved into a pod while a program has it open. rdma resource show qp link DEVICE/1 and fuser -v \
            /dev/infiniband/uverbs* name the process (a job on the host, a monitoring agent, a pod that shares the device). Then delete the failed pod. A device that pods share belongs to the shared \
            device plugin, not to rdma-cni."
                .into(),
        );
    } else if text.contains("get rdma subsystem") {
        scales.next_step = Some(
            "Look why the mode of the RDMA subsystem cannot be read: rdma system show on the node. If it fails, too, load ib_core (modprobe ib_core), or the kernel is older than 5.3; if it works, the plugin's pod must \
            run on the host's network (hostNetwork: true) and privileged. The device plugin for shared RDMA devices needs the shared mode, rdma-cni the exclusive one."
                .into(),
        );
    } else if ["exclusive", "namespace mode", "failed to move rdma"]
        .iter()
        .any(|words| text.contains(words))
    {
        scales.next_step = Some(
            "rdma-cni needs the exclusive mode: rdma system set netns exclusive, before any pod uses a device, and at boot options ib_core \
            netns_mode=0 in /etc/modprobe.d. The device plugin for shared RDMA devices does not work in this mode."
                .into(),
        );
    } else if is_of_master(&text) {
        scales.next_step = Some(
            "Look at the master that the NetworkAttachmentDefinition names: ip -d link show MASTER. If it is an interface of IP over InfiniBand \
            (link/infiniband), macvlan and ipvlan in mode L2 cannot stand on it: use ipoib-cni (type ipoib), host-device or a virtual \
            function (ib-sriov-cni). If it is Ethernet, it must exist on the node, be in the host's network namespace, and have no use that excludes this one \
            (ipvlan next to macvlan)."
                .into(),
        );
    } else if text.contains("vlan") && ["vf", "infiniband"].iter().any(|word| text.contains(word)) {
        scales.next_step = Some(
            "The virtual function did not take the VLAN of the network. InfiniBand functions have none: use ib-sriov-cni (linkType: ib in the \
            network), with a partition key (pkey) in place of the VLAN. On Ethernet, driver or firmware refuse it: leave vlan out of the network, or \
            update them."
                .into(),
        );
    } else if ["pci addr is required", "specify either \"device\""]
        .iter()
        .any(|words| text.contains(words))
    {
        scales.next_step = Some(
            "The pod has no device for this network: add the resource of the device plugin to the pod's limits, and name the same resource in the \
            network: annotation k8s.v1.cni.cncf.io/resourceName of the NetworkAttachmentDefinition. Compare it with kubectl describe node NODE (Allocatable)."
                .into(),
        );
    } else if text.contains("infiniband.app") {
        scales.next_step = Some(
            "ib-kubernetes has not configured the pod's InfiniBand network yet: it sets GUID and partition key through the subnet manager. Check that its pod runs \
            and read its log (kubectl -n kube-system logs -l app=ib-kubernetes), its plugin for the subnet manager (UFM) and the address and password in its secret."
                .into(),
        );
    } else if ["nodepreparesources", "dynamic resources", "resourceclaim", "cdi"]
        .iter()
        .any(|words| text.contains(words))
    {
        scales.next_step = Some(
            "Read the log of the driver of dynamic resource allocation on this node: its message says which device of the claim it could not prepare. Compare \
            kubectl describe resourceclaim and kubectl get resourceslices with the devices that are there (rdma link show, ip link), and look for the files in \
            /var/run/cdi. If the device was still in use by a pod that ended, delete the pod, so that it is prepared again."
                .into(),
        );
    } else if ["find vf", "original vf", "vf information"]
        .iter()
        .any(|words| text.contains(words))
    {
        scales.next_step = Some(
            "The kernel lists no such virtual function of the physical one: ip link show PF, cat /sys/class/net/PF/device/sriov_numvfs. Create the functions \
            again, and use the plugin for the link type: ib-sriov-cni for InfiniBand, sriov-cni for Ethernet. Drivers whose functions ip link does \
            not list, such as mlx4, do not work with either: use host-device or the device plugin for shared RDMA devices."
                .into(),
        );
    }
}

/// Whether macvlan or ipvlan could not stand on the network device that the network names.
fn is_of_master(text: &str) -> bool {
    let is_one = ["macvlan", "ipvlan"].iter().any(|kind| text.contains(kind));
    let of_device = [
        "create macvlan",
        "create ipvlan",
        "lookup master",
        "link not found",
    ]
    .iter()
    .any(|words| text.contains(words));
    is_one && of_device
}

/// The cluster's policy refuses the pod, for what its message names.
pub(crate) fn admission(case: &Case<'_>, scales: &mut Scales) {
    let refused: Vec<String> = case
        .seen(&[SymptomKind::AdmissionRefused])
        .map(|symptom| symptom.text.to_ascii_lowercase())
        .collect();
    scales.next_step = pods::policy(&refused.join(" ")).map(str::to_owned);
    logged(case, scales);
}

/// What to do where the number of virtual functions could not be set, by what the kernel answered. An operator repeats the answer in the status
/// of the node (`lastSyncError`).
fn count_step(text: &str) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if !has(&["sriov_numvfs"]) {
        return None;
    }
    if has(&["resource busy"]) {
        return Some(
            "The kernel changes the number of virtual functions only from 0: echo 0 > /sys/class/net/PF/device/sriov_numvfs first. That waits for, or breaks, \
            whatever uses a function now: drain the node, and end pods and virtual machines that have one. Only one program may set the number: an \
            operator, a udev rule or a script.",
        );
    }
    if has(&["allocate memory", "no space left"]) {
        return Some(
            "The functions find no PCI address range or bus number. In the host's firmware setup, enable SR-IOV and Above 4G Decoding, or boot with \
            pci=realloc; then the adapter itself must allow as many: mlxconfig -d ADDRESS query SRIOV_EN NUM_OF_VFS. The kernel log says what is missing: \
            journalctl -k | grep -e VF -e BAR.",
        );
    }
    if has(&["out of range", "invalid argument"]) {
        return Some(
            "The adapter does not offer so many virtual functions: compare with cat /sys/class/net/PF/device/sriov_totalvfs. Its firmware sets the limit: \
            mlxconfig -d ADDRESS set SRIOV_EN=1 NUM_OF_VFS=N (Broadcom and Intel: the adapter's menu in the firmware setup of the host), then reset the \
            adapter or restart the node.",
        );
    }
    if has(&["no such file"]) {
        return Some(
            "The function has no file sriov_numvfs, so it offers no virtual functions: SR-IOV is switched off in the adapter's firmware (mlxconfig -d ADDRESS set \
            SRIOV_EN=1 NUM_OF_VFS=N, then reset the adapter) or in the firmware setup of the host, its driver is not loaded, or the function is a virtual \
            one itself: lspci -vs ADDRESS | grep SR-IOV.",
        );
    }
    None
}

/// What to do about a virtual function that could not be configured, as far as the message shows.
pub(super) fn function_step(symptom: &Symptom) -> Option<&'static str> {
    let text = symptom.text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["guid is not valid", "vfguid", "vf guid"]) {
        return Some(GUID_STEP);
    }
    if let Some(step) = count_step(&text) {
        return Some(step);
    }
    if let Some(step) = refused::step(&text).or_else(|| pods::function(&text)) {
        return Some(step);
    }
    if has(&["admin mac", "adminmac", "setvfmac"]) {
        return Some(
            "InfiniBand functions have GUIDs and no administrative MAC address. In the SriovNetworkNodePolicy set linkType: ib (and isRdma: true), in the \
            network type ib-sriov, and check that the port is InfiniBand: ibstat, mlxconfig -d ADDRESS query LINK_TYPE_P1. On Ethernet, the \
            driver or firmware refuses the address: update them.",
        );
    }
    if has(&["msi-x interrupts"]) {
        return Some(
            "The adapter has no interrupt vectors left for virtual functions: RDMA (irdma) and the queues of its network device take them. Leave more free: devlink \
            resource show pci/ADDRESS, fewer queues (ethtool -L NETDEV combined N), or load irdma only where it is used; then create the functions again. A newer \
            driver or firmware may share them out otherwise.",
        );
    }
    if has(&["enable sriov"]) && has(&["not found"]) {
        return Some(
            "Docker's network plugin for SR-IOV needs the network device of the physical function, not a bond or a bridge: name the port itself (-o netdevice=ib0), as \
            ip -brief link shows it on the host.",
        );
    }
    if has(&["pf is not online", "since if is down"]) {
        return Some(
            "Bring the physical function up before the machine starts, and keep it up: ip link set PF up (it needs no address; with NetworkManager or netplan a \
            connection without one). Then start the machine again.",
        );
    }
    if has(&["active vfs"]) {
        return Some(
            "Remove the virtual functions, change the mode, and create them again: echo 0 > /sys/class/net/PF/device/sriov_numvfs, devlink dev eswitch set pci/ADDRESS \
            mode switchdev. Machines and pods that have a function must give it back first.",
        );
    }
    if has(&["via sysfs"]) {
        return Some(
            "The driver that has the function takes no virtual functions over sysfs: lspci -nnk -s ADDRESS shows which one it is. Bind the physical function to the \
            adapter's own driver, not to vfio-pci or one of DPDK; older drivers have a parameter instead (mlx4_core num_vfs).",
        );
    }
    if has(&["mac/vlanid", "ifla_vf", "pf device for vf"]) {
        return Some(
            "The hypervisor could not set MAC address or VLAN of the virtual function: try the same with ip link set PF vf N mac ADDRESS vlan ID. After Operation not \
            permitted it may not: libvirt needs CAP_NET_ADMIN in the network namespace of the physical function, and in switchdev mode the VLAN is set on the \
            representor. Numerical result out of range: function N does not exist (sriov_numvfs). InfiniBand functions have GUIDs and no MAC address: \
            pass them as devices (hostdev) and not as interfaces.",
        );
    }
    if has(&["link not found", "no such device", "link with name"]) {
        return Some(
            "Compare the name in the configuration with ip -brief link on the node: the daemon does not find the network device of the physical or of a virtual \
            function there. If it is missing, the function has no driver, or the device is still in the namespace of a pod that ended (lsns -t net; delete that pod). Bind a function that stays \
            away again (driver/unbind, driver/bind), then restart the daemon.",
        );
    }
    None
}

/// How a virtual function gets its GUIDs.
pub(super) const GUID_STEP: &str = "Set the GUIDs of the virtual function on the host, before the pod gets it: ip link set PF vf N node_guid GUID, and the \
    same with port_guid. ib-kubernetes with ib-sriov-cni, or the SR-IOV operator, does so for every pod; or name one in the pod's network annotation \
    (infiniband-guid). Then bind its driver again, and check with ibstat that no GUID is zero.";
