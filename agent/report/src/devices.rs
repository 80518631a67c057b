//! Every port of the RDMA devices, one line for each.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    net::Ipv6Addr,
};

use rdma_health_node::{
    Fact, Function, Node, Port,
    infiniband::{Hca, LinkLayer, Netdev},
    iommu::DomainType,
    lldp::Neighbour,
    pods::{Allocation, Container, SharedUse},
    words::{count, gigabits, listed, numbered, printable, write_json},
};
use rdma_health_protocol::GidType;
use serde::Serialize;

use super::table;

/// Version of the JSON format. New fields do not change it.
const SCHEMA: u32 = 1;

/// The content of a cell whose fact could not be read, and of one that does not apply.
const UNREAD: &str = "unread";
const DASH: &str = "-";
/// The state of a device without ports, or whose ports could not be listed.
pub(super) const NO_PORTS: &str = "no ports";
/// The most lines about devices that are not in the table.
const MAX_ELSEWHERE: usize = 64;

/// One port, with the facts of its device and of its PCI function; or a device without ports.
#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    /// The port; `None` for a device without ports.
    #[serde(skip)]
    pub(super) of: Option<Port<'a>>,
    pub(super) device: &'a str,
    pub(super) port: Option<u8>,
    pub(super) pci_address: &'a Fact<String>,
    pub(super) netdev: Option<&'a str>,
    /// `ConnectX-7`.
    pub(super) model: Option<&'static str>,
    pub(super) firmware: &'a Fact<String>,
    pub(super) driver: &'a Fact<String>,
    pub(super) link_layer: &'a Fact<LinkLayer>,
    /// `ACTIVE`.
    pub(super) state: Fact<&'a str>,
    /// Bits per second.
    pub(super) rate: Fact<u64>,
    /// Path MTU of RDMA in bytes, from libibverbs.
    pub(super) active_mtu: Option<u32>,
    /// MTU of the network device in bytes.
    pub(super) netdev_mtu: Option<u32>,
    /// The GID that a connection should use; `None` on InfiniBand and if there is none.
    pub(super) gid: Option<Chosen>,
    pub(super) numa_node: &'a Fact<u32>,
    /// Its number among the adapters that serve the GPUs, from 0; `None` for others.
    pub(super) rail: Option<usize>,
    /// The switch port that it is connected to, if a daemon saves LLDP announcements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) neighbour: Option<&'a Neighbour>,
    /// The type of the IOMMU group; `None` without an IOMMU.
    pub(super) iommu: Option<&'a str>,
    /// For a virtual function, the PCI address of the physical function.
    pub(super) physical_function: &'a Fact<String>,
    /// Number of virtual functions of a physical function.
    pub(super) virtual_functions: Option<usize>,
    /// The containers that were given the device; empty if the kubelet reports none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) containers: Vec<Container<'a>>,
}

/// A GID and its index.
#[derive(Debug, Serialize)]
pub(super) struct Chosen {
    pub(super) index: u32,
    gid: Ipv6Addr,
    kind: GidType,
}

impl Chosen {
    /// `3: 10.0.2.2`, with what limits its use: `1: fe80::1 (link-local)`, `0: 10.0.2.2 (RoCE v1)`.
    pub(super) fn words(&self) -> String {
        let limit = match self.kind {
            GidType::RoceV2 if self.gid.is_unicast_link_local() => " (link-local)",
            GidType::RoceV1 => " (RoCE v1)",
            GidType::RoceV2 | GidType::Ib => "",
        };
        format!("{}: {}{limit}", self.index, address(self.gid))
    }
}

