//! Who may do what: service account, SCCs of OpenShift, `PodSecurity` of the namespace.

use rdma_health_rules::Severity;
use serde_json::Value;

use super::list;
use crate::{
    cluster::{Cluster, Listed},
    pod,
    report::{Finding, Report},
    workload::Workload,
};

/// The SCC of this product for RDMA pods (deploy/openshift/scc-rdma-workload.yaml).
const OWN_SCC: &str = "rdma-ipc-lock";
/// The label with the `PodSecurity` level of a namespace.
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
/// Capabilities that `PodSecurity` `baseline` allows.
const BASELINE: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

pub(super) fn check(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    let account = workload.account();
    match &cluster.service_accounts {
        Listed::Read(_) if cluster.service_accounts.named(account).is_none() => report.add(Finding {
            rule: "service-account-missing",
            severity: Severity::Critical,
            subject: workload.subject(),
            summary: format!("the service account {account} does not exist, so no pod is created"),
            evidence: vec!["serviceAccountName".into()],
            remedy: format!(
                "kubectl -n {} create serviceaccount {account}",
                workload.namespace
            ),
        }),
        Listed::NotRead(why) => report.not_checked("service accounts of the namespace", why),
        Listed::Read(_) | Listed::NotInstalled => {}
    }
    // The pod was admitted.
    if !workload.exists {
        scc(cluster, workload, report);
        pod_security(cluster, workload, report);
    }
}

/// What an SCC does not allow of a pod.
fn refused_by(scc: &Value, spec: &Value) -> Vec<String> {
    let mut refused = Vec::new();
    let allowed = |capability: &str| {
        ["allowedCapabilities", "defaultAddCapabilities"]
            .iter()
            .any(|field| {
                let all = scc[*field]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str);
                all.into_iter().any(|name| name == "*" || name == capability)
            })
    };
    let capabilities = pod::added_capabilities(spec);
    refused.extend(
        capabilities
            .into_iter()
            .filter(|name| !allowed(name))
            .map(|name| format!("capability {name}")),
    );
    let forbidden = |field: &str| scc[field] != true;
    let some = |field: &str| !pod::names_of(spec, |one| one["securityContext"][field] == true).is_empty();
    for (asks, field, what) in [
        (
            some("privileged"),
            "allowPrivilegedContainer",
            "a privileged container",
        ),
        (
            spec["hostNetwork"] == true,
            "allowHostNetwork",
            "the host network",
        ),
        (spec["hostIPC"] == true, "allowHostIPC", "the host's IPC"),
        (spec["hostPID"] == true, "allowHostPID", "the host's processes"),
    ] {
        if asks && forbidden(field) {
            refused.push(what.to_owned());
        }
    }
    // Without a value, it is allowed.
    if some("allowPrivilegeEscalation") && scc["allowPrivilegeEscalation"] == false {
        refused.push("privilege escalation".into());
    }
    let root = |one: &Value| pod::security(spec, one, "runAsUser") == 0;
    if !pod::names_of(spec, root).is_empty()
        && matches!(
            scc["runAsUser"]["type"].as_str(),
            Some("MustRunAsRange" | "MustRunAsNonRoot")
        )
    {
        refused.push("user 0".into());
    }
    let volumes: Vec<_> = scc["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let host_path = spec["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|one| one["hostPath"].is_object());
    if host_path && !volumes.iter().any(|name| matches!(*name, "hostPath" | "*")) {
        refused.push("a hostPath volume".into());
    }
    refused
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or("?")
}

/// The SCCs that allow a pod, those without privileged containers first.
fn sufficient<'a>(cluster: &'a Cluster, spec: &Value) -> Vec<&'a Value> {
    let all = cluster.sccs.items().iter();
    let mut found: Vec<_> = all.filter(|scc| refused_by(scc, spec).is_empty()).collect();
    found.sort_by_key(|scc| (scc["allowPrivilegedContainer"] == true, name(scc) != OWN_SCC));
    found
}

/// Whether the SCC itself names the account or one of its groups.
fn names_account(scc: &Value, namespace: &str, account: &str) -> bool {
    let has = |field: &str, wanted: &[String]| {
        let all = scc[field]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        all.into_iter()
            .any(|name| wanted.iter().any(|wanted| wanted == name))
    };
    has("users", &[format!("system:serviceaccount:{namespace}:{account}")])
        || has(
            "groups",
            &[
                "system:authenticated".into(),
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
            ],
        )
}

