//! Nodes and pods as the API server answers them; the fields that are not read, which are most of a Node, are skipped.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Name of the agent's container and of its port.
const CONTAINER: &str = "agent";
const PORT: &str = "metrics";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeObject {
    pub(super) metadata: Metadata,
    pub(super) status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) labels: Option<BTreeMap<String, String>>,
    /// Present once someone asked for its deletion.
    pub(super) deletion_timestamp: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeStatus {
    pub(super) node_info: NodeInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeInfo {
    pub(super) kernel_version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodObject {
    pub(super) metadata: Metadata,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodSpec {
    pub(super) node_name: Option<String>,
    pub(super) containers: Vec<Container>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) ports: Option<Vec<ContainerPort>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerPort {
    pub(super) name: Option<String>,
    pub(super) container_port: u16,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodStatus {
    pub(super) phase: String,
    #[serde(rename = "podIP")]
    pub(super) pod_ip: Option<String>,
}

impl PodObject {
    /// The port of the agent's container.
    pub(super) fn port(&self) -> Option<u16> {
        let agent = self.spec.containers.iter().find(|one| one.name == CONTAINER)?;
        let mut ports = agent.ports.iter().flatten();
        Some(
            ports
                .find(|port| port.name.as_deref() == Some(PORT))?
                .container_port,
        )
    }
}
