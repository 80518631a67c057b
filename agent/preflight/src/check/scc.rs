//! SCCs of OpenShift: which the service account of a pod may use, and which allow the pod.

use rdma_health_rules::Severity;
use serde_json::{Value, json};

use super::{list, policy::refused_by};
use crate::{
    cluster::{Cluster, Listed},
    report::{Finding, Report},
    workload::Workload,
};

/// The most SCCs whose refusals a finding lists.
const MOST_SHOWN: usize = 6;

/// The SCCs of deploy/openshift/scc-rdma-workload.yaml that allow `IPC_LOCK`, as far as they decide about pods. The first needs root in
/// the container, the second a file capability.
pub(crate) fn own() -> [Value; 2] {
    let scc = |name: &str, escalation: bool, user: &str| {
        json!({
            "metadata": {"name": name},
            "priority": null,
            "allowHostDirVolumePlugin": false,
            "allowHostIPC": false,
            "allowHostNetwork": false,
            "allowHostPID": false,
            "allowHostPorts": false,
            "allowPrivilegedContainer": false,
            "allowPrivilegeEscalation": escalation,
            "allowedCapabilities": ["IPC_LOCK"],
            "defaultAddCapabilities": null,
            "readOnlyRootFilesystem": false,
            "runAsUser": {"type": user},
            "seccompProfiles": ["runtime/default"],
            "volumes": ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"],
        })
    };
    [
        scc("rdma-ipc-lock", false, "RunAsAny"),
        scc("rdma-ipc-lock-escalate", true, "MustRunAsRange"),
    ]
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or("?")
}

fn is_privileged(scc: &Value) -> bool {
    scc["allowPrivilegedContainer"] == true
}

/// What an SCC does not allow of a workload's pods.
pub(crate) fn refuses(cluster: &Cluster, scc: &Value, workload: &Workload) -> Vec<String> {
    refused_by(scc, &workload.spec, cluster.namespace_object.items().first())
}

/// The SCCs that allow a workload's pods, those without privileged containers first.
fn sufficient<'a>(cluster: &'a Cluster, workload: &Workload) -> Vec<&'a Value> {
    let all = cluster.sccs.items().iter();
    let mut found: Vec<_> = all
        .filter(|scc| refuses(cluster, scc, workload).is_empty())
        .collect();
    let is_own = |scc: &Value| own().iter().any(|own| name(own) == name(scc));
    found.sort_by_key(|scc| (is_privileged(scc), !is_own(scc), name(scc).to_owned()));
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

/// Whether a workload's account may use an SCC, or why that is unknown.
fn may_use(cluster: &Cluster, scc: &Value, workload: &Workload) -> Result<bool, String> {
    let account = workload.account();
    if names_account(scc, &workload.namespace, account) {
        return Ok(true);
    }
    let key = (account.to_owned(), name(scc).to_owned());
    let answer = cluster.scc_use.get(&key).cloned();
    answer.unwrap_or_else(|| Err("it was not requested".into()))
}

/// The questions to ask RBAC: which account may use which SCC. Those that would help come first.
pub fn reviews(cluster: &Cluster, workloads: &[Workload]) -> Vec<(String, String)> {
    let mut all: Vec<(bool, String, String)> = Vec::new();
    for workload in workloads
        .iter()
        .filter(|one| !one.exists && one.uses_rdma(cluster))
    {
        for scc in cluster.sccs.items() {
            let helps = refuses(cluster, scc, workload).is_empty();
            all.push((!helps, workload.account().to_owned(), name(scc).to_owned()));
        }
    }
    all.sort();
    let mut questions: Vec<(String, String)> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for (_, account, scc) in all {
        if known.insert((account.clone(), scc.clone())) {
            questions.push((account, scc));
        }
    }
    questions
}

/// The SCCs that a workload's account may use and that allow its pods, or why that is unknown.
pub(super) fn usable<'a>(cluster: &'a Cluster, workload: &Workload) -> Result<Vec<&'a Value>, String> {
    let (mut found, mut unknown) = (Vec::new(), None);
    for scc in sufficient(cluster, workload) {
        match may_use(cluster, scc, workload) {
            Ok(true) => found.push(scc),
            Ok(false) => {}
            Err(why) => unknown = Some(why),
        }
    }
    match unknown {
        Some(why) if found.is_empty() => Err(why),
        _ => Ok(found),
    }
}

