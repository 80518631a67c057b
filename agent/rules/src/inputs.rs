//! Who can write what a rule reads.

use serde::Serialize;

/// Who can write or provoke an input of a rule. A verdict is as trustworthy as the least of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Writer {
    /// The devices, their firmware and the drivers in the kernel.
    Hardware,
    /// Root of the host: boot arguments, kernel modules, settings, system services. A privileged pod is root of the host.
    HostRoot,
    /// The other end of a cable: switches, subnet managers, other nodes.
    Fabric,
    /// Who may write the agent's configuration or the labels of the Node.
    Configuration,
    /// The agent and its helper: measurements, history.
    Agent,
    /// A job that was given an RDMA device, a virtual function or a network device: it can load and exhaust it, and change
    /// what belongs to its own network namespace.
    Job,
    /// Any process on the node.
    Process,
}

impl Writer {
    /// In words, as in `Inputs are written by hardware and kernel, root of the host`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Hardware => "hardware and drivers",
            Self::HostRoot => "root of the host",
            Self::Fabric => "the fabric",
            Self::Configuration => "the configuration",
            Self::Agent => "the agent",
            Self::Job => "jobs that use the device",
            Self::Process => "any process",
        }
    }

    /// Whether this is a tenant of the node, who must not be able to cause a critical finding or a taint.
    pub fn is_tenant(self) -> bool {
        matches!(self, Self::Job | Self::Process)
    }
}
