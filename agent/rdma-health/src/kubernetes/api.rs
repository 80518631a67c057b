//! The few requests that are made of the API server, each bounded in time and in what is read of the answer.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Limited};
use hyper::{Request, Response, header};
use kube::{
    Client,
    client::Body,
    config::{Config, KubeConfigOptions, Kubeconfig},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    condition::{Condition, Status, kinds},
    failure::{Failure, Permission, Refusal},
    labels::Wish,
    schedule::Stated,
};
use crate::metrics::OwnMetrics;

/// The one name under which everything of ours is managed.
pub(super) const MANAGER: &str = "rdma-health";
/// Connecting, with TLS. Short, since it is tried again soon where a change waits.
const CONNECT: Duration = Duration::from_secs(2);
/// A request from end to end.
const DEADLINE: Duration = Duration::from_secs(10);
/// The most that is read of an answer, in bytes; a Node with a thousand images has some hundred KiB.
const MAX_ANSWER: usize = 8 << 20;
/// Events about Nodes, which have no namespace, are kept in this one by every server.
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// What is read of a Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) metadata: Metadata,
    spec: Spec,
    status: NodeStatus,
}

/// What is read of a Node's metadata.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) uid: String,
    resource_version: String,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Spec {
    taints: Option<Vec<Value>>,
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

#[derive(Debug, Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMetadata,
    items: Vec<Node>,
}

#[derive(Debug, Default, Deserialize)]
struct ListMetadata {
    r#continue: Option<String>,
}

impl Node {
    /// The conditions that are ours, with the time of the last heartbeat of any of them.
    pub(super) fn ours(&self) -> (Vec<Stated>, Option<&str>) {
        let mut heartbeat = None;
        let mut ours = Vec::new();
        for kind in kinds() {
            let all = self.status.conditions.iter().flatten();
            let Some(found) = all.into_iter().find(|condition| condition.r#type == kind) else {
                continue;
            };
            heartbeat = heartbeat.max(found.last_heartbeat_time.as_deref());
            ours.push(Stated {
                condition: Condition {
                    kind,
                    status: Status::parse(&found.status),
                    reason: found.reason.clone().unwrap_or_default(),
                    message: found.message.clone().unwrap_or_default(),
                },
                since: found.last_transition_time.clone().unwrap_or_default(),
            });
        }
        // One without a time is as good as none: it gets a time with the next write.
        ours.retain(|stated| !stated.since.is_empty());
        (ours, heartbeat)
    }

    /// Whether it has a taint of this key.
    pub(super) fn is_tainted(&self, key: &str) -> bool {
        self.spec.taints.iter().flatten().any(|taint| taint["key"] == key)
    }

    /// Its labels.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        self.metadata.labels.clone().unwrap_or_default()
    }
}

/// Where the API server is, and who we are to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// A kubeconfig; without one the pod's service account, else what `kubectl` would use.
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// A way to the API server that is made anew where it broke.
pub(super) struct Api {
    access: Access,
    own: Arc<OwnMetrics>,
    client: Option<Client>,
    /// Whether the client is not ours to throw away.
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
    pub(super) fn new(access: Access, own: Arc<OwnMetrics>) -> Self {
        Self {
            access,
            own,
            client: None,
            shared: false,
        }
    }

    /// One that shares the connections of `client`, to simulate many nodes in one process.
    #[cfg(test)]
    pub(super) fn sharing(client: Client, own: Arc<OwnMetrics>) -> Self {
        Self {
            access: Access::default(),
            own,
            client: Some(client),
            shared: true,
        }
    }

    /// The Node as it is. Its status subresource is the whole Node, and needs a permission that must be had anyway.
    pub(super) async fn node(&mut self, name: &str) -> Result<Node, Failure> {
        let permission = Permission {
            verb: "get",
            resource: "nodes/status",
        };
        let answer = self
            .ask(permission, name, "GET", &status_of(name), "", None)
            .await?;
        parse(&answer)
    }

