//! Limits of processes.

use rdma_health_node::{Node, limits::Memlock};

use crate::{Domain, Expectations, Finding, Profile, Rule, Severity, Subject};

/// `memlock-low`.
pub(crate) static MEMLOCK_LOW: Rule = Rule {
    id: "memlock-low",
    domain: Domain::Limits,
    severity: Severity::Warning,
    title: "The container runtime hands a low memory-lock limit to pods",
    explanation: "A pod inherits RLIMIT_MEMLOCK from the container runtime. Registering more memory than that without \
        CAP_IPC_LOCK fails with ENOMEM: NCCL says 'Call to ibv_reg_mr failed' or 'Cannot allocate memory'. systemd's default \
        is 8 MiB. Critical where RDMA or GPUDirect is expected by the profile.",
    remedy: "Raise the runtime's limit: a drop-in for containerd.service or crio.service with [Service] \
        LimitMEMLOCK=infinity, then systemctl daemon-reload and restart it; new pods inherit it. On OpenShift use a \
        MachineConfig with default_ulimits = [\"memlock=-1:-1\"] for CRI-O. Or give the pod the capability IPC_LOCK.",
    false_alarms: "A kubelet's own limit is not handed on and is not judged. Silent where no container runtime runs, where \
        no RDMA device is there, and in profile tcp-only.",
    judge: memlock_low,
};

fn memlock_low(node: &Node, expectations: &Expectations) -> Vec<Finding> {
    let severity = match expectations.profile {
        Profile::TcpOnly => return Vec::new(),
        Profile::Auto => Severity::Warning,
        Profile::Rdma | Profile::GpuDirect => Severity::Critical,
    };
    if node.hcas().next().is_none() {
        return Vec::new();
    }
    let runtimes = node.limits.runtimes.known().into_iter().flatten();
    runtimes
        .filter(|runtime| runtime.name != "kubelet")
        .filter_map(|runtime| {
            let limit = runtime.memlock.known()?;
            // The soft limit is what a pod's process starts with.
            let soft = limit.soft.filter(|soft| *soft < expectations.memlock_bytes)?;
            let finding = Finding::new(
                &MEMLOCK_LOW,
                Subject::device(&runtime.name),
                format!(
                    "pods of {} (pid {}) may lock only {}",
                    runtime.name,
                    runtime.pid,
                    size(soft)
                ),
            );
            Some(
                finding
                    .severity(severity)
                    .evidence(format!("/proc/{}/limits", runtime.pid), words(*limit)),
            )
        })
        .collect()
}

fn words(limit: Memlock) -> String {
    let word = |value: Option<u64>| value.map_or("unlimited".to_owned(), |bytes| format!("{bytes} bytes"));
    format!(
        "Max locked memory: soft {}, hard {}",
        word(limit.soft),
        word(limit.hard)
    )
}

/// A size in the largest binary unit that divides it, else in bytes.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units
        .into_iter()
        .find(|(shift, _)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or_else(
        || format!("{bytes} bytes"),
        |(shift, unit)| format!("{} {unit}", bytes >> shift),
    )
}
