//! `kubectl rdma-health snapshot NODE`: what the agent of one node reads, as one file.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::Args;
use rdma_health_config::NodeName;

use super::{ClusterArguments, answer::MAX_SNAPSHOT, ask_one};

/// What every Zstandard file begins with (RFC 8878).
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Name of the Node
    #[arg(value_name = "NODE")]
    node: NodeName,
    /// File to write; - is standard output [default: NODE.tar.zst]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArguments,
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let node = &arguments.node;
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
    let path = arguments
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{node}.tar.zst")));
    if path == Path::new("-") {
        let mut out = std::io::stdout().lock();
        out.write_all(&body)?;
        out.flush()?;
    } else {
        // A snapshot is read by its owner only, as that of `rdma-health snapshot` is.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
            file.write_all(&body)?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        anstream::eprintln!("{}: {} bytes", path.display(), body.len());
    }
    Ok(ExitCode::SUCCESS)
}
