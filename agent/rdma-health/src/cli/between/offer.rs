//! The ports that this node offers for a measurement.

use std::{collections::BTreeSet, net::Ipv6Addr, path::PathBuf};

use rdma_health_config::Config;
use rdma_health_kernel::Root;
use rdma_health_node::{Node, Port};
use rdma_health_peer::{Introduction, PortOffer};
use rdma_health_protocol::{LinkLayer, PortKey};
use rdma_health_rules::domain::measured::capacity;

use crate::cli::{gather::read_kernel, probe};

/// How often the node is read if the kernel does not answer in time.
const ATTEMPTS: u32 = 3;
/// The bits of an IPv6 subnet, and of the subnet prefix of a GID.
const PREFIX: u8 = 64;

/// Reads the node again for each measurement.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    root: PathBuf,
    exclude: Vec<String>,
    targets: Vec<String>,
}

impl Reader {
    pub(super) fn new(arguments: &probe::Arguments, config: &Config) -> Self {
        Self {
            root: arguments.root.clone(),
            exclude: config.exclude.clone(),
            targets: arguments.targets.clone(),
        }
    }

    /// This node and its active ports, of which the user may have named some.
    pub(super) async fn read(&self) -> anyhow::Result<Introduction> {
        let own = self.clone();
        // A file of the kernel that does not answer must not hold up the connections.
        tokio::task::spawn_blocking(move || own.read_now()).await?
    }

    fn read_now(&self) -> anyhow::Result<Introduction> {
        let mut attempts = 0;
        let (node, hung) = loop {
            attempts += 1;
            let read = read_kernel(Root::open(&self.root)?, self.exclude.clone());
            // A busy machine may need longer than one reading may take.
            if read.1.is_empty() || attempts == ATTEMPTS {
                break read;
            }
        };
        if node.hcas().next().is_none() && !hung.is_empty() {
            let sources: Vec<_> = hung.into_keys().collect();
            anyhow::bail!(
                "the kernel did not answer in time what RDMA devices there are ({})",
                sources.join(", ")
            );
        }
        if let Some(unread) = node.hcas.unread() {
            anyhow::bail!("the RDMA devices could not be read: {}", unread.detail);
        }
        for target in &self.targets {
            let found = node.ports().any(|port| names(target, &port));
            anyhow::ensure!(found, "this node has no RDMA device or port named \"{target}\"");
        }
        let is_named = |port: &Port<'_>| {
            self.targets.is_empty() || self.targets.iter().any(|target| names(target, port))
        };
        let ports: Vec<_> = node
            .active_ports()
            // iWARP connects in another way.
            .filter(|port| !port.is_iwarp() && is_named(port))
            .filter_map(|port| offer(&node, &port))
            .collect();
        anyhow::ensure!(!ports.is_empty(), "no RDMA port is active: run rdma-health check");
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(Introduction { node: name, ports })
    }
}

/// Whether `target` is the port or its device.
fn names(target: &str, port: &Port<'_>) -> bool {
    target == port.hca.name || target == port.to_string()
}

fn offer(node: &Node, port: &Port<'_>) -> Option<PortOffer> {
    let link_layer = port.link_layer.known()?;
    let (capacity, limited_by) = capacity(node, port).unzip();
    Some(PortOffer {
        port: PortKey {
            device: port.hca.name.clone(),
            port: port.number,
        },
        link_layer: link_layer.clone(),
        rate: port.rate.known().map(|rate| rate.bits_per_second),
        capacity,
        limited_by: limited_by.unwrap_or_default().to_owned(),
        software: port.hca.is_software(),
        subnets: subnets(node, port, link_layer),
    })
}

/// The subnets by which the other end of its rail is found: those of its network device, or the subnet prefix of its fabric.
fn subnets(node: &Node, port: &Port<'_>, link_layer: &LinkLayer) -> Vec<String> {
    let prefix = |gid: Ipv6Addr| {
        let prefix = Ipv6Addr::from_bits(gid.to_bits() >> PREFIX << PREFIX);
        format!("{prefix}/{PREFIX}")
    };
    let gids = port.gids().unwrap_or_default();
    if *link_layer == LinkLayer::InfiniBand {
        return gids.first().map(|gid| prefix(gid.gid)).into_iter().collect();
    }
    let netdevs: BTreeSet<&str> = gids.iter().filter_map(|gid| port.netdev_of(gid)).collect();
    let known = node.network.subnets.known();
    let v4 = known.into_iter().flatten();
    let v4 = v4.filter(|subnet| netdevs.contains(&*subnet.netdev));
    let v4: BTreeSet<_> = v4
        .map(|subnet| format!("{}/{}", subnet.address, subnet.prefix))
        .collect();
    let is_global = |gid: &Ipv6Addr| gid.to_ipv4_mapped().is_none() && !gid.is_unicast_link_local();
    let v6: BTreeSet<_> = gids
        .iter()
        .map(|gid| gid.gid)
        .filter(is_global)
        .map(prefix)
        .collect();
    // IPv4 first, because it is what most rails have. More would not be accepted.
    v4.into_iter().chain(v6).take(16).collect()
}
