//! What lines wait for, and whether it came: a node or the networks for a pod, the driver of the adapters for a container.

use std::collections::BTreeSet;

use super::{cluster, components};
use crate::symptom::SymptomKind;

/// Words of the lines that matter here, in lower case.
pub(super) const ANCHORS: &[&str] = &[
    "insufficient",
    "successfully assigned",
    "started container",
    "container started",
    "create pod sandbox",
    "waiting for",
    "successfully loaded",
    "is ready",
    "running",
];
/// The most pods that are followed.
const MAX_PODS: usize = 64;

/// Pods of which an event reports a failure, until another one shows that it is over.
#[derive(Debug, Default)]
struct Pods {
    /// Those that wait; an empty name where the line has none.
    waiting: BTreeSet<String>,
    /// Whether one that waited waits no longer.
    came: bool,
    /// Whether more pods wait than are followed.
    more: bool,
}

impl Pods {
    fn wait(&mut self, name: &str) {
        if self.waiting.len() < MAX_PODS {
            self.waiting.insert(name.to_owned());
        } else {
            self.more = true;
        }
    }

    fn end(&mut self, name: &str) {
        let came = self.waiting.remove(name) | self.waiting.remove("");
        self.came |= came;
    }

    /// Whether pods waited, and none waits any longer.
    fn are_done(&self) -> bool {
        self.came && self.waiting.is_empty() && !self.more
    }
}

/// What is awaited.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The pods that the scheduler refused and that have no node since.
    scheduled: Pods,
    /// The pods whose networks could not be attached and that did not start since.
    attached: Pods,
    /// The lines that report a failed attachment.
    failed: BTreeSet<u64>,
    /// The last line that waits for the driver.
    driver: Option<u64>,
    /// The last line that shows that the driver is there.
    ready: Option<u64>,
    /// The last lines in which all containers of a component run, by what is missing without it.
    runs: Vec<(SymptomKind, u64)>,
}

impl Waiting {
    /// Adds what a line in lower case shows.
    pub(super) fn add(&mut self, lower: &str, line: u64) {
        if lower.contains("insufficient ") && cluster::refuses(lower) {
            self.scheduled.wait(pod(lower));
        } else if lower.contains("failedcreatepodsandbox") && self.failed.len() < MAX_PODS {
            self.attached.wait(pod(lower));
            self.failed.insert(line);
        } else if let Some((_, rest)) = lower.split_once("successfully assigned ") {
            let name = rest.split_whitespace().next().unwrap_or_default();
            self.scheduled.end(name.rsplit('/').next().unwrap_or_default());
        } else if ["started container", "container started"]
            .iter()
            .any(|words| lower.contains(words))
        {
            self.scheduled.end(pod(lower));
            self.attached.end(pod(lower));
        }
        if let Some(kind) = components::runs(lower) {
            self.runs.retain(|(known, _)| *known != kind);
            self.runs.push((kind, line));
        }
        if for_driver(lower).is_some() {
            self.driver = Some(line);
        } else if shows_driver(lower) {
            self.ready = Some(line);
        }
    }

    /// Whether every pod that the scheduler refused got a node later.
    pub(super) fn is_scheduled(&self) -> bool {
        self.scheduled.are_done()
    }

    /// Whether this line reports that the networks of a pod could not be attached, and the pods of all such lines started later.
    pub(super) fn is_attached(&self, line: Option<u64>) -> bool {
        line.is_some_and(|line| self.failed.contains(&line)) && self.attached.are_done()
    }

    /// Whether a pod of the component without which this is missing runs after this line.
    pub(super) fn runs_after(&self, kind: SymptomKind, line: Option<u64>) -> bool {
        self.runs
            .iter()
            .any(|(known, at)| *known == kind && line.is_some_and(|line| *at > line))
    }

    /// Whether the driver came that lines wait for.
    pub(super) fn has_driver(&self) -> bool {
        self.ready > self.driver
    }
}

/// The name of the pod in an event in lower case; empty if it has none.
fn pod(lower: &str) -> &str {
    let name = lower.split_once("pod/").map(|(_, rest)| rest);
    name.and_then(|rest| rest.split_whitespace().next())
        .unwrap_or_default()
}

