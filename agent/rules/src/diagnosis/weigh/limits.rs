//! What a process may do: locked memory, resources, permissions.

use rdma_health_node::node::VerbsDevice;

use super::{Case, Scales};
use crate::diagnosis::symptom::SymptomKind;

/// From this memory-lock limit on, in bytes, a limit explains no failed registration of a job: the default of systemd
/// is 8 MiB, and jobs register at least some hundred MiB.
const AMPLE_MEMLOCK: u64 = 64 << 30;

pub(in crate::diagnosis) fn memlock(case: &Case<'_>, scales: &mut Scales) {
    let named = case
        .symptoms
        .iter()
        .find_map(|symptom| Some((symptom, symptom.named.memlock_bytes?)));
    if let Some((symptom, bytes)) = named {
        if bytes < AMPLE_MEMLOCK {
            scales.shows(
                &symptom.source,
                format!("the job's limit is {} KiB", bytes / 1024),
            );
        } else {
            scales.against(
                &symptom.source,
                format!("the job's limit is {} KiB", bytes / 1024),
            );
        }
        return;
    }
    // A probe runs under the helper's limit, which is ours where it is our child.
    let probed = case
        .seen(&[SymptomKind::RegMrNoMemory, SymptomKind::CreateFailed])
        .any(|symptom| symptom.line.is_none());
    let own = case.node.limits.own.known().map(|limit| limit.soft);
    match own {
        Some(Some(soft)) if probed && soft < AMPLE_MEMLOCK => {
            scales.shows(
                "/proc/self/limits",
                format!("Max locked memory: soft {soft} bytes"),
            );
        }
        Some(None) if probed => scales.against("/proc/self/limits", "Max locked memory: unlimited"),
        _ => {}
    }
    let runtimes = case.node.limits.runtimes.known().map_or(&[][..], Vec::as_slice);
    let of_pods: Vec<_> = runtimes
        .iter()
        .filter(|runtime| runtime.name != "kubelet")
        .collect();
    for runtime in &of_pods {
        let source = format!("/proc/{}/limits", runtime.pid);
        match runtime.memlock.known().map(|limit| limit.soft) {
            Some(None) if !probed => scales.against(
                source,
                format!("{} hands on unlimited locked memory", runtime.name),
            ),
            Some(_) => {}
            None => scales.unseen(format!("{source}: the limit that {} hands on", runtime.name)),
        }
    }
    if of_pods.is_empty() && !probed {
        scales.unseen("the limit of the job itself: ulimit -l where it runs");
    }
}

pub(in crate::diagnosis) fn resources(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::ResourceLimit]).next() {
        scales.shows(&symptom.source, &symptom.text);
    } else if let Some(line) = case.kernel_line(&["limits exceeded", "reg mr failed"]) {
        scales.shows("/dev/kmsg", line);
    } else {
        scales.unseen(
            "the memory regions and queues in use (rdma resource show) and rdma.max of the job's cgroup",
        );
    }
}

pub(in crate::diagnosis) fn permission(case: &Case<'_>, scales: &mut Scales) {
    let denied = |errno: Option<i32>| matches!(errno, Some(1 | 13));
    if let Some(symptom) = case.symptoms.iter().find(|symptom| denied(symptom.named.errno)) {
        return scales.shows(&symptom.source, &symptom.text);
    }
    let refused = case
        .node
        .verbs
        .known()
        .into_iter()
        .flat_map(|all| all.iter())
        .find_map(|(name, device)| match device {
            VerbsDevice::Error(error) if denied(Some(error.errno)) => Some((name, error)),
            _ => None,
        });
    match refused {
        Some((name, error)) => scales.shows(
            format!("{} of {name}", error.call),
            format!("errno {}", error.errno),
        ),
        None => scales.unseen("modes of /dev/infiniband where the job runs"),
    }
}
