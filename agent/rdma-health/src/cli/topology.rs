//! `rdma-health topology`: the PCIe paths between GPUs and NICs.

use std::{io::Write, process::ExitCode};

use clap::{Args, ValueEnum};
use rdma_health_report::topology;

use super::gather::SavedOrLive;

/// Format of the topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A matrix in the layout of nvidia-smi topo -m
    Text,
    /// For programs
    Json,
    /// A drawing for a browser
    Svg,
}

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    node: SavedOrLive,
    /// Format of the topology
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

/// Shows the topology. Nothing is judged.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let node = arguments.node.read()?;
    let mut out = super::output::stdout();
    match arguments.output {
        Format::Text => topology::text(&mut out, &node)?,
        Format::Json => topology::json(&mut out, &node)?,
        Format::Svg => out.write_all(topology::svg(&node).as_bytes())?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
