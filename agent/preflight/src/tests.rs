//! The mistakes of the field's setup guides one by one, with objects and messages as clusters have them.

use rdma_health_rules::Severity;
use serde_json::{Value, json};

use crate::{Cluster, Finding, Listed, Report, Usage, Workload, preflight};

mod advice;
mod environment;
mod kinds;
mod room;

const RAILS: [&str; 4] = ["eno5np0", "eno6np0", "eno7np0", "eno8np0"];

fn resource(rail: &str) -> String {
    format!("openshift.io/{rail}rdma")
}

fn node(name: &str) -> Value {
    let mut allocatable = json!({"cpu": "190", "memory": "1000Gi", "nvidia.com/gpu": "8"});
    for rail in RAILS {
        allocatable[resource(rail)] = "4".into();
    }
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "RDMALimitsProblem", "status": "False"}],
        },
    })
}

fn attachment(rail: &str) -> Value {
    json!({
        "kind": "NetworkAttachmentDefinition",
        "metadata": {
            "name": format!("{rail}-network"),
            "annotations": {"k8s.v1.cni.cncf.io/resourceName": resource(rail)},
        },
        "spec": {"config": r#"{"cniVersion":"0.3.1","type":"sriov","ipam":{"type":"whereabouts","range":"10.0.103.0/24"}}"#},
    })
}

fn scc(name: &str, capabilities: &[&str]) -> Value {
    json!({
        "metadata": {"name": name},
        "allowedCapabilities": capabilities,
        "allowPrivilegedContainer": name == "privileged",
        "allowPrivilegeEscalation": name != "restricted-v2",
        "runAsUser": {"type": if name == "restricted-v2" { "MustRunAsRange" } else { "RunAsAny" }},
        "volumes": ["configMap", "emptyDir"],
    })
}

/// A cluster in which the job of [`job`] starts.
fn cluster() -> Cluster {
    let key = |scc: &str| ("h-kim-sa".to_owned(), scc.to_owned());
    Cluster {
        namespace: "team-a".into(),
        namespace_object: Listed::Read(vec![json!({"metadata": {"name": "team-a"}})]),
        pods: Listed::Read(Vec::new()),
        controllers: [("statefulsets".to_owned(), Listed::Read(vec![job()]))].into(),
        attachments: [("team-a".to_owned(), Listed::Read(RAILS.map(attachment).to_vec()))].into(),
        nodes: Listed::Read(vec![
            node("gpu-01"),
            node("gpu-02"),
            json!({"metadata": {"name": "cpu-01"}}),
        ]),
        quotas: Listed::Read(Vec::new()),
        events: Listed::Read(Vec::new()),
        service_accounts: Listed::Read(vec![json!({"metadata": {"name": "h-kim-sa"}})]),
        sccs: Listed::Read(vec![
            scc("restricted-v2", &["NET_BIND_SERVICE"]),
            scc("privileged", &["*"]),
            scc("nccl-scc", &["IPC_LOCK", "SYS_ADMIN"]),
        ]),
        scc_use: [(key("nccl-scc"), Ok(true)), (key("privileged"), Ok(false))].into(),
        webhooks: Listed::Read(Vec::new()),
        usage: Some(Ok(Usage::default())),
        not_understood: Vec::new(),
    }
}

/// The job of the setup guide: two nodes, four rails.
fn job() -> Value {
    let mut devices = json!({"nvidia.com/gpu": "8"});
    for rail in RAILS {
        devices[resource(rail)] = "1".into();
    }
    let spread = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]);
    json!({
        "kind": "StatefulSet",
        "metadata": {"name": "h-kim"},
        "spec": {
            "replicas": 2,
            "template": {
                "metadata": {"annotations": {
                    "k8s.v1.cni.cncf.io/networks": "eno5np0-network,eno6np0-network,eno7np0-network,eno8np0-network",
                }},
                "spec": {
                    "serviceAccountName": "h-kim-sa",
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": spread}},
                    "containers": [{
                        "name": "job",
                        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}, "runAsUser": 0},
                        "resources": {"requests": devices, "limits": devices},
                    }],
                },
            },
        },
        "status": {"replicas": 0},
    })
}

fn set_job(cluster: &mut Cluster, change: impl FnOnce(&mut Value)) {
    let mut job = job();
    change(&mut job);
    cluster
        .controllers
        .insert("statefulsets".into(), Listed::Read(vec![job]));
}

