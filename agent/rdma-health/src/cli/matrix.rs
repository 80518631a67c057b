//! `rdma-health probe --matrix`: each port with the memory of each NUMA node.

use std::{io::Write, process::ExitCode};

use anyhow::Context;
use rdma_health_config::Config;
use rdma_health_helper::Helper;
use rdma_health_kernel::{Fact, Root, numa, root::Scope};
use rdma_health_node::{
    Node,
    failure::in_words,
    words::{bandwidth, printable, write_json},
};
use rdma_health_protocol::{ProbeFailure, ProbeReport};
use rdma_health_report::{self as report, table};
use rdma_health_rules::Severity;
use serde::Serialize;

use super::{
    Output, UNKNOWN,
    gather::progress,
    probe::{Arguments, SOFTWARE},
};
use crate::helper::{probe_request, rate_of};

/// Version of the JSON format. New fields do not change it.
const SCHEMA: u32 = 1;
/// A bandwidth below this share of another one is slow.
const SHARE: f64 = 0.9;

/// The whole result.
#[derive(Debug, Serialize)]
struct Matrix {
    schema: u32,
    /// The NUMA nodes with memory.
    memory_nodes: Vec<u32>,
    ports: Vec<Row>,
}

/// One port.
#[derive(Debug, Clone, Serialize)]
struct Row {
    device: String,
    port: u8,
    /// The NUMA node of the device; `None` if the firmware reports none.
    numa_node: Option<u32>,
    cells: Vec<Cell>,
    /// What is slow, in words.
    findings: Vec<String>,
    /// Why nothing is said about its speed.
    unjudged_because: Option<&'static str>,
    /// Whether its speed is that of an adapter, which can be judged.
    #[serde(skip)]
    is_hardware: bool,
    /// Those of its equal ports.
    #[serde(skip)]
    equals: Vec<(String, u8)>,
}

/// One port with the memory of one NUMA node.
#[derive(Debug, Clone, Serialize)]
struct Cell {
    memory_node: u32,
    bytes_per_second: Option<f64>,
    failure: Option<ProbeFailure>,
}

/// Measures every target with the memory of every node.
pub(super) async fn run(
    arguments: &Arguments,
    config: &Config,
    helper: &Helper,
    targets: &[(String, u8)],
    node: &Node,
) -> anyhow::Result<ExitCode> {
    let memory_nodes = memory_nodes(arguments)?;
    let mut ports = Vec::new();
    for (device, port) in targets {
        let mut row = row(node, device, *port);
        for memory_node in &memory_nodes {
            progress(&format!(
                "probing {device}:{port} with the memory of node {memory_node}"
            ));
            let mut request = probe_request(&config.probe, device, *port, rate_of(node, device, *port));
            arguments.sizes.apply(&mut request);
            request.gid_index = arguments.gid_index;
            request.even_if_busy |= arguments.force;
            request.latency_samples = 0;
            request.memory_node = Some(*memory_node);
            let report = helper.probe(request).await;
            progress("");
            let report = report?;
            row.numa_node = row.numa_node.or(report.numa_node);
            row.cells.push(cell(*memory_node, report));
        }
        ports.push(row);
    }
    judge(&mut ports);
    let matrix = Matrix {
        schema: SCHEMA,
        memory_nodes,
        ports,
    };
    let mut out = super::output::stdout();
    match arguments.output {
        Output::Text => text(&mut out, &matrix)?,
        Output::Json => write_json(&mut out, &matrix)?,
    }
    Ok(ExitCode::from(exit_code(&matrix.ports)))
}

fn memory_nodes(arguments: &Arguments) -> anyhow::Result<Vec<u32>> {
    let root = &arguments.root;
    let opened =
        Root::open(root).with_context(|| format!("cannot read the root directory {}", root.display()))?;
    match numa::memory_nodes(&Scope::new(&opened)) {
        Fact::Known(nodes) if !nodes.is_empty() => Ok(nodes),
        Fact::Known(_) | Fact::Absent => anyhow::bail!("this kernel reports no NUMA node with memory"),
        Fact::Unread { unread } => anyhow::bail!("the NUMA nodes cannot be read: {unread}"),
    }
}

