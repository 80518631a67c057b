//! The device nodes through which programs open RDMA devices.
//!
//! Source: `/dev/infiniband` and `/sys/class/infiniband_verbs/uverbsN/ibdev`. A container has the device nodes that it was given. There, only
//! those of the host count: where its root is mounted at `/host`, otherwise as a privileged helper lists them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{fact::Fact, root::Scope};

const CLASS: &str = "/sys/class/infiniband_verbs";
const DIRECTORY: &str = "/dev/infiniband";
/// Where the root of the host is mounted in a container.
const MOUNTED: &str = "/host/dev/infiniband";
/// What a privileged helper answers; no such file exists. Each line is the name of a device node that is missing.
pub(crate) const OF_HELPER: &str = "/host/device-nodes-missing";
/// The most names in a helper's answer.
const MAX_ANSWERED: usize = 128;

/// The device node through which programs open an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNode {
    /// Its name (`uverbs0`).
    pub name: String,
    /// Whether it is in `/dev/infiniband`.
    pub exists: bool,
}

/// A device node that programs open, with its permissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeMode {
    /// Its path (`/dev/infiniband/uverbs0`).
    pub path: String,
    /// The RDMA device that it belongs to; `None` if it is for all of them.
    pub device: Option<String>,
    /// Its mode, without its type.
    pub mode: u32,
    /// The number of its group.
    pub group: u32,
}

impl NodeMode {
    /// Whether every user may read and write it.
    pub fn is_for_all(&self) -> bool {
        self.mode & 0o006 == 0o006
    }

    /// Whether the members of a group other than that of root may.
    pub fn is_for_group(&self) -> bool {
        self.mode & 0o060 == 0o060 && self.group != 0
    }
}

/// What no file has, and where the permissions are asked for.
const MODES: &str = "/host/device-node-modes";

/// The permissions of the device nodes that programs open: of the class of `ib_uverbs`, of `rdma_ucm`, and of the driver `hfi1`. Absent where nothing shows
/// those of the host, or where a tree has no device nodes.
pub(crate) fn modes(scope: &Scope<'_>, class: &Fact<Vec<String>>) -> Fact<Vec<NodeMode>> {
    let root = scope.root();
    if root.is_of_container() && !root.has_devices_of_kernel(DIRECTORY) {
        return Fact::Absent;
    }
    let class = class.known().map_or(&[][..], Vec::as_slice);
    let mut nodes: Vec<(String, Option<String>)> = Vec::new();
    for name in class.iter().filter(|name| is_verbs(name)).take(MAX_ANSWERED) {
        let device = scope.collected(&format!("{CLASS}/{name}/ibdev"));
        nodes.push((
            format!("{DIRECTORY}/{name}"),
            device.known().map(|name| name.trim().to_owned()),
        ));
    }
    if nodes.is_empty() {
        return Fact::Absent;
    }
    let of_driver: Vec<_> = nodes.iter().filter_map(|(_, device)| device.clone()).collect();
    let of_driver = of_driver.into_iter().filter(|device| device.starts_with("hfi1_"));
    nodes.extend(of_driver.map(|device| (format!("/dev/{device}"), Some(device))));
    nodes.push((format!("{DIRECTORY}/rdma_cm"), None));
    let paths: Vec<_> = nodes.iter().map(|(path, _)| path.clone()).collect();
    let answer = scope.modes(MODES, &paths);
    answer.map(|answer| with_modes(&nodes, &answer)).into()
}

/// The nodes that an answer names.
fn with_modes(nodes: &[(String, Option<String>)], answer: &str) -> Vec<NodeMode> {
    let node = |line: &str| {
        let mut words = line.split(' ');
        let (path, device) = nodes
            .iter()
            .find(|(path, _)| Some(path.as_str()) == words.clone().next())?;
        Some(NodeMode {
            path: path.clone(),
            device: device.clone(),
            mode: u32::from_str_radix(words.nth(1)?, 8).ok()?,
            group: words.next()?.parse().ok()?,
        })
    };
    answer.lines().filter_map(node).collect()
}