fn pod_spec(job: &mut Value) -> &mut Value {
    &mut job["spec"]["template"]["spec"]
}

fn run(cluster: &Cluster) -> Report {
    preflight(cluster, None)
}

/// The only finding of a rule.
fn one<'a>(report: &'a Report, rule: &str) -> &'a Finding {
    let mut all = report.findings.iter().filter(|finding| finding.rule == rule);
    let found = all.next().unwrap_or_else(|| panic!("no {rule} in {report:#?}"));
    assert!(all.next().is_none(), "{rule} twice: {report:#?}");
    found
}

fn read(list: &mut Listed) -> &mut Vec<Value> {
    match list {
        Listed::Read(items) => items,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_with_everything_it_needs_has_no_finding() {
    let report = run(&cluster());
    assert_eq!(
        (
            report.exit_status(),
            &report.findings[..],
            &report.not_checked[..]
        ),
        (0, &[][..], &[][..])
    );
    assert_eq!(report.workloads, ["StatefulSet team-a/h-kim"]);
}

#[test]
fn an_attachment_with_a_wrong_resource_is_named_with_the_right_one() {
    let mut cluster = cluster();
    let attachments = cluster.attachments.get_mut("team-a").unwrap();
    read(attachments)[0]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"] =
        "openshift.io/eno5np0rmda".into();
    let report = run(&cluster);
    let found = one(&report, "resource-unknown");
    assert_eq!(found.severity, Severity::Critical);
    assert!(
        found
            .summary
            .contains("no node has the resource openshift.io/eno5np0rmda"),
        "{found:?}"
    );
    assert!(
        found.remedy.contains("did you mean openshift.io/eno5np0rdma?"),
        "{found:?}"
    );
    assert_eq!(
        (report.findings.len(), report.exit_status()),
        (1, 2),
        "{report:#?}"
    );
}

fn pending(message: &str) -> Value {
    let mut pod = job()["spec"]["template"].clone();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "h-kim-0".into();
    pod["metadata"]["ownerReferences"] =
        json!([{"kind": "StatefulSet", "name": "h-kim", "controller": true}]);
    let condition =
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
    pod["status"] = json!({"phase": "Pending", "conditions": [condition]});
    pod
}

const INSUFFICIENT: &str = "0/5 nodes are available: 2 Insufficient openshift.io/eno5np0rdma, 3 node(s) had taint \
                            {node-role.kubernetes.io/master: }, that the pod didn't tolerate.";

#[test]
fn a_pending_pod_is_explained_by_who_holds_the_devices() {
    let mut cluster = cluster();
    read(&mut cluster.pods).push(pending(INSUFFICIENT));
    let mut usage = Usage::default();
    let holder = json!({
        "metadata": {"namespace": "team-b", "name": "train-0"},
        "spec": {"nodeName": "gpu-01", "containers": [{"resources": {"limits": {"openshift.io/eno5np0rdma": "4"}}}]},
        "status": {"phase": "Running"},
    });
    let mut ended = holder.clone();
    ended["metadata"]["name"] = "ended".into();
    ended["status"]["phase"] = "Succeeded".into();
    usage.add(&holder);
    usage.add(&ended);
    cluster.usage = Some(Ok(usage));
    let report = run(&cluster);
    let found = one(&report, "pod-pending");
    assert_eq!(found.subject, "Pod team-a/h-kim-0");
    assert!(
        found
            .summary
            .contains("every openshift.io/eno5np0rdma that it could use is taken"),
        "{found:?}"
    );
    assert!(
        found.evidence.contains(&format!("scheduler: {INSUFFICIENT}")),
        "{found:?}"
    );
    assert!(
        found.evidence.contains(&"held by: team-b/train-0".to_owned()),
        "{found:?}"
    );
}

#[test]
fn a_pending_pod_is_explained_by_a_resource_that_no_node_has() {
    let mut cluster = cluster();
    let mut wrong = pending("0/1 nodes are available: 1 Insufficient openshift.io/eno5np0.");
    for kind in ["requests", "limits"] {
        let devices = &mut wrong["spec"]["containers"][0]["resources"][kind];
        devices
            .as_object_mut()
            .unwrap()
            .remove("openshift.io/eno5np0rdma");
        devices["openshift.io/eno5np0"] = "1".into();
    }
    read(&mut cluster.pods).push(wrong);
    let report = run(&cluster);
    let found = one(&report, "pod-pending");
    assert!(
        found
            .summary
            .ends_with("no node has the resource openshift.io/eno5np0"),
        "{found:?}"
    );
    assert!(found.remedy.contains("openshift.io/eno5np0rdma"), "{found:?}");
    // A plugin that found no healthy device.
    let mut cluster = self::cluster();
    for node in read(&mut cluster.nodes) {
        node["status"]["allocatable"]["openshift.io/eno5np0rdma"] = "0".into();
    }
    read(&mut cluster.pods).push(pending(INSUFFICIENT));
    let report = run(&cluster);
    assert!(
        one(&report, "pod-pending").summary.contains("have 0 of it"),
        "{report:#?}"
    );
    one(&report, "resource-empty");
}

#[test]
fn an_account_without_scc_gets_the_command_that_grants_one() {
    let mut cluster = cluster();
    cluster
        .scc_use
        .values_mut()
        .for_each(|allowed| *allowed = Ok(false));
    let report = run(&cluster);
    let found = one(&report, "scc-missing");
    assert!(
        found
            .summary
            .contains("h-kim-sa may not use any SCC that allows capability IPC_LOCK"),
        "{found:?}"
    );
    assert_eq!(found.evidence, ["SCCs that allow it: nccl-scc, privileged"]);
    assert!(
        found
            .remedy
            .ends_with("oc adm policy add-scc-to-user nccl-scc -z h-kim-sa -n team-a"),
        "{found:?}"
    );
    // The SCC itself can name the account or a group.
    for (field, name) in [
        ("users", "system:serviceaccount:team-a:h-kim-sa"),
        ("groups", "system:serviceaccounts:team-a"),
    ] {
        let mut cluster = cluster.clone();
        read(&mut cluster.sccs)[2][field] = json!([name]);
        assert_eq!(run(&cluster).exit_status(), 0, "{field}");
    }
    // No SCC is sufficient.
    read(&mut cluster.sccs).truncate(1);
    let report = run(&cluster);
    assert!(
        one(&report, "scc-missing")
            .remedy
            .contains("scc-rdma-workload.yaml"),
        "{report:#?}"
    );
    // Not on OpenShift.
    cluster.sccs = Listed::NotInstalled;
    assert_eq!(run(&cluster).exit_status(), 0);
}

fn event(kind: &str, name: &str, message: &str) -> Value {
    let object = json!({"kind": kind, "name": name});
    json!({"type": "Warning", "reason": "FailedCreate", "message": message, "involvedObject": object})
}

/// As in bank-vaults/bank-vaults issue 706.
const REFUSED: &str = "create Pod h-kim-0 in StatefulSet h-kim failed error: pods \"h-kim-0\" is forbidden: unable to validate \
                       against any security context constraint: [capabilities.add: Invalid value: \"IPC_LOCK\": capability may \
                       not be added]";

#[test]
fn events_of_refused_pods_are_explained() {
    for (message, rule, words) in [
        (
            REFUSED,
            "refused-by-scc",
            "h-kim-sa may use allows the capability IPC_LOCK",
        ),
        (
            "pods \"h-kim-0\" is forbidden: violates PodSecurity \"restricted:latest\": unrestricted capabilities (container \
             \"job\" must not include \"IPC_LOCK\" in securityContext.capabilities.add)",
            "refused-by-pod-security",
            "PodSecurity",
        ),
        (
            "create Pod h-kim-1 in StatefulSet h-kim failed error: pods \"h-kim-1\" is forbidden: exceeded quota: gpus, \
             requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=8",
            "refused-by-quota",
            "quota",
        ),
        (
            "create Pod h-kim-0 in StatefulSet h-kim failed error: pods \"h-kim-0\" is forbidden: error looking up service \
             account team-a/h-kim-sa: serviceaccount \"h-kim-sa\" not found",
            "service-account-missing",
            "does not exist",
        ),
    ] {
        let mut cluster = cluster();
        match rule {
            "refused-by-scc" => cluster
                .scc_use
                .values_mut()
                .for_each(|allowed| *allowed = Ok(false)),
            "service-account-missing" => cluster.service_accounts = Listed::Read(Vec::new()),
            _ => {}
        }
        read(&mut cluster.events).extend([
            event("StatefulSet", "h-kim", message),
            event("StatefulSet", "h-kim", message),
        ]);
        let report = run(&cluster);
        let found = one(&report, rule);
        assert!(found.summary.contains(words), "{found:?}");
        assert_eq!(found.severity, Severity::Critical, "{found:?}");
        // Of a Deployment, through its ReplicaSet.
        let mut replaced = cluster.clone();
        set_job(&mut replaced, |job| job["kind"] = "Deployment".into());
        replaced.events = Listed::Read(vec![event("ReplicaSet", "h-kim-7c9f", message)]);
        one(&run(&replaced), rule);
        // The pods exist now: the event is old.
        let mut cluster = Cluster {
            events: cluster.events,
            ..self::cluster()
        };
        set_job(&mut cluster, |job| job["status"]["replicas"] = 2.into());
        assert_eq!(run(&cluster).exit_status(), 0, "{rule}");
    }
}

#[test]
fn events_about_the_network_of_a_pod_are_explained_while_it_waits() {
    let message = "Failed to create pod sandbox: … SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required";
    let mut cluster = cluster();
    read(&mut cluster.events).push(event("Pod", "h-kim-0", message));
    assert_eq!(run(&cluster).exit_status(), 0, "the pod is gone");
    let mut pod = pending("");
    pod["status"] = json!({"phase": "Pending"});
    read(&mut cluster.pods).push(pod);
    let report = run(&cluster);
    assert!(
        one(&report, "attachment-without-resource")
            .summary
            .contains("got no device"),
        "{report:#?}"
    );
}

#[test]
fn attachments_that_do_not_exist_or_name_no_resource() {
    let mut cluster = cluster();
    let attachments = read(cluster.attachments.get_mut("team-a").unwrap());
    attachments.remove(0);
    let annotations = attachments[0]["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.clear();
    let report = run(&cluster);
    let found = one(&report, "attachment-missing");
    assert!(
        found.summary.contains("team-a/eno5np0-network does not exist"),
        "{found:?}"
    );
    assert!(found.evidence[1].contains("eno6np0-network"), "{found:?}");
    let found = one(&report, "attachment-without-resource");
    assert!(
        found
            .summary
            .contains("team-a/eno6np0-network names no resource, so its CNI plugin sriov"),
        "{found:?}"
    );
    assert!(
        found
            .remedy
            .contains("kubectl -n team-a annotate network-attachment-definition eno6np0-network"),
        "{found:?}"
    );
    cluster.attachments.insert("team-a".into(), Listed::NotInstalled);
    assert!(
        run(&cluster)
            .findings
            .iter()
            .any(|one| one.rule == "multus-missing")
    );
}

#[test]
fn a_macvlan_attachment_needs_no_resource_and_a_chain_with_sriov_does() {
    for (config, expected) in [
        (r#"{"type":"macvlan","master":"ens1f0"}"#, 0),
        (r#"{"plugins":[{"type":"sriov"},{"type":"rdma"}]}"#, 2),
        ("{", 2),
        ("", 0),
    ] {
        let mut cluster = cluster();
        let attachments = read(cluster.attachments.get_mut("team-a").unwrap());
        attachments.push(json!({"metadata": {"name": "more"}, "spec": {"config": config}}));
        set_job(&mut cluster, |job| {
            let annotation =
                &mut job["spec"]["template"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"];
            *annotation = format!("{}, team-a/more@net9", annotation.as_str().unwrap()).into();
        });
        assert_eq!(run(&cluster).exit_status(), expected, "{config}");
    }
}

#[test]
fn a_pod_without_the_resources_of_its_attachments() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        let resources = &mut pod_spec(job)["containers"][0]["resources"];
        for kind in ["requests", "limits"] {
            resources[kind]
                .as_object_mut()
                .unwrap()
                .remove("openshift.io/eno8np0rdma");
        }
    });
    let report = run(&cluster);
    let found = one(&report, "resource-not-requested");
    assert!(
        found
            .summary
            .contains("need 1 of openshift.io/eno8np0rdma, but the containers request 0"),
        "{found:?}"
    );
    // The SR-IOV network operator adds them.
    let injector = json!({"metadata": {"name": "network-resources-injector-config"}});
    cluster.webhooks = Listed::Read(vec![injector]);
    assert_eq!(run(&cluster).exit_status(), 0);
    cluster.webhooks = Listed::NotRead("forbidden".into());
    assert_eq!(run(&cluster).exit_status(), 1);
}

#[test]
fn a_device_that_no_network_attaches_has_no_gid() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        let annotations = &mut job["spec"]["template"]["metadata"]["annotations"];
        annotations["k8s.v1.cni.cncf.io/networks"] =
            r#"[{"name":"eno5np0-network"},{"name":"eno6np0-network"},{"name":"eno7np0-network","namespace":"team-a"}]"#.into();
    });
    let report = run(&cluster);
    let found = one(&report, "resource-not-attached");
    assert!(found.remedy.contains("add eno8np0-network"), "{found:?}");
    assert_eq!(report.exit_status(), 1);
}

