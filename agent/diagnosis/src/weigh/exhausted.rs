//! What to do where an adapter has no more of what a line names: doorbells, queues, services.

use super::{Case, Scales};
use crate::{
    log::exceeds_maximum,
    symptom::{Software, Symptom, SymptomKind},
};

/// The step for doorbell pages.
const DOORBELLS: &str = "Run fewer processes per node, or give the adapter more doorbell pages (UAR), of which none is left: mlxconfig -d ADDRESS set \
    PF_LOG_BAR_SIZE=8 (for virtual functions VF_LOG_BAR_SIZE), then restart the node. mlxconfig -d ADDRESS query | grep LOG_BAR_SIZE shows the present value. \
    rdma resource show ctx counts the open contexts, each of which takes pages. With many functions, a lower NUM_OF_VFS leaves more to each.";

/// The step for the driver mlx4, which logs that its table is full.
const MTT: &str = "Raise log_num_mtt (or log_mtts_per_seg) of the module mlx4_core: the driver maps only as much memory as its table has entries, and the table is full. \
    2^log_num_mtt x 2^log_mtts_per_seg x 4096 must be twice the memory of the node: options mlx4_core log_num_mtt=24 in /etc/modprobe.d, then load the driver \
    again. Until then, register less memory.";

/// The step for bounce buffers.
const BOUNCE: &str = "Enlarge the area for bounce buffers (SWIOTLB), which is full: the kernel argument swiotlb=524288 is 1 GiB. On a machine that is not an encrypted (confidential) \
    one, remove swiotlb=force and iommu=off instead, so that the adapter reaches the memory itself. grep -i swiotlb /proc/cmdline shows the arguments, and \
    journalctl -k -b | grep -i -e swiotlb -e 'Memory Encryption' what the kernel set up.";

/// The step for interrupts.
pub(super) const INTERRUPTS: &str = "The driver got no interrupts (MSI-X vectors) from the host. Read what the kernel and the PCI controller logged about MSI before: journalctl -k -b | grep -i -e msi -e irq. \
    Check that MSI is on (no pci=nomsi in /proc/cmdline), and that the board or the hypervisor gives the function enough vectors: lspci -vv -s ADDRESS | grep MSI-X shows how many \
    the adapter has. Use fewer queues or functions where the vectors do not suffice: ethtool -L NETDEV combined 4.";

/// What to do about a limit, as far as a text in lower case names it.
pub(super) fn step(text: &str) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["alloc_uar", "qp_uar", "uar space", "devx uar"]) {
        return Some(DOORBELLS);
    }
    if has(&["ibv_open_device"]) {
        return Some(OPENED);
    }
    if has(&["registering part of your physical memory"]) {
        return Some(
            "The driver mlx4 maps only as much memory as its table has entries. Raise log_num_mtt (or log_mtts_per_seg) of the module mlx4_core, so that \
            2^log_num_mtt x 2^log_mtts_per_seg x 4096 is twice the memory of the node: options mlx4_core log_num_mtt=24 in /etc/modprobe.d, then load the driver \
            again. With adapters of mlx5, UCX (--mca pml ucx) in place of openib ends the message.",
        );
    }
    if has(&["create_mkey", "async reg mr failed"]) {
        return Some(
            "The driver of the kernel itself gets no memory keys from the adapter, so that neither a cgroup nor the memlock limit is the reason. Read why its firmware refuses them: \
            journalctl -k | grep -e CREATE_MKEY -e syndrome. Compare the keys in use with max_mr of ibv_devinfo -v (rdma resource show), and free -g with the memory of the host. If few are in use, \
            update the firmware and the driver; reset the adapter or restart the node to go on.",
        );
    }
    if has(&["pagepool", "device mtts"]) {
        return Some(
            "GPFS registers its whole pagepool with the adapter. Make it smaller (mmchconfig pagepool=SIZE), or let the adapter map more: on mlx4, log_num_mtt of \
            the module mlx4_core; on mlx5, check the memlock limit of mmfsd (grep 'locked memory' /proc/$(pgrep mmfsd)/limits). Then restart GPFS on the node.",
        );
    }
    if has(&["append le", "le resources not recovered"]) {
        return Some(
            "Set FI_CXI_RX_MATCH_MODE=software (or hybrid) where the job runs: libfabric's provider cxi then matches receives itself when the adapter has no more entries (LE) for \
            them. Let the program post fewer receives ahead, and fewer processes per node share the adapter. cxi_service list -v shows how many entries the job's service may use.",
        );
    }
    if has(&["queue exhaustion", "event queue overflow"]) {
        return Some(
            "Make the completion queues of libfabric's provider cxi larger where the job runs: FI_CXI_DEFAULT_CQ_SIZE=131072 and FI_CXI_CQ_FILL_PERCENT=20. \
            Let the program post fewer requests at once. If it happens again, FI_CXI_RX_MATCH_MODE=software or hybrid relieves the adapter's own lists.",
        );
    }
    if has(&["unable to add gid"]) {
        return Some(
            "The GID table of the port has no entry left for another address. Each address of the network device and of the VLANs, macvlans and bonds above it takes \
            one or two: count them with ip address show, and the entries in use with rdma-health devices or show_gids. Remove addresses that no connection over RDMA \
            needs, or give those of containers to virtual functions, which each have a separate table.",
        );
    }
    if exceeds_maximum(text) {
        return Some(
            "The program asked the device for more than it offers: the kernel logs the requested number, then the maximum. Make the queue or region that the line names \
            smaller in the settings of the program. ibv_devinfo -v lists the maximums of the device (max_cqe, max_qp_wr, max_sge, max_srq_wr).",
        );
    }
    if has(&["failed to allocate mtts", "failed to allocate mtt"]) {
        return Some(MTT);
    }
    has(&["cxil_"]).then_some(
        "List the services of the adapter and what each reserves: cxi_service list -v. Delete those that ended jobs left (cxi_service delete -s ID), or lower the \
        limits that the workload manager reserves for each job. The driver refuses a service that reserves more than the adapter has left.",
    )
}

