//! Limits of processes.

use rdma_health_node::{
    Node,
    limits::{Memlock, PROCESSES, Runtime},
    platform::{Cluster, Distribution},
    words::size,
};

use crate::{
    Domain, Expectations, Policy, Remedy, Rule, Severities, Severity, Subject, Writer, draft::Draft,
    policy::Exception,
};

/// The subject of a finding about this process itself.
pub(crate) const THIS_PROCESS: &str = "rdma-health";

/// `memlock-low`.
pub static MEMLOCK_LOW: Rule = Rule {
    id: "memlock-low",
    domain: Domain::Limits,
    policy: Policy::of(Severities::WARNING.rdma_expected(Severity::Critical))
        .except(&[&OF_THE_KUBELET, &OF_THIS_PROCESS]),
    title: "The memory-lock limit of pods or jobs is too low for RDMA",
    explanation: "A pod inherits RLIMIT_MEMLOCK from the container runtime, a job from slurmd or the login session. \
        Without CAP_IPC_LOCK, registering more memory than that fails with ENOMEM: NCCL reports 'Call to ibv_reg_mr \
        failed' or 'Cannot allocate memory'. The default of systemd is 8 MiB. The expected minimum is \
        expect.memlock_bytes.",
    remedy: Remedy {
        any: "Raise the limit to unlimited where it is inherited from, or grant the pod the capability IPC_LOCK.",
        openshift: "oc apply -f deploy/openshift/99-worker-memlock.yaml, a MachineConfig with two files \
            99-memlock.conf: [crio.runtime] default_ulimits = [\"memlock=-1:-1\"] in /etc/crio/crio.conf.d, and \
            [Service] LimitMEMLOCK=infinity as a drop-in for crio.service. It drains and reboots every node of the \
            pool.",
        kubernetes: "Find the unit that runs the container runtime (containerd, k3s, rke2-agent): ps -o unit= -p $(pgrep -o \
            containerd). Run systemctl edit UNIT and add [Service] LimitMEMLOCK=infinity, then systemctl restart UNIT. New pods \
            inherit the limit.",
        host: "echo '* - memlock unlimited' > /etc/security/limits.d/99-memlock.conf; for Slurm, run systemctl edit \
            slurmd and add [Service] LimitMEMLOCK=infinity.",
    },
    false_alarms: "The limit of the kubelet does not apply to pods. Silent on nodes without RDMA devices.",
    inputs: &[Writer::HostRoot, Writer::Configuration],
    judge: memlock_low,
};

static OF_THE_KUBELET: Exception = Exception {
    condition: "for the limit of the kubelet itself, which pods do not inherit",
    severities: Severities::INFO.not_auto(),
};

static OF_THIS_PROCESS: Exception = Exception {
    condition: "for the limit of rdma-health itself, used if neither a container runtime nor slurmd is visible",
    severities: Severities::INFO.rdma_expected(Severity::Warning),
};

/// How to raise the limit of the process that was found, with commands; `None` if the parts of the catalogue's remedy apply.
fn remedy_here(node: &Node, runtime: &Runtime) -> Option<String> {
    let (pid, name) = (runtime.pid, runtime.name.as_str());
    match node.platform().cluster? {
        Cluster::OpenShift => return None,
        Cluster::Kubernetes | Cluster::Host => {}
    }
    match node.platform().distribution {
        Some(Distribution::Talos) => return Some(on_talos()),
        Some(Distribution::Bottlerocket) => return Some(on_bottlerocket()),
        _ => {}
    }
    // Which unit runs the process depends on the distribution: containerd may belong to containerd.service, k3s.service or
    // rke2-agent.service.
    let unit = match name {
        "crio" | "slurmd" => format!("unit={name}.service"),
        _ => format!("unit=$(ps -o unit= -p {pid})"),
    };
    let raise = format!(
        "{unit}\nmkdir -p /etc/systemd/system/$unit.d\nprintf '[Service]\\nLimitMEMLOCK=infinity\\n' > \
         /etc/systemd/system/$unit.d/memlock.conf\nsystemctl daemon-reload && systemctl restart $unit"
    );
    let raise = match node.platform().distribution {
        Some(Distribution::ContainerOptimized) => {
            format!(
                "# the system restores /etc at each boot: run this in the startup script of the instance, too\n{raise}"
            )
        }
        _ => raise,
    };
    Some(match name {
        "slurmd" => format!(
            "Raise the memlock limit of slurmd to unlimited, and keep Slurm from replacing it by the limit of the login node \
             (PropagateResourceLimitsExcept=MEMLOCK in slurm.conf).\n{raise}"
        ),
        "crio" => format!(
            "Raise the memlock limit of CRI-O and of its containers to unlimited. New pods get it.\n\
             printf '[crio.runtime]\\ndefault_ulimits = [\"memlock=-1:-1\"]\\n' > /etc/crio/crio.conf.d/99-memlock.conf\n{raise}"
        ),
        "dockerd" | "podman" => format!(
            "Raise the memlock limit of the unit that runs {name} to unlimited; new containers inherit it. Or start the container with docker run --ulimit \
             memlock=-1:-1. (--cap-add IPC_LOCK helps only a process that runs as root in the container.)\n{raise}"
        ),
        _ if runtime.is_scheduler() => {
            format!(
                "Raise the memlock limit of the unit that runs {name} to unlimited; new jobs inherit it.\n{raise}"
            )
        }
        _ => format!(
            "Raise the memlock limit of the unit that runs {name} to unlimited; new pods inherit it. Or grant the pod the \
             capability IPC_LOCK.\n{raise}"
        ),
    })
}

