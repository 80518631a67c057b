//! The PCIe paths between GPUs and NICs, as a matrix in the layout of `nvidia-smi topo -m`, as JSON and as a drawing.

mod details;
mod drawing;

use std::{collections::BTreeMap, io::Write};

use rdma_health_node::{
    Function, Node,
    iommu::DomainType,
    model,
    topology::{Distance, Path, Topology, distance},
};

use super::table;
pub use details::json;
use details::{Bridge, bridges, netdevs, ports};
pub(super) use drawing::drawn;
pub use drawing::svg;

const DASH: &str = "-";

/// One GPU or NIC.
struct End<'a> {
    /// `GPU0`, or the name of the RDMA device.
    name: String,
    function: &'a Function<'a>,
    /// The states of its ports; empty for a GPU.
    link: String,
    /// The network devices of its ports.
    netdevs: Vec<&'a str>,
    /// For a GPU, the name of its best NIC.
    best: Option<&'a str>,
    /// For a NIC, its number among those that serve the GPUs.
    rail: Option<usize>,
}

impl<'a> End<'a> {
    fn nic(node: &'a Node, function: &'a Function<'a>, rails: &BTreeMap<&str, usize>) -> Self {
        let ports = ports(node, function);
        let states = ports
            .iter()
            .map(|port| port.state.known().copied().unwrap_or("unread"));
        Self {
            name: function.names.join(","),
            function,
            link: states.collect::<Vec<_>>().join(","),
            netdevs: netdevs(&ports),
            best: None,
            rail: rails.get(function.address).copied(),
        }
    }
}

/// The GPUs, then the NICs, each in order of address.
fn ends<'a>(node: &'a Node, topology: &'a Topology<'a>) -> Vec<End<'a>> {
    let nic_at = |address: &str| topology.nics.iter().find(|nic| nic.address == address);
    let gpus = topology.gpus.iter().enumerate().map(|(n, gpu)| End {
        name: format!("GPU{n}"),
        function: &gpu.function,
        link: String::new(),
        netdevs: Vec::new(),
        best: gpu.best_nic.and_then(nic_at).map(Function::subject),
        rail: None,
    });
    let rails = node.rails();
    let nics = topology.nics.iter().map(|nic| End::nic(node, nic, &rails));
    gpus.chain(nics).collect()
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { DASH } else { text }.to_owned()
}

/// Writes the matrix, the address and model of each GPU and NIC, the virtual functions, the bridges, and what slows or blocks paths.
///
/// # Errors
/// If writing fails.
pub fn text(out: &mut impl Write, node: &Node) -> std::io::Result<()> {
    if let Some(unread) = node.pci.functions.unread() {
        return writeln!(out, "PCI functions could not be read: {unread}");
    }
    let (topology, virtual_functions) = node.visible_topology();
    let ends = ends(node, &topology);
    if ends.is_empty() {
        return writeln!(out, "No GPUs and no RDMA adapters.");
    }
    matrix(out, &ends)?;
    list_virtual_functions(out, node, &virtual_functions)?;
    list_bridges(out, node, &ends)?;
    disturbances(out, &ends, &topology)?;
    legend(out)
}

/// The virtual functions, whose paths are those of their physical functions.
fn list_virtual_functions(out: &mut impl Write, node: &Node, all: &[Function<'_>]) -> std::io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nVirtual functions. Their paths are those of the physical function:"
    )?;
    let head = ["DEVICE", "OF", "NUMA", "IOMMU", "LINK", "NETDEV", "PCI"].map(str::to_owned);
    let rails = node.rails();
    let row = |function: &Function<'_>| {
        let end = End::nic(node, function, &rails);
        let physical = function.physical_function().unwrap_or(DASH);
        vec![
            or_dash(&end.name),
            node.name_of_function(physical).to_owned(),
            numa(function),
            iommu(function),
            or_dash(&end.link),
            or_dash(&end.netdevs.join(",")),
            function.address.to_owned(),
        ]
    };
    table::write(out, &head, &all.iter().map(row).collect::<Vec<_>>())
}

