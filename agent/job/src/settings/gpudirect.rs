//! GPUDirect RDMA: whether a NIC reads and writes the memory of a GPU itself.
//!
//! The libraries find out by themselves, so no variable is set: a value that fits one node or one version disables it on
//! another. What they find is noted, and what prevents it is remarked.
//!
//! Sources: NCCL 2.30 (`src/graph/paths.cc`: `ncclTopoCheckGdr`, `ncclGetLevel`; `src/transport/net_ib/gdr.cc`), RCCL
//! (`src/misc/rocmwrap.cc`, `src/transport/net_ib.cc`), UCX (`UCX_IB_GPU_DIRECT_RDMA`).

use rdma_health_node::{
    Node,
    infiniband::Hca,
    model,
    nvidia::PeerMemory,
    platform::Architecture,
    topology::{Distance, Topology},
};

use super::{Draft, NcclVersion, number::number};
use crate::rails::Rails;

const LEVEL: &str = "NCCL_NET_GDR_LEVEL";

/// Notes and remarks on GPUDirect RDMA for these ports. None without GPUs.
pub(super) fn judge(draft: &mut Draft<'_>, node: &Node, rails: &Rails<'_>, nccl: Option<NcclVersion>) {
    let vendor = |vendor: u16| {
        node.gpus()
            .any(|gpu| gpu.pci.is_some_and(|pci| pci.vendor.known() == Some(&vendor)))
    };
    if vendor(model::AMD) {
        draft.note(
            "GPUDirect RDMA with RCCL: nothing is set. RCCL uses it if the kernel has registered amdkfd as a client of peer \
             memory (/sys/kernel/mm/memory_peers/amdkfd). Otherwise it needs DMA-BUF, which older releases of RCCL use only with \
             NCCL_DMABUF_ENABLE=1",
        );
    }
    if !vendor(model::NVIDIA) {
        return;
    }
    let Some(path) = path(draft, node, nccl) else {
        return;
    };
    let topology = node.topology();
    let ports: Vec<_> = hcas(rails).map(|hca| (hca, nearest(&topology, hca))).collect();
    if let Some(level) = level(draft) {
        excluded(draft, &ports, level);
    } else if draft.user.value(LEVEL).is_none() {
        beyond_default(draft, node, &ports);
    }
    translated(draft, node, rails);
    switched_off(draft, path);
}

/// How NICs reach the memory of NVIDIA GPUs; `None` if they do not, or if that is not known.
fn path(draft: &mut Draft<'_>, node: &Node, nccl: Option<NcclVersion>) -> Option<PeerMemory> {
    let Some(&path) = node.peer_memory.known() else {
        if let Some(unread) = node.peer_memory.unread() {
            draft.note(format!(
                "whether GPUDirect RDMA is available could not be read: {unread}"
            ));
        }
        return None;
    };
    let name = match path {
        PeerMemory::NvidiaPeermem => "nvidia_peermem",
        PeerMemory::NvPeerMem => "nv_peer_mem",
        PeerMemory::EfaNvPeermem => "efa_nv_peermem",
        PeerMemory::DmaBuf => "DMA-BUF",
        PeerMemory::None => {
            // Without a driver, the GPUs are not for this job.
            if !node.pci.nvidia_driver.is_absent() {
                draft.remark(
                    "GPUDirect RDMA is not available: neither nvidia_peermem nor DMA-BUF; the libraries copy through host memory, \
                     which is slower. Run rdma-health explain peer-memory-missing",
                );
            }
            return None;
        }
    };
    if path == PeerMemory::DmaBuf && nccl.is_some_and(|version| version < NcclVersion::HAS_DMA_BUF) {
        draft.remark(
            "GPUDirect RDMA is available through DMA-BUF only, which NCCL before 2.13 does not use: update NCCL, or load nvidia_peermem",
        );
        return None;
    }
    draft.note(format!(
        "GPUDirect RDMA is available through {name}; no variable is needed. NCCL and UCX find it themselves (NCCL_DMABUF_ENABLE=1 and \
         UCX_IB_GPU_DIRECT_RDMA=try are the defaults), and NCCL chooses NCCL_NET_GDR_READ by the GPU"
    ));
    Some(path)
}

/// The devices of the job, each once.
fn hcas<'a>(rails: &Rails<'a>) -> impl Iterator<Item = &'a Hca> {
    let mut all: Vec<_> = rails.rails.iter().map(|rail| rail.port.hca).collect();
    all.extend(&rails.efa);
    all.dedup_by(|a, b| a.name == b.name);
    all.into_iter()
}

/// The distance of a device to the nearest GPU of the node; `None` if no distance is known.
fn nearest(topology: &Topology<'_>, hca: &Hca) -> Option<Distance> {
    let paths = topology.gpus.iter().flat_map(|gpu| &gpu.paths);
    let own = paths.filter(|path| path.nic == hca.adapter());
    own.filter_map(|path| path.distance).min()
}

/// A distance as NCCL names it. It has no word for one NUMA node with several host bridges: that is PHB.
fn of_nccl(distance: Distance) -> &'static str {
    match distance {
        Distance::Node => Distance::Phb.name(),
        other => other.name(),
    }
}

/// The greatest distance of a GPU and a NIC at which GPUDirect RDMA is used.
#[derive(Clone, Copy)]
enum Level {
    /// Never.
    Off,
    /// Up to this distance.
    UpTo(Distance),
}

