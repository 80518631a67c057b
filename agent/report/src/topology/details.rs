//! The topology for programs: everything that the text and the drawing show, and more.

use std::{collections::BTreeSet, io::Write};

use rdma_health_node::{
    Fact, Function, Node, model,
    pci::{Acs, Link, PortType},
    topology::{Distance, Path, distance},
};
use serde::Serialize;

/// Version of the JSON format. New fields do not change it.
const SCHEMA: u32 = 1;

/// The state of one port of a NIC.
#[derive(Debug, Serialize)]
pub(super) struct Port<'a> {
    device: &'a str,
    port: u8,
    /// `ACTIVE`.
    pub(super) state: Fact<&'a str>,
    /// Bits per second.
    rate: Fact<u64>,
    netdev: Option<&'a str>,
}

/// The ports of a function's RDMA devices.
pub(super) fn ports<'a>(node: &'a Node, function: &Function<'_>) -> Vec<Port<'a>> {
    let ports = node
        .ports()
        .filter(|port| function.names.contains(&port.hca.name.as_str()));
    let port = |port: rdma_health_node::Port<'a>| Port {
        device: &port.hca.name,
        port: port.number,
        state: port.kernel.state.as_ref().map(|state| state.name.as_str()),
        rate: port.kernel.rate.as_ref().map(|rate| rate.bits_per_second),
        netdev: port.kernel.netdev.known().map(|netdev| netdev.name.as_str()),
    };
    ports.map(port).collect()
}

/// The network devices of ports, each once.
pub(super) fn netdevs<'a>(ports: &[Port<'a>]) -> Vec<&'a str> {
    let mut all = Vec::new();
    for netdev in ports.iter().filter_map(|port| port.netdev) {
        if !all.contains(&netdev) {
            all.push(netdev);
        }
    }
    all
}

/// A PCIe root port, or a port of a switch.
#[derive(Debug, Serialize)]
pub(super) struct Bridge<'a> {
    pub(super) address: &'a str,
    /// `None` if its configuration space could not be read.
    port_type: Option<PortType>,
    pub(super) numa_node: Option<u32>,
    /// Whether its Access Control Services redirect peer-to-peer traffic; `None` if they could not be read.
    pub(super) acs_redirects: Option<bool>,
    /// The registers; `None` without ACS, or if they could not be read.
    acs: Option<Acs>,
    pcie_link: Option<&'a Link>,
}

impl Bridge<'_> {
    pub(super) fn kind(&self) -> &'static str {
        match self.port_type {
            Some(PortType::RootPort) => "root port",
            Some(PortType::Upstream) => "switch, upstream",
            Some(PortType::Downstream) => "switch, downstream",
            _ => "-",
        }
    }

    pub(super) fn acs_in_words(&self) -> &'static str {
        match (self.acs_redirects, self.acs) {
            (None, _) => "unread",
            (Some(true), _) => "redirects",
            (Some(false), Some(_)) => "off",
            (Some(false), None) => "none",
        }
    }
}

/// The bridges above functions, in order of address.
pub(super) fn bridges<'a>(
    node: &'a Node,
    functions: impl IntoIterator<Item = &'a Function<'a>>,
) -> Vec<Bridge<'a>> {
    let addresses: BTreeSet<&str> = functions
        .into_iter()
        .flat_map(|function| function.bridges())
        .map(String::as_str)
        .collect();
    let known = node.pci.functions.known();
    let bridge = |address: &'a str| {
        let pci = known.and_then(|known| known.get(address));
        let capabilities = pci.and_then(|pci| pci.capabilities.known());
        let complete = capabilities.filter(|capabilities| capabilities.complete);
        let acs = complete.and_then(|capabilities| capabilities.acs);
        Bridge {
            address,
            port_type: capabilities.and_then(|capabilities| capabilities.port_type),
            numa_node: pci.and_then(|pci| pci.numa_node.known().copied()),
            acs_redirects: complete.map(|_| acs.is_some_and(Acs::redirects)),
            acs,
            pcie_link: pci.map(|pci| &pci.link),
        }
    };
    addresses.into_iter().map(bridge).collect()
}

/// A function with what is known about it.
#[derive(Serialize)]
struct Detailed<'a> {
    #[serde(flatten)]
    function: &'a Function<'a>,
    /// `H100`.
    model: Option<&'static str>,
    numa_node: Option<u32>,
    /// Addresses of the bridges above it, from the root port down.
    bridges: &'a [String],
    /// For a virtual function, the address of its physical function.
    physical_function: Option<&'a str>,
    /// The ports of its RDMA devices; empty for a GPU.
    ports: Vec<Port<'a>>,
    netdevs: Vec<&'a str>,
    pcie_link: Option<&'a Link>,
}

impl<'a> Detailed<'a> {
    fn new(node: &'a Node, function: &'a Function<'a>) -> Self {
        let ports = ports(node, function);
        Self {
            function,
            model: function.pci.and_then(model::of),
            numa_node: function.numa_node(),
            bridges: function.bridges(),
            physical_function: function.physical_function(),
            netdevs: netdevs(&ports),
            ports,
            pcie_link: function.pci.map(|pci| &pci.link),
        }
    }
}

/// Writes the topology as one JSON object and a line end.
///
/// # Errors
/// If writing fails.
pub fn json(out: &mut impl Write, node: &Node) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Form<'a> {
        schema: u32,
        /// Why PCI functions could not be read; `None` if they could.
        unread: Option<String>,
        gpus: Vec<Gpu<'a>>,
        nics: Vec<Detailed<'a>>,
        /// Their paths are those of their physical functions, which are among the NICs.
        virtual_functions: Vec<Detailed<'a>>,
        /// PCIe root ports and ports of switches above them.
        bridges: Vec<Bridge<'a>>,
        /// Distances between all GPUs and NICs.
        distances: Vec<Pair<'a>>,
    }
    #[derive(Serialize)]
    struct Gpu<'a> {
        /// `GPU0`, as the text calls it.
        name: String,
        function: Detailed<'a>,
        paths: &'a [Path<'a>],
        best_nic: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct Pair<'a> {
        from: &'a str,
        to: &'a str,
        distance: Option<Distance>,
    }
    let (topology, virtual_functions) = node.visible_topology();
    let of_gpus = topology.gpus.iter().map(|gpu| &gpu.function);
    let functions: Vec<_> = of_gpus.chain(&topology.nics).collect();
    let pairs = functions.iter().enumerate().flat_map(|(n, from)| {
        let later = functions.iter().skip(n + 1);
        later.map(|to| Pair {
            from: from.address,
            to: to.address,
            distance: distance(from, to),
        })
    });
    let gpus = topology.gpus.iter().enumerate().map(|(n, gpu)| Gpu {
        name: format!("GPU{n}"),
        function: Detailed::new(node, &gpu.function),
        paths: &gpu.paths,
        best_nic: gpu.best_nic,
    });
    let form = Form {
        schema: SCHEMA,
        unread: node.pci.functions.unread().map(ToString::to_string),
        gpus: gpus.collect(),
        nics: topology.nics.iter().map(|nic| Detailed::new(node, nic)).collect(),
        virtual_functions: virtual_functions
            .iter()
            .map(|one| Detailed::new(node, one))
            .collect(),
        bridges: bridges(node, functions.iter().copied().chain(&virtual_functions)),
        distances: pairs.collect(),
    };
    Ok(rdma_health_node::words::write_json(out, &form)?)
}
