//! What Kubernetes, its device and network plugins and their operators report of a pod, by the form of their messages.
//!
//! The forms are those of kubelet and scheduler (events), Kueue and quotas (names of resources), and the start script of driver containers.

use super::{attach, grade::fails, line::is_word, registration};
use crate::symptom::SymptomKind::{self as K};

/// What the lines so far show of a cluster that runs the job.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what was seen so far, each independent of the others"
)]
pub(super) struct Parts {
    /// A pod requests what RDMA needs.
    pub(super) request: bool,
    /// An additional network of a pod, or a plugin for one.
    pub(super) network: bool,
    /// A device plugin for RDMA.
    pub(super) plugin: bool,
    /// A plugin for virtual functions left an interface out, which its selectors had found.
    left_out: bool,
}

impl Parts {
    /// Adds what a line in lower case shows.
    pub(super) fn add(&mut self, lower: &str) {
        self.request = self.request || requests_rdma(lower);
        self.network = self.network || attach::names_network(lower);
        self.plugin = self.plugin || registration::is_of_our_plugin(lower);
        self.left_out = self.left_out || lower.contains("excluding interface");
    }

    /// Where a plugin for virtual functions reports an empty pool after it left out what its selectors had found. Pools that match nothing are often
    /// meant for other nodes.
    pub(super) fn emptied(&self, lower: &str) -> Option<usize> {
        lower.find("no devices in device pool").filter(|_| self.left_out)
    }
}

/// Words of the lines that [`find`] reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "insufficient",
    "enough resource",
    "topology locality",
    "topologyaffinity",
    // The limits of a pod.
    "openshift.io/",
    "mellanox.com/",
    "nvidia.com/",
    "intel.com/",
    "no devices in device pool",
    "excluding interface",
    "not a device node",
    "allocate failed",
    "devices unavailable for",
    "exceeded quota",
    "[failed]",
    "driver-ready",
    "peermem module",
    "sriov_numvfs",
    "sr-iov is not enabled",
    "failed to configure vf",
    "is in use",
    "is used and will fail",
    "failed to unload",
    "openibd",
    "eap-failure",
    "802.1x",
    "authentication failed",
];

/// Reads one form of message from a line in lower case: what it shows, and where.
type Reader = fn(&str) -> Option<(K, usize)>;

/// What a line in lower case shows, and where.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    let readers: [Reader; 6] = [resource, topology, pool, driver, functions, authentication];
    readers.iter().find_map(|read| read(lower))
}

/// Parts of the names of resources and networks that are of RDMA.
const OF_RDMA: [&str; 15] = [
    "rdma",
    "roce",
    "infiniband",
    "mellanox",
    "mlnx",
    "mlx",
    "sriov",
    "sr-iov",
    "hca",
    "hostdev",
    "host-device",
    "ipoib",
    "efa",
    "nv-ipam",
    "nvidia.com/ib",
];

/// Whether a text names something of RDMA. A short part is not the end of a longer word.
pub(super) fn is_of_rdma(text: &str) -> bool {
    OF_RDMA.iter().any(|part| {
        text.match_indices(part).any(|(at, _)| {
            let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before));
            part.len() > 3 || before.is_none_or(|byte| !byte.is_ascii_alphabetic())
        })
    })
}

/// Beginnings of the names of jobs and tools that use RDMA.
const USERS: [&str; 13] = [
    "nccl", "rccl", "mpi", "perftest", "ib_write", "ib_send", "ib_read", "nvshmem", "osu-", "osu_", "rping",
    "qperf", "ucx",
];

/// Whether a runtime did not start a container because it may not raise its limit of locked memory: `error setting rlimit type 8: operation not
/// permitted`.
pub(crate) fn refuses_limit(lower: &str) -> bool {
    lower.contains("rlimit") && lower.contains("not permitted")
}

/// Whether Kubernetes refuses many pods in the same words as in a line: those that have nothing to do with RDMA, too.
pub(super) fn is_of_any_pod(kind: K, text: &str) -> bool {
    matches!(kind, K::AdmissionRefused | K::NetworkAttachFailed)
        || kind == K::ResourceUnavailable && topology(&text.to_ascii_lowercase()).is_some()
}

