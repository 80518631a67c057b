//! A job's devices, settings and memory; devices that fail.

use rdma_health_node::{UnreadKind, infiniband::CLASS};

use super::{Case, Scales, fabric, hardware::is_silent, message, probes_passed, view};
use crate::symptom::{Grade, Software, Symptom, SymptomKind};

pub(crate) fn device_not_given(case: &Case<'_>, scales: &mut Scales) {
    scales.insisted_step = fabric::psm_step(case).map(str::to_owned);
    if let Some(symptom) = case.seen(&[SymptomKind::ResourceUnavailable]).next() {
        scales.fits(&symptom.source, &symptom.text);
        let text = symptom.text.to_ascii_lowercase();
        if ["dra driver", "claim"].iter().any(|word| text.contains(word)) {
            scales.next_step = Some(
                "The pod's claim needs a driver of dynamic resource allocation on the node. List what the drivers offer: kubectl get \
                resourceslices, and what the claim requests: kubectl describe resourceclaim. If the driver has no slice for this node, read the \
                log of its pod there: it must run, and register with the kubelet below /var/lib/kubelet/plugins_registry. If it has, compare the \
                selectors of the DeviceClass and of the claim with the attributes in the slice."
                    .into(),
            );
            return;
        }
        scales.next_step = Some(
            "The pod requests the resource, and no node offers it. Compare the name with kubectl describe node NODE (Allocatable), and read \
            the log of the device plugin's pod on that node: it registers the resource only if its selectors match a device."
                .into(),
        );
        return;
    }
    if case.log.is_some_and(|log| log.marks.login) {
        scales.doubts("log", "the tools in a login session find no device either");
    }
    if case.node.hcas.unread().is_some() {
        return scales.unseen("RDMA devices of the node");
    }
    let active: Vec<_> = case
        .node
        .hcas()
        .filter(|hca| hca.ports.values().any(|port| port.is_active() == Some(true)))
        .map(|hca| hca.name.as_str())
        .collect();
    if active.is_empty() {
        return scales.against(CLASS, "the node has no device with an active port either");
    }
    if view::devices(case, scales) {
        return;
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
        scales.next_step = Some(
            "Where the job runs, run ls -l /dev/infiniband and ibv_devinfo. If they list the devices, check which one the program selects \
            (MV2_IBA_HCA, UCX_NET_DEVICES, the PCI address for DPDK). If they list none, the job runs without the node's devices: a pod needs the \
            RDMA resource, another container /dev/infiniband, and Slurm may exclude devices (ConstrainDevices in cgroup.conf)."
                .into(),
        );
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
    }
    scales.unseen("RDMA devices where the job runs (ls /dev/infiniband)");
}

pub(crate) fn modules(case: &Case<'_>, scales: &mut Scales) {
    const MISSING: [SymptomKind; 2] = [SymptomKind::ModuleMissing, SymptomKind::CmUnavailable];
    // Each driver of a network card, and its RDMA part.
    const PARTS: [(&str, &str); 5] = [
        ("mlx5_core", "mlx5_ib"),
        ("mlx4_core", "mlx4_ib"),
        ("bnxt_en", "bnxt_re"),
        ("ice", "irdma"),
        ("qede", "qedr"),
    ];
    let without = PARTS.iter().find(|(card, rdma)| {
        case.node.modules.has(card) == Some(true) && case.node.modules.has(rdma) == Some(false)
    });
    if let Some((card, rdma)) = without.filter(|_| case.node.hcas().next().is_none()) {
        scales.next_step = Some(format!(
            "Load the RDMA module of the adapter: modprobe {rdma}. If it fails, check dmesg and that the \
            module belongs to the running kernel."
        ));
        return scales.shows("/proc/modules", format!("{card} is loaded, {rdma} is not"));
    }
    if message::unbound(case, scales) {
        return;
    }
    let closed = || {
        case.seen(&[SymptomKind::OpenFailed])
            .find(|symptom| symptom.text.to_ascii_lowercase().contains("umad"))
    };
    if let Some(symptom) = case.seen(&MISSING).next().or_else(closed) {
        scales.fits(&symptom.source, &symptom.text);
        let text = symptom.text.to_ascii_lowercase();
        let named = text.split_once("module ").and_then(|(_, rest)| {
            let (name, rest) = rest.split_once(' ')?;
            rest.starts_with("not found in").then_some(name)
        });
        if let Some(module) = named {
            scales.next_step = Some(format!(
                "Install the package that contains the module {module} for the running kernel (linux-modules-extra, kernel-modules-extra, or the \
                RDMA driver package built with it), run depmod -a, and load it: modprobe {module}."
            ));
            return;
        }
        let module = if text.contains("transport iser") {
            "ib_iser"
        } else if text.contains("transport rdma") || text.contains("nvme-fabrics") {
            "nvme-rdma"
        } else if text.contains("issm") || text.contains("umad") {
            "ib_umad"
        } else if symptom.kind == SymptomKind::CmUnavailable
            || text.contains("rdma_cm")
            || text.contains("rdma_ucm")
        {
            "rdma_ucm"
        } else {
            "ib_uverbs"
        };
        scales.next_step = Some(if module == "ib_umad" {
            "Load the module on the node: modprobe ib_umad, and add its name to a file in /etc/modules-load.d. The tools of the fabric need \
            /dev/infiniband/umad*, which only root may open: run them as root, and in a container mount /dev/infiniband."
                .into()
        } else {
            format!(
                "Load the module on the node: modprobe {module}, and add its name to a file in /etc/modules-load.d. Then restart what reported it."
            )
        });
        if case.node.modules.has(module) == Some(true) {
            scales.doubts("/proc/modules", format!("{module} is loaded now"));
        }
        return;
    }
    match (
        case.node.modules.has("ib_uverbs"),
        case.node.modules.loaded.unread(),
    ) {
        (Some(true), _) if !scales.supported() => scales.against("/proc/modules", "ib_uverbs is loaded"),
        (_, Some(unread)) => scales.unseen(format!("loaded modules: {unread}")),
        _ => {}
    }
}

