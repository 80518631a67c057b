//! `rdma-health copy`: this program to a volume, from an image that has no `cp`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Directory to copy to, for example where a volume is mounted
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Copies the program, which other containers of the pod then run. A copy that is there is replaced as a whole, because another
/// container may run it.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let target = arguments.directory.join("rdma-health");
    copy(&own, &arguments.directory, &target)
        .with_context(|| format!("cannot write {}", target.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn copy(own: &Path, directory: &Path, target: &Path) -> anyhow::Result<()> {
    let temporary = tempfile::Builder::new()
        .prefix(".rdma-health-")
        .tempfile_in(directory)?;
    // With the permissions.
    fs::copy(own, temporary.path())?;
    temporary.persist(target)?;
    Ok(())
}
