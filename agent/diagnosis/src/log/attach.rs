//! A network, or a device, that could not be attached to a pod, by the form of the messages.
//!
//! The forms are those of Multus, of the plugins that it calls for an additional network (macvlan, ipvlan, host-device, SR-IOV, rdma) and for
//! its addresses (whereabouts, nv-ipam, host-local), of drivers of dynamic resource allocation, and of ib-kubernetes.

use std::sync::LazyLock;

use super::{
    cluster::{concerns_rdma, is_of_rdma},
    phrases::Phrases,
};
use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that [`find`] reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "error adding container to network",
    "failed (add)",
    "error in invoke delegate add",
    "failed to find plugin",
    "multus: [",
    "at storage engine",
    "ip addresses available in range",
    "claimpreparefailed",
    "nodeprepareresources failed",
    "failed to prepare dynamic resources",
    "failed to move ",
    "rdma device",
    "rdma dev",
    "claim host devices",
    "runpodsandbox error",
    "failed to set up pod interface",
    "failed to rename vf",
    "network for sandbox",
    "set up sandbox",
    "cni failed to",
    "error adding pod",
    "network sandbox",
    "failedpreparedynamicresources",
    "guid pool",
    "guid for pod",
    "pkey",
];

/// Reads one form of message from a line in lower case: what it shows, and where.
type Reader = fn(&str) -> Option<(K, usize)>;

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    let readers: [Reader; 7] = [network, multus, addresses, claim, fabric, function, sandbox];
    readers.iter().find_map(|read| read(lower))
}

/// Plugins of additional networks and of their addresses. A pod's first network has others.
const ADDITIONAL: [&str; 8] = [
    "macvlan",
    "ipvlan",
    "host-device",
    "hostdev",
    "whereabouts",
    "nv-ipam",
    "ipoib",
    "sriov",
];

/// Where plugins move an interface, in lower case.
const INTO_POD: [&str; 3] = ["to container ns", "to container netns", "to pod netns"];

/// Words of the fabric that a pod without InfiniBand does not have.
const OF_FABRIC: [&str; 2] = ["guid", "pkey"];

/// Words of drivers of dynamic resource allocation that give a pod an interface, in lower case.
const OF_INTERFACE: [&str; 4] = [
    "dra.net",
    "dranet",
    "netlink to interface",
    "network interface name for",
];

/// Whether a line in lower case is about an additional network of a pod, which is there for RDMA more often than for anything else.
pub(super) fn is_of_additional(lower: &str) -> bool {
    const OTHER: [&str; 4] = [
        "at storage engine",
        "claim host devices",
        "runpodsandbox error",
        "runpodsandbox pod",
    ];
    static PARTS: LazyLock<Phrases> = LazyLock::new(|| {
        let named = ADDITIONAL.iter().chain(&OF_FABRIC).chain(&OTHER);
        Phrases::new(named.chain(&INTO_POD).chain(&OF_INTERFACE).copied())
    });
    PARTS.occur(lower) || function(lower).is_some() || names_interface(lower)
}

