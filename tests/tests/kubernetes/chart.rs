//! The chart in a real API server: what Helm installs there, and what the agent may do with the token that it gets.
//!
//! There is no kubelet and no controller: the test reads from the objects what they would start, and starts it with the
//! token that they would mount.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use rdma_health_tests::{
    api_server::{ApiServer, NAMESPACE},
    virtual_node::built,
};
use serde_json::{Value, json};

use crate::node::{LINK, Node, SOON, kinds, within};

const NAME: &str = "rdma-health";
const TAINT: &str = "state.rdma-health.io/critical";
const MERGE: &str = "application/merge-patch+json";

/// Helm, with the rights of an administrator.
struct Helm<'a> {
    server: &'a ApiServer,
    kubeconfig: PathBuf,
    python: PathBuf,
    /// Whether the server knows admission policies; Debian's does not.
    policies: bool,
}

impl<'a> Helm<'a> {
    fn new(server: &'a ApiServer) -> Self {
        let tools = Command::new(repository("tests/deploy/tools")).output().unwrap();
        let said = String::from_utf8(tools.stdout).unwrap();
        assert!(
            tools.status.success(),
            "{}",
            String::from_utf8_lossy(&tools.stderr)
        );
        let (kubeconfig, _) = server.kubeconfig("helm", "admin-of-a-test").unwrap();
        let known = server.ask("GET", "/apis/admissionregistration.k8s.io/v1", None);
        let policies = known
            .unwrap()
            .body
            .to_string()
            .contains("ValidatingAdmissionPolicy");
        if !policies {
            println!(
                "this server knows no ValidatingAdmissionPolicy: installed without, by kubernetes.admissionPolicy=false"
            );
        }
        Self {
            server,
            kubeconfig,
            python: said.trim().into(),
            policies,
        }
    }