#[test]
fn memlock_without_ipc_lock_depends_on_the_nodes() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        pod_spec(job)["containers"][0]["securityContext"].take();
    });
    assert_eq!(
        run(&cluster).exit_status(),
        0,
        "the agents report no problem with limits"
    );
    let conditions = &mut read(&mut cluster.nodes)[1]["status"]["conditions"];
    *conditions = json!([{"type": "RDMALimitsProblem", "status": "True", "message": "CRI-O: containers may lock 8 MiB"}]);
    let report = run(&cluster);
    let found = one(&report, "memlock-low");
    assert_eq!(found.evidence, ["gpu-02: CRI-O: containers may lock 8 MiB"]);
    read(&mut cluster.nodes)[1]["status"]["conditions"].take();
    let report = run(&cluster);
    assert_eq!(one(&report, "memlock-unknown").severity, Severity::Warning);
}

#[test]
fn ipc_lock_has_no_effect_without_root() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        pod_spec(job)["containers"][0]["securityContext"]["runAsUser"] = 1000.into();
    });
    let report = run(&cluster);
    assert!(
        one(&report, "ipc-lock-without-root")
            .summary
            .contains("container job"),
        "{report:#?}"
    );
}

#[test]
fn quotas_count_the_pods_that_do_not_exist_yet() {
    let mut cluster = cluster();
    let hard = json!({"requests.nvidia.com/gpu": "24", "requests.cpu": "4", "pods": "10"});
    let used = json!({"requests.nvidia.com/gpu": "16", "requests.cpu": "0", "pods": "2"});
    let quota = json!({"metadata": {"name": "gpus"}, "spec": {"hard": hard}, "status": {"used": used}});
    cluster.quotas = Listed::Read(vec![quota]);
    let report = run(&cluster);
    let found = one(&report, "quota-exceeded");
    assert!(
        found
            .summary
            .contains("requests.nvidia.com/gpu: 2 more pods need 16"),
        "{found:?}"
    );
    assert_eq!(found.evidence, ["ResourceQuota gpus: 16 of 24 used"]);
    assert!(
        one(&report, "quota-needs-value").summary.contains("requests.cpu"),
        "{report:#?}"
    );
    set_job(&mut cluster, |job| {
        job["status"]["replicas"] = 1.into();
        pod_spec(job)["containers"][0]["resources"]["requests"]["cpu"] = "500m".into();
    });
    assert_eq!(run(&cluster).exit_status(), 0);
}

