//! The mistakes of the field's setup guides one by one, with objects and messages as clusters have them.

use rdma_health_rules::Severity;
use serde_json::{Value, json};

use crate::{Cluster, Finding, Listed, Report, Usage, Workload, preflight};

mod advice;
mod attachments;
mod containers;
mod environment;
mod field;
mod kinds;
mod limits;
mod pending;
mod refused;
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
        limit_ranges: Listed::Read(Vec::new()),
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

fn event(kind: &str, name: &str, message: &str) -> Value {
    let object = json!({"kind": kind, "name": name});
    json!({"type": "Warning", "reason": "FailedCreate", "message": message, "involvedObject": object})
}

/// As in bank-vaults/bank-vaults issue 706.
const REFUSED: &str = "create Pod h-kim-0 in StatefulSet h-kim failed error: pods \"h-kim-0\" is forbidden: unable to validate \
                       against any security context constraint: [capabilities.add: Invalid value: \"IPC_LOCK\": capability may \
                       not be added]";

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
    assert_eq!(report.checked(false), "nothing in it uses RDMA");
    cluster
        .controllers
        .insert("jobs".into(), Listed::NotRead("forbidden (403)".into()));
    let report = run(&cluster);
    assert_eq!(report.exit_status(), 3);
    assert_eq!(
        report.checked(false),
        "nothing in it that could be read uses RDMA"
    );
    cluster.namespace_object = Listed::Read(Vec::new());
    let report = run(&cluster);
    assert!(
        one(&report, "namespace-missing")
            .remedy
            .contains("create namespace team-a")
    );
    assert_eq!(report.checked(false), "checked nothing");
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
