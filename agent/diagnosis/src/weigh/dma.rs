//! The path of DMA: IOMMU, PCIe bridges, GPU memory.

use rdma_health_node::{
    iommu::type_path,
    nvidia::PeerMemory,
    pci::{self, Acs, Role},
};
use rdma_health_protocol::Errno;
use rdma_health_rules::domain::gpudirect::is_symbol_absent;

use super::{Case, Scales};
use crate::symptom::{Software, Symptom, SymptomKind};

pub(crate) fn iommu(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::IommuFault]).next() {
        scales.shows(&symptom.source, &symptom.text);
        scales.next_step = Some(STOPPED.to_owned());
    }
    if let Some(symptom) = of_guest(case) {
        scales.insisted_step = Some(OF_GUEST.to_owned());
        return scales.against(
            &symptom.source,
            "the function belongs to a virtual machine or a program in user space (vfio-pci), whose addresses must be translated",
        );
    }
    if let Some(symptom) = case.seen(&[SymptomKind::PassthroughMissing]).next() {
        scales.fits(&symptom.source, &symptom.text);
        scales.next_step = Some(
            "Check whether the IOMMU translates: grep . /sys/kernel/iommu_groups/*/type. If a group of a GPU or adapter shows DMA or DMA-FQ, boot with \
            iommu=pt. If all show identity, or there is no group, nothing needs to change: the library reads only the kernel command line."
                .into(),
        );
    }
    let is_of_completions = || {
        case.symptoms
            .iter()
            .all(|symptom| matches!(symptom.kind, SymptomKind::Completion(_)))
    };
    if case.is_without_gpu() && is_of_completions() {
        return scales.against("log", HOST_MEMORY);
    }
    doubt_without_gpu(case, scales);
    let groups = &case.node.iommu.groups;
    if let Some(unread) = groups.unread() {
        return scales.unseen(format!("IOMMU groups: {unread}"));
    }
    if groups.known().is_none_or(std::collections::BTreeMap::is_empty) {
        return scales.against("/sys/kernel/iommu_groups", "no IOMMU group: no IOMMU is active");
    }
    let named: Vec<_> = case.devices().iter().map(|hca| hca.name.as_str()).collect();
    let mut passthrough = Vec::new();
    let mut translated = None;
    for function in case.node.dma_functions() {
        let matters = function.role == Role::Gpu || function.names.iter().any(|name| named.contains(name));
        let Some(number) = function.group.filter(|_| matters) else {
            continue;
        };
        match function.dma {
            Some(domain) if domain.is_translated() => translated = translated.or(Some((number, domain))),
            Some(domain) => passthrough.push((number, domain)),
            None => scales.unseen(format!("type of IOMMU group {number} ({})", type_path(number))),
        }
    }
    match (translated, passthrough.as_slice()) {
        // The finding already has this evidence, unless the profile does not expect RDMA.
        (Some((number, domain)), _) if !scales.supported() => {
            scales.shows(type_path(number), domain.as_str());
        }
        (None, [(number, domain), others @ ..]) => {
            let more = if others.is_empty() {
                String::new()
            } else {
                format!(", the same for {} more", others.len())
            };
            scales.against(type_path(*number), format!("{}{more}", domain.as_str()));
            if let Some(symptom) = case.seen(&[SymptomKind::IommuFault]).next() {
                scales.insisted_step = Some(blocked(symptom));
            }
        }
        (None, []) if case.node.hcas().next().is_some() && scales.unseen.is_empty() => {
            scales.against(
                "/sys/kernel/iommu_groups",
                "no IOMMU group contains an RDMA function or a GPU",
            );
        }
        _ => {}
    }
}

/// A fault of the IOMMU, if this node has lent the functions of all such faults to virtual machines.
fn of_guest<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let functions = case.node.functions();
    let is_lent = |symptom: &&Symptom| {
        let named = symptom.named.function.as_deref();
        let own = functions.iter().find(|function| named == Some(function.address));
        own.is_some_and(|function| function.lent_to.is_some())
    };
    let all = case.symptoms.iter().copied();
    let faults: Vec<&Symptom> = all
        .filter(|symptom| symptom.kind == SymptomKind::IommuFault)
        .collect();
    let first = faults.first().copied()?;
    faults.iter().all(is_lent).then_some(first)
}

/// What to do about a fault of a function that a virtual machine has.
const OF_GUEST: &str = "The function belongs to a virtual machine or a program in user space (vfio-pci): iommu=pt does not apply to it, and it may reach only the memory that its user \
    mapped. Look in the guest first: its driver and firmware, and whether it was reset or ended while the adapter was working (then the fault is over). If transfers between devices of the \
    guest fail (a GPU and an adapter), the memory regions of one must be mapped for the other: the log of QEMU or the hypervisor shows VFIO_MAP_DMA errors, and the locked memory of the \
    process must cover all memory of the guest (memlock, <memtune><hard_limit> of libvirt).";