#[test]
fn pod_security_refuses_ipc_lock_even_if_an_scc_allows_it() {
    for (level, expected) in [("privileged", 0), ("baseline", 2), ("restricted", 2)] {
        let mut cluster = cluster();
        let labels = json!({"pod-security.kubernetes.io/enforce": level});
        read(&mut cluster.namespace_object)[0]["metadata"]["labels"] = labels;
        let report = run(&cluster);
        assert_eq!(report.exit_status(), expected, "{level}");
        if expected > 0 {
            let found = one(&report, "pod-security");
            assert!(found.summary.contains("capability IPC_LOCK"), "{found:?}");
            assert_eq!(
                found.summary.contains("capabilities.drop"),
                level == "restricted",
                "{found:?}"
            );
            assert!(
                found.remedy.contains("kubectl label namespace team-a"),
                "{found:?}"
            );
        }
    }
}

#[test]
fn nodes_that_do_not_fit() {
    let rule = |change: &dyn Fn(&mut Cluster)| {
        let mut cluster = cluster();
        change(&mut cluster);
        let report = run(&cluster);
        assert_eq!(report.findings.len(), 1, "{report:#?}");
        report.findings[0].clone()
    };
    let gone = |node: &mut Value, name: &str| {
        let all = node["status"]["allocatable"].as_object_mut().unwrap();
        all.remove(name).unwrap();
    };
    let found = rule(&|cluster| {
        let nodes = read(&mut cluster.nodes);
        gone(&mut nodes[0], "openshift.io/eno5np0rdma");
        gone(&mut nodes[1], "nvidia.com/gpu");
    });
    assert_eq!(found.rule, "resources-on-different-nodes");
    let found = rule(&|cluster| gone(&mut read(&mut cluster.nodes)[0], "openshift.io/eno5np0rdma"));
    assert_eq!(found.rule, "nodes-too-few");
    let found = rule(&|cluster| read(&mut cluster.nodes)[0]["spec"]["unschedulable"] = true.into());
    assert_eq!(
        (found.rule, &found.evidence[..]),
        ("nodes-too-few", &["gpu-01: cordoned".to_owned()][..])
    );
    let found = rule(&|cluster| {
        set_job(cluster, |job| {
            pod_spec(job)["tolerations"].take();
        });
    });
    assert_eq!(found.rule, "nodes-excluded");
    assert_eq!(found.evidence[0], "gpu-01: taint nvidia.com/gpu");
    let found = rule(&|cluster| {
        let mut usage = Usage::default();
        for name in ["gpu-01", "gpu-02"] {
            let limits = json!({"nvidia.com/gpu": "1"});
            usage.add(&json!({
                "metadata": {"namespace": "team-b", "name": name},
                "spec": {"nodeName": name, "containers": [{"resources": {"limits": limits}}]},
            }));
        }
        cluster.usage = Some(Ok(usage));
    });
    assert_eq!(
        (found.rule, found.severity),
        ("resources-in-use", Severity::Warning)
    );
    assert!(
        found.evidence.iter().any(|one| one.contains("team-b/gpu-01")),
        "{found:?}"
    );
}