/// The SCCs that OpenShift may choose for a workload's pods: those of the highest priority. `None` if it has no SCCs, or they are not known.
pub(super) fn chosen<'a>(cluster: &'a Cluster, workload: &Workload) -> Option<Vec<&'a Value>> {
    let mut all = usable(cluster, workload).ok()?;
    let priority = |scc: &Value| scc["priority"].as_i64().unwrap_or(0);
    let highest = all.iter().map(|scc| priority(scc)).max()?;
    all.retain(|scc| priority(scc) == highest);
    Some(all)
}

pub(super) fn check(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    match &cluster.sccs {
        Listed::NotInstalled => return,
        Listed::NotRead(why) => return report.not_checked("SecurityContextConstraints", why),
        Listed::Read(_) => {}
    }
    let account = workload.account();
    match usable(cluster, workload) {
        Ok(usable) if usable.is_empty() => {}
        Ok(_) => return,
        Err(why) => {
            return report.not_checked(&format!("whether service account {account} may use an SCC"), &why);
        }
    }
    let enough = sufficient(cluster, workload);
    let mut evidence = vec![if enough.is_empty() {
        "no SCC of the cluster allows all of it".to_owned()
    } else {
        format!("SCCs that allow it: {}", list(enough.iter().map(|scc| name(scc))))
    }];
    // What the SCCs refuse that the account may use; without any, what the default one does.
    let all = cluster.sccs.items().iter();
    let refusals = |scc: &'_ Value| (name(scc).to_owned(), refuses(cluster, scc, workload));
    let mut refused: Vec<_> = all
        .filter(|scc| may_use(cluster, scc, workload) == Ok(true))
        .map(refusals)
        .collect();
    refused.sort_by_key(|(name, refused)| (refused.len(), name.clone()));
    evidence.extend(
        refused
            .iter()
            .take(MOST_SHOWN)
            .map(|(name, refused)| format!("{name}, which it may use, refuses {}", list(refused))),
    );
    if refused.is_empty() {
        let default = ["restricted-v2", "restricted"]
            .iter()
            .find_map(|name| cluster.sccs.named(name));
        refused.extend(default.map(refusals));
    }
    let by_all: Vec<&String> = refused.first().map_or(Vec::new(), |(_, first)| {
        let each = first.iter();
        each.filter(|what| refused.iter().all(|(_, others)| others.contains(what)))
            .collect()
    });
    let asks = match (by_all.as_slice(), refused.len()) {
        ([], 0) => "the pod".to_owned(),
        ([], _) => "everything that the pod asks for".to_owned(),
        (some, _) => list(some),
    };
    report.add(Finding {
        rule: "scc-missing",
        severity: Severity::Critical,
        subject: workload.subject(),
        summary: format!(
            "service account {account} may not use any SCC that allows {asks}: OpenShift refuses the pod"
        ),
        evidence,
        remedy: grant(cluster, workload),
    });
}

/// How to give a workload's account an SCC that allows its pods: of those that do, the one without privileged containers.
pub(super) fn grant(cluster: &Cluster, workload: &Workload) -> String {
    let command = |scc: &Value| {
        let (account, namespace) = (workload.account(), &workload.namespace);
        format!(
            "oc adm policy add-scc-to-user {} -z {account} -n {namespace}",
            name(scc)
        )
    };
    let enough = sufficient(cluster, workload);
    if let Some(scc) = enough.iter().find(|scc| !is_privileged(scc)) {
        return format!("as administrator: {}", command(scc));
    }
    let own = own();
    if let Some(scc) = own.iter().find(|scc| refuses(cluster, scc, workload).is_empty()) {
        return format!(
            "as administrator: create the SCC {} like restricted-v2 with allowedCapabilities: [IPC_LOCK], runAsUser: {{type: {}}} and \
             allowPrivilegeEscalation: {}, then {}",
            name(scc),
            scc["runAsUser"]["type"].as_str().unwrap_or_default(),
            scc["allowPrivilegeEscalation"],
            command(scc)
        );
    }
    let needless = refuses(cluster, &own[0], workload);
    let without = format!(
        "if the pod does not need {}, remove it, so that the SCC {} is enough",
        list(&needless),
        name(&own[0])
    );
    match enough.first() {
        Some(scc) => format!(
            "{without}; otherwise, as administrator: {} (it allows privileged containers)",
            command(scc)
        ),
        None => format!(
            "{without}; otherwise, as administrator, create an SCC that allows it, and grant it to the service account"
        ),
    }
}
