//! `rdma-health preflight` against a real API server: the job of deploy/workload as it is, and every mistake of the field's setup
//! guides. Network attachments and SCCs are custom resources here, so their own admission does not run.

#![allow(clippy::similar_names, clippy::too_many_lines, clippy::unused_self)] // one story of a team and its namespace

use std::{
    path::PathBuf,
    process::{Command, Output},
    thread::sleep,
    time::{Duration, Instant},
};

use rdma_health_tests::{api_server::ApiServer, virtual_node::built};
use serde_json::{Value, json};

const TEAM: &str = "team-a";
const ATTACHMENTS: &str = "/apis/k8s.cni.cncf.io/v1/namespaces/team-a/network-attachment-definitions";

struct Team<'a> {
    server: &'a ApiServer,
    kubeconfig: PathBuf,
}

fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The objects of a manifest.
fn objects(path: &str) -> Vec<Value> {
    let tools = Command::new(repository("tests/deploy/tools")).output().unwrap();
    assert!(
        tools.status.success(),
        "{}",
        String::from_utf8_lossy(&tools.stderr)
    );
    let script =
        "import json, sys, yaml; print(json.dumps([o for o in yaml.safe_load_all(open(sys.argv[1])) if o]))";
    let mut python = Command::new(String::from_utf8(tools.stdout).unwrap().trim());
    let output = python
        .args(["-c", script])
        .arg(repository(path))
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A kind of object that Multus and OpenShift add.
fn custom(server: &ApiServer, group: &str, plural: &str, kind: &str, scope: &str) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    server.must("POST", path, Some(&definition)).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while server
        .ask("GET", &format!("/apis/{group}/v1/{plural}"), None)
        .unwrap()
        .status
        != 200
    {
        assert!(Instant::now() < end, "{plural} is not served");
        sleep(Duration::from_millis(100));
    }
}

impl Team<'_> {
    /// What preflight prints, and its exit status.
    fn preflight(&self, more: &[&str]) -> (i32, String) {
        finished(&self.command(&self.kubeconfig, more).output().unwrap())
    }

    fn command(&self, kubeconfig: &PathBuf, more: &[&str]) -> Command {
        let mut command = Command::new(built("rdma-health").unwrap());
        command
            .args(["preflight", "--namespace", TEAM, "--kubeconfig"])
            .arg(kubeconfig)
            .args(more);
        command
    }

    /// Asserts that preflight finds this and nothing else that is critical.
    fn finds(&self, rule: &str, words: &str) {
        let (status, said) = self.preflight(&["--output", "json"]);
        let report: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        let findings = report["findings"].as_array().unwrap();
        let rules: Vec<_> = findings.iter().map(|one| one["rule"].as_str().unwrap()).collect();
        assert_eq!((rules, status), (vec![rule], 2), "{said}");
        assert!(said.contains(words), "{words}: {said}");
    }

    fn is_fine(&self) {
        let (status, said) = self.preflight(&[]);
        assert_eq!(status, 0, "{said}");
        assert!(
            said.starts_with("OK  namespace team-a: nothing found; checked StatefulSet team-a/rdma-job"),
            "{said}"
        );
    }

    /// Where objects of this kind are.
    fn place(&self, object: &Value) -> String {
        let plural = match object["kind"].as_str().unwrap() {
            "NetworkAttachmentDefinition" => "network-attachment-definitions".to_owned(),
            "SecurityContextConstraints" => "securitycontextconstraints".to_owned(),
            kind => format!("{}s", kind.to_lowercase()),
        };
        match object["apiVersion"].as_str().unwrap() {
            "v1" => format!("/api/v1/namespaces/{TEAM}/{plural}"),
            group if plural == "securitycontextconstraints" => format!("/apis/{group}/{plural}"),
            group => format!("/apis/{group}/namespaces/{TEAM}/{plural}"),
        }
    }

    fn create(&self, object: &Value) {
        self.server
            .must("POST", &self.place(object), Some(object))
            .unwrap();
    }

    fn delete(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.server
            .must("DELETE", &format!("{}/{name}", self.place(object)), None)
            .unwrap();
    }

    /// Creates an object, lets `check` run, and deletes it.
    fn with(&self, object: &Value, check: impl FnOnce()) {
        self.create(object);
        check();
        self.delete(object);
    }

    fn allocatable(&self, node: &str, resources: &Value) {
        let patch = json!({"status": {"allocatable": resources, "capacity": resources}});
        let path = format!("/api/v1/nodes/{node}/status");
        self.server.must("PATCH", &path, Some(&patch)).unwrap();
    }
}

