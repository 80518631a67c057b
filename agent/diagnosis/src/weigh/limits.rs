//! The limits of a process: locked memory, resources, permissions.

use rdma_health_node::node::VerbsDevice;
use rdma_health_protocol::Errno;

use super::{Case, Scales, view};
use crate::{
    job_view::AMPLE_MEMLOCK,
    symptom::{Symptom, SymptomKind},
};

/// The errors of a call that needs more memory, another place in a table, or the right to lock memory.
const OF_LIMITS: [Errno; 6] = [
    Errno::ENOMEM,
    Errno::ENOSPC,
    Errno::EAGAIN,
    Errno::EBUSY,
    Errno::EDQUOT,
    Errno::EPERM,
];

/// A failed registration with an error number that is not that of a limit of the process.
fn refused<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let other = |errno: Errno| !OF_LIMITS.contains(&errno);
    case.symptoms
        .iter()
        .copied()
        .find(|symptom| symptom.kind == SymptomKind::RegMrFailed && symptom.named.errno.is_some_and(other))
}

pub(crate) fn memlock(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = refused(case) {
        return scales.against(&symptom.source, "the error number is not that of a memlock limit");
    }
    if view::memlock(case, scales) {
        return;
    }
    if let Some(symptom) = efa_queue(case) {
        scales.doubts(&symptom.source, "EFA needs little locked memory for a queue pair");
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
    // The program read its own limit.
    if let Some(symptom) = case.seen(&[SymptomKind::MemlockWarning]).next() {
        return scales.fits(&symptom.source, &symptom.text);
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
    // Old programs print no error number, and this limit is the commonest reason.
    let is_unexplained = case
        .seen(&[SymptomKind::RegMrFailed])
        .any(|symptom| symptom.named.errno.is_none() && symptom.named.gpu.is_none());
    // A pod has the limit of one of them, so one is enough to make it doubtful.
    if is_unexplained {
        scales.unseen("memlock limit of the job (ulimit -l where it runs)");
    } else if let Some((source, value)) = unlimited.into_iter().next().filter(|_| !limited) {
        scales.doubts(source, value);
        scales.unseen("memlock limit of the job (ulimit -l where it runs)");
    }
    if of_pods.is_empty() && !probed {
        scales.unseen("memlock limit of the job (ulimit -l where it runs)");
    }
}

/// A queue pair of EFA that could not be created (ENOMEM): the device supports no more of them.
fn efa_queue<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let is_efa = case.is_efa();
    let is_queue = |symptom: &&Symptom| {
        is_efa
            && symptom.kind == SymptomKind::CreateFailed
            && symptom.text.to_ascii_lowercase().contains("qp")
    };
    case.symptoms.iter().copied().find(is_queue)
}

/// The region is larger than the adapter supports, or it has no room for another one.
const OF_REGIONS: [Errno; 2] = [Errno::ERANGE, Errno::EIO];

pub(crate) fn resources(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = efa_queue(case) {
        scales.fits(&symptom.source, &symptom.text);
        scales.next_step = Some(
            "Compare the number of queue pairs in use (rdma resource show qp) with max_qp of ibv_devinfo -v: an EFA has few. Run fewer processes for \
            each device, or use libfabric's shared contexts."
                .into(),
        );
        return;
    }
    if let Some(symptom) = refused(case) {
        return match symptom.named.errno {
            Some(errno) if OF_REGIONS.contains(&errno) => {
                scales.next_step = Some(
                    "Compare the size of the region with max_mr_size and the number of regions with max_mr: ibv_devinfo -v. Register \
                    smaller regions."
                        .into(),
                );
                scales.fits(&symptom.source, &symptom.text);
            }
            _ => scales.against(&symptom.source, "the error number is not that of a limit"),
        };
    }
    let is_full = |symptom: &&Symptom| symptom.named.errno == Some(Errno::ENOSPC);
    if let Some(symptom) = case
        .seen(&[SymptomKind::RegMrFailed])
        .find(|symptom| is_full(symptom))
    {
        scales.fits(&symptom.source, &symptom.text);
    } else if let Some(symptom) = case.seen(&[SymptomKind::ResourceLimit]).next() {
        if symptom.text.to_ascii_lowercase().contains("alloc_uar") {
            scales.next_step = Some(
                "Each process that opens the device takes doorbell pages (UAR), and the adapter has no more of them. Count the open contexts: rdma \
                resource show ctx. Run fewer processes for each device, or give the function more pages: raise LOG_BAR_SIZE, or lower NUM_OF_VFS, \
                with mlxconfig -d ADDRESS, and restart the node."
                    .into(),
            );
        }
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
    let by_policy = |symptom: &&&Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        symptom.kind == SymptomKind::NotPermitted && (text.contains("avc:") || text.contains("apparmor"))
    };
    if let Some(symptom) = case.symptoms.iter().find(by_policy) {
        scales.next_step = Some(
            "SELinux or AppArmor denied the access. SELinux: setsebool -P container_use_devices=on for containers, or show and add the \
            missing rule with ausearch -m avc -ts recent | audit2allow. AppArmor: add /dev/infiniband/* rw to the profile."
                .into(),
        );
        return scales.shows(&symptom.source, &symptom.text);
    }
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
