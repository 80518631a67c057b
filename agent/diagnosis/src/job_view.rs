//! What a job's process shows that explains a failure by itself: symptoms of its own view of the node.
//!
//! The process chooses its environment and its container its files, so these symptoms are never more than a degradation.

use rdma_health_node::{Node, job::Reach, process::Process};
use rdma_health_protocol::text::printable;

use crate::symptom::{Grade, Named, Symptom, SymptomKind};

/// A lower memlock limit than this, in bytes, is worth a warning: jobs register several hundred MiB or more.
pub(crate) const AMPLE_MEMLOCK: u64 = 64 << 30;

/// The symptoms of the job's process; empty if none was named.
pub(super) fn symptoms(node: &Node) -> Vec<Symptom> {
    let Some(job) = &node.job else {
        return Vec::new();
    };
    let memlock = job.memlock.known().and_then(|limit| limit.soft);
    let memlock = memlock.filter(|_| job.ipc_lock.known() != Some(&true));
    let low = memlock.filter(|soft| *soft < AMPLE_MEMLOCK).map(|soft| {
        let named = Named {
            memlock_bytes: Some(soft),
            ..Named::default()
        };
        let text = format!("Max locked memory: soft {soft} bytes");
        symptom(job, SymptomKind::MemlockWarning, "limits", text, named)
    });
    let without_device = has_devices(node) && has_device_file(job) == Some(false);
    let absent = without_device.then(|| {
        let text = "the process has no /dev/infiniband/uverbs*".to_owned();
        symptom(
            job,
            SymptomKind::NoDevice,
            "root/dev/infiniband",
            text,
            Named::default(),
        )
    });
    let disabled = variable(job, "NCCL_IB_DISABLE")
        .filter(|value| *value == "1")
        .map(|_| {
            let text = "NCCL_IB_DISABLE=1".to_owned();
            symptom(job, SymptomKind::RdmaDisabled, "environ", text, Named::default())
        });
    let foreign = (absent.is_none()).then(|| without_gid(node, job)).flatten();
    low.into_iter()
        .chain(absent)
        .chain(disabled)
        .chain(foreign)
        .collect()
}

/// The symptom if no active port of the node can be used in the job's network namespace.
fn without_gid(node: &Node, job: &Process) -> Option<Symptom> {
    let mut ports = node.active_ports().peekable();
    ports.peek()?;
    let all_foreign = ports.all(|port| node.reach(job, &port) == Reach::OtherNamespace);
    let devices = job.netdevs.known()?;
    let text = format!(
        "no GID of an active port has an address of the network namespace, whose devices are: {}",
        printable(&devices.join(", "))
    );
    all_foreign.then(|| symptom(job, SymptomKind::NoGid, "net/dev", text, Named::default()))
}

fn symptom(job: &Process, kind: SymptomKind, file: &str, text: String, named: Named) -> Symptom {
    Symptom {
        kind,
        grade: Grade::Degraded,
        source: source(job, file),
        line: Some(Symptom::OF_PROCESS),
        count: 1,
        text,
        known: true,
        named,
        software: None,
        hosts: Vec::new(),
    }
}

/// A file of the job's process, for evidence.
pub(crate) fn source(job: &Process, file: &str) -> String {
    format!("/proc/{}/{file}", job.pid)
}

/// A variable of the job's environment.
pub(crate) fn variable<'a>(job: &'a Process, name: &str) -> Option<&'a str> {
    job.environment.known()?.get(name).map(String::as_str)
}

/// Whether the job has a device file of an RDMA device; `None` if its files could not be read.
pub(crate) fn has_device_file(job: &Process) -> Option<bool> {
    let is_verbs = |name: &String| name.starts_with("uverbs");
    match job.device_files.known() {
        Some(names) => Some(names.iter().any(is_verbs)),
        None => job.device_files.is_absent().then_some(false),
    }
}

fn has_devices(node: &Node) -> bool {
    node.hcas().any(|hca| !hca.is_software())
}