/// Where a line in lower case waits for the driver of the adapters: `waiting for mofed driver to be ready`, `Waiting for mellanox ofed and
/// nvidia drivers to be installed`.
pub(super) fn for_driver(lower: &str) -> Option<usize> {
    const DRIVERS: [&str; 9] = [
        "ofed",
        "doca driver",
        "doca-driver",
        "mellanox driver",
        "mlnx driver",
        "rdma driver",
        "peermem",
        "peer_mem",
        "mlx5_core",
    ];
    const STATES: [&str; 4] = ["installed", "loaded", "ready", "to start"];
    let at = lower.find("waiting for ")?;
    let rest = &lower[at..];
    let has = |words: &[&str]| words.iter().any(|word| rest.contains(word));
    (has(&DRIVERS) && has(&STATES)).then_some(at)
}

/// Whether a line in lower case shows that the driver is there: `successfully loaded nvidia-peermem module`, or a list of pods in which all
/// containers of one of the driver run.
fn shows_driver(lower: &str) -> bool {
    const PODS: [&str; 5] = ["ofed", "doca", "driver", "peermem", "rdma"];
    let names = || PODS.iter().any(|name| lower.contains(name));
    let all_run = || {
        let mut words = lower.split_whitespace().skip(1);
        let counts = words.next().and_then(|word| word.split_once('/'));
        counts.is_some_and(|(ready, all)| ready == all && ready.bytes().all(|byte| byte.is_ascii_digit()))
            && words.next() == Some("running")
    };
    let says = || {
        ["successfully loaded", "is ready", "are ready"]
            .iter()
            .any(|words| lower.contains(words))
            && !lower.contains("not ready")
    };
    names() && (says() || all_run())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lines: &[&str]) -> Waiting {
        let mut waiting = Waiting::default();
        for (line, number) in lines.iter().zip(1..) {
            waiting.add(line, number);
        }
        waiting
    }

    #[test]
    fn a_pod_that_got_its_node_is_told_from_one_that_waits() {
        const REFUSED: &str =
            "failedscheduling 3m default-scheduler 0/12 nodes are available: 9 insufficient rdma/hca";
        const ASSIGNED: &str = "successfully assigned ml/nccl-0 to gpu-1";
        assert!(after(&[REFUSED, ASSIGNED]).is_scheduled());
        assert!(!after(&[REFUSED, ASSIGNED, REFUSED]).is_scheduled());
        assert!(!after(&[ASSIGNED, REFUSED]).is_scheduled());
        let other = "failedscheduling pod/nccl-1 0/12 nodes are available: 9 insufficient rdma/hca";
        assert!(!after(&[other, ASSIGNED]).is_scheduled());
        assert!(after(&[other, "successfully assigned ml/nccl-1 to gpu-1"]).is_scheduled());
    }

    #[test]
    fn a_pod_that_started_after_all_is_told_from_one_that_waits_for_its_network() {
        const FAILED: &str =
            "warning failedcreatepodsandbox 58s kubelet failed to create pod sandbox: multus: link not found";
        const STARTED: &str = "normal started 43s kubelet started container nccl";
        assert!(after(&[FAILED, STARTED]).is_attached(Some(1)));
        assert!(!after(&[FAILED, STARTED]).is_attached(Some(2)));
        assert!(!after(&[FAILED, STARTED, FAILED]).is_attached(Some(1)));
        assert!(!after(&[STARTED, FAILED]).is_attached(Some(2)));
        let other = FAILED.replace("kubelet", "pod/nccl-1");
        assert!(!after(&[&other, "started pod/nccl-0 started container nccl"]).is_attached(Some(1)));
    }

    #[test]
    fn a_driver_that_came_is_told_from_one_that_is_awaited() {
        const WAITS: &str = "waiting for mofed driver to be ready...";
        assert!(for_driver(WAITS).is_some());
        assert!(for_driver("waiting for nvidia driver to be ready").is_none());
        assert!(for_driver("waiting for the rdma module of all ranks to be ready").is_none());
        assert!(after(&[WAITS, "successfully loaded nvidia-peermem module"]).has_driver());
        assert!(after(&[WAITS, "mofed-ubuntu22.04-ds-x8k2r 1/1 running 0 3h"]).has_driver());
        assert!(!after(&[WAITS, "mofed-ubuntu22.04-ds-x8k2r 0/1 running 0 3h"]).has_driver());
        assert!(!after(&[WAITS]).has_driver());
    }
}
