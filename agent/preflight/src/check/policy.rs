//! What one SCC refuses of a pod, as OpenShift's admission decides it.

use serde_json::Value;

use super::list;
use crate::pod;

/// The users that a namespace may use, as FIRST/NUMBER or FIRST-LAST: for SCCs without own limits.
const UIDS: &str = "openshift.io/sa.scc.uid-range";

/// What an SCC does not allow of a pod in this namespace.
pub(super) fn refused_by(scc: &Value, spec: &Value, namespace: Option<&Value>) -> Vec<String> {
    let mut refused = capabilities(scc, spec);
    let forbidden = |field: &str| scc[field] != true;
    let some = |field: &str, value: bool| {
        !pod::names_of(spec, |one| one["securityContext"][field] == value).is_empty()
    };
    let host_port = |one: &Value| {
        let mut ports = one["ports"].as_array().into_iter().flatten();
        ports.any(|port| port["hostPort"].as_u64().is_some_and(|port| port > 0))
    };
    for (asks, field, what) in [
        (
            some("privileged", true),
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
        (
            !pod::names_of(spec, host_port).is_empty(),
            "allowHostPorts",
            "a port of the host",
        ),
    ] {
        if asks && forbidden(field) {
            refused.push(what.to_owned());
        }
    }
    // Without a value, it is allowed.
    if some("allowPrivilegeEscalation", true) && scc["allowPrivilegeEscalation"] == false {
        refused.push("privilege escalation".into());
    }
    if some("readOnlyRootFilesystem", false) && scc["readOnlyRootFilesystem"] == true {
        refused.push("a writable root file system".into());
    }
    refused.extend(users(scc, spec, namespace));
    refused.extend(volumes(scc, spec));
    refused.extend(seccomp(scc, spec));
    refused
}

fn names<'a>(scc: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    scc[field]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn capabilities(scc: &Value, spec: &Value) -> Vec<String> {
    let allowed = |capability: &str| {
        ["allowedCapabilities", "defaultAddCapabilities"]
            .iter()
            .any(|field| names(scc, field).any(|name| name == "*" || name == capability))
    };
    let asked = pod::added_capabilities(spec).into_iter();
    asked
        .filter(|name| !allowed(name))
        .map(|name| format!("capability {name}"))
        .collect()
}

/// The users that containers set and the SCC does not allow.
fn users(scc: &Value, spec: &Value, namespace: Option<&Value>) -> Vec<String> {
    let rule = &scc["runAsUser"];
    let range = range(rule, namespace);
    let allows = |user: u64| match rule["type"].as_str() {
        Some("MustRunAs") => rule["uid"].as_u64().is_none_or(|uid| uid == user),
        Some("MustRunAsNonRoot") => user != 0,
        Some("MustRunAsRange") => match range {
            Some((first, last)) => (first..=last).contains(&user),
            // No namespace has root in its range.
            None => user != 0,
        },
        _ => true,
    };
    let set = pod::all_containers(spec).filter_map(|one| pod::security(spec, one, "runAsUser").as_u64());
    let mut refused: Vec<_> = set.filter(|user| !allows(*user)).collect();
    refused.sort_unstable();
    refused.dedup();
    refused.into_iter().map(|user| format!("user {user}")).collect()
}

/// The first and last user of a range.
fn range(rule: &Value, namespace: Option<&Value>) -> Option<(u64, u64)> {
    if let (Some(first), Some(last)) = (rule["uidRangeMin"].as_u64(), rule["uidRangeMax"].as_u64()) {
        return Some((first, last));
    }
    let text = namespace?["metadata"]["annotations"][UIDS].as_str()?;
    if let Some((first, number)) = text.split_once('/') {
        let (first, number) = (first.parse::<u64>().ok()?, number.parse::<u64>().ok()?);
        return Some((first, first.checked_add(number.checked_sub(1)?)?));
    }
    let (first, last) = text.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// The kinds of volumes that the SCC does not allow. `allowHostDirVolumePlugin` alone decides about the node's directories.
fn volumes(scc: &Value, spec: &Value) -> Vec<String> {
    let limited = scc["volumes"].is_array();
    let allowed = |kind: &str| {
        if kind == "hostPath" {
            return scc["allowHostDirVolumePlugin"] == true;
        }
        !limited || names(scc, "volumes").any(|name| name == "*" || name == kind)
    };
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let kinds = volumes.filter_map(|volume| {
        let mut fields = volume.as_object()?.iter();
        let (kind, _) = fields.find(|(field, value)| *field != "name" && value.is_object())?;
        Some(kind.as_str())
    });
    let mut refused: Vec<_> = kinds.filter(|kind| !allowed(kind)).collect();
    refused.sort_unstable();
    refused.dedup();
    refused
        .into_iter()
        .map(|kind| format!("a {kind} volume"))
        .collect()
}

/// The seccomp profiles that containers set and the SCC does not allow.
fn seccomp(scc: &Value, spec: &Value) -> Option<String> {
    let profiles = pod::all_containers(spec).filter_map(|one| {
        let profile = pod::security(spec, one, "seccompProfile");
        Some(match profile["type"].as_str()? {
            "RuntimeDefault" => "runtime/default".to_owned(),
            "Unconfined" => "unconfined".to_owned(),
            _ => format!(
                "localhost/{}",
                profile["localhostProfile"].as_str().unwrap_or_default()
            ),
        })
    });
    let allowed = |profile: &str| {
        names(scc, "seccompProfiles").any(|name| {
            name == "*" || name == profile || name == "docker/default" && profile == "runtime/default"
        })
    };
    let mut refused: Vec<_> = profiles.filter(|profile| !allowed(profile)).collect();
    refused.sort_unstable();
    refused.dedup();
    (!refused.is_empty()).then(|| format!("the seccomp profile {}", list(refused)))
}