#[test]
fn what_may_not_be_read_is_listed_and_is_not_a_pass() {
    let no = |what: &str| {
        Listed::NotRead(format!(
            "{what} is forbidden: User \"u\" cannot list resource \"{what}\""
        ))
    };
    let mut cluster = cluster();
    cluster.nodes = no("nodes");
    cluster.sccs = no("securitycontextconstraints");
    cluster.quotas = no("resourcequotas");
    cluster.events = no("events");
    cluster.service_accounts = no("serviceaccounts");
    cluster.namespace_object = no("namespaces");
    let report = run(&cluster);
    assert_eq!(
        (report.exit_status(), report.findings.len()),
        (3, 0),
        "{report:#?}"
    );
    let whats: Vec<_> = report.not_checked.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(
        whats,
        [
            "SecurityContextConstraints",
            "events of the namespace",
            "quotas of the namespace",
            "resources of nodes",
            "service accounts of the namespace",
            "the namespace and its PodSecurity level"
        ]
    );
    let mut cluster = self::cluster();
    cluster.scc_use.clear();
    cluster.pods = no("pods");
    cluster.usage = Some(Err("pods is forbidden".into()));
    let report = run(&cluster);
    assert_eq!(
        (report.exit_status(), report.not_checked.len()),
        (3, 3),
        "{report:#?}"
    );
}

