//! The limits of a process and of a device: locked memory, resources.

use rdma_health_node::objects::Reached;
use rdma_health_protocol::Errno;

use super::{Case, Scales, exhausted, pods, view};
use crate::{
    job_view::AMPLE_MEMLOCK,
    symptom::{Software, Symptom, SymptomKind},
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
    case.symptoms.iter().copied().find(|symptom| {
        symptom.kind == SymptomKind::RegMrFailed
            && symptom.named.errno.is_some_and(other)
            && !is_status_of_ucx(symptom)
    })
}

/// Whether UCX reports a region that was not registered by its own status, which is that of EIO whatever the call answered (`UCS_ERR_IO_ERROR`).
fn is_status_of_ucx(symptom: &Symptom) -> bool {
    symptom.kind == SymptomKind::RegMrFailed
        && symptom.software == Some(Software::Ucx)
        && symptom.named.errno == Some(Errno::EIO)
        && symptom.named.gpu.is_none()
        && !symptom.text.contains("ibv_")
}

/// What to do about it.
const OF_UCX: &str = "Run ulimit -l where the job runs, on each node and started the same way: it must be unlimited ('* - memlock unlimited' in /etc/security/limits.d, LimitMEMLOCK=infinity for slurmd, \
    sshd or the container runtime). UCX prints Input/output error for every registration that fails, so this limit is the first to look at: UCX_LOG_LEVEL=debug shows the line of ibv_reg_mr with \
    the error of the call. If that is another one than Cannot allocate memory, read what the driver logged: journalctl -k | grep -e mlx -e infiniband.";

/// What to do where the memory of a virtual machine could not be locked, so that an adapter could reach it.
const OF_MACHINE: &str = "QEMU locks all memory of a virtual machine that has a function of an adapter or a GPU, and may not lock so much: grep locked /proc/$(pgrep -n qemu)/limits. \
    With libvirt, <memtune><hard_limit> must be above the memory of the machine by 1 GiB or more, and for several functions with a virtual IOMMU by a multiple; without libvirt, \
    LimitMEMLOCK=infinity for the unit that starts QEMU. In KubeVirt, virt-handler sets the limit: check that the node has the memory, and the log of virt-handler.";

/// What to do where a program that drives a function by itself could not lock the memory that the function shall reach.
const OF_PROGRAM: &str = "Raise the limit of locked memory of the program that drives the function through VFIO: grep locked /proc/PID/limits shows it, and all memory that the function shall reach counts \
    (for DPDK and SPDK its huge pages). In a pod, add the capability IPC_LOCK, or set LimitMEMLOCK=infinity for containerd or CRI-O on the node; with Docker, --ulimit memlock=-1 or \
    --cap-add IPC_LOCK; for a service, LimitMEMLOCK=infinity in its unit; for a user, '* - memlock unlimited' in a file in /etc/security/limits.d. The kernel names the limit: journalctl -k | grep -e vfio -e \
    RLIMIT_MEMLOCK.";

/// Whether it is a program other than a hypervisor: DPDK, SPDK, a driver in user space.
fn is_of_program(symptom: &Symptom) -> bool {
    const MACHINE: [&str; 9] = [
        "qemu",
        "kvm",
        "libvirt",
        "virt-launcher",
        "region ",
        "container_dma_map",
        "vfio_dma_map(",
        "vfio_map_dma",
        "dmamap(",
    ];
    let text = symptom.text.to_ascii_lowercase();
    symptom.kind == SymptomKind::MapNoMemory && !MACHINE.iter().any(|word| text.contains(word))
}

