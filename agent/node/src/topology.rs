//! The PCIe paths between GPUs and NICs.

use std::collections::BTreeMap;

use rdma_health_kernel::pci;
use serde::Serialize;

use crate::{Node, function::Function};

/// The distance between two PCI functions, nearest first, in the terms of `nvidia-smi topo -m` and NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Distance {
    /// Below one PCIe switch, with at most one bridge on either side.
    Pix,
    /// Below several PCIe switches that share a root port.
    Pxb,
    /// Through one PCIe host bridge, typically of the CPU.
    Phb,
    /// Between PCIe host bridges of one NUMA node.
    Node,
    /// Between NUMA nodes, over the link between CPU sockets.
    Sys,
}

impl Distance {
    /// Every distance, nearest first.
    pub const ALL: [Self; 5] = [Self::Pix, Self::Pxb, Self::Phb, Self::Node, Self::Sys];

    /// Its name in `nvidia-smi topo -m`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        }
    }

    /// Its meaning in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Pix => "below one PCIe switch",
            Self::Pxb => "below several PCIe switches that share a root port",
            Self::Phb => "through one PCIe host bridge, typically of the CPU",
            Self::Node => "between PCIe host bridges of one NUMA node",
            Self::Sys => "between NUMA nodes, over the link between CPU sockets",
        }
    }
}

/// The paths from every GPU to every NIC of a node.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Topology<'a> {
    /// GPUs that the host uses, in order of address.
    pub gpus: Vec<Gpu<'a>>,
    /// NICs that the host uses, in order of address.
    pub nics: Vec<Function<'a>>,
}

/// A GPU and its path to each NIC.
#[derive(Debug, Clone, Serialize)]
pub struct Gpu<'a> {
    /// The GPU.
    pub function: Function<'a>,
    /// Its path to each NIC, in order of the NIC's address.
    pub paths: Vec<Path<'a>>,
    /// PCI address of the NIC that it should use: the nearest, and of several the one with the fewest GPUs assigned so
    /// far. `None` if no distance is known.
    pub best_nic: Option<&'a str>,
}

/// The path between a GPU and a NIC.
#[derive(Debug, Clone, Serialize)]
pub struct Path<'a> {
    /// PCI address of the NIC's function.
    pub nic: &'a str,
    /// The distance; `None` if the functions do not share a host bridge and the firmware does not report both NUMA nodes.
    pub distance: Option<Distance>,
    /// The bridges between the two that they do not share, the GPU's first; empty if they share none. Peer-to-peer
    /// traffic passes them.
    pub bridges: Vec<&'a str>,
    /// The `bridges` whose Access Control Services redirect peer-to-peer traffic to the root complex.
    pub acs_redirect: Vec<&'a str>,
    /// Whether the Access Control Services of all `bridges` could be read.
    pub acs_known: bool,
    /// Whether the IOMMU translates the addresses of either end.
    pub translated: bool,
}

impl Node {
    /// The connections between GPUs and NICs, without virtual functions, whose paths equal those of their physical function.
    pub fn topology(&self) -> Topology<'_> {
        self.topology_of(self.nics().collect())
    }

    /// [`Node::topology`] as a job sees it, and the virtual functions that it leaves out. A virtual function whose physical function is
    /// no NIC here is a NIC itself: a pod may see only what it was given.
    pub fn visible_topology(&self) -> (Topology<'_>, Vec<Function<'_>>) {
        let mut nics: Vec<_> = self.nics().collect();
        let virtual_functions = self.dma_functions().filter(Function::is_virtual_nic);
        let (below, alone): (Vec<_>, Vec<_>) = virtual_functions.partition(|one| {
            nics.iter()
                .any(|nic| Some(nic.address) == one.physical_function())
        });
        nics.extend(alone);
        nics.sort_by_key(|nic| nic.address);
        (self.topology_of(nics), below)
    }

    fn topology_of<'a>(&'a self, nics: Vec<Function<'a>>) -> Topology<'a> {
        let functions = self.pci.functions.known();
        let bridge = |address: &str| functions.and_then(|functions| functions.get(address));
        let mut given: BTreeMap<&str, usize> = BTreeMap::new();
        let gpus = self.gpus().map(|function| {
            let paths: Vec<_> = nics.iter().map(|nic| Path::new(&function, nic, bridge)).collect();
            let near = paths.iter().filter_map(|path| Some((path.distance?, path.nic)));
            let best_nic = near
                .min_by_key(|(distance, nic)| (*distance, given.get(nic).copied().unwrap_or(0), *nic))
                .map(|(_, nic)| nic);
            if let Some(nic) = best_nic {
                *given.entry(nic).or_default() += 1;
            }
            Gpu {
                function,
                paths,
                best_nic,
            }
        });
        let gpus = gpus.collect();
        Topology { gpus, nics }
    }
}

impl<'a> Path<'a> {
    fn new(
        gpu: &Function<'a>,
        nic: &Function<'a>,
        bridge: impl Fn(&str) -> Option<&'a pci::Function>,
    ) -> Self {
        let bridges = between(gpu.bridges(), nic.bridges());
        let capabilities = |address: &str| bridge(address)?.capabilities.known().copied();
        let redirects = |address: &&str| {
            let acs = capabilities(address).and_then(|capabilities| capabilities.acs);
            acs.is_some_and(pci::Acs::redirects)
        };
        Self {
            nic: nic.address,
            distance: distance(gpu, nic),
            acs_redirect: bridges.iter().copied().filter(redirects).collect(),
            acs_known: bridges
                .iter()
                .all(|address| capabilities(address).is_some_and(|capabilities| capabilities.complete)),
            bridges,
            translated: gpu.is_translated() || nic.is_translated(),
        }
    }
}

/// The number of bridges, from the root port down, that two functions share.
fn shared(a: &[String], b: &[String]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The bridges below the last shared one; empty if they share none.
fn between<'a>(a: &'a [String], b: &'a [String]) -> Vec<&'a str> {
    match shared(a, b) {
        0 => Vec::new(),
        shared => a[shared..]
            .iter()
            .chain(&b[shared..])
            .map(String::as_str)
            .collect(),
    }
}

/// The distance between two functions; `None` if they do not share a host bridge and the firmware does not report both NUMA
/// nodes.
pub fn distance(a: &Function<'_>, b: &Function<'_>) -> Option<Distance> {
    let shared = shared(a.bridges(), b.bridges());
    if shared > 0 {
        let one_switch = [a, b].iter().all(|end| end.bridges().len() - shared <= 1);
        return Some(if one_switch { Distance::Pix } else { Distance::Pxb });
    }
    if host_bridge(a)? == host_bridge(b)? {
        return Some(Distance::Phb);
    }
    let same_numa_node = a.numa_node()? == b.numa_node()?;
    Some(if same_numa_node {
        Distance::Node
    } else {
        Distance::Sys
    })
}

/// The host bridge of a function: domain and bus of its root port, or of the function itself if it is on the root bus.
/// `None` if the function could not be read.
pub fn host_bridge<'a>(function: &Function<'a>) -> Option<&'a str> {
    function.pci?;
    let root = function
        .bridges()
        .first()
        .map_or(function.address, String::as_str);
    root.rsplit_once(':').map(|(bus, _)| bus)
}