fn row(node: &Node, device: &str, number: u8) -> Row {
    let port = node.port(device, number);
    let key = |port: &rdma_health_node::Port<'_>| (port.hca.name.clone(), port.number);
    let own = (device.to_owned(), number);
    let groups = node.peers();
    let equals = groups
        .iter()
        .map(|peers| peers.ports.iter().map(key).collect::<Vec<_>>());
    let equals = equals
        .into_iter()
        .find(|ports| ports.contains(&own))
        .unwrap_or_default();
    Row {
        device: device.to_owned(),
        port: number,
        numa_node: port.as_ref().and_then(|port| port.hca.numa_node.known().copied()),
        cells: Vec::new(),
        findings: Vec::new(),
        unjudged_because: None,
        is_hardware: port.is_some_and(|port| !port.hca.is_software()),
        equals: equals.into_iter().filter(|other| *other != own).collect(),
    }
}

fn cell(memory_node: u32, report: ProbeReport) -> Cell {
    Cell {
        memory_node,
        bytes_per_second: match report.failure {
            None => report.bandwidth.map(|part| part.bytes_per_second),
            Some(_) => None,
        },
        failure: report.failure,
    }
}

impl Row {
    /// The bandwidth with the memory of the device's own node, and the node.
    fn local(&self) -> Option<(u32, f64)> {
        let own = self.numa_node?;
        let cell = self.cells.iter().find(|cell| cell.memory_node == own)?;
        Some((own, cell.bytes_per_second?))
    }
}

/// Finds paths to local memory that are slower than they should be: than the path to another node, which is longer, or
/// than those of equal ports. A long path is expected to be slower, and is not judged.
fn judge(rows: &mut [Row]) {
    let all: Vec<_> = rows
        .iter()
        .map(|row| ((row.device.clone(), row.port), row.local()))
        .collect();
    for row in rows.iter_mut() {
        if !row.is_hardware {
            row.unjudged_because = Some(SOFTWARE);
            continue;
        }
        let Some((own, local)) = row.local() else {
            row.unjudged_because = Some(if row.numa_node.is_some() {
                "no probe with the memory of its own NUMA node succeeded"
            } else {
                "the firmware reports no NUMA node for the device"
            });
            continue;
        };
        let others = row.cells.iter().filter(|cell| cell.memory_node != own);
        let others = others.filter_map(|cell| Some((cell.memory_node, cell.bytes_per_second?)));
        let best = others.max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((other, best)) = best
            && local < SHARE * best
        {
            row.findings.push(format!(
                "{} with the memory of its own node {own}, {} with that of node {other}",
                bandwidth(local),
                bandwidth(best)
            ));
        }
        let equals = all.iter().filter(|(key, _)| row.equals.contains(key));
        let mut equals: Vec<f64> = equals.filter_map(|(_, local)| Some((*local)?.1)).collect();
        equals.sort_by(f64::total_cmp);
        let is_measured = row.cells.iter().all(|cell| cell.failure.is_none());
        if is_measured && best.is_none() && equals.len() < 2 {
            row.unjudged_because =
                Some("there is neither another NUMA node nor two equal ports to compare it with");
        }
        if equals.len() >= 2
            && let usual = equals[equals.len() / 2]
            && local < SHARE * usual
        {
            row.findings.push(format!(
                "{} with the memory of its own node {own}, median of equal ports {}",
                bandwidth(local),
                bandwidth(usual)
            ));
        }
    }
}

/// As `rdma-health probe` has them: 2 if a measurement failed, 1 if a path is slow, 3 if ports were too busy, otherwise 0.
fn exit_code(rows: &[Row]) -> u8 {
    let cells = || rows.iter().flat_map(|row| &row.cells);
    let is_busy = |failure: &ProbeFailure| matches!(failure, ProbeFailure::Busy { .. });
    let mut failures = cells().filter_map(|cell| cell.failure.as_ref()).peekable();
    let any = failures.peek().is_some();
    if !failures.all(is_busy) {
        2
    } else if rows.iter().any(|row| !row.findings.is_empty()) {
        1
    } else if any {
        UNKNOWN
    } else {
        0
    }
}

