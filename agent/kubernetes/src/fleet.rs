//! Asks the agents of a cluster through the API server's pod proxy, with the rights of the caller. It judges nothing.
//!
//! What agents answer is not trusted: its size and its time are bounded, and its text is the caller's to escape.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use http_body_util::{BodyExt, Limited};
use hyper::{Request, header, header::HeaderValue};
use kube::{Client, client::Body};
use rdma_health_instrument::Registry;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{
    api::{Access, Api, connect},
    failure::{Failure, Permission},
    text::{shorten, single_line},
};
use crate::Metrics;
use objects::{Metadata, NodeObject, PodObject};

mod objects;

/// Maximum numbers of Nodes and of agent pods.
const MOST: usize = 50_000;
/// How often a request is repeated that the API server throttles, and the longest pause that it may request.
const ATTEMPTS: u32 = 4;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum length of a reason in characters.
const REASON: usize = 200;

/// Which agents to ask, and how.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// The API server and the credentials.
    pub access: Access,
    /// The agents' namespace; `None` finds them in all.
    pub namespace: Option<String>,
    /// Labels of the agents' pods.
    pub pods: String,
    /// Whether the agents serve HTTPS.
    pub tls: bool,
    /// Number of simultaneous requests.
    pub concurrency: usize,
    /// Timeout of one agent's answer.
    pub timeout: Duration,
}

/// A Node as the API server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetNode {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The kernel release that its kubelet reports.
    pub kernel: Option<String>,
    agent: Agent,
}

/// The agent of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Agent {
    None,
    /// A pod has the labels of an agent, but no port that serves.
    WithoutPort(String),
    NotRunning(String),
    Running(AgentPod),
}

/// The pod of an agent that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The address at which other nodes reach it; the agent has the network of its node.
    pub address: Option<IpAddr>,
    /// The path of its proxy.
    proxy: String,
}

impl FleetNode {
    /// The agent's pod.
    ///
    /// # Errors
    /// Why there is none that runs.
    pub fn pod(&self) -> Result<&AgentPod, String> {
        match &self.agent {
            Agent::None => Err("no agent runs on the node".into()),
            Agent::WithoutPort(pod) => Err(format!(
                "no agent runs on the node: the pod {pod} has its labels, but no port named metrics"
            )),
            Agent::NotRunning(phase) => Err(format!("the agent's pod is {phase}")),
            Agent::Running(pod) => Ok(pod),
        }
    }
}

/// Why the fleet cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// RBAC refuses.
    #[error("you may not {0}: {1}")]
    Forbidden(&'static str, String),
    /// Another failure.
    #[error("{0}")]
    Failed(String),
}

/// The Nodes of a cluster, and the way to their agents.
#[derive(Debug)]
pub struct Fleet {
    /// In order of name.
    pub nodes: Vec<FleetNode>,
    proxy: Proxy,
}

/// One answer: the index of the Node in [`Fleet::nodes`], and the answer or why there is none.
pub type FleetAnswer = (usize, Result<Vec<u8>, String>);

#[derive(Clone)]
struct Proxy {
    client: Client,
    authorization: Option<HeaderValue>,
    concurrency: usize,
    timeout: Duration,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").finish_non_exhaustive()
    }
}

impl Fleet {
    /// Lists the Nodes with these labels (all with an empty selector), or the one of this name, and finds their agents.
    ///
    /// # Errors
    /// If the API server cannot be reached or refuses the lists.
    pub async fn find(options: &FleetOptions, labels: &str, name: Option<&str>) -> Result<Self, FleetError> {
        let api = || Api::new(options.access.clone(), Arc::new(Metrics::new(&Registry::new())));
        let (mut of_nodes, mut of_pods) = (api(), api());
        let (nodes, pods) = tokio::join!(
            nodes(&mut of_nodes, labels, name),
            pods(&mut of_pods, options, name)
        );
        let (mut nodes, mut pods) = (nodes?, pods?);
        for node in &mut nodes {
            if let Some(agent) = pods.remove(&node.name) {
                node.agent = agent;
            }
        }
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let mut connection = connect(options.access.clone())
            .await
            .map_err(|failure| FleetError::Failed(failure.to_string()))?;
        let authorization = match &mut connection.token {
            Some(token) => {
                let header = token.authorization().await;
                Some(header.map_err(|failure| FleetError::Failed(failure.to_string()))?)
            }
            None => None,
        };
        let proxy = Proxy {
            client: connection.client,
            authorization,
            concurrency: options.concurrency.max(1),
            timeout: options.timeout,
        };
        Ok(Self { nodes, proxy })
    }

