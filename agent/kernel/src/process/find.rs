//! Finds the process of a container or pod.
//!
//! Source: `/proc/PID/cgroup`, in which container runtimes name the container (`cri-containerd-ID.scope`, `crio-ID.scope`,
//! `docker-ID.scope`, `…/ID`) and the kubelet the pod (`pod1f2e3d4c_….slice`, `pod1f2e3d4c-…`); `/var/log/pods`, where the kubelet has a
//! directory `NAMESPACE_NAME_UID` for each pod.

use crate::{fact::Fact, root::Scope};

/// Maximum number of processes whose cgroup is read.
const MAX_PROCESSES: usize = 65_536;
/// Maximum number of processes of a container or pod whose libraries are looked at.
const MAX_CANDIDATES: usize = 64;
/// The shortest part of a container's id that is accepted; `crictl` and `docker` show 12 or 13 characters.
const MIN_ID: usize = 8;
/// The directory of the kubelet's pod logs.
const PODS: &str = "/var/log/pods";

/// What to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A container by its id or the beginning of it, also with the runtime (`containerd://ID`).
    Container(String),
    /// A pod of this node: its namespace and name.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The process: the first one that has loaded libibverbs, otherwise the first one that is not the pod's pause process.
    Process(u32),
    /// There is none, and why.
    Nothing(String),
}

/// Finds the process of a container or pod.
pub fn find(scope: &Scope<'_>, wanted: &Wanted) -> Found {
    let keys = match wanted {
        Wanted::Container(id) => {
            let id = id.rsplit("://").next().unwrap_or(id);
            let plain = id.len() >= MIN_ID && id.bytes().all(|b| b.is_ascii_hexdigit());
            if !plain {
                return Found::Nothing(format!(
                    "a container id has at least {MIN_ID} hexadecimal digits (see crictl ps)"
                ));
            }
            vec![Key::Container(id.to_ascii_lowercase())]
        }
        Wanted::Pod { namespace, name } => match uids(scope, namespace, name) {
            Ok(uids) => uids.into_iter().map(Key::Pod).collect(),
            Err(why) => return Found::Nothing(why),
        },
    };
    let names = match scope.entries("/proc") {
        Fact::Known(names) => names,
        Fact::Absent => return Found::Nothing("/proc is missing".into()),
        Fact::Unread { unread } => return Found::Nothing(unread.to_string()),
    };
    let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    // A process that ends meanwhile is none of the container.
    let belongs = |pid: &u32| {
        let cgroup = scope.optional(&format!("/proc/{pid}/cgroup"));
        cgroup
            .known()
            .is_some_and(|text| keys.iter().any(|key| key.names(text)))
    };
    let all: Vec<u32> = pids
        .into_iter()
        .take(MAX_PROCESSES)
        .filter(belongs)
        .take(MAX_CANDIDATES)
        .collect();
    let has_verbs = |pid: &&u32| {
        let maps = scope.optional_bytes(&format!("/proc/{pid}/maps"));
        maps.known().is_some_and(|bytes| {
            super::libraries(bytes)
                .iter()
                .any(|name| name.starts_with("libibverbs"))
        })
    };
    let is_job = |pid: &&u32| {
        let name = scope.optional(&format!("/proc/{pid}/comm"));
        name.known().is_none_or(|name| name != "pause")
    };
    let chosen = all.iter().find(has_verbs).or_else(|| all.iter().find(is_job));
    match chosen {
        Some(pid) => Found::Process(*pid),
        None => {
            Found::Nothing("no process of it runs on this node, or their cgroups could not be read".into())
        }
    }
}

/// What to look for in a cgroup.
enum Key {
    /// The beginning of a container's id.
    Container(String),
    /// The uid of a pod, with dashes.
    Pod(String),
}

impl Key {
    fn names(&self, cgroup: &str) -> bool {
        let mut parts = cgroup.lines().flat_map(|line| line.split(['/', ':']));
        parts.any(|part| match self {
            Self::Container(id) => {
                let own = part.strip_suffix(".scope").unwrap_or(part);
                own.rsplit('-')
                    .next()
                    .is_some_and(|own| own.starts_with(id.as_str()))
            }
            Self::Pod(uid) => {
                let own = part.strip_suffix(".slice").unwrap_or(part).replace('_', "-");
                own.rsplit_once("pod").is_some_and(|(_, own)| own == uid)
            }
        })
    }
}

/// The uids of the pods with this name: one, unless a pod was replaced by one of the same name.
fn uids(scope: &Scope<'_>, namespace: &str, name: &str) -> Result<Vec<String>, String> {
    let names = match scope.entries(PODS) {
        Fact::Known(names) => names,
        Fact::Absent => return Err(format!("{PODS} is missing: use --container or --pid")),
        Fact::Unread { unread } => return Err(unread.to_string()),
    };
    let prefix = format!("{namespace}_{name}_");
    let found: Vec<_> = names
        .iter()
        .filter_map(|directory| directory.strip_prefix(&prefix))
        .map(|uid| uid.replace('_', "-"))
        .collect();
    if found.is_empty() {
        return Err(format!(
            "{PODS} has no directory {prefix}*: the pod does not run on this node"
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_and_pods_are_found_in_every_form_of_cgroup() {
        let id = "00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff";
        let uid = "1f2e3d4c-0000-4000-8000-000000000001";
        let below = uid.replace('-', "_");
        for cgroup in [
            format!(
                "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{below}.slice/cri-containerd-{id}.scope"
            ),
            format!("0::/kubepods.slice/kubepods-pod{below}.slice/crio-{id}.scope/container"),
            format!("12:cpu:/kubepods/burstable/pod{uid}/{id}\n0::/"),
            format!("0::/system.slice/containerd.service/kubepods-pod{below}.slice:cri-containerd:{id}"),
        ] {
            assert!(Key::Container(id[..12].into()).names(&cgroup), "{cgroup}");
            assert!(!Key::Container("00ee00ee".into()).names(&cgroup), "{cgroup}");
            assert!(Key::Pod(uid.into()).names(&cgroup), "{cgroup}");
            assert!(!Key::Pod(uid.replace('1', "2")).names(&cgroup), "{cgroup}");
        }
    }
}