/// What decides about the limit, and is not in the log.
fn unseen(case: &Case<'_>) -> &'static str {
    let mut mapped = case.seen(&[SymptomKind::MapNoMemory]);
    if mapped.next().is_some() {
        "memlock limit of the process that uses VFIO (grep locked /proc/PID/limits)"
    } else {
        "memlock limit of the job (ulimit -l where it runs)"
    }
}

/// Whether memory of a virtual machine could not be locked: `VFIO_MAP_DMA failed: Cannot allocate memory`, `RLIMIT_MEMLOCK (67108864) exceeded`.
fn is_of_machine(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    text.contains("limit locked memory of process")
        || text.contains("virt-launcher")
        || text.contains("vfio")
            && ["_dma", "rlimit_memlock"]
                .iter()
                .any(|words| text.contains(words))
}

/// What a hypervisor reports that may not raise the limit of its virtual machine: `cannot limit locked memory of process 111 to N: Operation not permitted`.
fn is_of_hypervisor(symptom: &Symptom) -> bool {
    let text = symptom.text.to_ascii_lowercase();
    is_of_machine(symptom) && !text.contains("vfio") && text.contains("limit")
}

/// What to do about [`is_of_hypervisor`].
const OF_HYPERVISOR: &str = "libvirt may not raise the limit of locked memory of the virtual machine, which it does to give it a function of an adapter or a GPU. In KubeVirt, virt-handler raises it and \
    virt-launcher has no right to (CAP_SYS_RESOURCE): read the log of virt-handler on that node at the time of the start, update KubeVirt, and let the node have the memory of the machine and 1 GiB \
    more. On a host, start libvirt's daemon with the right: CAP_SYS_RESOURCE and LimitMEMLOCK=infinity in its unit (in a container, the container's capabilities), or set <memtune><hard_limit> \
    above the memory of the machine. A limit of 9007199254740991 means none, which a machine with a function of VDPA or a GPU asks for.";

/// The step where a function of an adapter is given to a machine, or to a program that drives it.
fn steps_of_vfio(case: &Case<'_>, scales: &mut Scales) {
    if case.symptoms.iter().any(|symptom| is_of_machine(symptom)) {
        scales.next_step = Some(OF_MACHINE.to_owned());
    }
    if case.symptoms.iter().any(|symptom| is_of_program(symptom)) {
        scales.next_step = Some(OF_PROGRAM.to_owned());
    }
    if case.symptoms.iter().any(|symptom| is_of_hypervisor(symptom)) {
        scales.insisted_step = Some(OF_HYPERVISOR.to_owned());
    }
}

pub(crate) fn memlock(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = refused(case) {
        return scales.against(&symptom.source, "the error number is not that of a memlock limit");
    }
    let mut of_ucx = case.symptoms.iter().filter(|symptom| is_status_of_ucx(symptom));
    if let Some(symptom) = of_ucx.next() {
        scales.next_step = Some(OF_UCX.to_owned());
        scales.fits(&symptom.source, &symptom.text);
    }
    if let Some(symptom) = of_dma_buf(case) {
        return scales.against(
            &symptom.source,
            "the call maps memory of a GPU as DMA-BUF, which the memlock limit does not count",
        );
    }
    if view::memlock(case, scales) || forbidden(case, scales) {
        return;
    }
    steps_of_vfio(case, scales);
    endpoint_made(case, scales);
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
            let limit = if bytes == u64::MAX {
                "unlimited".to_owned()
            } else {
                format!("{} KiB", bytes / 1024)
            };
            scales.against(&symptom.source, format!("the job's memlock limit is {limit}"));
        }
        return;
    }
    if is_printed(case, scales) {
        return;
    }
    if case.log.is_some_and(|log| log.marks.unlimited)
        && case.seen(&[SymptomKind::MemlockWarning]).next().is_none()
    {
        return scales.against("log", "the command of the job lifts the limit of locked memory");
    }
    // The program read its own limit.
    if let Some(symptom) = case.seen(&[SymptomKind::MemlockWarning]).next() {
        if let Some(step) = pods::limit(symptom) {
            scales.next_step = Some(step.to_owned());
        }
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
            Some(None) if !probed => unlimited.push((source, without_limit(&runtime.name))),
            Some(_) => limited = true,
            None => scales.unseen(format!("memlock limit of {} ({source})", runtime.name)),
        }
    }
    // Old programs print no error number, and this limit is the commonest reason.
    let is_unexplained = case
        .seen(&[SymptomKind::RegMrFailed, SymptomKind::CreateUnexplained])
        .any(|symptom| symptom.named.errno.is_none() && symptom.named.gpu.is_none());
    // A pod has the limit of one of them, so one is enough to make it doubtful.
    if is_unexplained {
        scales.unseen(unseen(case));
    } else if let Some((source, value)) = unlimited.into_iter().next().filter(|_| !limited) {
        scales.doubts(source, value);
        scales.unseen(unseen(case));
    }
    if of_pods.is_empty() && !probed {
        scales.unseen(unseen(case));
    }
}