/// Why memory of the program is the first suspect.
const NO_GPU: &str = "no line names a GPU, so the program may use memory that it did not register";

/// Doubts a cause in the path between adapter and GPU where memory of the program is the first suspect.
fn doubt_without_gpu(case: &Case<'_>, scales: &mut Scales) {
    if is_of_registration(case) {
        scales.doubts("log", NO_GPU);
        scales.score -= 2;
    }
}

/// Whether only requests on memory failed, of a library that registers it for its callers, and nothing shows a GPU.
fn is_of_registration(case: &Case<'_>) -> bool {
    let is_one = |symptom: &&Symptom| {
        let of_library = symptom.software == Some(Software::Libfabric)
            || symptom.software.is_some_and(Software::is_storage);
        matches!(symptom.kind, SymptomKind::Completion(_)) && of_library
    };
    case.gpus() == 0
        && case.log.is_some_and(|log| !log.names_gpu)
        && case.symptoms.iter().copied().all(|symptom| is_one(&symptom))
}

/// Why the path between adapter and GPU does not matter.
const HOST_MEMORY: &str = "the program registers memory of the host, and no line names a GPU";

/// What to do about a transfer that the IOMMU stopped.
const STOPPED: &str = "Read what the driver of the function logged around it: journalctl -k. If it reset the adapter or reported errors, the adapter accessed memory that the \
    driver had freed: update driver and firmware, because passthrough would only hide it. Otherwise, and above all if transfers of GPU memory fail, check the group types: grep . \
    /sys/kernel/iommu_groups/*/type. Only identity is passthrough: boot with iommu=pt (on arm64 with iommu.passthrough=1); if the command line has it, find what overrides it.";

/// What to do about a transfer that the IOMMU blocked although it passes the addresses of adapters and GPUs through.
fn blocked(symptom: &Symptom) -> String {
    let function = symptom.named.function.as_deref();
    let (of, show) = function.map_or((String::new(), "lspci -k".to_owned()), |function| {
        (format!(" {function}"), format!("lspci -k -s {function}"))
    });
    format!(
        "Passthrough is on, so iommu=pt changes nothing. The function{of} accessed an address that its driver had not mapped, or had unmapped \
        already: {show} shows which driver it is. Look for what the driver logged just before, update driver and firmware of that device, and \
        reset it."
    )
}

pub(crate) fn acs(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = case.seen(&[SymptomKind::AcsRedirected]).next() {
        scales.next_step = Some(REDIRECTED.to_owned());
        return scales.fits(&symptom.source, &symptom.text);
    }
    if case.is_without_gpu() {
        return scales.against("log", HOST_MEMORY);
    }
    doubt_without_gpu(case, scales);
    let pci = &case.node.pci;
    if let Some(unread) = pci.functions.unread() {
        return scales.unseen(format!("PCI bridges: {unread}"));
    }
    if case.gpus() == 0 {
        return scales.against(
            "/sys/bus/pci/devices",
            "no GPU, so there is no traffic between GPU and NIC",
        );
    }
    if case.node.is_virtual_machine() {
        return scales.unseen("ACS on the host of this virtual machine");
    }
    let functions = case.node.functions();
    let bridges = functions
        .iter()
        .filter(|function| function.role == Role::Bridge)
        .filter_map(|function| function.pci)
        .collect::<Vec<_>>();
    let read = |bridge: &&&pci::Function| bridge.capabilities.known().filter(|read| read.complete).copied();
    let acs: Vec<_> = bridges.iter().filter_map(|bridge| read(&bridge)).collect();
    let unknown = bridges.len() - acs.len();
    let clear = acs
        .iter()
        .all(|capabilities| !capabilities.acs.is_some_and(Acs::redirects));
    let bridges = bridges.len();
    if unknown > 0 {
        scales.unseen(format!(
            "ACS of {unknown} of {bridges} PCI bridges (only root can read their whole configuration space)"
        ));
    } else if clear && bridges > 0 && !scales.supported() {
        scales.against(
            "/sys/bus/pci/devices/*/config",
            format!("redirect is disabled on all {bridges} bridges"),
        );
    } else if bridges == 0 {
        scales.unseen("PCI bridges above GPU and NIC");
    }
}

/// The errors of a registration for which the adapter has no room.
const OF_LIMITS: [Errno; 3] = [Errno::ENOSPC, Errno::ERANGE, Errno::EIO];