/// The bridges that several GPUs and NICs share, and those that send peer-to-peer traffic a detour.
fn list_bridges(out: &mut impl Write, node: &Node, ends: &[End<'_>]) -> std::io::Result<()> {
    let below = |bridge: &Bridge<'_>| -> Vec<&str> {
        let ends = ends.iter();
        let below = ends.filter(|end| end.function.bridges().iter().any(|one| one == bridge.address));
        below.map(|end| end.name.as_str()).collect()
    };
    let all = bridges(node, ends.iter().map(|end| end.function));
    let shown = all.iter().map(|bridge| (bridge, below(bridge)));
    let rows: Vec<Vec<String>> = shown
        .filter(|(bridge, below)| below.len() > 1 || bridge.acs_redirects == Some(true))
        .map(|(bridge, below)| {
            vec![
                bridge.address.to_owned(),
                bridge.kind().to_owned(),
                bridge.numa_node.map_or(DASH.into(), |node| node.to_string()),
                bridge.acs_in_words().to_owned(),
                below.join(", "),
            ]
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nPCIe bridges that several share, or whose ACS redirects peer-to-peer traffic:"
    )?;
    let head = ["BRIDGE", "TYPE", "NUMA", "ACS", "BELOW"].map(str::to_owned);
    table::write(out, &head, &rows)
}

fn numa(function: &Function<'_>) -> String {
    function.numa_node().map_or(DASH.into(), |node| node.to_string())
}

fn iommu(function: &Function<'_>) -> String {
    function.dma.map_or(DASH, DomainType::as_str).to_owned()
}

fn matrix(out: &mut impl Write, ends: &[End<'_>]) -> std::io::Result<()> {
    let names = ends.iter().map(|end| end.name.clone());
    let facts = ["NUMA", "IOMMU", "LINK", "NETDEV", "BEST NIC", "PCI", "MODEL"].map(str::to_owned);
    let head: Vec<_> = std::iter::once(String::new()).chain(names).chain(facts).collect();
    let row = |end: &End<'_>| {
        let distances = ends.iter().map(|other| {
            if other.function.address == end.function.address {
                return "X".to_owned();
            }
            distance(end.function, other.function)
                .map_or("?", Distance::name)
                .to_owned()
        });
        let function = end.function;
        let facts = [
            numa(function),
            iommu(function),
            or_dash(&end.link),
            or_dash(&end.netdevs.join(",")),
            end.best.unwrap_or(DASH).to_owned(),
            function.address.to_owned(),
            function.pci.and_then(model::of).unwrap_or(DASH).to_owned(),
        ];
        std::iter::once(end.name.clone())
            .chain(distances)
            .chain(facts)
            .collect()
    };
    let rows: Vec<Vec<String>> = ends.iter().map(row).collect();
    table::write(out, &head, &rows)
}

/// What slows or breaks peer-to-peer traffic from each GPU to its best NIC.
fn disturbances(out: &mut impl Write, ends: &[End<'_>], topology: &Topology<'_>) -> std::io::Result<()> {
    let mut lines = Vec::new();
    for (end, gpu) in ends.iter().zip(&topology.gpus) {
        let path = gpu.paths.iter().find(|path| Some(path.nic) == gpu.best_nic);
        if let (Some(path), Some(nic)) = (path, end.best) {
            lines.extend(disturbance(path).map(|what| format!("{} to {nic}: {what}", end.name)));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    lines
        .iter()
        .try_for_each(|line| writeln!(out, "{}", rdma_health_node::words::printable(line)))
}

fn disturbance(path: &Path<'_>) -> Option<String> {
    let mut found = Vec::new();
    if !path.acs_redirect.is_empty() {
        found.push(format!(
            "ACS redirects peer-to-peer traffic at {}",
            path.acs_redirect.join(", ")
        ));
    } else if !path.acs_known {
        found.push("ACS could not be read".to_owned());
    }
    if path.translated {
        found.push("the IOMMU translates".to_owned());
    }
    (!found.is_empty()).then(|| found.join("; "))
}

fn legend(out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out)?;
    for distance in Distance::ALL {
        writeln!(out, "{:<4}  {}", distance.name(), distance.meaning())?;
    }
    writeln!(
        out,
        "?     not known: the firmware does not report both NUMA nodes"
    )
}