/// What to do where a program could not create a queue pair and does not say why.
pub(super) fn unexplained(symptom: &Symptom) -> Option<&'static str> {
    let text = symptom.text.to_ascii_lowercase();
    // No limit of a process or cgroup holds for the kernel's own queues.
    if matches!(symptom.software, Some(Software::Kernel | Software::KernelStorage)) {
        return Some(OF_KERNEL);
    }
    let is_tool = matches!(symptom.software, None | Some(Software::Perftest))
        && ["unable to create qp", "couldn't create qp"]
            .iter()
            .any(|words| text.contains(words));
    is_tool.then_some(
        "With perftest, try again with -I 0: its inline size may be too large for the adapter. Then with a smaller queue: -t 16 -r 16. If it fails, too, look \
        for the reason in the kernel log (journalctl -k --since -10min), and compare the queue pairs in use (rdma resource show) with max_qp of ibv_devinfo -v.",
    )
}

/// The step for queues of modules of the kernel.
const OF_KERNEL: &str = "A module of the kernel asked the adapter for a queue pair that it did not get. Compare what the module requests with what the adapter offers (ibv_devinfo -v: \
    max_qp_wr, max_sge), and make its queues smaller: the depth and number of its queues, or the size of its scatter lists (sg_tablesize). If the request fits, see whether \
    queue pairs are used up: rdma resource show. A memory-lock limit and rdma.max do not apply to the kernel.";

/// Weighs bounce buffers of the host that are full. Returns whether there are such.
pub(super) fn bounce(case: &Case<'_>, scales: &mut Scales) -> bool {
    let is_full = |symptom: &&Symptom| {
        let text = symptom.text.to_ascii_lowercase();
        text.contains("swiotlb") || text.contains("sw-iommu space")
    };
    let Some(symptom) = case.seen(&[SymptomKind::NoMemory]).find(is_full) else {
        return false;
    };
    scales.shows(&symptom.source, &symptom.text);
    scales.insisted_step = Some(BOUNCE.to_owned());
    true
}

/// The step for a device that could not be opened because memory is short.
const OPENED: &str = "Count the processes that have the device open: rdma resource show ctx. Each takes pages for doorbells (UAR) from the adapter, and with many processes per node none is left: run fewer for each device, or \
    give the adapter more, mlxconfig -d ADDRESS set PF_LOG_BAR_SIZE=8 (VF_LOG_BAR_SIZE for virtual functions), then restart the node. If only few are open, look at rdma.max of the job's cgroup, the kernel log (journalctl -k | grep -e mlx -e \
    'limits exceeded') and the memory of the node (free -g).";

/// The step for contexts of adapters of `InfiniPath` (PSM 1).
const OF_INFINIPATH: &str = "Let the processes of each job share contexts: PSM_SHAREDCONTEXTS=1, and PSM_SHAREDCONTEXTS_MAX below the number of contexts. Where several jobs share \
    the node, each job takes all contexts unless PSM_SHAREDCONTEXTS_MAX leaves some to the others. Each process opens a context of /dev/ipath, and PSM reports \
    'Network is down' or 'no free contexts' when none is left. End old processes that keep some: fuser -v /dev/ipath*. If ibstat shows no active port of qib0, that is the \
    reason instead; without such an adapter leave PSM out: --mca mtl ^psm.";

/// Whether a line in lower case is about the contexts of an `InfiniPath` adapter.
fn is_of_infinipath(text: &str) -> bool {
    ["/dev/ipath", "ipath_userinit", "infinipath contexts"]
        .iter()
        .any(|name| text.contains(name))
}

/// Weighs contexts of an `InfiniPath` adapter that PSM could not open. Returns whether there are such.
pub(super) fn infinipath(case: &Case<'_>, scales: &mut Scales) -> bool {
    const KINDS: [SymptomKind; 2] = [SymptomKind::CreateUnexplained, SymptomKind::ResourceLimit];
    let found = case.symptoms.iter().find(|symptom| {
        KINDS.contains(&symptom.kind) && is_of_infinipath(&symptom.text.to_ascii_lowercase())
    });
    let Some(symptom) = found else { return false };
    scales.next_step = Some(OF_INFINIPATH.to_owned());
    let active = case.ports().iter().any(|port| port.is_active() == Some(true));
    if active || symptom.kind == SymptomKind::ResourceLimit {
        scales.fits(&symptom.source, &symptom.text);
    } else {
        scales.doubts(
            &symptom.source,
            "no port of the node is active, which PSM reports with the same words",
        );
    }
    true
}