/// Talos has no units: the limit is that of the runtime specification of all containers.
fn on_talos() -> String {
    format!(
        "Raise the memlock limit of all containers in the machine configuration; new pods get it. Or grant the pod the capability \
         IPC_LOCK.\n\
         talosctl -n NODE patch machineconfig --patch '{{\"machine\":{{\"baseRuntimeSpecOverrides\":{{\"process\":{{\"rlimits\":\
         [{{\"type\":\"RLIMIT_MEMLOCK\",\"hard\":{LARGEST},\"soft\":{LARGEST}}}]}}}}}}}}'"
    )
}

fn on_bottlerocket() -> String {
    format!(
        "Raise the memlock limit of containers in the settings; new pods get it. Or grant the pod the capability IPC_LOCK.\n\
         apiclient apply <<'EOF'\n[settings.oci-defaults.resource-limits.max-locked-memory]\nhard-limit = {LARGEST}\n\
         soft-limit = {LARGEST}\nEOF"
    )
}

/// More than any memory, and still a signed number, as these two parse it.
const LARGEST: i64 = i64::MAX;

fn memlock_low(node: &Node, expectations: &Expectations) -> Vec<Draft> {
    if node.hcas().next().is_none() {
        return Vec::new();
    }
    let expected = size(expectations.memlock_bytes);
    let runtimes = node.limits.runtimes.known().map_or(&[][..], Vec::as_slice);
    // The soft limit is what a pod's process starts with.
    let low = |limit: Memlock| limit.soft.filter(|soft| *soft < expectations.memlock_bytes);
    let judged = runtimes.iter().filter_map(|runtime| {
        // CRI-O sets the limit of containers itself, if so configured.
        let of_containers = node
            .limits
            .crio_default
            .known()
            .filter(|_| runtime.name == "crio");
        let limit = *of_containers.or(runtime.memlock.known())?;
        let soft = size(low(limit)?);
        let (name, pid) = (runtime.name.as_str(), runtime.pid);
        let may_lock = format!("may lock only {soft} of memory, expected unlimited or at least {expected}");
        let (exception, message) = match name {
            "kubelet" => (
                Some(&OF_THE_KUBELET),
                format!("the kubelet itself {may_lock}; pods do not inherit its limit"),
            ),
            name if runtime.is_scheduler() => (None, format!("jobs of {name} (pid {pid}) {may_lock}")),
            name @ ("dockerd" | "podman") => (None, format!("containers of {name} (pid {pid}) {may_lock}")),
            name => (None, format!("pods of {name} (pid {pid}) {may_lock}")),
        };
        let finding = Draft::new(&MEMLOCK_LOW, Subject::device(name), message)
            .exception(exception)
            .written_remedy(remedy_here(node, runtime));
        let source = match of_containers {
            Some(_) => "default_ulimits in /etc/crio/crio.conf.d".to_owned(),
            None => format!("/proc/{pid}/limits"),
        };
        Some(finding.evidence(source, words(limit)))
    });
    let mut findings: Vec<_> = judged.collect();
    // Without a visible runtime, our own limit is what a pod or session like this one gets.
    if runtimes.is_empty()
        && node
            .limits
            .runtimes
            .unread()
            .is_none_or(|unread| unread.source == PROCESSES)
        && let Some(limit) = node.limits.own.known()
        && let Some(soft) = low(*limit)
    {
        let soft = size(soft);
        let message = format!(
            "this process, and any started like it, may lock only {soft} of memory, expected unlimited or at least {expected}"
        );
        let finding =
            Draft::new(&MEMLOCK_LOW, Subject::device(THIS_PROCESS), message).exception(&OF_THIS_PROCESS);
        findings.push(finding.evidence("/proc/self/limits", words(*limit)));
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