/// The level that the user has set; `None` if NCCL does not use it.
///
/// NCCL compares words exactly, reads what begins with a digit as an old number, and ignores everything else.
fn level(draft: &mut Draft<'_>) -> Option<Level> {
    if draft.user.value("NCCL_IB_GDR_LEVEL").is_some() {
        draft.remark(format!(
            "NCCL_IB_GDR_LEVEL is set, which NCCL ignores since 2.4: its name is {LEVEL}"
        ));
    }
    let value = draft.user.value(LEVEL)?.to_owned();
    let by_word = match value.as_str() {
        "LOC" | "NVL" | "NVB" | "C2C" => Some(Level::Off),
        "PIX" => Some(Level::UpTo(Distance::Pix)),
        "PXB" | "P2C" | "PXN" => Some(Level::UpTo(Distance::Pxb)),
        "PHB" => Some(Level::UpTo(Distance::Node)),
        "SYS" => Some(Level::UpTo(Distance::Sys)),
        _ => None,
    };
    let number = value
        .starts_with(|c: char| c.is_ascii_digit())
        .then(|| number(&value).ok())
        .flatten();
    let by_number = number.map(|number| match number {
        0 => Level::Off,
        1 => Level::UpTo(Distance::Pix),
        2 => Level::UpTo(Distance::Pxb),
        3 => Level::UpTo(Distance::Node),
        _ => Level::UpTo(Distance::Sys),
    });
    let level = by_word.or(by_number);
    if level.is_none() {
        let node = if value == "NODE" {
            "; NODE of nvidia-smi is PHB in NCCL"
        } else {
            ""
        };
        draft.remark(format!(
            "{LEVEL} is '{value}', which NCCL ignores: it knows LOC, PIX, PXB, PHB and SYS{node}"
        ));
    }
    level
}

/// Ports for which the user's level rules GPUDirect out.
fn excluded(draft: &mut Draft<'_>, ports: &[(&Hca, Option<Distance>)], level: Level) {
    let value = draft.user.value(LEVEL).unwrap_or_default().to_owned();
    let Level::UpTo(level) = level else {
        return draft.remark(format!("{LEVEL}={value} switches GPUDirect RDMA off"));
    };
    let far = listed(ports, |distance| distance > level);
    if !far.is_empty() {
        draft.remark(format!(
            "{LEVEL}={value} rules GPUDirect RDMA out for {far}, by the distance to the nearest GPU of the node"
        ));
    }
}

/// Ports that are farther from every GPU than NCCL's default level.
fn beyond_default(draft: &mut Draft<'_>, node: &Node, ports: &[(&Hca, Option<Distance>)]) {
    // On Grace, GPUs are connected to the processor by NVLink-C2C, and NCCL allows the way through it.
    if node.platform().architecture == Some(Architecture::Arm64) {
        return;
    }
    let far = listed(ports, |distance| distance > Distance::Pxb);
    if far.is_empty() {
        return;
    }
    let farthest = ports.iter().filter_map(|(_, distance)| *distance).max();
    let word = farthest.map_or("SYS", of_nccl);
    draft.note(format!(
        "{far} from the nearest GPU of the node: NCCL uses GPUDirect RDMA up to PXB, so data passes through host memory, unless a \
         topology file (NCCL_TOPO_FILE) shows a shorter path. {LEVEL}={word} allows it; whether that is faster depends on the \
         processor, so measure both"
    ));
}

/// `mlx5_0 (PHB), mlx5_1 (PHB)`.
fn listed(ports: &[(&Hca, Option<Distance>)], is_meant: impl Fn(Distance) -> bool) -> String {
    let meant = ports.iter().filter_map(|(hca, distance)| {
        let distance = distance.filter(|distance| is_meant(*distance))?;
        Some(format!("{} ({})", hca.name, of_nccl(distance)))
    });
    meant.collect::<Vec<_>>().join(", ")
}

/// Devices whose addresses the IOMMU translates.
fn translated(draft: &mut Draft<'_>, node: &Node, rails: &Rails<'_>) {
    let functions = node.functions();
    let names: Vec<_> = hcas(rails)
        .filter(|hca| {
            let own = hca.pci_address.known();
            functions
                .iter()
                .any(|function| Some(function.address) == own.map(String::as_str) && function.is_translated())
        })
        .map(|hca| hca.name.as_str())
        .collect();
    if !names.is_empty() {
        draft.remark(format!(
            "the IOMMU translates the addresses of {}: GPUDirect RDMA can then fail with IBV_WC_LOC_PROT_ERR. Boot the node with \
             iommu=pt; until then {LEVEL}=LOC avoids it, which is slower. Run rdma-health explain iommu-group-translated",
            names.join(", ")
        ));
    }
}

/// Variables of the user that switch off what the node has.
fn switched_off(draft: &mut Draft<'_>, path: PeerMemory) {
    let is = |name: &str, value: i64| draft.user.value(name).map(number) == Some(Ok(value));
    let mut remarks = Vec::new();
    if path == PeerMemory::DmaBuf && is("NCCL_DMABUF_ENABLE", 0) {
        remarks.push(
            "NCCL_DMABUF_ENABLE=0 switches GPUDirect RDMA off: this node has it through DMA-BUF only; unset it",
        );
    }
    if is("NCCL_NET_GDR_READ", 0) {
        remarks.push("NCCL_NET_GDR_READ=0: NCCL copies what it sends through host memory; unset it unless a measurement shows that it is faster");
    }
    if let Some("n" | "no" | "0") = draft.user.value("UCX_IB_GPU_DIRECT_RDMA") {
        remarks.push("UCX_IB_GPU_DIRECT_RDMA switches GPUDirect RDMA off in UCX; unset it");
    }
    for remark in remarks {
        draft.remark(remark);
    }
}

#[cfg(test)]
#[path = "gpudirect_tests.rs"]
mod tests;