    /// Every Node, page by page.
    pub(super) async fn nodes(&mut self) -> Result<Vec<Node>, Failure> {
        let permission = Permission {
            verb: "list",
            resource: "nodes",
        };
        let mut all = Vec::new();
        let mut next = String::new();
        loop {
            let path = format!("/api/v1/nodes?limit=100{next}");
            let answer = self.ask(permission, "", "GET", &path, "", None).await?;
            let page: List = parse(&answer)?;
            all.extend(page.items);
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                // The token is base64url, which a query takes as it is, but it comes from elsewhere.
                Some(token)
                    if token
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"-_=".contains(&b)) =>
                {
                    next = format!("&continue={token}");
                }
                Some(_) => return Err(Failure::Malformed("a continue token with odd characters".into())),
                None => return Ok(all),
            }
        }
    }

    /// Makes the Node's conditions and labels that are ours these, and no others.
    pub(super) async fn apply(
        &mut self,
        name: &str,
        conditions: &[Stated],
        labels: &BTreeMap<&'static str, String>,
        wall: &str,
        force: bool,
    ) -> Result<Node, Failure> {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|stated| {
                let condition = &stated.condition;
                json!({
                    "type": condition.kind,
                    "status": condition.status.name(),
                    "reason": condition.reason,
                    "message": condition.message,
                    "lastTransitionTime": stated.since,
                    "lastHeartbeatTime": wall,
                })
            })
            .collect();
        let mut metadata = json!({"name": name});
        if !labels.is_empty() {
            metadata["labels"] = json!(labels);
        }
        // Without any, the list itself is left out: an empty one would be ours.
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
            .ask(permission, name, "PATCH", &path, kind, Some(&body))
            .await?;
        parse(&answer)
    }

    /// Adds or removes the taint of this key, where that changes something.
    pub(super) async fn taint(&mut self, name: &str, key: &str, wanted: &Wish) -> Result<(), Failure> {
        let node = self.node(name).await?;
        let ours = |taint: &Value| taint["key"] == key;
        let mut taints = node.spec.taints.unwrap_or_default();
        let before = taints.iter().find(|taint| ours(taint)).cloned();
        let same = match (&before, wanted) {
            (_, Wish::Keep) | (None, Wish::Without) => true,
            (Some(before), Wish::With(wanted)) => {
                before["effect"] == wanted["effect"] && before["value"] == wanted["value"]
            }
            _ => false,
        };
        if same {
            return Ok(());
        }
        taints.retain(|taint| !ours(taint));
        if let Wish::With(taint) = wanted {
            taints.push(taint.clone());
        }
        // A list of taints is one value to the API: the version makes sure that nobody else's is lost.
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
        self.ask(permission, name, "PATCH", &path, kind, Some(&body))
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
        self.ask(permission, "", "POST", EVENTS, kind, Some(event))
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
        self.ask(permission, name, "PATCH", &path, kind, Some(change))
            .await?;
        Ok(())
    }

    async fn ask(
        &mut self,
        permission: Permission,
        name: &str,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Vec<u8>, Failure> {
        let asking = async {
            let client = match &self.client {
                Some(client) => client.clone(),
                None => self.client.insert(connect(&self.access).await?).clone(),
            };
            let mut request = Request::builder().method(method).uri(path);
            if body.is_some() {
                request = request.header(header::CONTENT_TYPE, content_type);
            }
            let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
            let request = request
                .body(Body::from(body))
                .map_err(|error| Failure::Malformed(error.to_string()))?;
            let response = client.send(request).await.map_err(|error| unreachable(&error))?;
            take(response, permission, name).await
        };
        let result = match tokio::time::timeout(DEADLINE, asking).await {
            Ok(result) => result,
            Err(_) => Err(Failure::TimedOut(DEADLINE)),
        };
        let code = match &result {
            Ok(_) => "ok".to_owned(),
            Err(failure) => failure.code(),
        };
        self.own.kubernetes_asked(permission, &code);
        if let Err(failure) = &result
            && failure.spoils_connection()
            && !self.shared
        {
            // A connection over which nothing comes back stays open for long; the next attempt makes another, and
            // reads token, certificates and kubeconfig anew.
            self.client = None;
        }
        result
    }
}

fn status_of(name: &str) -> String {
    format!("/api/v1/nodes/{name}/status")
}

