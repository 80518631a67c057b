//! The limits of a process: locked memory, resources, permissions.

use rdma_health_node::node::VerbsDevice;
use rdma_health_protocol::Errno;

use super::{Case, Scales, view};
use crate::{
    job_view::AMPLE_MEMLOCK,
    symptom::{Symptom, SymptomKind},
};

pub(crate) fn memlock(case: &Case<'_>, scales: &mut Scales) {
    if view::memlock(case, scales) {
        return;
    }
    let named = case
        .symptoms
        .iter()
        .find_map(|symptom| Some((symptom, symptom.named.memlock_bytes?)));
    if let Some((symptom, bytes)) = named {
        if bytes < AMPLE_MEMLOCK {
            scales.shows(
                &symptom.source,
                format!("the job's memlock limit is {} KiB", bytes / 1024),
            );
        } else {
            scales.against(
                &symptom.source,
                format!("the job's memlock limit is {} KiB", bytes / 1024),
            );
        }
        return;
    }
    // A probe runs under the helper's limit. A helper that the agent starts inherits the agent's limit.
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
    let mut unlimited = Vec::new();
    let mut limited = false;
    for runtime in &of_pods {
        let source = format!("/proc/{}/limits", runtime.pid);
        match runtime.memlock.known().map(|limit| limit.soft) {
            // The job may run elsewhere, such as in a login session, with another limit.
            Some(None) if !probed => unlimited.push((source, format!("{}: memlock unlimited", runtime.name))),
            Some(_) => limited = true,
            None => scales.unseen(format!("memlock limit of {} ({source})", runtime.name)),
        }
    }
    // A pod has the limit of one of them, so one is enough to make it doubtful.
    if let Some((source, value)) = unlimited.into_iter().next().filter(|_| !limited) {
        scales.doubts(source, value);
        scales.unseen("memlock limit of the job (ulimit -l where it runs)");
    }
    if of_pods.is_empty() && !probed {
        scales.unseen("memlock limit of the job (ulimit -l where it runs)");
    }
}

pub(crate) fn resources(case: &Case<'_>, scales: &mut Scales) {
    // A device without resources answers with one of these.
    const OF_LIMITS: [Errno; 5] = [
        Errno::ENOMEM,
        Errno::ENOSPC,
        Errno::EAGAIN,
        Errno::EBUSY,
        Errno::EDQUOT,
    ];
    let refused = |symptom: &&Symptom| {
        let other = |errno: Errno| !OF_LIMITS.contains(&errno);
        symptom.kind == SymptomKind::RegMrFailed && symptom.named.errno.is_some_and(other)
    };
    if let Some(symptom) = case.symptoms.iter().copied().find(refused) {
        return scales.against(&symptom.source, "the error number is not that of a limit");
    }
    if let Some(symptom) = case.seen(&[SymptomKind::ResourceLimit]).next() {
        scales.shows(&symptom.source, &symptom.text);
    } else if let Some(line) = case.kernel_line(&["limits exceeded", "reg mr failed"]) {
        scales.shows("/dev/kmsg", line);
    } else {
        if case
            .seen(&[SymptomKind::RegMrFailed])
            .any(|symptom| symptom.named.errno.is_none())
        {
            scales.doubts("log", "no error number of a limit");
        }
        scales
            .unseen("memory regions and queues in use (rdma resource show) and rdma.max of the job's cgroup");
    }
}

pub(crate) fn permission(case: &Case<'_>, scales: &mut Scales) {
    let denied = |errno: Option<Errno>| matches!(errno, Some(Errno::EPERM | Errno::EACCES));
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
            VerbsDevice::Error(error) if denied(Some(Errno(error.errno))) => Some((name, error)),
            _ => None,
        });
    match refused {
        Some((name, error)) => scales.shows(
            format!("{} of {name}", error.call),
            format!("errno {}", error.errno),
        ),
        None => scales.unseen("permissions of /dev/infiniband where the job runs (ls -l)"),
    }
}