#[test]
fn a_manifest_is_checked_with_the_objects_that_it_brings() {
    let mut cluster = cluster();
    cluster.service_accounts = Listed::Read(Vec::new());
    cluster.scc_use.clear();
    read(cluster.attachments.get_mut("team-a").unwrap()).remove(0);
    let role = json!({
        "kind": "Role", "metadata": {"name": "scc"},
        "rules": [{"verbs": ["use"], "resources": ["securitycontextconstraints"], "resourceNames": ["nccl-scc"]}],
    });
    let binding = json!({
        "kind": "RoleBinding", "metadata": {"name": "scc"}, "roleRef": {"kind": "Role", "name": "scc"},
        "subjects": [{"kind": "ServiceAccount", "name": "h-kim-sa"}],
    });
    let account = json!({"kind": "ServiceAccount", "metadata": {"name": "h-kim-sa"}});
    let objects = [job(), account, role, binding, attachment("eno5np0")];
    let workloads: Vec<_> = objects
        .iter()
        .flat_map(|one| Workload::in_object(one, "team-a", false))
        .collect();
    let report = preflight(&cluster, Some(&workloads));
    assert_eq!(report.findings.len(), 2, "{report:#?}");
    cluster.add_manifests(&objects);
    let report = preflight(&cluster, Some(&workloads));
    assert_eq!(
        (report.exit_status(), report.workloads.len()),
        (0, 1),
        "{report:#?}"
    );
}