pub(crate) fn settings(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::RdmaDisabled]).next() {
        if !symptom.text.to_ascii_lowercase().contains("nccl_ib_disable") {
            scales.shows(&symptom.source, &symptom.text);
            scales.next_step = Some(
                "Select UCX: mpirun --mca pml ucx, with an Open MPI that was built with it (ompi_info | grep -i ucx). If the job uses UCX already, \
                only the transport openib is left out, and --mca btl ^openib ends the message. To use openib with InfiniBand: \
                --mca btl_openib_allow_ib 1, with a parameter that the message names corrected."
                    .into(),
            );
            return;
        }
        scales.shows(&symptom.source, "NCCL_IB_DISABLE is 1");
        scales.next_step = Some(
            "Unset NCCL_IB_DISABLE in the job's environment, or set it to 0. If TCP is intended, nothing needs to change.".into(),
        );
    }
    if let Some(symptom) = case
        .seen(&[SymptomKind::InitRefused, SymptomKind::RtsRefused])
        .next()
    {
        return attributes(case, symptom, scales);
    }
    if let Some(symptom) = case.seen(&[SymptomKind::ForkUnsafe]).next() {
        scales.next_step = Some(
            "Set FI_EFA_FORK_SAFE=1, or RDMAV_FORK_SAFE=1 with libfabric before 1.13, where the job runs: the library then protects registered \
            memory at a fork(), which slows registration down. On kernels from 5.13 on with a current rdma-core, neither is needed: update \
            libfabric and rdma-core. Or keep the program from calling fork() (a data loader with workers: start method spawn)."
                .into(),
        );
        return scales.shows(&symptom.source, &symptom.text);
    }
    if view::settings(case, scales, selects) {
        return;
    }
    let Some(log) = case.log else { return };
    if log
        .settings
        .get("NCCL_NET")
        .is_some_and(|net| net.eq_ignore_ascii_case("socket"))
    {
        scales.shows("NCCL_NET in the log", "Socket");
    }
    if let Some((symptom, transports)) = left_out(case) {
        scales.next_step = Some(format!(
            "Unset UCX_TLS, which is {transports}, or add the transports of RDMA and of the GPUs: UCX_TLS=rc,cuda (with AMD's GPUs rocm)."
        ));
        return scales.shows(
            "UCX_TLS in the log",
            format!("{transports} leaves out GPU memory and RDMA: {}", symptom.source),
        );
    }
    let interface = log.settings.get("NCCL_SOCKET_IFNAME");
    if let (Some(interface), Some(symptom)) = (interface, case.seen(&[SymptomKind::NoSocketInterface]).next())
    {
        scales.shows(
            &symptom.source,
            format!("NCCL_SOCKET_IFNAME is {interface}, and no interface of this name has an address where the job runs"),
        );
        scales.next_step = Some(format!(
            "Set NCCL_SOCKET_IFNAME to an interface that exists where the job runs (ip -brief address), or unset it; it is {interface} now."
        ));
        return;
    }
    if let Some(symptom) = case
        .seen(&[SymptomKind::SettingUnmatched, SymptomKind::ConnectIncompatible])
        .next()
    {
        if let Some(setting) = symptom.software.and_then(Software::device_setting) {
            scales.next_step = Some(format!(
                "Compare the names in the log with the devices that exist where the job runs (rdma link show), and correct {setting}."
            ));
        }
        return scales.fits(&symptom.source, &symptom.text);
    }
    let Some(wanted) = log.settings.get("NCCL_IB_HCA") else {
        if scales.supports.is_empty() {
            scales.unseen("settings of the job (run it with NCCL_DEBUG=INFO)");
        }
        return;
    };
    let names: Vec<_> = case.node.hcas().map(|hca| hca.name.as_str()).collect();
    if names.is_empty() {
        return;
    }
    let source = "NCCL_IB_HCA in the log";
    if selects(wanted, &names) {
        scales.against(source, format!("{wanted}, which names a device of this node"));
    } else {
        scales.shows(source, format!("{wanted}, but the node has {}", names.join(", ")));
    }
}