pub(crate) fn peer_memory(case: &Case<'_>, scales: &mut Scales) {
    // The adapter registers GPU memory before the first transfer.
    if case.log.is_some_and(|log| log.marks.gpu_direct)
        && case
            .symptoms
            .iter()
            .all(|symptom| matches!(symptom.kind, SymptomKind::Completion(_)))
    {
        scales.against(
            "log",
            "transfers between the adapter and GPU memory were set up (GDRDMA)",
        );
    }
    // What has no length is not memory of a GPU.
    let is_empty = case.log.is_some_and(|log| log.marks.empty_region);
    if let Some(symptom) = case.seen(&[SymptomKind::RegMrFailed]).find(|_| is_empty) {
        return scales.against(&symptom.source, "the program registers a region without a length");
    }
    if case.is_without_gpu() {
        return scales.against("log", HOST_MEMORY);
    }
    // Host memory fails in the same words. EFAULT and EINVAL are what GPU memory causes.
    let is_of_host =
        |symptom: &&Symptom| symptom.kind == SymptomKind::RegMrFailed && !is_refused_gpu_memory(symptom);
    if case.log.is_some_and(|log| !log.names_gpu)
        && case.symptoms.iter().copied().all(|symptom| is_of_host(&symptom))
    {
        return scales.against("log", "no line names a GPU");
    }
    if case.is_amd() {
        return peer_memory_of_amd(case, scales);
    }
    if let Some(symptom) = of_storage(case) {
        let step = step_of_storage(&symptom.text.to_ascii_lowercase());
        scales.insisted_step = Some(step.to_owned());
        // Nothing is missing between GPU and storage of another kind.
        if step == STORAGE_FILES {
            return scales.unseen("the file system and the device of the file (df -T, lsblk)");
        }
        return scales.fits(&symptom.source, &symptom.text);
    }
    if !gdrcopy(case, scales) {
        peer_memory_of_nvidia(case, scales);
    }
}

/// What GPUDirect Storage reports that has no path to its files.
fn of_storage<'a>(case: &'a Case<'_>) -> Option<&'a Symptom> {
    case.seen(&[SymptomKind::GdrDisabled]).find(|symptom| {
        let text = symptom.text.to_ascii_lowercase();
        [
            "gpudirect storage",
            "p2pdma",
            ": unsupported",
            "cufio",
            "bar-usage",
        ]
        .iter()
        .any(|words| text.contains(words))
    })
}

/// The step for it.
const STORAGE: &str = "GPUDirect Storage has no path between GPU and storage, and goes through host memory or refuses. Run gdscheck -p: one row for the storage in use must show Supported. For NVMe on the node that \
    needs the module nvidia-fs (modprobe nvidia-fs) with the NVMe driver of MLNX_OFED or DOCA-OFED (mlnxofedinstall --with-nvmf --enable-gds), or a kernel and a driver of the GPU with P2PDMA; the file \
    system ext4 or XFS, and the IOMMU off or in passthrough. For storage over RDMA it needs libcufile_rdma, nvidia_peermem or DMA-BUF, and rdma_dev_addr_list in /etc/cufile.json. allow_compat_mode: true there \
    lets programs go on through host memory.";

/// The step for what a line in lower case of GPUDirect Storage names.
fn step_of_storage(lower: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["bar-usage", "bar usage"]) {
        STORAGE_BAR
    } else if has(&[
        "udev",
        "block device:",
        "mount option",
        "file system",
        "filesystem",
    ]) {
        STORAGE_FILES
    } else {
        STORAGE
    }
}

/// The step where the window of the GPU is too small for what is registered.
const STORAGE_BAR: &str = "GPUDirect Storage registers GPU memory in the window of the GPU on PCIe (BAR1), and the requests need more of it than is left: the message has both sizes. Use smaller requests or fewer threads \
    (gdsio -i, -w), or lower max_device_pinned_mem_size_kb in /etc/cufile.json; nvidia-smi -q | grep -A3 BAR1 shows size and use. A larger window needs Resizable BAR in the firmware setup of the host, or a GPU that has it. \
    nvidia_peermem has nothing to do with it: local storage does not need it.";

/// The step where the file is on what GPUDirect Storage does not support.
const STORAGE_FILES: &str = "GPUDirect Storage cannot use the file system or block device of this file. df -T FILE and lsblk show what it is on: it must be ext4 (mounted with data=ordered) or XFS directly on NVMe, or a file system \
    over RDMA whose driver supports it (Lustre, WekaFS, BeeGFS, NFS over RDMA). overlay (the root of a container), tmpfs, LVM and other device mappers do not work. Mount a volume on such storage into the container, with \
    /run/udev of the host, and see gdscheck -p. With allow_compat_mode: true in /etc/cufile.json programs go on through host memory.";

/// What UCX reports that has no support for GPU memory: it takes that memory for the host's, whatever the path is.
fn without_support<'a>(case: &'a Case<'_>) -> Option<&'a Symptom> {
    case.symptoms.iter().copied().find(|symptom| {
        let text = &symptom.text;
        symptom.kind == SymptomKind::BackendMissing
            && symptom.software == Some(Software::Ucx)
            && text.contains("not available")
            && ["'cuda", "'rocm"].iter().any(|name| text.contains(name))
    })
}