#[test]
fn every_controller_has_its_pods() {
    let template = job()["spec"]["template"].clone();
    let object = |kind: &str, spec: Value| json!({"kind": kind, "metadata": {"name": "x"}, "spec": spec});
    for (object, pods) in [
        (
            object("Job", json!({"parallelism": 3, "template": template})),
            vec![3],
        ),
        (
            object(
                "CronJob",
                json!({"jobTemplate": {"spec": {"template": template}}}),
            ),
            vec![1],
        ),
        (
            object(
                "JobSet",
                json!({"replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 4, "template": template}}}]}),
            ),
            vec![8],
        ),
        (
            object(
                "PyTorchJob",
                json!({"pytorchReplicaSpecs": {"Master": {"template": template}, "Worker": {"replicas": 3, "template": template}}}),
            ),
            vec![1, 3],
        ),
        (json!({"kind": "List", "items": [job(), job()]}), vec![2, 2]),
        (object("ConfigMap", json!(null)), vec![]),
    ] {
        let found = Workload::in_object(&object, "team-a", false);
        assert_eq!(
            found.iter().map(|one| one.pods).collect::<Vec<_>>(),
            pods,
            "{}",
            object["kind"]
        );
    }
}

#[test]
fn what_has_ended_is_not_checked() {
    let mut cluster = cluster();
    cluster.attachments.clear();
    set_job(&mut cluster, |job| {
        job["kind"] = "Job".into();
        job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    });
    let mut pod = pending("");
    pod["status"] = json!({"phase": "Succeeded"});
    read(&mut cluster.pods).push(pod);
    let report = run(&cluster);
    assert_eq!(
        (report.exit_status(), report.workloads.len()),
        (0, 0),
        "{report:#?}"
    );
}

#[test]
fn a_namespace_without_rdma_has_nothing_to_check() {
    let mut cluster = cluster();
    set_job(&mut cluster, |job| {
        job["spec"]["template"]["metadata"].take();
        pod_spec(job)["containers"] = json!([{"name": "web"}]);
    });
    let report = run(&cluster);
    assert_eq!((report.exit_status(), report.workloads.len()), (0, 0));
    cluster.namespace_object = Listed::Read(Vec::new());
    assert!(
        one(&run(&cluster), "namespace-missing")
            .remedy
            .contains("create namespace team-a")
    );
}

/// No object of the server, and no manifest, makes it panic: every value is replaced by values of other types.
#[test]
fn malformed_objects_are_survived() {
    fn places(value: &Value, here: &str, found: &mut Vec<String>) {
        found.push(here.to_owned());
        match value {
            Value::Object(all) => all.iter().for_each(|(key, value)| {
                places(
                    value,
                    &format!("{here}/{}", key.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }),
            Value::Array(all) => all
                .iter()
                .enumerate()
                .for_each(|(i, value)| places(value, &format!("{here}/{i}"), found)),
            _ => {}
        }
    }
    let others = [
        json!(null),
        json!(-1),
        json!(u64::MAX),
        json!("a/b,Insufficient \u{7}"),
        json!([[]]),
        json!({"": {}}),
        json!("1e309"),
    ];
    let lists: [fn(&mut Cluster) -> &mut Vec<Value>; 4] = [
        |cluster| read(cluster.controllers.get_mut("statefulsets").unwrap()),
        |cluster| read(&mut cluster.nodes),
        |cluster| read(cluster.attachments.get_mut("team-a").unwrap()),
        |cluster| read(&mut cluster.pods),
    ];
    let mut healthy = cluster();
    read(&mut healthy.pods).push(pending(INSUFFICIENT));
    for list in lists {
        let mut all = Vec::new();
        places(&list(&mut healthy.clone())[0], "", &mut all);
        for place in all {
            for other in &others {
                let mut cluster = healthy.clone();
                *list(&mut cluster)[0].pointer_mut(&place).unwrap() = other.clone();
                run(&cluster);
            }
        }
    }
}
