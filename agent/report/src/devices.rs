//! Every port of the RDMA devices, one line for each.

use std::{io::Write, net::Ipv6Addr};

use rdma_health_node::{
    Fact, Function, Node, Port,
    infiniband::{LinkLayer, Netdev},
    iommu::DomainType,
    words::{count, gigabits, numbered},
};
use serde::Serialize;

use super::table;

/// Version of the JSON format. New fields do not change it.
const SCHEMA: u32 = 1;

/// The content of a cell whose fact could not be read, and of one that does not apply.
const UNREAD: &str = "unread";
const DASH: &str = "-";

/// One port, with the facts of its device and of its PCI function.
#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    pub(super) device: &'a str,
    pub(super) port: u8,
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
    /// The type of the IOMMU group; `None` without an IOMMU.
    pub(super) iommu: Option<&'a str>,
    /// For a virtual function, the PCI address of the physical function.
    pub(super) physical_function: &'a Fact<String>,
    /// Number of virtual functions of a physical function.
    pub(super) virtual_functions: Option<usize>,
}

/// A GID and its index.
#[derive(Debug, Serialize)]
pub(super) struct Chosen {
    index: u32,
    gid: Ipv6Addr,
    /// `RoCE v2`.
    kind: &'static str,
}

impl Chosen {
    /// `3: 10.0.2.2`.
    pub(super) fn words(&self) -> String {
        format!("{}: {}", self.index, address(self.gid))
    }
}

impl<'a> Row<'a> {
    fn new(node: &'a Node, port: &Port<'a>, functions: &[Function<'a>]) -> Self {
        let Port { hca, kernel, .. } = *port;
        let address = hca.pci_address.known();
        let function =
            address.and_then(|address| functions.iter().find(|one| one.address == address.as_str()));
        let netdev = kernel.netdev.known();
        let sriov = function.and_then(|function| function.pci?.sriov.known());
        Self {
            device: &hca.name,
            port: port.number,
            pci_address: &hca.pci_address,
            netdev: netdev.map(|netdev| netdev.name.as_str()),
            model: node.model(hca),
            firmware: &hca.firmware,
            driver: &hca.driver,
            link_layer: &kernel.link_layer,
            state: kernel.state.as_ref().map(|state| state.name.as_str()),
            rate: kernel.rate.as_ref().map(|rate| rate.bits_per_second),
            active_mtu: port.verbs.map(|port| port.active_mtu).filter(|mtu| *mtu > 0),
            netdev_mtu: netdev.and_then(|netdev: &Netdev| netdev.mtu.known().copied()),
            gid: port.best_gid().map(|gid| Chosen {
                index: gid.index,
                gid: gid.gid,
                kind: gid.kind.name(),
            }),
            numa_node: &hca.numa_node,
            iommu: function.and_then(|function| function.dma.map(DomainType::as_str)),
            physical_function: &hca.physical_function,
            virtual_functions: sriov
                .map(|sriov| sriov.functions.len())
                .filter(|number| *number > 0),
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
            self.port.to_string(),
            cell(self.pci_address, Clone::clone),
            self.netdev.unwrap_or(DASH).to_owned(),
            self.model.unwrap_or(DASH).to_owned(),
            cell(self.firmware, Clone::clone),
            cell(&self.state, ToString::to_string),
            cell(&self.rate, |rate| gigabits(*rate)),
            mtu.join("/"),
            self.gid.as_ref().map_or(DASH.into(), Chosen::words),
            cell(self.numa_node, ToString::to_string),
            self.iommu.unwrap_or(DASH).to_owned(),
            function,
        ]
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

/// A GID as its users know it: the IPv4 address where it is mapped from one.
fn address(gid: Ipv6Addr) -> String {
    gid.to_ipv4_mapped()
        .map_or_else(|| gid.to_string(), |address| address.to_string())
}

/// One row for each port, in order of device and number.
pub(super) fn rows(node: &Node) -> Vec<Row<'_>> {
    let functions = node.functions();
    let mut ports: Vec<_> = node.ports().collect();
    ports.sort_by_key(|port| (numbered(&port.hca.name), port.number));
    ports
        .iter()
        .map(|port| Row::new(node, port, &functions))
        .collect()
}

/// Writes the ports as a table, or why there is none.
///
/// # Errors
/// If writing fails.
pub fn text(out: &mut impl Write, node: &Node) -> std::io::Result<()> {
    let rows: Vec<_> = rows(node).iter().map(Row::cells).collect();
    if rows.is_empty() {
        return match node.hcas.unread() {
            Some(unread) => writeln!(out, "RDMA devices could not be read: {unread}"),
            None => writeln!(out, "No RDMA devices."),
        };
    }
    let head = [
        "DEVICE", "PORT", "PCI", "NETDEV", "MODEL", "FIRMWARE", "STATE", "RATE", "MTU", "GID", "NUMA",
        "IOMMU", "FUNCTION",
    ];
    table::write(out, &head.map(str::to_owned), &rows)
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
    }
    let form = Form {
        schema: SCHEMA,
        devices: node.hcas.as_ref().map(|_| rows(node)),
    };
    serde_json::to_writer_pretty(&mut *out, &form)?;
    writeln!(out)?;
    Ok(())
}