/// What a runtime without a memlock limit shows of the jobs that it starts.
fn without_limit(runtime: &str) -> String {
    if runtime == "slurmd" {
        return "slurmd has no memlock limit, so its jobs have none; one that ssh starts may have".to_owned();
    }
    format!("{runtime} has no memlock limit, so a pod would not be limited; a job of Slurm or ssh may be")
}

/// The high limit of locked memory that a shell of the job printed: then it is not what a call ran into that had no room. What the container runtimes of
/// the node have says less: a job that MPI or a login starts has another limit.
pub(super) fn unlimited(case: &Case<'_>) -> Option<(String, String)> {
    let printed = case.log.and_then(|log| log.memlock)?;
    let is_ample = printed.bytes.is_none_or(|bytes| bytes >= AMPLE_MEMLOCK);
    is_ample.then(|| {
        (
            format!("log line {}", printed.line),
            "ulimit -l prints a high limit".to_owned(),
        )
    })
}

/// Weighs what was created before memory was short.
fn endpoint_made(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = segment(case) {
        let text = "the endpoint was created, which a low memlock limit prevents";
        scales.doubts(&symptom.source, text);
    }
    if let Some(symptom) = efa_queue(case) {
        scales.doubts(&symptom.source, "EFA needs little locked memory for a queue pair");
    }
}

/// What a shell printed of the limit; whether that decides.
fn is_printed(case: &Case<'_>, scales: &mut Scales) -> bool {
    let Some(printed) = case.log.and_then(|log| log.memlock) else {
        return false;
    };
    let source = format!("log line {}", printed.line);
    match printed.bytes {
        Some(bytes) if bytes < AMPLE_MEMLOCK => {
            scales.shows(source, format!("ulimit -l prints {} KiB", bytes / 1024));
            true
        }
        // The job may have been started in another way.
        _ => {
            scales.doubts(source, "ulimit -l prints a high limit");
            false
        }
    }
}

/// The kernel answers with EPERM only where a process may lock nothing (`can_do_mlock`). Returns whether it did.
fn forbidden(case: &Case<'_>, scales: &mut Scales) -> bool {
    let is_forbidden = |symptom: &&Symptom| symptom.named.errno == Some(Errno::EPERM);
    let mut failed = case.seen(&[SymptomKind::RegMrFailed]);
    let Some(symptom) = failed.find(is_forbidden) else {
        return false;
    };
    scales.shows(
        &symptom.source,
        "EPERM: the process may lock no memory (limit 0, without the capability IPC_LOCK)",
    );
    true
}

/// A registration of GPU memory as DMA-BUF for which something had no room (ENOMEM).
fn of_dma_buf<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let names = |symptom: &Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        ["dmabuf", "dma-buf"].iter().any(|word| text.contains(word))
    };
    let of_memory = |symptom: &&Symptom| symptom.kind == SymptomKind::RegMrNoMemory;
    case.symptoms
        .iter()
        .copied()
        .filter(of_memory)
        .find(|symptom| names(symptom))
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