/// The device node of each device in the class of `ib_uverbs`, whose names are given; absent if nothing here shows those of the host.
pub(crate) fn of_devices(scope: &Scope<'_>, class: &Fact<Vec<String>>) -> Fact<BTreeMap<String, DeviceNode>> {
    let class = class.known().map_or(&[][..], Vec::as_slice);
    missing(scope, class).map(|missing| {
        let of_device = |name: &String| {
            let device = scope.collected(&format!("{CLASS}/{name}/ibdev"));
            let node = DeviceNode {
                name: name.clone(),
                exists: !missing.contains(name),
            };
            Some((device.known()?.trim().to_owned(), node))
        };
        class
            .iter()
            .filter(|name| is_verbs(name))
            .filter_map(of_device)
            .collect()
    })
}

/// The device nodes of the class that the host does not have.
fn missing(scope: &Scope<'_>, class: &[String]) -> Fact<Vec<String>> {
    let root = scope.root();
    if !root.is_of_container() || root.has_devices_of_kernel(DIRECTORY) {
        return missing_below(scope, DIRECTORY, class);
    }
    match missing_below(scope, MOUNTED, class) {
        Fact::Absent => scope.collected(OF_HELPER).map(|answer| parsed(&answer)),
        mounted => mounted,
    }
}

/// The device nodes of the class that are not in the directory; absent without such a directory.
fn missing_below(scope: &Scope<'_>, directory: &str, class: &[String]) -> Fact<Vec<String>> {
    let nodes: Fact<Vec<String>> = scope.collected_entries(directory).into();
    nodes.map(|nodes| {
        let missing = class
            .iter()
            .filter(|name| is_verbs(name) && !nodes.contains(name));
        missing.cloned().collect()
    })
}

/// What is missing on the machine whose root is read, as a privileged helper answers it.
pub fn of_host(scope: &Scope<'_>) -> Fact<String> {
    let missing = scope
        .entries(CLASS)
        .and_then(|class| missing_below(scope, DIRECTORY, &class));
    missing.map(|missing| {
        let names = missing.iter().take(MAX_ANSWERED);
        let lines = names.map(|name| format!("{name}\n"));
        lines.collect::<Vec<_>>().concat()
    })
}

/// The names in a helper's answer.
fn parsed(answer: &str) -> Vec<String> {
    let names = answer.lines().filter(|name| is_verbs(name));
    names.take(MAX_ANSWERED).map(str::to_owned).collect()
}

fn is_verbs(name: &str) -> bool {
    let number = name.strip_prefix("uverbs");
    number.is_some_and(|number| {
        (1..=4).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Root;

    #[test]
    fn the_permissions_of_a_node_are_those_of_its_line() {
        let nodes = [
            ("/dev/infiniband/uverbs0".to_owned(), Some("mlx5_0".to_owned())),
            ("/dev/infiniband/rdma_cm".to_owned(), None),
        ];
        let found = with_modes(
            &nodes,
            "/dev/infiniband/uverbs0 660 110\n/dev/infiniband/rdma_cm 600 0\n/dev/sda 0 0\nx\n",
        );
        let shown: Vec<_> = found
            .iter()
            .map(|node| (node.is_for_all(), node.is_for_group()))
            .collect();
        assert_eq!(shown, [(false, true), (false, false)]);
        assert_eq!(found[0].device.as_deref(), Some("mlx5_0"));
    }

    #[test]
    fn what_a_helper_answers_is_what_a_container_reads() {
        let host = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = host.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for n in 0..3 {
            write(&format!("sys/class/infiniband_verbs/uverbs{n}/ibdev"), "mlx5_0\n");
        }
        write("sys/class/infiniband_verbs/abi_version", "6\n");
        let of = || of_host(&Scope::new(&Root::open(host.path()).unwrap()));
        assert_eq!(of(), Fact::Absent, "a host without the directory");
        write("dev/infiniband/uverbs0", "");
        write("dev/infiniband/rdma_cm", "");
        let answer = of().known().unwrap().clone();
        assert_eq!(answer, "uverbs1\nuverbs2\n");
        assert_eq!(parsed(&format!("{answer}../uverbs3\n")), ["uverbs1", "uverbs2"]);
    }
}