/// The transports of UCX that a setting selects without those of RDMA and of GPUs, where UCX then finds no support for GPU memory.
fn left_out<'a>(case: &Case<'a>) -> Option<(&'a Symptom, &'a str)> {
    const NEEDED: [&str; 9] = ["all", "rc", "dc", "ud", "ib", "cuda", "rocm", "srd", "gdr"];
    let transports = case.log?.settings.get("UCX_TLS")?;
    let has_needed = transports
        .split(',')
        .any(|name| NEEDED.iter().any(|needed| name.starts_with(needed)));
    let missed = case
        .symptoms
        .iter()
        .copied()
        .find(|symptom| symptom.kind == SymptomKind::BackendMissing)?;
    (!has_needed && !transports.starts_with('^')).then_some((missed, transports.as_str()))
}

/// The settings that become attributes of a queue pair in the transition that failed.
fn attributes(case: &Case<'_>, symptom: &Symptom, scales: &mut Scales) {
    let (names, step): (&[&str], _) = if symptom.kind == SymptomKind::InitRefused {
        (
            &["NCCL_IB_PKEY", "UCX_IB_PKEY"],
            "Compare the partition key index and the port number that the program uses with those of the device: ibv_devinfo -v -d DEVICE \
            lists both (port, pkey). RoCE ports have only index 0. If they are right, the driver refuses an access flag: compare with \
            ib_write_bw -d DEVICE.",
        )
    } else {
        (
            &["NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", "UCX_RC_TIMEOUT"],
            "Check the program's timeout (at most 31), retry count (at most 7) and number of outstanding reads (max_qp_rd_atom of ibv_devinfo \
            -v).",
        )
    };
    scales.next_step = Some(step.to_owned());
    let settings = case.log.map(|log| &log.settings);
    let set = names.iter().find_map(|name| Some((name, settings?.get(*name)?)));
    match set {
        Some((name, value)) => scales.fits(format!("{name} in the log"), value),
        None => scales.unseen(format!("settings of the job ({})", names.join(", "))),
    }
}

/// Whether `NCCL_IB_HCA` selects any device. Names are prefixes; `=` makes them exact, `^` excludes them; a port may follow.
fn selects(wanted: &str, names: &[&str]) -> bool {
    let (exclude, list) = wanted
        .strip_prefix('^')
        .map_or((false, wanted), |list| (true, list));
    let (exact, list) = list.strip_prefix('=').map_or((false, list), |list| (true, list));
    let matches = |name: &str| {
        list.split(',')
            .map(|one| one.split(':').next().unwrap_or_default())
            .any(|one| !one.is_empty() && if exact { one == name } else { name.starts_with(one) })
    };
    names.iter().any(|name| matches(name) != exclude)
}

pub(crate) fn no_device(case: &Case<'_>, scales: &mut Scales) {
    // A node whose own facts are not known has the devices that its log names.
    let named = |symptom: &&&Symptom| symptom.named.device.is_some();
    if case.node.hcas.known().is_none()
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
            let created = case
                .seen(&[SymptomKind::CreateUnexplained])
                .find(|symptom| symptom.software == Some(Software::Perftest));
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
    if let Some(symptom) = case.gpu_registration() {
        scales.doubts(&symptom.source, "the memory is a GPU's");
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

pub(crate) fn peer_failed(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.symptoms.iter().find(|symptom| symptom.line.is_none()) {
        return scales.against(&symptom.source, "a loopback probe has no peer");
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
    scales.unseen("logs of the other ranks");
}

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
}

/// The message itself shows the cause.
pub(crate) fn logged(case: &Case<'_>, scales: &mut Scales) {
    const KINDS: [SymptomKind; 26] = [
        SymptomKind::FirmwareRefused,
        SymptomKind::ModuleInUse,
        SymptomKind::PortUnauthorised,
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
    ];
    let of_other = |symptom: &&Symptom| symptom.kind == SymptomKind::AdapterNotStarted && is_silent(symptom);
    if let Some(symptom) = case.seen(&KINDS).find(|symptom| !of_other(symptom)) {
        scales.fits(&symptom.source, &symptom.text);
    }
}