    /// Requests `path` from the agent of every Node; at most `most` bytes of each answer are read.
    pub async fn ask(&self, path: &'static str, most: usize, mut each: impl FnMut(FleetAnswer)) {
        let mut asking = JoinSet::new();
        for (n, node) in self.nodes.iter().enumerate() {
            let base = match node.pod() {
                Ok(pod) => pod.proxy.clone(),
                Err(why) => {
                    each((n, Err(why)));
                    continue;
                }
            };
            if asking.len() >= self.proxy.concurrency
                && let Some(Ok(answer)) = asking.join_next().await
            {
                each(answer);
            }
            let proxy = self.proxy.clone();
            asking.spawn(async move { (n, proxy.request(&format!("{base}{path}"), most).await) });
        }
        while let Some(done) = asking.join_next().await {
            // A task fails only if it panics, and then the program does, too.
            if let Ok(answer) = done {
                each(answer);
            }
        }
    }
}

impl Proxy {
    /// One answer, or why there is none. A throttled request is repeated.
    async fn request(&self, path: &str, most: usize) -> Result<Vec<u8>, String> {
        let mut attempt = 1;
        loop {
            let answer = tokio::time::timeout(self.timeout, self.attempt(path, most)).await;
            match answer {
                Err(_) => return Err(format!("no answer within {} s", self.timeout.as_secs_f32())),
                Ok(Err(Outcome::Failed(why))) => return Err(why),
                Ok(Err(Outcome::Throttled(_))) if attempt == ATTEMPTS => {
                    return Err("the API server throttles requests (429)".into());
                }
                Ok(Err(Outcome::Throttled(pause))) => {
                    tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
                    attempt += 1;
                }
                Ok(Ok(body)) => return Ok(body),
            }
        }
    }

    async fn attempt(&self, path: &str, most: usize) -> Result<Vec<u8>, Outcome> {
        let failed = |why: String| Outcome::Failed(shorten(&single_line(&why), REASON));
        let mut request = Request::builder().method("GET").uri(path);
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request
            .body(Body::from(Vec::new()))
            .map_err(|error| failed(error.to_string()))?;
        let response = self
            .client
            .clone()
            .send(request)
            .await
            .map_err(|error| failed(format!("cannot reach the API server: {error}")))?;
        let status = response.status().as_u16();
        let pause = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map_or(Duration::from_secs(1), Duration::from_secs);
        let body = Limited::new(response.into_body(), most)
            .collect()
            .await
            .map_err(|_| failed(format!("the answer broke off or has more than {most} bytes")))?
            .to_bytes();
        match status {
            200..=299 => Ok(body.to_vec()),
            429 => Err(Outcome::Throttled(pause)),
            _ => Err(failed(refusal(status, &body))),
        }
    }
}

/// Why one attempt has no result.
enum Outcome {
    Throttled(Duration),
    Failed(String),
}

/// What the proxy of the API server says, also as text, if it cannot reach a pod.
const NOT_REACHED: &str = "trying to reach service";

/// An error status in words. The API server's has a body of kind `Status`; an agent's is text.
fn refusal(status: u16, body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = value["message"].as_str().unwrap_or_default();
    let text = String::from_utf8_lossy(&body[..body.len().min(REASON)]);
    let text = text.trim();
    let said = if message.is_empty() { text } else { message };
    let is_of_agent = value["kind"] != "Status" && !text.contains(NOT_REACHED);
    match status {
        401 if value["kind"] != "Status" => {
            "the agent requires a password (401), which the API server does not forward".into()
        }
        403 if value["kind"] == "Status" => {
            "you may not get pods/proxy (403): grant verb \"get\" on resource \"pods/proxy\" in the agents' namespace".into()
        }
        500 | 502..=504 if said.is_empty() => format!("the API server cannot reach the agent ({status})"),
        502..=504 if !is_of_agent => format!("the API server cannot reach the agent ({status}): {said}"),
        _ if message.is_empty() => format!("the agent answered with status {status}: {text}"),
        _ => format!("{message} ({status})"),
    }
}

