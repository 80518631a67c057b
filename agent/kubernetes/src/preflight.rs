//! Reads from the API server what a preflight needs. It judges nothing: `agent/preflight` does.

use std::{collections::BTreeSet, sync::Arc};

use rdma_health_instrument::Registry;
use rdma_health_preflight::{Cluster, Listed, Usage, Workload, reviews};
use serde_json::{Value, json};

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

/// What creates pods: API, kind, plural name.
const CONTROLLERS: &[(&str, &str, &str)] = &[
    ("/apis/apps/v1", "StatefulSet", "statefulsets"),
    ("/apis/apps/v1", "Deployment", "deployments"),
    ("/apis/apps/v1", "DaemonSet", "daemonsets"),
    ("/apis/batch/v1", "Job", "jobs"),
    ("/apis/jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"),
    ("/apis/kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
];
const ATTACHMENTS: &str = "/apis/k8s.cni.cncf.io/v1";

/// Reads what the pods of a namespace need to start. `objects` are manifests; they count as if they existed, and with them the pods
/// of the namespace are not read.
///
/// # Errors
/// If the API server cannot be reached. A list that may not be read is part of the result.
pub async fn read_cluster(
    access: Access,
    namespace: &str,
    objects: &[Value],
) -> Result<(Cluster, Vec<Workload>), Failure> {
    let mut api = Api::new(access, Arc::new(Metrics::new(&Registry::new())));
    let get = Permission {
        verb: "get",
        resource: "namespaces",
    };
    let mut cluster = Cluster {
        namespace: namespace.to_owned(),
        namespace_object: match api
            .get(get, namespace, &format!("/api/v1/namespaces/{namespace}"))
            .await
        {
            Ok(found) => Listed::Read(vec![found]),
            Err(failure) if failure.status() == Some(404) => Listed::Read(Vec::new()),
            Err(failure @ Failure::Refused(_)) => Listed::NotRead(in_words(&failure)),
            Err(failure) => return Err(failure),
        },
        ..Cluster::default()
    };
    let core = format!("/api/v1/namespaces/{namespace}");
    let mut workloads: Vec<_> = objects
        .iter()
        .flat_map(|object| Workload::in_object(object, namespace, false))
        .collect();
    if objects.is_empty() {
        cluster.pods = list(&mut api, "pods", "Pod", &format!("{core}/pods")).await;
        for (group, kind, plural) in CONTROLLERS {
            let path = format!("{group}/namespaces/{namespace}/{plural}");
            let listed = list(&mut api, plural, kind, &path).await;
            cluster.controllers.insert((*plural).to_owned(), listed);
        }
        let selector = "fieldSelector=type%3DWarning";
        cluster.events = list(&mut api, "events", "Event", &format!("{core}/events?{selector}")).await;
        let all = cluster.controllers.values().chain([&cluster.pods]);
        workloads = all
            .flat_map(Listed::items)
            .flat_map(|object| Workload::in_object(object, namespace, true))
            .collect();
    }
    let namespaces: BTreeSet<_> = workloads
        .iter()
        .flat_map(Workload::attachment_namespaces)
        .collect();
    for namespace in namespaces.into_iter().chain([namespace.to_owned()]) {
        // It is part of a path.
        let valid = !namespace.is_empty()
            && namespace
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
        let listed = if valid {
            let plural = "network-attachment-definitions";
            list(
                &mut api,
                plural,
                "NetworkAttachmentDefinition",
                &format!("{ATTACHMENTS}/namespaces/{namespace}/{plural}"),
            )
            .await
        } else {
            Listed::NotRead("this is not a valid name of a namespace".into())
        };
        cluster.attachments.insert(namespace, listed);
    }
    cluster.nodes = list(&mut api, "nodes", "Node", "/api/v1/nodes").await;
    cluster.quotas = list(
        &mut api,
        "resourcequotas",
        "ResourceQuota",
        &format!("{core}/resourcequotas"),
    )
    .await;
    cluster.service_accounts = list(
        &mut api,
        "serviceaccounts",
        "ServiceAccount",
        &format!("{core}/serviceaccounts"),
    )
    .await;
    let plural = "securitycontextconstraints";
    cluster.sccs = list(
        &mut api,
        plural,
        "SecurityContextConstraints",
        &format!("/apis/security.openshift.io/v1/{plural}"),
    )
    .await;
    let plural = "mutatingwebhookconfigurations";
    let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
    cluster.webhooks = list(&mut api, plural, "MutatingWebhookConfiguration", &path).await;
    cluster.usage = Some(usage(&mut api).await);
    cluster.add_manifests(objects);
    for (account, scc) in reviews(&cluster, &workloads).into_iter().take(MOST_REVIEWS) {
        let answer = may_use(&mut api, namespace, &account, &scc).await;
        // What the manifests grant stays.
        cluster.scc_use.entry((account, scc)).or_insert(answer);
    }
    Ok((cluster, if objects.is_empty() { Vec::new() } else { workloads }))
}

async fn list(api: &mut Api, resource: &'static str, kind: &str, path: &str) -> Listed {
    let permission = Permission {
        verb: "list",
        resource,
    };
    let mut items = Vec::new();
    let read = api.list(permission, path, MOST, |mut object: Value| {
        trim(&mut object);
        // The server leaves it out in a list.
        object["kind"] = kind.into();
        items.push(object);
    });
    match read.await {
        Ok(()) => Listed::Read(items),
        Err(failure) if failure.status() == Some(404) => Listed::NotInstalled,
        Err(failure) => Listed::NotRead(in_words(&failure)),
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

/// Which devices the pods of all namespaces hold.
async fn usage(api: &mut Api) -> Result<Usage, String> {
    let permission = Permission {
        verb: "list",
        resource: "pods",
    };
    let path = "/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
    let mut usage = Usage::default();
    let read = api
        .list(permission, path, MOST_PODS, |pod: Value| usage.add(&pod))
        .await;
    read.map(|()| usage).map_err(|failure| in_words(&failure))
}

/// Asks RBAC whether a service account may use an SCC.
async fn may_use(api: &mut Api, namespace: &str, account: &str, scc: &str) -> Result<bool, String> {
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
    let answer = api
        .create(permission, &path, &review)
        .await
        .map_err(|failure| in_words(&failure))?;
    answer["status"]["allowed"]
        .as_bool()
        .ok_or_else(|| "the answer to the review is not valid".into())
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
