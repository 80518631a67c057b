//! The node: every fact read from one machine, one value.

use std::{collections::BTreeMap, sync::Arc};

use rdma_health_protocol::{Device, Gid, HelperError, Port as VerbsPort, ProbeReport};
use serde::{Deserialize, Serialize};

use crate::{
    fact::{Fact, Unread},
    history::History,
    host::Host,
    infiniband::{Hca, Port},
    iommu::Iommu,
    limits::Limits,
    modules::Modules,
    network::Network,
    nvidia::{PeerMemory, peer_memory},
    pci::Pci,
};

/// Version of the JSON form of a [`Node`].
pub const SCHEMA: u32 = 1;

/// A device, the number of one of its ports, and that port.
pub type PortOf<'a> = (&'a Arc<Hca>, u8, &'a Port);

/// Every fact read from one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// [`SCHEMA`].
    pub schema: u32,
    /// When the node was put together, in seconds since 1970.
    pub time: u64,
    /// Whether it is the running machine rather than a tree.
    pub live: bool,
    /// The machine and its kernel.
    pub host: Arc<Host>,
    /// IOMMU groups.
    pub iommu: Arc<Iommu>,
    /// Kernel modules.
    pub modules: Arc<Modules>,
    /// PCI functions that matter to RDMA.
    pub pci: Arc<Pci>,
    /// Subnets, ARP settings and flow control of the network devices of RDMA ports.
    #[serde(default)]
    pub network: Arc<Network>,
    /// The path between GPU memory and NICs.
    pub peer_memory: Fact<PeerMemory>,
    /// Memory-lock limits.
    pub limits: Arc<Limits>,
    /// Lines of the kernel's log about IOMMU, RDMA and GPU driver, oldest first.
    pub kernel_log: Arc<Fact<Vec<String>>>,
    /// RDMA devices by name; absent where the kernel has no RDMA support loaded.
    pub hcas: Fact<BTreeMap<String, Arc<Hca>>>,
    /// What libibverbs says, through the helper; absent where nobody asked.
    pub verbs: Fact<Arc<BTreeMap<String, VerbsDevice>>>,
    /// The last probe of each port that was probed, in order of device and port.
    pub probes: Vec<Arc<Probe>>,
    /// What earlier readings found; `None` where nobody keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Arc<History>>,
    /// Each part of the reading: when, how long, and what failed.
    pub sources: BTreeMap<String, Arc<SourceStatus>>,
}

/// What libibverbs said of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerbsDevice {
    /// It answered.
    Device(Device),
    /// A call failed.
    Error(HelperError),
}

/// One probe and when it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// When it ended, in seconds since 1970.
    pub time: u64,
    /// What came of it.
    pub report: ProbeReport,
}

/// How reading one source went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// When it was last read, in seconds since 1970; `None` where it never was.
    pub time: Option<u64>,
    /// How long that took, in seconds.
    pub seconds: f64,
    /// Whether a newer reading did not end in time, so that the facts are older than they should be.
    pub stale: bool,
    /// What could not be read.
    pub unread: Vec<Unread>,
}

impl Node {
    /// Fills in what follows from several parts.
    pub(crate) fn derive(&mut self) {
        self.peer_memory = peer_memory(&self.modules, &self.pci.nvidia_driver, &self.host.kernel);
    }

    /// RDMA devices in order of name; none where they could not be read.
    pub fn hcas(&self) -> impl Iterator<Item = &Arc<Hca>> {
        self.hcas.known().into_iter().flat_map(BTreeMap::values)
    }

    /// Every port, in order of device and number.
    pub fn ports(&self) -> impl Iterator<Item = PortOf<'_>> {
        self.hcas().flat_map(|hca| {
            hca.ports
                .iter()
                .map(move |(number, port)| (hca, *number, &**port))
        })
    }

    /// Every port that is active.
    pub fn active_ports(&self) -> impl Iterator<Item = PortOf<'_>> {
        self.ports().filter(|(.., port)| port.is_active() == Some(true))
    }

    /// Everything that could not be read, source by source.
    pub fn unread(&self) -> impl Iterator<Item = (&str, &Unread)> {
        self.sources
            .iter()
            .flat_map(|(name, status)| status.unread.iter().map(move |unread| (name.as_str(), unread)))
    }

    /// The used entries of a port's GID table: libibverbs' where it answered, else those of sysfs. `None` where neither
    /// tells.
    pub fn gids(&self, device: &str, port: u8) -> Option<&[Gid]> {
        let verbs = self.verbs_port(device, port).map(|port| port.gids.as_slice());
        verbs.or_else(|| {
            let port = self.hcas.known()?.get(device)?.ports.get(&port)?;
            port.gids.known().map(Vec::as_slice)
        })
    }

    /// The port as libibverbs sees it, where it answered.
    pub fn verbs_port(&self, device: &str, port: u8) -> Option<&VerbsPort> {
        let ports = &self.verbs_device(device)?.ports;
        ports.iter().find(|found| found.number == port)
    }

    /// The device as libibverbs sees it, where it answered.
    pub fn verbs_device(&self, name: &str) -> Option<&Device> {
        match self.verbs.known()?.get(name)? {
            VerbsDevice::Device(device) => Some(device),
            VerbsDevice::Error(_) => None,
        }
    }
}
