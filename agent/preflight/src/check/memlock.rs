//! Whether the pod may lock enough memory.

use std::collections::BTreeMap;

use rdma_health_rules::Severity;
use serde_json::Value;

use super::{
    count,
    devices::{is_privileged, users},
    list,
    resources::wanted,
    scc,
};
use crate::{
    cluster::{Cluster, Listed, allocatable},
    pod,
    report::Report,
    workload::{Workload, is_rdma},
};

/// The condition of the agent for limits on a node.
const LIMITS: &str = "RDMALimitsProblem";

pub(super) fn check(cluster: &Cluster, workload: &Workload, report: &mut Report) {
    let spec = &workload.spec;
    let devices = wanted(cluster, workload);
    let requests = devices
        .keys()
        .any(|name| is_rdma(name) || cluster.is_of_an_attachment(name));
    if !requests && !pod::has_device_files(spec) {
        return;
    }
    let adds = |container: &Value| {
        let added = container["securityContext"]["capabilities"]["add"].as_array();
        let mut names = added.into_iter().flatten().filter_map(Value::as_str);
        names.any(|name| matches!(name.trim_start_matches("CAP_"), "IPC_LOCK" | "ALL"))
    };
    let may_lock = |container: &Value| is_privileged(container) || adds(container);
    let mut found = report.about(workload.subject());
    // A capability belongs to one container.
    let users = users(cluster, spec);
    let limited: Vec<_> = users.iter().filter(|one| !may_lock(one)).collect();
    // Without a container that shows its devices, one that may lock is enough.
    let shows = users.len() < pod::containers(spec).count() || users.len() == 1;
    if limited.is_empty() || !shows && limited.len() < users.len() {
        let not_root = |container: &Value| {
            let user = pod::security(spec, container, "runAsUser");
            adds(container)
                && !is_privileged(container)
                && (user.as_u64().is_some_and(|user| user != 0)
                    || pod::security(spec, container, "runAsNonRoot") == true)
        };
        let names = pod::names_of(spec, not_root);
        if let Some(first) = names.first() {
            found.add(
                "ipc-lock-without-root",
                Severity::Warning,
                format!(
                    "container {first} adds IPC_LOCK but does not run as root, so the capability has no effect"
                ),
                vec!["runAsUser or runAsNonRoot".into()],
                "run as root in the container, give the program a file capability (setcap cap_ipc_lock+ep), or raise the memlock \
                 limit on the nodes (rdma-health explain memlock-low)",
            );
        } else if let Some(scc) = forces_a_user(cluster, workload, &|one| adds(one) && !is_privileged(one)) {
            found.add(
                "ipc-lock-without-root",
                Severity::Warning,
                format!(
                    "the SCC {scc} runs the containers as another user than root, so the capability IPC_LOCK has no effect"
                ),
                vec![format!("SCC {scc}: runAsUser"), "no runAsUser in the pod".into()],
                "set runAsUser: 0 in the container and let the service account use an SCC that allows it \
                 (runAsUser: RunAsAny), give the program a file capability (setcap cap_ipc_lock+ep; the SCC must allow privilege escalation), \
                 or raise the memlock limit on the nodes (rdma-health explain memlock-low)",
            );
        }
        return;
    }
    let names = limited.iter().map(|one| one["name"].as_str().unwrap_or("?"));
    let who = match limited.len() {
        _ if limited.len() == pod::containers(spec).count() => "no container adds IPC_LOCK".to_owned(),
        1 => format!("container {} uses RDMA and does not add IPC_LOCK", list(names)),
        _ => format!("containers {} use RDMA and do not add IPC_LOCK", list(names)),
    };
    by_nodes(cluster, workload, &devices, &who, report);
}

/// The SCC that gives a container, of those in which something holds, another user than root. It does only if the pod sets none.
fn forces_a_user<'a>(
    cluster: &'a Cluster,
    workload: &Workload,
    holds: &dyn Fn(&Value) -> bool,
) -> Option<&'a str> {
    let spec = &workload.spec;
    let unset = |one: &Value| holds(one) && pod::security(spec, one, "runAsUser").is_null();
    if workload.exists || pod::names_of(spec, unset).is_empty() {
        return None;
    }
    let forces = |scc: &&&Value| {
        let rule = &scc["runAsUser"];
        match rule["type"].as_str() {
            Some("MustRunAsRange" | "MustRunAsNonRoot") => true,
            Some("MustRunAs") => rule["uid"].as_u64().is_some_and(|uid| uid != 0),
            _ => false,
        }
    };
    // Of equal priority, OpenShift prefers the SCC that restricts the user more.
    let chosen = scc::chosen(cluster, workload)?;
    let found = chosen.iter().find(forces)?;
    found["metadata"]["name"].as_str()
}

/// Judges by the agents' conditions of the nodes that have the devices.
fn by_nodes(
    cluster: &Cluster,
    workload: &Workload,
    devices: &BTreeMap<String, u64>,
    who: &str,
    report: &mut Report,
) {
    let mut found = report.about(workload.subject());
    let remedy = "add the capability IPC_LOCK and run as root in the container, or raise the memlock limit on the nodes \
                  (rdma-health explain memlock-low)";
    let Listed::Read(nodes) = &cluster.nodes else {
        // Reported as not checked with the resources.
        return found.add(
            "memlock-unknown",
            Severity::Warning,
            format!("{who}, and the nodes' limits of locked memory are unknown"),
            vec!["securityContext.capabilities.add".into()],
            remedy,
        );
    };
    let has_devices = |node: &&Value| {
        devices.is_empty()
            || devices
                .keys()
                .any(|name| allocatable(node, name).is_some_and(|number| number > 0))
    };
    let condition = |node: &Value| {
        let all = node["status"]["conditions"].as_array().into_iter().flatten();
        all.into_iter().find(|one| one["type"] == LIMITS).cloned()
    };
    let name = |node: &Value| node["metadata"]["name"].as_str().unwrap_or("?").to_owned();
    let (mut low, mut unknown) = (Vec::new(), Vec::new());
    for node in nodes.iter().filter(has_devices) {
        match condition(node) {
            Some(condition) if condition["status"] == "True" => low.push(format!(
                "{}: {}",
                name(node),
                condition["message"].as_str().unwrap_or(LIMITS)
            )),
            Some(condition) if condition["status"] == "False" => {}
            _ => unknown.push(name(node)),
        }
    }
    if !low.is_empty() {
        low.truncate(8);
        found.add(
            "memlock-low",
            Severity::Critical,
            format!("{who}, and nodes limit locked memory: registering memory fails with ENOMEM"),
            low,
            remedy,
        );
    } else if let Some(first) = unknown.first() {
        found.add(
            "memlock-unknown",
            Severity::Warning,
            format!(
                "{who}, and the memlock limit is unknown on {}, for example {first}",
                count(unknown.len() as u64, "node")
            ),
            vec![format!(
                "the rdma-health agent does not run there (the node has no condition {LIMITS}), so its limit is not known"
            )],
            remedy,
        );
    }
}
