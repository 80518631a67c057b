//! Whether the bench leaves out no rule: each is what some fault must be named by, or stands here with the reason.

use std::collections::BTreeSet;

use rdma_health_rules::CATALOGUE;

use super::live::Scene;
use super::scenes::SCENES;
use super::{Fault, trees};

/// Rules that no fault of the bench is to be named by, and why.
pub const NOT_INJECTED: &[(&str, &str)] = &[
    (
        "driver-errors-logged",
        "says that a driver logged errors that are not known, which is not a fault that could be named",
    ),
    (
        "gpu-errors-logged",
        "says that the driver of a GPU logged errors, most of which applications cause, which is not a fault of RDMA",
    ),
    (
        "helper-unhealthy",
        "says that the helper is silent, not why: `helper-missing`, `helper-hangs` and `helper-dies` inject it, and the cause \
            of each must be named in its place",
    ),
    (
        "health-reporter-error",
        "netlink reports it, and the program is given a tree of files; the tests of the rules answer for netlink",
    ),
    (
        "vf-port-down",
        "the kubelet reports what it offers, and the program is given a tree of files; the tests of the rules answer for the kubelet",
    ),
    (
        "firmware-pending",
        "netlink reports it, and the program is given a tree of files; the tests of the rules answer for netlink",
    ),
    (
        "bit-errors-high",
        "netlink reports it, and the program is given a tree of files; the tests of the rules answer for netlink",
    ),
    (
        "pause-storm",
        "netlink reports it, and the program is given a tree of files; the tests of the rules answer for netlink",
    ),
    (
        "module-hot",
        "netlink reports it, and the program is given a tree of files; the tests of the rules answer for netlink",
    ),
    (
        "module-light-low",
        "netlink reports it, and the program is given a tree of files; the tests of the rules answer for netlink",
    ),
    (
        "pfc-unreachable",
        "netlink reports it, and the program is given a tree of files; the tests of the rules answer for netlink",
    ),
    (
        "neighbour-table-full",
        "netlink reports it, and the program is given a tree of files; the tests of the rules answer for netlink",
    ),
    (
        "pci-stalled",
        "the network driver reports it, and the program is given a tree of files; the tests of the rules answer for the driver",
    ),
    (
        "efa-remote-impaired",
        "says that remote ends do not respond, not why, and the fault is on another node; the tests of the rules raise the counters",
    ),
    (
        "probe-failed",
        "says that a probe failed, not why: `memlock-own`, `uverbs-closed` and `device-removed-in-probe` inject it, and the \
            cause of each must be named in its place",
    ),
    (
        "probe-bandwidth-low",
        "says that a port got slower, not why: `t-bandwidth`, `t-slot-degraded` and `slower-than-expected` inject it, and the \
            cause of each must be named in its place",
    ),
    (
        "probe-latency-high",
        "says that a port got slower, not why: `t-latency` injects it, and its cause must be named in its place",
    ),
];

/// Every fault of the bench.
pub fn faults() -> impl Iterator<Item = Fault> {
    let of_scene = |scene: &'static Scene| {
        let steps = scene.injections.iter().chain(scene.last);
        scene
            .boot
            .into_iter()
            .copied()
            .chain(steps.map(|injection| injection.fault))
    };
    SCENES.iter().copied().flat_map(of_scene).chain(trees::faults())
}

/// Rules of the catalogue that are neither injected nor left out with a reason, and those left out that are injected or no
/// rules.
pub fn gaps() -> (Vec<&'static str>, Vec<&'static str>) {
    let injected: BTreeSet<&str> = faults().filter_map(|fault| fault.expected).collect();
    let left_out = |id: &str| NOT_INJECTED.iter().any(|(rule, _)| *rule == id);
    let known = |id: &str| CATALOGUE.iter().any(|rule| rule.id == id);
    let forgotten = CATALOGUE.iter().map(|rule| rule.id);
    let superfluous = NOT_INJECTED.iter().map(|(rule, _)| *rule);
    (
        forgotten
            .filter(|id| !injected.contains(id) && !left_out(id))
            .collect(),
        superfluous
            .filter(|id| injected.contains(id) || !known(id))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_injected_or_left_out_for_a_reason() {
        let (forgotten, superfluous) = gaps();
        assert!(
            forgotten.is_empty(),
            "inject a fault for {forgotten:?}, or say in NOT_INJECTED why not"
        );
        assert!(
            superfluous.is_empty(),
            "left out and injected, or no rules: {superfluous:?}"
        );
    }
}