/// The questions to ask RBAC: which account may use which SCC. Only SCCs that would help.
pub fn reviews(cluster: &Cluster, workloads: &[Workload]) -> Vec<(String, String)> {
    let mut all: Vec<_> = workloads
        .iter()
        .filter(|workload| !workload.exists && workload.uses_rdma(cluster))
        .flat_map(|workload| {
            sufficient(cluster, &workload.spec)
                .into_iter()
                .map(|scc| (workload.account().to_owned(), name(scc).to_owned()))
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

fn scc(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    match &cluster.sccs {
        Listed::NotInstalled => return,
        Listed::NotRead(why) => return report.not_checked("SecurityContextConstraints", why),
        Listed::Read(_) => {}
    }
    let account = workload.account();
    let enough = sufficient(cluster, &workload.spec);
    let mut unknown = None;
    for scc in &enough {
        let key = (account.to_owned(), name(scc).to_owned());
        match cluster.scc_use.get(&key) {
            _ if names_account(scc, &workload.namespace, account) => return,
            Some(Ok(true)) => return,
            Some(Ok(false)) => {}
            Some(Err(why)) => unknown = Some(why.as_str()),
            None => unknown = Some("it was not requested"),
        }
    }
    if let Some(why) = unknown {
        return report.not_checked(&format!("whether service account {account} may use an SCC"), why);
    }
    // What the default SCC refuses is what the pod asks for.
    let default = cluster
        .sccs
        .items()
        .iter()
        .find(|scc| name(scc) == "restricted-v2");
    let default = default.or_else(|| cluster.sccs.items().iter().find(|scc| name(scc) == "restricted"));
    let asks = default.map_or_else(Vec::new, |scc| refused_by(scc, &workload.spec));
    let asks = if asks.is_empty() {
        "the pod".to_owned()
    } else {
        list(asks)
    };
    let evidence = if enough.is_empty() {
        "no SCC of the cluster allows all of it".to_owned()
    } else {
        format!("SCCs that allow it: {}", list(enough.iter().map(|scc| name(scc))))
    };
    report.add(Finding {
        rule: "scc-missing",
        severity: Severity::Critical,
        subject: workload.subject(),
        summary: format!(
            "service account {account} may not use any SCC that allows {asks}: OpenShift refuses the pod"
        ),
        evidence: vec![evidence],
        remedy: grant(cluster, workload),
    });
}

/// How to give a workload's account an SCC that allows its pods.
pub(super) fn grant(cluster: &Cluster, workload: &Workload) -> String {
    let command = |scc: &str| {
        let (account, namespace) = (workload.account(), &workload.namespace);
        format!("oc adm policy add-scc-to-user {scc} -z {account} -n {namespace}")
    };
    match sufficient(cluster, &workload.spec).first() {
        Some(scc) => format!("as administrator: {}", command(name(scc))),
        None => format!(
            "as administrator: oc apply -f deploy/openshift/scc-rdma-workload.yaml, then {}",
            command(OWN_SCC)
        ),
    }
}

fn pod_security(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    let Some(namespace) = cluster.namespace_object.items().first() else {
        return;
    };
    let level = namespace["metadata"]["labels"][ENFORCE]
        .as_str()
        .unwrap_or_default();
    if !matches!(level, "baseline" | "restricted") {
        return;
    }
    let violations = violations(&workload.spec, level == "restricted");
    if violations.is_empty() {
        return;
    }
    let rdma = pod::added_capabilities(&workload.spec).contains(&"IPC_LOCK");
    let instead = if rdma {
        "; or raise the memlock limit on the nodes and do not add IPC_LOCK (docs/openshift.md)"
    } else {
        ""
    };
    report.add(Finding {
        rule: "pod-security",
        severity: Severity::Critical,
        subject: workload.subject(),
        summary: format!(
            "the namespace enforces PodSecurity {level}, which refuses the pod: {}",
            list(violations)
        ),
        evidence: vec![format!(
            "label {ENFORCE}={level}; an SCC that allows it does not help"
        )],
        remedy: format!(
            "kubectl label namespace {} {ENFORCE}=privileged --overwrite; on OpenShift first \
             security.openshift.io/scc.podSecurityLabelSync=false{instead}",
            workload.namespace
        ),
    });
}

/// What the `PodSecurity` levels `baseline` and `restricted` refuse.
fn violations(spec: &Value, restricted: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut say = |wrong: bool, what: String| {
        if wrong {
            found.push(what);
        }
    };
    for capability in pod::added_capabilities(spec) {
        let allowed = if restricted {
            &["NET_BIND_SERVICE"]
        } else {
            BASELINE
        };
        say(!allowed.contains(&capability), format!("capability {capability}"));
    }
    for field in ["hostNetwork", "hostIPC", "hostPID"] {
        say(spec[field] == true, field.to_owned());
    }
    let volumes = spec["volumes"].as_array();
    let host_path = volumes
        .into_iter()
        .flatten()
        .any(|one| one["hostPath"].is_object());
    say(host_path, "hostPath volume".into());
    let mut containers = |what: &str, wrong: &dyn Fn(&Value) -> bool| {
        let names = pod::names_of(spec, wrong);
        say(!names.is_empty(), format!("{what} in {}", list(names)));
    };
    containers("privileged", &|one| one["securityContext"]["privileged"] == true);
    if restricted {
        containers("allowPrivilegeEscalation is not false", &|one| {
            one["securityContext"]["allowPrivilegeEscalation"] != false
        });
        containers("capabilities.drop is not [ALL]", &|one| {
            let dropped = one["securityContext"]["capabilities"]["drop"].as_array();
            !dropped.into_iter().flatten().any(|name| name == "ALL")
        });
        containers("runAsNonRoot is not true", &|one| {
            pod::security(spec, one, "runAsNonRoot") != true
        });
        containers("runAsUser 0", &|one| pod::security(spec, one, "runAsUser") == 0);
        containers("no seccompProfile", &|one| {
            !matches!(
                pod::security(spec, one, "seccompProfile")["type"].as_str(),
                Some("RuntimeDefault" | "Localhost")
            )
        });
    }
    found
}
