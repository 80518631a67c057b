//! `kubectl rdma-health snapshot NODE`: what the agent of one node reads, as one file.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::bail;
use clap::Args;
use rdma_health_config::NodeName;

use super::{ClusterArguments, answer::MAX_SNAPSHOT, ask_one};
use crate::cli::file::{may_write, save};

/// What every Zstandard file begins with (RFC 8878).
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The agent reads the node for it, and gives up after ten seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// The agent replaces the names of the node and all addresses, GUIDs and GIDs in the file; equal values stay equal
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of the Node
    #[arg(value_name = "NODE")]
    node: NodeName,
    /// File to write; - is standard output [default: NODE.tar.zst]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) async fn run(mut arguments: Arguments) -> anyhow::Result<ExitCode> {
    arguments.cluster.timeout.get_or_insert(PATIENCE);
    let node = &arguments.node;
    let path = arguments
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{node}.tar.zst")));
    let is_output = path == Path::new("-");
    if !is_output {
        may_write(&path, arguments.force)?;
    }
    let body = ask_one(
        &arguments.cluster,
        node,
        rdma_health_report::SNAPSHOT,
        MAX_SNAPSHOT,
    )
    .await?;
    if !body.starts_with(&MAGIC) {
        bail!("{node}: the answer is not a snapshot; is the agent of another version?");
    }
    if is_output {
        let mut out = std::io::stdout().lock();
        out.write_all(&body)?;
        out.flush()?;
    } else {
        save(&path, &body, arguments.force)?;
        anstream::eprintln!(
            "{}: {} bytes, names and addresses replaced",
            path.display(),
            body.len()
        );
    }
    Ok(ExitCode::SUCCESS)
}