fn peer_memory_of_nvidia(case: &Case<'_>, scales: &mut Scales) {
    if let Some(symptom) = without_support(case) {
        scales.doubts(
            &symptom.source,
            "UCX has no support for GPU memory, and takes it for host memory",
        );
    }
    symbol_missing(case, scales);
    if let Some(symptom) = case
        .seen(&[SymptomKind::RegMrFailed])
        .find(|symptom| is_refused_gpu_memory(symptom))
    {
        let text = match symptom.named.errno {
            Some(Errno::EFAULT) => "Bad address: the memory is not host memory that the adapter may write",
            _ => &symptom.text,
        };
        // Memory that is mapped for reading only, and a file's without a cache, fail so, too. Programs of libfabric register much of it.
        let names_gpu = symptom.named.gpu.is_some() || case.log.is_none_or(|log| log.names_gpu);
        let of_gpus = || match symptom.software {
            Some(Software::Nccl | Software::Nvshmem | Software::Mooncake) => true,
            Some(Software::Libfabric) => false,
            _ => case.gpus() > 0,
        };
        if names_gpu || of_gpus() {
            scales.fits(&symptom.source, text);
        } else if is_of_mapping(symptom) {
            scales.score -= 2;
            scales.unseen("whether the memory is a GPU's: no line names one");
        }
        scales.next_step = step_of_registration(case, symptom);
    }
    if let Some(symptom) = case.seen(&[SymptomKind::DmaBufUnsupported]).next() {
        scales.fits(&symptom.source, &symptom.text);
        scales.next_step = Some(DMA_BUF.to_owned());
    }
    let is_of_limit = |symptom: &&Symptom| {
        symptom
            .named
            .errno
            .is_some_and(|errno| OF_LIMITS.contains(&errno))
    };
    if let Some(symptom) = case
        .seen(&[SymptomKind::RegMrFailed])
        .find(|symptom| is_of_limit(symptom))
        && !scales.supported()
    {
        scales.against(
            &symptom.source,
            "the error number is that of a limit of the adapter",
        );
    }
    if let Some(symptom) = missed_although_loaded(case) {
        scales.doubts(&symptom.source, "the log shows that nvidia_peermem is loaded");
        scales.next_step = Some(UNREGISTERED.to_owned());
    }
    module_refused(case, scales);
    // Up to 2.22.3, NCCL did not look for nvidia_peermem in every place where current drivers show it.
    let version = case.log.and_then(|log| log.nccl);
    if let Some(version) = version.filter(|version| *version <= (2, 22, 3))
        && case.seen(&[SymptomKind::GdrDisabled]).next().is_some()
        && !matches!(case.node.peer_memory.known(), Some(PeerMemory::None))
    {
        let (major, minor, patch) = version;
        scales.fits(
            "NCCL version in the log",
            format!("{major}.{minor}.{patch}, which does not find nvidia_peermem with all drivers"),
        );
        scales.next_step = Some(
            "Use NCCL 2.23 or later: up to 2.22.3 it misses nvidia_peermem with some drivers. Check that the module is loaded: lsmod | grep \
            peermem."
                .into(),
        );
        return;
    }
    // Where a module is refused, the GPUs may be those of another node, or have no driver yet.
    if case.node.pci.functions.known().is_some() && case.gpus() == 0 && not_inserted(case).is_none() {
        return scales.against("/sys/bus/pci/devices", "no GPU");
    }
    match (&case.node.peer_memory.known(), case.node.peer_memory.unread()) {
        (Some(PeerMemory::NvidiaPeermem), _) if !scales.supported() => loaded(case, scales),
        (Some(PeerMemory::DmaBuf), _) if !scales.supported() => {
            scales.against(
                "/proc/driver/nvidia/version",
                "the open kernel module, which exports GPU memory as DMA-BUF",
            );
        }
        (Some(PeerMemory::None), _) if !scales.supported() => {
            scales.fits(
                "/proc/modules",
                "neither nvidia_peermem nor nv_peer_mem is loaded",
            );
        }
        (_, Some(unread)) => scales.unseen(format!("path between GPU and NIC: {unread}")),
        _ => {}
    }
}

/// How messages about `GDRCopy` name it.
const OF_GDRCOPY: [&str; 5] = [
    "gdrdrv",
    "gdr_pin",
    "gdrcopy",
    "libgdrapi",
    "error opening driver",
];

/// The library misses the module of `GDRCopy`. Returns whether it does.
fn gdrcopy(case: &Case<'_>, scales: &mut Scales) -> bool {
    let missed = case
        .seen(&[SymptomKind::GdrDisabled])
        .find(|symptom| OF_GDRCOPY.iter().any(|words| symptom.text.contains(words)));
    let Some(symptom) = missed else { return false };
    let has = |words: &[&str]| words.iter().any(|word| symptom.text.contains(word));
    let step = if has(&["driver version", "libgdrapi version"]) {
        Some(GDR_VERSION)
    } else if has(&["No address space left"]) {
        Some(GDR_BAR)
    } else if has(&["Permission denied", "errno=13", "not permitted"]) {
        Some(GDR_FILE)
    } else {
        has(&["gdr_pin"]).then_some(GDR_PIN)
    };
    if let Some(step) = step {
        scales.insisted_step = Some(step.to_owned());
        scales.fits(&symptom.source, &symptom.text);
        return true;
    }
    scales.insisted_step = Some(
        "The library uses GDRCopy, whose kernel module gdrdrv is not loaded: modprobe gdrdrv, and install the package gdrdrv-dkms (gdrcopy-kmod) for this kernel if \
        it is not there. A container needs /dev/gdrdrv. Without it, switch GDRCopy off: MV2_USE_GDRCOPY=0, UCX_TLS=^gdr_copy; transfers over RDMA do not need it."
            .into(),
    );
    scales.shows(&symptom.source, &symptom.text);
    true
}

