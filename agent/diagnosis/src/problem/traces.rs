//! An adapter that dies leaves several traces: a PCIe error, a driver that reports dead firmware, tasks that hang in the driver, and a device
//! that is gone. They are one problem. So are the errors of a link and its port that is down.

use rdma_health_node::Node;
use rdma_health_rules::domain::trend::PORT_FLAPPING;

use super::{LOST, Problem};

/// The causes that can be traces of one adapter that fails.
const TRACES: [&str; 5] = [
    LOST,
    "pci-errors",
    "device-fault",
    "device-stalled",
    "driver-firmware",
];

/// The cause of a port that is down, and that of a link which was bad before.
const DOWN: &str = "port-down";
const BAD_LINK: &str = "link-quality";

/// For how many seconds a port that flaps may be down and still be one that flaps.
const FLAP: u64 = 15 * 60;

/// Joins such problems of one adapter, and of the driver that it hangs in. The first of them stays, with the findings of all; of a port, that it is
/// down, unless it flaps: then it has one problem while it is down and while it is up.
pub(super) fn join<'a>(node: &Node, problems: Vec<Problem<'a>>) -> Vec<Problem<'a>> {
    let mut joined: Vec<Problem<'a>> = Vec::new();
    for mut problem in problems {
        let first = joined.iter_mut().find(|first| is_same(node, first, &problem));
        match first {
            Some(first) => {
                let leads = match problem.cause {
                    DOWN => !flaps(node, first, &problem),
                    BAD_LINK => flaps(node, &problem, first),
                    _ => false,
                };
                if leads {
                    std::mem::swap(first, &mut problem);
                }
                first.take(problem);
            }
            None => joined.push(problem),
        }
    }
    joined
}

/// Whether a link goes down again and again, and did so just now.
fn flaps(node: &Node, link: &Problem<'_>, down: &Problem<'_>) -> bool {
    let is_flapping = link
        .findings
        .iter()
        .any(|finding| finding.rule.id == PORT_FLAPPING.id);
    let is_new = |time: u64| node.facts.time.saturating_sub(time) <= FLAP;
    is_flapping && down.since.is_some_and(|since| is_new(since.time))
}

fn is_same(node: &Node, one: &Problem<'_>, other: &Problem<'_>) -> bool {
    if let (DOWN, BAD_LINK) | (BAD_LINK, DOWN) = (one.cause, other.cause) {
        return one.device.is_some() && (one.device, one.port) == (other.device, other.port);
    }
    if ![one, other].iter().all(|problem| TRACES.contains(&problem.cause)) {
        return false;
    }
    if let (Some(one), Some(other)) = (one.device, other.device) {
        return one == other;
    }
    // What is about most devices of the node is not a trace of one of them.
    let of_one = drivers(node, one);
    of_one.is_some() && of_one == drivers(node, other)
}

/// The family of drivers that a problem is about (`mlx5` of `mlx5_core` and `mlx5_ib`): that of its device, or the modules that its findings
/// name. `None` if there are several, or if it is about several devices.
fn drivers<'a>(node: &'a Node, problem: &'a Problem<'_>) -> Option<&'a str> {
    let mut found = problem.findings.iter().map(|finding| {
        let name = finding.subject.device.as_deref()?;
        match problem.device {
            Some(_) => driver(node, name),
            None => is_module(node, name).then_some(name),
        }
    });
    let family = |driver: &'a str| driver.split('_').next();
    let first = found.next()?.and_then(family)?;
    found
        .all(|other| other.and_then(family) == Some(first))
        .then_some(first)
}

/// The driver of a device, or the one that it had in an earlier reading.
fn driver<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    let now = node
        .functions()
        .into_iter()
        .find(|function| function.subject() == name)
        .and_then(|function| function.driver);
    let boots = || {
        node.history
            .as_ref()
            .into_iter()
            .flat_map(|history| &history.boots)
    };
    let before = || {
        let mut seen = boots().rev().flat_map(|boot| boot.hcas.values());
        seen.find(|seen| seen.name == name)?.driver.as_deref()
    };
    now.or_else(before)
}

/// Whether a finding names a kernel module in the place of a device.
pub(super) fn is_module(node: &Node, name: &str) -> bool {
    node.modules.has(name) == Some(true) && !node.hcas().any(|hca| *hca.name == *name)
}
