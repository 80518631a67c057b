//! Who may do what: the service account, and `PodSecurity` of the namespace.

use rdma_health_rules::Severity;
use serde_json::Value;

use super::{list, scc};
use crate::{
    cluster::{Cluster, Listed},
    pod,
    report::{Finding, Report},
    workload::Workload,
};

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
        scc::check(cluster, workload, report);
        pod_security(cluster, workload, report);
    }
}

/// The `PodSecurity` level that the namespace sets itself.
pub(super) fn level(cluster: &Cluster) -> Option<&str> {
    let namespace = cluster.namespace_object.items().first()?;
    namespace["metadata"]["labels"][ENFORCE].as_str()
}

fn pod_security(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    let level = level(cluster).unwrap_or_default();
    if !matches!(level, "baseline" | "restricted") {
        return;
    }
    let violations = violations(&workload.spec, level == "restricted");
    if violations.is_empty() {
        return;
    }
    let rdma = pod::added_capabilities(&workload.spec).contains(&"IPC_LOCK");
    let instead = if rdma {
        "; or raise the memlock limit on the nodes and do not add IPC_LOCK (rdma-health explain memlock-low)"
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