/// The step where `GDRCopy`'s library and module do not understand each other.
const GDR_VERSION: &str = "The file /dev/gdrdrv does not lead to a module of GDRCopy that this library understands. Compare grep gdrdrv /proc/devices with ls -l /dev/gdrdrv: the major numbers must be the same; if gdrdrv is not in \
    the list, another driver has taken its number. Reload the module and make the file again: modprobe -r gdrdrv, rm /dev/gdrdrv, then gdrcopy's insmod.sh or modprobe gdrdrv. If the numbers agree, the module is \
    older than the library (modinfo gdrdrv): install both from one release.";

/// The step where the window of the GPU has no room for what `GDRCopy` maps.
const GDR_BAR: &str = "The window of the GPU on PCIe (BAR1), through which GDRCopy and adapters reach its memory, is full or too small: nvidia-smi -q | grep -A3 BAR1 shows size and use. Let fewer processes share the GPU, or \
    let them pin less. A larger window needs Resizable BAR or Above 4G Decoding in the firmware setup of the host, or a GPU that has it.";

/// The step where the file of `GDRCopy` may not be opened.
const GDR_FILE: &str = "The program may not open /dev/gdrdrv: ls -l /dev/gdrdrv must show crw-rw-rw-. gdrcopy's insmod.sh and its package set that; chmod 666 /dev/gdrdrv does until the next start. A container needs the file \
    too, with its cgroup's permission (docker run --device=/dev/gdrdrv). Transfers over RDMA do not need GDRCopy.";

/// The step where `GDRCopy` cannot pin GPU memory.
const GDR_PIN: &str = "GDRCopy could not map memory of this GPU. It needs a GPU for data centres or workstations (GeForce has no GPUDirect RDMA), and its module built for the running driver: journalctl -k | grep -e gdrdrv -e NVRM, \
    modinfo gdrdrv. Build and load it again after each update of the driver. If other GPUs of the node work, compare their BAR1: nvidia-smi -q | grep -A3 BAR1.";

/// `nvidia_peermem` is loaded on the node, where the job may not have found it.
fn loaded(case: &Case<'_>, scales: &mut Scales) {
    if case.seen(&[SymptomKind::GdrDisabled]).next().is_none() {
        return scales.against("/proc/modules", "nvidia_peermem is loaded");
    }
    scales.doubts("/proc/modules", "nvidia_peermem is loaded now");
    scales.next_step = Some(NOT_FOUND.to_owned());
}

/// A library that goes without the peer-memory module, which is loaded as the log shows.
fn missed_although_loaded<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let is_loaded = case.log.is_some_and(|log| log.marks.peer_memory);
    let mut missed = case.symptoms.iter().copied();
    missed.find(|symptom| is_loaded && symptom.kind == SymptomKind::GdrDisabled)
}

/// The peer-memory module does not fit the RDMA modules.
fn symbol_missing(case: &Case<'_>, scales: &mut Scales) {
    let Some(symptom) = case.seen(&[SymptomKind::PeerMemorySymbol]).next() else {
        return;
    };
    let step = if is_symbol_absent(&symptom.text) && case.node.modules.is_ofed() != Some(true) {
        WITHOUT_SYMBOL
    } else if symptom.text.contains("nv_peer_mem") {
        REBUILD_OWN
    } else {
        REBUILD
    };
    // The missing path, which the node shows as well, follows from it.
    scales.insisted_step = Some(step.to_owned());
    scales.shows(&symptom.source, &symptom.text);
}

/// What `modprobe` or `insmod` reports of a peer-memory module that the kernel did not accept.
pub(super) fn not_inserted<'a>(case: &Case<'a>) -> Option<&'a Symptom> {
    let mut reported = case.symptoms.iter().copied();
    reported.find(|symptom| {
        symptom.kind == SymptomKind::PeerMemoryError
            && symptom.text.to_ascii_lowercase().contains("could not insert")
    })
}

