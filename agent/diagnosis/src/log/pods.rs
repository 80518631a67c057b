//! What keeps a container from its devices before its program starts: webhooks that refuse the pod, plugins that cannot describe
//! a device, runtimes with virtual machines (Kata), Incus and LXD.

use super::cluster::is_of_rdma;
use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that [`find`] reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "denied request",
    "denied the request",
    "was blocked due to",
    "device-plugin",
    "device plugin",
    "driver failed to start",
    "error moving device",
    "' not found",
    "host pci address",
    "no pci mapping",
    "vfio",
    "failed to start device",
    "lastsyncerror",
    "denied by ",
    "warden rejected",
    "cdi spec",
    "cdi json",
    "unresolvable cdi",
    "hostpath type check failed",
    "failed to run ",
    "ibvdevlist",
    "device path /dev/infiniband/",
    "/driver: no such file",
    "/driver: file does not exist",
];

/// Reads one form of message from a line in lower case: what it shows, and where.
type Reader = fn(&str) -> Option<(K, usize)>;

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    let readers: [Reader; 9] = [
        policy_of_functions,
        refused,
        described,
        driver,
        assigned,
        incus,
        configured,
        undriven,
        listed,
    ];
    readers.iter().find_map(|read| read(lower))
}

/// Where one of some words stands.
fn place(lower: &str, words: &[&str]) -> Option<usize> {
    words.iter().find_map(|words| lower.find(words))
}

/// The webhook of the SR-IOV operator refuses a policy for virtual functions: `admission webhook "operator-webhook.sriovnetwork.openshift.io"
/// denied the request: no supported NIC is selected by the nicSelector in CR policy-1`.
fn policy_of_functions(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("denied the request")?;
    let is_one = lower[..at].contains("webhook") && lower[..at].contains("sriov");
    is_one.then_some((K::FunctionUnconfigured, at))
}

/// A webhook refuses a pod: `admission webhook "validation.gatekeeper.sh" denied the request: [psp-capabilities] container <worker> has a
/// disallowed capability`. Kyverno and the warden of GKE give the reason in the lines that follow: `{"[denied by
/// autogke-disallow-hostnamespaces]": …}`.
fn refused(lower: &str) -> Option<(K, usize)> {
    const REASONS: [&str; 13] = [
        "hostpath",
        "host-path",
        "host path",
        "host filesystem",
        "privileged",
        "capabilit",
        "ipc_lock",
        "hostnetwork",
        "host network",
        "host namespace",
        "hostnamespace",
        "hostipc",
        "/dev/infiniband",
    ];
    let at = place(
        lower,
        &[
            "denied the request",
            "denied request",
            "was blocked due to",
            "[denied by ",
        ],
    )?;
    let rest = &lower[at..];
    let is_policy =
        !rest.starts_with("was blocked") || rest.contains("following polic") || rest.contains("policies");
    let follows = rest.starts_with("was blocked")
        || rest.trim_end().ends_with("request:")
        || rest.contains("warden rejected");
    let is_reason = REASONS.iter().any(|reason| lower.contains(reason));
    (is_policy && (follows || is_reason)).then_some((K::AdmissionRefused, at))
}

/// A device plugin could not describe a device for the runtime: `CreateCDISpecForPool(): can not create CDI json: invalid CDI Spec: failed add
/// device "0000:af:02.0": invalid device, empty device edits`. Its devices have PCI addresses; those of a GPU have other names.
fn described(lower: &str) -> Option<(K, usize)> {
    const FORMS: [&str; 4] = [
        "can not create cdi json",
        "cannot create cdi json",
        "error creating cdi spec",
        "update cdi specs",
    ];
    const UNKNOWN: &str = "unresolvable cdi devices ";
    if let Some(at) = lower.find(UNKNOWN) {
        return is_of_rdma(&lower[at + UNKNOWN.len()..]).then_some((K::ResourceUnavailable, at));
    }
    let at = place(lower, &FORMS)?;
    let fails = ["can not", "cannot", "can't", "error"]
        .iter()
        .any(|word| lower.contains(word));
    // A file that could not be written is another reason.
    let is_of_device = lower[at..].contains("device");
    (fails && is_of_device && !lower.contains("gpu")).then_some((K::ResourceUnavailable, at))
}

