//! What a process here can use for RDMA: device nodes, network devices, and the way out.
//!
//! Source: `/sys/class/infiniband_verbs/uverbsN/{ibdev,dev}`, `/dev/infiniband`, `/sys/bus/pci/devices/ADDRESS/{class,driver}`, `/sys/class/net`,
//! `/proc/net/route` and `/proc/net/ipv6_route`. Inside a pod, `/dev`, the network devices and the routes are the pod's.

use std::collections::BTreeMap;

use rustix::io::Errno;

use crate::{
    fact::Fact,
    root::{Root, Scope},
};

const VERBS: &str = "/sys/class/infiniband_verbs";
const NODES: &str = "/dev/infiniband";
const FUNCTIONS: &str = "/sys/bus/pci/devices";
/// Where the kubelet mounts the metadata of a pod's devices (KEP-5304).
const METADATA: &str = "/var/run/kubernetes.io/dra-device-attributes";
/// Maximum number of metadata files that are read.
const MAX_METADATA: usize = 64;

/// What a process here can use for RDMA.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// For each RDMA device that user space can open, the name of its device node (`uverbs0`); absent without `ib_uverbs`.
    pub uverbs: Fact<BTreeMap<String, String>>,
    /// Whether some device node does not say to which RDMA device it belongs, so that devices without one in [`Access::uverbs`] can have one.
    /// The kernel always says it; a captured tree may not have it.
    pub uverbs_unnamed: bool,
    /// The names in `/dev/infiniband`; absent if there is no such directory.
    pub nodes: Fact<Vec<String>>,
    /// The device nodes that this process may not open, with the reason. Found out on a running machine only.
    pub closed: BTreeMap<String, String>,
    /// The PCI functions of [`Access::read_functions`]; absent if there is none at the address.
    pub functions: BTreeMap<String, Fact<GivenFunction>>,
    /// The network devices in this network namespace.
    pub netdevs: Fact<Vec<String>>,
    /// The network device of the default route, IPv4 before IPv6; absent without a default route.
    pub default_netdev: Fact<String>,
    /// The files in which DRA drivers describe the pod's devices, and their content.
    pub metadata: Vec<(String, Fact<String>)>,
}

impl Access {
    /// Reads it, once. It is not a source of [`Facts`](crate::Facts): a node as a whole has no such facts.
    pub fn read(root: &Root) -> Self {
        let scope = Scope::new(root);
        let mut uverbs_unnamed = false;
        let uverbs: Fact<BTreeMap<String, String>> = scope.entries(VERBS).map(|names| {
            let mut named = BTreeMap::new();
            for node in names.into_iter().filter(|name| name.starts_with("uverbs")) {
                match scope.optional(&format!("{VERBS}/{node}/ibdev")).known() {
                    Some(device) => drop(named.insert(device.clone(), node)),
                    None => uverbs_unnamed = true,
                }
            }
            named
        });
        let closed_node = |node: &String| {
            let number = scope.optional(&format!("{VERBS}/{node}/dev"));
            let why = why_closed(root, node, number.known()?)?;
            Some((node.clone(), why))
        };
        let closed = uverbs.known().into_iter().flatten();
        let closed = closed.filter_map(|(_, node)| closed_node(node)).collect();
        let ipv4 = scope.optional_file("/proc/net/route");
        let default_netdev = match ipv4.and_then(|table| default_ipv4(&table).into()) {
            Fact::Absent => {
                let ipv6 = scope.optional_file("/proc/net/ipv6_route");
                ipv6.and_then(|table| default_ipv6(&table).into())
            }
            found => found,
        };
        Self {
            uverbs,
            uverbs_unnamed,
            nodes: scope.entries(NODES),
            closed,
            functions: BTreeMap::new(),
            netdevs: scope.entries("/sys/class/net"),
            default_netdev,
            metadata: metadata(&scope),
        }
    }

    /// Reads these PCI functions, which the pod was given, from `/sys/bus/pci/devices`.
    pub fn read_functions<'a>(&mut self, root: &Root, addresses: impl Iterator<Item = &'a str>) {
        let scope = Scope::new(root);
        let all = scope.entries(FUNCTIONS);
        for address in addresses {
            let function = all.clone().and_then(|all| {
                let is_there = all.iter().any(|one| one == address);
                is_there.then(|| GivenFunction::read(&scope, address)).into()
            });
            self.functions.insert(address.to_owned(), function);
        }
    }
}