fn finished(output: &Output) -> (i32, String) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(err, "");
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout.clone()).unwrap(),
    )
}

#[test]
#[ignore = "needs a kube-apiserver: make test-kubernetes"]
fn every_mistake_of_the_setup_is_found_before_a_pod_is_stuck() {
    let server = ApiServer::start().unwrap();
    custom(
        &server,
        "k8s.cni.cncf.io",
        "network-attachment-definitions",
        "NetworkAttachmentDefinition",
        "Namespaced",
    );
    custom(
        &server,
        "security.openshift.io",
        "securitycontextconstraints",
        "SecurityContextConstraints",
        "Cluster",
    );
    let (kubeconfig, _) = server.kubeconfig("preflight", "admin-of-a-test").unwrap();
    let team = Team {
        server: &server,
        kubeconfig,
    };
    let job = repository("deploy/workload/kustomize/rdma/job.yaml");
    let grant = repository("deploy/workload/kustomize/openshift/scc.yaml");
    let (job, grant) = (job.to_str().unwrap(), grant.to_str().unwrap());

    // The administrator has done nothing yet.
    let (status, said) = team.preflight(&["--file", job]);
    assert_eq!(status, 2, "{said}");
    for words in [
        "namespace-missing",
        "kubectl create namespace team-a",
        "no node has the resources openshift.io/rdma_rail_0, openshift.io/rdma_rail_1",
        "no SCC of the cluster allows all of it",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let namespace = json!({"metadata": {"name": TEAM}});
    server
        .must("POST", "/api/v1/namespaces", Some(&namespace))
        .unwrap();
    for scc in objects("deploy/openshift/scc-rdma-workload.yaml") {
        team.create(&scc);
    }
    // The one that every account of OpenShift may use.
    team.create(&json!({
        "apiVersion": "security.openshift.io/v1", "kind": "SecurityContextConstraints",
        "metadata": {"name": "restricted-v2"}, "groups": ["system:authenticated"],
        "allowedCapabilities": ["NET_BIND_SERVICE"], "allowPrivilegeEscalation": false,
    }));
    let rails =
        json!({"nvidia.com/gpu": "8", "openshift.io/rdma_rail_0": "4", "openshift.io/rdma_rail_1": "4"});
    for node in ["gpu-01", "gpu-02"] {
        server.create_node(node).unwrap();
        // Without a kubelet, it would stay not ready.
        let ready = json!({"spec": {"taints": null}});
        let path = format!("/api/v1/nodes/{node}");
        server.must("PATCH", &path, Some(&ready)).unwrap();
        team.allocatable(node, &rails);
    }
    let (status, said) = team.preflight(&["--file", job]);
    assert_eq!(status, 2, "{said}");
    assert!(
        said.contains("oc adm policy add-scc-to-user rdma-ipc-lock -z rdma-job -n team-a"),
        "{said}"
    );
    // With the binding in the manifest, too.
    let (status, said) = team.preflight(&["--file", job, "--file", grant]);
    assert_eq!(status, 0, "{said}");

    // The server accepts the job's objects, and the job is complete.
    let mut binding = Value::Null;
    for mut object in objects("deploy/workload/kustomize/openshift/scc.yaml") {
        if object["kind"] == "RoleBinding" {
            object["subjects"][0]["namespace"] = TEAM.into();
            binding = object.clone();
        }
        team.create(&object);
    }
    let parts = objects("deploy/workload/kustomize/rdma/job.yaml");
    for object in objects("deploy/workload/kustomize/benchmark/script.yaml")
        .iter()
        .chain(&parts)
    {
        team.create(object);
    }
    team.is_fine();

    // Now each mistake.
    team.delete(&binding);
    team.finds(
        "scc-missing",
        "may not use any SCC that allows capability IPC_LOCK",
    );
    refused_by_scc(&team);
    team.create(&binding);
    attachments(&team, &parts);
    nodes(&team, &rails);
    let account = parts.iter().find(|one| one["kind"] == "ServiceAccount").unwrap();
    team.delete(account);
    team.finds(
        "service-account-missing",
        "kubectl -n team-a create serviceaccount rdma-job",
    );
    team.create(account);
    let hard = json!({"requests.nvidia.com/gpu": "8"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": hard}});
    team.with(&quota, || team.finds("quota-exceeded", "2 more pods need 16"));
    let level = |level: Value| {
        let patch = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
        server
            .must("PATCH", &format!("/api/v1/namespaces/{TEAM}"), Some(&patch))
            .unwrap();
    };
    level("restricted".into());
    team.finds("pod-security", "capability IPC_LOCK");
    level(Value::Null);
    pending(&team, &parts);
    team.is_fine();
    without_rights(&team);
}

/// The controller of the `StatefulSet` does not run here: this is the event that it would write.
fn refused_by_scc(team: &Team<'_>) {
    let message = "create Pod rdma-job-0 in StatefulSet rdma-job failed error: pods \"rdma-job-0\" is forbidden: unable to validate \
                   against any security context constraint: [capabilities.add: Invalid value: \"IPC_LOCK\": capability may not \
                   be added]";
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "refused"}, "type": "Warning", "reason": "FailedCreate",
        "message": message,
        "involvedObject": {"kind": "StatefulSet", "name": "rdma-job", "namespace": TEAM},
    });
    team.with(&event, || {
        let (_, said) = team.preflight(&[]);
        // The refusal confirms what the SCCs say: one finding, not two.
        assert!(said.contains(": 1 critical finding;"), "{said}");
        assert!(
            said.contains("service account rdma-job may not use any SCC that allows capability IPC_LOCK"),
            "{said}"
        );
        assert!(
            said.contains("evidence: event FailedCreate: create Pod rdma-job-0"),
            "{said}"
        );
    });
}