/// One line for each port, one column for each node; an asterisk marks the node of the device.
fn text(out: &mut impl Write, matrix: &Matrix) -> std::io::Result<()> {
    let mut head = vec!["PORT".to_owned(), "NUMA".to_owned()];
    head.extend(matrix.memory_nodes.iter().map(|node| format!("MEMORY {node}")));
    let line = |row: &Row| {
        let own = row.numa_node.map_or("-".to_owned(), |node| node.to_string());
        let cells = row.cells.iter().map(|cell| {
            let mark = if Some(cell.memory_node) == row.numa_node {
                " *"
            } else {
                ""
            };
            let value = cell.bytes_per_second.map(bandwidth);
            value.map_or_else(|| "failed".to_owned(), |value| format!("{value}{mark}"))
        });
        [format!("{}:{}", row.device, row.port), own]
            .into_iter()
            .chain(cells)
            .collect()
    };
    let lines: Vec<Vec<String>> = matrix.ports.iter().map(line).collect();
    table::write(out, &head, &lines)?;
    for row in &matrix.ports {
        let port = printable(&format!("{}:{}", row.device, row.port));
        for cell in &row.cells {
            if let Some(failure) = &cell.failure {
                let paint = report::colour(Severity::Critical);
                let words = in_words(failure);
                let node = cell.memory_node;
                writeln!(
                    out,
                    "{paint}failed{paint:#}: {port} with the memory of node {node}: {}",
                    printable(&words)
                )?;
            }
        }
        for finding in &row.findings {
            let paint = report::colour(Severity::Warning);
            writeln!(out, "{paint}slow{paint:#}: {port} has {finding}")?;
        }
        if let Some(why) = row.unjudged_because {
            writeln!(out, "not judged: {port}: {why}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ports of one kind, each with its node and the bandwidth with each node's memory in Gb/s.
    fn rows(all: &[(u32, [f64; 2])]) -> Vec<Row> {
        let keys: Vec<_> = (0..all.len()).map(|n| (format!("mlx5_{n}"), 1)).collect();
        let row = |(n, (node, values)): (usize, &(u32, [f64; 2]))| Row {
            device: format!("mlx5_{n}"),
            port: 1,
            numa_node: Some(*node),
            cells: (0..)
                .zip(values)
                .map(|(node, value)| Cell {
                    memory_node: node,
                    bytes_per_second: (*value > 0.0).then_some(value * 1.25e8),
                    failure: (*value == 0.0).then_some(ProbeFailure::TimedOut),
                })
                .collect(),
            findings: Vec::new(),
            unjudged_because: None,
            is_hardware: true,
            equals: keys.iter().filter(|key| **key != keys[n]).cloned().collect(),
        };
        let mut rows: Vec<_> = all.iter().enumerate().map(row).collect();
        judge(&mut rows);
        rows
    }

    fn findings(rows: &[Row]) -> Vec<(&str, &str)> {
        let of = |row| {
            let row: &Row = row;
            row.findings
                .iter()
                .map(|words| (row.device.as_str(), words.as_str()))
        };
        rows.iter().flat_map(of).collect()
    }

    #[test]
    fn a_slow_path_to_the_own_memory_is_found_and_a_long_path_is_not() {
        let healthy = rows(&[(0, [390.0, 300.0]), (0, [388.0, 310.0]), (1, [250.0, 391.0])]);
        assert_eq!(findings(&healthy), []);
        assert_eq!(exit_code(&healthy), 0);
        let slow = rows(&[(0, [200.0, 300.0]), (0, [388.0, 310.0]), (1, [250.0, 391.0])]);
        assert_eq!(
            findings(&slow),
            [
                (
                    "mlx5_0",
                    "200.00 Gb/s with the memory of its own node 0, 300.00 Gb/s with that of node 1"
                ),
                (
                    "mlx5_0",
                    "200.00 Gb/s with the memory of its own node 0, median of equal ports 391.00 Gb/s"
                ),
            ]
        );
        assert_eq!(exit_code(&slow), 1);
        let mut software = rows(&[(0, [200.0, 300.0])]);
        software[0].findings.clear();
        software[0].is_hardware = false;
        judge(&mut software);
        assert_eq!(findings(&software), []);
        assert_eq!(software[0].unjudged_because, Some(SOFTWARE));
        assert!(healthy.iter().all(|row| row.unjudged_because.is_none()));
    }

    #[test]
    fn the_table_marks_the_own_node_and_reports_what_failed() {
        let ports = rows(&[(1, [0.0, 391.0]), (0, [200.0, 300.0])]);
        assert_eq!(exit_code(&ports), 2);
        let matrix = Matrix {
            schema: 1,
            memory_nodes: vec![0, 1],
            ports,
        };
        let mut out = Vec::new();
        text(&mut anstream::StripStream::new(&mut out), &matrix).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "PORT      NUMA  MEMORY 0       MEMORY 1",
                "mlx5_0:1  1     failed         391.00 Gb/s *",
                "mlx5_1:1  0     200.00 Gb/s *  300.00 Gb/s",
            ]
        );
        assert!(
            lines[3].starts_with("failed: mlx5_0:1 with the memory of node 0: "),
            "{out}"
        );
        assert!(lines[4].starts_with("slow: mlx5_1:1 has 200.00 Gb/s"), "{out}");
    }
}
