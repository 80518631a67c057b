//! The requests to the API server. The time of each request and the size of its response are bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::OpenOptions,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use http_body_util::{BodyExt, Limited};
use hyper::{Request, Response, header};
use kube::{
    Client,
    client::Body,
    config::{Config, KubeConfigOptions, Kubeconfig},
};
use rdma_health_file::{Links, Worker};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{
    Metrics,
    condition::{Condition, Status},
    failure::{Failure, Permission, Refusal},
    kind::ConditionType,
    labels::TaintChange,
    schedule::Published,
    token::TokenFile,
};

/// The field manager of everything that the agent writes.
pub(super) const MANAGER: &str = "rdma-health";
/// Timeout of connecting, with TLS. It is short because the schedule retries soon if a change is pending.
const CONNECT: Duration = Duration::from_secs(2);
/// Timeout of a whole request.
const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum size of a response in bytes; a Node with a thousand images has a few hundred KiB.
const MAX_ANSWER: usize = 8 << 20;
/// Maximum number of fields in a conflict that are looked at: five of each condition.
const MAX_CONFLICTS: usize = 256;
/// Maximum number of Nodes that are read; Kubernetes supports 5000.
const MOST_NODES: usize = 50_000;
/// Nodes have no namespace; every API server keeps Events about them in the namespace `default`.
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// The fields of a Node that the agent reads.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) metadata: Metadata,
    spec: Spec,
    status: NodeStatus,
}

/// The fields of a Node's metadata that the agent reads.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) uid: String,
    resource_version: String,
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
struct List<T> {
    #[serde(default)]
    metadata: ListMetadata,
    items: Vec<T>,
}

#[derive(Debug, Default, Deserialize)]
struct ListMetadata {
    r#continue: Option<String>,
}

impl Node {
    /// The conditions of these types, with the time of the latest heartbeat of any of them.
    pub(super) fn conditions(&self, types: &[ConditionType]) -> (Vec<Published>, Option<&str>) {
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
    pub(super) fn has_applied_state(&self) -> bool {
        let all = self.metadata.managed_fields.iter().flatten();
        let mut own = all.filter(|entry| entry.manager == MANAGER && entry.operation == "Apply");
        let some = |value: &Value| value.as_object().is_some_and(|fields| !fields.is_empty());
        own.any(|entry| {
            some(&entry.fields_v1["f:status"]["f:conditions"])
                || some(&entry.fields_v1["f:metadata"]["f:labels"])
        })
    }

    /// Whether it has a taint with this key.
    pub(super) fn is_tainted(&self, key: &str) -> bool {
        self.spec.taints.iter().flatten().any(|taint| taint["key"] == key)
    }

    /// Its labels.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        self.metadata.labels.clone().unwrap_or_default()
    }
}

/// The address of the API server, and the credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// A kubeconfig. Without one, the pod's service account is used; outside of a pod, the same as `kubectl` uses.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig instead of its current one.
    pub context: Option<String>,
}

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
    pub(super) fn sharing(client: Client, metrics: Arc<Metrics>) -> Self {
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

/// The part of a query that asks for the next page.
fn continuation(token: &str) -> Result<String, Failure> {
    /// It holds a key of etcd, which has a few hundred bytes.
    const LONGEST: usize = 16 << 10;
    // The token is base64url, which needs no escaping in a query; reject anything else.
    if token.len() <= LONGEST
        && token
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_=".contains(&b))
    {
        Ok(format!("&continue={token}"))
    } else {
        Err(Failure::Malformed(
            "the continue token is too long or contains unexpected characters".into(),
        ))
    }
}

fn status_of(name: &str) -> String {
    format!("/api/v1/nodes/{name}/status")
}

/// A client, and the token that its requests need.
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) token: Option<TokenFile>,
    /// The address of the server.
    pub(super) server: String,
}

/// [`connect`] in a separate thread: it reads files, and a file system that hangs must not block the agent.
async fn open(
    worker: &mut Worker<Result<Connection, Failure>>,
    access: &Access,
) -> Result<Connection, Failure> {
    let (access, runtime) = (access.clone(), Handle::current());
    let connected = worker.run(move || runtime.block_on(connect(access))).await;
    connected.unwrap_or_else(|error| {
        let what = format!("cannot read the kubeconfig or the service account: {error}");
        Err(Failure::Configuration(what))
    })
}

