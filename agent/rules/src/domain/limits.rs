//! Limits of processes.

use rdma_health_node::{Node, limits::Memlock};

use super::common::size;
use crate::{Domain, Expectations, Finding, Profile, Remedy, Rule, Severity, Subject};

/// `memlock-low`.
pub(crate) static MEMLOCK_LOW: Rule = Rule {
    id: "memlock-low",
    domain: Domain::Limits,
    severity: Severity::Warning,
    title: "A low memory-lock limit reaches pods or jobs",
    explanation: "A pod inherits RLIMIT_MEMLOCK from the container runtime, a job from slurmd or the session. Registering more memory than that without \
        CAP_IPC_LOCK fails with ENOMEM: NCCL says 'Call to ibv_reg_mr failed' or 'Cannot allocate memory'. systemd's default \
        is 8 MiB. Critical where RDMA or GPUDirect is expected by the profile. The kubelet's own limit is for information, and \
        so is ours where no runtime is in sight (inside a pod, or on a host without containers), unless the profile expects \
        RDMA: then ours is a warning.",
    remedy: Remedy {
        any: "Raise the limit to unlimited where it is inherited from, or give the pod the capability IPC_LOCK.",
        openshift: "A MachineConfig (deploy/openshift/99-worker-memlock.yaml) with two files 99-memlock.conf: in \
            /etc/crio/crio.conf.d [crio.runtime] default_ulimits = [\"memlock=-1:-1\"], and as a drop-in for crio.service \
            [Service] LimitMEMLOCK=infinity. It drains and reboots every node of its pool.",
        kubernetes: "A drop-in for containerd.service with [Service] LimitMEMLOCK=infinity, systemctl daemon-reload, restart; \
            new pods inherit it.",
        host: "memlock unlimited, soft and hard, in /etc/security/limits.d; LimitMEMLOCK=infinity for slurmd.service.",
    },
    false_alarms: "A kubelet's own limit is not handed on to pods: it is no warning. Silent where no RDMA device is there, and \
        in profile tcp-only.",
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
    let runtimes = node.limits.runtimes.known().map_or(&[][..], Vec::as_slice);
    let low = |limit: Memlock| limit.soft.filter(|soft| *soft < expectations.memlock_bytes);
    let judged = runtimes.iter().filter_map(|runtime| {
        let limit = runtime.memlock.known()?;
        // The soft limit is what a pod's process starts with.
        let soft = size(low(*limit)?);
        let (severity, message) = match runtime.name.as_str() {
            // Only worth a word where somebody cares for limits.
            "kubelet" if !expectations.profile.expects_rdma() => return None,
            "kubelet" => (
                Severity::Info,
                format!("the kubelet itself may lock only {soft}; pods do not inherit it"),
            ),
            "slurmd" => (
                severity,
                format!("jobs of slurmd (pid {}) may lock only {soft}", runtime.pid),
            ),
            name => (
                severity,
                format!("pods of {name} (pid {}) may lock only {soft}", runtime.pid),
            ),
        };
        Some(
            Finding::new(&MEMLOCK_LOW, Subject::device(&runtime.name), message)
                .severity(severity)
                .evidence(format!("/proc/{}/limits", runtime.pid), words(*limit)),
        )
    });
    let mut findings: Vec<_> = judged.collect();
    // Nobody hands a limit on that we can see: ours is what a pod or session of this kind gets.
    if runtimes.is_empty()
        && let Some(limit) = node.limits.own.known()
        && let Some(soft) = low(*limit)
    {
        let expected = expectations.profile.expects_rdma();
        let finding = Finding::new(
            &MEMLOCK_LOW,
            Subject::device("rdma-health"),
            format!(
                "this process may lock only {}, and so may what starts as it did",
                size(soft)
            ),
        );
        findings.push(
            finding
                .severity(if expected {
                    Severity::Warning
                } else {
                    Severity::Info
                })
                .evidence("/proc/self/limits", words(*limit)),
        );
    }
    findings
}

fn words(limit: Memlock) -> String {
    let word = |value: Option<u64>| value.map_or("unlimited".to_owned(), |bytes| format!("{bytes} bytes"));
    format!(
        "Max locked memory: soft {}, hard {}",
        word(limit.soft),
        word(limit.hard)
    )
}
