//! The parts of a cluster that give pods their RDMA devices and networks: the containers that install the driver, device plugins, the daemons
//! that make virtual functions, and the plugins of additional networks. Where the pod of one does not run, its node offers nothing of it.

use super::cluster::is_of_rdma;
use crate::symptom::SymptomKind::{self as K};

/// Words of the lines that [`find`] reads, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "back-off",
    "backoff",
    "imagepull",
    "pull image",
    "init:error",
    "containererror",
    "containerconfigerror",
    "runasnonroot",
];

/// Parts of the names of pods and images, in lower case, and what is missing where such a pod does not run.
const COMPONENTS: [(&str, K); 22] = [
    ("mofed-", K::DriverNotReady),
    ("mellanox/mofed", K::DriverNotReady),
    ("doca-driver", K::DriverNotReady),
    ("ofed-driver", K::DriverNotReady),
    ("rdma-shared-d", K::ResourceUnavailable),
    ("rdma-sriov-d", K::ResourceUnavailable),
    ("sriovdp", K::ResourceUnavailable),
    ("sriov-dp", K::ResourceUnavailable),
    ("dra-driver-sriov", K::ResourceUnavailable),
    ("dranet", K::ResourceUnavailable),
    ("sriov-network-config-daemon", K::FunctionUnconfigured),
    ("sriov-network-operator", K::FunctionUnconfigured),
    ("rdma-cni", K::NetworkAttachFailed),
    ("sriov-cni", K::NetworkAttachFailed),
    ("ipoib-cni", K::NetworkAttachFailed),
    ("ovs-cni", K::NetworkAttachFailed),
    ("ib-kubernetes", K::NetworkAttachFailed),
    ("nv-ipam", K::NetworkAttachFailed),
    ("nvidia-k8s-ipam", K::NetworkAttachFailed),
    ("whereabouts", K::NetworkAttachFailed),
    ("kube-multus", K::NetworkAttachFailed),
    ("multus-cni", K::NetworkAttachFailed),
];

/// States of a pod that does not run, in lower case, as lists of pods and events have them.
const STATES: [&str; 11] = [
    "crashloopbackoff",
    "imagepullbackoff",
    "errimagepull",
    "failed to pull image",
    "back-off pulling image",
    "back-off restarting",
    "init:error",
    "createcontainererror",
    "createcontainerconfigerror",
    "runcontainererror",
    "runasnonroot",
];

/// What is missing where the pod of a component that a line in lower case names does not run: `rdma-shared-dp-ds-5gpr9 0/1 CrashLoopBackOff`,
/// `Failed to pull image "nvcr.io/nvidia/mellanox/doca-driver:25.04-…": not found`.
pub(super) fn find(lower: &str) -> Option<(K, usize)> {
    let at = STATES.iter().find_map(|state| lower.find(state))?;
    Some((component(lower)?, at))
}

/// What is there again after a row of a list of pods in lower case in which all containers of a component run: `mofed-ubuntu22.04-ds-x8k2r 1/1
/// Running`.
pub(super) fn runs(lower: &str) -> Option<K> {
    let words: Vec<&str> = lower.split_whitespace().take(4).collect();
    let is_row = words.windows(2).any(|pair| {
        let [counts, state] = pair else { return false };
        let all = counts.split_once('/').is_some_and(|(ready, all)| {
            ready == all && !ready.is_empty() && ready.bytes().all(|byte| byte.is_ascii_digit())
        });
        all && *state == "running"
    });
    is_row.then(|| component(lower)).flatten()
}

/// What the component that a line in lower case names is for.
pub(super) fn component(lower: &str) -> Option<K> {
    let named = COMPONENTS.iter().find(|(name, _)| lower.contains(name));
    if let Some((_, kind)) = named {
        return Some(*kind);
    }
    // Plugins for devices of any kind have names of this form.
    let is_plugin = ["device-plugin", "device plugin"]
        .iter()
        .any(|name| lower.contains(name));
    let of_gpu = lower.contains("nvidia-device-plugin");
    (is_plugin && !of_gpu && is_of_rdma(lower)).then_some(K::ResourceUnavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pods_that_provide_rdma_are_told_from_those_that_use_it() {
        for (line, expected) in [
            (
                "nvidia-network-operator   mofed-ubuntu22.04-7c5b-ds-x8k2r   0/1   crashloopbackoff   12 (3m ago)",
                Some(K::DriverNotReady),
            ),
            (
                "rdma-shared-dp-ds-5gpr9   0/1   crashloopbackoff   7   12m",
                Some(K::ResourceUnavailable),
            ),
            (
                "back-off restarting failed container aws-efa-k8s-device-plugin in pod aws-efa-k8s-device-plugin-x2",
                Some(K::ResourceUnavailable),
            ),
            (
                "failed to pull image \"nvcr.io/nvidia/mellanox/doca-driver:25.04-0.6.1.0-2-5.15.0-161-generic\": not found",
                Some(K::DriverNotReady),
            ),
            (
                "back-off pulling image \"ghcr.io/k8snetworkplumbingwg/rdma-cni:v1.3.0\"",
                Some(K::NetworkAttachFailed),
            ),
            (
                "sriov-network-config-daemon-x2   2/3   crashloopbackoff   7   12m",
                Some(K::FunctionUnconfigured),
            ),
            (
                "failed to pull image \"registry.local/rdma-bench:1.2\": not found",
                None,
            ),
            (
                "back-off restarting failed container rdma-perf in pod rdma-perf-0",
                None,
            ),
            (
                "back-off restarting failed container nvidia-device-plugin in pod nvidia-device-plugin-4x2lq",
                None,
            ),
            ("mofed-ubuntu22.04-ds-x8zvb   0/1   running   0   12m", None),
        ] {
            assert_eq!(find(line).map(|(kind, _)| kind), expected, "{line}");
        }
        assert_eq!(
            runs("mofed-ubuntu22.04-ds-x8zvb   1/1   running   0   12m"),
            Some(K::DriverNotReady)
        );
        assert_eq!(
            runs("nvidia-network-operator  rdma-shared-dp-ds-5gpr9  1/1  running  0  3h6m"),
            Some(K::ResourceUnavailable)
        );
        assert_eq!(runs("mofed-ubuntu22.04-ds-x8zvb   0/1   running   0   12m"), None);
        assert_eq!(runs("trainer-0   1/1   running   0   12m"), None);
    }
}
