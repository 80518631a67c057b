//! The requests to the API server. The time of each request and the size of its response are bounded.

mod answer;
mod connection;
mod node;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use answer::{List, continuation, parse, read_response, unreachable};
pub use connection::Access;
pub(super) use connection::connect;
use connection::{Connection, open};
use hyper::{Request, header};
use kube::client::Body;
pub(super) use node::Node;
use rdma_health_file::Worker;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Metrics,
    failure::{Failure, Permission},
    labels::TaintChange,
    schedule::Published,
};

/// The field manager of everything that the agent writes.
pub(super) const MANAGER: &str = "rdma-health";
/// Timeout of connecting, with TLS. It is short because the schedule retries soon if a change is pending.
const CONNECT: Duration = Duration::from_secs(2);
/// Timeout of a whole request.
const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum number of Nodes that are read; Kubernetes supports 5000.
const MOST_NODES: usize = 50_000;
/// Nodes have no namespace; every API server keeps Events about them in the namespace `default`.
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// A client of the API server that reconnects after an error.
pub(super) struct Api {
    access: Access,
    metrics: Arc<Metrics>,
    connection: Option<Connection>,
    /// Reads the credentials.
    connecting: Worker<Result<Connection, Failure>>,
    /// Whether the client is shared and must not be dropped.
    shared: bool,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api")
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl Api {
    pub(super) fn new(access: Access, metrics: Arc<Metrics>) -> Self {
        Self {
            access,
            metrics,
            connection: None,
            connecting: Worker::retrying(),
            shared: false,
        }
    }

    /// Shares the connections of `client`, to simulate many nodes in one process.
    #[cfg(test)]
    pub(super) fn sharing(client: kube::Client, metrics: Arc<Metrics>) -> Self {
        Self {
            access: Access::default(),
            metrics,
            connection: Some(Connection {
                client,
                token: None,
                server: String::new(),
            }),
            connecting: Worker::retrying(),
            shared: true,
        }
    }

    /// Reads the Node. Its status subresource returns the whole Node and needs only a permission that the agent has anyway.
    pub(super) async fn node(&mut self, name: &str) -> Result<Node, Failure> {
        let permission = Permission {
            verb: "get",
            resource: "nodes/status",
        };
        let answer = self
            .request(permission, name, "GET", &status_of(name), "", None)
            .await?;
        parse(&answer)
    }

    /// Reads all Nodes, page by page.
    pub(super) async fn nodes(&mut self) -> Result<Vec<Node>, Failure> {
        let permission = Permission {
            verb: "list",
            resource: "nodes",
        };
        let mut all = Vec::new();
        self.list(permission, "/api/v1/nodes", MOST_NODES, |node| all.push(node))
            .await?;
        Ok(all)
    }

    /// Reads every object of a list, page by page. `path` has the query without the page.
    pub(super) async fn list<T: DeserializeOwned>(
        &mut self,
        permission: Permission,
        path: &str,
        most: usize,
        mut each: impl FnMut(T),
    ) -> Result<(), Failure> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let (mut next, mut count) = (String::new(), 0);
        // A server that repeats itself has no last page.
        let mut tokens = BTreeSet::new();
        loop {
            let page = format!("{path}{separator}limit=100{next}");
            let answer = self.request(permission, "", "GET", &page, "", None).await?;
            let page: List<T> = parse(&answer)?;
            count += page.items.len();
            if count > most || tokens.len() > most {
                return Err(Failure::Malformed(format!(
                    "there are more than {most} {}",
                    permission.resource
                )));
            }
            page.items.into_iter().for_each(&mut each);
            next = match page.metadata.r#continue.as_deref().unwrap_or_default() {
                "" => return Ok(()),
                token if !tokens.insert(token.to_owned()) => {
                    let resource = permission.resource;
                    return Err(Failure::Malformed(format!(
                        "the list of {resource} repeats a page"
                    )));
                }
                token => continuation(token)?,
            };
        }
    }

    /// Reads one object.
    pub(super) async fn get(
        &mut self,
        permission: Permission,
        name: &str,
        path: &str,
    ) -> Result<Value, Failure> {
        let answer = self.request(permission, name, "GET", path, "", None).await?;
        parse(&answer)
    }

    /// Creates an object, or asks a question in the form of one. Returns the server's object.
    pub(super) async fn create(
        &mut self,
        permission: Permission,
        path: &str,
        body: &Value,
    ) -> Result<Value, Failure> {
        let kind = "application/json";
        let answer = self
            .request(permission, "", "POST", path, kind, Some(body))
            .await?;
        parse(&answer)
    }

    /// Replaces the agent's own conditions and labels of the Node.
    pub(super) async fn apply(
        &mut self,
        name: &str,
        conditions: &[Published],
        labels: &BTreeMap<&'static str, String>,
        wall: &str,
        force: bool,
    ) -> Result<Node, Failure> {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|published| {
                let condition = &published.condition;
                json!({
                    "type": condition.kind.name(),
                    "status": condition.status.name(),
                    "reason": condition.reason,
                    "message": condition.message,
                    "lastTransitionTime": published.since,
                    "lastHeartbeatTime": wall,
                })
            })
            .collect();
        let mut metadata = json!({"name": name});
        if !labels.is_empty() {
            metadata["labels"] = json!(labels);
        }
        // Without conditions, leave out the list: the agent would become a manager of an empty one.
        let status = if conditions.is_empty() {
            json!({})
        } else {
            json!({"conditions": conditions})
        };
        let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status});
        let permission = Permission {
            verb: "patch",
            resource: "nodes/status",
        };
        let path = format!("{}?fieldManager={MANAGER}&force={force}", status_of(name));
        // JSON is YAML.
        let kind = "application/apply-patch+yaml";
        let answer = self
            .request(permission, name, "PATCH", &path, kind, Some(&body))
            .await?;
        parse(&answer)
    }

    /// Adds or removes the taint with this key, if that changes anything.
    pub(super) async fn taint(&mut self, name: &str, key: &str, wanted: &TaintChange) -> Result<(), Failure> {
        let node = self.node(name).await?;
        let is_own = |taint: &Value| taint["key"] == key;
        let mut taints = node.spec.taints.unwrap_or_default();
        let before = taints.iter().find(|taint| is_own(taint)).cloned();
        let same = match (&before, wanted) {
            (_, TaintChange::Keep) | (None, TaintChange::Remove) => true,
            (Some(before), TaintChange::Set(wanted)) => {
                before["effect"] == wanted["effect"] && before["value"] == wanted["value"]
            }
            _ => false,
        };
        if same {
            return Ok(());
        }
        taints.retain(|taint| !is_own(taint));
        if let TaintChange::Set(taint) = wanted {
            taints.push(taint.clone());
        }
        // The API replaces the list of taints as a whole: the resource version keeps concurrent changes from being lost.
        let body = json!({
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": taints},
        });
        let permission = Permission {
            verb: "patch",
            resource: "nodes",
        };
        let path = format!("/api/v1/nodes/{name}?fieldManager={MANAGER}-taint");
        let kind = "application/merge-patch+json";
        self.request(permission, name, "PATCH", &path, kind, Some(&body))
            .await?;
        Ok(())
    }

    /// Creates an Event.
    pub(super) async fn create_event(&mut self, event: &Value) -> Result<(), Failure> {
        let permission = Permission {
            verb: "create",
            resource: "events",
        };
        let kind = "application/json";
        self.request(permission, "", "POST", EVENTS, kind, Some(event))
            .await?;
        Ok(())
    }

    /// Changes an Event.
    pub(super) async fn patch_event(&mut self, name: &str, change: &Value) -> Result<(), Failure> {
        let permission = Permission {
            verb: "patch",
            resource: "events",
        };
        let path = format!("{EVENTS}/{name}");
        let kind = "application/merge-patch+json";
        self.request(permission, name, "PATCH", &path, kind, Some(change))
            .await?;
        Ok(())
    }

    async fn request(
        &mut self,
        permission: Permission,
        name: &str,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Vec<u8>, Failure> {
        let sending = async {
            let connection = match &mut self.connection {
                Some(connection) => connection,
                None => self
                    .connection
                    .insert(open(&mut self.connecting, &self.access).await?),
            };
            let mut request = Request::builder().method(method).uri(path);
            if let Some(token) = &mut connection.token {
                request = request.header(header::AUTHORIZATION, token.authorization().await?);
            }
            if body.is_some() {
                request = request.header(header::CONTENT_TYPE, content_type);
            }
            let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
            let request = request
                .body(Body::from(body))
                .map_err(|error| Failure::Malformed(error.to_string()))?;
            let response = connection
                .client
                .clone()
                .send(request)
                .await
                .map_err(|error| unreachable(&error, &connection.server))?;
            read_response(response, permission, name).await
        };
        let result = match tokio::time::timeout(DEADLINE, sending).await {
            Ok(result) => result,
            Err(_) => Err(Failure::TimedOut(DEADLINE)),
        };
        let code = match &result {
            Ok(_) => "ok".to_owned(),
            Err(failure) => failure.code(),
        };
        self.metrics.count_request(permission, &code);
        if let Err(failure) = &result
            && failure.needs_new_connection()
            && !self.shared
        {
            // A dead connection stays open for a long time. The next attempt opens a new one, and rereads token,
            // certificates and kubeconfig.
            self.connection = None;
        }
        result
    }
}

fn status_of(name: &str) -> String {
    format!("/api/v1/nodes/{name}/status")
}

#[cfg(test)]
mod tests;