/// What the job or the loader of modules reports of the peer-memory module.
fn module_refused(case: &Case<'_>, scales: &mut Scales) {
    const KINDS: [SymptomKind; 2] = [SymptomKind::PeerMemoryError, SymptomKind::GdrDisabled];
    let in_job = |symptom: &&Symptom| {
        symptom.kind == SymptomKind::PeerMemoryError
            || symptom.text.contains("peermem")
            || symptom.text.contains("peer_mem")
    };
    // That the container ended says less than why the module was not loaded in it.
    let is_state = |symptom: &&Symptom| symptom.text.to_ascii_lowercase().contains("peermem-ctr");
    let mut reported = case.seen(&KINDS).filter(in_job);
    let reason = reported.find(|symptom| !is_state(symptom));
    if let Some(symptom) = reason.or_else(|| case.seen(&KINDS).find(is_state)) {
        scales.fits(&symptom.source, &symptom.text);
        let text = symptom.text.to_ascii_lowercase();
        if is_state(&symptom) {
            scales.insisted_step = Some(OF_CONTAINER.to_owned());
        } else if text.contains("could not insert") {
            scales.insisted_step = Some(REBUILD.to_owned());
        } else if text.contains("nv-p2p.h") {
            scales.insisted_step = Some(NO_SOURCES.to_owned());
        } else if text.contains("param value") || text.contains("invalid param") {
            scales.insisted_step = Some(PARAMETER.to_owned());
        } else if text.contains("incompatible") && text.contains("version") {
            scales.insisted_step = Some(OTHER_RELEASE.to_owned());
        } else if text.contains("nvidia_p2p_get_pages") {
            scales.next_step = Some(PINNED.to_owned());
        } else if text.contains("page_table") || text.contains("page table") {
            scales.insisted_step = Some(OLD_DRIVER.to_owned());
        } else if text.contains("not found in directory") {
            let by_operator = case.log.is_some_and(|log| log.marks.driver_pod);
            scales.insisted_step = Some(if by_operator { NOT_IN_POD } else { NOT_INSTALLED }.to_owned());
        } else if symptom.kind == SymptomKind::GdrDisabled
            && matches!(case.node.peer_memory.known(), Some(PeerMemory::NvidiaPeermem))
        {
            scales.doubts("/proc/modules", "nvidia_peermem is loaded now");
            scales.next_step = Some(NOT_FOUND.to_owned());
        }
    }
}

/// The driver of the GPU refused to give its pages to another device.
const PINNED: &str = "The NVIDIA driver refused to pin the memory. -22: the GPU does not support GPUDirect RDMA (GeForce), or the address is not memory \
    that cudaMalloc gave (a virtual or managed mapping, or freed). -12: BAR1 is full: nvidia-smi -q | grep -A3 BAR1. Use a data-center GPU, plain \
    cudaMalloc (PYTORCH_CUDA_ALLOC_CONF without expandable_segments), or let the library copy through host memory.";

/// The container that loads the module ended.
const OF_CONTAINER: &str = "The container that loads nvidia_peermem in the pod of the GPU's driver ended with an error, so the module is not loaded on this node: kubectl -n NAMESPACE logs POD -c \
    nvidia-peermem-ctr --previous shows the line. If it is an error of the script (unbound variable, command not found), use a release of the driver container in which it is corrected \
    (driver.version in the ClusterPolicy). Until then, load the module on the node: chroot /run/nvidia/driver modprobe nvidia_peermem, and check lsmod | grep peermem.";

/// The GPU's driver gave pages of a size that the module does not know.
const OLD_DRIVER: &str = "Update the NVIDIA driver: the module is loaded, and this error is one of older drivers (nvidia-smi shows the version). Use a current \
    data-center branch, with the nvidia_peermem that comes with it; modinfo -F version nvidia_peermem must be the driver's. Until then, libraries can use DMA-BUF.";

/// The kernel found bridges that redirect, and names them.
const REDIRECTED: &str = "Boot with the kernel argument that the next line of the kernel log names, pci=disable_acs_redir=ADDRESSES, which switches redirection off for the bridges between the two \
    functions only. Or disable ACS in the firmware of the host, if no virtual machine gets a function of it. Then lspci -vvv | grep ACSCtl must show ReqRedir- and CmpltRedir- for these bridges.";

/// A parameter of the peer-memory module has a value that it does not know.
const PARAMETER: &str = "A parameter of the module has a value that it does not accept: grep -r peermem /etc/modprobe.d shows it, modinfo -p nvidia_peermem which there are. Correct or remove it, rebuild \
    the initramfs if it holds that file, and load the module again: modprobe -r nvidia_peermem; modprobe nvidia_peermem.";
/// The driver of the GPU and the peer-memory module are of different releases.
const OTHER_RELEASE: &str = "The module and the NVIDIA driver are of different releases: modinfo -F version nvidia nvidia_peermem must print the same. Reinstall the driver package, so that both come from it, and \
    load both again or restart the node.";

/// The peer-memory module cannot be built without the NVIDIA driver.
const NO_SOURCES: &str = "The module is built against the NVIDIA driver, whose sources are not on the node: ls /usr/src/nvidia-*/nvidia/nv-p2p.h. Install the driver for \
    the GPU first. From driver 470 on nothing has to be built: the driver brings nvidia_peermem (remove the package nv_peer_mem, then modprobe \
    nvidia_peermem).";

