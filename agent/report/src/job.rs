//! A job's own view of the node in one line.

use rdma_health_node::{
    Fact,
    process::Process,
    words::{listed, printable, size},
};

/// What the process of a job has, and what of it could not be read.
pub(super) fn line(job: &Process) -> String {
    let all = |names: &[String]| listed(names.iter().map(String::as_str));
    let name = job.name.known().map_or("process", String::as_str);
    let mut parts = vec![format!("{name} ({})", job.pid)];
    if let Some(limit) = job.memlock.known() {
        parts.push(match (limit.soft, job.ipc_lock.known()) {
            (_, Some(true)) => "memlock not limited (CAP_IPC_LOCK)".into(),
            (None, _) => "memlock unlimited".into(),
            (Some(bytes), _) => format!("memlock {}", size(bytes)),
        });
    }
    if let Some(is_of_host) = job.host_network.known() {
        parts.push(match (is_of_host, job.netdevs.known()) {
            (true, _) => "network namespace of the host".into(),
            (false, Some(devices)) => format!("own network namespace with {}", all(devices)),
            (false, None) => "own network namespace".into(),
        });
    }
    match &job.device_files {
        Fact::Known(names) => parts.push(format!("/dev/infiniband with {}", all(names))),
        Fact::Absent => parts.push("no /dev/infiniband".into()),
        Fact::Unread { .. } => {}
    }
    let variables = job.environment.known().into_iter().flatten();
    let variables: Vec<_> = variables.map(|(name, value)| format!("{name}={value}")).collect();
    let libraries = job.libraries.known().map_or(&[][..], Vec::as_slice);
    let unread: Vec<_> = job.unread().map(ToString::to_string).collect();
    for (label, names) in [
        ("", &variables[..]),
        ("", libraries),
        ("could not be read: ", &unread),
    ] {
        if !names.is_empty() {
            parts.push(format!("{label}{}", all(names)));
        }
    }
    printable(&parts.join("; "))
}
