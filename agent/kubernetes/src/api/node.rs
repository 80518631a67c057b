//! The fields of a Node that the agent reads.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::MANAGER;
use crate::{
    condition::{Condition, Status},
    kind::ConditionType,
    schedule::Published,
};

/// The fields of a Node that the agent reads.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(crate) metadata: Metadata,
    pub(super) spec: Spec,
    status: NodeStatus,
}

/// The fields of a Node's metadata that the agent reads.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(super) resource_version: String,
    labels: Option<BTreeMap<String, String>>,
    managed_fields: Option<Vec<ManagedFields>>,
}

/// The fields that one manager owns.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ManagedFields {
    manager: String,
    operation: String,
    fields_v1: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Spec {
    pub(super) taints: Option<Vec<Value>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    conditions: Option<Vec<NodeCondition>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeCondition {
    r#type: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
    last_transition_time: Option<String>,
    last_heartbeat_time: Option<String>,
}

impl Node {
    /// The conditions of these types, with the time of the latest heartbeat of any of them.
    pub(crate) fn conditions(&self, types: &[ConditionType]) -> (Vec<Published>, Option<&str>) {
        let mut heartbeat = None;
        let mut own = Vec::new();
        for kind in types {
            let all = self.status.conditions.iter().flatten();
            let Some(found) = all.into_iter().find(|condition| condition.r#type == kind.name()) else {
                continue;
            };
            heartbeat = heartbeat.max(found.last_heartbeat_time.as_deref());
            own.push(Published {
                condition: Condition {
                    kind: kind.clone(),
                    status: Status::parse(&found.status),
                    reason: found.reason.clone().unwrap_or_default(),
                    message: found.message.clone().unwrap_or_default(),
                },
                since: found.last_transition_time.clone().unwrap_or_default(),
            });
        }
        // Ignore a condition without a time: the next write sets one.
        own.retain(|published| !published.since.is_empty());
        (own, heartbeat)
    }

    /// Whether the agent applied a condition or label that is still there, whatever its name.
    pub(crate) fn has_applied_state(&self) -> bool {
        let all = self.metadata.managed_fields.iter().flatten();
        let mut own = all.filter(|entry| entry.manager == MANAGER && entry.operation == "Apply");
        let some = |value: &Value| value.as_object().is_some_and(|fields| !fields.is_empty());
        own.any(|entry| {
            some(&entry.fields_v1["f:status"]["f:conditions"])
                || some(&entry.fields_v1["f:metadata"]["f:labels"])
        })
    }

    /// Whether it has a taint with this key.
    pub(crate) fn is_tainted(&self, key: &str) -> bool {
        self.spec.taints.iter().flatten().any(|taint| taint["key"] == key)
    }

    /// Its labels.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        self.metadata.labels.clone().unwrap_or_default()
    }
}