/// The kubelet found no NUMA node that has all that a pod requests: `TopologyAffinityError … Resources cannot be allocated with Topology
/// locality`.
fn topology(lower: &str) -> Option<(K, usize)> {
    let at = ["topology locality", "topologyaffinityerror"]
        .iter()
        .find_map(|words| lower.find(words))?;
    Some((K::ResourceUnavailable, at))
}

/// Whether a line in lower case about a pod shows that the pod uses RDMA: by a resource, a network, a capability, a device or a job.
pub(super) fn concerns_rdma(lower: &str) -> bool {
    let is_user = |name: &str| {
        lower
            .match_indices(name)
            .any(|(at, _)| at == 0 || !lower.as_bytes()[at - 1].is_ascii_alphabetic())
    };
    let is_rail = || lower.contains("rail") && lower.contains("\"ovs\"");
    is_of_rdma(lower)
        || attach::is_of_additional(lower)
        || requests_rdma(lower)
        || USERS.iter().any(|name| is_user(name))
        || is_rail()
}

/// What a pod that uses RDMA requests in its manifest, in lower case.
pub(super) const REQUESTS: [&str; 6] = [
    "ipc_lock",
    "/dev/infiniband",
    "rdma/",
    "vpc.amazonaws.com/efa",
    "nvidia.com/hostdev",
    "nvidia.com/ib",
];

/// Whether a line in lower case names what a pod that uses RDMA requests.
fn requests_rdma(lower: &str) -> bool {
    let mut named = REQUESTS.iter().filter(|word| lower.contains(**word));
    match named.next() {
        // Others lock memory, too.
        Some(&"ipc_lock") => named.next().is_some() || !LOCKERS.iter().any(|name| lower.contains(name)),
        found => found.is_some() || limits_rdma(lower),
    }
}

/// Whether a line in lower case is a limit or a request of a pod for a resource of RDMA: `openshift.io/mlnx_rdma_rail0:  4`.
fn limits_rdma(lower: &str) -> bool {
    lower.trim().split_once(':').is_some_and(|(name, number)| {
        let number = number.trim().trim_matches('"');
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number && number != "0" && name.contains('/') && !name.contains(' ') && is_of_rdma(name)
    })
}

/// Programs that keep secrets or caches in locked memory, in lower case.
const LOCKERS: [&str; 7] = [
    "vault",
    "openbao",
    "elasticsearch",
    "opensearch",
    "redis",
    "aerospike",
    "scylla",
];

/// A resource that the scheduler, the kubelet, a quota or Kueue does not have: `Insufficient rdma/hca`, `Allocate failed due to
/// requested number of devices unavailable for nvidia.com/hostdev`, `exceeded quota: ml, requested: rdma/hca=8`.
fn resource(lower: &str) -> Option<(K, usize)> {
    const FORMS: [&str; 7] = [
        "devices unavailable for ",
        "insufficient ",
        "allocate failed",
        "exceeded quota",
        "insufficient unused quota",
        // Schedulers of other kinds.
        "have enough resource",
        "not enough resource",
    ];
    // A resource is a domain and a name; OpenShift's operator gives all of its own domain.
    let is_resource = |word: &str| {
        word.split_once('/').is_some_and(|(domain, name)| {
            let is_named = domain.ends_with(|c: char| c.is_ascii_alphanumeric()) && !name.is_empty();
            is_named && (is_of_rdma(word) || domain.ends_with("openshift.io"))
        })
    };
    FORMS.iter().find_map(|form| {
        let at = lower.find(form)?;
        let separators = [' ', ',', ';', '"', '=', '(', ')'];
        let names = lower[at..].split(separators).any(is_resource);
        names.then_some((K::ResourceUnavailable, at))
    })
}

/// Whether the scheduler or the kubelet does not have what a pod requests, in a line in lower case that names nothing of RDMA: GPUs, nodes.
pub(super) fn lacks_other(lower: &str) -> bool {
    ["nodes are available", "devices unavailable for "]
        .iter()
        .any(|form| lower.contains(form))
        && !is_of_rdma(lower)
}

