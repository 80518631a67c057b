//! The node: everything that is known about one machine, as one value.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use rdma_health_kernel::{
    Fact, Facts,
    limits::{PROCESSES, Runtime},
    nvidia::{PeerMemory, peer_memory},
    process::Process,
};
use rdma_health_protocol::{Device, HelperError, ProbeReport};
use serde::{Deserialize, Serialize};

use crate::history::History;

/// Version of the JSON form of a [`Node`].
pub const SCHEMA: u32 = 1;

/// One machine: the facts of its kernel and of libibverbs, measurements, and history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The facts of the kernel. `Node` dereferences to them.
    #[serde(flatten)]
    pub facts: Facts,
    /// The path between GPU memory and NICs.
    pub peer_memory: Fact<PeerMemory>,
    /// The facts of libibverbs, read by the helper; absent if it was not queried.
    pub verbs: Fact<Arc<BTreeMap<String, VerbsDevice>>>,
    /// The last probe of each path that was probed, in order of path.
    pub probes: Vec<Arc<Probe>>,
    /// The process of a job whose failure is to be explained, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Arc<Process>>,
    /// The results of earlier readings; `None` if there is no history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Arc<History>>,
}

impl Deref for Node {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        &self.facts
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }
}

/// The response of libibverbs for one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerbsDevice {
    /// The queries succeeded.
    Device(Device),
    /// A call failed.
    Error(HelperError),
}

/// One probe with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// When it ended, in seconds since 1970.
    pub time: u64,
    /// Its result.
    pub report: ProbeReport,
}

impl Node {
    /// A node with only the facts of the kernel.
    pub fn new(facts: Facts) -> Self {
        Self {
            schema: SCHEMA,
            peer_memory: peer_memory(&facts.modules, &facts.pci.nvidia_driver, &facts.host.kernel),
            facts,
            verbs: Fact::Absent,
            probes: Vec::new(),
            job: None,
            history: None,
        }
    }

    /// A machine of which nothing is known: every fact is unread.
    pub fn unknown() -> Self {
        Self::new(Facts::not_read_yet())
    }

    /// Takes what the helper reports about container runtimes and the kubelet. It sees the host's processes, which this
    /// process may not.
    pub fn see_runtimes(&mut self, runtimes: Fact<Vec<Runtime>>) {
        Arc::make_mut(&mut self.facts.limits).runtimes = runtimes;
        if let Some(status) = self.facts.sources.get_mut("limits")
            && status.unread.iter().any(|unread| unread.source == PROCESSES)
        {
            Arc::make_mut(status)
                .unread
                .retain(|unread| unread.source != PROCESSES);
        }
    }

    /// Takes the results of earlier readings. What the kernel logged earlier in this boot and has overwritten since is in its log again.
    pub fn see_history(&mut self, history: Arc<History>) {
        let logged = history.logged.as_ref();
        let of_this_boot = logged.filter(|logged| self.host.boot_id.known() == Some(&logged.boot));
        if let Some(logged) = of_this_boot
            && let Some(log) = self.kernel_log.known().filter(|log| log.has_lost(&logged.events))
        {
            self.facts.kernel_log = Arc::new(Fact::Known(log.clone().remembering(&logged.events)));
        }
        self.history = Some(history);
    }

    /// The probes whose both ends are one port: they show what the port does by itself.
    pub fn loopbacks(&self) -> impl Iterator<Item = &Probe> {
        let loopback = |probe: &&Probe| probe.report.path.is_loopback();
        self.probes.iter().map(|probe| &**probe).filter(loopback)
    }
}