/// A driver of dynamic resource allocation ends when it starts, or does not find the device of a claim: `app.go:153] driver failed to start: start
/// kubelet plugin: …`.
fn driver(lower: &str) -> Option<(K, usize)> {
    if let Some(at) = lower.find("driver failed to start") {
        let is_network = ["dranet", "dra.net", "app.go:"]
            .iter()
            .any(|name| lower.contains(name));
        return (is_network || is_of_rdma(lower)).then_some((K::ResourceUnavailable, at));
    }
    let at = lower.find("error moving device")?;
    lower[at..]
        .contains("link not found")
        .then_some((K::NetworkAttachFailed, at))
}

/// A function that a virtual machine of Kata cannot have: `-device vfio-pci,host=00:71.6,bus="rp0": Bus 'rp0' not found`.
fn assigned(lower: &str) -> Option<(K, usize)> {
    const FORMS: [&str; 8] = [
        "unable to translate host pci address",
        "no pci mapping found for container",
        "failed to hotplug vfio",
        "failed to hot plug vfio",
        "hotplug vfio device failed",
        "vfio_map_dma failed",
        "vfio_map_dma: ",
        "failed to add vfio device",
    ];
    let of_bus = || {
        let at = lower.find(": bus '")?;
        let is_one = lower[at..].contains("' not found") && lower.contains("vfio");
        is_one.then_some(at)
    };
    let at = place(lower, &FORMS).or_else(of_bus)?;
    Some((K::AssignRefused, at))
}

/// Incus and LXD: `Failed to start device "ibo0": Can't create device as devices path is mounted nodev`.
fn incus(lower: &str) -> Option<(K, usize)> {
    let at = lower.find("failed to start device \"")?;
    let named = &lower[at + "failed to start device \"".len()..];
    let beginnings = ["ib", "mlx", "hca", "roce", "rdma"];
    let is_one = beginnings.iter().any(|name| named.starts_with(name)) || lower.contains("infiniband");
    let of_function = ["virtual function", "vfs"]
        .iter()
        .any(|word| named.contains(word));
    let kind = if of_function {
        K::FunctionUnconfigured
    } else {
        K::NoDevice
    };
    is_one.then_some((kind, at))
}

/// What daemons report that configure adapters: `lastSyncError: timed out waiting for the condition` of the SR-IOV operator, `failed to run
/// flint (error: exit status 1)`.
fn configured(lower: &str) -> Option<(K, usize)> {
    const LABEL: &str = "lastsyncerror:";
    const TOOLS: [&str; 5] = ["flint", "mlx", "mst", "mft", "bnxtnvm"];
    if let Some(at) = lower.find(LABEL) {
        let said = lower[at + LABEL.len()..].trim_matches([' ', '"', '\'', '\r']);
        let is_empty = said.is_empty() || said.starts_with("syncstatus");
        // With Secure Boot, the tool for the firmware cannot reach the adapter.
        let kind = if said.contains("lockdown") {
            K::ToolNoAccess
        } else {
            K::FunctionUnconfigured
        };
        return (!is_empty).then_some((kind, at));
    }
    let at = lower.find("failed to run ")?;
    let tool = lower[at + "failed to run ".len()..].trim_start_matches(['"', '\'', '`']);
    let is_tool = TOOLS.iter().any(|name| tool.starts_with(name));
    is_tool.then_some((K::ToolNoAccess, at))
}

/// A function that has no driver, as who looks for its driver reports: `error getting driver info for device 0000:1a:00.0 readlink
/// /sys/bus/pci/devices/0000:1a:00.0/driver: no such file or directory`.
fn undriven(lower: &str) -> Option<(K, usize)> {
    let at = place(lower, &["/driver: no such file", "/driver: file does not exist"])?;
    let path = lower[..at].rsplit([' ', '"', '\'']).next()?;
    let is_function = ["/sys/bus/pci/devices/", "/sys/devices/pci", "/sys/class/net/"]
        .iter()
        .any(|beginning| path.contains(beginning));
    is_function.then(|| (K::FunctionUnconfigured, at - path.len()))
}

