//! What the configuration says of Kubernetes.

use std::path::PathBuf;

use rdma_health_rules::Severity;
use serde::{Deserialize, Serialize};

/// Publishing to Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)] // each is a key of its own
pub(crate) struct Kubernetes {
    /// Whether the node's state is published at all.
    pub(crate) enabled: bool,
    /// The Node's name; without one that of the environment variable `NODE_NAME`.
    pub(crate) node: Option<String>,
    /// A kubeconfig; without one the pod's service account, else what `kubectl` would use.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The mildest severity of a finding that makes a condition true.
    pub(crate) severity: Threshold,
    /// Whether Events are sent when a condition changes.
    pub(crate) events: bool,
    /// Whether conditions that somebody else manages are taken over.
    pub(crate) force: bool,
    /// Whether the Node gets labels.
    pub(crate) labels: bool,
    /// The effect of the taint that a Node with a critical finding gets; without one there is no taint.
    pub(crate) taint: Option<Taint>,
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
            labels: false,
            taint: None,
        }
    }
}

/// From where on a finding is a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Threshold {
    /// Warnings, too.
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

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Taint {
    /// New ones come only where there is no other place.
    PreferNoSchedule,
    /// No new ones come.
    NoSchedule,
    /// Those that are there are evicted.
    NoExecute,
}

impl Taint {
    /// As the API writes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoSchedule => "NoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}