/// Whether a line in lower case names an interface of an additional network as Multus calls them: `net1`.
fn names_interface(lower: &str) -> bool {
    lower
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .filter_map(|word| word.strip_prefix("net"))
        .any(|number| (1..=2).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A plugin for virtual functions, which are of additional networks: `failed to set up pod interface "net4" from the device "enp134s0f1"`.
fn function(lower: &str) -> Option<(K, usize)> {
    // The first plugins for virtual functions name the function by its number.
    if let Some(at) = ["failed to rename vf ", "failed to move vf "]
        .iter()
        .find_map(|words| lower.find(words))
    {
        return Some((K::NetworkAttachFailed, at));
    }
    let at = ["failed to set up pod interface", "failed to set up ipam plugin"]
        .iter()
        .find_map(|words| lower.find(words))?;
    lower[at..]
        .contains("from the device")
        .then_some((K::NetworkAttachFailed, at))
}

/// Forms in which kubelet and runtimes report that a pod got no network, in lower case.
const SANDBOX: [&str; 5] = [
    "failed to setup network for sandbox",
    "failed to set up sandbox container",
    "cni failed to set up pod",
    "error adding pod ",
    "failed to create pod network sandbox",
];

/// Plugins of the first network of a pod, and their bridges.
const FIRST: [&str; 17] = [
    "flannel",
    "calico",
    "cilium",
    "weave",
    "ovn-k8s",
    "ovnkube",
    "kube-ovn",
    "kindnet",
    "antrea",
    "aws-cni",
    "azure-vnet",
    "canal",
    "kube-router",
    "terway",
    "cni0",
    "cbr0",
    "k8s-pod-network",
];

/// A pod got no network, and the line does not say of which plugin.
fn sandbox(lower: &str) -> Option<(K, usize)> {
    let at = SANDBOX.iter().find_map(|form| lower.find(form))?;
    (!names_first(lower)).then_some((K::NetworkAttachFailed, at))
}

/// Whether a line in lower case names a plugin of the first network of a pod.
fn names_first(lower: &str) -> bool {
    FIRST.iter().any(|name| lower.contains(name))
}

/// Whether a line in lower case reports that a pod did not get its first network, which carries no RDMA.
pub(super) fn is_of_first_network(lower: &str) -> bool {
    SANDBOX.iter().any(|form| lower.contains(form)) && names_first(lower)
}

/// Whether a line in lower case reports of a pod without a network, and not of which.
pub(super) fn is_of_sandbox(lower: &str) -> bool {
    sandbox(lower).is_some()
}

/// Whether a line in lower case names an additional network, its plugin, or what calls the plugin.
pub(super) fn names_network(lower: &str) -> bool {
    is_of_additional(lower)
        || ["multus", "sr-iov", "rdma-cni", "k8s.v1.cni.cncf.io"]
            .iter()
            .any(|name| lower.contains(name))
}

/// A plugin that Multus called for an additional network failed: `error adding container to network "rail-0": …`, `plugin type="macvlan"
/// failed (add): …`. Those that set up a virtual function report its configuration.
fn network(lower: &str) -> Option<(K, usize)> {
    const FORMS: [&str; 4] = [
        "error adding container to network",
        "failed (add)",
        // Multus before 3.4.
        "error in invoke delegate add",
        // libcni's words for a program that is not there.
        "failed to find plugin",
    ];
    let at = FORMS.iter().find_map(|form| lower.rfind(form))?;
    // What Multus itself reports of all networks of a pod says nothing of this one.
    if lower[..at].trim_end().ends_with("\"multus-cni-network\"") {
        return None;
    }
    if lower[at..].contains("guid is not valid") {
        return Some((K::FunctionUnconfigured, at));
    }
    (is_of_rdma(lower) || is_of_additional(lower)).then_some((K::NetworkAttachFailed, at))
}

/// Multus itself failed, so the pod gets none of its networks: `Multus: [nccl/worker-0/…]: error waiting for pod: Unauthorized`.
fn multus(lower: &str) -> Option<(K, usize)> {
    let begin = lower.find("multus: [")?;
    // The last part of a chain of messages has the reason.
    let at = ["error ", "failed ", "cannot ", "err in "]
        .iter()
        .filter_map(|word| lower[begin..].rfind(word))
        .max()?;
    concerns_rdma(lower).then_some((K::NetworkAttachFailed, begin + at))
}

/// The plugin for addresses of additional networks has none, or cannot store what it gave: `Error at storage engine: Could not allocate IP in
/// range`, `no IP addresses available in range set`.
fn addresses(lower: &str) -> Option<(K, usize)> {
    if let Some(at) = lower
        .find("at storage engine")
        .filter(|_| lower.contains("error"))
    {
        return Some((K::NetworkAttachFailed, at));
    }
    let at = lower.find("no ip addresses available in range")?;
    is_of_additional(lower).then_some((K::NetworkAttachFailed, at))
}

/// A driver of dynamic resource allocation could not prepare a device, or could not move it into the pod.
fn claim(lower: &str) -> Option<(K, usize)> {
    let prepared = [
        "claimpreparefailed",
        "nodeprepareresources failed",
        "failed to prepare dynamic resources",
        "failedpreparedynamicresources",
    ];
    // That the driver itself is missing is another message.
    if lower.contains("is not registered") {
        return None;
    }
    if let Some(at) = prepared.iter().find_map(|form| lower.find(form)) {
        // Drivers of networks look for an interface; those of GPUs and others do not.
        let is_one = is_of_rdma(lower) || OF_INTERFACE.iter().any(|words| lower.contains(words));
        return is_one.then_some((K::NetworkAttachFailed, at));
    }
    // `RunPodSandbox error moving network device to namespace`, `RunPodSandbox error moving device eth1 to namespace …`.
    if let Some(at) = lower.find("runpodsandbox error moving") {
        return Some((K::NetworkAttachFailed, at));
    }
    // `RunPodSandbox pod nccl/worker-0 using host network can not claim host devices`.
    if let Some(at) = lower.find("can not claim host devices") {
        return Some((K::NetworkAttachFailed, at));
    }
    // `failed to move "ibp12s0" to container ns: device or resource busy`, `failed to move link ens1 to container netns`.
    let is_into_pod = |at: &usize| INTO_POD.iter().any(|place| lower[*at..].contains(place));
    if let Some(at) = lower.find("failed to move ").filter(is_into_pod) {
        return Some((K::NetworkAttachFailed, at));
    }
    let at = lower.find("rdma dev")?;
    let moves = ["failed to move", "error moving", "cannot move", "unable to move"]
        .iter()
        .any(|form| lower[..at].trim_end().ends_with(form));
    moves.then_some((K::NetworkAttachFailed, at))
}

/// ib-kubernetes gives the pods of an InfiniBand network their GUIDs, and gives their partition keys to the subnet manager: `GUID pool is exhausted`,
/// `failed to config pKey with subnet manager ufm`, `failed to add guids [02:00:…] to PKey 0x7FF1`.
fn fabric(lower: &str) -> Option<(K, usize)> {
    const FORMS: [&str; 6] = [
        "guid pool is exhausted",
        "failed to allocate guid for",
        "failed to allocate requested guid",
        "failed to config pkey",
        "failed to add guids",
        "failed to set pod network guid",
    ];
    let at = FORMS.iter().find_map(|form| lower.find(form))?;
    Some((K::NetworkAttachFailed, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additional_networks_are_told_from_the_first_one_of_a_pod() {
        for (line, expected) in [
            (
                "error adding container to network \"rail\": failed to set up ipam plugin type \"nv-ipam\": no free addresses",
                Some(K::NetworkAttachFailed),
            ),
            (
                "error adding container to network \"conf\": delegateadd: error invoking delegateadd - \"macvlan\": link not found",
                Some(K::NetworkAttachFailed),
            ),
            (
                "plugin type=\"ipvlan\" failed (add): failed to lookup master \"ens5f0\": link not found",
                Some(K::NetworkAttachFailed),
            ),
            (
                "error adding container to network \"ib\": infiniband sri-ov cni failed to configure vf \"vf ib4 guid is not valid\"",
                Some(K::FunctionUnconfigured),
            ),
            (
                "error adding container to network \"k8s-pod-network\": connection is unauthorized",
                None,
            ),
            (
                "plugin type=\"flannel\" failed (add): failed to delegate add: \"cni0\" already has an ip address",
                None,
            ),
            (
                "multus: [nccl/worker-0/0b7c]: error waiting for pod: unauthorized",
                Some(K::NetworkAttachFailed),
            ),
            ("multus: [nccl/worker-0/0b7c]: added net1", None),
            (
                "multus: [web/shop-0/0b7c]: error waiting for pod: unauthorized",
                None,
            ),
            (
                "error at storage engine: overlappingrangeipreservation.whereabouts.cni.cncf.io \"10.1.0.2\": invalid",
                Some(K::NetworkAttachFailed),
            ),
            (
                "createpodsandbox for pod failed: failed to set up pod interface \"net4\" from the device \"ens1f1\": device or resource busy",
                Some(K::NetworkAttachFailed),
            ),
            (
                "[ai/train-0/:rail2]: error adding container to network \"rail2\": interface name net1 already exists",
                Some(K::NetworkAttachFailed),
            ),
            (
                "runpodsandbox error moving device eth1 to namespace /run/netns/a: could not get network namespace handle",
                Some(K::NetworkAttachFailed),
            ),
            (
                "networkplugin cni failed to set up pod \"a_default\" network: netplugin failed with no error message",
                Some(K::NetworkAttachFailed),
            ),
            (
                "networkplugin cni failed to set up pod \"a_default\" network: stat /var/lib/calico/nodename: no such file or directory",
                None,
            ),
            (
                "failed to move \"ibp12s0\" to container ns: device or resource busy",
                Some(K::NetworkAttachFailed),
            ),
            ("failed to move the file to the archive", None),
            ("error from storage engine: disk full", None),
            (
                "failed to allocate for range 0: no ip addresses available in range set",
                None,
            ),
            ("nodepreparesources failed", None),
            (
                "nodeprepareresources failed for resourceclaim rails: interface configuration is not supported for rdma-only devices",
                Some(K::NetworkAttachFailed),
            ),
            (
                "nodeprepareresources failed for resourceclaim gpu-0: gpu is lost",
                None,
            ),
            (
                "runpodsandbox error moving rdma device mlx5_3 to namespace",
                Some(K::NetworkAttachFailed),
            ),
            (
                "failed to allocate guid for pod id 0b7c, with error: guid pool is exhausted",
                Some(K::NetworkAttachFailed),
            ),
            ("the port has the pkey 0x7fff", None),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