pub(super) async fn connect(access: Access) -> Result<Connection, Failure> {
    let refuse = |error: &dyn std::error::Error| Failure::Configuration(chain(error));
    let chosen = KubeConfigOptions {
        context: access.context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match &access.kubeconfig {
        Some(path) => {
            // The library would wait for ever for a FIFO.
            rdma_health_file::open(OpenOptions::new().read(true), path, Links::Follow)
                .map_err(|error| Failure::Configuration(format!("{}: {error}", path.display())))?;
            let file = Kubeconfig::read_from(path).map_err(|error| refuse(&error))?;
            Config::from_custom_kubeconfig(file, &chosen)
                .await
                .map_err(|error| Failure::Configuration(format!("{}: {}", path.display(), chain(&error))))?
        }
        // In a pod, ignore a kubeconfig of the image or of the mounted host.
        None if access.context.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
            Config::incluster().map_err(|error| refuse(&error))?
        }
        None if access.context.is_some() => Config::from_kubeconfig(&chosen)
            .await
            .map_err(|error| refuse(&error))?,
        None => Config::infer().await.map_err(|error| refuse(&error))?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = None; // DEADLINE covers the whole request
    // Only the schedule decides when to retry.
    config.default_retry = false;
    let server = address(&config.cluster_url);
    // The order of precedence of the library: it uses the file only without these.
    let auth = &mut config.auth_info;
    let inline = auth.auth_provider.is_some() || auth.token.is_some() || auth.username.is_some();
    let token = auth.token_file.take().filter(|_| !inline);
    Ok(Connection {
        client: Client::try_from(config).map_err(|error| refuse(&error))?,
        token: token.map(|path| TokenFile::new(path.into())),
        server,
    })
}

/// Scheme, host and port, and nothing that may be a secret.
fn address(url: &hyper::Uri) -> String {
    let (scheme, host) = (
        url.scheme_str().unwrap_or("https"),
        url.host().unwrap_or_default(),
    );
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{host}{port}")
}

fn unreachable(error: &kube::Error, server: &str) -> Failure {
    match error {
        // An unreadable token file or a failing credential plug-in.
        kube::Error::Auth(_) => Failure::Configuration(chain(error)),
        _ if never_connected(error) => Failure::Unreachable(format!("{server}: {}", root_cause(error))),
        _ => Failure::Broken(format!("{server}: {}", root_cause(error))),
    }
}

/// The last cause of an error: the layers of the client above it say only where it passed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    let text = super::text::single_line(&last.to_string());
    // The words of tokio for a timeout.
    if text == "deadline has elapsed" {
        return format!("no connection within {CONNECT:?}");
    }
    text
}

/// Whether the connection failed to open.
fn never_connected(error: &(dyn std::error::Error + 'static)) -> bool {
    let connecting = error
        .downcast_ref::<hyper_util::client::legacy::Error>()
        .is_some_and(hyper_util::client::legacy::Error::is_connect);
    connecting || error.source().is_some_and(never_connected)
}

/// An error with its causes, which libraries report separately.
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
    super::text::single_line(&text)
}

async fn read_response(
    response: Response<Body>,
    permission: Permission,
    name: &str,
) -> Result<Vec<u8>, Failure> {
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
        fields: fields.take(MAX_CONFLICTS).collect(),
    })))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| Failure::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The failure of a request to this address.
    async fn failure_of_request(address: std::net::SocketAddr) -> Failure {
        let directory = tempfile::tempdir().unwrap();
        let access = crate::test_access::access(directory.path(), address);
        let mut api = Api::new(
            access,
            Arc::new(Metrics::new(&rdma_health_instrument::Registry::new())),
        );
        api.node("node-1").await.unwrap_err()
    }

    #[tokio::test]
    async fn a_refused_connection_differs_from_a_broken_one() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let hang_up = async {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                // Closing a socket with unread data resets the connection.
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await;
            }
        };
        let failure = tokio::select! {
            () = hang_up => unreachable!("it has no end"),
            failure = failure_of_request(address) => failure,
        };
        assert!(matches!(failure, Failure::Broken(_)), "{failure}");
        drop(listener);
        let failure = failure_of_request(address).await;
        assert!(matches!(failure, Failure::Unreachable(_)), "{failure}");
        assert_eq!(
            failure.to_string(),
            format!("cannot reach the API server: http://{address}: Connection refused (os error 111)")
        );
    }

    #[test]
    fn a_node_without_conditions_labels_or_times_is_read() {
        for text in [
            r#"{"metadata":{"name":"n"}}"#,
            r#"{"metadata":{"labels":null},"status":{"conditions":null}}"#,
            r#"{"status":{"conditions":[{"type":"RDMALinkProblem","status":"True"}]}}"#,
        ] {
            let node: Node = parse(text.as_bytes()).unwrap();
            assert_eq!(
                node.conditions(&ConditionType::all([])),
                (Vec::new(), None),
                "{text}"
            );
        }
    }
}
