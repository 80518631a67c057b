//! The devices and memory of a job, and its peers.

use rdma_health_node::{
    UnreadKind,
    infiniband::{CLASS, Hca},
};
use rdma_health_protocol::{Errno, WcStatus};

use super::{
    Case, Scales,
    cluster::{resource_step, start_step},
    crash::hung_consumer,
    fabric,
    hardware::is_silent,
    library::{BOOTSTRAP, of_providers, over_tcp, unbuilt, without_support},
    limits, modules, probes_passed, view,
};
use crate::{
    log::is_of_gpu_memory,
    symptom::{Grade, Software, Symptom, SymptomKind},
};

/// What to do where a plugin lists the devices that it found, and none that it can offer.
fn of_list(case: &Case<'_>) -> Option<&'static str> {
    // What it found instead says more than that it has none to offer.
    let mut symptoms = case.log?.symptoms.iter();
    let list = symptoms.find(|symptom| symptom.text.to_ascii_lowercase().contains("ibvdevlist"))?;
    start_step(list)
}

/// What to do where a program of a cluster finds no device.
const BY_PROGRAM: &str = "Where the job runs, run ls -l /dev/infiniband and ibv_devinfo. If they list the devices, check which one the program selects \
            (MV2_IBA_HCA, UCX_NET_DEVICES, the PCI address for DPDK). If they list none, the job runs without the node's devices: a pod needs the \
            RDMA resource, another container /dev/infiniband, and Slurm may exclude devices (ConstrainDevices in cgroup.conf).";

/// Whether the function that a program misses is bound to a driver for virtual machines, which is said against the cause.
fn is_lent(case: &Case<'_>, scales: &mut Scales) -> bool {
    let Some(lent) = modules::lent(case) else {
        return false;
    };
    let what = format!(
        "{} has no RDMA device: it is bound to {}",
        lent.address, lent.driver
    );
    scales.against(&lent.symptom.source, what);
    true
}

/// The devices of the node with an active port.
fn active<'a>(case: &'a Case<'_>) -> Vec<&'a str> {
    let is_active = |hca: &Hca| hca.ports.values().any(|port| port.is_active() == Some(true));
    let active = case.node.hcas().filter(|hca| is_active(hca));
    active.map(|hca| hca.name.as_str()).collect()
}

/// The device that a cgroup may open no more of, if that failed.
fn refused_by_cgroup(case: &Case<'_>) -> Option<(String, String)> {
    let (symptom, limit) = limits::limited(case)?;
    let reason = format!("the cgroup {} may open no more of {}", limit.group, limit.device);
    (symptom.kind == SymptomKind::OpenFailed).then(|| (symptom.source.clone(), reason))
}

pub(crate) fn device_not_given(case: &Case<'_>, scales: &mut Scales) {
    if is_lent(case, scales) {
        return;
    }
    scales.insisted_step = fabric::psm_step(case).map(str::to_owned);
    if let Some(symptom) = case.seen(&[SymptomKind::ResourceUnavailable]).next() {
        scales.fits(&symptom.source, &symptom.text);
        let step = of_list(case).unwrap_or_else(|| resource_step(symptom));
        scales.next_step = Some(step.to_owned());
        return;
    }
    if let Some(symptom) = case
        .seen(&[SymptomKind::SocketFallback])
        .find(|symptom| is_of_gpu_memory(symptom))
    {
        scales.insisted_step = Some(GPU_OVER_TCP.to_owned());
        return scales.fits(&symptom.source, &symptom.text);
    }
    if let Some((symptom, step)) = case
        .seen(&[SymptomKind::NoDevice])
        .find_map(|symptom| Some((symptom, start_step(symptom)?)))
    {
        scales.insisted_step = Some(step.to_owned());
        return scales.fits(&symptom.source, &symptom.text);
    }
    if case.log.is_some_and(|log| log.marks.login) {
        scales.doubts("log", "the tools in a login session find no device either");
    }
    if without_support(case).is_some() {
        scales.doubts("log", "a tool lists an active port");
        scales.unseen("RDMA devices where the job runs (ls /dev/infiniband)");
        return;
    }
    if over_tcp(case).is_some() {
        return scales.doubts("log", "Open MPI found the adapter, and left it out");
    }
    if of_providers(case).is_some() {
        scales.unseen("providers of libfabric where the job runs (fi_info -l)");
        return;
    }
    if let Some(step) = without_provider(case).or_else(|| without_transport(case)) {
        scales.insisted_step = Some(step.to_owned());
    }
    if case.log.is_some_and(|log| log.marks.names_device) {
        return scales.doubts("log", "Open MPI names the device that it found");
    }
    if case.log.is_some_and(|log| log.marks.lists_adapter) {
        return scales.doubts("log", "lspci lists the adapter where the job runs");
    }
    if case.log.is_some_and(|log| log.marks.given) {
        scales.doubts("log", "the container was started with the RDMA devices");
        return;
    }
    if case.node.hcas.unread().is_some() {
        return scales.unseen("RDMA devices of the node");
    }
    let active = active(case);
    if active.is_empty() {
        return scales.against(CLASS, "the node has no device with an active port either");
    }
    if view::devices(case, scales) {
        return;
    }
    if let Some((source, reason)) = refused_by_cgroup(case) {
        return scales.against(source, reason);
    }
    // "No device" means that the job saw none of them. A fallback to TCP can also be configured.
    let none_seen = case.seen(&[SymptomKind::NoDevice]).next().is_some();
    let names = if active.len() > 8 {
        format!("{} and {} more", active[..8].join(", "), active.len() - 8)
    } else {
        active.join(", ")
    };
    let value = format!("active on the node: {names}");
    let by_program = case.symptoms.iter().find(|symptom| {
        let is_of_cluster = matches!(
            symptom.software,
            Some(Software::Mpi | Software::OpenMpi | Software::Dpdk)
        );
        symptom.line.is_some() && is_of_cluster
    });
    if by_program.is_some() {
        scales.next_step = Some(BY_PROGRAM.to_owned());
    }
    // A function that DPDK names and that is not here shows nothing about the devices that are.
    let of_absent = by_program
        .and_then(|symptom| symptom.named.function.as_deref())
        .is_some_and(|function| case.node.pci.has(function) == Some(false));
    if none_seen && !of_absent {
        scales.fits(CLASS, value);
    }
    if case.node.modules.exclusive_namespaces.known() == Some(&true) {
        scales.fits(
            "/sys/module/ib_core/parameters/netns_mode",
            "N: a container sees only the RDMA devices that were moved to its network namespace (rdma system show)",
        );
        scales.next_step = Some(EXCLUSIVE.to_owned());
    }
    scales.unseen("RDMA devices where the job runs (ls /dev/infiniband)");
}

/// What to do where libfabric has nothing for what a program asks for: `fi_getinfo: -61`.
fn without_provider(case: &Case<'_>) -> Option<&'static str> {
    let is_one = |symptom: &Symptom| {
        symptom.kind == SymptomKind::NoDevice
            && (symptom.text.contains("fi_getinfo") || symptom.text.contains("fi_info"))
            && symptom.named.errno == Some(Errno::ENODATA)
    };
    if !case.symptoms.iter().any(|symptom| is_one(symptom)) {
        return None;
    }
    Some(if case.is_efa() {
        "Where the job runs, compare ls /dev/infiniband with ls /sys/class/infiniband: the provider efa of libfabric finds no device that it can open (-61). A pod gets \
        exactly its devices by requesting vpc.amazonaws.com/efa. Do not mount the host path /dev/infiniband as well: it also shows files that the pod's cgroup refuses, and \
        then the provider may give up. FI_LOG_LEVEL=warn fi_info -p efa shows its reason."
    } else {
        "No provider of libfabric has what the program asks for (-61). fi_info -p verbs -v shows what it finds where the job runs, and FI_LOG_LEVEL=info why it \
        leaves out the rest. verbs finds a port only if its network device has an IP address: on InfiniBand set one up with IPoIB (modprobe ib_ipoib, ip addr add). \
        If it finds nothing, check ls /dev/infiniband; if it finds the port, the program asks for another domain, address or capability."
    })
}

/// What to do where UCX lists what it has, and none of it is of RDMA: either no device is there, or its own part for RDMA.
fn without_transport(case: &Case<'_>) -> Option<&'static str> {
    case.seen(&[SymptomKind::NoDevice])
        .any(|symptom| symptom.software == Some(Software::Ucx) && symptom.text.contains("one or more of"))
        .then_some(
            "UCX lists what it can use, and nothing of RDMA is among it. Where the job runs, compare ibv_devinfo with ucx_info -d | grep -i transport. If ibv_devinfo lists \
            devices and ucx_info no rc, ud or dc, this UCX has no RDMA: install one that was built with libibverbs (--with-verbs), with its module libuct_ib. If ibv_devinfo lists \
            none, the job runs without the devices: in a pod request the RDMA resource, start another container with --device /dev/infiniband.",
        )
}

/// What to do where containers see only the RDMA devices of their own network namespace.
const EXCLUSIVE: &str = "Move RDMA devices into the pods with the RDMA CNI (rdma-cni in the NetworkAttachmentDefinition), or share them with all containers: \
    rdma system set netns shared, before any container uses one. The node is in exclusive mode: a container sees only the devices of its own network \
    namespace. At boot: options ib_core netns_mode=1 in /etc/modprobe.d.";

/// What to do where SoftRoCE is there, no device of it, and no adapter.
const NO_SOFT_DEVICE: &str = "The module of SoftRoCE is there, and no device of it was made: rdma link add rxe0 type rxe netdev NETDEV, with the network card that shall carry it (ip -br link), then rdma \
    link show and ibv_devices. rxe_cfg is the older tool for it (rxe_cfg add NETDEV) and needs a rdma-core that still has it. The device is gone after a restart of the node. If ibv_devices does not list it \
    afterwards, the provider of rdma-core is missing: package ibverbs-providers, file librxe-rdmav*.so.";

/// A log that shows the module of `SoftRoCE`, and no adapter.
fn is_of_soft_roce(case: &Case<'_>) -> bool {
    let shown = case.log.map(|log| log.marks);
    shown.is_some_and(|marks| marks.soft_roce && !marks.lists_adapter) && case.node.hcas().next().is_none()
}

pub(crate) fn no_device(case: &Case<'_>, scales: &mut Scales) {
    if is_of_soft_roce(case) {
        scales.next_step = Some(NO_SOFT_DEVICE.to_owned());
    }
    // A node whose own facts are not known has the devices that its log names.
    let named = |symptom: &&&Symptom| symptom.named.device.is_some();
    if case.node.hcas.unread().is_some()
        && let Some(symptom) = case.symptoms.iter().find(named)
        && let Some(device) = &symptom.named.device
    {
        return scales.against(&symptom.source, format!("it names {device}"));
    }
    match (case.node.hcas().count(), case.node.hcas.unread()) {
        (_, Some(_)) if case.log.is_some_and(|log| log.marks.login) => {
            scales.fits("log", "the tools in a login session find no device");
        }
        (_, Some(unread)) => scales.unseen(format!("RDMA devices of the node: {unread}")),
        (0, None)
            if modules::missing_driver(case).is_some()
                || case.seen(&[SymptomKind::FirmwareMismatch]).next().is_some() =>
        {
            scales.fits(CLASS, "no RDMA device");
        }
        (0, None) => scales.shows(CLASS, "no RDMA device"),
        (count, None) => scales.against(
            CLASS,
            if count == 1 {
                "1 RDMA device".into()
            } else {
                format!("{count} RDMA devices")
            },
        ),
    }
}

pub(crate) fn userspace(case: &Case<'_>, scales: &mut Scales) {
    if view::libraries(case, scales) {
        return;
    }
    let is_experimental = |symptom: &&Symptom| symptom.text.contains("ibv_exp_");
    if let Some(symptom) = case
        .seen(&[SymptomKind::VersionMismatch])
        .find(|symptom| is_experimental(symptom))
    {
        scales.insisted_step = Some(fabric::EXPERIMENTAL.to_owned());
        return scales.shows(&symptom.source, &symptom.text);
    }
    if let Some(symptom) = case
        .seen(&[SymptomKind::VersionMismatch])
        .find(|symptom| fabric::is_of_initiator(symptom))
    {
        scales.insisted_step = Some(fabric::INITIATOR.to_owned());
        return scales.shows(&symptom.source, &symptom.text);
    }
    unbuilt(case, scales);
    let logged = case
        .seen(&[
            SymptomKind::NoLibrary,
            SymptomKind::NoProvider,
            SymptomKind::LibraryMismatch,
        ])
        .next();
    if let Some(step) = logged.and_then(fabric::library_step) {
        scales.insisted_step = Some(step.to_owned());
    }
    // A device that the system does not let the program open has its provider.
    let denied = case.symptoms.iter().find(|symptom| {
        symptom.named.device.is_some()
            && matches!(symptom.named.errno, Some(Errno::EACCES | Errno::EPERM))
            && matches!(symptom.kind, SymptomKind::OpenFailed | SymptomKind::NotPermitted)
    });
    if let Some(symptom) = denied {
        return scales.against(
            &symptom.source,
            "the provider was found: the system refused the open call",
        );
    }
    match logged {
        // The library itself reports it.
        Some(symptom)
            if matches!(
                symptom.kind,
                SymptomKind::NoLibrary | SymptomKind::LibraryMismatch
            ) || symptom.text.contains("ernel ABI") =>
        {
            scales.shows(&symptom.source, &symptom.text);
        }
        // libibverbs found the device and no library for it.
        Some(symptom)
            if symptom.text.contains("no userspace device-specific driver")
                || symptom.kind == SymptomKind::NoProvider && case.node.hcas().next().is_some() =>
        {
            scales.shows(&symptom.source, &symptom.text);
        }
        Some(symptom) => scales.fits(&symptom.source, &symptom.text),
        None => {
            let created = case.seen(&[SymptomKind::CreateUnexplained]).next();
            if let Some(symptom) = created {
                scales.doubts(
                    &symptom.source,
                    "the program opened the device with its provider before",
                );
            }
            scales.unseen("libraries in the job's image (run ibv_devinfo in it)");
        }
    }
}

pub(crate) fn application(case: &Case<'_>, scales: &mut Scales) {
    let own = case.symptoms.iter().find(|symptom| {
        symptom.line.is_none()
            && matches!(
                symptom.kind,
                SymptomKind::Completion(_) | SymptomKind::RegMrFailed
            )
    });
    if let Some(symptom) = own {
        return scales.against(
            &symptom.source,
            "the probe fails too, with memory that it registered itself",
        );
    }
    let is_empty = case.log.is_some_and(|log| log.marks.empty_region);
    let empty = case.seen(&[SymptomKind::RegMrFailed]).find(|_| is_empty);
    if let Some(symptom) = empty {
        scales.insisted_step = Some(
            "The program registers a region of 0 bytes, which this adapter refuses. Find the call: with MPI, MPI_Win_create with size 0 on a rank. Give \
            the window some bytes on each rank, update libfabric or the MPI library, which may leave such regions out, or choose another provider or \
            transport for one-sided communication."
                .into(),
        );
        return scales.shows(&symptom.source, &symptom.text);
    }
    if let Some(symptom) = case.gpu_registration() {
        scales.doubts(&symptom.source, "the memory is a GPU's");
    }
    if let Some(symptom) = super::dma::not_inserted(case) {
        scales.against(&symptom.source, "a module could not be loaded");
    }
    let is_without_gpu = case.log.is_some_and(|log| !log.names_gpu);
    if is_without_gpu
        && case
            .seen(&[SymptomKind::RegMrFailed])
            .any(super::dma::is_of_mapping)
    {
        scales.insisted_step = Some(
            "Check the buffer that the program registers: its address and length, whether it is still mapped, and whether the mapping may be written. Memory that is \
            mapped for reading only (a file or a shared segment opened so) is refused with EFAULT if the access flags let the adapter write. Map it for writing, or register it for reading only. \
            If it is memory of a GPU, the path between GPU and adapter is missing instead."
                .into(),
        );
    }
    let unregistered = case.seen(&[SymptomKind::PostRefused]).find(|symptom| {
        symptom
            .text
            .to_ascii_lowercase()
            .contains("no translation for ptr")
    });
    if let Some(symptom) = unregistered {
        scales.insisted_step = Some(
            "SPDK transfers from its own huge pages only: the buffer must come from spdk_dma_malloc or spdk_zmalloc, or be registered with spdk_mem_register in \
            parts of 2 MiB. A program that passes other memory (malloc, a file mapping, memory of a GPU) gets this error; update the program, or let it copy."
                .into(),
        );
        return scales.shows(&symptom.source, &symptom.text);
    }
    let is_of_service = |symptom: &&&Symptom| {
        symptom.kind == SymptomKind::PostRefused && symptom.software.is_some_and(Software::is_storage)
    };
    if let Some(symptom) = case.symptoms.iter().find(is_of_service) {
        scales.doubts(
            &symptom.source,
            "a storage service sends the same requests over other adapters",
        );
    }
    if probes_passed(case) {
        scales.fits(
            "probe",
            "memory registration and loopback writes pass on this node",
        );
    } else {
        scales.unseen("loopback on this node (rdma-health check --probe)");
    }
}

/// A client of storage whose first connection is refused has had no peer that could end: the target does not listen there.
fn first_refusal<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    const FIRST: [&str; 2] = ["/dev/nvme-fabrics", "rdma connection establishment failed"];
    let lost = [SymptomKind::PeerClosed, SymptomKind::PeerUnreachable];
    let again = case.log.is_some_and(|log| log.marks.reconnects);
    if again || case.seen(&lost).next().is_some() {
        return None;
    }
    case.symptoms.iter().copied().find(|symptom| {
        symptom.kind == SymptomKind::ConnectRefused
            && symptom.software.is_some_and(Software::is_storage)
            && FIRST.iter().any(|words| symptom.text.contains(words))
    })
}

/// The answer of the peer names it, or a client of storage gets nowhere.
pub(crate) fn no_listener(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = first_refusal(case) {
        scales.next_step = Some(
            "On the target, list what listens over RDMA: rdma resource show cm_id, and the address, port and transport of the subsystem's ports (nvmetcli ls, \
            or SPDK's nvmf_get_subsystems). The address must be that of an RDMA interface on both ends (rdma link show, ip -brief address), and in the \
            routed network of each other: rping -c -a ADDRESS. The kernel log of the target says why it refused."
                .into(),
        );
        return scales.fits(&symptom.source, &symptom.text);
    }
    logged(case, scales);
}

pub(crate) fn peer_failed(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.symptoms.iter().find(|symptom| symptom.line.is_none()) {
        return scales.against(&symptom.source, "a loopback probe has no peer");
    }
    if let Some(symptom) = first_refusal(case) {
        scales.doubts(&symptom.source, "the connection was not there yet");
    }
    // IBV_EVENT_QP_REQ_ERR and IBV_EVENT_QP_ACCESS_ERR: the adapter refused what this end itself posted or owns.
    let is_own = |symptom: &&Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        ["invalid request local", "local access violation"]
            .iter()
            .any(|words| text.contains(words))
    };
    let of_queue = [
        SymptomKind::QueueError,
        SymptomKind::QueueFatal,
        SymptomKind::QueueAccess,
    ];
    if let Some(symptom) = case.seen(&of_queue).find(|symptom| is_own(symptom)) {
        scales.doubts(&symptom.source, "the adapter refused a request of this end");
    }
    if case
        .seen(&[SymptomKind::Completion(WcStatus::RemOpErr)])
        .any(|symptom| symptom.grade == Grade::Failure)
    {
        scales.next_step = Some(REMOTE_OPERATION.to_owned());
    }
    let ended = [SymptomKind::RankFailed, SymptomKind::PeerClosed];
    if let Some(symptom) = case.seen(&ended).find(|symptom| symptom.grade == Grade::Failure) {
        scales.fits(&symptom.source, &symptom.text);
        if symptom.kind == SymptomKind::RankFailed {
            scales.next_step = Some(format!(
                "{}: correct why this process ended. What its peers report about RDMA follows from it.",
                symptom.source
            ));
        }
    }
    let is_late = |symptom: &Symptom| {
        symptom.kind == SymptomKind::CollectiveTimeout && symptom.grade == Grade::Unrecognised
    };
    if case.symptoms.iter().any(|symptom| is_late(symptom)) {
        // The rank that stopped comes before the network between the ranks, of which nothing is known.
        scales.score += 1;
        scales.next_step = Some(LATE.to_owned());
    }
    scales.unseen("log of the other end");
}

/// What to do where only the watchdog of a rank reports that an operation did not end in time.
pub(crate) const LATE: &str = "Find the rank that is late: compare the last enqueued and the last completed work of all ranks in their own logs, or in the dumps of the \
    flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1), and show where it waits: py-spy dump --pid PID. A rank that is not in the operation had an \
    error, ended, waits for data or has fewer batches than the others. If all ranks wait in the same operation, run with NCCL_DEBUG=INFO: its lines show the network and the errors there.";

/// What to do where the adapter of the other end could not complete a request.
const REMOTE_OPERATION: &str = "Run rdma-health check on the peer's node, whose adapter accepted the request and could not complete it (the line names it by rqpn, dlid or address). Read its \
    kernel log of that time for the adapter, PCIe and the IOMMU: journalctl -k | grep -i -e mlx5 -e aer -e dmar. Read the log of the rank there, too: if it had freed the memory or \
    ended, that is why.";

pub(crate) fn gpu_only(case: &Case<'_>, scales: &mut Scales) {
    if case.node.pci.functions.known().is_some() && case.gpus() == 0 {
        scales.against("/sys/bus/pci/devices", "no GPU");
    }
}

pub(crate) fn stalled(case: &Case<'_>, scales: &mut Scales) {
    let hung = case
        .node
        .unread()
        .find(|(_, unread)| unread.kind == UnreadKind::Hung);
    if let Some((_, unread)) = hung {
        scales.shows(&unread.source, format!("{} ({})", unread.detail, unread.kind));
    }
    if let Some((function, module)) = hung_consumer(case) {
        scales.fits(
            "log",
            format!("a task hangs in {function} of the module {module}"),
        );
        scales.next_step = Some(format!(
            "A task waits in {function} of the module {module} for its connection to end. Look for what the module and the adapter's driver logged before: \
            journalctl -k | grep -e {module} -e rdma -e mlx5. Check the node at the other end. The process cannot be ended: drain and restart the node. \
            If it happens again, use another version of the module."
        ));
    }
}

/// What the processes of a node share, and what keeps one from it.
pub(crate) fn shared_memory(case: &Case<'_>, scales: &mut Scales) {
    const READ: &str = "One process may not read the memory of another one on the node (CMA: process_vm_readv), which the kernel permits as ptrace. Run the ranks of a node in \
        one container, or let them share the user and PID namespace and give them the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE); on the host, sysctl \
        kernel.yama.ptrace_scope=0. Or do without: OMPI_MCA_btl_vader_single_copy_mechanism=none (Open MPI 5: OMPI_MCA_smsc=^cma), UCX_TLS=^cma.";
    const LINK: &str = "UCX opens the shared memory of another process through /proc/PID/fd, which it does not see or may not open: the ranks of the node run in different PID or user \
        namespaces. Let them share these (one container for all ranks of a node, --ipc=host and --pid=host, Apptainer without --pid and --userns), or set UCX_POSIX_USE_PROC_LINK=n or \
        UCX_TLS=^posix, so that UCX uses names in /dev/shm or System V segments.";
    let says = |words: &[&str]| {
        case.seen(&[SymptomKind::SharedMemory]).any(|symptom| {
            let text = symptom.text.to_ascii_lowercase();
            words.iter().any(|word| text.contains(word))
        })
    };
    if says(&["read -1", "cma support", "process_vm_"]) {
        scales.insisted_step = Some(READ.to_owned());
    } else if says(&["/proc/"]) {
        scales.insisted_step = Some(LINK.to_owned());
    }
    logged(case, scales);
}

/// SUSE refuses modules that it does not support, whatever their signature.
fn unsupported_module(case: &Case<'_>, scales: &mut Scales) {
    let unsupported = case
        .seen(&[SymptomKind::ModuleUnsigned])
        .any(|symptom| symptom.text.contains("is unsupported"));
    if unsupported {
        scales.insisted_step = Some(
            "SUSE loads only modules that it supports. Set allow_unsupported_modules 1 in /etc/modprobe.d/10-unsupported-modules.conf (or load with modprobe \
            --allow-unsupported), run dracut -f, and load the module again; or install the driver packages (KMP) that SUSE or the vendor signed for \
            this kernel."
                .into(),
        );
    }
}

/// TCP was given memory of a GPU.
const GPU_OVER_TCP: &str = "The library uses its transport over TCP, whose send cannot read GPU memory (Bad address). It took TCP because it found no RDMA device, or because a setting selects it: where the job runs, \
    run ls /dev/infiniband and ibv_devinfo. A container needs the devices (docker run --device /dev/infiniband, in a pod the RDMA resource); then select RDMA again (Mooncake: protocol rdma, unset \
    MC_FORCE_TCP). On a node without RDMA, make the program send from buffers in host memory.";

/// The system refused a local address or port, and no other host was asked.
const NO_LOCAL_PORT: &str = "No packet was sent: this host gave the connection no local address. Either its ports are used up, as with many short connections: ss -s and ss -tan state time-wait | wc -l \
    count them; let the program keep its connections (Mooncake: MC_TCP_ENABLE_CONNECTION_POOL=1), or widen the range: sysctl -w net.ipv4.ip_local_port_range='1024 65535'. Or the \
    program binds to an address that no interface has where it runs: ip -brief address, and the settings that name an address or interface.";

/// What to do where a program cannot listen on its port.
const PORT_TAKEN: &str = "The program could not listen on its port on this host, most often because another process has it: ss -ltnp names the process. It is often an earlier run of the same program: end it. Or \
    give this one another port (perftest and the examples of libibverbs: -p PORT on both ends; Open MPI: --mca btl_tcp_port_min_v4 PORT with a larger btl_tcp_port_range_v4). Nothing was sent, so \
    the peer and the network are not at fault.";

/// What to do where the launcher of Open MPI did not start its daemon on another node, or lost it.
const LAUNCHER: &str = "The launcher of Open MPI did not start its daemon on another node, or lost it: that is TCP and the start of processes, not RDMA. From the node of mpirun, check that ssh NODE \
    hostname works without a question, that ssh NODE which orted (prted in Open MPI 5) finds the same Open MPI (PATH, LD_LIBRARY_PATH, --prefix), that /tmp is writable, and that the \
    nodes reach each other: --mca oob_tcp_if_include INTERFACE (prterun --prtemca). A firewall must let them connect.";

/// The daemons of MPI's launcher did not reach each other.
const OF_LAUNCHER: &str = "The daemons that mpirun starts on the nodes did not reach each other over TCP; MPI has not begun. From the node that the message names as Local host, try the Remote host: getent hosts NAME, ping, nc -vz NAME PORT. \
    If a firewall drops it, permit TCP between the nodes (Open MPI: ports of --mca oob_tcp_dynamic_ipv4_ports). If both are the same node, or the address is one of a bridge or of another network, name the network that all nodes \
    share: --mca oob_tcp_if_include SUBNET/LENGTH (Open MPI 5: --prtemca), and correct the host name in /etc/hosts.";

/// What broke a connection over TCP, as far as the message says it.
pub(crate) fn tcp_connection(case: &Case<'_>, scales: &mut Scales) {
    let seen: Vec<_> = case.seen(&[SymptomKind::TcpError]).collect();
    let texts: Vec<_> = seen
        .iter()
        .map(|symptom| symptom.text.to_ascii_lowercase())
        .collect();
    let says = |words: &[&str]| {
        texts
            .iter()
            .any(|text| words.iter().any(|word| text.contains(word)))
    };
    let step = if says(&["listen to port", "listen(", "no port available", "bind() failed"]) {
        Some(PORT_TAKEN)
    } else if says(&["assign requested address", "eaddrnotavail"]) {
        Some(NO_LOCAL_PORT)
    } else if seen
        .iter()
        .any(|symptom| symptom.software == Some(Software::Nvshmem))
    {
        Some(BOOTSTRAP)
    } else if says(&["complete a tcp connection"]) {
        Some(OF_LAUNCHER)
    } else {
        says(&["mpirun", "daemon"]).then_some(LAUNCHER)
    };
    if let Some(step) = step {
        scales.next_step = Some(step.to_owned());
    }
    logged(case, scales);
}

/// The message itself shows the cause.
pub(crate) fn logged(case: &Case<'_>, scales: &mut Scales) {
    const KINDS: [SymptomKind; 32] = [
        SymptomKind::NeighbourTableFull,
        SymptomKind::FirmwareRefused,
        SymptomKind::ModuleInUse,
        SymptomKind::PortUnauthorised,
        SymptomKind::NoVirtualNetwork,
        SymptomKind::SharpUnavailable,
        SymptomKind::SlotPower,
        SymptomKind::ToolNoAccess,
        SymptomKind::ModuleUnsigned,
        SymptomKind::FirmwareMissing,
        SymptomKind::FirmwareMismatch,
        SymptomKind::PciRoom,
        SymptomKind::AssignRefused,
        SymptomKind::StorageRefused,
        SymptomKind::OptionsRefused,
        SymptomKind::PeerDiffers,
        SymptomKind::NoListener,
        SymptomKind::ExchangeFailed,
        SymptomKind::AdapterHot,
        SymptomKind::TooManyFiles,
        SymptomKind::ModuleMismatch,
        SymptomKind::VersionMismatch,
        SymptomKind::AdapterNotStarted,
        SymptomKind::CommandRefused,
        SymptomKind::AdmissionRefused,
        SymptomKind::GpuDoorbellFailed,
        SymptomKind::GpuStopped,
        SymptomKind::GpuLinkError,
        SymptomKind::SharedMemory,
        SymptomKind::TcpError,
        SymptomKind::GlooError,
        SymptomKind::ComputeError,
    ];
    unsupported_module(case, scales);
    let of_other = |symptom: &&Symptom| symptom.kind == SymptomKind::AdapterNotStarted && is_silent(symptom);
    let mut found: Vec<&Symptom> = case.seen(&KINDS).filter(|symptom| !of_other(symptom)).collect();
    found.sort_by_key(|symptom| !scales.often.contains(&symptom.kind));
    if let Some(symptom) = found.first() {
        scales.fits(&symptom.source, &symptom.text);
    }
}