/// A pool for which the plugin for virtual functions found no device: `no devices in device pool, skipping creating resource server for mlnx_rdma`.
/// It has pools for plain Ethernet, too.
fn pool(lower: &str) -> Option<(K, usize)> {
    const OF_VERBS: [&str; 7] = ["rdma", "roce", "infiniband", "mlnx", "mellanox", "mlx", "hca_"];
    let at = lower.find("no devices in device pool")?;
    let is_of_verbs = OF_VERBS.iter().any(|name| lower[at..].contains(name));
    is_of_verbs.then_some((K::ResourceUnavailable, at))
}

/// Whether a line in lower case refuses a pod a resource of RDMA.
pub(super) fn refuses(lower: &str) -> bool {
    resource(lower).is_some()
}

/// Modules that a restart of the driver could not unload: `rmmod: ERROR: Module ib_core is in use by: rdma_cm`, `Module nvidia_peermem is used
/// and will FAIL driver reload`, `Unloading rdma_cm [FAILED]`, `Error: Failed to restart openibd`.
pub(super) fn unload(lower: &str) -> Option<(K, usize)> {
    const MODULES: [&str; 10] = [
        "rdma",
        "mlx",
        "ib_",
        "iw_",
        "iser",
        "srp",
        "bnxt_re",
        "efa",
        "ipoib",
        "hca driver",
    ];
    let names = |text: &str| MODULES.iter().any(|module| text.contains(module));
    let in_use = [" is in use", " is used and will fail"];
    if let Some(at) = in_use.iter().find_map(|words| lower.find(words)) {
        let module = lower[..at].rsplit("module ").next().unwrap_or_default();
        // Modules of a GPU's driver are in the way of a restart only with what moves its memory to an adapter.
        let users = &lower[at..];
        let is_held = ["gdrdrv", "peermem", "peer_mem"]
            .iter()
            .any(|user| users.contains(user) || module.contains(user));
        let is_one = lower[..at].contains("module ") && (names(module) || is_held);
        return is_one.then_some((K::ModuleInUse, lower[..at].rfind("module ").unwrap_or_default()));
    }
    if let Some(at) = lower.find("unloading ").filter(|_| lower.contains("[failed]")) {
        return names(&lower[at..]).then_some((K::ModuleInUse, at));
    }
    lower
        .find("failed to unload driver modules")
        .map(|at| (K::ModuleInUse, at))
}

/// A switch admits an RDMA port only after 802.1X: `rdma4: CTRL-EVENT-EAP-FAILURE EAP authentication failed`, `authentication failed for
/// interface rdma4`.
fn authentication(lower: &str) -> Option<(K, usize)> {
    const FORMS: [&str; 4] = [
        "eap-failure",
        "eap authentication failed",
        "802.1x authentication failed",
        "authentication failed for interface",
    ];
    let at = FORMS.iter().find_map(|form| lower.find(form))?;
    let is_rdma = ["rdma", "roce", "mlx", "oci-cn-auth", "ib"].iter().any(|word| {
        lower
            .match_indices(word)
            .any(|(at, _)| at == 0 || !is_word(lower.as_bytes()[at - 1]))
    });
    is_rdma.then_some((K::PortUnauthorised, at))
}

/// The start of a driver container or of the service that loads RDMA's modules: `Loading HCA driver and Access Layer: [FAILED]`.
fn driver(lower: &str) -> Option<(K, usize)> {
    if let Some(at) = lower.find("[failed]") {
        const MODULES: [&str; 9] = [
            "hca driver",
            "access layer",
            "mlx",
            "rdma",
            "infiniband",
            "ipoib",
            "ib_",
            "verbs",
            "bnxt_re",
        ];
        let before = lower[..at].trim_start();
        let names = MODULES.iter().any(|module| before.contains(module));
        return (names && before.contains("loading") && !before.contains("unloading"))
            .then_some((K::ModuleMissing, 0));
    }
    if let Some(at) = lower
        .find("driver-ready")
        .filter(|_| lower.contains("no such file"))
    {
        return Some((K::DriverNotReady, at));
    }
    let at = lower.find("failed to load ")?;
    let module = lower[at..].split_whitespace().nth(3).unwrap_or_default();
    ["nvidia-peermem", "nvidia_peermem", "nv_peer_mem"]
        .contains(&module)
        .then_some((K::PeerMemoryError, at))
}