/// A PCI function that a pod was given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenFunction {
    /// Base class, subclass and programming interface.
    pub class: Fact<u32>,
    /// The bound driver; absent if there is none.
    pub driver: Fact<String>,
}

impl GivenFunction {
    fn read(scope: &Scope<'_>, address: &str) -> Self {
        let file = |name: &str| format!("{FUNCTIONS}/{address}/{name}");
        let hexadecimal = |text: &str| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok();
        Self {
            class: scope.parsed(&file("class"), "a PCI class such as 0x020000", hexadecimal),
            driver: scope.link_name(&file("driver")),
        }
    }
}

/// Why this process may not open a device node with this number (`231:192`); `None` if it may, or if that is not known.
fn why_closed(root: &Root, node: &str, number: &str) -> Option<String> {
    let path = format!("{NODES}/{node}");
    match root.refuses_device(&path, number)? {
        Errno::ACCESS => Some(format!(
            "this user may not open {path} (permission denied): run the container as another user, or correct the mode of the file"
        )),
        _ => Some(format!(
            "this container may not open {path}, although the file is there (operation not permitted): the device was not given to it"
        )),
    }
}

/// The file at this path, for a user who names it.
pub fn file(root: &Root, path: &str) -> Fact<String> {
    Scope::new(root).required_file(path)
}

/// The file at this path; absent if it does not exist.
pub fn optional_file(root: &Root, path: &str) -> Fact<String> {
    Scope::new(root).optional_file(path)
}

/// `resourceclaims/CLAIM/REQUEST/DRIVER-metadata.json`, and likewise in `resourceclaimtemplates`.
fn metadata(scope: &Scope<'_>) -> Vec<(String, Fact<String>)> {
    let below = |directory: &String| {
        let names = scope.entries(directory).known().cloned().unwrap_or_default();
        let directory = directory.clone();
        names.into_iter().map(move |name| format!("{directory}/{name}"))
    };
    let claims = ["resourceclaims", "resourceclaimtemplates"].map(|kind| format!("{METADATA}/{kind}"));
    let requests: Vec<_> = claims.iter().flat_map(below).collect();
    let directories: Vec<_> = requests.iter().flat_map(below).take(MAX_METADATA).collect();
    let files = directories.iter().flat_map(below);
    files
        .filter(|path| path.ends_with("-metadata.json"))
        .take(MAX_METADATA)
        .map(|path| {
            let content = scope.optional_file(&path);
            (path, content)
        })
        .collect()
}

/// The network device of the IPv4 default route with the lowest metric. Columns: device, destination, gateway, flags,
/// references, uses, metric, mask.
fn default_ipv4(table: &str) -> Option<String> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [netdev, "00000000", _, _, _, _, metric, "00000000", ..] = words.as_slice() else {
            return None;
        };
        Some((metric.parse::<u32>().ok()?, *netdev))
    });
    routes.min().map(|(_, netdev)| netdev.to_owned())
}

/// The network device of the IPv6 default route with the lowest metric. Columns: destination, prefix length, source, prefix
/// length, next hop, metric, references, uses, flags, device.
fn default_ipv6(table: &str) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [destination, "00", _, _, _, metric, _, _, _, netdev] = words.as_slice() else {
            return None;
        };
        // The kernel's own entry that rejects everything is on the loopback device.
        let is_default = destination.bytes().all(|digit| digit == b'0') && *netdev != "lo";
        is_default.then_some((u32::from_str_radix(metric, 16).ok()?, *netdev))
    });
    routes.min().map(|(_, netdev)| netdev.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";

    #[test]
    fn the_default_route_with_the_lowest_metric_leads_out() {
        let table = format!(
            "{HEAD}net1\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
             eth0\t00000000\t01F4A80A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
             net1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
        );
        assert_eq!(default_ipv4(&table).as_deref(), Some("eth0"));
        assert_eq!(default_ipv4(HEAD), None);
    }

    #[test]
    fn an_ipv6_only_pod_has_its_default_route_found() {
        let zeros = "0".repeat(32);
        let table = format!(
            "{zeros} 00 {zeros} 00 fe80000000000000ecceeeeeeeeeeeee 00000400 00000001 00000000 00450003     eth0\n\
             {zeros} 00 {zeros} 00 {zeros} ffffffff 00000001 00000000 00200200       lo\n"
        );
        assert_eq!(default_ipv6(&table).as_deref(), Some("eth0"));
    }
}