/// A region that could not be registered with EFA (ENOMEM).
fn efa_region<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let is_region = |symptom: &&Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        let is_of_efa = text.contains("efa") || text.contains("fi_mr_reg") && case.is_efa();
        symptom.kind == SymptomKind::RegMrNoMemory && is_of_efa
    };
    case.symptoms.iter().copied().find(is_region)
}

/// A segment of a GiB or more that could not be registered for an endpoint (ENOMEM, ENOSPC): `fi_mr_regattr() when binding segment [0x602000000, 0xecc000000) to
/// EP 2`.
fn segment<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    const LARGE: u64 = 1 << 30;
    let hex = |text: &str| u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
    let size = |text: &str| {
        let (_, range) = text.split_once("segment [")?;
        let (from, rest) = range.split_once(',')?;
        let to = rest.split([')', ']']).next()?;
        hex(to)?.checked_sub(hex(from)?)
    };
    let is_one = |symptom: &&Symptom| {
        let has_no_room = symptom.kind == SymptomKind::RegMrNoMemory
            || symptom.kind == SymptomKind::RegMrFailed && symptom.named.errno == Some(Errno::ENOSPC);
        has_no_room && size(&symptom.text.to_ascii_lowercase()).is_some_and(|size| size >= LARGE)
    };
    case.symptoms.iter().copied().find(is_one)
}

/// Whether a line in lower case is about the contexts of an Omni-Path adapter.
fn is_of_contexts(text: &str) -> bool {
    ["hfi unit", "hfi_userinit", "gen1_context_open"]
        .iter()
        .any(|name| text.contains(name))
}

/// What to do where the contexts of an Omni-Path adapter are used up.
const CONTEXTS: &str = "Check that the port is active (opainfo, or ibstat), and compare the processes of the node with the contexts of the adapter, of which each \
                process opens one: /sys/class/infiniband/hfi1_0/nctxts and nfreectxts. Run fewer processes, or end old ones that keep contexts: fuser -v \
                /dev/hfi1_0. Or let them share contexts (PSM2_MAX_CONTEXTS_PER_JOB), or raise num_user_contexts of the module hfi1.";

/// What to do about a region that was refused with EIO.
const OF_EIO: &str = "Read what the driver logged about it: journalctl -k --since -10min | grep -e mlx -e ib_ -e infiniband. EIO comes from the adapter or its driver (a command that failed, an adapter that was \
    reset, a region above max_mr_size of ibv_devinfo -v): register smaller regions, reset the adapter, and bring driver and firmware to releases that belong together. Older UCX also prints it for any refusal: UCX_LOG_LEVEL=info shows the line of \
    ibv_reg_mr with its own error; with Cannot allocate memory, raise the memlock limit (ulimit -l unlimited).";

/// An EFA device that refused a region.
fn of_efa_region(case: &Case<'_>, symptom: &Symptom, scales: &mut Scales) {
    // A pod of this node would not be limited.
    let is_free = |soft: Option<u64>| soft.is_none();
    let runtimes = case.node.limits.runtimes.known().map_or(&[][..], Vec::as_slice);
    let limits: Vec<_> = runtimes
        .iter()
        .filter_map(|runtime| runtime.memlock.known())
        .collect();
    // A limit that is too low fails the endpoints of libfabric's provider before its regions.
    let text = symptom.text.to_ascii_lowercase();
    let of_provider = [":efa:mr:", "fi_mr_reg"].iter().any(|name| text.contains(name));
    if (!limits.is_empty() || of_provider) && limits.iter().all(|limit| is_free(limit.soft)) {
        scales.fits(&symptom.source, &symptom.text);
    }
    scales.next_step = Some(
        "Check ulimit -l where the job runs: it must be unlimited. If it is, the EFA has no room for as many pages: use huge pages for the buffers (sysctl \
        vm.nr_hugepages=N, FI_EFA_USE_HUGE_PAGE=1 for those of libfabric), or register less at once. Each huge page of 2 MiB takes the place of 512 others."
            .into(),
    );
}

