//! What the job's own view of the node says for and against a cause. Each function returns whether it decides.

use rdma_health_node::{Fact, job::Reach};

use super::{Case, Scales};
use crate::job_view::{AMPLE_MEMLOCK, has_device_file, source, variable};

/// The memlock limit of the job itself, in place of those that it may have inherited.
pub(crate) fn memlock(case: &Case<'_>, scales: &mut Scales) -> bool {
    let Some(job) = case.job() else { return false };
    let limit = match &job.memlock {
        Fact::Known(limit) => limit,
        Fact::Unread { unread } => {
            scales.unseen(format!("memlock limit of the job: {unread}"));
            return true;
        }
        Fact::Absent => return false,
    };
    if job.ipc_lock.known() == Some(&true) {
        scales.against(
            source(job, "status"),
            "CAP_IPC_LOCK: the memlock limit does not apply",
        );
        return true;
    }
    match limit.soft {
        Some(soft) if soft < AMPLE_MEMLOCK => {
            scales.shows(
                source(job, "limits"),
                format!("Max locked memory: soft {soft} bytes"),
            );
        }
        Some(soft) => scales.against(
            source(job, "limits"),
            format!("Max locked memory: soft {soft} bytes"),
        ),
        None => scales.against(source(job, "limits"), "Max locked memory: unlimited"),
    }
    true
}

/// The device files that the job has.
pub(crate) fn devices(case: &Case<'_>, scales: &mut Scales) -> bool {
    let Some(job) = case.job() else { return false };
    let place = source(job, "root/dev/infiniband");
    match has_device_file(job) {
        Some(true) => {
            let names = job
                .device_files
                .known()
                .map(|names| names.join(", "))
                .unwrap_or_default();
            scales.against(place, names);
        }
        Some(false) => scales.shows(place, "no uverbs device"),
        None => return false,
    }
    true
}

/// Settings in the job's environment that select what it uses. The names of the node's devices are compared with
/// `NCCL_IB_HCA` by `selects`.
pub(crate) fn settings(
    case: &Case<'_>,
    scales: &mut Scales,
    selects: impl Fn(&str, &[&str]) -> bool,
) -> bool {
    let Some(job) = case.job() else { return false };
    if job.environment.known().is_none() {
        return false;
    }
    let place = source(job, "environ");
    let names: Vec<_> = case.node.hcas().map(|hca| hca.name.as_str()).collect();
    if variable(job, "NCCL_IB_DISABLE") == Some("1") {
        scales.shows(&place, "NCCL_IB_DISABLE=1");
    }
    if let Some(net) = variable(job, "NCCL_NET").filter(|net| net.eq_ignore_ascii_case("socket")) {
        scales.shows(&place, format!("NCCL_NET={net}"));
    }
    match variable(job, "NCCL_IB_HCA") {
        Some(wanted) if !names.is_empty() && !selects(wanted, &names) => {
            scales.shows(
                &place,
                format!("NCCL_IB_HCA={wanted}, but the node has {}", names.join(", ")),
            );
        }
        _ if !scales.supported() => scales.against(
            &place,
            "no setting disables RDMA or names a device that is missing",
        ),
        _ => {}
    }
    true
}

/// The GID index in the job's environment.
pub(crate) fn gid_index(case: &Case<'_>) -> Option<(String, u32)> {
    let job = case.job()?;
    let name = ["NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX"];
    let (name, value) = name.iter().find_map(|name| Some((name, variable(job, name)?)))?;
    Some((
        format!("{name} in {}", source(job, "environ")),
        value.parse().ok()?,
    ))
}

/// Which ports the job can use from its network namespace.
pub(crate) fn namespace(case: &Case<'_>, scales: &mut Scales) -> bool {
    let Some(job) = case.job() else { return false };
    if job.host_network.known() == Some(&true) {
        scales.against(source(job, "ns/net"), "the network namespace is the host's");
        return true;
    }
    let ports = case.ports();
    let foreign = ports
        .iter()
        .find(|port| case.node.reach(job, port) == Reach::OtherNamespace);
    let usable = ports
        .iter()
        .find(|port| case.node.reach(job, port) == Reach::Usable);
    match (foreign, usable) {
        (Some(port), _) => scales.shows(
            source(job, "net"),
            format!("no GID of {port} has an address of this network namespace"),
        ),
        (None, Some(port)) => scales.against(
            source(job, "net"),
            format!("{port} has a GID with an address of this network namespace"),
        ),
        (None, None) => return false,
    }
    true
}

/// The RDMA libraries that the job has loaded.
pub(crate) fn libraries(case: &Case<'_>, scales: &mut Scales) -> bool {
    let loaded = case.job().and_then(|job| Some((job, job.libraries.known()?)));
    let Some((job, names)) = loaded else { return false };
    match names.iter().find(|name| name.starts_with("libibverbs")) {
        Some(name) => scales.against(source(job, "maps"), format!("{name} is loaded")),
        // It may not have come to loading it.
        None => scales.unseen("libibverbs: the process has not loaded it"),
    }
    true
}
