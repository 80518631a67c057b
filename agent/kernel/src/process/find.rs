//! Finds the process of a container or pod.
//!
//! Source: `/proc/PID/cgroup`, in which container runtimes name the container (`cri-containerd-ID.scope`, `crio-ID.scope`,
//! `docker-ID.scope`, `…/ID`) and the kubelet the pod (`pod1f2e3d4c_….slice`, `pod1f2e3d4c-…`); `/var/log/pods`, where the kubelet has a
//! directory `NAMESPACE_NAME_UID` for each pod.

use std::collections::BTreeSet;

use rdma_health_protocol::text::excerpt;

use crate::{fact::Fact, root::Scope};

/// Maximum number of processes whose cgroup is read.
const MAX_PROCESSES: usize = 65_536;
/// Maximum number of processes of a container or pod whose libraries are looked at.
const MAX_CANDIDATES: usize = 64;
/// The shortest part of a container's id that is accepted; `crictl` and `docker` show 12 or 13 characters.
const MIN_ID: usize = 8;
/// The shortest id in the name of a cgroup that is taken for that of a container; runtimes write 64 digits.
const MIN_CONTAINER: usize = 12;
/// Maximum number of characters of a cgroup in a message.
const MAX_PLACE: usize = 160;
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
    let matched = |pid: u32| {
        let cgroup = scope.optional(&format!("/proc/{pid}/cgroup"));
        let text = cgroup.known()?;
        let found = keys.iter().filter_map(|key| key.named_in(text)).min()?;
        Some((found, pid))
    };
    let all: Vec<((usize, String), u32)> = pids.into_iter().take(MAX_PROCESSES).filter_map(matched).collect();
    // A container can make cgroups with any name below its own, so the outermost name counts.
    let Some(depth) = all.iter().map(|((depth, _), _)| *depth).min() else {
        return Found::Nothing(
            "no process of it runs on this node, or their cgroups could not be read".into(),
        );
    };
    let outermost = all.into_iter().filter(|((found, _), _)| *found == depth);
    let (places, all): (BTreeSet<String>, Vec<u32>) = outermost.map(|((_, place), pid)| (place, pid)).unzip();
    if places.len() > 1 && (depth > 0 || matches!(wanted, Wanted::Container(_))) {
        let shown: Vec<_> = places
            .iter()
            .take(4)
            .map(|place| excerpt(place, MAX_PLACE))
            .collect();
        return Found::Nothing(format!(
            "{} containers have such an id ({}): give the whole id, or use --pid",
            places.len(),
            shown.join(", ")
        ));
    }
    let all = &all[..all.len().min(MAX_CANDIDATES)];
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
        None => Found::Nothing("only the pause process of it runs on this node".into()),
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
    /// How many containers (or pods) are around the one with this key in a cgroup, and its path; `None` if the key is not in
    /// it.
    fn named_in(&self, cgroup: &str) -> Option<(usize, String)> {
        let paths = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        paths.filter_map(|path| self.named_in_path(path)).min()
    }

    fn named_in_path(&self, path: &str) -> Option<(usize, String)> {
        let mut depth = 0;
        let mut end = 0;
        for part in path.split('/') {
            end += part.len();
            let found = match self {
                Self::Container(id) => container_of(part).map(|own| own.starts_with(id.as_str())),
                Self::Pod(uid) => pod_of(part).map(|own| own == *uid),
            };
            match found {
                Some(true) => return Some((depth, path[..end].to_owned())),
                Some(false) => depth += 1,
                None => {}
            }
            end += 1;
        }
        None
    }
}

/// The id of the container whose cgroup has this name: `cri-containerd-ID.scope`, `kubepods-….slice:cri-containerd:ID`, `ID`.
fn container_of(part: &str) -> Option<&str> {
    let own = match part.strip_suffix(".scope") {
        Some(scope) => scope.rsplit('-').next()?,
        None => part.rsplit(':').next()?,
    };
    let is_id = own.len() >= MIN_CONTAINER && own.bytes().all(|b| b.is_ascii_hexdigit());
    is_id.then_some(own)
}

/// The uid of the pod whose cgroup has this name: `kubepods-besteffort-podUID.slice`, `podUID`, `kubepods-podUID.slice:cri-containerd:ID`.
fn pod_of(part: &str) -> Option<String> {
    let own = part.split(':').next()?;
    let own = own.strip_suffix(".slice").unwrap_or(own);
    let is_of_pods = own.starts_with("pod") || own.starts_with("kubepods");
    // `kubepods` itself and its classes have no uid.
    let uid = own.rsplit_once("pod").map(|(_, uid)| uid.replace('_', "-"))?;
    let is_uid =
        uid.starts_with(|c: char| c.is_ascii_hexdigit()) && !uid.contains("best") && !uid.contains("burst");
    (is_of_pods && is_uid).then_some(uid)
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
            assert!(
                Key::Container(id[..12].into()).named_in(&cgroup).is_some(),
                "{cgroup}"
            );
            assert_eq!(
                Key::Container("00ee00ee".into()).named_in(&cgroup),
                None,
                "{cgroup}"
            );
            assert!(Key::Pod(uid.into()).named_in(&cgroup).is_some(), "{cgroup}");
            assert_eq!(
                Key::Pod(uid.replace('1', "2")).named_in(&cgroup),
                None,
                "{cgroup}"
            );
        }
    }

    #[test]
    fn a_cgroup_that_a_container_made_is_deeper_than_its_own() {
        let (own, other) = ("aa".repeat(32), "bb".repeat(32));
        let uid = "1f2e3d4c-0000-4000-8000-000000000001";
        let tenant = format!(
            "0::/kubepods/burstable/pod{}/{own}/pod{uid}/{other}",
            uid.replace('1', "2")
        );
        let depth = |key: Key| key.named_in(&tenant).map(|(depth, _)| depth);
        assert_eq!(depth(Key::Container(own.clone())), Some(0));
        assert_eq!(depth(Key::Container(other)), Some(1));
        assert_eq!(depth(Key::Pod(uid.into())), Some(1));
    }
}
