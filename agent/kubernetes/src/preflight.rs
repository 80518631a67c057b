//! Reads from the API server what a preflight needs. It judges nothing: `agent/preflight` does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use rdma_health_instrument::Registry;
use rdma_health_preflight::{Cluster, Listed, Usage, Workload, reviews};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{
    api::{Access, Api},
    failure::{Failure, Permission},
    text::{shorten, single_line},
};
use crate::Metrics;

/// Maximum number of objects of one kind.
const MOST: usize = 10_000;
/// Maximum number of pods of the whole cluster.
const MOST_PODS: usize = 50_000;
/// Maximum number of questions about the use of an SCC.
const MOST_REVIEWS: usize = 200;

/// Maximum time of everything together. A cluster of 50,000 pods answers within half a minute.
const DEADLINE: Duration = Duration::from_secs(120);

/// What creates pods: group of the API, version, kind, plural name. If the server prefers another version of a group that is not its own,
/// that is used.
const CONTROLLERS: &[(&str, &str, &str, &str)] = &[
    ("", "v1", "ReplicationController", "replicationcontrollers"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("batch", "v1", "Job", "jobs"),
    ("batch", "v1", "CronJob", "cronjobs"),
    ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    (
        "leaderworkerset.x-k8s.io",
        "v1",
        "LeaderWorkerSet",
        "leaderworkersets",
    ),
    ("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
    ("kubeflow.org", "v2beta1", "MPIJob", "mpijobs"),
    ("ray.io", "v1", "RayCluster", "rayclusters"),
    ("ray.io", "v1", "RayJob", "rayjobs"),
    ("batch.volcano.sh", "v1alpha1", "Job", "jobs"),
];
const ATTACHMENTS: &str = "/apis/k8s.cni.cncf.io/v1";

/// Reads what the pods of a namespace need to start. `objects` are manifests; they count as if they existed, and with them the pods
/// of the namespace are not read. The workloads are those of the manifests, if there are any.
///
/// # Errors
/// If the API server cannot be reached. A list that may not be read is part of the result.
pub async fn read_cluster(
    access: Access,
    namespace: &str,
    objects: Option<&[Value]>,
) -> Result<(Cluster, Option<Vec<Workload>>), Failure> {
    let api = Api::new(access, Arc::new(Metrics::new(&Registry::new())));
    read_within(api, namespace, objects, DEADLINE).await
}

async fn read_within(
    api: Api,
    namespace: &str,
    objects: Option<&[Value]>,
    limit: Duration,
) -> Result<(Cluster, Option<Vec<Workload>>), Failure> {
    let mut api = Reader {
        api,
        limit,
        end: Instant::now() + limit,
    };
    let mut cluster = Cluster {
        namespace: namespace.to_owned(),
        namespace_object: api.namespace(namespace).await?,
        ..Cluster::default()
    };
    let core = format!("/api/v1/namespaces/{namespace}");
    let workloads: Vec<_> = if let Some(objects) = objects {
        let all = objects.iter();
        all.flat_map(|object| Workload::in_object(object, namespace, false))
            .collect()
    } else {
        cluster.pods = api.list("pods", "Pod", &format!("{core}/pods")).await;
        cluster.controllers = api.controllers(namespace).await;
        let selector = "fieldSelector=type%3DWarning";
        cluster.events = api
            .list("events", "Event", &format!("{core}/events?{selector}"))
            .await;
        let all = cluster.controllers.values().chain([&cluster.pods]);
        all.flat_map(Listed::items)
            .flat_map(|object| Workload::in_object(object, namespace, true))
            .collect()
    };
    let mut namespaces: BTreeSet<_> = workloads
        .iter()
        .flat_map(Workload::attachment_namespaces)
        .collect();
    namespaces.insert(namespace.to_owned());
    for namespace in namespaces {
        let listed = api.attachments(&namespace).await;
        cluster.attachments.insert(namespace, listed);
    }
    cluster.nodes = api.list("nodes", "Node", "/api/v1/nodes").await;
    let (plural, kind) = ("resourcequotas", "ResourceQuota");
    cluster.quotas = api.list(plural, kind, &format!("{core}/{plural}")).await;
    let (plural, kind) = ("limitranges", "LimitRange");
    cluster.limit_ranges = api.list(plural, kind, &format!("{core}/{plural}")).await;
    let (plural, kind) = ("serviceaccounts", "ServiceAccount");
    cluster.service_accounts = api.list(plural, kind, &format!("{core}/{plural}")).await;
    let (plural, kind) = ("securitycontextconstraints", "SecurityContextConstraints");
    let path = format!("/apis/security.openshift.io/v1/{plural}");
    cluster.sccs = api.list(plural, kind, &path).await;
    let (plural, kind) = ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration");
    let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
    cluster.webhooks = api.list(plural, kind, &path).await;
    cluster.usage = Some(api.usage().await);
    cluster.add_manifests(objects.unwrap_or_default());
    for (account, scc) in reviews(&cluster, &workloads).into_iter().take(MOST_REVIEWS) {
        let answer = api.may_use(namespace, &account, &scc).await;
        // What the manifests grant stays.
        cluster.scc_use.entry((account, scc)).or_insert(answer);
    }
    Ok((cluster, objects.is_some().then_some(workloads)))
}

/// Asks the API server until a deadline, which all questions share.
struct Reader {
    api: Api,
    limit: Duration,
    end: Instant,
}

impl Reader {
    /// The object of a namespace.
    async fn namespace(&mut self, name: &str) -> Result<Listed, Failure> {
        let get = Permission {
            verb: "get",
            resource: "namespaces",
        };
        match self
            .api
            .get(get, name, &format!("/api/v1/namespaces/{name}"))
            .await
        {
            Ok(found) => Ok(Listed::Read(vec![found])),
            Err(failure) if failure.status() == Some(404) => Ok(Listed::Read(Vec::new())),
            Err(failure @ Failure::Refused(_)) => Ok(Listed::NotRead(in_words(&failure))),
            Err(failure) => Err(failure),
        }
    }

    /// Why nothing more is asked.
    fn too_late(&self) -> String {
        format!("the API server did not answer everything within {:?}", self.limit)
    }

    async fn list(&mut self, resource: &'static str, kind: &str, path: &str) -> Listed {
        let permission = Permission {
            verb: "list",
            resource,
        };
        let mut items = Vec::new();
        let read = self.api.list(permission, path, MOST, |mut object: Value| {
            trim(&mut object);
            // The server leaves it out in a list.
            object["kind"] = kind.into();
            items.push(object);
        });
        match timeout_at(self.end, read).await {
            Ok(Ok(())) => Listed::Read(items),
            Ok(Err(failure)) if failure.status() == Some(404) => Listed::NotInstalled,
            Ok(Err(failure)) => Listed::NotRead(in_words(&failure)),
            Err(_) => Listed::NotRead(self.too_late()),
        }
    }

    /// Everything in a namespace that creates pods, by plural name.
    async fn controllers(&mut self, namespace: &str) -> BTreeMap<String, Listed> {
        let versions = self.preferred_versions().await;
        let mut found = BTreeMap::new();
        for (group, version, kind, plural) in CONTROLLERS {
            let is_own = !group.contains('.');
            let path = match &versions {
                _ if group.is_empty() => format!("/api/{version}"),
                Some(versions) if !is_own => match versions.get(*group) {
                    // A version serves some kinds only: MPIJob is in v1 and v2beta1.
                    Some(all) if all.iter().any(|one| one == version) => format!("/apis/{group}/{version}"),
                    Some(all) if !all.is_empty() => format!("/apis/{group}/{}", all[0]),
                    _ => continue,
                },
                _ => format!("/apis/{group}/{version}"),
            };
            let listed = self
                .list(plural, kind, &format!("{path}/namespaces/{namespace}/{plural}"))
                .await;
            let name = if is_own {
                (*plural).to_owned()
            } else {
                format!("{plural}.{group}")
            };
            found.insert(name, listed);
        }
        found
    }

    /// The versions of each group of the API, the preferred one first; `None` if the server does not answer that. A user who may not list a kind
    /// is refused even if the cluster does not have it, so only what it has is listed.
    async fn preferred_versions(&mut self) -> Option<BTreeMap<String, Vec<String>>> {
        let permission = Permission {
            verb: "get",
            resource: "apis",
        };
        let read = self.api.get(permission, "", "/apis");
        let answer = timeout_at(self.end, read).await.ok()?.ok()?;
        let mut found = BTreeMap::new();
        for group in answer["groups"].as_array()? {
            let preferred = group["preferredVersion"]["version"].as_str();
            let all = group["versions"].as_array().into_iter().flatten();
            let all = all.filter_map(|one| one["version"].as_str());
            // They are part of a path.
            let valid = |text: &&str| text.bytes().all(|b| b.is_ascii_alphanumeric());
            let versions = preferred.into_iter().chain(all).filter(valid).map(str::to_owned);
            if let Some(name) = group["name"].as_str() {
                found.insert(name.to_owned(), versions.collect());
            }
        }
        Some(found)
    }

    /// The network attachments of a namespace.
    async fn attachments(&mut self, namespace: &str) -> Listed {
        // It is part of a path.
        let valid = !namespace.is_empty()
            && namespace
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
        if !valid {
            return Listed::NotRead("this is not a valid name of a namespace".into());
        }
        let plural = "network-attachment-definitions";
        let path = format!("{ATTACHMENTS}/namespaces/{namespace}/{plural}");
        self.list(plural, "NetworkAttachmentDefinition", &path).await
    }

    /// Which devices the pods of all namespaces hold.
    async fn usage(&mut self) -> Result<Usage, String> {
        let permission = Permission {
            verb: "list",
            resource: "pods",
        };
        let path = "/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
        let mut usage = Usage::default();
        let read = self
            .api
            .list(permission, path, MOST_PODS, |pod: Value| usage.add(&pod));
        match timeout_at(self.end, read).await {
            Ok(read) => read.map(|()| usage).map_err(|failure| in_words(&failure)),
            Err(_) => Err(self.too_late()),
        }
    }

    /// Asks RBAC whether a service account may use an SCC.
    async fn may_use(&mut self, namespace: &str, account: &str, scc: &str) -> Result<bool, String> {
        let permission = Permission {
            verb: "create",
            resource: "localsubjectaccessreviews",
        };
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "LocalSubjectAccessReview",
            "metadata": {"namespace": namespace},
            "spec": {
                "user": format!("system:serviceaccount:{namespace}:{account}"),
                "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"],
                "resourceAttributes": {
                    "namespace": namespace, "verb": "use", "group": "security.openshift.io",
                    "resource": "securitycontextconstraints", "name": scc,
                },
            },
        });
        let path = format!("/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews");
        let asked = self.api.create(permission, &path, &review);
        let answer = match timeout_at(self.end, asked).await {
            Ok(answer) => answer.map_err(|failure| in_words(&failure))?,
            Err(_) => return Err(self.too_late()),
        };
        answer["status"]["allowed"]
            .as_bool()
            .ok_or_else(|| "the answer to the review is not valid".into())
    }
}

/// Removes what is large and of no use here.
fn trim(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("images");
    }
}

/// Why something could not be read. A refusal names what is missing itself.
fn in_words(failure: &Failure) -> String {
    match failure {
        Failure::Refused(refusal) => format!(
            "{} ({})",
            shorten(&single_line(&refusal.message), 300),
            refusal.code
        ),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