/// The module is loaded, and the job did not find it.
const NOT_FOUND: &str = "nvidia_peermem is loaded now, and the job did not find it. Where the job runs, check that ls /sys/module/nvidia_peermem or \
    /sys/kernel/mm/memory_peers shows it (a sandboxed container may hide /sys), that it was loaded before the job began, and that NCCL is 2.23 or later. Then \
    start the job again with NCCL_DEBUG=INFO and look for GDRDMA in the lines of its channels.";

/// The module is loaded, and nothing uses it.
const UNREGISTERED: &str = "nvidia_peermem is loaded, so loading it again changes nothing. Where the job runs, run ls -d /sys/kernel/mm/memory_peers/nv_mem*. If it shows nothing, the \
    module has not registered with the RDMA modules, because the NVIDIA driver was built before MLNX_OFED or DOCA-OFED was installed: reinstall the driver after them, or use DMA-BUF \
    (open kernel modules, Linux 5.12 or later). If it shows nv_mem_nc or nv_mem, use NCCL 2.23 or later, which looks for both. A sandboxed container may hide /sys.";

/// The module is there and does not fit; loading it again changes nothing.
const REBUILD: &str = "Build the module again for the RDMA modules that are loaded: reinstall the NVIDIA driver after MLNX_OFED or DOCA-OFED (or dkms \
    autoinstall), then depmod -a and modprobe nvidia_peermem. On Kubernetes, restart the driver pod of the GPU Operator after that of the Network \
    Operator. modinfo -n nvidia_peermem ib_core shows which modules are used, and the kernel log which symbol does not fit (dmesg | grep -i peer). nv_peer_mem \
    is the older module: with an NVIDIA driver from 470 on, remove its package and use nvidia_peermem, which comes with the driver. Or use DMA-BUF, which \
    needs no module.";

/// The module is not installed for the kernel that runs.
const NOT_INSTALLED: &str = "Install the module for the kernel that runs: it comes with the kernel modules of the NVIDIA driver from 470 on (dkms status; reinstall \
    nvidia-dkms or kmod-nvidia). An installer that found no RDMA headers leaves it out: install the RDMA driver package first. Debian's packages call it \
    nvidia-current-peermem. With NVIDIA's open kernel modules and Linux 5.12 or later, libraries can use DMA-BUF instead, which needs no module. \
    Where a container installs the GPU driver (GPU Operator), install nothing on the node: the module comes with its driver pod, which must build it (restart that pod).";

/// The same where the driver of the GPU is in a pod.
const NOT_IN_POD: &str = "The driver pod of the GPU Operator on this node has not built or installed the module for the kernel that runs: delete that pod, so that it starts again and builds all modules \
    (kubectl -n gpu-operator delete pod -l app=nvidia-driver-daemonset --field-selector spec.nodeName=NODE), and read the log of its container nvidia-driver-ctr: it must build the modules for this \
    kernel, with driver.rdma.enabled in the ClusterPolicy, and not stop at an installation of the user space only. If it skips them, update the operator or the driver's image. Where the node has the \
    driver itself (driver.enabled: false), the module must be in that one. With NVIDIA's open kernel modules, libraries can use DMA-BUF, which needs no module.";

/// The RDMA modules that run have no peer memory; a module that is built again is refused again.
const WITHOUT_SYMBOL: &str = "The RDMA modules that run do not have the symbol: those of the kernel have none, and those of MLNX_OFED and DOCA-OFED have it. See which run: \
    modinfo -n ib_core, and grep ib_register_peer_memory_client /proc/kallsyms. If the symbol is not there, install MLNX_OFED or DOCA-OFED for this kernel and load \
    its modules (/etc/init.d/openibd restart), then install the peer-memory module after it (nvidia_peermem comes with the NVIDIA driver from 470 on). Building the module again for the same \
    modules does not help. Or use DMA-BUF, which needs no module: NVIDIA's open kernel modules on Linux 5.12 or later.";

/// A separate package builds the older module.
const REBUILD_OWN: &str = "Build nv_peer_mem again, against the RDMA modules and the GPU driver that are installed now: dkms status, then dkms remove and dkms install of \
    nv_peer_mem, or reinstall the package nvidia_peer_memory; then modprobe nv_peer_mem. GPU drivers from release 470 on bring nvidia_peermem \
    instead: with one of these, remove nv_peer_mem and load that. Or use DMA-BUF, which needs no module.";

/// The adapter's driver, the GPU's or the library refuses DMA-BUF.
const DMA_BUF: &str = "The adapter's driver, the GPU's driver or the library refuses DMA-BUF. It needs Linux 5.12, an RDMA driver and an rdma-core \
    that implement ibv_reg_dmabuf_mr, and NVIDIA's open kernel modules. Update them, or use the peer-memory module instead: load nvidia_peermem \
    and switch DMA-BUF off (NCCL_DMABUF_ENABLE=0, UCX_IB_GPU_DIRECT_RDMA=y, perftest without --use_cuda_dmabuf).";