impl<'a> Row<'a> {
    fn new(
        node: &'a Node,
        hca: &'a Hca,
        port: Option<Port<'a>>,
        functions: &[Function<'a>],
        rails: &BTreeMap<&str, usize>,
        allocations: &[Allocation<'a>],
    ) -> Self {
        let kernel = port.map(|port| port.kernel);
        let address = hca.pci_address.known();
        let function =
            address.and_then(|address| functions.iter().find(|one| one.address == address.as_str()));
        let netdev = kernel.and_then(|port| port.netdev.known());
        let sriov = function.and_then(|function| function.pci?.sriov.known());
        Self {
            of: port,
            device: &hca.name,
            port: port.map(|port| port.number),
            pci_address: &hca.pci_address,
            netdev: netdev.map(|netdev| netdev.name.as_str()),
            model: node.model(hca),
            firmware: &hca.firmware,
            driver: &hca.driver,
            link_layer: kernel.map_or(&Fact::Absent, |port| &port.link_layer),
            state: kernel.map_or(Fact::Absent, |port| {
                port.state.as_ref().map(|state| state.name.as_str())
            }),
            rate: kernel.map_or(Fact::Absent, |port| {
                port.rate.as_ref().map(|rate| rate.bits_per_second)
            }),
            active_mtu: port
                .and_then(|port| port.verbs)
                .map(|port| port.active_mtu)
                .filter(|mtu| *mtu > 0),
            netdev_mtu: netdev.and_then(|netdev: &Netdev| netdev.mtu.known().copied()),
            gid: port.and_then(|port| port.best_gid()).map(|gid| Chosen {
                index: gid.index,
                gid: gid.gid,
                kind: gid.kind,
            }),
            numa_node: &hca.numa_node,
            rail: node
                .link_of(hca)
                .and_then(|(address, _)| rails.get(address).copied()),
            neighbour: kernel.and_then(|port| node.lldp_neighbour(port)),
            iommu: function.and_then(|function| function.dma.map(DomainType::as_str)),
            physical_function: &hca.physical_function,
            virtual_functions: sriov
                .map(|sriov| sriov.functions.len())
                .filter(|number| *number > 0),
            containers: allocations
                .iter()
                .filter(|one| address.is_some_and(|address| one.address == address))
                .map(|one| one.container)
                .collect(),
        }
    }

    fn cells(&self) -> Vec<String> {
        let mtu =
            [self.active_mtu, self.netdev_mtu].map(|mtu| mtu.map_or(DASH.into(), |mtu| mtu.to_string()));
        let function = match (self.physical_function, self.virtual_functions) {
            (Fact::Absent, Some(number)) => format!("PF, {}", count(number, "VF")),
            (physical, _) => cell(physical, |physical| format!("VF of {physical}")),
        };
        vec![
            self.device.to_owned(),
            self.port.map_or(DASH.into(), |port| port.to_string()),
            cell(self.pci_address, Clone::clone),
            self.netdev.unwrap_or(DASH).to_owned(),
            self.model.unwrap_or(DASH).to_owned(),
            cell(self.firmware, Clone::clone),
            match self.port {
                Some(_) => cell(&self.state, ToString::to_string),
                None => NO_PORTS.into(),
            },
            cell(&self.rate, |rate| gigabits(*rate)),
            mtu.join("/"),
            self.gid.as_ref().map_or(DASH.into(), Chosen::words),
            cell(self.numa_node, ToString::to_string),
            self.iommu.unwrap_or(DASH).to_owned(),
            function,
            self.neighbour.map_or(DASH.into(), switch_port),
            self.pods(),
        ]
    }

    /// `ml/train-0`, each pod once.
    fn pods(&self) -> String {
        let mut pods: Vec<_> = self
            .containers
            .iter()
            .map(|one| format!("{}/{}", one.namespace, one.pod))
            .collect();
        pods.dedup();
        if pods.is_empty() {
            return DASH.into();
        }
        listed(pods.iter().map(String::as_str))
    }
}

/// The text of a fact, or that it could not be read, or that it does not apply.
fn cell<T>(fact: &Fact<T>, text: impl Fn(&T) -> String) -> String {
    match fact {
        Fact::Known(value) => text(value),
        Fact::Absent => DASH.into(),
        Fact::Unread { .. } => UNREAD.into(),
    }
}

/// `leaf-3 Ethernet12/1`, in brackets if it is no longer announced.
fn switch_port(neighbour: &Neighbour) -> String {
    let others = match neighbour.others {
        0 => String::new(),
        others => format!(" +{others}"),
    };
    let words = format!("{} {}{others}", neighbour.switch, neighbour.port);
    if neighbour.is_past {
        format!("({words})")
    } else {
        words
    }
}

/// A GID as its users know it: the IPv4 address where it is mapped from one.
fn address(gid: Ipv6Addr) -> String {
    gid.to_ipv4_mapped()
        .map_or_else(|| gid.to_string(), |address| address.to_string())
}

/// One row for each port and for each device without ports, in order of device and number.
pub(super) fn rows(node: &Node) -> Vec<Row<'_>> {
    let functions = node.functions();
    let rails = node.rails();
    let allocations = node.allocations();
    let mut hcas: Vec<&Hca> = node.hcas().map(|hca| &**hca).collect();
    hcas.sort_by_key(|hca| numbered(&hca.name));
    hcas.into_iter()
        .flat_map(|hca| {
            let mut ports: Vec<_> = node.ports_of(hca).map(Some).collect();
            if ports.is_empty() {
                ports.push(None);
            }
            ports.into_iter().map(move |port| (hca, port))
        })
        .map(|(hca, port)| Row::new(node, hca, port, &functions, &rails, &allocations))
        .collect()
}

/// Writes the ports as a table, or why there is none.
///
/// # Errors
/// If writing fails.
pub fn text(out: &mut impl Write, node: &Node) -> std::io::Result<()> {
    let rows = rows(node);
    let has_pods = rows.iter().any(|row| !row.containers.is_empty());
    let has_switches = rows.iter().any(|row| row.neighbour.is_some());
    let mut rows: Vec<_> = rows.iter().map(Row::cells).collect();
    if rows.is_empty() {
        return match node.hcas.unread() {
            Some(unread) => writeln!(out, "RDMA devices could not be read: {unread}"),
            None => writeln!(out, "No RDMA devices."),
        };
    }
    let head = [
        "DEVICE", "PORT", "PCI", "NETDEV", "MODEL", "FIRMWARE", "STATE", "RATE", "MTU", "GID", "NUMA",
        "IOMMU", "FUNCTION", "SWITCH", "POD",
    ];
    let mut head = head.map(str::to_owned).to_vec();
    // Columns of dashes: unless a kubelet gave a device to a pod, and unless a daemon saves neighbours.
    for (column, is_used) in [(head.len() - 1, has_pods), (head.len() - 2, has_switches)] {
        if !is_used {
            head.remove(column);
            for row in &mut rows {
                row.remove(column);
            }
        }
    }
    table::write(out, &head, &rows)?;
    elsewhere(out, node)
}

/// The pods with a device that is in no row: one in their own network namespace, and one of a shared resource.
fn elsewhere(out: &mut impl Write, node: &Node) -> std::io::Result<()> {
    let shown: BTreeSet<&str> = node
        .hcas()
        .filter_map(|hca| hca.pci_address.known().map(String::as_str))
        .collect();
    let allocations = node.allocations();
    let mut lines: Vec<String> = allocations
        .iter()
        .filter(|one| !shown.contains(one.address))
        .map(|one| {
            let Container { namespace, pod, .. } = one.container;
            format!("{} ({}): {namespace}/{pod}", one.address, one.resource)
        })
        .collect();
    let shared = node.shared_uses();
    lines.extend(shared.iter().map(|one| {
        let Container { namespace, pod, .. } = one.container;
        format!("any device of {}: {namespace}/{pod}", one.resource)
    }));
    lines.dedup();
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nDevices of pods that this list does not show:")?;
    let hidden = lines.len().saturating_sub(MAX_ELSEWHERE);
    for line in lines.iter().take(MAX_ELSEWHERE) {
        writeln!(out, "  {}", printable(line))?;
    }
    if hidden > 0 {
        writeln!(out, "  and {hidden} more")?;
    }
    Ok(())
}

/// Writes the ports as one JSON object and a line end.
///
/// # Errors
/// If writing fails.
pub fn json(out: &mut impl Write, node: &Node) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Form<'a> {
        schema: u32,
        /// `unread` if the list of devices could not be read.
        devices: Fact<Vec<Row<'a>>>,
        /// The containers that may use any device of a shared resource.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        shared: Vec<SharedUse<'a>>,
    }
    let form = Form {
        schema: SCHEMA,
        devices: node.hcas.as_ref().map(|_| rows(node)),
        shared: node.shared_uses(),
    };
    Ok(write_json(out, &form)?)
}
