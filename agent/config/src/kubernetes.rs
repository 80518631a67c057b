//! The Kubernetes settings.

use std::path::PathBuf;

use rdma_health_rules::Severity;
use serde::{Deserialize, Serialize};

use super::{NodeName, alias::Alias};

/// Publishing to Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // each is a separate key
pub struct Kubernetes {
    /// Whether to publish the node's state.
    pub enabled: bool,
    /// The Node's name; by default the value of the environment variable `NODE_NAME`.
    pub node: Option<NodeName>,
    /// A kubeconfig. By default the pod's service account; outside of a pod, the same as `kubectl` uses.
    pub kubeconfig: Option<PathBuf>,
    /// The lowest severity of a finding that makes a condition true.
    pub severity: Threshold,
    /// Whether to send Events when a condition changes.
    pub events: bool,
    /// Whether to take over conditions that another controller manages.
    pub force: bool,
    /// Conditions with the content of `rdma-health.io/RDMAReady` under other names.
    pub aliases: Vec<Alias>,
    /// Whether to set labels on the Node.
    pub labels: bool,
    /// The effect of the taint on a Node with a critical finding; `None` sets no taint.
    pub taint: Option<Taint>,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self {
            enabled: false,
            node: None,
            kubeconfig: None,
            severity: Threshold::Warning,
            events: true,
            force: false,
            aliases: Vec::new(),
            labels: false,
            taint: None,
        }
    }
}

/// The severity from which on a finding makes a condition true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Threshold {
    /// Warnings and critical findings.
    Warning,
    /// Critical findings only.
    Critical,
}

impl From<Threshold> for Severity {
    fn from(threshold: Threshold) -> Self {
        match threshold {
            Threshold::Warning => Self::Warning,
            Threshold::Critical => Self::Critical,
        }
    }
}

/// The effect of a taint on pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Taint {
    /// New pods are scheduled elsewhere if possible.
    PreferNoSchedule,
    /// No new pods are scheduled.
    NoSchedule,
    /// Running pods are evicted.
    NoExecute,
}

impl Taint {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoSchedule => "NoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}