/// What is listed or looked for is not what a node has: only software devices, or paths that no Linux has.
fn listed(lower: &str) -> Option<(K, usize)> {
    const PATH: &str = "device path /dev/infiniband/";
    if let Some(at) = lower.find("ibvdevlist:") {
        let list = lower[at + "ibvdevlist:".len()..].trim_start();
        let is_hardware = list
            .split('{')
            .skip(1)
            .any(|device| !device.starts_with("rxe") && !device.starts_with("siw"));
        return (list.starts_with('[') && !is_hardware).then_some((K::NoDevice, at));
    }
    // The files have the names of their functions: uverbs0, umad0, issm0, rdma_cm.
    let at = lower.find(PATH)?;
    let name = &lower[at + PATH.len()..];
    let is_file = ["uverbs", "umad", "issm", "rdma_cm", "ucm", "by-"]
        .iter()
        .any(|file| name.starts_with(file));
    (!is_file && name.contains("not exist")).then_some((K::BackendFailed, at))
}

/// Whether a message that was written for information reports a failure nevertheless.
pub(super) fn is_of_information(of_message: &str) -> bool {
    of_message.starts_with("lastsyncerror:") || of_message.starts_with("ibvdevlist:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_container_from_its_devices_is_told_from_other_pods() {
        for (line, expected) in [
            (
                "admission webhook \"validation.gatekeeper.sh\" denied the request: [psp-privileged-container] privileged container is not allowed: worker",
                Some(K::AdmissionRefused),
            ),
            (
                "admission webhook \"validate.kyverno.svc-fail\" denied the request: ",
                Some(K::AdmissionRefused),
            ),
            (
                "admission webhook \"validate.nginx.ingress.kubernetes.io\" denied the request: host is already defined",
                None,
            ),
            (
                "admission webhook \"operator-webhook.sriovnetwork.openshift.io\" denied the request: no supported nic is selected",
                Some(K::FunctionUnconfigured),
            ),
            (
                "admission webhook \"warden.gke.io\" denied the request: gke warden rejected the request because it violates",
                Some(K::AdmissionRefused),
            ),
            (
                "violations: {\"[denied by autogke-disallow-hostnamespaces]\":[\"enabling hostnetwork is not allowed\"]}",
                Some(K::AdmissionRefused),
            ),
            ("connection denied by peer", None),
            (
                "can't update cdi specs: invalid cdi spec: failed add device \"0000:af:02.0\": invalid device, empty device edits",
                Some(K::ResourceUnavailable),
            ),
            ("gpu: error creating cdi spec: no device", None),
            (
                "cdi device injection failed: unresolvable cdi devices nvidia.com/hostdev=0000:14:00.0",
                Some(K::ResourceUnavailable),
            ),
            (
                "cdi device injection failed: unresolvable cdi devices nvidia.com/gpu=all",
                None,
            ),
            (
                "lastsyncerror: 'mellanox device detected when in lockdown mode'",
                Some(K::ToolNoAccess),
            ),
            (
                "app.go:153] driver failed to start: context deadline exceeded",
                Some(K::ResourceUnavailable),
            ),
            ("graphics driver failed to start", None),
            (
                "qemu-system-x86_64: -device vfio-pci,host=00:71.6,bus=\"rp1\": bus 'rp1' not found",
                Some(K::AssignRefused),
            ),
            (
                "error: failed to start device \"ib0\": parent device \"ibp3s0\" doesn't exist",
                Some(K::NoDevice),
            ),
            (
                "error: failed to start device \"eth0\": parent device \"br0\" doesn't exist",
                None,
            ),
            (
                "syncstatus: failed, lastsyncerror: error when waiting for pod \"x\" terminating",
                Some(K::FunctionUnconfigured),
            ),
            ("syncstatus: succeeded, lastsyncerror: ", None),
            ("failed to run mlxconfig: exit status 3", Some(K::ToolNoAccess)),
            ("failed to run pod: exit status 3", None),
            ("ibvdevlist:  [{mlx5_0 uverbs0}] <nil>", None),
            ("ibvdevlist:  [] <nil>", Some(K::NoDevice)),
            (
                "error getting driver info for device 0000:1a:00.0 readlink /sys/bus/pci/devices/0000:1a:00.0/driver: no such file or directory",
                Some(K::FunctionUnconfigured),
            ),
            ("open /opt/app/driver: no such file or directory", None),
            ("device path /dev/infiniband/uverbs0 does not exist", None),
            (
                "device path /dev/infiniband/mlx5_bond_0 does not exist",
                Some(K::BackendFailed),
            ),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
