//! `rdma-health devices`: one line for each port.

use std::{io::Write, process::ExitCode};

use clap::Args;
use rdma_health_report::devices;

use super::{Output, gather::SavedOrLive};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    node: SavedOrLive,
    /// Format of the list
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

/// Lists the ports. Nothing is judged.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let node = arguments.node.read()?;
    let mut out = super::output::stdout();
    match arguments.output {
        Output::Text => devices::text(&mut out, &node)?,
        Output::Json => devices::json(&mut out, &node)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