fn attachments(team: &Team<'_>, parts: &[Value]) {
    let attachment = parts
        .iter()
        .find(|one| one["kind"] == "NetworkAttachmentDefinition")
        .unwrap();
    team.delete(attachment);
    team.finds(
        "attachment-missing",
        "the network attachment team-a/rdma-job-rail-0 does not exist",
    );
    let mut wrong = attachment.clone();
    wrong["metadata"]["annotations"].take();
    team.with(&wrong, || {
        let (status, said) = team.preflight(&[]);
        assert_eq!(status, 2, "{said}");
        assert!(
            said.contains("rdma-job-rail-0 names no resource, so its CNI plugin sriov gets no device"),
            "{said}"
        );
    });
    wrong["metadata"]["annotations"] = json!({"k8s.v1.cni.cncf.io/resourceName": "openshift.io/rdma_rail0"});
    team.with(&wrong, || {
        team.finds("resource-unknown", "did you mean openshift.io/rdma_rail_0?");
    });
    team.create(attachment);
    let path = format!("{ATTACHMENTS}/rdma-job-rail-0");
    assert_eq!(team.server.ask("GET", &path, None).unwrap().status, 200);
}

fn nodes(team: &Team<'_>, rails: &Value) {
    let mut none = rails.clone();
    none["openshift.io/rdma_rail_1"] = "0".into();
    for node in ["gpu-01", "gpu-02"] {
        team.allocatable(node, &none);
    }
    team.finds(
        "resource-empty",
        "the nodes that have openshift.io/rdma_rail_1 have 0 of it",
    );
    team.allocatable("gpu-01", rails);
    team.finds(
        "nodes-too-few",
        "2 pods must be on different nodes, but 1 have all of",
    );
    team.allocatable("gpu-02", rails);
}

/// The scheduler does not run here: this is the status that it would write.
fn pending(team: &Team<'_>, parts: &[Value]) {
    let set = parts.iter().find(|one| one["kind"] == "StatefulSet").unwrap();
    let mut pod = set["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "rdma-job-0".into();
    team.with(&pod, || {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/2 nodes are available: 2 Insufficient openshift.io/rdma_rail_0.",
        });
        let patch = json!({"status": {"phase": "Pending", "conditions": [condition]}});
        let path = format!("/api/v1/namespaces/{TEAM}/pods/rdma-job-0/status");
        team.server.must("PATCH", &path, Some(&patch)).unwrap();
        team.finds(
            "pod-pending",
            "every openshift.io/rdma_rail_0 that it could use is taken",
        );
    });
    // Without a kubelet, a deleted pod that has no node is gone at once.
}

/// An account that may do nothing: everything is listed as not checked.
fn without_rights(team: &Team<'_>) {
    let token = team.server.token("remover").unwrap();
    let (kubeconfig, _) = team.server.kubeconfig("nothing", &token).unwrap();
    let (status, said) = finished(&team.command(&kubeconfig, &[]).output().unwrap());
    assert_eq!(status, 3, "{said}");
    assert!(said.starts_with("UNKNOWN"), "{said}");
    for what in [
        "statefulsets of the namespace: statefulsets.apps is forbidden",
        "pods of the namespace",
        "events of the namespace",
        "the namespace and its PodSecurity level",
    ] {
        assert!(said.contains(what), "{what}: {said}");
    }
}