pub(crate) fn resources(case: &Case<'_>, scales: &mut Scales) {
    if exhausted::infinipath(case, scales) || exhausted::bounce(case, scales) {
        return;
    }
    if let Some((_, limit)) = limited(case) {
        let held = format!("{} of {} {}", limit.current, limit.limit, limit.resource);
        return scales.shows(format!("{}/rdma.max of {}", limit.group, limit.device), held);
    }
    if let Some(symptom) = of_dma_buf(case) {
        scales.fits(&symptom.source, &symptom.text);
        scales.next_step = Some(
            "The call maps GPU memory into the adapter, and one of them has no room for it; the memlock limit is not the reason. Register less: smaller or \
            fewer buffers (NCCL_BUFFSIZE, the size of the KV cache or pool). Compare the free BAR1 of the GPU (nvidia-smi -q -d MEMORY) with the size of the \
            buffers, and read what the kernel logged: journalctl -k | grep -i -e nvrm -e mlx5. To compare, register through nvidia_peermem \
            (NCCL_DMABUF_ENABLE=0)."
                .into(),
        );
        return;
    }
    if let Some(symptom) = efa_queue(case) {
        scales.fits(&symptom.source, &symptom.text);
        scales.next_step = Some(
            "Compare the number of queue pairs in use (rdma resource show qp) with max_qp of ibv_devinfo -v: an EFA has few. Run fewer processes for \
            each device, or use libfabric's shared contexts."
                .into(),
        );
        return;
    }
    if let Some(symptom) = efa_region(case) {
        of_efa_region(case, symptom, scales);
        return;
    }
    if let Some(symptom) = segment(case) {
        scales.fits(&symptom.source, &symptom.text);
        scales.next_step = Some(
            "Register less at once: the endpoint was there, so what has no room is the adapter, or the GPU for its mapping. Make the segment or pool that the line names smaller \
            (Legion and Realm: -ll:fsize, -ll:rsize; GASNet: GASNET_MAX_SEGSIZE), or use huge pages. Compare with ulimit -l where the job runs, which must be unlimited."
                .into(),
        );
        return;
    }
    if let Some(symptom) = refused(case) {
        return match symptom.named.errno {
            // The region is larger than the adapter supports, or it has no room for another one.
            Some(Errno::ERANGE) => {
                scales.next_step = Some(
                    "Compare the size of the region with max_mr_size and the number of regions with max_mr: ibv_devinfo -v. Register \
                    smaller regions."
                        .into(),
                );
                scales.fits(&symptom.source, &symptom.text);
            }
            // Older UCX returns it for any failure.
            Some(Errno::EIO) => {
                scales.next_step = Some(OF_EIO.into());
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
        used_up(case, symptom, scales);
    } else if let Some(line) = case.kernel_line(&["limits exceeded", "reg mr failed"]) {
        scales.shows("/dev/kmsg", line);
    } else {
        if case
            .seen(&[SymptomKind::RegMrFailed])
            .any(|symptom| symptom.named.errno.is_none())
        {
            scales.doubts("log", "no error number of a limit");
        }
        if case
            .seen(&[SymptomKind::CreateUnexplained])
            .any(|symptom| is_of_contexts(&symptom.text.to_ascii_lowercase()))
        {
            scales.next_step = Some(CONTEXTS.to_owned());
        }
        let mut created = case.seen(&[SymptomKind::CreateUnexplained]);
        if let Some(step) = created.find_map(exhausted::unexplained) {
            scales.next_step = Some(step.to_owned());
        }
        let is_short = case
            .seen(&[SymptomKind::RegMrNoMemory, SymptomKind::CreateFailed])
            .any(|symptom| symptom.line.is_some());
        if let Some((source, value)) = unlimited(case).filter(|_| is_short) {
            scales.fits(source, value);
        }
        scales
            .unseen("memory regions and queues in use (rdma resource show) and rdma.max of the job's cgroup");
    }
}

/// What could not be opened or created on a device of which a cgroup has all that it may have, and that limit.
pub(super) fn limited<'a>(case: &'a Case<'_>) -> Option<(&'a Symptom, &'a Reached)> {
    let reached = case.node.objects.reached.known()?;
    let kinds = [
        SymptomKind::OpenFailed,
        SymptomKind::CreateFailed,
        SymptomKind::CreateUnexplained,
        SymptomKind::RegMrNoMemory,
        SymptomKind::RegMrFailed,
        SymptomKind::NoMemory,
    ];
    let mut failed = case.seen(&kinds).filter_map(|symptom| {
        let is_of_device = |limit: &&Reached| symptom.named.device.as_ref() == Some(&limit.device);
        Some((symptom, reached.iter().find(is_of_device)?))
    });
    failed.next()
}

/// What a library reports as used up, and where to look for more of it.
fn used_up(case: &Case<'_>, symptom: &Symptom, scales: &mut Scales) {
    let text = symptom.text.to_ascii_lowercase();
    if refused_by_target(&text) && text.contains("nvme") {
        scales.next_step = Some(
            "The target refused the connection because it has no controller or queue left for it; this host is not short of any. End connections of other hosts \
            that are no longer needed, raise the limits of the target (SPDK: nvmf_create_transport -m for queue pairs; nvmet: rdma resource show on the target), or let this \
            host open fewer queues: nvme connect --nr-io-queues=N --queue-size=N."
                .into(),
        );
    } else if refused_by_target(&text) {
        scales.next_step = Some(
            "The target refused the connection because it has no resources left for it; this host is not short of any. End sessions of other hosts that are no \
            longer needed, raise the limit of the target, or let this host open fewer channels: options ib_srp ch_count=N in /etc/modprobe.d."
                .into(),
        );
    } else if text.contains("reject") && text.contains("no resource") {
        scales.next_step = Some(
            "The other end refused the connection because it has no resources left for it; this node is not short of any. There, run rdma resource show, read its kernel log, and end connections or mounts that are \
            no longer needed, or raise its limits (for LNet the module options peer_credits, ntx and conns_per_peer of ko2iblnd must suit the number of peers)."
                .into(),
        );
    } else if is_of_contexts(&text) {
        scales.next_step = Some(CONTEXTS.to_owned());
    } else if text.contains("ucx function returned") {
        scales.next_step = Some(
            "Compare the size of /dev/shm with the number of ranks on the node: df -h /dev/shm (a container has 64 MiB unless --shm-size, or in a pod a \
            volume emptyDir with medium Memory, gives more). If it has room, rdma resource show and ulimit -n show what else is used up. The line of \
            UCX before it names the transport: UCX_LOG_LEVEL=info."
                .into(),
        );
        return scales.fits(&symptom.source, &symptom.text);
    } else if text.contains("devx_obj_create") {
        scales.next_step = Some(
            "Run fewer processes for each device, or set UCX_TLS=dc,self,sm, whose queues do not grow with the number of peers. The adapter or its driver \
            has no room for another queue; locked memory is not what is missing. rdma resource show and the kernel log (limits exceeded) show what \
            is used up, free -g the memory of the node."
                .into(),
        );
    } else {
        // A later line may name what is used up: the kernel's, after that of the library.
        let mut named = case.seen(&[SymptomKind::ResourceLimit]);
        let step = named.find_map(|symptom| exhausted::step(&symptom.text.to_ascii_lowercase()));
        scales.next_step = step.map(Into::into);
    }
    scales.shows(&symptom.source, &symptom.text);
}

/// The message says that the target has no room, not this host.
fn refused_by_target(text: &str) -> bool {
    let words = [
        "rej reason 0x3",
        "nvme status 6",
        "resource not found",
        "connect command failed",
    ];
    words.iter().any(|words| text.contains(words))
}
