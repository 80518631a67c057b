//! The PCIe paths between GPUs and NICs, as a matrix in the layout of `nvidia-smi topo -m`, as JSON and as a drawing.

mod drawing;

use std::io::Write;

use rdma_health_node::{
    Function, Node,
    iommu::DomainType,
    model,
    topology::{Distance, Path, Topology, distance},
};
use serde::Serialize;

use super::table;
pub(super) use drawing::drawn;
pub use drawing::svg;

/// Version of the JSON format. New fields do not change it.
const SCHEMA: u32 = 1;

const DASH: &str = "-";

/// One GPU or NIC.
struct End<'a> {
    /// `GPU0`, or the name of the RDMA device.
    name: String,
    function: &'a Function<'a>,
    /// The states of its ports; empty for a GPU.
    link: String,
    /// For a GPU, the name of its best NIC.
    best: Option<&'a str>,
}

/// The GPUs, then the NICs, each in order of address.
fn ends<'a>(node: &Node, topology: &'a Topology<'a>) -> Vec<End<'a>> {
    let nic_at = |address: &str| topology.nics.iter().find(|nic| nic.address == address);
    let gpus = topology.gpus.iter().enumerate().map(|(n, gpu)| End {
        name: format!("GPU{n}"),
        function: &gpu.function,
        link: String::new(),
        best: gpu.best_nic.and_then(nic_at).map(Function::subject),
    });
    let nics = topology.nics.iter().map(|nic| End {
        name: nic.names.join(","),
        function: nic,
        link: link(node, nic),
        best: None,
    });
    gpus.chain(nics).collect()
}

/// The state of each port of a NIC.
fn link(node: &Node, nic: &Function<'_>) -> String {
    let ports = node
        .ports()
        .filter(|port| nic.names.contains(&port.hca.name.as_str()));
    let states: Vec<_> = ports
        .map(|port| {
            port.state
                .known()
                .map_or("unread", |state| state.name.as_str())
                .to_owned()
        })
        .collect();
    states.join(",")
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { DASH } else { text }.to_owned()
}

/// Writes the matrix, the address and model of each GPU and NIC, and what slows or blocks their paths.
///
/// # Errors
/// If writing fails.
pub fn text(out: &mut impl Write, node: &Node) -> std::io::Result<()> {
    if let Some(unread) = node.pci.functions.unread() {
        return writeln!(out, "PCI functions could not be read: {unread}");
    }
    let topology = node.topology();
    let ends = ends(node, &topology);
    if ends.is_empty() {
        return writeln!(out, "No GPUs and no RDMA adapters.");
    }
    matrix(out, &ends)?;
    disturbances(out, &ends, &topology)?;
    legend(out)
}

fn matrix(out: &mut impl Write, ends: &[End<'_>]) -> std::io::Result<()> {
    let names = ends.iter().map(|end| end.name.clone());
    let facts = ["NUMA", "IOMMU", "LINK", "BEST NIC", "PCI", "MODEL"].map(str::to_owned);
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
            function.numa_node().map_or(DASH.into(), |node| node.to_string()),
            function.dma.map_or(DASH, DomainType::as_str).to_owned(),
            or_dash(&end.link),
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

/// Writes the topology as one JSON object and a line end.
///
/// # Errors
/// If writing fails.
pub fn json(out: &mut impl Write, node: &Node) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Form<'a> {
        schema: u32,
        #[serde(flatten)]
        topology: &'a Topology<'a>,
        /// Distances between all GPUs and NICs.
        distances: Vec<Pair<'a>>,
    }
    #[derive(Serialize)]
    struct Pair<'a> {
        from: &'a str,
        to: &'a str,
        distance: Option<Distance>,
    }
    let topology = node.topology();
    let functions: Vec<_> = topology
        .gpus
        .iter()
        .map(|gpu| &gpu.function)
        .chain(&topology.nics)
        .collect();
    let pairs = functions.iter().enumerate().flat_map(|(n, from)| {
        let later = functions.iter().skip(n + 1);
        later.map(|to| Pair {
            from: from.address,
            to: to.address,
            distance: distance(from, to),
        })
    });
    let form = Form {
        schema: SCHEMA,
        topology: &topology,
        distances: pairs.collect(),
    };
    Ok(rdma_health_node::words::write_json(out, &form)?)
}