/// Whether a registration failed as that of GPU memory does: the kernel finds no pages behind the address (EFAULT, EINVAL), or driver or
/// library do not support DMA-BUF.
fn is_refused_gpu_memory(symptom: &Symptom) -> bool {
    match symptom.named.errno {
        Some(Errno::EFAULT | Errno::EINVAL) => true,
        None => symptom.named.gpu.is_some(),
        Some(errno) => {
            symptom.named.gpu.is_some()
                && [
                    Errno::EOPNOTSUPP,
                    Errno::EPROTONOSUPPORT,
                    Errno::ENOSYS,
                    Errno::ENOTSUPP,
                ]
                .contains(&errno)
        }
    }
}

/// What to do about a registration of GPU memory that failed, if loading `nvidia_peermem` is not it.
fn step_of_registration(case: &Case<'_>, symptom: &Symptom) -> Option<String> {
    let text = symptom.text.to_ascii_lowercase();
    if text.contains("dmabuf")
        || text.contains("dma-buf")
        || matches!(symptom.named.errno, Some(errno) if errno != Errno::EFAULT && errno != Errno::EINVAL)
    {
        return Some(DMA_BUF.into());
    }
    let is_loaded = case.node.modules.has("nvidia_peermem") == Some(true)
        || case.log.is_some_and(|log| log.marks.peer_memory);
    is_loaded.then(|| {
        "nvidia_peermem is loaded, so read why it refuses the memory: journalctl -k | grep -i -e peermem -e peer_mem. Check that it belongs to the \
        running driver (modinfo -F version nvidia_peermem nvidia), that the pointer is still allocated, and its BAR: GPUs with a small BAR1 map only \
        256 MiB (nvidia-smi -q | grep -A3 BAR1). Or use DMA-BUF."
            .into()
    })
}

/// Whether the kernel refused memory by its address or its mapping, and nothing says that it is a GPU's. Programs that use UCX, or test GPUs, mostly register
/// such memory.
pub(super) fn is_of_mapping(symptom: &Symptom) -> bool {
    symptom.kind == SymptomKind::RegMrFailed
        && symptom.named.gpu.is_none()
        && matches!(symptom.software, Some(Software::Libfabric) | None)
        && matches!(symptom.named.errno, Some(Errno::EFAULT | Errno::EINVAL))
}

/// amdgpu exports GPU memory as DMA-BUF; RCCL uses it only on request on kernels without the peer-memory symbols of AMD's driver.
fn peer_memory_of_amd(case: &Case<'_>, scales: &mut Scales) {
    const KERNEL: &str = "a kernel with CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY (grep -e P2PDMA -e MOVE_NOTIFY /boot/config-$(uname \
        -r)). Without DMA-BUF, install amdgpu-dkms after the RDMA stack.";
    let kinds = [
        SymptomKind::GdrDisabled,
        SymptomKind::PeerMemoryError,
        SymptomKind::RegMrFailed,
        SymptomKind::DmaBufUnsupported,
    ];
    let symptom = case.seen(&kinds).next();
    if let Some(symptom) = symptom {
        scales.fits(&symptom.source, &symptom.text);
    }
    // Without its driver, a GPU has no memory to share; the finding about that has the step.
    let mut gpus = case.node.gpus().peekable();
    if gpus.peek().is_some() && gpus.all(|gpu| gpu.driver.is_none()) {
        return;
    }
    let software = symptom.and_then(|symptom| symptom.software);
    let is_refused = symptom.is_some_and(|symptom| symptom.named.errno == Some(Errno::EINVAL));
    scales.insisted_step = Some(match software {
        Some(Software::Nccl) => format!("Set NCCL_DMABUF_ENABLE=1 for RCCL, on {KERNEL}"),
        Some(Software::Ucx) => format!(
            "Check that UCX was built with ROCm (ucx_info -d | grep -i rocm) and run it on {KERNEL} The driver of the adapter must support \
            DMA-BUF, too."
        ),
        _ if is_refused => format!(
            "Check the access flags of the registration: some adapters refuse remote atomics (IBV_ACCESS_REMOTE_ATOMIC, 8) for GPU memory. \
            Otherwise use {KERNEL}"
        ),
        _ => format!("RDMA on the memory of AMD's GPUs needs {KERNEL}"),
    });
    scales.unseen("whether kernel and library use DMA-BUF");
}

/// No fact of the node shows where the GPU's memory is.
pub(crate) fn gpu_address(case: &Case<'_>, scales: &mut Scales) {
    if case.is_without_gpu() {
        return scales.against("log", HOST_MEMORY);
    }
    if case.node.pci.functions.known().is_some() && case.gpus() == 0 {
        return scales.against("/sys/bus/pci/devices", "no GPU");
    }
    scales.unseen("PCIe address of the GPU's memory (lspci -vv)");
}
