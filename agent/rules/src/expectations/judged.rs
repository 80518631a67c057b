//! Whether the expectations of the operator can be judged.

use rdma_health_node::{Fact, Node, Port};

use super::Expectations;

impl Expectations {
    /// The first expectation that cannot be judged, because the facts that it needs are not known, and why.
    pub(crate) fn not_judged(&self, node: &Node) -> Option<String> {
        let ports = || {
            node.active_ports()
                .filter(|port| !port.hca.is_software() && !port.hca.is_virtual())
        };
        let unknown = [
            self.ports_up_unknown(node),
            self.passthrough
                .and_then(|_| passthrough_unknown(node))
                .map(|why| ("passthrough", why)),
            self.rate_gbps
                .and_then(|_| without(ports(), |port| port.rate.known().is_some()))
                .map(|port| ("rate_gbps", format!("the rate of {port} is not known"))),
            self.mtu
                .and_then(|_| without(ports(), |port| port.verbs.is_some()))
                .map(|port| {
                    (
                        "mtu",
                        format!("the path MTU of {port} is not known without libibverbs"),
                    )
                }),
            self.gid_index
                .and_then(|_| without(ports().filter(Port::is_ethernet), |port| port.gids().is_some()))
                .map(|port| ("gid_index", format!("the GIDs of {port} are not known"))),
            self.driver
                .as_ref()
                .and_then(|_| driver_unknown(node))
                .map(|why| ("driver", why)),
            self.vfs
                .and_then(|_| unread(&node.pci.functions))
                .map(|why| ("vfs", why)),
            self.fleet_nodes
                .and_then(|_| unread(&node.neighbours.tables))
                .map(|why| ("fleet_nodes", why)),
            self.bandwidth_gbps
                .filter(|_| node.loopbacks().next().is_none())
                .map(|_| {
                    (
                        "bandwidth_gbps",
                        "no probe has run (rdma-health check --probe)".to_owned(),
                    )
                }),
        ];
        let (key, why) = unknown.into_iter().flatten().next()?;
        Some(format!("expect.{key} cannot be judged: {why}"))
    }

    fn ports_up_unknown(&self, node: &Node) -> Option<(&'static str, String)> {
        let is_expected = |port: &Port<'_>| {
            let mut names = self.ports_up.iter();
            names.any(|name| *name == port.hca.name || *name == port.to_string())
        };
        let port = without(node.ports().filter(is_expected), |port| {
            port.is_active().is_some()
        })?;
        Some(("ports_up", format!("the state of {port} could not be read")))
    }
}

/// The first port that does not know this.
fn without<'a>(
    mut ports: impl Iterator<Item = Port<'a>>,
    knows: impl Fn(&Port<'a>) -> bool,
) -> Option<Port<'a>> {
    ports.find(|port| !knows(port))
}

fn unread<T>(fact: &Fact<T>) -> Option<String> {
    fact.unread().map(ToString::to_string)
}

fn driver_unknown(node: &Node) -> Option<String> {
    let mut hardware = node.hcas().filter(|hca| !hca.is_software());
    let unknown = hardware.find(|hca| hca.driver.known().is_none())?;
    Some(format!("the driver of {} is not known", unknown.name))
}

/// Why the IOMMU mode of RDMA functions and GPUs is not known.
fn passthrough_unknown(node: &Node) -> Option<String> {
    if let Some(why) = unread(&node.iommu.groups) {
        return Some(why);
    }
    // A running kernel without the directory has no IOMMU.
    if node.iommu.groups.is_absent() && !node.live {
        return Some("this tree has no /sys/kernel/iommu_groups".into());
    }
    let groups = node.iommu.groups.known()?;
    if groups.is_empty() {
        return None;
    }
    if let Some(why) = unread(&node.pci.functions) {
        return Some(why);
    }
    let mut functions = node.dma_functions().peekable();
    if functions.peek().is_none() {
        return Some("no RDMA function or GPU is known".into());
    }
    let unknown = functions.find(|function| function.dma.is_none())?;
    Some(match unknown.group {
        Some(group) => format!(
            "the type of IOMMU group {group} ({}) is not known",
            unknown.address
        ),
        None => format!("{} is in no IOMMU group that could be read", unknown.address),
    })
}