fn refused(what: &'static str) -> impl Fn(Failure) -> FleetError {
    move |failure| match failure {
        Failure::Refused(refusal) if refusal.code == 403 => {
            FleetError::Forbidden(what, shorten(&single_line(&refusal.message), REASON))
        }
        Failure::Refused(refusal) if refusal.code == 404 => {
            FleetError::Failed(shorten(&single_line(&refusal.message), REASON))
        }
        other => FleetError::Failed(other.to_string()),
    }
}

async fn nodes(api: &mut Api, labels: &str, name: Option<&str>) -> Result<Vec<FleetNode>, FleetError> {
    let mut found = Vec::new();
    let mut take = |object: NodeObject| {
        found.push(FleetNode {
            name: object.metadata.name,
            labels: object.metadata.labels.unwrap_or_default(),
            kernel: Some(object.status.node_info.kernel_version).filter(|kernel| !kernel.is_empty()),
            agent: Agent::None,
        });
    };
    let (verb, resource) = (if name.is_some() { "get" } else { "list" }, "nodes");
    let permission = Permission { verb, resource };
    if let Some(name) = name {
        let node = api.get(permission, name, &format!("/api/v1/nodes/{name}")).await;
        let node = node.map_err(refused("get nodes"))?;
        let parsed = serde_json::from_value(node);
        take(
            parsed
                .map_err(|error| FleetError::Failed(format!("the API server's Node is invalid: {error}")))?,
        );
    } else {
        let path = format!("/api/v1/nodes?labelSelector={}", escaped(labels));
        let listed = api.list(permission, &path, MOST, &mut take).await;
        listed.map_err(refused("list nodes"))?;
    }
    Ok(found)
}

/// The agents by Node. Of several on a Node, one that runs, and is not being deleted: at an upgrade, the old pod may still answer.
async fn pods(
    api: &mut Api,
    options: &FleetOptions,
    node: Option<&str>,
) -> Result<BTreeMap<String, Agent>, FleetError> {
    let scheme = if options.tls { "https:" } else { "" };
    let mut found = BTreeMap::new();
    let mut leaving = BTreeSet::new();
    let take = |pod: PodObject| {
        let Metadata { name, namespace, .. } = &pod.metadata;
        let Some(node) = &pod.spec.node_name else {
            return;
        };
        let phase = pod.status.phase.as_str();
        let is_leaving = pod.metadata.deletion_timestamp.is_some();
        let agent = match pod.port() {
            Some(port) if phase == "Running" && [name, namespace].into_iter().all(|name| is_name(name)) => {
                Agent::Running(AgentPod {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    address: pod
                        .status
                        .pod_ip
                        .as_ref()
                        .and_then(|address| address.parse().ok()),
                    proxy: format!("/api/v1/namespaces/{namespace}/pods/{scheme}{name}:{port}/proxy"),
                })
            }
            // Probably a pod of something else with the same label: it replaces no agent.
            None if found.contains_key(node) => return,
            None => Agent::WithoutPort(shorten(&single_line(name), REASON)),
            Some(_) => Agent::NotRunning(shorten(&single_line(phase), REASON)),
        };
        let replaces = match found.get(node) {
            Some(Agent::Running(_)) => {
                leaving.contains(node) && !is_leaving && matches!(agent, Agent::Running(_))
            }
            _ => true,
        };
        if replaces {
            found.insert(node.clone(), agent);
            if is_leaving {
                leaving.insert(node.clone());
            }
        }
    };
    let place = match &options.namespace {
        Some(namespace) => format!("/api/v1/namespaces/{namespace}/pods"),
        None => "/api/v1/pods".into(),
    };
    let field = node.map_or_else(String::new, |node| {
        format!("&fieldSelector={}", escaped(&format!("spec.nodeName={node}")))
    });
    let path = format!("{place}?labelSelector={}{field}", escaped(&options.pods));
    let permission = Permission {
        verb: "list",
        resource: "pods",
    };
    let listed = api.list(permission, &path, MOST, take).await;
    listed.map_err(refused(if options.namespace.is_some() {
        "list pods in this namespace"
    } else {
        "list pods in all namespaces; name the agents' namespace with --namespace"
    }))?;
    Ok(found)
}

/// Whether a name can be part of a path.
fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
    !name.is_empty() && name.len() <= 253 && name.bytes().all(allowed)
}

/// Percent-encodes what has a meaning in a query.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests;