/// Whether this can be a Node's name: a DNS subdomain, which is also what makes it safe in a path.
pub(crate) fn is_node_name(name: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

pub(super) async fn connect(access: &Access) -> Result<Client, Failure> {
    let refuse = |error: &dyn std::error::Error| Failure::Configuration(chain(error));
    let mut config = match &access.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|error| refuse(&error))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(|error| Failure::Configuration(format!("{}: {}", path.display(), chain(&error))))?
        }
        // In a pod no kubeconfig of the image or of the mounted host counts.
        None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
            Config::incluster().map_err(|error| refuse(&error))?
        }
        None => Config::infer().await.map_err(|error| refuse(&error))?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = None; // the deadline is over all
    // When to try again is decided in one place.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| refuse(&error))
}

fn unreachable(error: &kube::Error) -> Failure {
    match error {
        // A token file that cannot be read, a credential plug-in that fails.
        kube::Error::Auth(_) => Failure::Configuration(chain(error)),
        _ if never_connected(error) => Failure::Unreachable(chain(error)),
        _ => Failure::Broken(chain(error)),
    }
}

/// Whether no connection came about.
fn never_connected(error: &(dyn std::error::Error + 'static)) -> bool {
    let connecting = error
        .downcast_ref::<hyper_util::client::legacy::Error>()
        .is_some_and(hyper_util::client::legacy::Error::is_connect);
    connecting || error.source().is_some_and(never_connected)
}

/// An error with its causes, which libraries keep apart.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    super::text::plain(&text)
}

async fn take(response: Response<Body>, permission: Permission, name: &str) -> Result<Vec<u8>, Failure> {
    let code = response.status().as_u16();
    let retry_after = response
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let body = Limited::new(response.into_body(), MAX_ANSWER)
        .collect()
        .await
        .map_err(|error| Failure::Broken(chain(&*error)))?
        .to_bytes();
    if (200..300).contains(&code) {
        return Ok(body.to_vec());
    }
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = status["message"].as_str().map_or_else(
        || String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned(),
        str::to_owned,
    );
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let fields = causes.filter_map(|cause| Some(cause["field"].as_str()?.to_owned()));
    Err(Failure::Refused(Box::new(Refusal {
        permission,
        name: name.to_owned(),
        code,
        message,
        retry_after,
        fields: fields.take(64).collect(),
    })))
}

fn parse<T: serde::de::DeserializeOwned>(answer: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(answer).map_err(|error| Failure::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_name_is_safe_in_a_path() {
        for good in ["node-1", "10.0.0.1", "a.b-c.d"] {
            assert!(is_node_name(good), "{good}");
        }
        for bad in ["", "Node", "a/b", "..", "a_b", "-a", "a?b", &"a".repeat(254)] {
            assert!(!is_node_name(bad), "{bad}");
        }
    }

    /// What a request to this address ends in.
    async fn ask(address: std::net::SocketAddr) -> Failure {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let cluster = json!({"name": "c", "cluster": {"server": format!("http://{address}")}});
        let context = json!({"name": "c", "context": {"cluster": "c", "user": "u"}});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}],
        });
        std::fs::write(&path, config.to_string()).unwrap();
        let access = Access {
            kubeconfig: Some(path),
        };
        let mut api = Api::new(access, Arc::new(OwnMetrics::new()));
        api.node("node-1").await.unwrap_err()
    }

    #[tokio::test]
    async fn a_connection_that_is_refused_is_told_from_one_that_breaks() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let hang_up = async {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                // Whoever closes with something unread resets the connection.
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await;
            }
        };
        let failure = tokio::select! {
            () = hang_up => unreachable!("it has no end"),
            failure = ask(address) => failure,
        };
        assert!(matches!(failure, Failure::Broken(_)), "{failure}");
        drop(listener);
        let failure = ask(address).await;
        assert!(matches!(failure, Failure::Unreachable(_)), "{failure}");
    }

    #[test]
    fn a_node_without_conditions_labels_or_times_is_read() {
        for text in [
            r#"{"metadata":{"name":"n"}}"#,
            r#"{"metadata":{"labels":null},"status":{"conditions":null}}"#,
            r#"{"status":{"conditions":[{"type":"RDMALinkProblem","status":"True"}]}}"#,
        ] {
            let node: Node = parse(text.as_bytes()).unwrap();
            assert_eq!(node.ours(), (Vec::new(), None), "{text}");
        }
    }
}