/// Virtual functions that could not be made: the firmware does not permit them, or not as many.
fn functions(lower: &str) -> Option<(K, usize)> {
    const FORMS: [&str; 2] = ["sr-iov is not enabled", "failed to configure vf"];
    // Also of an adapter that needs none.
    const STATES: [&str; 4] = ["is disabled", "is not enabled", "not enabled", "disabled"];
    if let Some(at) = FORMS.iter().find_map(|form| lower.find(form)) {
        return Some((K::FunctionUnconfigured, at));
    }
    let state = ["sriov ", "sr-iov "].iter().find_map(|name| {
        let at = lower.find(name)?;
        let rest = &lower[at + name.len()..];
        STATES.iter().any(|state| rest.starts_with(state)).then_some(at)
    });
    if let Some(at) = state.filter(|_| fails(lower)) {
        return Some((K::FunctionUnconfigured, at));
    }
    let at = lower.find("sriov_numvfs")?;
    let follows = lower[at + "sriov_numvfs".len()..]
        .bytes()
        .next()
        .is_none_or(|byte| !is_word(byte));
    let is_refused = [
        "error",
        "out of range",
        "failed",
        "device or resource busy",
        "invalid argument",
        "no such file",
        "permission denied",
        "no space left",
        "cannot",
    ]
    .iter()
    .any(|word| lower.contains(word));
    (follows && is_refused).then_some((K::FunctionUnconfigured, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_the_cluster_are_read_and_those_of_other_networks_are_not() {
        for (line, expected) in [
            (
                "0/64 nodes are available: 64 insufficient vpc.amazonaws.com/efa.",
                Some(K::ResourceUnavailable),
            ),
            (
                "0/4 nodes are available: 4 insufficient openshift.io/eno5np0",
                Some(K::ResourceUnavailable),
            ),
            (
                "couldn't assign flavors: insufficient quota for rdma/hca in flavor h100",
                Some(K::ResourceUnavailable),
            ),
            (
                "exceeded quota: ml, requested: rdma/hca=8, used: rdma/hca=4",
                Some(K::ResourceUnavailable),
            ),
            (
                "allocate failed due to requested number of devices unavailable for nvidia.com/hostdev.",
                Some(K::ResourceUnavailable),
            ),
            (
                "0/4 nodes are available: 4 insufficient nvidia.com/gpu, 2 insufficient memory.",
                None,
            ),
            ("exceeded quota: ml, requested: cpu=8", None),
            (
                "pod was rejected: resources cannot be allocated with topology locality",
                Some(K::ResourceUnavailable),
            ),
            (
                "loading hca driver and access layer:                       [failed]",
                Some(K::ModuleMissing),
            ),
            (
                "unloading hca driver:                       [failed]",
                Some(K::ModuleInUse),
            ),
            (
                "error response from daemon: networkdriver.createnetwork: sriov is disabled [ ibo1 ].",
                Some(K::FunctionUnconfigured),
            ),
            ("info: sr-iov is disabled on 0000:03:00.0", None),
            ("unloading kernel module fuse [failed]", None),
            (
                "rmmod: error: module ib_core is in use by: rdma_cm ib_cm",
                Some(K::ModuleInUse),
            ),
            ("rmmod: error: module nvidia is in use by: nvidia_uvm", None),
            (
                "module nvidia_peermem is used and will fail driver reload, aborting execution.",
                Some(K::ModuleInUse),
            ),
            (
                "rdma4: ctrl-event-eap-failure eap authentication failed",
                Some(K::PortUnauthorised),
            ),
            ("wlan0: ctrl-event-eap-failure eap authentication failed", None),
            ("loading kernel module fuse [failed]", None),
            ("failed to load nvidia-peermem module", Some(K::PeerMemoryError)),
            (
                "write /sys/bus/pci/devices/0000:5e:00.0/sriov_numvfs: numerical result out of range",
                Some(K::FunctionUnconfigured),
            ),
            ("sriov_numvfs is 8", None),
        ] {
            let found = unload(line).or_else(|| find(line));
            assert_eq!(found.map(|(kind, _)| kind), expected, "{line}");
        }
    }
}
