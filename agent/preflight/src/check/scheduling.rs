//! What the scheduler's words mean, for a pod that waits for something other than a resource.

/// A part of its message, what keeps the pod from the nodes, and what to do.
const REASONS: &[(&str, &str, &str)] = &[
    (
        "untolerated taint",
        "nodes have a taint that it does not tolerate",
        "add the toleration for the taint that the message names",
    ),
    (
        "that the pod didn't tolerate",
        "nodes have a taint that it does not tolerate",
        "add the toleration for the taint that the message names",
    ),
    (
        "node affinity/selector",
        "its nodeSelector or nodeAffinity excludes nodes",
        "compare nodeSelector and nodeAffinity with kubectl get nodes --show-labels",
    ),
    (
        "match node selector",
        "its nodeSelector excludes nodes",
        "compare nodeSelector with kubectl get nodes --show-labels",
    ),
    (
        "were unschedulable",
        "nodes are cordoned",
        "kubectl uncordon the node, if it may be used again",
    ),
    (
        "anti-affinity",
        "its anti-affinity excludes nodes that have a pod already",
        "use fewer pods, or let several run on one node",
    ),
    (
        "unbound immediate PersistentVolumeClaims",
        "a volume of it is not bound",
        "kubectl get pvc: a storage class must provide the volume",
    ),
    (
        "volume node affinity conflict",
        "its volume is on other nodes",
        "use a volume that the nodes with the devices reach",
    ),
    (
        "cannot allocate all claims",
        "no node has free devices for its resource claims",
        "compare the claim's device class and selectors with kubectl get resourceslices, or wait until a pod that holds the devices ends",
    ),
    (
        "resourceclaim",
        "a resource claim of it does not exist or is not allocated",
        "kubectl get resourceclaims: create the claim or the template that the pod names",
    ),
    (
        "no nodes available",
        "the cluster has no node that takes pods",
        "add a node, or uncordon one",
    ),
    (
        "Too many pods",
        "nodes have as many pods as the kubelet allows",
        "stop other pods, or raise maxPods of the kubelet",
    ),
];

/// Each reason in a message with its remedy, in order of the table.
pub(super) fn explained(message: &str) -> Vec<(&'static str, &'static str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for (part, what, remedy) in REASONS {
        if message.contains(part) && !found.contains(&(what, remedy)) {
            found.push((what, remedy));
        }
    }
    found
}