    fn start(&self, action: &str, mut values: Value) -> Child {
        values["kubernetes"]["admissionPolicy"] = json!(self.policies);
        let mut helm = Command::new(&self.python);
        helm.arg(repository("tests/deploy/release.py"))
            .arg(action)
            .arg(&self.kubeconfig);
        helm.arg(values.to_string());
        helm.stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn run(&self, action: &str, values: Value) {
        finish(action, self.start(action, values));
    }

    fn object(&self, path: &str) -> Value {
        self.server.must("GET", path, None).unwrap()
    }
}

fn finish(action: &str, helm: Child) {
    let output = helm.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "helm {action}: {said}");
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A token as the kubelet asks for: of this account, bound to a pod on this Node.
fn token(server: &ApiServer, account: &str, node: &str) -> String {
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let pod = json!({
        "metadata": {"name": format!("{account}-{node}")},
        "spec": {
            "serviceAccountName": account,
            "nodeName": node,
            "automountServiceAccountToken": false,
            "containers": [{"name": "agent", "image": "none"}],
        },
    });
    let uid = server.must("POST", &pods, Some(&pod)).unwrap()["metadata"]["uid"].clone();
    let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": uid});
    let request = json!({"spec": {"expirationSeconds": 3607, "boundObjectRef": bound}});
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
    let issued = server.must("POST", &path, Some(&request)).unwrap();
    issued["status"]["token"].as_str().unwrap().to_owned()
}

/// What the server says that the bearer of a token may do in a namespace: `patch nodes/status`. What everybody may who is
/// known to the server, to ask what they may do, is left out.
fn rights(server: &ApiServer, token: &str, namespace: &str) -> Vec<String> {
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = json!({"spec": {"namespace": namespace}});
    let answer = server
        .ask_as(token, "POST", path, "application/json", Some(&review))
        .unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    let words = |rule: &Value, key: &str| -> Vec<String> {
        let all = rule[key].as_array().cloned().unwrap_or_default();
        all.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = Vec::new();
    for rule in answer.body["status"]["resourceRules"].as_array().unwrap() {
        for resource in words(rule, "resources") {
            if resource.starts_with("selfsubject") {
                continue;
            }
            assert_eq!(words(rule, "apiGroups"), [""], "{rule}");
            rights.extend(
                words(rule, "verbs")
                    .iter()
                    .map(|verb| format!("{verb} {resource}")),
            );
        }
    }
    rights.sort();
    rights.dedup();
    rights
}

#[test]
#[ignore = "needs a kube-apiserver: make test-kubernetes"]
fn the_chart_is_installed_upgraded_and_leaves_nothing_behind() {
    let server = ApiServer::start().unwrap();
    let helm = Helm::new(&server);
    helm.run("install", json!({}));
    containers_have_what_they_need_and_no_more(&helm);
    let mut node = Node::new(&server, "charted");
    server.create_node("another").unwrap();
    fs::write(&node.token, token(&server, NAME, "charted")).unwrap();
    the_token_is_good_for_conditions_and_events_alone(&helm, &node);

    let config = server.directory().join("chart.yaml");
    take_config(&helm, &config);
    let state = server.directory().join("chart.state");
    let places = [config.to_str().unwrap(), state.to_str().unwrap()];
    node.start_with(&["--config", places[0], "--state", places[1]]);
    node.until("False");
    node.fault();
    node.until("True");
    let event = within(SOON, || {
        let events = server.events("charted").unwrap();
        events.into_iter().find(|event| event["reason"] == "PortDown")
    });
    assert!(event.is_some(), "{}", node.log());
    labels_and_taint_come_with_their_values_and_go_with_them(&helm, &node, &config);
    uninstalling_takes_all_of_it_off_the_nodes(&helm, &mut node);
}

fn containers_have_what_they_need_and_no_more(helm: &Helm<'_>) {
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{NAME}");
    let set = helm.object(&path);
    let pod = &set["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["serviceAccountName"], NAME);
    let containers = pod["containers"].as_array().unwrap();
    let [agent, verbs] = containers.as_slice() else {
        panic!("two containers: {pod}");
    };
    let mounts = |container: &Value, name: &str| {
        let mounts = container["volumeMounts"].as_array().unwrap();
        mounts.iter().any(|mount| mount["name"] == name)
    };
    let may = &agent["securityContext"];
    assert_eq!(may["runAsNonRoot"], true, "{may}");
    assert_eq!(may["readOnlyRootFilesystem"], true, "{may}");
    assert_eq!(may["privileged"], false, "{may}");
    assert_eq!(may["allowPrivilegeEscalation"], false, "{may}");
    assert_eq!(may["capabilities"], json!({"drop": ["ALL"]}), "{may}");
    assert!(mounts(agent, "token") && mounts(agent, "run"), "{agent}");
    // No token, no listener.
    assert!(!mounts(verbs, "token") && mounts(verbs, "run"), "{verbs}");
    assert_eq!(verbs["ports"], Value::Null, "{verbs}");
    assert_eq!(
        verbs["securityContext"]["readOnlyRootFilesystem"], true,
        "{verbs}"
    );
}

fn the_token_is_good_for_conditions_and_events_alone(helm: &Helm<'_>, node: &Node<'_>) {
    let server = helm.server;
    let token = fs::read_to_string(&node.token).unwrap();
    let conditions = ["get nodes/status", "patch nodes/status"];
    assert_eq!(
        rights(server, &token, "default"),
        [
            "create events",
            "get nodes/status",
            "patch events",
            "patch nodes/status"
        ]
    );
    for elsewhere in [NAMESPACE, "kube-system"] {
        assert_eq!(rights(server, &token, elsewhere), conditions, "{elsewhere}");
    }

    let own = "/api/v1/nodes/charted";
    let status = json!({"status": {"conditions": []}});
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let event = json!({"metadata": {"name": "x"}, "involvedObject": {"kind": "Node", "name": "charted"}});
    let secrets = format!("/api/v1/namespaces/{NAMESPACE}/secrets");
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles/rdma-health";
    for (method, path, body, expected) in [
        ("GET", "/api/v1/nodes/charted/status", None, 200),
        ("PATCH", "/api/v1/nodes/charted/status", Some(&status), 200),
        ("GET", own, None, 403),
        ("GET", "/api/v1/nodes", None, 403),
        ("PATCH", own, Some(&label), 403),
        ("DELETE", own, None, 403),
        ("PUT", "/api/v1/nodes/charted/status", Some(&status), 403),
        ("GET", "/api/v1/nodes/charted/proxy/metrics", None, 403),
        ("POST", "/api/v1/namespaces/default/events", Some(&event), 201),
        ("GET", "/api/v1/namespaces/default/events", None, 403),
        ("DELETE", "/api/v1/namespaces/default/events/x", None, 403),
        ("POST", "/api/v1/namespaces/kube-system/events", Some(&event), 403),
        ("GET", &secrets, None, 403),
        ("GET", "/api/v1/secrets", None, 403),
        ("GET", "/api/v1/pods", None, 403),
        ("PATCH", roles, Some(&label), 403),
    ] {
        let kind = if method == "PATCH" {
            MERGE
        } else {
            "application/json"
        };
        let answer = server.ask_as(&token, method, path, kind, body).unwrap();
        assert_eq!(answer.status, expected, "{method} {path}: {}", answer.body);
    }
    // RBAC knows no "own Node"; a policy does.
    let other = "/api/v1/nodes/another/status";
    let answer = server
        .ask_as(&token, "PATCH", other, MERGE, Some(&label))
        .unwrap();
    if helm.policies {
        assert!(answer.status >= 400, "{}", answer.body);
        assert!(
            answer.body.to_string().contains("may not write about another"),
            "{}",
            answer.body
        );
    } else {
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
}

/// What the `ConfigMap` says, as the kubelet brings it to the node.
fn take_config(helm: &Helm<'_>, file: &Path) {
    let map = helm.object(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"));
    fs::write(file, map["data"]["config.yaml"].as_str().unwrap()).unwrap();
}

fn labels_and_taint_come_with_their_values_and_go_with_them(helm: &Helm<'_>, node: &Node<'_>, config: &Path) {
    let server = helm.server;
    let token = fs::read_to_string(&node.token).unwrap();
    let shows = |labelled: bool, tainted: bool| {
        let seen = within(Duration::from_secs(120), || {
            let object = server.node("charted").unwrap();
            let label = &object["metadata"]["labels"]["state.rdma-health.io/verdict"];
            let now = (!label.is_null(), object["spec"].to_string().contains(TAINT));
            (now == (labelled, tainted)).then_some(())
        });
        let object = || server.node("charted").unwrap();
        assert!(
            seen.is_some(),
            "{labelled} {tainted}: {}\n{}",
            object(),
            node.log()
        );
    };
    let takes = |values: &Value| {
        helm.run("upgrade", values.clone());
        let reloads = || node.log().matches("configuration reloaded").count();
        let before = reloads();
        take_config(helm, config);
        within(SOON, || (reloads() > before).then_some(())).expect("the agent takes the configuration");
    };
    let kubernetes = |keys: Value| json!({"agent": {"config": {"kubernetes": keys}}});
    let plain = ["get nodes/status", "patch nodes/status"];
    let tainting = ["get nodes/status", "patch nodes", "patch nodes/status"];
    let modules = node.tree.path().join("proc/modules");
    let loaded = fs::read(&modules).unwrap();
    shows(false, false);

    takes(&kubernetes(json!({"labels": true, "taint": "NoSchedule"})));
    assert_eq!(rights(server, &token, "kube-system"), tainting);
    shows(false, true);
    // Labels wait for a write of conditions, and need no right of their own.
    node.repair();
    shows(true, false);
    node.fault();
    shows(true, true);
    let mut off = kubernetes(json!({"labels": false}));
    off["kubernetes"] = json!({"patchNodes": true});
    takes(&off);
    shows(true, false);
    fs::remove_file(&modules).unwrap();
    shows(false, false);
    helm.run("upgrade", kubernetes(json!({"labels": false})));
    assert_eq!(rights(server, &token, "kube-system"), plain);

    takes(&kubernetes(json!({"labels": true, "taint": "PreferNoSchedule"})));
    fs::write(&modules, loaded).unwrap();
    shows(true, true);
}

fn uninstalling_takes_all_of_it_off_the_nodes(helm: &Helm<'_>, node: &mut Node<'_>) {
    let server = helm.server;
    let uninstall = helm.start("uninstall", json!({}));
    let jobs = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{NAME}-uninstall");
    let job = within(SOON, || {
        server
            .ask("GET", &jobs, None)
            .ok()
            .filter(|answer| answer.status == 200)
    });
    let Some(job) = job else {
        finish("uninstall", uninstall);
        panic!("there was no Job");
    };
    // Agents live for some seconds more than the DaemonSet.
    let set = format!("/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{NAME}");
    assert_eq!(server.ask("GET", &set, None).unwrap().status, 404);
    let pod = &job.body["spec"]["template"]["spec"];
    let account = pod["serviceAccountName"].as_str().unwrap();
    let token = token(server, account, "another");
    assert_eq!(
        rights(server, &token, "kube-system"),
        [
            "get nodes/status",
            "list nodes",
            "patch nodes",
            "patch nodes/status"
        ]
    );
    let (kubeconfig, _) = server.kubeconfig("uninstall", &token).unwrap();
    let command = pod["containers"][0]["command"].as_array().unwrap();
    let command: Vec<_> = command.iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(command[0], "/usr/bin/rdma-health");
    let remove = Command::new(built("rdma-health").unwrap())
        .args(&command[1..])
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    sleep(Duration::from_secs(8));
    node.stop();
    let removed = remove.wait_with_output().unwrap();
    assert!(removed.status.success());
    let done = json!({"status": {
        "succeeded": 1,
        "startTime": "2026-01-01T00:00:00Z",
        "completionTime": "2026-01-01T00:00:01Z",
        // Later servers accept no Complete without the other. The real controller finishes the Job in `make test-pod`.
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True"},
            {"type": "Complete", "status": "True"},
        ],
    }});
    server
        .must("PATCH", &format!("{jobs}/status"), Some(&done))
        .unwrap();
    finish("uninstall", uninstall);

    assert_eq!(
        String::from_utf8_lossy(&removed.stdout).trim(),
        "removed from 1 Node"
    );
    let object = server.node("charted").unwrap();
    assert_eq!(
        kinds(&object),
        Vec::<String>::new(),
        "{LINK} and all others are gone: {object}"
    );
    let text = object.to_string();
    assert!(
        !text.contains("state.rdma-health.io"),
        "labels and taint are gone: {text}"
    );
    let group = "/apis/rbac.authorization.k8s.io/v1";
    for (list, ours) in [
        (format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), NAME),
        (format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), NAME),
        (format!("/api/v1/namespaces/{NAMESPACE}/services"), NAME),
        (format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs"), NAME),
        (format!("{group}/clusterroles"), NAME),
        (format!("{group}/clusterrolebindings"), NAME),
        (format!("{group}/namespaces/default/roles"), NAME),
        (format!("{group}/namespaces/default/rolebindings"), NAME),
        ("/apis/scheduling.k8s.io/v1/priorityclasses".into(), NAME),
    ] {
        let found = helm.object(&list);
        let left = found["items"].as_array().unwrap().iter().find(|object| {
            let name = object["metadata"]["name"].as_str().unwrap();
            name == ours || name == format!("{ours}-uninstall")
        });
        assert_eq!(left, None, "{list}");
    }
}
